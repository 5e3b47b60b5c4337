"""The mouse in the conversation: the wheel, clicks that open rows, and drags that select source text.

Invariant: nothing here moves the keyboard, and selecting copies nothing by itself.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.mouse_events import MouseButton, MouseEvent, MouseEventType

from .render import source_of
from .selection import (
    Place,
    Selection,
    Shown,
    character_at,
    line_around,
    ordered,
    place_after,
    place_before,
    selected_characters,
    shown_rows,
    text_of,
    word_around,
)
from .state import State
from .text import Line, cut_line

if TYPE_CHECKING:
    from .transcript import Transcript

WHEEL_ROWS = 3
AGAIN_SECONDS = 0.4
"""Between the clicks of a double click."""
_RAIL = 2
_KEPT = 32


class Pointer:
    """`selection` is what is selected; `clicked` is called with the block of a row that was clicked."""

    def __init__(self, transcript: "Transcript", state: Callable[[], State], now: Callable[[], float]) -> None:
        self._transcript = transcript
        self._state = state
        self._now = now
        self.selection: Selection | None = None
        self.clicked: Callable[[int], None] = lambda key: None
        self._begun: Selection | None = None
        self.held = False
        """The button went down on the conversation and has not come up."""
        self._pressed = (-1, -1)
        self._pressed_at = -1.0
        self._clicks = 0
        self._shown: dict[int, tuple[list[Line], list[Shown | None]]] = {}

    def clear(self) -> None:
        self.selection = None
        self.let_go()
        self._shown.clear()

    def let_go(self) -> None:
        """The button came up, wherever that was."""
        self._begun, self.held = None, False

    def drag_to(self, column: int, row: int) -> None:
        """As a drag to a cell of what is shown."""
        self._drag((column, row))

    @property
    def text(self) -> str:
        """The source of what is selected."""
        return text_of(self._state().blocks, self.selection) if self.selection is not None else ""

    # --- events

    def event(self, event: MouseEvent) -> None:
        kind, at = event.event_type, (event.position.x, event.position.y)
        if kind is MouseEventType.SCROLL_UP:
            self._transcript.roll(-WHEEL_ROWS)
        elif kind is MouseEventType.SCROLL_DOWN:
            self._transcript.roll(WHEEL_ROWS)
        elif kind is MouseEventType.MOUSE_DOWN and event.button is MouseButton.LEFT:
            self._press(at)
        elif kind is MouseEventType.MOUSE_MOVE and event.button is MouseButton.LEFT:
            self._drag(at)
        elif kind is MouseEventType.MOUSE_UP:
            self._release(at)

    def _press(self, at: tuple[int, int]) -> None:
        again = at == self._pressed and self._now() - self._pressed_at <= AGAIN_SECONDS
        self._clicks = self._clicks % 3 + 1 if again else 1
        self.held = True
        self._pressed, self._pressed_at = at, self._now()
        self.selection = None
        self._begun = self._at(at)
        if self._begun is not None and self._clicks > 1:
            key, offset = self._begun.start
            source = source_of(self._state().blocks[key])
            around = word_around if self._clicks == 2 else line_around
            self.selection = self._begun = around(source, key, offset)

    def _drag(self, at: tuple[int, int]) -> None:
        here = self._at(at)
        if at != self._pressed and here is not None:
            self._begun = self._begun or here
            self.selection = ordered(self._begun, here)

    def _release(self, at: tuple[int, int]) -> None:
        if at == self._pressed and self.selection is None and at[1] < len(self._transcript.shown):
            self.clicked(self._transcript.shown[at[1]].key)
        self.let_go()

    # --- cells and places

    def _at(self, at: tuple[int, int]) -> Selection | None:
        """What stands in one cell, as the smallest selection; None where there is no source."""
        column, number = at
        if number >= len(self._transcript.shown):
            return None
        key, row, line = self._transcript.shown[number]
        shown = self._row(key, row)
        if shown is None:
            return None
        character = character_at(line, max(column - _RAIL, 0))
        source = source_of(self._state().blocks[key])
        start, end = place_before(shown, character), place_after(shown, character, source)
        return Selection(Place(key, min(start, end)), Place(key, max(start, end)))

    def _row(self, key: int, row: int) -> Shown | None:
        blocks = self._state().blocks
        if key not in blocks:
            return None
        rows = self._transcript.rows_of(key)
        known = self._shown.get(key)
        if known is None or known[0] is not rows:
            known = self._shown[key] = (rows, shown_rows(rows, source_of(blocks[key])))
            while len(self._shown) > _KEPT:
                del self._shown[next(iter(self._shown))]
        return known[1][row] if row < len(known[1]) else None

    def marked(self, line: Line, key: int, row: int) -> Line:
        """A row of the conversation with what is selected of it."""
        selection = self.selection
        if selection is None or not selection.start.key <= key <= selection.end.key:
            return line
        shown = self._row(key, row)
        first, stop = selected_characters(shown, key, selection) if shown is not None else (0, 0)
        if first == stop:
            return line
        size = sum(len(part) for _, part in line)
        lit = [(f"{style} class:bg.select class:text.on_select", part) for style, part in cut_line(line, first, stop)]
        return [*cut_line(line, 0, first), *lit, *cut_line(line, stop, size)]
