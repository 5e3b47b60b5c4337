"""Inference through the gate: one model request, reserved before, journaled around, settled after.

The one way to a model: agent turns and compactions alike. Streamed text goes out as live updates while it arrives;
what counts is the reply that is committed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fluzo.context.assemble import estimate_request, estimate_tokens
from fluzo.context.window import Window
from fluzo.core.errors import FluzoError
from fluzo.core.events import LiveUpdate, RetryProgress, TextDelta, UsageSettled
from fluzo.core.named import NamedTuple
from fluzo.core.records import ModelReply, ModelRequest, Operation, Usage
from fluzo.core.redact import RedactedStream, Redactor
from fluzo.runtime.budget import Budget
from fluzo.runtime.gate import Gate, Known

if TYPE_CHECKING:
    from fluzo.models.gateway import Gateway

CHARACTERS_PER_TOKEN = 3
"""For what had arrived of an answer that broke: low, so that the estimate is rather too high."""


class InferenceParts(NamedTuple):
    gate: Gate
    gateway: "Gateway"
    model_id: str
    budget: Budget
    window: Window
    task_id: str
    publish_live: Callable[[LiveUpdate], None]
    warn: Callable[[str, str], Awaitable[None]]
    redact: Redactor


class Inference:
    def __init__(self, parts: InferenceParts) -> None:
        self._parts = parts

    async def infer(self, request: ModelRequest) -> ModelReply:
        """One request under the task's budget. Raises BudgetError, CapacityError or ProviderError."""
        parts = self._parts
        parts.budget.reserve(request)
        live = _Live(parts, parts.budget.spent.turns, shown=request.purpose == "agent_turn")

        async def effect() -> ModelReply:
            left = parts.budget.remaining_seconds()
            reply = await parts.gateway.complete(parts.model_id, request, live.on_delta, left, live.on_retry)
            live.end()
            return reply

        async def settle(reply: ModelReply) -> Known:
            received = estimate_tokens(reply.text + reply.reasoning + _arguments(reply))
            usage = parts.budget.settle(request, reply.usage, received, reply.queue_seconds)
            await self._learn(request, reply)
            facts = _facts(request, reply, usage)
            settled = _settled(usage, reply.queue_seconds)
            return Known(reply.outcome == "complete", "", reply.outcome, facts, events=(settled,))

        what = "" if request.purpose == "agent_turn" else f" {request.purpose}"
        operation = Operation("model", "infer", "network", f"{parts.model_id} turn {live.turn}{what}")
        try:
            return await parts.gate.perform(operation, parts.gate.record(operation), effect, settle)
        except (FluzoError, asyncio.CancelledError):
            if live.characters:
                # What arrived before it broke was generated and may be charged: count it, as an estimate.
                parts.budget.settle(request, None, live.characters // CHARACTERS_PER_TOKEN)
            raise

    async def _learn(self, request: ModelRequest, reply: ModelReply) -> None:
        """Calibrate the estimates; a server that shows a smaller window than configured is noticed once (P78)."""
        parts = self._parts
        if smaller := parts.window.observe(estimate_request(request.messages, request.tools), reply.usage):
            key = f"models.{parts.model_id}.context_window"
            await parts.warn(
                "window_smaller", f"the server keeps only {smaller} tokens of a conversation; {key} says more"
            )


class _Live:
    """Text of one reply as it arrives."""

    def __init__(self, parts: InferenceParts, turn: int, *, shown: bool) -> None:
        self._parts = parts
        self._shown = shown
        self._offsets = {False: 0, True: 0}
        self._streams = {False: RedactedStream(parts.redact), True: RedactedStream(parts.redact)}
        self.turn = turn
        self.characters = 0

    def on_delta(self, text: str, reasoning: bool) -> None:
        self.characters += len(text)
        self._show(self._streams[reasoning].feed(text), reasoning)

    def on_retry(self, retry: int, retries: int, delay_seconds: float, reason: str) -> None:
        """The next request of the turn begins its text anew."""
        parts = self._parts
        told = RetryProgress(parts.task_id, self.turn, retry, retries, delay_seconds, parts.redact(reason))
        parts.publish_live(told)

    def end(self) -> None:
        """Nothing more comes: show what was held back."""
        for reasoning, stream in self._streams.items():
            self._show(stream.rest(), reasoning)

    def _show(self, text: str, reasoning: bool) -> None:
        if text and self._shown:
            offset = self._offsets[reasoning]
            self._parts.publish_live(TextDelta(self._parts.task_id, self.turn, offset, text, reasoning))
        self._offsets[reasoning] += len(text)


def _facts(request: ModelRequest, reply: ModelReply, usage: Usage) -> dict[str, object]:
    return {
        "purpose": request.purpose,
        "outcome": reply.outcome,
        "finish": reply.finish,
        "model": reply.model,
        "response_id": reply.response_id,
        "tool_calls": len(reply.tool_calls),
        "text_bytes": len(reply.text.encode("utf-8", "replace")),
        "attempts": reply.attempts,
        "estimated_input_tokens": request.estimated_input_tokens,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "estimated": usage.estimated,
        "warnings": list(reply.warnings),
    }


def _settled(usage: Usage, queue_seconds: float) -> UsageSettled:
    return UsageSettled(
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.reasoning_tokens,
        usage.estimated,
        round(queue_seconds, 3),
    )


def _arguments(reply: ModelReply) -> str:
    return "".join(call.name + call.arguments for call in reply.tool_calls)
