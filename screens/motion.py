"""Paints the mark past the renderer: three rows of cells between draws, by the same output and on the same thread.

Invariant: nothing is written while nothing moves. A frame is a function of elapsed time, so late ones are skipped and
never queued; the cursor and the renderer's own picture of the screen are untouched (DECSC, DECRC).
"""

import asyncio
from typing import TYPE_CHECKING

from prompt_toolkit.output import ColorDepth

from .layout import Rect
from .logo import MOVING, Cell, Color, frame
from .state import State

if TYPE_CHECKING:
    from .app import Screen

COMPLETED_SECONDS = 1.0
NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan")


class Motion:
    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self.fps = 0 if screen.options.reduced_motion else screen.options.animation_fps
        self.frames = 0
        self.skipped = 0
        self._since = screen.now()
        self._state = screen.state.word
        self._due: asyncio.TimerHandle | None = None
        self._last = ""
        self._suspended = False

    @property
    def moving(self) -> bool:
        """Whether the mark changes by itself now."""
        if not self.fps or self._suspended or self._screen.body.mark_rect() is None:
            return False
        if self._state == "completed":
            return self._screen.now() - self._since < COMPLETED_SECONDS
        return self._state in MOVING

    def state_changed(self, before: State, after: State) -> None:
        if before.word != after.word:
            self._state, self._since = after.word, self._screen.now()

    def set_reduced(self, reduced: bool) -> None:
        self.fps = 0 if reduced else self._screen.options.animation_fps
        self._screen.changed()

    def stop(self) -> None:
        self._suspended = True
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def drawn(self) -> None:
        """After every draw of the screen: the renderer wrote blanks where the mark stands, or nothing at all."""
        self._last = ""
        self._paint()
        self._schedule()

    def _schedule(self) -> None:
        if self._due is None and self.moving:
            interval = 1 / self.fps
            late = (self._screen.now() - self._since) % interval
            self._due = asyncio.get_running_loop().call_later(interval - late, self._next)

    def _next(self) -> None:
        self._due = None
        if self._screen.app.is_running and not self._screen.app.is_done:
            self._paint()
            self._schedule()

    def _paint(self) -> None:
        screen = self._screen
        rect = screen.body.mark_rect()
        if rect is None or self._suspended:
            return
        seconds = screen.now() - self._since
        rows = frame(self._state, seconds, screen.theme, screen.depth, moving=bool(self.fps))
        text = self._sequence(rect, rows)
        if text == self._last:
            return
        self._last = text
        self.frames += 1
        output = screen.app.output
        output.write_raw(text)
        output.flush()

    def _sequence(self, rect: Rect, rows: list[list[Cell]]) -> str:
        parts = ["\x1b7"]
        for number, row in enumerate(rows):
            parts.append(f"\x1b[{rect.y + number + 1};{rect.x + 1}H")
            last: tuple[object, object] = ("", "")
            for cell in row:
                if (cell.fore, cell.back) != last:
                    parts.append(self._sgr(cell))
                    last = (cell.fore, cell.back)
                parts.append(cell.text)
        parts.append("\x1b[0m\x1b8")
        return "".join(parts)

    def _sgr(self, cell: Cell) -> str:
        ground = self._screen.ground
        fore = sgr(cell.fore, self._screen.depth, 38) if cell.fore is not None else ""
        back = sgr(cell.back if cell.back is not None else ground, self._screen.depth, 48)
        return f"\x1b[0m{fore}{back}"


def sgr(color: "Color | str | None", depth: ColorDepth, target: int) -> str:
    """The sequence for a foreground (38) or background (48) colour; empty where the terminal has none."""
    if depth is ColorDepth.DEPTH_1_BIT or color is None:
        return ""
    if isinstance(color, str):
        code = _CODES.get(color)
        return f"\x1b[{code + (target - 38)}m" if code is not None else ""
    red, green, blue = color
    if depth is ColorDepth.TRUE_COLOR:
        return f"\x1b[{target};2;{red};{green};{blue}m"
    return f"\x1b[{target};5;{nearest(red, green, blue)}m"


def nearest(red: int, green: int, blue: int) -> int:
    """The nearest colour of the 6x6x6 cube of the xterm palette."""
    steps = [_nearest_step(channel) for channel in (red, green, blue)]
    return 16 + 36 * steps[0] + 6 * steps[1] + steps[2]


def _nearest_step(channel: int) -> int:
    return min(range(6), key=lambda step: abs(_CUBE[step] - channel))


_CUBE = (0, 95, 135, 175, 215, 255)
_CODES = {
    **{f"ansi{name}": 30 + number for number, name in enumerate(NAMES)},
    **{f"ansibright{name}": 90 + number for number, name in enumerate(NAMES)},
}
