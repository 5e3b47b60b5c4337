"""A unified diff in its parts: files, hunks, lines with their numbers, and what of two lines differs. Pure.

Invariant: inside a hunk the counts of its header say which line is which, so no line of a file can pass for a header;
control and bidi characters of a file are spelt out, never sent to the terminal.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from .sanitize import visible_text
from .text import TAB_COLUMNS, drawable

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_FILE = "diff --git "
_ESCAPED = re.compile(r'\\([abtnvfr"\\]|[0-7]{3})')
_PLAIN = dict(zip('abtnvfr"\\', '\a\b\t\n\v\f\r"\\', strict=True))
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
MAX_MARKED = 400
"""Characters of a line up to which its changed words are marked."""
_ALIKE = 0.3
"""Two lines less alike than this have no words in common worth telling apart."""

Span = tuple[int, int]


class Row(NamedTuple):
    """One line of a hunk; a side that does not have it has number 0, as have both where no numbers are known."""

    old: int
    new: int
    mark: str
    text: str


class Hunk(NamedTuple):
    """`start` is its first line in the new file, `end` the first one after it, `old` its first line in the old file."""

    head: str
    old: int
    start: int
    end: int
    rows: tuple[Row, ...]
    source: tuple[str, ...]


class File(NamedTuple):
    """One changed file. `lines` is its part of the diff as it came, `notes` what is told of it in a row.

    `yours` says that the user had changed it before, `own` which lines of its old side those are (None: not known), or
    `own_new` of its new one, and `untouched` that nobody else has changed it since, so that every difference is theirs.
    """

    path: str
    status: str = ""
    added: int = 0
    removed: int = 0
    yours: bool = False
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    task: str = ""
    own: tuple[Span, ...] | None = None
    own_new: tuple[Span, ...] = ()
    untouched: bool = False

    @property
    def name(self) -> str:
        return visible_text(self.path)

    def is_own(self, row: Row) -> bool:
        """Whether the user had changed this line before the task, as far as that is known."""
        if self.untouched:
            return row.mark in ("+", "-")
        if row.mark == "+":
            return any(first <= row.new <= last for first, last in self.own_new)
        return row.old > 0 and any(first <= row.old <= last for first, last in self.own or ())


def files_of(diff: str, changes: Sequence[Mapping[str, Any]], task: str = "", *, cut: bool = False) -> list[File]:
    """The files of a result, each with its part of the diff, which is not all there when it was `cut`."""
    parts = dict(_parts(diff))
    found = []
    for change in changes:
        path = str(change.get("path"))
        lines = parts.pop(path, ())
        notes = tuple(_notes(lines))
        if not lines and cut:
            notes = ("The diff was too large to be kept whole; see: git diff",)
        elif not hunks_of(lines) and not notes:
            notes = ("No line of it differs.",)
        numbers = int(change.get("added") or 0), int(change.get("removed") or 0)
        yours = bool(change.get("preexisting"))
        stretches = change.get("own_lines")
        own = None if stretches is None else tuple((int(first), int(last)) for first, last in stretches)
        status, untouched = str(change.get("status") or ""), bool(change.get("untouched"))
        own_new = tuple(change.get("own_new") or ())
        found.append(File(path, status, *numbers, yours, lines, notes, task, own, own_new, untouched))
    return found + [File(path, lines=lines, notes=tuple(_notes(lines)), task=task) for path, lines in parts.items()]


def loose_file(path: str, diff: str, note: str) -> File:
    """An edit of a running task: `+`, `-` and ` ` lines whose numbers nobody has told."""
    lines = tuple(diff.split("\n"))
    added, removed = (sum(line.startswith(mark) for line in lines) for mark in "+-")
    return File(path, "", added, removed, lines=lines, notes=(note,))


def _parts(diff: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each file's path and its lines."""
    path, lines = "", list[str]()
    left = right = 0
    for line in diff.removesuffix("\n").split("\n") if diff else ():
        if (left > 0 or right > 0) and line[:1] in ("+", "-", " ", ""):
            left -= line[:1] != "+"
            right -= line[:1] != "-"
        elif hunk := _HUNK.match(line):
            left, right = int(hunk[2] or 1), int(hunk[4] or 1)
        elif line.startswith(_FILE):
            if lines:
                yield path, tuple(lines)
            path, lines, left, right = _path(line), [], 0, 0
        lines.append(line)
    if lines:
        yield path, tuple(lines)


