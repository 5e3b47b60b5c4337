"""One physical request over HTTP: the only module of inference that imports httpx, imported at the first request.

Invariants: a redirect is never followed; a loopback server is never reached through a proxy; certificates are
always verified; nothing is read without a bound on size and time. `sent` and `settled` tell what is known about
the server's side when `run` is over, whichever way it ends.
"""

import asyncio
import os
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, suppress
from typing import Any, cast
from urllib.request import getproxies, proxy_bypass

import httpx

from fluzo.core.errors import ConfigError, ProviderError
from fluzo.core.records import ModelReply
from fluzo.core.redact import Redactor
from fluzo.models.endpoint import ModelEndpoint
from fluzo.models.failures import MAX_BODY_BYTES, http_failure, redirect_failure, unreadable_failure
from fluzo.models.reading import ReplyReader, broken_off

FINISH_GRACE_SECONDS = 2.0
"""Wait for usage and end mark after the model has finished; the reply is complete without them."""
DRAIN_SECONDS = 0.05
"""Wait for the end of the body after the end mark, so that the connection can be used again."""
TIMER_SLACK = 0.01
"""By how much of itself the longest silence within a stream may be overrun; it is never cut short."""
_PIECE_BYTES = 65536


async def load_all() -> None:
    """Load what httpx would load with its first client and connection, half of all there is. Sends nothing."""
    await httpx.AsyncClient(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False).aclose()


def _is_direct(endpoint: ModelEndpoint) -> bool:
    return endpoint.loopback or bool(proxy_bypass(endpoint.host))


def make_client(endpoint: ModelEndpoint) -> httpx.AsyncClient:
    """A client for endpoints of this kind. Raises ProviderError when the proxy variables cannot be honoured."""
    direct = _is_direct(endpoint)
    try:
        # Loading the trusted certificates takes longer than a local request; without TLS there is nothing to verify.
        # The empty context fails closed.
        context = httpx.create_ssl_context() if endpoint.secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return httpx.AsyncClient(
            verify=context,
            trust_env=not direct,
            follow_redirects=False,
            timeout=None,
            event_hooks={"response": [_set_location_aside]},
        )
    except ImportError as exc:
        raise ProviderError(
            f"The proxy variables of the environment name a SOCKS proxy for {endpoint.origin}, and the package "
            "for it (socksio) is not installed.",
            code="provider_unavailable",
            hint="Install socksio beside fluzo, use an HTTP proxy, or list the host in NO_PROXY.",
        ) from exc
    except (ValueError, httpx.InvalidURL) as exc:
        raise ProviderError(
            f"The proxy variables of the environment hold no usable address for {endpoint.origin}.",
            code="provider_unavailable",
            hint="Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, or list the host in NO_PROXY.",
        ) from exc
    except OSError as exc:
        raise ProviderError(
            "The trusted certificates could not be loaded.",
            code="provider_unavailable",
            hint="Check SSL_CERT_FILE and SSL_CERT_DIR.",
        ) from exc


async def _set_location_aside(response: httpx.Response) -> None:
    """Keep httpx from building the request it would follow a redirect with: it fails on a malformed location."""
    if 300 <= response.status_code < 400:
        response.extensions["location"] = response.headers.pop("location", "")


