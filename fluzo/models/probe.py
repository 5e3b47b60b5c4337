"""What a server understands, found out with a handful of tiny replies to synthetic messages.

Invariant: nothing here runs by itself, for a provider may charge for every reply. Each request takes the one route to
inference, the gateway, and so keeps to its rules: no redirect is followed, nothing is tried again, answers are
bounded, and a server's words come out shortened, masked and printable.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fluzo.core.errors import ProviderError
from fluzo.core.records import Message, ModelReply, ModelRequest, ToolCall, ToolSpec
from fluzo.core.redact import printable
from fluzo.models.admission import Admission, PoolLimits
from fluzo.models.endpoint import ModelEndpoint
from fluzo.models.gateway import Gateway
from fluzo.models.textcalls import mentions_call

_NOOP = ToolSpec("noop", "Does nothing.", {"type": "object", "properties": {}})
_ANY_ID = "call_0123456789abcdef"
"""Of the length and form that most servers give; some take only nine letters and digits."""


@dataclass(frozen=True, slots=True)
class ProbeCheck:
    """One thing that was tried: whether the server accepted it, and its own words when it did not."""

    parameter: str
    accepted: bool
    detail: str


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`compat` holds the settings of `models.<id>.compat` that differ from the defaults for this server."""

    requests: int
    checks: tuple[ProbeCheck, ...]
    compat: Mapping[str, object]


def probe(
    base_url: str, model: str, token: str | None = None, *, entry: str = "coder", timeout_seconds: float = 120
) -> ProbeResult:
    """Find out which optional parts of a request the server refuses. `entry` names the model entry in messages.

    The caller has had the address accepted, plain http to another machine included. Raises ProviderError when even the
    plainest request fails, or when a request says nothing about what it tried (no access, too many requests, a fault).
    """
    endpoint = ModelEndpoint(
        entry,
        base_url,
        model,
        stream=False,
        allow_insecure_http=True,
        connect_timeout_seconds=min(10.0, timeout_seconds),
        first_output_timeout_seconds=timeout_seconds,
        idle_stream_timeout_seconds=timeout_seconds,
        request_timeout_seconds=timeout_seconds,
    )
    return asyncio.run(_Probe(endpoint, token).run())


class _Probe:
    def __init__(self, endpoint: ModelEndpoint, token: str | None) -> None:
        self._endpoint = endpoint
        self._token = token
        self._admission = Admission({endpoint.capacity: 1}, {endpoint.pool: PoolLimits()})
        self._checks: list[ProbeCheck] = []
        self._requests = 0
        self._compat: dict[str, object] = {}

    async def run(self) -> ProbeResult:
        await self._output_limit()
        if not await self._try("stream", stream=True, usage_in_stream=False):
            self._compat["stream"] = False
        elif not await self._try("stream_options", stream=True):
            self._compat["usage_in_stream"] = False
        await self._tool_calls()
        return ProbeResult(self._requests, tuple(self._checks), self._compat)

    async def _output_limit(self) -> None:
        """Settle the name of the output limit first: every other request carries it."""
        for name in ("max_tokens", "max_completion_tokens"):
            if await self._try(name, output_limit_parameter=name):
                break
        else:
            name = "omit"
            if not await self._try("no output limit", output_limit_parameter=name):
                raise ProviderError(
                    f"{self._endpoint.origin} refuses even the plainest request: {self._checks[-1].detail}.",
                    code="provider_invalid_request",
                    hint="Check the model's name against the server's list.",
                )
        self._endpoint = self._endpoint._replace(output_limit_parameter=name)
        if name != "max_tokens":
            self._compat["output_limit_parameter"] = name

    async def _tool_calls(self) -> None:
        ask = Message("user", "Call the function noop now.")
        reply = await self._try("tools", ModelRequest((ask,), (_NOOP,), 64))
        if reply is None:
            return
        if not reply.tool_calls and mentions_call(reply.text):
            detail = "the model writes tool calls as text and the server does not parse them"
            self._checks.append(ProbeCheck("native tool calls", False, detail))
            self._compat["text_tool_calls"] = True
        await self._try("parallel_tool_calls", ModelRequest((_hello(),), (_NOOP,), 16), parallel_tool_calls="true")
        called = Message("assistant", tool_calls=(ToolCall(_ANY_ID, _NOOP.name, "{}"),))
        answered = ModelRequest((ask, called, Message("tool", "done", tool_call_id=_ANY_ID)), (_NOOP,), 16)
        if not await self._try("tool_call_id", answered) and await self._try(
            "tool_call_id of nine letters and digits", answered, tool_call_ids="mistral"
        ):
            self._compat["tool_call_ids"] = "mistral"

    async def _try(self, what: str, request: ModelRequest | None = None, **compat: Any) -> ModelReply | None:
        """The reply to a request with these compat values, or None when the server refuses it for its content."""
        self._requests += 1
        endpoint = self._endpoint._replace(**compat)
        try:
            reply = await self._ask(endpoint, request or ModelRequest((_hello(),), (), 16))
        except ProviderError as exc:
            if not _is_refusal(exc):
                exc.hint = f"{exc.hint} It was asked at {_shown(endpoint.chat_url)}.".lstrip()
                raise
            self._checks.append(ProbeCheck(what, False, str(exc.detail.get("server_message") or exc.message)))
            return None
        self._checks.append(ProbeCheck(what, True, ""))
        return reply

    async def _ask(self, endpoint: ModelEndpoint, request: ModelRequest) -> ModelReply:
        gateway = Gateway([endpoint], {endpoint.id: lambda: self._token}, self._admission, retries=0)
        request = request._replace(purpose="capability_probe")
        try:
            reply = await gateway.complete(
                endpoint.id, request, lambda text, thought: None, endpoint.request_timeout_seconds
            )
        finally:
            await gateway.close()
        if reply.outcome == "empty" and not (reply.reasoning or reply.usage or reply.model or reply.response_id):
            raise ProviderError(
                f"{endpoint.origin} answered, but not with JSON or a stream: it sent nothing.",
                hint=f"Check {endpoint.setting('base_url')}; it usually ends in /v1.",
            )
        return reply


def _hello() -> Message:
    return Message("user", "Reply with the single word: ready")


def _is_refusal(error: ProviderError) -> bool:
    """Whether the server refused what the request said, rather than the request as such."""
    status = error.detail.get("status")
    if error.code == "provider_invalid_request":
        return status not in (404, 405)
    # An error inside a success that fits no class: it answered, and did not like what it read.
    return error.code == "provider_unavailable" and error.detail.get("kind") == "unknown" and status is None


def _shown(url: str) -> str:
    """The address without what may be secret in it."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    bare = path.partition("?")[0].partition("#")[0]
    return printable(f"{scheme}://{host.rpartition('@')[2]}{slash}{bare}", keep_newlines=False)
