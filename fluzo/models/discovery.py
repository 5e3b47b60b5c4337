"""What a server offers and understands, asked before it is configured: the model list, and an inference probe.

Invariant: nothing here runs by itself. `discover_models` sends one GET and never asks for inference; `probe` asks for
a few tiny replies to a synthetic sentence, which a provider may charge for. Redirects are refused, timeouts are
finite, answers are bounded, and a server's words are shown only shortened, masked and made printable.

Sources: OpenAI API reference (models, chat completions); llama.cpp server `meta.n_ctx`; vLLM `max_model_len`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from fluzo.core.errors import ProviderError
from fluzo.core.redact import make_redactor, printable
from fluzo.models.endpoint import is_loopback

_MAX_BYTES = 8 << 20
_SYNTHETIC = "Reply with the single word: ready"
_PROBE_TOOL = {
    "type": "function",
    "function": {"name": "noop", "description": "Does nothing.", "parameters": {"type": "object", "properties": {}}},
}
_WINDOW_KEYS = ("loaded_context_length", "max_model_len", "context_length", "max_context_length", "context_window")


@dataclass(frozen=True, slots=True)
class DiscoveredModel:
    """A model that the server lists; `context_window` in tokens as it is served, None when the server does not say."""

    id: str
    context_window: int | None


@dataclass(frozen=True, slots=True)
class ProbeCheck:
    """One optional parameter: whether the server accepted it, and its own words when it did not."""

    parameter: str
    accepted: bool
    detail: str


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`compat` holds the settings of `models.<id>.compat` that differ from the defaults for this server."""

    requests: int
    checks: tuple[ProbeCheck, ...]
    compat: Mapping[str, object]


def discover_models(
    base_url: str, headers: Mapping[str, str] | None = None, timeout_seconds: float = 10
) -> list[DiscoveredModel]:
    """The models that the server lists, in its order. Sends one GET, no inference.

    Raises ProviderError with the cause and the next step.
    """
    with _Server(base_url, headers or {}, timeout_seconds) as server:
        status, body = server.send("GET", "/models")
        if status != 200:
            raise server.failure(status, body)
        document = server.json(body)
    entries = document.get("data", document.get("models")) if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise server.error("answered, but not with a list of models", hint=server.path_hint())
    models = {model.id: model for entry in entries if (model := _model(entry)) is not None}
    if not models:
        raise server.error("lists no models", code="provider_empty", hint="Load a model in the server, then try again.")
    return list(models.values())


def _model(entry: object) -> DiscoveredModel | None:
    if not isinstance(entry, dict):
        return None
    name = entry.get("id") or entry.get("name") or entry.get("model")
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 300:
        return None
    meta = entry.get("meta")
    # llama.cpp: meta.n_ctx is the window of one slot, which is what a request gets.
    found = [meta.get("n_ctx") if isinstance(meta, dict) else None, *(entry.get(key) for key in _WINDOW_KEYS)]
    window = next((n for n in found if isinstance(n, int) and not isinstance(n, bool) and n > 0), None)
    return DiscoveredModel(name, window)


def probe(
    base_url: str, model: str, headers: Mapping[str, str] | None = None, timeout_seconds: float = 120
) -> ProbeResult:
    """Find out which optional parameters the server refuses, with a handful of tiny synthetic replies.

    Raises ProviderError when even the plainest request fails, or when a request says nothing about its parameter
    (no access, too many requests, a server error).
    """
    with _Server(base_url, headers or {}, timeout_seconds) as server:
        return _Probe(server, model).run()


class _Probe:
    def __init__(self, server: "_Server", model: str) -> None:
        self._server = server
        self._plain: dict[str, object] = {"model": model, "messages": [{"role": "user", "content": _SYNTHETIC}]}
        self._checks: list[ProbeCheck] = []
        self._requests = 0

    def run(self) -> ProbeResult:
        compat: dict[str, object] = {}
        limit = self._output_limit()
        if limit != "max_tokens":
            compat["output_limit_parameter"] = limit
        if limit != "omit":
            self._plain[limit] = 16
        if not self._accepts("stream", {"stream": True}):
            compat["stream"] = False
        elif not self._accepts("stream_options", {"stream": True, "stream_options": {"include_usage": True}}):
            compat["usage_in_stream"] = False
        if self._accepts("tools", {"tools": [_PROBE_TOOL]}):
            self._accepts("parallel_tool_calls", {"tools": [_PROBE_TOOL], "parallel_tool_calls": True})
        return ProbeResult(self._requests, tuple(self._checks), compat)

    def _output_limit(self) -> str:
        for name in ("max_tokens", "max_completion_tokens"):
            if self._accepts(name, {name: 16}):
                return name
        if not self._accepts("no output limit", {}):
            raise self._server.error(
                f"refuses even the plainest request: {self._checks[-1].detail}",
                code="provider_invalid_request",
                hint="Check the model's name against the server's list.",
            )
        return "omit"

    def _accepts(self, parameter: str, extra: Mapping[str, object]) -> bool:
        self._requests += 1
        status, body = self._server.send("POST", "/chat/completions", {**self._plain, **extra})
        detail = _problem(body)
        if status not in (200, 400, 422, 501):
            raise self._server.failure(status, body)
        if status == 200 and not detail and not any(_has_choices(document) for document in _documents(body)):
            if not extra.get("stream"):
                self._server.json(body)
            raise self._server.error("answered, but not with a chat completion", hint=self._server.path_hint())
        accepted = status == 200 and not detail
        self._checks.append(ProbeCheck(parameter, accepted, "" if accepted else detail or f"status {status}"))
        return accepted


