"""The rows of one changed file, unified or split, wrapped or cut: laid out at once, drawn only where looked at.

Invariant: both halves of a pair have the same height, and no row is wider than the page.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, overload

from .diff_text import File, Hunk, Row, changed_spans, pairs_of, shown
from .sheet import fitted
from .text import Line, cells, cut_line, rows_of

HALF = 56
"""Columns that each half of a split has at least, unless it was asked for."""
_UNIFIED, _SPLIT = 13, 8
"""Columns before the text: numbers, sign, and what parts them."""
_OWN = "you "
"""In the gutter of a line that the user had changed before the task; where none is, it takes no room."""
_GUTTER, _MUTED = "class:diff.gutter", "class:text.muted"
_STYLES = {"+": "class:diff.add.fg class:diff.add.bg", "-": "class:diff.del.fg class:diff.del.bg", "\\": _MUTED}
_WORDS = {"+": " class:diff.add.word", "-": " class:diff.del.word"}


class Look(NamedTuple):
    """How it is looked at: the page's width in cells, and `left` columns scrolled away where nothing is wrapped."""

    width: int
    split: bool
    wrap: bool
    left: int
    bar: str = "|"
    own: File | None = None
    """The file, where lines of it are marked as the user's."""


class Spec(NamedTuple):
    """One row to draw. `part` is which row of a wrapped line it is."""

    kind: str
    text: str = ""
    old: Row | None = None
    new: Row | None = None
    part: int = 0


def fits_split(width: int) -> bool:
    return half_of(width) >= HALF


def half_of(width: int) -> int:
    return (width - 1) // 2


def _page(look: Look) -> int:
    """Columns that are left for numbers and text."""
    return look.width - (len(_OWN) if look.own is not None else 0)


class Rows(Sequence[Line]):
    """Rows by number, and the places of the hunks in them. `current` is asked which hunk is the lit one."""

    def __init__(self, specs: Sequence[Spec], hunks: Sequence[int], look: Look) -> None:
        self.specs = specs
        self.hunks = hunks
        self._look = look
        self.lit = 0

    def __len__(self) -> int:
        return len(self.specs)

    @overload
    def __getitem__(self, index: int) -> Line: ...

    @overload
    def __getitem__(self, index: slice) -> list[Line]: ...

    def __getitem__(self, index: int | slice) -> Line | list[Line]:
        if isinstance(index, slice):
            return [self._drawn(number) for number in range(*index.indices(len(self.specs)))]
        return self._drawn(index)

    def _drawn(self, number: int) -> Line:
        spec, lit = self.specs[number], self.lit
        if spec.kind == "hunk":
            here = lit < len(self.hunks) and self.hunks[lit] == number
            return [("class:border.focus", "> " if here else "  "), ("class:diff.hunk", spec.text)]
        if spec.kind == "fold":
            here = lit < len(self.hunks) and self.hunks[lit] == number + 1
            return [(_MUTED, f"  : {spec.text}{'  (Enter shows them)' if here else ''}")]
        if spec.kind in ("note", "warn"):
            return [("class:warn.fg" if spec.kind == "warn" else _MUTED, spec.text)]
        line = _pair(spec, self._look) if self._look.split else _single(spec, self._look)
        return [*_own_mark(spec, self._look), *line]


def lay(
    hunks: Sequence[Hunk],
    notes: Sequence[str],
    warnings: Sequence[str],
    unfolded: Mapping[int, Sequence[str]],
    look: Look,
) -> Rows:
    """The rows of a file. `unfolded` holds the unchanged lines before a hunk, where they were asked for."""
    specs = [Spec("warn", text) for text in warnings] + [Spec("note", text) for text in notes]
    places: list[int] = []
    line = 1
    for number, hunk in enumerate(hunks):
        between = hunk.start - line if hunk.head and hunk.start else 0
        if number in unfolded:
            shift = hunk.old - hunk.start
            rows = [Row(line + n + shift, line + n, " ", text) for n, text in enumerate(unfolded[number])]
            specs += [spec for row in rows for spec in _specs(row, row, look)]
        elif between > 0:
            specs.append(Spec("fold", f"{between} unchanged line{'' if between == 1 else 's'}"))
        places.append(len(specs))
        specs.append(Spec("hunk", hunk.head or "lines without numbers, as the edit gave them"))
        line = hunk.end
        if look.split:
            specs += [spec for old, new in pairs_of(hunk.rows) for spec in _specs(old, new, look)]
        else:
            specs += [spec for old, new in _unified(hunk.rows) for spec in _specs(old, new, look)]
    return Rows(specs, places, look)


