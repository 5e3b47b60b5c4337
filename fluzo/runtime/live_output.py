"""The end of what a running command prints, for people who watch it: bounded, redacted, in portions, never kept.

Invariant: no part of a secret that the redactor knows, or knows the shape of, leaves here because a chunk or the edge
of the window cut it in two. The text is redacted as a whole each time, its unsure ends are left out.
"""

import asyncio
import codecs
from collections.abc import Callable

from fluzo.core.redact import Redactor, unfinished

WINDOW_BYTES = 16 * 1024
EDGE_CHARACTERS = 8 * 1024
"""Where the window has lost its beginning, so much after the cut is never shown: a key may have begun before it."""
TAIL_CHARACTERS = 2048
PAUSE_SECONDS = 0.1


class LiveOutput:
    """Its `add` is for a backend's `watched`; `show` gets the newest end of the text and the bytes so far."""

    def __init__(self, redact: Redactor, show: Callable[[str, int], None]) -> None:
        self._redact = redact
        self._show = show
        self._window = bytearray()
        self._total = 0
        self._due: asyncio.TimerHandle | None = None
        self._shown_at = float("-inf")

    def add(self, chunk: bytes) -> None:
        self._total += len(chunk)
        self._window += chunk[-WINDOW_BYTES:]
        del self._window[:-WINDOW_BYTES]
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_at(max(self._shown_at + PAUSE_SECONDS, loop.time()), self._tell)

    def close(self) -> None:
        """The command has ended: nothing more is shown of it here."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _tell(self) -> None:
        self._due = None
        self._shown_at = asyncio.get_running_loop().time()
        self._show(self._tail(), self._total)

    def _tail(self) -> str:
        # A character whose last bytes are still to come waits for them.
        text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(bytes(self._window))
        clean = self._redact(text)
        clean = clean[: len(clean) - unfinished(self._redact, clean)]
        edge = EDGE_CHARACTERS if self._total > len(self._window) else 0
        return clean[max(len(clean) - TAIL_CHARACTERS, edge, 0) :]