class _Server:
    """One client for one base URL; every failure of the transport becomes a ProviderError that names the server."""

    def __init__(self, base_url: str, headers: Mapping[str, str], timeout_seconds: float) -> None:
        self._base = base_url.rstrip("/")
        parts = urlsplit(self._base)
        self.name = printable(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}", keep_newlines=False)
        self._seconds = timeout_seconds
        try:
            self._client = httpx.Client(
                headers={"Accept": "application/json, text/event-stream", **headers},
                timeout=httpx.Timeout(timeout_seconds, connect=min(10.0, timeout_seconds)),
                follow_redirects=False,
                # A proxy of the environment cannot reach this machine's own addresses and must not see them.
                trust_env=not is_loopback(parts.hostname or ""),
            )
        except (ImportError, ValueError, httpx.InvalidURL) as exc:
            raise ProviderError(
                f"The proxy of your environment cannot be used for {self.name}.",
                code="provider_unavailable",
                hint="Unset ALL_PROXY, HTTP_PROXY and HTTPS_PROXY, or list the server in NO_PROXY.",
            ) from exc

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()

    def send(self, method: str, path: str, body: Mapping[str, object] | None = None) -> tuple[int, bytes]:
        try:
            with self._client.stream(method, self._base + path, json=body) as response:
                if response.is_redirect or 300 <= response.status_code < 400:
                    raise self.error(
                        f"answers with a redirect ({response.status_code}), which is not followed",
                        code="redirect_blocked",
                        hint="Enter the address that it redirects to yourself, if you trust it.",
                    )
                content = b""
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > _MAX_BYTES:
                        raise self.error("sent more than 8 MiB, which is no sensible answer")
                return response.status_code, content
        except httpx.TimeoutException as exc:
            raise self.error(
                f"did not answer within {self._seconds:g} seconds",
                code="provider_timeout",
                hint="It may be loading a model; try again.",
            ) from exc
        except httpx.ConnectError as exc:
            raise self.error(
                "cannot be reached: nothing answers there",
                code="provider_unavailable",
                hint="Start the server, or check host and port.",
            ) from exc
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as exc:
            raise self.error(
                "broke the connection or does not speak HTTP",
                code="provider_unavailable",
                hint="Check host, port and http against https.",
            ) from exc

    def json(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except ValueError as exc:
            if body.lstrip()[:1] == b"<":
                raise self.error("is a web page, not an API", hint=self.path_hint()) from exc
            raise self.error("answered, but not with JSON", hint=self.path_hint()) from exc

    def failure(self, status: int, body: bytes) -> ProviderError:
        """The error for an answer that is neither a success nor a refusal of a parameter."""
        said = _problem(body)
        words = f" ({said})" if said else ""
        if status in (401, 403):
            return self.error(
                f"refuses access with status {status}{words}",
                code="provider_auth",
                hint="Give it a key: --auth env --api-key-env NAME, or --auth credential --credential-ref NAME.",
            )
        if status == 404:
            return self.error(
                f"has nothing at that address (status 404){words}",
                code="provider_invalid_request",
                hint=self.path_hint() or "Check the model's name.",
            )
        if status == 429:
            return self.error(f"takes no more requests now (status 429){words}", code="rate_limited", hint="Try later.")
        if status >= 500:
            return self.error(
                f"failed with status {status}{words}", code="provider_unavailable", hint="Look at its log."
            )
        return self.error(f"refused the request with status {status}{words}", code="provider_invalid_request")

    def path_hint(self) -> str:
        if self._base.endswith("/v1"):
            return "Check the address; it ends where /models and /chat/completions begin."
        return f"Most servers want /v1 at the end: {self.name}/v1"

    def error(self, what: str, *, code: str = "provider_protocol", hint: str = "") -> ProviderError:
        return ProviderError(f"{self.name} {what}.", code=code, hint=hint)


_redact = make_redactor()


def _documents(body: bytes) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of an answer, whether it came in one piece or as a stream."""
    for line in [body, *(part[5:] for part in body.splitlines() if part.startswith(b"data:"))]:
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict):
            yield document


def _has_choices(document: Mapping[str, Any]) -> bool:
    return isinstance(document.get("choices"), list)


def _problem(body: bytes) -> str:
    """The server's own words for what it refused, or an empty text; also from within a stream of status 200."""
    for document in _documents(body):
        if error := document.get("error") or document.get("detail"):
            message = error.get("message", error) if isinstance(error, dict) else error
            return printable(_redact(str(message)), keep_newlines=False)[:200]
    return ""
