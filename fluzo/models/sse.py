"""Server-sent events: bytes in, frames out. Pure, incremental and bounded.

Invariant: however the bytes are cut, the frames are the same. Lines end at LF, CR or CRLF and nowhere else
(WHATWG HTML, section 9.2.6), so U+2028 and its like stay data; UTF-8 is decoded a whole line at a time.

An own decoder, because two things are needed that the usual client libraries leave out: limits, and the field
`error:`, in which older llama.cpp servers report a failure. Other unknown lines are kept, bounded, for diagnosis.
"""

import re

from fluzo.core.errors import ProviderError
from fluzo.core.named import NamedTuple

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Longest line and longest event: a whole file can be one tool argument, a whole disk cannot."""
MAX_STRAY_CHARS = 4096

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


class Frame(NamedTuple):
    """One event. `event` is empty for the default type; data lines are joined by newlines."""

    event: str
    data: str


class SseDecoder:
    """Feed it bytes as they come, then call `close` once. Raises ProviderError (provider_protocol) on oversize."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._partial: list[bytes] = []
        self._partial_bytes = 0
        self._after_cr = False
        self._first_line = True
        self._event = ""
        self._data: list[str] = []
        self._data_bytes = 0
        self.stray = ""
        """Text outside any field, such as an error body that a proxy passed on without `data:`."""

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._after_cr and chunk:
            # The CR ended its line already; an LF in the next packet belongs to it.
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        head, *rest = _LINE_END.split(chunk)
        self._partial.append(head)
        self._partial_bytes += len(head)
        self._check(self._partial_bytes)
        if not rest:
            return []
        lines = [b"".join(self._partial), *rest[:-1]]
        self._partial, self._partial_bytes = [rest[-1]], len(rest[-1])
        return [frame for line in lines if (frame := self._line(line)) is not None]

    def close(self) -> list[Frame]:
        """The frame that the end of the stream completes: some servers leave out the last blank line."""
        lines = [b"".join(self._partial), b""]
        self._partial, self._partial_bytes = [], 0
        return [frame for line in lines if (frame := self._line(line)) is not None]

    def _line(self, raw: bytes) -> Frame | None:
        if self._first_line:
            raw = raw.removeprefix(_BOM)
            self._first_line = False
        if not raw:
            return self._dispatch()
        line = raw.decode("utf-8", "replace")
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field in ("data", "error"):
            self._data_bytes += len(raw)
            self._check(self._data_bytes)
            self._data.append(value)
            if field == "error":
                self._event = "error"
        elif field == "event":
            self._event = value
        elif field not in ("", "id", "retry"):
            self.stray = (self.stray + line + "\n")[:MAX_STRAY_CHARS]
        return None

    def _dispatch(self) -> Frame | None:
        frame = Frame(self._event, "\n".join(self._data)) if self._data else None
        self._event, self._data, self._data_bytes = "", [], 0
        return frame if frame is not None and frame.data else None

    def _check(self, size: int) -> None:
        if size > self._max:
            raise ProviderError(
                f"The server sent an event of more than {self._max} bytes; the reply was abandoned.",
                hint="Check that the endpoint is a Chat Completions server, or ask for smaller steps.",
            )
