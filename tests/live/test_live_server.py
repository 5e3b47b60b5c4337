"""What any real Chat Completions server must do with Fluzo's requests. The quality of its answers is no matter."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from support.live import SERVER, LiveServer

from fluzo.core.errors import ProviderError
from fluzo.core.records import Message, ModelReply, ModelRequest, ToolCall, ToolSpec
from fluzo.models.admission import Admission, PoolLimits
from fluzo.models.discovery import DiscoveredModel, discover_models
from fluzo.models.endpoint import ModelEndpoint
from fluzo.models.gateway import Gateway
from fluzo.models.probe import ProbeResult, probe

pytestmark = pytest.mark.live

Observe = Callable[[str, object], None]
READ_FILE = ToolSpec(
    "read_file",
    "Read a text file of the project.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


@pytest.fixture(scope="module")
def server(pytestconfig: pytest.Config) -> LiveServer:
    return pytestconfig.stash[SERVER]


@pytest.fixture(scope="module")
def model(server: LiveServer) -> DiscoveredModel:
    listed = discover_models(server.url, server.token)
    named = [model for model in listed if model.id == server.model]
    assert named or not server.model, f"the server does not list {server.model}"
    return (named or listed)[0]


@pytest.fixture(scope="module")
def probed(server: LiveServer, model: DiscoveredModel) -> ProbeResult:
    return probe(server.url, model.id, server.token)


@pytest.fixture(scope="module")
def endpoint(server: LiveServer, model: DiscoveredModel, probed: ProbeResult) -> ModelEndpoint:
    compat: dict[str, Any] = dict(probed.compat)
    return ModelEndpoint("live", server.url, model.id, allow_insecure_http=True, **compat)


class Asked:
    """One gateway in front of the server; `deltas` are the pieces that came of the last reply."""

    def __init__(self, endpoint: ModelEndpoint, token: str | None) -> None:
        self.admission = Admission({endpoint.capacity: 1}, {endpoint.pool: PoolLimits()})
        self.gateway = Gateway([endpoint], {endpoint.id: lambda: token}, self.admission)
        self.deltas: list[str] = []
        self.begun = asyncio.Event()

    async def complete(self, *messages: Message, tokens: int = 48, tools: tuple[ToolSpec, ...] = ()) -> ModelReply:
        self.deltas.clear()
        return await self.gateway.complete("live", ModelRequest(messages, tools, tokens), self._delta, 300)

    def _delta(self, text: str, thought: bool) -> None:
        self.deltas.append(text)
        self.begun.set()


def play(scenario: Callable[[Asked], Any], endpoint: ModelEndpoint, server: LiveServer) -> Any:
    async def whole() -> Any:
        asked = Asked(endpoint, server.token)
        try:
            return await scenario(asked)
        finally:
            await asked.gateway.close()

    return asyncio.run(whole())


def user(text: str) -> Message:
    return Message("user", text)


def described(reply: ModelReply) -> str:
    return f"{reply.outcome}, finish {reply.finish or 'none'}, usage {reply.usage}"


def test_the_models_are_listed(server: LiveServer, record_property: Observe) -> None:
    listed = discover_models(server.url, server.token)
    shown = ", ".join(f"{model.id} ({model.context_window or 'no'} window)" for model in listed[:3])
    record_property("discovery", f"{len(listed)} listed: {shown}")


def test_the_probe_comes_to_an_end(probed: ProbeResult, record_property: Observe) -> None:
    refused = [check.parameter for check in probed.checks if not check.accepted]
    record_property("probe", f"{probed.requests} requests, refused {refused or 'nothing'}, suggests {probed.compat}")
    assert probed.checks


def test_a_reply_is_streamed_in_pieces(endpoint: ModelEndpoint, server: LiveServer, record_property: Observe) -> None:
    if not endpoint.stream:
        pytest.skip("the server refuses to stream")

    async def scenario(asked: Asked) -> tuple[ModelReply, int, str]:
        reply = await asked.complete(user("Count from one to ten in words."))
        return reply, len(asked.deltas), "".join(asked.deltas)

    reply, pieces, shown = play(scenario, endpoint, server)
    record_property("streaming", f"{pieces} pieces, {described(reply)}")
    assert pieces > 1
    assert shown in (reply.text, reply.reasoning + reply.text)


def test_usage_is_reported_and_adds_up(endpoint: ModelEndpoint, server: LiveServer, record_property: Observe) -> None:
    async def scenario(asked: Asked) -> list[ModelReply]:
        return [await asked.complete(user("Say hello. " * repeated), tokens=8) for repeated in (1, 50)]

    short, long = play(scenario, endpoint, server)
    record_property("usage", f"{short.usage} and, for a prompt 50 times as long, {long.usage}")
    if short.usage is None or long.usage is None:
        pytest.skip("the server reports no usage, so Fluzo goes by its own estimate")
    assert long.usage.input_tokens > short.usage.input_tokens > 0
    assert 0 < short.usage.output_tokens <= 64  # Some servers think beyond the limit that was asked for.


def test_a_cancel_in_mid_stream_leaves_the_slot_uncertain_and_the_server_usable(
    endpoint: ModelEndpoint, server: LiveServer, record_property: Observe
) -> None:
    async def scenario(asked: Asked) -> tuple[int, int, ModelReply]:
        task = asyncio.create_task(asked.complete(user("Tell a very long story."), tokens=1500))
        await asyncio.wait_for(asked.begun.wait(), 120)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        uncertain = asked.admission.snapshot()[0].uncertain
        freed = asked.admission.reset()
        return uncertain, freed, await asked.complete(user("Say hello."), tokens=8)

    uncertain, freed, reply = play(scenario, endpoint, server)
    waited = reply.first_output_seconds or 0.0
    record_property("cancel", f"slot uncertain, then reset; the next reply began {waited:.1f} s after it was asked for")
    assert (uncertain, freed) == (1, 1)
    assert reply.outcome != "empty"


def test_a_prompt_beyond_the_window_is_an_overflow_or_shows_in_the_usage(
    endpoint: ModelEndpoint, server: LiveServer, model: DiscoveredModel, record_property: Observe
) -> None:
    window = server.context or model.context_window
    if not window:
        pytest.skip("the server does not tell its window; give it with --live-context")

    async def scenario(asked: Asked) -> ModelReply | ProviderError:
        try:
            return await asked.complete(user("word " * int(window * 1.3)), tokens=8)
        except ProviderError as exc:
            return exc

    end = play(scenario, endpoint, server)
    if isinstance(end, ProviderError):
        record_property("overflow", f"{end.code}: {end.message} {end.detail}")
        assert (end.code, end.retry) == ("context_overflow", "never")
        return
    record_property("overflow", f"no refusal: {described(end)}")
    assert end.usage is None or end.usage.input_tokens <= window
    pytest.xfail("the server cuts long prompts off without a word")


def test_offered_tools_are_called_whole_or_not_at_all_and_their_results_are_taken(
    endpoint: ModelEndpoint, server: LiveServer, record_property: Observe
) -> None:
    ask = user("Show me README.md.")

    async def scenario(asked: Asked) -> tuple[ModelReply, ModelReply]:
        first = await asked.complete(ask, tokens=128, tools=(READ_FILE,))
        incomplete = first.outcome == "incomplete"
        said = Message("assistant", first.text, first.reasoning, first.tool_calls, incomplete=incomplete)
        results = [Message("tool", "# Read me", tool_call_id=call.id) for call in first.tool_calls]
        rest = (said, *results) if results else (said, user("Go on."))
        return first, await asked.complete(ask, *rest, tools=(READ_FILE,))

    first, second = play(scenario, endpoint, server)
    made = [f"{call.name} {call.arguments}" for call in first.tool_calls]
    record_property("tool call", f"{made or 'none'}, {described(first)}; then {described(second)}")
    assert not first.tool_calls or first.outcome == "complete"
    for call in first.tool_calls:
        assert isinstance(json.loads(call.arguments), dict)


def test_a_history_with_calls_and_results_is_taken(
    endpoint: ModelEndpoint, server: LiveServer, record_property: Observe
) -> None:
    call = ToolCall("call_0123456789", READ_FILE.name, '{"path":"README.md"}')
    history = (
        Message("system", "Be brief."),
        user("Read README.md."),
        Message("assistant", "", tool_calls=(call, ToolCall("call_9876543210", READ_FILE.name, call.arguments))),
        Message("tool", "# Read me", tool_call_id="call_0123456789"),
        Message("tool", "# Read me", tool_call_id="call_9876543210"),
    )
    reply = play(lambda asked: asked.complete(*history, tools=(READ_FILE,)), endpoint, server)
    record_property("history", described(reply))
    assert reply.outcome in ("complete", "incomplete")
