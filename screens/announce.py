"""What becomes a notice, and what may leave the screen: the end of a task, a wait for the person, a failure.

Invariant: a desktop notification is sent only when the person wants them, the terminal reports focus, and it says that
nobody looks; it holds the state and the name of the program, never a prompt, a command, a path or code.
"""

from collections.abc import Mapping
from typing import NamedTuple

from prompt_toolkit.output import Output

from .chrome import context_warns, percent
from .notice import Level
from .rows import clock
from .state import State

_WORDS = {"completed": "done", "failed": "failed", "blocked": "blocked", "waiting": "waiting for you"}
_LEVELS: Mapping[str, Level] = {"completed": "done", "failed": "error", "blocked": "warn", "waiting": "warn"}
_TERMINALS = {"WezTerm": 777, "ghostty": 777, "iTerm.app": 9, "kitty": 99}


class Announcement(NamedTuple):
    id: str
    level: Level
    title: str
    text: str
    desktop: str
    """What a desktop notification would say; nothing of the task's content."""


def announcement(before: State, after: State, now: float) -> Announcement | None:
    """What the person should hear of between two states; the state stays where it is shown in any case."""
    task, old = after.task, before.task
    if task is None or after.word == before.word or after.word not in _WORDS:
        return None
    same = old is not None and old.id == task.id
    if not same and after.word != "waiting":
        return None
    word = _WORDS[after.word]
    title = " ".join(task.text.split())[:60] or "Task"
    detail = task.reason.replace("_", " ") if after.word in ("failed", "blocked") else clock(now - task.since)
    # A second wait in the same turn is about something else.
    name = f"{task.id}:{after.word}:{task.state_since}"
    return Announcement(name, _LEVELS[after.word], f"{title}: {word}", detail, f"Fluzo: {word}")


def context_notice(before: State, after: State) -> tuple[str, str] | None:
    """Title and text when the context has just come near the threshold of compaction (S9); once for each time."""
    if context_warns(before) or not context_warns(after) or not after.context_window:
        return None
    at = 100 * after.compacts_at // after.context_window
    return f"context at {percent(after)}", f"compaction starts at {at}%"


def can_notify(environ: Mapping[str, str]) -> bool:
    """Whether this is a terminal that is known to show desktop notifications."""
    return _kind(environ) is not None


def _kind(environ: Mapping[str, str]) -> int | None:
    program = environ.get("TERM_PROGRAM", "") or ("kitty" if "KITTY_WINDOW_ID" in environ else "")
    return None if environ.get("TMUX") else _TERMINALS.get(program)


def notify_desktop(text: str, output: Output, environ: Mapping[str, str]) -> bool:
    """Send one desktop notification by the terminal, where it is one that is known to; whether it was sent."""
    kind = _kind(environ)
    if kind is None:
        return False
    body = {9: f"9;{text}", 99: f"99;;{text}", 777: f"777;notify;Fluzo;{text}"}[kind]
    output.write_raw(f"\x1b]{body}\x1b\\")
    output.flush()
    return True
