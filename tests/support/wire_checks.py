"""What the wire cases expect of a reply or an error, whichever way their bytes came."""

import json
from typing import Any

from fluzo.core.errors import ProviderError
from fluzo.core.records import ModelReply


def check_reply(reply: ModelReply, expect: dict[str, Any]) -> None:
    assert reply.outcome == expect["outcome"]
    assert reply.text == expect["text"]
    assert reply.reasoning == expect["reasoning"]
    assert (reply.finish or None) == expect["finish"]
    assert [(call.name, json.loads(call.arguments)) for call in reply.tool_calls] == [
        (call["name"], call["arguments"]) for call in expect["tool_calls"]
    ]
    for call, wanted in zip(reply.tool_calls, expect["tool_calls"], strict=True):
        assert call.id and call.id == (wanted["id"] or call.id)
    assert len({call.id for call in reply.tool_calls}) == len(reply.tool_calls)
    assert not {call.name for call in reply.tool_calls} & set(expect.get("must_never_run", ()))
    wanted = expect["usage"]
    told = reply.usage and (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.total_tokens)
    assert told == (wanted and (wanted["prompt_tokens"], wanted["completion_tokens"], wanted["total_tokens"]))


ERROR_CODES = {
    "rate_limit": "rate_limited",
    "server": "provider_unavailable",
    "context_overflow": "context_overflow",
    "bad_endpoint": "provider_protocol",
}


def check_error(error: ProviderError, expect: dict[str, Any]) -> None:
    wanted = expect["error"]
    assert error.code == ERROR_CODES[wanted["kind"]]
    assert error.retry == "never"  # Capacity and rate limits are final here, whatever a looser client may do.
    for words in wanted["message_contains"]:
        assert words in error.message
    assert len(error.message) <= wanted.get("max_len", 1000)
