"""What happens around each frame: its rectangles before it, its figures after it, and the clock of durations.

Invariant: a frame is bracketed as one update of the terminal (DEC mode 2026), and nothing asks for a frame while
nothing on the screen changes.
"""

import asyncio
import gc
from typing import TYPE_CHECKING

from .composer import rows_needed
from .layout import arrange
from .preferences import end_trials
from .stats import FrameStats
from .terminal import ScreenOutput
from .theme import ASCII

if TYPE_CHECKING:
    from .app import Screen


class Frames:
    """The drawing of one screen. `drawn` counts its frames."""

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._tick_due: asyncio.TimerHandle | None = None
        self.page_asked = 0
        self.drawn = 0
        self.stats = FrameStats()
        self._begun = 0.0

    def before(self, _: object) -> None:
        """Arrange the frame that is to be drawn: composer and card first, the transcript takes what is left."""
        gc.disable()
        self._begun = self._screen.now()
        self._screen.motion.before_draw()
        end_trials(self._screen)
        output = self._screen.app.output
        if isinstance(output, ScreenOutput):
            output.plain = self._screen.glyphs is ASCII
            output.begin_frame()
        self.arrange()
        self._page_older()

    def arrange(self) -> None:
        """Give everything its rectangle; the card its rows, so that it is known whether it can be answered."""
        screen = self._screen
        size = screen.app.output.get_size()
        columns, rows = size.columns, size.rows
        hidden = screen.sidebar_hidden
        screen.card_rows = []
        bare = arrange(columns, rows, 0, 1, sidebar_hidden=hidden)
        composer = rows_needed(screen.composer, bare.composer.width - 2)
        if screen.request is not None and bare.size != "too small":
            room = arrange(columns, rows, rows, composer, sidebar_hidden=hidden).card.height
            screen.card_rows = screen.body.card_lines(bare.rule.width, room)
        screen.layout = arrange(columns, rows, len(screen.card_rows), composer, sidebar_hidden=hidden)
        screen.body.place()

    def after(self, _: object) -> None:
        """The frame is with the terminal; the runtime is opened behind the first one."""
        screen = self._screen
        gc.enable()
        self.drawn += 1
        now = screen.now()
        self.stats.drawn(now, now - self._begun, getattr(screen.app.output, "written", 0))
        if self.drawn == 1:
            screen.intake.begin()
        screen.motion.drawn()

    def _page_older(self) -> None:
        """Fetch the page before the oldest message when its beginning comes near."""
        screen = self._screen
        state, link = screen.state, screen.link
        near = state.more and not screen.transcript.follow and screen.transcript.near_top
        if near and link is not None and self.page_asked != state.older:
            self.page_asked = state.older
            link.read_page(state.session_id, state.older)

    def tick(self) -> None:
        """Draw once a second while a duration is on screen; never while nothing runs."""
        screen = self._screen
        if self._tick_due is None and screen.loop is not None and (screen.state.running or screen.state.requests):
            self._tick_due = screen.loop.call_later(1.0, self._ticked)

    def _ticked(self) -> None:
        self._tick_due = None
        if self._screen.app.is_running:
            self._screen.changed()
            self.tick()
