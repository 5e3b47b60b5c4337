"""One configured model endpoint as plain values: where it is, what it understands, how long to wait for it.

The composition root builds it from the settings; nothing here reads settings, environment or secrets. The token
is not part of it: `Authorize` resolves it when a request is dispatched, so that it lives as short as possible.
"""

import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit

from fluzo.core.errors import ConfigError
from fluzo.core.named import NamedTuple

Authorize = Callable[[], str | None]
"""Gives the bearer token for one dispatch, or None for an endpoint without authentication."""


class ModelEndpoint(NamedTuple):
    """`id` is the name of the `[models]` entry; the compat fields mirror its `compat` table."""

    id: str
    base_url: str
    model: str
    max_output_tokens: int = 4096
    context_window: int = 32768
    connect_timeout_seconds: float = 10
    first_output_timeout_seconds: float = 90
    idle_stream_timeout_seconds: float = 30
    request_timeout_seconds: float = 180
    capacity_id: str = ""
    pool: str = "local"
    max_in_flight: int = 1
    stream: bool = True
    usage_in_stream: bool = True
    parallel_tool_calls: str = "omit"
    output_limit_parameter: str = "max_tokens"
    tool_call_ids: str = "any"
    send_reasoning: bool = False
    reasoning_field: str = "reasoning_content"
    text_tool_calls: bool = False
    stops_on_disconnect: bool = False
    allow_insecure_http: bool = False

    @property
    def chat_url(self) -> str:
        return f"{self.base_url.rstrip('/')}/chat/completions"

    @property
    def capacity(self) -> str:
        """The identity that aliases of one served model share."""
        return self.capacity_id or self.id

    @property
    def origin(self) -> str:
        """Scheme, host and port: all of the address that is ever shown."""
        return origin_of(self.base_url) or "an address that cannot be read"

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def secure(self) -> bool:
        return urlsplit(self.base_url).scheme == "https"

    def setting(self, name: str) -> str:
        """The full key of one of this entry's settings, for messages."""
        return f"models.{self.id}.{name}"


def origin_of(url: str) -> str:
    """`scheme://host:port` of an absolute http(s) URL without credentials, path or query; empty if it is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host:
        return ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" if port is None else f"{parts.scheme}://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its spelling; names are never resolved for it (RFC 6761 for localhost)."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or (mapped is not None and mapped.is_loopback)


def check_destination(endpoint: ModelEndpoint) -> None:
    """Raise ConfigError unless requests may go there: https, loopback, or http by the entry's explicit exception."""
    if not origin_of(endpoint.base_url):
        raise ConfigError(
            f"{endpoint.setting('base_url')} is not an http or https address.",
            hint="Give the address up to and including the version, for example http://127.0.0.1:8080/v1.",
        )
    if not endpoint.secure and not endpoint.loopback and not endpoint.allow_insecure_http:
        raise ConfigError(
            f"{endpoint.origin} is outside this machine and not encrypted, so nothing was sent to it.",
            hint=f"Use https, or accept plain http for this endpoint with {endpoint.setting('allow_insecure_http')} "
            "= true.",
        )
