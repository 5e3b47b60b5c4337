"""A unified diff as rows with line numbers. Pure.

Invariant: inside a hunk the counts of its header say which row is which, so no line of a file can pass for a header;
control and bidi characters of a file are spelt out, never sent to the terminal.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .sanitize import visible_text
from .sheet import safe
from .text import TAB_COLUMNS, Line, drawable

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_FILE = "diff --git "
_GUTTER, _MUTED = "class:diff.gutter", "class:text.muted"
YOURS = "you had changed this file before the task"


class Rows(NamedTuple):
    """The rows, and where in them files and hunks begin."""

    rows: tuple[Line, ...] = ()
    files: tuple[int, ...] = ()
    hunks: tuple[int, ...] = ()


def diff_rows(diff: str, changes: Sequence[Mapping[str, Any]]) -> Rows:
    """The rows of a result's diff; files that were changed before the task began are marked as such."""
    yours = {str(change.get("path")) for change in changes if change.get("preexisting")}
    rows: list[Line] = []
    files: list[int] = []
    hunks: list[int] = []
    old = new = left = right = 0
    for line in diff.removesuffix("\n").split("\n") if diff else ():
        hunk = _HUNK.match(line)
        if (left > 0 or right > 0) and line[:1] in ("+", "-", " ", ""):
            mark = line[:1] or " "
            rows.append(_row(old, new, mark, line[1:]))
            old, left = (old, left) if mark == "+" else (old + 1, left - 1)
            new, right = (new, right) if mark == "-" else (new + 1, right - 1)
        elif hunk is not None:
            old, new = int(hunk[1]), int(hunk[3])
            left, right = int(hunk[2] or 1), int(hunk[4] or 1)
            hunks.append(len(rows))
            rows.append([("class:diff.hunk", shown(line))])
        elif line.startswith(_FILE):
            files.append(len(rows) + 1)
            rows += [[], _head(_path(line), yours)]
        elif not line.startswith(("--- ", "+++ ")):
            rows.append([(_MUTED, shown(line))])
    return Rows(tuple(rows), tuple(files), tuple(hunks))


def loose_rows(diff: str) -> Iterator[Line]:
    """Rows of `+`, `-` and ` ` lines without numbers, as a running edit has them."""
    for line in diff.split("\n"):
        yield [(_style(line[:1]), shown(line))]


def shown(text: str) -> str:
    """One line of a file as it can be drawn, with nothing in it hidden."""
    return drawable(visible_text(text.expandtabs(TAB_COLUMNS)))


def _style(mark: str) -> str:
    styles = {"+": "class:diff.add.fg class:diff.add.bg", "-": "class:diff.del.fg class:diff.del.bg"}
    return styles.get(mark, "class:text.primary")


def _row(old: int, new: int, mark: str, text: str) -> Line:
    left = "" if mark == "+" else str(old)
    right = "" if mark == "-" else str(new)
    return [(_GUTTER, f"{left:>5}{right:>5} "), (_style(mark), f"{mark} {shown(text)}")]


def _path(line: str) -> str:
    """The path of `diff --git a/P b/P`; both sides name the same file, whatever is in its name."""
    names = line.removeprefix(_FILE)
    path = names[2 : 2 + (len(names) - 5) // 2]
    return path if names == f"a/{path} b/{path}" else names


def _head(path: str, yours: set[str]) -> Line:
    mark: Line = [("class:warn.fg", f"   {YOURS}")] if path in yours else []
    return [("class:text.strong", visible_text(path)), *mark]


def change_rows(changes: Sequence[Mapping[str, Any]]) -> list[Line]:
    """One row a changed file, those that the user had changed before told apart."""
    styles = {"added": "class:ok.fg", "deleted": "class:state.failed"}
    rows: list[Line] = []
    for change in changes:
        status = safe(change.get("status"))
        line: Line = [(styles.get(status, _MUTED), f"{status:<9}"), ("class:text.primary", safe(change.get("path")))]
        line.append((_MUTED, f"  +{change.get('added') or 0} -{change.get('removed') or 0}"))
        rows.append([*line, ("class:warn.fg", f"  {YOURS}")] if change.get("preexisting") else line)
    return rows