class Exchange:
    """One request and its answer."""

    def __init__(
        self, endpoint: ModelEndpoint, reader: ReplyReader, redact: Redactor, *, deadline: float, deadline_name: str
    ) -> None:
        """`deadline` is the loop time at which the caller's own time is over, `deadline_name` what that time is."""
        self._endpoint = endpoint
        self._reader = reader
        self._redact = redact
        self._deadline = deadline
        self._deadline_name = deadline_name
        self._bound = ""
        self._first_output_at: float | None = None
        self._finish_at: float | None = None
        self._timer_holds_until = 0.0
        self.sent = False
        self._settled = False

    @property
    def settled(self) -> bool:
        """The server is known to work on this request no more."""
        return self._settled or self._reader.settled

    async def run(self, client: httpx.AsyncClient, body: bytes, token: str | None) -> ModelReply:
        """Send the request and read its reply. Raises ProviderError; after output it is never `safe` to retry and
        its detail holds the `partial_text`.
        """
        self._start = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(None) as self._scope:
                self._reschedule()
                reply = await self._exchange(client, body, token)
        except TimeoutError as exc:
            if not self._reader.finished:
                raise self._after_output(self._timeout()) from exc
            reply = self._reader.end(clean=True)
        except ProviderError as exc:
            raise self._after_output(exc) from exc.__cause__
        first = self._first_output_at
        if first is None and self._reader.has_output:
            first = asyncio.get_running_loop().time()  # An answer in one piece is its own first output.
        return reply._replace(first_output_seconds=None if first is None else first - self._start)

    def _after_output(self, error: ProviderError) -> ProviderError:
        """Once there was output nothing is asked again, and what arrived is kept with the error."""
        if self._reader.has_output:
            error.retry = "never"
            error.detail["partial_text"] = self._reader.partial_text
        return error

    async def _exchange(self, client: httpx.AsyncClient, body: bytes, token: str | None) -> ModelReply:
        request = self._request(client, body, token)
        try:
            response = await client.send(request, stream=True)
        except httpx.TransportError as exc:
            raise self._unanswered(exc) from exc
        try:
            if response.is_success:
                return await self._read(response)
            raise await self._refusal(response)
        finally:
            await response.aclose()

    def _request(self, client: httpx.AsyncClient, body: bytes, token: str | None) -> httpx.Request:
        headers = {
            # Some gateways answer errors in the first type they are offered: text or HTML never is.
            "Accept": "text/event-stream, application/json" if self._endpoint.stream else "application/json",
            "Accept-Encoding": "gzip",
            "Content-Type": "application/json",
            "User-Agent": "fluzo",
        }
        if token:
            if not token.isascii() or not token.isprintable() or " " in token:
                raise ProviderError(
                    f"The key for {self._endpoint.origin} holds characters that cannot be sent; nothing was sent.",
                    code="provider_auth",
                    hint=f"Check the key that {self._endpoint.setting('auth')} names for blanks and line ends.",
                )
            headers["Authorization"] = f"Bearer {token}"
        timeout = httpx.Timeout(None, connect=self._endpoint.connect_timeout_seconds)
        try:
            return client.build_request(
                "POST",
                self._endpoint.chat_url,
                content=body,
                headers=headers,
                timeout=timeout,
                extensions={"trace": self._trace},
            )
        except httpx.InvalidURL as exc:
            raise ConfigError(f"{self._endpoint.setting('base_url')} is not a usable address.") from exc

    async def _trace(self, name: str, info: dict[str, Any]) -> None:
        """httpcore's trace hook: until the headers go out, the server knows nothing of this request."""
        if name.endswith("send_request_headers.started"):
            self.sent = True

    async def _read(self, response: httpx.Response) -> ModelReply:
        clean = True
        inflater = _Inflater(response.headers.get("content-encoding", ""), self._endpoint, self._redact)
        try:
            async with aclosing(_chunks(response)) as chunks:
                async for chunk in chunks:
                    for piece in inflater.feed(chunk):
                        self._reader.feed(piece)
                    self._reschedule()
                    if self._reader.done:
                        await _drain(chunks)
                        break
        except httpx.TransportError:
            clean = False
        return self._reader.end(clean=clean and inflater.whole)

    async def _refusal(self, response: httpx.Response) -> ProviderError:
        self._settled = True
        if "location" in response.extensions:
            location = response.extensions["location"]
            return redirect_failure(self._endpoint, response.status_code, location, self._redact)
        inflater = _Inflater(response.headers.get("content-encoding", ""), self._endpoint, self._redact)
        body = bytearray()
        with suppress(httpx.TransportError):
            async with aclosing(_chunks(response)) as chunks:
                async for chunk in chunks:
                    for piece in inflater.feed(chunk):
                        body += piece
                    if len(body) > MAX_BODY_BYTES:
                        break
        content_type = response.headers.get("content-type", "")
        return http_failure(self._endpoint, response.status_code, content_type, bytes(body), self._redact)

    def _unanswered(self, exc: httpx.TransportError) -> ProviderError:
        """What to say when no answer began."""
        if isinstance(exc, httpx.ConnectTimeout):
            return self._timeout_error("connect", self._endpoint.connect_timeout_seconds, "safe")
        if isinstance(exc, httpx.ConnectError):
            return connect_failure(self._endpoint, exc)
        if isinstance(exc, httpx.ProxyError):
            return ProviderError(
                f"The proxy on the way to {self._endpoint.origin} refused the connection.",
                code="provider_unavailable",
                hint="Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, or list the host in NO_PROXY.",
            )
        self._settled = True
        if isinstance(exc, httpx.RemoteProtocolError) and "disconnected" not in str(exc):
            return unreadable_failure(self._endpoint, "does not answer in HTTP", "", self._redact)
        return broken_off(self._endpoint)

    def _reschedule(self) -> None:
        """Set the next deadline: first output, then silence, then a short grace, and the whole request always."""
        endpoint, now = self._endpoint, asyncio.get_running_loop().time()
        if now < self._timer_holds_until and not self._reader.finished:
            return
        bounds = {
            "request": self._start + endpoint.request_timeout_seconds,
            self._deadline_name: self._deadline,
        }
        if self._reader.finished:
            self._finish_at = self._finish_at or now + FINISH_GRACE_SECONDS
            bounds["finish"] = self._finish_at
        elif self._reader.has_output:
            # A new timer for each of thousands of deltas would cost more than reading them.
            slack = endpoint.idle_stream_timeout_seconds * TIMER_SLACK
            self._timer_holds_until = now + slack
            bounds["idle_stream"] = now + endpoint.idle_stream_timeout_seconds + slack
        else:
            bounds["first_output"] = self._start + endpoint.first_output_timeout_seconds
        if self._first_output_at is None and self._reader.has_output:
            self._first_output_at = now
        self._bound = min(bounds, key=lambda name: bounds[name])
        self._scope.reschedule(bounds[self._bound])

    def _timeout(self) -> ProviderError:
        if self._bound == self._deadline_name:
            return ProviderError(
                f"The {self._deadline_name} ended while {self._endpoint.origin} was answering.",
                code="provider_timeout",
                detail={"timeout": self._deadline_name},
            )
        seconds = {
            "request": self._endpoint.request_timeout_seconds,
            "idle_stream": self._endpoint.idle_stream_timeout_seconds,
            "first_output": self._endpoint.first_output_timeout_seconds,
        }
        return self._timeout_error(self._bound, seconds[self._bound], "never")

    def _timeout_error(self, kind: str, seconds: float, retry: str) -> ProviderError:
        setting = self._endpoint.setting(f"{kind}_timeout_seconds")
        return ProviderError(
            f"{self._endpoint.origin} {_TIMEOUTS[kind]} within {seconds:g} seconds.",
            code="provider_timeout",
            hint=f"Check the server, or raise {setting}.",
            detail={"timeout": kind, "seconds": seconds, "setting": setting},
            retry="safe" if retry == "safe" else "never",
        )


