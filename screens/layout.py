"""Where everything stands: a pure function from the terminal's size to rectangles (design rules R1 and R2).

Invariant: the composer and the status row are always on screen from 60x16 up; below that there is only the notice.
"""

from typing import Literal, NamedTuple

MIN_COLUMNS, MIN_ROWS = 60, 16
STANDARD_COLUMNS, STANDARD_ROWS = 112, 28
WIDE_COLUMNS, WIDE_ROWS = 150, 45
SIDEBAR, WIDE_SIDEBAR = 33, 41
MAX_COMPOSER_ROWS = 8
OFFERS_ROWS = 8
"""Rows of completions at once."""
OVERLAY_WIDTH, OVERLAY_ROWS = 56, 3
"""The render diagnostics over the conversation."""

SizeClass = Literal["too small", "compact", "standard", "wide"]


class Rect(NamedTuple):
    x: int
    y: int
    width: int
    height: int

    def overlaps(self, other: "Rect") -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


class Layout(NamedTuple):
    """`header` and `sidebar` have no area where they are not shown; the sidebar includes the rule at its left."""

    size: SizeClass
    columns: int
    rows: int
    header: Rect
    sidebar: Rect
    transcript: Rect
    card: Rect
    rule: Rect
    composer: Rect
    status: Rect


def size_class(columns: int, rows: int) -> SizeClass:
    if columns < MIN_COLUMNS or rows < MIN_ROWS:
        return "too small"
    if columns < STANDARD_COLUMNS or rows < STANDARD_ROWS:
        return "compact"
    return "wide" if columns >= WIDE_COLUMNS and rows >= WIDE_ROWS else "standard"


def arrange(columns: int, rows: int, card_height: int, composer_rows: int, *, sidebar_hidden: bool = False) -> Layout:
    """The rectangles for a size. The card is cut before the composer, never the other way round."""
    size = size_class(columns, rows)
    hidden = size in ("too small", "compact") or sidebar_hidden
    side = 0 if hidden else WIDE_SIDEBAR if size == "wide" else SIDEBAR
    top = 1 if hidden else 0
    width = columns - side
    composer = max(1, min(composer_rows, MAX_COMPOSER_ROWS, rows // 3))
    free = rows - top - 2 - composer
    card = max(0, min(card_height, free))
    transcript = max(0, free - card)
    y = top + transcript
    return Layout(
        size,
        columns,
        rows,
        header=Rect(0, 0, columns, top),
        sidebar=Rect(width, 0, side, rows - 1 if side else 0),
        transcript=Rect(0, top, width, transcript),
        card=Rect(0, y, width, card),
        rule=Rect(0, y + card, width, 1),
        composer=Rect(0, y + card + 1, width, composer),
        status=Rect(0, rows - 1, columns, 1),
    )
