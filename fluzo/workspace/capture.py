"""Head and tail of a stream in bounded memory: at most about one and a half times the limit, whatever comes.

What is kept can be freed of secrets; one that the gap between head and tail cuts in two does not survive in halves.
"""

import re
from collections.abc import Iterable

from fluzo.core.redact import MASK

_GAP = re.compile(rb"\n\[\.\.\. \d+ bytes omitted \.\.\.\]\n")
_SHORTEST_PART = 4
"""A shorter part of a secret at the edge of a gap tells nothing."""


class Capture:
    """Head and tail of a stream in bounded memory, with the count of what fell between."""

    def __init__(self, limit: int) -> None:
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        if (room := self._head_limit - len(self._head)) > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._tail_limit:  # Cut rarely, so that each byte is moved once on average.
            del self._tail[: -self._tail_limit]

    @property
    def truncated(self) -> bool:
        return self.total > self._head_limit + self._tail_limit

    def text(self) -> bytes:
        if not self.truncated:
            return bytes(self._head + self._tail)
        omitted = self.total - self._head_limit - self._tail_limit
        note = f"\n[... {omitted} bytes omitted ...]\n".encode()
        return bytes(self._head + note + self._tail[-self._tail_limit :])


def masked(output: bytes, secrets: Iterable[bytes], limit: int = 0) -> bytes:
    """Captured output without the given values. `limit` is that of the capture if it is truncated.

    Then the part of a value that the gap has left at its edges is masked too.
    """
    gap = _GAP.match(output, limit // 2) if limit else None
    head, note, tail = (output[: gap.start()], gap[0], output[gap.end() :]) if gap else (output, b"", b"")
    mask = MASK.encode()
    for secret in sorted(secrets, key=len, reverse=True):
        head, tail = head.replace(secret, mask), tail.replace(secret, mask)
        if gap:
            parts = range(len(secret) - 1, _SHORTEST_PART - 1, -1)
            at_end = next((size for size in parts if head.endswith(secret[:size])), 0)
            at_start = next((size for size in parts if tail.startswith(secret[-size:])), 0)
            head = head[:-at_end] + mask if at_end else head
            tail = mask + tail[at_start:] if at_start else tail
    return head + note + tail
