"""What is selected in the conversation: a range of source text, found from the cells that were pointed at. Pure.

Invariant: a selection is two places in the sources of blocks, so it stays on its text while more arrives, the screen is
resized or rows are opened; and what is copied is that source from the one place to the other, nothing else.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from .blocks import Blocks
from .render import source_of
from .text import Line, SourceRow, cells, clusters

_WORD = re.compile(r"\S+")
_NAME = re.compile(r"[\w./@~+-]+")
AHEAD = 200
"""How far in the source the next drawn word is looked for; what lies between is markup that is not drawn."""


class Place(NamedTuple):
    """A position in a block's source."""

    key: int
    offset: int


class Selection(NamedTuple):
    """From one place up to another; `start` is never after `end`."""

    start: Place
    end: Place


class Shown(NamedTuple):
    """One row's characters: where each stands in the source, -1 for decoration. `first` and `last` say whether the row
    begins and ends its part of the source."""

    places: tuple[int, ...]
    start: int
    end: int
    lead: int
    first: bool
    last: bool


def shown_rows(rows: Sequence[Line], source: str) -> list[Shown | None]:
    """What each row of a block shows of its source; None for a row that is decoration alone."""
    found: list[Shown | None] = []
    at = -1
    for number, row in enumerate(rows):
        if not isinstance(row, SourceRow):
            found.append(None)
            continue
        before, after = _same(rows, number, -1), _same(rows, number, 1)
        at = at if before else row.start
        text = "".join(part for _, part in row)
        places, at = _aligned(text, max(row.lead, 0), source, at, row.end)
        found.append(Shown(tuple(places), row.start, row.end, row.lead, not before, not after))
    return found


def _same(rows: Sequence[Line], number: int, step: int) -> bool:
    row, other = rows[number], rows[number + step] if 0 <= number + step < len(rows) else None
    if not isinstance(row, SourceRow) or not isinstance(other, SourceRow):
        return False
    return (row.start, row.end) == (other.start, other.end)


def _aligned(text: str, lead: int, source: str, at: int, end: int) -> tuple[list[int], int]:
    """Where each character of a drawn row stands in the source, looked for from `at` on, and where the next row goes
    on. Words are found whole, else by their characters; what is not found is decoration."""
    places = [-1] * len(text)
    for match in _WORD.finditer(text, lead):
        found = source.find(match[0], at, min(at + AHEAD + len(match[0]), end))
        if found >= 0:
            places[match.start() : match.end()] = range(found, found + len(match[0]))
            at = found + len(match[0])
            continue
        for number in range(match.start(), match.end()):
            found = source.find(text[number], at, min(at + 8, end))
            if found >= 0:
                places[number], at = found, found + 1
    # Blanks between two words that follow each other belong to what is between them.
    for number in range(lead + 1, len(text)):
        before = places[number - 1]
        if places[number] < 0 and text[number] == " " and 0 <= before + 1 < end and source[before + 1].isspace():
            places[number] = before + 1 if before >= 0 else -1
    return places, at


# --- from cells to places -------------------------------------------------------------------------------------


def character_at(row: Line, column: int) -> int:
    """The number of the character in a cell of the row, or of its end for a cell after it."""
    used, number = 0, 0
    for _, part in row:
        for char in part:
            used += cells(char)
            if used > column:
                return number
            number += 1
    return number


def place_before(shown: Shown, number: int) -> int:
    """The place where a selection that begins at this character begins."""
    if shown.lead < 0 or (shown.first and number <= shown.lead):
        return shown.start
    following = (place for place in shown.places[number:] if place >= 0)
    return next(following, shown.end if shown.last else _reached(shown, len(shown.places), ""))


def place_after(shown: Shown, number: int, source: str) -> int:
    """The place where a selection that ends with this character ends."""
    drawn = [index for index, place in enumerate(shown.places) if place >= 0]
    if shown.lead < 0 or (shown.last and drawn and number >= drawn[-1]):
        return shown.end
    return _reached(shown, number + 1, source)


def _reached(shown: Shown, stop: int, source: str) -> int:
    before = [place for place in shown.places[:stop] if place >= 0]
    if not before:
        return shown.start if shown.first else min((place for place in shown.places if place >= 0), default=shown.end)
    # A character that is drawn alone stands for the whole cluster, with what terminals cannot draw.
    cluster = clusters(source[before[-1] : before[-1] + 32])
    return before[-1] + (len(cluster[0]) if cluster else 1)


def selected_characters(shown: Shown, key: int, selection: Selection) -> tuple[int, int]:
    """The characters of a row that are selected, from one up to another; equal ones for none."""
    start = selection.start.offset if selection.start.key == key else 0 if selection.start.key < key else shown.end + 1
    end = selection.end.offset if selection.end.key == key else shown.end + 1 if selection.end.key > key else -1
    if shown.lead < 0:
        whole = start < shown.end and end > shown.start
        return (0, len(shown.places)) if whole else (0, 0)
    chosen = [number for number, place in enumerate(shown.places) if start <= place < end]
    return (chosen[0], chosen[-1] + 1) if chosen else (0, 0)


# --- selections -----------------------------------------------------------------------------------------------


def ordered(one: Selection, other: Selection) -> Selection:
    """Everything from the one to the other, whichever comes first."""
    return Selection(min(one.start, other.start), max(one.end, other.end))


def word_around(source: str, key: int, offset: int) -> Selection:
    """The word at a place: a name or a path whole, else one character."""
    for match in _NAME.finditer(source, max(source.rfind("\n", 0, offset), 0)):
        if match.start() <= offset < match.end():
            return Selection(Place(key, match.start()), Place(key, match.end()))
        if match.start() > offset:
            break
    return Selection(Place(key, offset), Place(key, min(offset + 1, len(source))))


def line_around(source: str, key: int, offset: int) -> Selection:
    """The line of the source at a place, without its end."""
    start = source.rfind("\n", 0, offset) + 1
    end = source.find("\n", offset)
    return Selection(Place(key, start), Place(key, len(source) if end < 0 else end))


def text_of(blocks: Blocks, selection: Selection) -> str:
    """The source from the one place to the other; whole blocks between them, a blank line between blocks of prose."""
    found = ""
    before = ""
    for key in range(selection.start.key, selection.end.key + 1):
        block = blocks.get(key)
        if block is None:
            continue
        source = source_of(block)
        start = selection.start.offset if key == selection.start.key else 0
        end = selection.end.offset if key == selection.end.key else len(source)
        rows = block.kind == "tool" and before == "tool"
        found += ("" if not before else "\n" if rows else "\n\n") + source[start:end]
        before = block.kind
    return found
