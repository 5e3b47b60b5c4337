"""The measured process of the turn's row: `model_turns.py PLACE URL TURNS` prints both lists of samples as JSON."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
from journal_pairs import new_pair, store

from fluzo.core.records import Message, ModelRequest, ToolCall, ToolSpec
from fluzo.models.admission import Admission, PoolLimits
from fluzo.models.chat import encode
from fluzo.models.endpoint import ModelEndpoint
from fluzo.models.gateway import Gateway

WARM_UP = 3
CONVERSATION_CHARS = 128_000
"""About 32,000 tokens."""
RESULT = "    assert merge([(1, 3), (2, 5)]) == [(1, 5)]  # touching intervals are one\n" * 40
TOOLS = tuple(
    ToolSpec(name, f"Do {name} in the workspace.", {"type": "object", "properties": {"path": {"type": "string"}}})
    for name in ("read_file", "list_files", "search", "edit_file", "write_file", "run", "git")
)


def conversation() -> ModelRequest:
    messages = [Message("system", "You repair programs. " * 50), Message("user", "Fix the failing test.")]
    for number in range(CONVERSATION_CHARS // len(RESULT)):
        call = ToolCall(f"call_{number}", "read_file", json.dumps({"path": f"src/interval_{number}.py"}))
        messages += [
            Message("assistant", "I look at the next file.", tool_calls=(call,)),
            Message("tool", RESULT, tool_call_id=call.id),
        ]
    return ModelRequest(tuple(messages), TOOLS, 4096)


async def measure(place: Path, url: str, turns: int) -> tuple[list[float], list[float]]:
    endpoint = ModelEndpoint("bench", url, "bench")
    gateway = Gateway([endpoint], {"bench": lambda: None}, Admission({"bench": 1}, {"local": PoolLimits()}))
    journal = await store(place)
    request = conversation()
    body = encode(request, endpoint)
    shown = 0

    def on_delta(text: str, thought: bool) -> None:
        nonlocal shown
        shown += len(text)

    async def turn() -> None:
        pair = new_pair()
        await journal.commit_intent(pair.intent, events=[pair.intended])
        reply = await gateway.complete("bench", request, on_delta, 600)
        await journal.commit_outcome(pair.outcome, events=[pair.ended])
        assert reply.outcome == "complete"

    async def bare_loop() -> None:
        async with client.stream("POST", endpoint.chat_url, content=body) as response:
            async for _ in response.aiter_raw():
                pass

    sides: tuple[Callable[[], Awaitable[None]], ...] = (turn, bare_loop)
    taken: tuple[list[float], list[float]] = ([], [])
    async with httpx.AsyncClient(trust_env=False) as client:
        for number in range(WARM_UP + turns):
            for side in (0, 1) if number % 2 else (1, 0):
                started = time.perf_counter()
                await sides[side]()
                taken[side].append(time.perf_counter() - started)
    await gateway.close()
    await journal.close()
    return taken[0][WARM_UP:], taken[1][WARM_UP:]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))))
