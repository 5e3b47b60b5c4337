"""One answer with status 200, bytes to ModelReply: an event stream, or one JSON object whatever was asked for.

Invariant: what the body is, is decided by its first character, not by its content type, which servers get wrong.
Pure and incremental: no socket, no clock. However the bytes are cut, the reply is the same.
"""

from fluzo.core.errors import ProviderError
from fluzo.core.records import ModelReply, ModelRequest
from fluzo.core.redact import Redactor
from fluzo.models.assembly import OnDelta, ReplyAssembler
from fluzo.models.endpoint import ModelEndpoint
from fluzo.models.failures import reported_failure, unreadable_failure, web_page_failure
from fluzo.models.jsontext import parse
from fluzo.models.sse import Frame, SseDecoder

MAX_OBJECT_BYTES = 32 * 1024 * 1024
"""Longest answer that is not a stream."""

_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


class ReplyReader:
    """Feed it the body as it comes; stop feeding once `done`; then ask for the reply with `end`.

    Both raise ProviderError: what the server reported, or provider_protocol for what is no reply at all.
    """

    def __init__(self, endpoint: ModelEndpoint, request: ModelRequest, on_delta: OnDelta, redact: Redactor) -> None:
        self._endpoint = endpoint
        self._redact = redact
        self._assembler = ReplyAssembler(endpoint, request, on_delta)
        self._decoder = SseDecoder()
        self._head = b""
        self._form = ""
        self._body = bytearray()
        self._frames = 0
        self.done = False
        """The end mark was seen: nothing that follows belongs to this reply."""
        self.settled = False
        """The server is known to work on this reply no more: it ended it, failed, or never began."""

    @property
    def has_output(self) -> bool:
        return self._assembler.has_output

    @property
    def partial_text(self) -> str:
        """The answer text so far."""
        return self._assembler.partial_text

    @property
    def finished(self) -> bool:
        """The model has finished; only its usage and the end mark may follow."""
        return self.done or bool(self._assembler.finish)

    def feed(self, data: bytes) -> None:
        if not self._form:
            self._head += data
            self._form = _form(self._head)
            data, self._head = (self._head, b"") if self._form else (b"", self._head[-len(_BOM) :])
        if self._form == "stream":
            for frame in self._decoder.feed(data):
                self._frame(frame)
        elif self._form == "page":
            self.settled = True
            raise web_page_failure(self._endpoint)
        elif self._form:
            self._body += data
            if len(self._body) > MAX_OBJECT_BYTES:
                raise self._unreadable(f"sent more than {MAX_OBJECT_BYTES} bytes that are no stream")

    def end(self, *, clean: bool) -> ModelReply:
        """The reply. `clean` says that the server closed the answer properly rather than dropping the connection."""
        self.settled = True
        if self._form == "object":
            return self._object(clean)
        for frame in self._decoder.close():
            self._frame(frame, last=True)
        if not self.finished and not self.has_output:
            self._check_silence(clean)
        return self._assembler.reply(ended=self.finished or not self.has_output)

    def _check_silence(self, clean: bool) -> None:
        """Tell a server that broke off or said something else from one that honestly sent nothing."""
        stray = self._decoder.stray.strip()
        if stray.startswith("{"):
            try:
                payload = parse(stray)
            except ValueError:
                payload = stray
            raise reported_failure(self._endpoint, payload, self._redact)
        if stray:
            raise self._unreadable("sent something that is no event stream", stray)
        if self._frames or not clean:
            raise broken_off(self._endpoint)

    def _frame(self, frame: Frame, *, last: bool = False) -> None:
        if self.done:
            return
        self._frames += 1
        if frame.data.strip() == "[DONE]":
            self.done = self.settled = True
            return
        try:
            chunk = parse(frame.data)
        except ValueError:
            chunk = frame.data if frame.event == "error" else None
            # The end of a broken connection cuts an event off; a named one, such as a heartbeat, may hold anything.
            if chunk is None and frame.event in ("", "message") and not last:
                raise self._unreadable("sent an event that is not JSON", frame.data) from None
        if frame.event == "error" or _reports_error(chunk):
            self.settled = True
            raise reported_failure(self._endpoint, chunk, self._redact)
        if isinstance(chunk, dict):
            self._assembler.feed(chunk)

    def _object(self, clean: bool) -> ModelReply:
        text = self._body.decode("utf-8-sig", "replace")
        try:
            payload = parse(text)
        except ValueError:
            if not clean:
                raise broken_off(self._endpoint) from None
            raise self._unreadable("answered, but not with JSON or a stream", text) from None
        if isinstance(payload, dict) and payload.get("error"):
            raise reported_failure(self._endpoint, payload, self._redact)
        if not isinstance(payload, dict) or "choices" not in payload:
            raise self._unreadable("answered, but not with a chat completion", text)
        self._assembler.feed(payload)
        return self._assembler.reply(ended=True)

    def _unreadable(self, what: str, excerpt: str = "") -> ProviderError:
        return unreadable_failure(self._endpoint, what, excerpt, self._redact)


def broken_off(endpoint: ModelEndpoint) -> ProviderError:
    """The server went away before the model said anything: safe to ask again."""
    return ProviderError(
        f"{endpoint.origin} closed the connection before the model said anything.",
        code="provider_unavailable",
        hint="Check the server and its log, then run the task again.",
        retry="safe",
    )


def _reports_error(chunk: object) -> bool:
    return isinstance(chunk, dict) and bool(chunk.get("error") or chunk.get("object") == "error")


def _form(head: bytes) -> str:
    start = head.removeprefix(_BOM).lstrip(_SPACE)
    if not start or start in (_BOM[:1], _BOM[:2]):
        return ""
    if start[:1] in (b"{", b"["):
        return "object"
    if start[:1] == b"<":
        return "page"
    return "stream"
