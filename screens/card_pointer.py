"""The mouse on the permission card (P3, P6): a click on it gives it the keyboard, then one chooses, then one confirms.

Invariant: only a click on `Enter confirms N.` acts, and only as Enter would; a press and its release must both be on
the same thing of the same card, which was there before the frame that the press was made on.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prompt_toolkit.mouse_events import MouseButton, MouseEvent, MouseEventType

from .text import Line, cells

if TYPE_CHECKING:
    from .app import Screen

CONFIRM = "confirm"


class CardPointer:
    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._card = ("", "")
        self._first_frame = 0
        self._pressed: tuple[tuple[str, str], str] | None = None

    @property
    def _identity(self) -> tuple[str, str]:
        return self._screen.card.operation_id, self._screen.card.fingerprint

    @property
    def held(self) -> bool:
        """The button went down on the card and has not come up."""
        return self._pressed is not None

    def let_go(self) -> None:
        """The button came up, wherever that was."""
        self._pressed = None

    def drawn(self) -> None:
        """The card is in the frame that is being drawn."""
        if self._card != self._identity:
            self._card, self._first_frame, self._pressed = self._identity, self._screen.frames.drawn, None

    def event(self, event: MouseEvent) -> None:
        rows, at = self._screen.card_rows, event.position
        if self._screen.views:
            return  # Something stands over the card.
        if event.event_type is MouseEventType.MOUSE_DOWN and event.button is MouseButton.LEFT:
            # The frame it appeared in has been replaced by another one, so it was seen.
            seen = self._card == self._identity and self._screen.frames.drawn > self._first_frame + 1
            self._pressed = (self._identity, target(rows, at.y, at.x, self._screen.card.choices)) if seen else None
        elif event.event_type is MouseEventType.MOUSE_UP:
            pressed, self._pressed = self._pressed, None
            found = target(rows, at.y, at.x, self._screen.card.choices)
            if pressed == (self._identity, found):
                self._act(found)

    def _act(self, found: str) -> None:
        screen = self._screen
        if not screen.card.focused:
            screen.body.focus_card()
        elif found == CONFIRM:
            screen.card_key("enter")
        elif found and not screen.card.writing:
            screen.card_key("text", found)
            screen.card = screen.card._replace(held="")  # It was no typing that could go on in the composer.


def target(rows: Sequence[Line], y: int, x: int, choices: int) -> str:
    """What stands at a cell of the card: the digit of a choice, `confirm`, or nothing that acts."""
    if not 0 <= y < len(rows):
        return ""
    texts = ["".join(part for _, part in row) for row in rows]
    confirm = re.search(r"Enter confirms [1-9][0-9, ]*(?: and the answer)?\.", texts[y])
    if confirm is not None and y >= len(rows) - 2:
        begin = cells(texts[y][: confirm.start()])
        return CONFIRM if begin <= x < begin + len(confirm[0]) else ""
    # The choices are the last rows of their form: what is asked about stands above them and may look like one.
    wanted = choices
    for number in range(len(texts) - 1, -1, -1):
        match = re.match(r"\S? ?[> ] ?([1-9]\d?)  \S", texts[number])
        if match is not None and int(match[1]) == wanted:
            if number == y:
                return match[1] if wanted < 10 else ""  # There is no digit for it.
            wanted -= 1
    return ""
