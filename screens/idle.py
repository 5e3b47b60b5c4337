"""What stands in an empty conversation: the folder, where to begin, and what was done here last. Pure.

Invariant: only what the runtime told is shown, and a part that has nothing to say is not drawn.
"""

from datetime import datetime

from fluzo.core.outcome import count

from .keys import Registry
from .state import Earlier, State
from .text import Line, cells, drawable, shorten, shorten_path

HINTED_TASKS = 3
"""Tasks in this folder from which on nobody needs to be told how one begins."""
_WEEK_DAYS = 7
_KILO = 1000
_TITLE = 48
EXAMPLE = "README.md"


def idle_rows(state: State, registry: Registry, width: int, now: datetime, *, example: bool, demo: str) -> list[Line]:
    """The rows. `now` has a time zone, in which times are told; `example` says that the folder has a README.md."""
    rows: list[Line] = [[], *_facts(state, width)]
    if state.earlier.tasks < HINTED_TASKS:
        rows += [[], [("class:text.strong", "Try")]]
        rows += [
            [("class:accent.primary", f"  {left:<24}"), ("class:text.muted", right)]
            for left, right in _hints(state, registry, example)
        ]
    if state.earlier.title:
        rows += [[], [("class:text.muted", _last(state.earlier, width, now))]]
    if demo:
        rows += [[], [("class:text.muted", demo)]]
    return rows


def failure_rows(message: str, code: str, hint: str, width: int) -> list[Line]:
    """Why the runtime could not be opened, and what can be done about it."""
    from .render import wrapped

    rows: list[Line] = [[("class:state.blocked", f"! Fluzo cannot begin here.  [{code}]")], []]
    rows += wrapped(message, max(width, 20), "class:text.primary")
    if hint:
        rows += [[], *wrapped(hint, max(width, 20), "class:text.muted")]
    rows += [
        [],
        [("class:text.muted", "Nothing was started and nothing was changed. /retry tries again, /config edits")],
    ]
    rows += [[("class:text.muted", ".fluzo in your editor, Ctrl+C twice leaves. What you type here is kept.")]]
    return rows


def _facts(state: State, width: int) -> list[Line]:
    parts = [shorten_path(drawable(state.folder), width)]
    if state.phase == "ready" and state.model:
        parts.append(".fluzo read")
    parts += [f"{drawable(name)} {size_text(size)}" for name, size in state.instructions]
    if state.own_changes:
        # Whose they are the folder cannot tell: an earlier task may have left some.
        parts.append(count(state.own_changes, "uncommitted change", "uncommitted changes"))
    texts = [""]
    for part in parts:
        joined = f"{texts[-1]}  {part}" if texts[-1] else part
        texts = [*texts[:-1], joined] if cells(joined) <= width else [*texts, part]
    if state.checks:
        texts.append(shorten(f"checks: {', '.join(drawable(name) for name, _ in state.checks)}", width))
    return [[("class:text.muted", text)] for text in texts]


def _hints(state: State, registry: Registry, example: bool) -> list[tuple[str, str]]:
    hints = [
        (f"explain @{EXAMPLE}" if example else "@", "mention a file"),
        (registry.key("palette"), "every command"),
        (registry.actions["tasks"].slash, "running, queued, done"),
    ]
    earlier = state.earlier
    if earlier.sessions:
        number = f"{earlier.sessions}{' or more' if earlier.more else ''}"
        hints.append((registry.actions["sessions"].slash, f"earlier work ({number} here)"))
    return hints


def _last(earlier: Earlier, width: int, now: datetime) -> str:
    title = shorten(" ".join(drawable(earlier.title).split()), min(_TITLE, width - 40))
    return f'Last here: "{title}", {when_text(earlier.at, now)}, {earlier.word}.'


def size_text(size_bytes: int) -> str:
    """A size in bytes as people read it: 640 B, 2.1 kB."""
    return f"{size_bytes / _KILO:.1f} kB" if size_bytes >= _KILO else f"{size_bytes} B"


def when_text(at: str, now: datetime) -> str:
    """A recorded instant as it is called now, in the time zone of `now`: `yesterday 18:20`, `Mon 11:05`, `2 Nov`."""
    then = datetime.fromisoformat(at.replace("Z", "+00:00")).astimezone(now.tzinfo)
    days = (now.date() - then.date()).days
    if 0 <= days < _WEEK_DAYS:
        day = {0: "today", 1: "yesterday"}.get(days, f"{then:%a}")
        return f"{day} {then:%H:%M}"
    return f"{then.day} {then:%b}" if then.year == now.year else f"{then.day} {then:%b %Y}"
