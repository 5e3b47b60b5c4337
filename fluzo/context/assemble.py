"""From what is known to one model request: pure, deterministic, append-only within a task.

The system message is fixed for the whole conversation and the messages only grow at the end, so that
consecutive requests share their whole prefix and a server's prompt cache hits (decisions, "Provider").
"""

import json
import math
from collections.abc import Sequence

from fluzo.core.records import Fragment, Message, ModelRequest, ToolSpec

BYTES_PER_TOKEN = 3.5
"""Conservative for source code and English in common vocabularies; reported usage replaces the estimate."""

_MESSAGE_OVERHEAD_TOKENS = 6

_TITLES = {"instructions": "Project notes from", "skill": "Skill chosen by the user,"}
"""Fragments of the system message; all others go with the user's first message."""


def system_message(instructions: str, fragments: Sequence[Fragment]) -> Message:
    """Instructions first, then the repository's own, marked as data of lower authority."""
    parts = [instructions.strip()]
    for fragment in fragments:
        kind = fragment.key.partition(":")[0]
        if kind in _TITLES:
            note = " (cut: the file is longer)" if fragment.truncated else ""
            parts.append(f"{_TITLES[kind]} {fragment.source}{note}:\n{fragment.text.strip()}")
    return Message("system", "\n\n".join(parts))


def first_user_message(text: str, fragments: Sequence[Fragment]) -> Message:
    """The user's request, followed by the facts about the workspace that the model cannot ask for cheaper."""
    facts = [fragment.text for fragment in fragments if fragment.key.partition(":")[0] not in _TITLES]
    return Message("user", "\n\n".join([text, *(f"<context>\n{fact}\n</context>" for fact in facts)]))


def build(messages: Sequence[Message], tools: Sequence[ToolSpec], max_output_tokens: int) -> ModelRequest:
    return ModelRequest(
        messages=tuple(messages),
        tools=tuple(tools),
        max_output_tokens=max_output_tokens,
        estimated_input_tokens=estimate_request(messages, tools),
    )


def estimate_tokens(text: str) -> int:
    """An estimate, never a measurement; rounded up."""
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN)


def estimate_request(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
    total = sum(
        estimate_tokens(json.dumps(dict(tool.parameters)) + tool.name + tool.description) + _MESSAGE_OVERHEAD_TOKENS
        for tool in tools
    )
    for message in messages:
        calls = "".join(call.name + call.arguments for call in message.tool_calls)
        total += estimate_tokens(message.text + calls) + _MESSAGE_OVERHEAD_TOKENS
    return total


def ledger(fragments: Sequence[Fragment]) -> tuple[dict[str, object], ...]:
    """What the model was given and where it came from (ARCH 11), without the content."""
    return tuple(
        {
            "key": fragment.key,
            "source": fragment.source,
            "version": fragment.version,
            "estimated_tokens": estimate_tokens(fragment.text),
            "truncated": fragment.truncated,
        }
        for fragment in fragments
    )