def _path(line: str) -> str:
    """The path of `diff --git a/P b/P`; of a renamed file the new one, as well as it can be told.

    Git quotes both when there is a control character in them.
    """
    names = line.removeprefix(_FILE)
    if names.startswith('"a/') and names.endswith('"'):
        quoted = names[3 : (len(names) - 1) // 2 - 1]
        return _ESCAPED.sub(lambda found: _PLAIN.get(found[1]) or chr(int(found[1], 8)), quoted)
    path = names[2 : 2 + (len(names) - 5) // 2]
    return path if names == f"a/{path} b/{path}" else names.rpartition(" b/")[2]


def _notes(lines: Sequence[str]) -> Iterator[str]:
    """Mode, rename and binary changes, each in one row."""
    head = []
    for line in lines[1:]:
        if _HUNK.match(line):
            break
        head.append(line)
    kinds = {key: line.removeprefix(f"{key} ") for line in head for key in _KINDS if line.startswith(f"{key} ")}
    if "old mode" in kinds:
        yield f"mode {kinds['old mode']} -> {kinds.get('new mode', '?')}"
    if "rename from" in kinds:
        yield f"renamed from {visible_text(kinds['rename from'])}"
    if "new file mode" in kinds:
        yield f"new file, mode {kinds['new file mode']}"
    if "deleted file mode" in kinds:
        yield "deleted"
    if any(line.startswith(("Binary file", "GIT binary patch")) for line in head):
        yield "binary; its bytes are not shown"
    # What Fluzo says itself in place of lines; no line of Git's own form begins so.
    yield from (visible_text(line[1:-1]) for line in head if line.startswith("(") and line.endswith(")"))


_KINDS = ("old mode", "new mode", "rename from", "new file mode", "deleted file mode")


def hunks_of(lines: Sequence[str]) -> list[Hunk]:
    """The hunks of one file's lines; lines without any header are one hunk without numbers."""
    starts = list(_hunk_starts(lines))
    if not starts:
        loose = tuple(Row(0, 0, line[:1] or " ", line[1:]) for line in lines if line[:1] in ("+", "-", " "))
        is_loose = bool(loose) and not lines[0].startswith(_FILE)
        return [Hunk("", 0, 0, 0, loose, tuple(lines))] if is_loose else []
    return [_hunk(lines[start:end]) for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]


def _hunk_starts(lines: Sequence[str]) -> Iterator[int]:
    left = right = 0
    for number, line in enumerate(lines):
        if (left > 0 or right > 0) and line[:1] in ("+", "-", " ", ""):
            left -= line[:1] != "+"
            right -= line[:1] != "-"
        elif hunk := _HUNK.match(line):
            left, right = int(hunk[2] or 1), int(hunk[4] or 1)
            yield number


def _hunk(lines: Sequence[str]) -> Hunk:
    found = _HUNK.match(lines[0])
    assert found is not None
    # Of a side without lines Git names the line before.
    old, new = int(found[1]) + (found[2] == "0"), int(found[3]) + (found[4] == "0")
    first, start = old, new
    rows: list[Row] = []
    for line in lines[1:]:
        mark = line[:1] or " "
        if mark not in "+- ":
            rows.append(Row(0, 0, "\\", line.removeprefix("\\ ")))
            continue
        rows.append(Row(old if mark != "+" else 0, new if mark != "-" else 0, mark, line[1:]))
        old += mark != "+"
        new += mark != "-"
    return Hunk(lines[0], first, start, new, tuple(rows), tuple(lines))


def carried(lines: Sequence[Span], hunks: Sequence[Hunk]) -> tuple[Span, ...]:
    """Where lines of the old side stand on the new one, as far as they are still there."""
    kept: list[tuple[int, int, int]] = [(1, 0, 0)]
    for first, last, by in _unchanged(hunks):
        begin, end, before = kept[-1]
        if (end + 1, before) == (first, by):
            kept[-1] = (begin, last, by)
        else:
            kept.append((first, last, by))
    parts = ((max(a, first), min(b, last), by) for a, b in lines for first, last, by in kept)
    return tuple((first + by, last + by) for first, last, by in parts if first <= last)


def _unchanged(hunks: Sequence[Hunk]) -> Iterator[tuple[int, int, int]]:
    """Stretches of the old side that the new one has as well, and by how many lines each has moved."""
    line, shift = 1, 0
    for hunk in hunks:
        yield line, hunk.old - 1, shift
        yield from ((row.old, row.old, row.new - row.old) for row in hunk.rows if row.mark == " ")
        line = hunk.old + sum(row.mark in (" ", "-") for row in hunk.rows)
        shift = hunk.end - line
    yield line, sys.maxsize, shift


def patch(file: File, hunk: Hunk) -> str:
    """One hunk as a patch that Git takes."""
    head = [line for line in file.lines if line.startswith((_FILE, "--- ", "+++ "))][:3] if hunk.head else []
    return "\n".join((*head, *hunk.source)) + "\n"


def pairs_of(rows: Sequence[Row]) -> Iterator[tuple[Row | None, Row | None]]:
    """Rows side by side: what is equal beside itself, what was removed beside what came in its place."""
    removed: list[Row] = []
    added: list[Row] = []
    for row in (*rows, None):
        if row is not None and row.mark == "-" and not added:
            removed.append(row)
        elif row is not None and row.mark == "+":
            added.append(row)
        else:
            for number in range(max(len(removed), len(added))):
                left = removed[number] if number < len(removed) else None
                yield left, added[number] if number < len(added) else None
            removed, added = [], []
            if row is not None and row.mark == "-":
                removed.append(row)
            elif row is not None:
                yield row, row


def changed_spans(old: str, new: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Where in each of two drawn lines the words differ; nothing where the lines have little in common."""
    if max(len(old), len(new)) > MAX_MARKED or not old.strip() or not new.strip():
        return (), ()
    left, right = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return (), ()
    places = [(i, j, k, m) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"]
    return _spans(left, [place[:2] for place in places]), _spans(right, [place[2:] for place in places])


def _spans(words: Sequence[str], places: Sequence[Span]) -> tuple[Span, ...]:
    ends = [0]
    for word in words:
        ends.append(ends[-1] + len(word))
    return tuple((ends[start], ends[end]) for start, end in places if start < end)


def shown(text: str) -> str:
    """One line of a file as it can be drawn, with nothing in it hidden."""
    return drawable(visible_text(text.expandtabs(TAB_COLUMNS)))
