"""The mouse on rows of which one is lit: the wheel, a click that lights a row, and one on the lit row that enters it.

Invariant: a click is a press and a release on the same row, and it does nothing that Enter on that row would not do.
Where two acts are asked for, on the card and in questions, nothing of this is used.
"""

from collections.abc import Callable

from prompt_toolkit.mouse_events import MouseButton, MouseEvent, MouseEventType


class Clicks:
    """`at` gives the number of what stands in a row of the picture, None where there is nothing to light; `lit` the one
    that is lit. `light` moves it by so many, and `enter` is what Enter does."""

    def __init__(
        self,
        at: Callable[[int], int | None],
        lit: Callable[[], int],
        light: Callable[[int], object],
        enter: Callable[[], object],
        wheel_rows: int = 1,
    ) -> None:
        self._wheel_rows = wheel_rows
        self._at = at
        self._lit = lit
        self._light = light
        self._enter = enter
        self._pressed: int | None = None

    def event(self, event: MouseEvent) -> None:
        kind = event.event_type
        if kind is MouseEventType.SCROLL_UP:
            self._light(-self._wheel_rows)
        elif kind is MouseEventType.SCROLL_DOWN:
            self._light(self._wheel_rows)
        elif kind is MouseEventType.MOUSE_DOWN:
            self._pressed = self._at(event.position.y) if event.button is MouseButton.LEFT else None
        elif kind is MouseEventType.MOUSE_UP:
            pressed, self._pressed = self._pressed, None
            if pressed is None or pressed != self._at(event.position.y):
                return
            if pressed == self._lit():
                self._enter()
            else:
                self._light(pressed - self._lit())
