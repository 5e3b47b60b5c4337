"""Paints the mark past the renderer: three rows of cells between draws, by the same output and on the same thread.

Invariant: nothing is written while nothing moves. A frame is a function of elapsed time, so late ones are skipped and
never queued; the cursor and the renderer's own picture of the screen are untouched (DECSC, DECRC).
"""

import asyncio
from typing import TYPE_CHECKING

from prompt_toolkit.output import ColorDepth

from .layout import Rect
from .logo import COLUMNS, MOVING, Color, shades, shape
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
        text = self._sequence(rect, seconds)
        if text == self._last:
            return
        self._last = text
        self.frames += 1
        output = screen.app.output
        output.write_raw(text)
        output.flush()

    def _sequence(self, rect: Rect, seconds: float) -> str:
        screen, depth = self._screen, self._screen.depth
        ground = sgr(screen.ground, depth, 48)
        fores: list[tuple[str, str, str]] = []
        backs: list[tuple[str, str, str]] = []
        for column in range(COLUMNS):
            bright, dark = shades(self._state, column, seconds, screen.theme, depth, moving=bool(self.fps))
            fores.append(("", sgr(dark, depth, 38), sgr(bright, depth, 38)))
            backs.append((ground, sgr(dark, depth, 48), sgr(bright, depth, 48)))
        parts = ["\x1b7\x1b[0m"]
        last_fore = last_back = ""
        for number, row in enumerate(shape(shadows=depth is not ColorDepth.DEPTH_1_BIT)):
            parts.append(f"\x1b[{rect.y + number + 1};{rect.x + 1}H")
            for column, (text, fore_level, back_level) in enumerate(row):
                fore, back = fores[column][fore_level], backs[column][back_level]
                if fore and fore != last_fore:
                    parts.append(fore)
                    last_fore = fore
                if back != last_back:
                    parts.append(back)
                    last_back = back
                parts.append(text)
        parts.append("\x1b[0m\x1b8")
        return "".join(parts)


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