def _unified(rows: Sequence[Row]) -> list[tuple[Row | None, Row | None]]:
    """Each row by itself in the order of the diff; a changed one keeps its partner, for the marks of its words."""
    partners: dict[Row, Row] = {}
    for old, new in pairs_of(rows):
        if old is not None and new is not None and old is not new:
            partners[old], partners[new] = new, old
    return [(row, partners.get(row)) for row in rows]


def _specs(old: Row | None, new: Row | None, look: Look) -> list[Spec]:
    if not look.wrap:
        return [Spec("row", "", old, new)]
    sides = (old, new) if look.split else (old,)
    width = _text_width(look)
    height = max(len(rows_of(shown(row.text), width)) for row in sides if row is not None)
    return [Spec("row", "", old, new, part) for part in range(height)]


def _text_width(look: Look) -> int:
    return max(half_of(_page(look)) - _SPLIT if look.split else _page(look) - _UNIFIED, 8)


# --- drawing --------------------------------------------------------------------------------------------------


def _own_mark(spec: Spec, look: Look) -> Line:
    if look.own is None:
        return []
    # Of a unified row `new` is only its partner; in a split both halves are shown.
    sides = (spec.old, spec.new) if look.split else (spec.old,)
    is_own = any(row is not None and look.own.is_own(row) for row in sides)
    return [("class:warn.fg", _OWN)] if is_own and spec.part == 0 else [("", " " * len(_OWN))]


def _single(spec: Spec, look: Look) -> Line:
    row = spec.old
    assert row is not None
    first = spec.part == 0
    left, right = (f"{number or '':>5}" if first else " " * 5 for number in (row.old, row.new))
    text = _text(row, spec.new, spec.part, look)
    return [(_GUTTER, f"{left}{right} "), (_style(row), f"{row.mark if first else ' '} "), *text]


def _pair(spec: Spec, look: Look) -> Line:
    half = half_of(_page(look))
    old, new = spec.old, spec.new
    left = _side(old, new, old.old if old is not None else 0, spec.part, look)
    right = _side(new, old, new.new if new is not None else 0, spec.part, look)
    return [*_filled(left, half, old), ("class:border.idle", look.bar), *right]


def _side(row: Row | None, other: Row | None, number: int, part: int, look: Look) -> Line:
    if row is None:
        return []
    first = part == 0
    head: Line = [(_GUTTER, f"{number or '':>5} " if first else " " * 6)]
    return [*head, (_style(row), f"{row.mark if first else ' '} "), *_text(row, other, part, look)]


def _filled(line: Line, width: int, row: Row | None) -> Line:
    gap = width - sum(cells(part) for _, part in line)
    style = _style(row) if row is not None and row.mark in _WORDS else ""
    return [*line, (style, " " * max(gap, 0))]


def _style(row: Row) -> str:
    return _STYLES.get(row.mark, "class:text.primary")


def _text(row: Row, other: Row | None, part: int, look: Look) -> Line:
    """One row of a line's text, with the words marked that its partner has not."""
    text, width = shown(row.text), _text_width(look)
    line: Line = [(_style(row), text)]
    if other is not None and {row.mark, other.mark} == {"+", "-"}:
        old, new = (row, other) if row.mark == "-" else (other, row)
        spans = _marked(shown(old.text), shown(new.text))[0 if row.mark == "-" else 1]
        line = _with_words(text, spans, _style(row), _WORDS[row.mark])
    if not look.wrap:
        return fitted(line, look.left, width)
    rows = rows_of(text, width)
    return cut_line(line, *rows[part]) if part < len(rows) else []


@lru_cache(maxsize=2048)
def _marked(old: str, new: str) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    return changed_spans(old, new)


def _with_words(text: str, spans: Sequence[tuple[int, int]], style: str, word: str) -> Line:
    found: Line = []
    at = 0
    for start, end in spans:
        found += [(style, text[at:start]), (style + word, text[start:end])]
        at = end
    return [*found, (style, text[at:])]
