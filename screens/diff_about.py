"""What stands beside the lines of a diff: the list of files, the checks, and what the user had changed before. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from fluzo.core.outcome import CHANGES

from .changes import verdicts
from .diff_text import File, loose_file
from .sheet import column, safe
from .state import State
from .task_text import STYLES, check_rows
from .text import Line, cells, shorten_path

_MUTED, _PLAIN, _STRONG = "class:text.muted", "class:text.primary", "class:text.strong"
_STATUS = {"added": "class:ok.fg", "deleted": "class:state.failed"}
_NAME = 48
"""Columns that names of files are filled to at most; a longer one stands in full."""
_VERDICTS = {
    "unverified": "unverified: no checks are declared",
    "waived": "waived by you",
    "not_run": "not run",
    "stale": "stale: something changed after the checks passed",
}
YOU = "you"
"""Marks a file that the user had changed before the task."""


def running_files(state: State) -> list[File]:
    """The edits so far of a running task, each as the agent gave it."""
    found = []
    for block in state.blocks:
        tool = block.tool
        if tool is not None and block.task_id == state.task_id and tool.verb in CHANGES and tool.diff:
            note = "  ".join(part for part in (tool.verb, tool.facts, block.state) if part)
            found.append(loose_file(tool.subject, tool.diff, note))
    return found


def turn_files(state: State, task_id: str) -> tuple[int, list[File]]:
    """The number of the newest turn of a task that has edited a file, and its edits; 0 where none has."""
    turn, found = 0, []
    for block in state.blocks.reversed():
        tool = block.tool
        if tool is None or block.task_id != task_id or not tool.diff or tool.verb not in CHANGES:
            continue
        if block.state != "completed":
            continue
        turn = turn or block.turn
        if block.turn != turn:
            break
        note = f"{tool.verb} in turn {turn}, as it was given; what a command of the turn changed is told with the task"
        found.append(loose_file(tool.subject, tool.diff, note))
    return turn, found[::-1]


def file_rows(files: Sequence[File]) -> list[Line]:
    """The list of files; those that the user had changed before are told apart, and whose task each was."""
    rows: list[Line] = []
    several = len({file.task for file in files}) > 1
    room = min(max((cells(file.name) for file in files), default=0), _NAME)
    figures = [f"+{file.added} -{file.removed}" for file in files]
    longest = max(map(len, figures), default=0)
    for file, changed in zip(files, figures, strict=True):
        line: Line = [
            (_STATUS.get(file.status, _MUTED), f"{safe(file.status):<9}"),
            (_PLAIN, file.name + " " * (room - cells(file.name))),
            (_MUTED, f"  {changed:>{longest}}"),
        ]
        if file.yours:
            untouched = ", and not touched since" if file.untouched else ""
            line.append(("class:warn.fg", f"  {YOU}: changed before the task{untouched}"))
        if several:
            line.append((_MUTED, f"  of: {file.task}"))
        rows.append(line)
    return rows or [[(_MUTED, "No file was changed.")]]


def side_rows(files: Sequence[File], at: int, state: State, detail: Mapping[str, Any], width: int) -> list[Line]:
    """The narrow list at the left: files, checks, and the user's own earlier changes."""
    rows: list[Line] = []
    for number, file in enumerate(files):
        figures = f"{f'{YOU} ' if file.yours else ''}+{file.added} -{file.removed}"
        room = max(width - cells(figures) - 4, 6)
        style = "class:text.strong" if number == at else _PLAIN
        name = column(shorten_path(file.name, room), room)
        rows.append([(style, f" {'>' if number == at else ' '} {name} "), (_MUTED, figures)])
    task = detail.get("task") or {}
    checks = _checks(state, task)
    if checks:
        rows += [[], [(_STRONG, " checks")]]
        rows += [
            [(_PLAIN, f"   {column(name, max(width - 14, 6))} "), (STYLES.get(word, _MUTED), word)]
            for name, word in checks
        ]
    mine = own_paths(files, detail)
    if mine:
        rows += [[], [(_STRONG, " yours before the task")]]
        rows += [[(_PLAIN, f"   {shorten_path(path, max(width - 4, 6))}")] for path in mine]
    return rows


def warnings_of(file: File, *, marked: bool) -> list[str]:
    """What is told of the user's own earlier changes of a file; `marked` says that lines of it carry the mark."""
    if file.untouched:
        return ["changed by you before the task, and not touched since"]
    if not file.yours:
        return []
    if marked:
        return [f"lines marked {YOU} were changed by you before the task"]
    if file.own is not None:
        return ["you had changed other lines of this file before the task"]
    return ["you had changed this file before the task"]


def own_paths(files: Sequence[File], detail: Mapping[str, Any]) -> list[str]:
    """What the user had changed before the task began and the task left alone."""
    attempts = detail.get("attempts") or ()
    baseline = (attempts[0].get("baseline") or {}) if attempts else {}
    touched = {file.name for file in files}
    names = {safe(path) for path in baseline.get("versions") or {}}
    return sorted(names - touched)


def _checks(state: State, task: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Each check with a word: `passed` is current, `stale` passed before something changed."""
    found = verdicts((task.get("result") or {}).get("verification") or {})
    return state.checks if state.running or not found else found


def checks_line(state: State, task: Mapping[str, Any] | None, width: int) -> Line:
    """The checks in one row."""
    line: Line = [(_MUTED, " checks  ")]
    for name, word in _checks(state, task or {}):
        words = {"passed": "passed (current)", "stale": "passed (stale)"}.get(word, word)
        line += [(_PLAIN, f"{safe(name)} "), (STYLES.get(word, _MUTED), f"{words}   ")]
    return line if len(line) > 1 else [(_MUTED, f" checks  {_verdict(task or {}) or 'none are declared'}")]


def _verdict(task: Mapping[str, Any]) -> str:
    verification = (task.get("result") or {}).get("verification") or {}
    return _VERDICTS.get(str(verification.get("verdict")), "")


def checks_rows(state: State, task: Mapping[str, Any] | None, width: int) -> list[Line]:
    """Every declared check with its result, of a failed one the end of its output, and what the whole came to."""
    if state.running or not (task or {}).get("result"):
        rows: list[Line] = [
            [(STYLES.get(word, _MUTED), f"{word:<9}"), (_PLAIN, safe(name))] for name, word in state.checks
        ]
        return rows or [[(_MUTED, "No checks are declared.")]]
    found = check_rows((task or {})["result"].get("verification") or {}, width, task or {})
    word = _verdict(task or {})
    head: Line = [(_STRONG, "checks, when the task ended")]
    return [head, *([[("class:warn.fg", word)]] if word else []), *found]
