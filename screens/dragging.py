"""A drag past an edge of the conversation: it scrolls there, and the selection grows with it.

What was pressed on the card is forgotten with the button, wherever that comes up.
Invariant: the scrolling moves by a timer, only while the button is held past the edge and there is more to show;
nothing runs and nothing is drawn afterwards.
"""

import asyncio
import re
from typing import TYPE_CHECKING

from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.key_binding.bindings.mouse import load_mouse_bindings

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_bindings import NotImplementedOrNone

    from .app import Screen

STEP_SECONDS = 0.05
_FASTEST = 3
"""Rows of one step at most, as many as the mouse is past the edge."""
_MOVED, _WHEEL = 32, 64
_SGR = re.compile(r"\x1b\[<([0-9]+);([0-9]+);([0-9]+)([Mm])\Z")

(_inside, *_) = (binding.handler for binding in load_mouse_bindings().bindings)


class Dragging:
    """`event` takes the mouse while the button is held that went down on the conversation or on the card."""

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._due: asyncio.TimerHandle | None = None
        self._rows = self._column = 0

    @property
    def scrolling(self) -> bool:
        return self._due is not None

    def event(self, event: KeyPressEvent) -> "NotImplementedOrNone":
        """Past an edge it scrolls; everywhere else the mouse is what it always is."""
        reported = _SGR.match(event.data)
        past = 0
        on_card = self._screen.body.card_control.pointer
        if reported is not None and reported[4] == "M" and not int(reported[1]) & (_MOVED | _WHEEL):
            on_card.let_go()  # The terminal did not say where the button came up.
        if reported is not None and int(reported[1]) & _MOVED and self._screen.transcript.pointer.held:
            self._column = int(reported[2]) - 1 - self._screen.layout.transcript.x
            past = self._past(int(reported[3]) - 1)
        self._rows = max(-_FASTEST, min(past, _FASTEST))
        if past:
            self._begin()
            return NotImplemented  # Each step draws by itself.
        self.stop()
        handled = _inside(event)
        if reported is not None and reported[4] == "m":
            self._screen.transcript.pointer.let_go()
            on_card.let_go()
        return handled

    def _past(self, row: int) -> int:
        """How many rows a row of the terminal is above (less than 0) or below the conversation.

        Where there is none above it, its first row is.
        """
        place = self._screen.layout.transcript
        if row < place.y or row == place.y == 0:
            return min(row - place.y, -1)
        return max(row - place.y - place.height + 1, 0)

    def _begin(self) -> None:
        if self._due is None:
            self.tick()

    def tick(self) -> None:
        """One step, and the next one if this one got anywhere."""
        self._due = None
        screen = self._screen
        transcript, pointer = screen.transcript, screen.transcript.pointer
        if not screen.app.is_running or not pointer.held or screen.views:
            return
        before = (transcript.anchor, transcript.follow, pointer.selection)
        transcript.scroll(self._rows)
        shown = transcript.visible(transcript.width, transcript.height)
        pointer.drag_to(self._column, 0 if self._rows < 0 else len(shown) - 1)
        if (transcript.anchor, transcript.follow, pointer.selection) != before:
            screen.changed()
            self._due = asyncio.get_running_loop().call_later(STEP_SECONDS, self.tick)

    def stop(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
