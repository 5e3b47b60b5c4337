"""What a server offers, asked before it is configured: its list of models.

Invariant: nothing here runs by itself, and it is one GET that never asks for inference (`probe.py` does). Redirects are
refused, timeouts are finite, answers are bounded, and a server's words are shown only shortened, masked and made
printable.

Sources: OpenAI API reference (models); llama.cpp server `meta.n_ctx`; vLLM `max_model_len`.
"""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx

from fluzo.core.errors import ProviderError
from fluzo.core.named import NamedTuple
from fluzo.core.redact import make_redactor, printable
from fluzo.models.endpoint import is_loopback
from fluzo.models.failures import Kind, Report, classify, read_report
from fluzo.models.jsontext import parse

_MAX_BYTES = 8 << 20
_WINDOW_KEYS = ("loaded_context_length", "max_model_len", "context_length", "max_context_length", "context_window")


class DiscoveredModel(NamedTuple):
    """A model that the server lists; `context_window` in tokens as it is served, None when the server does not say."""

    id: str
    context_window: int | None


def discover_models(base_url: str, token: str | None = None, timeout_seconds: float = 10) -> list[DiscoveredModel]:
    """The models that the server lists, in its order. Sends one GET, no inference.

    Raises ProviderError with the cause and the next step.
    """
    with _Server(base_url, token, timeout_seconds) as server:
        status, body = server.get("/models")
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


class _Server:
    """One client for one base URL; every failure of the transport becomes a ProviderError that names the server."""

    def __init__(self, base_url: str, token: str | None, timeout_seconds: float) -> None:
        self._base = base_url.rstrip("/")
        parts = urlsplit(self._base)
        self.name = printable(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}", keep_newlines=False)
        self._seconds = timeout_seconds
        # A server may echo the very key it was given.
        self._redact = make_redactor([token] if token else [])
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._client = httpx.Client(
                headers={"Accept": "application/json", **headers},
                timeout=httpx.Timeout(timeout_seconds, connect=min(10.0, timeout_seconds)),
                follow_redirects=False,
                event_hooks={"response": [_set_location_aside]},
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

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body. Raises ProviderError for a redirect and for everything that is no answer."""
        deadline = time.monotonic() + self._seconds
        try:
            with self._client.stream("GET", self._base + path) as response:
                if 300 <= response.status_code < 400:
                    raise self.error(
                        f"answers with a redirect ({response.status_code}), which is not followed",
                        code="redirect_blocked",
                        hint="Enter the address that it redirects to yourself, if you trust it.",
                    )
                content = bytearray()
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > _MAX_BYTES:
                        raise self.error("sent more than 8 MiB, which is no sensible answer")
                    if time.monotonic() > deadline:
                        raise httpx.ReadTimeout("the answer goes on and on")
                return response.status_code, bytes(content)
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

    def json(self, body: bytes) -> object:
        try:
            return parse(body.decode("utf-8-sig", "replace"))
        except ValueError as exc:
            if body.lstrip()[:1] == b"<":
                raise self.error("is a web page, not an API", hint=self.path_hint()) from exc
            raise self.error("answered, but not with JSON", hint=self.path_hint()) from exc

    def failure(self, status: int, body: bytes) -> ProviderError:
        """The error for an answer that is no success; nothing is asked again."""
        report = _report(body)
        said = printable(self._redact(report.message), keep_newlines=False)[:200]
        kind = classify(status, report)
        what, code, hint = _FAILURES.get(kind, ("failed", "provider_unavailable", "Look at its log."))
        if kind == "missing":
            hint = self.path_hint()
        words = f" ({said})" if said else ""
        return self.error(f"{what}, status {status}{words}", code=code, hint=hint)

    def path_hint(self) -> str:
        if self._base.endswith("/v1"):
            return "Check the address; it ends where /models and /chat/completions begin."
        return f"Most servers want /v1 at the end: {self.name}/v1"

    def error(self, what: str, *, code: str = "provider_protocol", hint: str = "") -> ProviderError:
        return ProviderError(f"{self.name} {what}.", code=code, hint=hint)


_FAILURES: Mapping[Kind, tuple[str, str, str]] = {
    "auth": (
        "refuses access",
        "provider_auth",
        "Give it a key: --auth env --api-key-env NAME, or --auth credential --credential-ref NAME.",
    ),
    "quota": ("says that a quota or credit is used up", "provider_quota", "Settle it with the provider."),
    "rate": ("takes no more requests now", "rate_limited", "Try later."),
    "missing": ("has nothing at that address", "provider_invalid_request", ""),
    "invalid": ("refused the request", "provider_invalid_request", ""),
}
"""What happened, the code and the next step, for each kind of refusal that is not a fault of the server."""


def _set_location_aside(response: httpx.Response) -> None:
    """Keep httpx from building the request it would follow a redirect with: it fails on a malformed location."""
    response.headers.pop("location", None)


def _report(body: bytes) -> Report:
    """The server's own words for what it refused; a page for a browser says nothing of use."""
    try:
        return read_report(parse(body.decode("utf-8-sig", "replace")))
    except ValueError:
        return Report()
