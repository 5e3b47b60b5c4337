"""An operation in the words of every front end: what it did, and how it came out. Pure.

Invariant: what a tool or a file wrote is handed on as it is; who shows it makes it printable.
"""

from collections.abc import Callable, Mapping
from typing import Any

_ACTIONS = {"git_read": "git", "git_commit": "git", "git_push": "git", "execute": "run", "ask": "ask", "plan": "plan"}
_TOOLS = {
    "read_file": "read",
    "list_files": "list",
    "edit_file": "edit",
    "write_file": "write",
    "delete_file": "delete",
    "move_file": "move",
    "ask_user": "ask",
    "update_plan": "plan",
}
_HOW_ENDED = {
    "terminated": ("ended after SIGTERM",),
    "killed": ("killed",),
    "uncertain": ("whether it ended is not known",),
}
CHANGES = ("edit", "write", "delete", "move")
"""The actions and verbs that change files."""


def verb_of(tool: str, action: str) -> str:
    """The verb of an operation. A call that could not be read did nothing; its tool says what it was about."""
    if action == "invalid" or (action == "plan" and tool != "update_plan"):
        action = ""
    return _ACTIONS.get(action) or action or _TOOLS.get(tool, tool) or "operation"


def outcome_words(result: Mapping[str, Any], duration: Callable[[float], str]) -> list[str]:
    """The figures of a result in the fewest words, each by itself."""
    if "exit_status" in result:
        return process_words(result, duration)
    if "lines_added" in result:
        return [f"+{result['lines_added']} -{result.get('lines_removed', 0)}"]
    for key, one in (("lines", "line"), ("entries", "entry"), ("hits", "hit")):
        if isinstance(number := result.get(key), int):
            return [count(number, one, key) + (", more exist" if result.get("truncated") else "")]
    message = result.get("message")
    return [message] if isinstance(message, str) else []


def process_words(result: Mapping[str, Any], duration: Callable[[float], str]) -> list[str]:
    """How a process ended, how long it took, and which of its children are still there."""
    if result.get("timed_out"):
        words = ["timed out"]
    elif result.get("cancelled"):
        words = ["cancelled", *_HOW_ENDED.get(str(result.get("termination")), ())]
    elif result.get("signal"):
        words = [f"signal {result['signal']}"]
    else:
        words = [f"exit {result.get('exit_status')}"]
    if isinstance(elapsed := result.get("elapsed_seconds"), int | float):
        words.append(duration(float(elapsed)))
    if running := result.get("still_running"):
        words.append(f"still running: {', '.join(map(str, running))}")
    return words


def count(number: int, one: str, many: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {one if number == 1 else many}"
