"""Tool rows in words: verb, object and figures of an operation, from what the runtime recorded of it. Pure."""

import difflib
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from fluzo.core.outcome import count, outcome_words, verb_of

from .blocks import Tool
from .sanitize import clean, visible_text

_THOUSAND = 1000
_MINUTE = 60
_SUBJECT_CHARACTERS = 4000
_DIFF_CHARACTERS = 200_000
_ENDED = re.compile(r"exit -?\d+ after|timed out after|cancelled after|ended ")
"""The first line of a process's result, as the `run` tool words it for the model."""


def subject_of(text: str, facts: str = "") -> str:
    """The object of an operation in one row; the figures that end a change's summary belong to the facts."""
    shown = visible_text(text[:_SUBJECT_CHARACTERS])
    return shown.removesuffix(facts).rstrip() if facts else shown


def command_text(argv: Iterable[object]) -> str:
    """An argument vector quoted as a shell would need it, with nothing in it hidden."""
    return visible_text(shlex.join(str(part) for part in argv))


def facts_of(result: Mapping[str, Any]) -> str:
    """The figures of a result in the fewest words."""
    return "  ".join(visible_text(word) for word in outcome_words(result, seconds))


def cut_of(result: Mapping[str, Any], *, kept: bool) -> str:
    """Why a command's output is not whole here, or nothing. `kept` says that what the model did not get is stored."""
    printed = result.get("output_bytes")
    if not isinstance(printed, int) or not (kept or result.get("truncated")):
        return ""
    why = "more than is kept; its middle is lost" if result.get("truncated") else "more than the model is given"
    return f"{size(printed)} printed, {why}"


def state_of(ok: bool, result: Mapping[str, Any]) -> str:
    """A failing test is a finding: the row fails, so that it opens, but it is not an error of the tool."""
    return "completed" if ok else "cancelled" if result.get("cancelled") else "failed"


def history_row(call: Mapping[str, Any], result: Mapping[str, Any] | None) -> tuple[str, Tool]:
    """State and row of a recorded call; without a recorded result its outcome is unknown."""
    name = str(call["name"])
    tool = Tool("", str(call["id"]), name, verb_of(name, "execute" if name == "run" else ""), call_subject(call))
    if result is None:
        return "unknown", tool._replace(facts="outcome unknown; not run again")
    output, tool = str(result["text"]), tool._replace(diff=call_diff(call))
    head, _, rest = output.partition("\n")
    if name == "run" and _ENDED.match(head):
        return ("completed" if head.startswith("exit 0 ") else "failed"), tool._replace(facts=head, output=clean(rest))
    return ("failed" if output.startswith("error:") else "completed"), tool._replace(output=clean(output))


def call_subject(call: Mapping[str, Any]) -> str:
    """What a recorded call was about, from its arguments, which may be anything."""
    arguments = _arguments(call)
    if arguments is None:
        return "(arguments that could not be read)"
    argv = arguments.get("argv")
    if isinstance(argv, list):
        return command_text(argv)
    if isinstance(arguments.get("target"), str):
        return subject_of(f"{arguments.get('source')} -> {arguments['target']}")
    for key in ("pattern", "path", "script", "question", "subcommand"):
        if isinstance(value := arguments.get(key), str):
            return subject_of(value)
    return ""


def call_diff(call: Mapping[str, Any]) -> str:
    """What an edit or a write replaces by what, as `+`, `-` and ` ` lines; empty for every other call."""
    arguments = _arguments(call) or {}
    old, new = arguments.get("old_text"), arguments.get("new_text", arguments.get("content"))
    if not isinstance(new, str) or len(new) + len(str(old or "")) > _DIFF_CHARACTERS:
        return ""
    before = old.splitlines() if isinstance(old, str) else []
    after, rows = new.splitlines(), []
    for kind, a, a_end, b, b_end in difflib.SequenceMatcher(None, before, after).get_opcodes():
        if kind == "equal":
            rows += [f" {line}" for line in before[a:a_end]]
        else:
            rows += [f"-{line}" for line in before[a:a_end]] + [f"+{line}" for line in after[b:b_end]]
    return "\n".join(rows)


def _arguments(call: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        arguments = json.loads(call["arguments"] or "{}")
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


# --- figures --------------------------------------------------------------------------------------------------


def size(number: int) -> str:
    """A count of bytes: 940 bytes, 9.1 kB, 3.2 MB."""
    if number < _THOUSAND:
        return count(number, "byte", "bytes")
    if number < _THOUSAND * _THOUSAND:
        return f"{number / _THOUSAND:.1f} kB"
    return f"{number / _THOUSAND / _THOUSAND:.1f} MB"


def seconds(value: float) -> str:
    """A measured duration: milliseconds below one second, then tenths."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s" if value < _MINUTE else clock(value)


def between(begin: str, end: str) -> str:
    """The time from one event to another; nothing where one is not known, or the clock was set back."""
    try:
        took = (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    except ValueError:
        return ""
    return seconds(took) if took >= 0 else ""


def clock(value: float) -> str:
    """A running duration as 00:09 or 1:02:03."""
    whole = int(value)
    minutes, rest = divmod(whole, _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def thousands(number: float) -> str:
    """A count in at most five characters: 940, 18.2k, 200k, 1.2M."""
    if number < _THOUSAND:
        return f"{number:.0f}"
    if number < _THOUSAND * _THOUSAND:
        return f"{number / _THOUSAND:.1f}".removesuffix(".0") + "k"
    return f"{number / _THOUSAND / _THOUSAND:.1f}".removesuffix(".0") + "M"


def change_facts(changes: Sequence[Mapping[str, Any]]) -> str:
    """`2 files +22 -2` of a result's changes."""
    added = sum(int(change.get("added") or 0) for change in changes)
    removed = sum(int(change.get("removed") or 0) for change in changes)
    return f"{count(len(changes), 'file', 'files')} +{added} -{removed}" if changes else "no files changed"