_TIMEOUTS = {
    "connect": "did not accept the connection",
    "first_output": "gave no output",
    "idle_stream": "fell silent in the middle of its reply and sent nothing more",
    "request": "did not end its reply",
}


def connect_failure(endpoint: ModelEndpoint, exc: BaseException) -> ProviderError:
    """Why no connection came about. Only what can pass by itself is safe to try again."""
    causes: list[BaseException] = []
    cause: BaseException | None = exc
    while cause is not None and len(causes) < 10:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    if any(isinstance(item, ssl.SSLError) for item in causes):
        return ProviderError(
            f"The TLS connection to {endpoint.origin} could not be verified, so nothing was sent.",
            code="provider_unavailable",
            hint="Check the address and the server's certificate; SSL_CERT_FILE names further authorities to trust.",
        )
    # The failed connection may be the one to a proxy, which no address in the settings names.
    proxied = bool(getproxies()) and not _is_direct(endpoint)
    through = " by way of the proxy of the environment" if proxied else ""
    places = f"{endpoint.setting('base_url')}{', HTTP_PROXY, HTTPS_PROXY and ALL_PROXY' if proxied else ''}"
    unknown = [item for item in causes if isinstance(item, socket.gaierror)]
    if unknown and unknown[0].errno != socket.EAI_AGAIN:
        return ProviderError(
            f"The host of {endpoint.origin}{', or of the proxy on the way,' if proxied else ''} is not known.",
            code="provider_unavailable",
            hint=f"Check {places}.",
        )
    errno = next((item.errno for item in causes if isinstance(item, OSError) and (item.errno or 0) > 0), None)
    reason = f" ({os.strerror(errno)})" if errno else ""
    return ProviderError(
        f"No connection to {endpoint.origin}{through}{reason}.",
        code="provider_unavailable",
        hint=f"Start the server, or check {places}.",
        retry="safe",
    )


class _Inflater:
    """Decodes gzip while it arrives, in bounded pieces; other encodings were not asked for and are refused."""

    def __init__(self, encoding: str, endpoint: ModelEndpoint, redact: Redactor) -> None:
        name = encoding.strip().lower()
        self._gzip = zlib.decompressobj(wbits=31) if name in ("gzip", "x-gzip") else None
        self._fail: Callable[[], ProviderError] = lambda: unreadable_failure(
            endpoint, "sent compressed data that cannot be read", "", redact
        )
        if self._gzip is None and name not in ("", "identity"):
            raise self._fail()

    @property
    def whole(self) -> bool:
        return self._gzip is None or self._gzip.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._gzip is None:
            yield data
            return
        while data and not self._gzip.eof:
            try:
                piece = self._gzip.decompress(data, _PIECE_BYTES)
            except zlib.error as exc:
                raise self._fail() from exc
            data = self._gzip.unconsumed_tail
            if piece:
                yield piece


def _chunks(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body as it came; declared as the generator that it is, so that it can be closed early."""
    return cast("AsyncGenerator[bytes, None]", response.aiter_raw())


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    with suppress(TimeoutError, httpx.TransportError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass
