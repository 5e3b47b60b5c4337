"""When the mark is painted: past the renderer, between draws, by the same output and on the same thread.

Invariant: nothing is written while nothing moves, and never where something else stands. A frame is a function of
elapsed time, so late ones are skipped, counted and never queued; the renderer's picture of the screen is untouched.
"""

import asyncio
from functools import lru_cache
from typing import TYPE_CHECKING

from prompt_toolkit.output import ColorDepth

from .layout import Rect
from .logo import COLUMNS, COMPLETED_SECONDS, MOVING, PERIODS, ROWS, WORD, Color, Tint
from .mark import letters_text, pixels_text
from .state import State

if TYPE_CHECKING:
    from .app import Screen

_SHADED = (ColorDepth.DEPTH_8_BIT, ColorDepth.DEPTH_24_BIT)
"""Depths with enough shades for a pulse; with fewer the states stand still in their colours."""


class Motion:
    """`rate` is frames per second, 0 to 60; `frames` counts those painted, `skipped` those that came too late."""

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self.rate = screen.options.animation_fps
        self.reduced = screen.options.reduced_motion
        self.frames = 0
        self.skipped = 0
        self.next_at: float | None = None
        """When the next frame is due, in seconds of the screen's clock; None while nothing moves."""
        self._since = screen.now()
        self._state = screen.state.word
        self._due: asyncio.TimerHandle | None = None
        self._number = 0
        self._last = ""
        self._at_rest = False
        self._place: Rect | None = None
        self._drawn_as: tuple[object, ...] = ()
        self._blank = True

    @property
    def fps(self) -> int:
        """The rate in force: reduced motion is none."""
        return 0 if self.reduced else self.rate

    @property
    def moving(self) -> bool:
        """Whether the mark changes by itself now."""
        if not self.fps or self._place is None or self._screen.depth not in _SHADED:
            return False
        if self._state == "completed":
            return self._screen.now() - self._since < COMPLETED_SECONDS
        return self._state in MOVING

    def state_changed(self, before: State, after: State) -> None:
        if before.word != after.word:
            self._state, self._since = after.word, self._screen.now()

    def use(self, rate: int, *, reduced: bool) -> None:
        """Move at another rate from now on; a pulse keeps its time."""
        self.rate, self.reduced = rate, reduced
        self._last = ""
        self._cancel()
        self._screen.changed()

    def stop(self) -> None:
        self._place = None
        self._cancel()

    def _cancel(self) -> None:
        self.next_at = None
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def before_draw(self) -> None:
        """Before every draw of the screen: whether the renderer will write all cells, as first and after a clearing."""
        self._blank = self._screen.app.renderer.last_rendered_screen is None

    def drawn(self) -> None:
        """After every draw: find the mark's place, paint it if the renderer has written there, and go on moving."""
        screen = self._screen
        size = (screen.layout.columns, screen.layout.rows)
        specimen = screen.body.specimen
        word = specimen.word if specimen is not None else screen.state.word
        if word != self._state:
            self._state, self._since = word, screen.now()
        place = self._free_place()
        drawn_as = (place, size, screen.theme, self._state)
        if self._blank or drawn_as != self._drawn_as:
            self._last = ""
        self._place, self._drawn_as = place, drawn_as
        if not self._last or not (self._due is not None or (self._at_rest and not self.moving)):
            self._paint()  # Else what stands there is right, until its next frame is due.
        self._schedule()

    def _free_place(self) -> Rect | None:
        """Where the mark stands, if it is on screen and no other window covers any part of it."""
        screen = self._screen
        picture = screen.app.renderer.last_rendered_screen
        if picture is None:
            return None
        windows = picture.visible_windows_to_write_positions
        for host, place in screen.body.mark_places():
            if host in windows:
                covered = any(
                    place.overlaps(Rect(at.xpos, at.ypos, at.width, at.height))
                    for window, at in windows.items()
                    if window is not host
                )
                return None if covered else place
        return None

    def _schedule(self) -> None:
        if self._due is not None or not self.moving:
            return
        passed = self._screen.now() - self._since
        self._number = int(passed * self.fps + 1e-6) + 1
        self.next_at = self._since + self._number / self.fps
        self._due = asyncio.get_running_loop().call_later(max(self.next_at - self._screen.now(), 0.0), self.tick)

    def tick(self) -> None:
        """The next frame is due."""
        self._cancel()
        screen = self._screen
        if not screen.app.is_running or screen.app.is_done or not self.fps:
            return
        self.skipped += max(int((screen.now() - self._since) * self.fps + 1e-6) - self._number, 0)
        if screen.app.invalidated:
            return  # A draw is due now, and the frame goes right after it.
        self._paint()
        self._schedule()

    def _paint(self) -> None:
        screen, place = self._screen, self._place
        # While another program has the terminal, the renderer has no screen.
        if place is None or screen.app.renderer.last_rendered_screen is None:
            return
        tint = Tint(self._state, self._moment(), screen.theme, screen.depth, bool(self.fps))
        text = _made(place, tint, screen.ground).decode()
        self._at_rest = not self.moving
        if text == self._last:
            return
        self._last = text
        self.frames += 1
        screen.frames.stats.painted(screen.now())
        output = screen.app.output
        output.write_raw(text)
        output.flush()

    def _moment(self) -> float:
        """When the frame of now is in its state, in seconds: a pulse is the same in each period."""
        seconds = self._screen.now() - self._since
        if not self.fps:
            return seconds
        number = int(seconds * self.fps + 1e-6)
        period = round(PERIODS.get(self._state, 0) * self.fps)
        return (number % period if period else number) / self.fps


@lru_cache(maxsize=1024)
def _made(place: Rect, tint: Tint, ground: Color | str | None) -> bytes:
    """A frame as it is written. Those of a period are made once for a place, a theme and a depth, and then found."""
    return (pixels_text if place.height == ROWS else letters_text)(place, tint, ground).encode()


def compact_place(header: Rect) -> Rect:
    """Where the five letters stand in the header."""
    return Rect(header.x + 1, header.y, len(WORD), 1)


def pixel_place(side: Rect, *, blocks: bool = True) -> Rect:
    """Where the mark stands in the sidebar, centred beside its rule; without half blocks it is the five letters."""
    if not blocks:
        return Rect(side.x + 1 + (side.width - 1 - len(WORD)) // 2, side.y + 1, len(WORD), 1)
    return Rect(side.x + 1 + (side.width - 1 - COLUMNS) // 2, side.y, COLUMNS, ROWS)
