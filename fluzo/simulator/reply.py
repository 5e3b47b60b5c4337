"""A scripted answer as the bytes of the Chat Completions protocol, streamed or whole.

Pure: the same reply gives the same bytes. Ids and times are fixed, because a scenario is a recording and not a
clock. Format: the OpenAI API reference, "Chat completion object" and "Chat completion chunk object".
"""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from fluzo.simulator.scenario import Part, Reply, ScriptedCall

CREATED = 1_700_000_000
COMPLETION_ID = "chatcmpl-scripted"


def stream_events(reply: Reply, model: str, *, include_usage: bool) -> Iterator[bytes | Part]:
    """The events of a streamed answer in order; a part that is no data (hold, disconnect) comes as itself."""
    yield _chunk(model, {"role": "assistant", "content": None})
    index = 0
    for part in reply.parts:
        if part.tool_call is not None:
            yield from _call_chunks(model, part.tool_call, index)
            index += 1
        elif part.hold or part.disconnect:
            yield part
        else:
            key = "content" if part.text else "reasoning_content"
            for _ in range(part.times):
                yield _chunk(model, {key: part.text or part.reasoning})
    yield _chunk(model, {}, finish=finish_reason(reply))
    if include_usage and reply.usage is not None:
        yield _event({**_head("chat.completion.chunk", model), "choices": [], "usage": usage(reply)})
    if reply.done:
        yield b"data: [DONE]\n\n"


def whole_object(reply: Reply, model: str) -> bytes:
    """The one JSON object of an answer that is not streamed."""
    text = "".join(part.text * part.times for part in reply.parts)
    reasoning = "".join(part.reasoning * part.times for part in reply.parts)
    called = [part.tool_call for part in reply.parts if part.tool_call is not None]
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if called:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in called
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(reply)}
    counted = {"usage": usage(reply)} if reply.usage is not None else {}
    return json.dumps({**_head("chat.completion", model), "choices": [choice], **counted}).encode()


def finish_reason(reply: Reply) -> str:
    if reply.finish:
        return reply.finish
    return "tool_calls" if any(part.tool_call for part in reply.parts) else "stop"


def usage(reply: Reply) -> Mapping[str, object]:
    """The scripted usage, with the total that the protocol wants beside the two counts."""
    counts = dict(reply.usage or {})
    numbers = [value for key in ("prompt_tokens", "completion_tokens") if isinstance(value := counts.get(key), int)]
    return {"total_tokens": sum(numbers), **counts}


def models_object(names: tuple[str, ...]) -> bytes:
    """The answer to GET /v1/models."""
    data = [{"id": name, "object": "model", "created": CREATED, "owned_by": "scenario"} for name in names]
    return json.dumps({"object": "list", "data": data}).encode()


def _call_chunks(model: str, call: ScriptedCall, index: int) -> Iterator[bytes]:
    head = {"index": index, "id": call.id, "type": "function"}
    if not call.cuts:
        yield _chunk(model, {"tool_calls": [{**head, "function": {"name": call.name, "arguments": call.arguments}}]})
        return
    yield _chunk(model, {"tool_calls": [{**head, "function": {"name": call.name, "arguments": ""}}]})
    bounds = [0, *call.cuts, len(call.arguments)]
    for start, end in pairwise(bounds):
        piece = {"index": index, "function": {"arguments": call.arguments[start:end]}}
        yield _chunk(model, {"tool_calls": [piece]})


def _chunk(model: str, delta: Mapping[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event({**_head("chat.completion.chunk", model), "choices": [choice]})


def _head(kind: str, model: str) -> dict[str, object]:
    return {"id": COMPLETION_ID, "object": kind, "created": CREATED, "model": model}


def _event(data: Mapping[str, object]) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"
