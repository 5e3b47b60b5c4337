"""From the runtime's threads to the screen's loop: opened behind the first frame, its updates taken in portions.

Invariant: the loop never waits for the runtime. Deltas are joined for `FRAME_SECONDS`, and one portion takes at most
`DRAIN_SECONDS`, so that a flood of updates cannot delay a key.
"""

import asyncio
import secrets
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .app import Screen
    from .link import Link, Opener

FRAME_SECONDS = 0.033
DRAIN_SECONDS = 0.005
TYPED_AHEAD_SECONDS = 0.01


class Intake:
    """`opener` is called on another thread and returns what opens the runtime."""

    def __init__(self, screen: "Screen", opener: "Callable[[], Opener]") -> None:
        self._screen = screen
        self._opener = opener
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drained_at = -1.0
        self._due: asyncio.TimerHandle | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def begin(self) -> None:
        """Load the link and open the runtime; called after the first frame.

        A moment later, for loading holds up what it runs beside: what was typed ahead is drawn first.
        """
        thread = threading.Thread(target=self._open, name="fluzo-link", daemon=True)
        if self._loop is not None:
            self._loop.call_later(TYPED_AHEAD_SECONDS, thread.start)

    def _open(self) -> None:
        from .link import Link

        opener = self._opener()
        self.on_loop(self._linked, Link(opener, self.wake))

    def _linked(self, link: "Link") -> None:
        self._screen.link = link
        link.open()

    def on_loop(self, call: Callable[..., object], *arguments: object) -> None:
        """Have the screen's loop call something, from any thread; nothing when the screen is gone."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(call, *arguments)
            except RuntimeError:
                return  # The loop closed between the two.

    def wake(self) -> None:
        self.on_loop(self._schedule)

    def _schedule(self) -> None:
        if self._due is None and self._loop is not None:
            delay = max(self._drained_at + FRAME_SECONDS - self._screen.now(), 0)
            self._due = self._loop.call_later(delay, self._drain)

    def _drain(self) -> None:
        self._due = None
        screen, link = self._screen, self._screen.link
        if link is None:
            return
        self._drained_at = begun = screen.now()
        while (update := link.take()) is not None:
            screen.apply(update)
            if screen.now() - begun > DRAIN_SECONDS:
                break
        if link.waiting:
            self._schedule()


def warm() -> None:
    """Load what the first answer will need, while the person types."""
    threading.Thread(target=_load, name="fluzo-warm", daemon=True).start()


def _load() -> None:
    from . import clipboard, markdown, pager  # noqa: F401 - loading them is the purpose.


def new_request_id() -> str:
    return secrets.token_hex(16)


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
