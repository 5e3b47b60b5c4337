"""Head and tail of a stream in bounded memory: at most about one and a half times the limit, whatever comes."""


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
