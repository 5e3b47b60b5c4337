"""Agents: the native one that talks to a model, and a scripted one for tests.

An agent is given `infer` and nothing else: it proposes tool calls and never performs one. Its conversation
only grows at the end.
"""

from collections.abc import Sequence

from fluzo.context import assemble
from fluzo.core.contracts import AgentContext, Finish, Observations, ToolCalls
from fluzo.core.errors import ProviderError
from fluzo.core.records import Message, ModelReply, ToolCall

MAX_CONTINUATIONS = 2
"""How often in a row an answer may hit the output limit before the attempt ends."""

_CUT_OFF_HINTS = {"length": "Raise max_output_tokens of the model entry, or ask for a smaller step."}
_BROKEN_OFF_HINT = "Check the server's log, then run the task again."


class NativeAgent:
    """The built-in agent: fixed instructions, native tool calls, one model request a turn."""

    def start(self, context: AgentContext) -> "NativeRun":
        return NativeRun(context)


class NativeRun:
    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._messages: list[Message] = [
            assemble.system_message(context.instructions, context.fragments),
            *context.history,
        ]
        self._continuations = 0

    async def send(self, observations: Observations) -> Finish | ToolCalls:
        """One turn: observations in, complete tool calls or the last word out; no calls mean a cut-off answer.

        Raises ProviderError when there is no usable answer, and whatever `infer` raises.
        """
        self._messages += [*observations.results, *observations.user_messages]
        await self._fit("")
        try:
            reply = await self._infer()
        except ProviderError as error:
            if error.code != "context_overflow":
                raise
            # The server counts differently than we do: make room once, then its answer stands.
            await self._fit("overflow")
            reply = await self._infer()
        message = Message(
            "assistant",
            reply.text,
            reasoning=reply.reasoning,
            tool_calls=reply.tool_calls,
            incomplete=reply.outcome == "incomplete",
        )
        if reply.outcome == "incomplete":
            return self._cut_off(message, reply)
        if reply.outcome == "empty":
            raise ProviderError(
                "The model answered with nothing: no text and no tool call.",
                code="provider_empty",
                hint="Its context window may be full, or the server's chat template does not fit the model.",
                detail={"warnings": list(reply.warnings)},
            )
        self._continuations = 0
        self._messages.append(message)
        if reply.tool_calls:
            return ToolCalls(message, reply.tool_calls, reply)
        return Finish(message, reply)

    async def _fit(self, why: str) -> None:
        self._messages = list(await self._context.fit(self._messages, self._context.tools, why))

    async def _infer(self) -> ModelReply:
        context = self._context
        return await context.infer(assemble.build(self._messages, context.tools, context.max_output_tokens))

    async def cancel(self) -> None:
        """Nothing of its own is running; the caller cancels the inference it awaits."""

    def _cut_off(self, message: Message, reply: ModelReply) -> ToolCalls:
        if reply.finish != "length" or self._continuations >= MAX_CONTINUATIONS:
            raise ProviderError(
                "The model's answer ended before it was complete; nothing of it was run.",
                code="provider_incomplete",
                hint=" ".join(reply.warnings) or _CUT_OFF_HINTS.get(reply.finish, _BROKEN_OFF_HINT),
                detail={"partial_text": reply.text, "finish": reply.finish},
            )
        self._continuations += 1
        message = message._replace(text=reply.text or "(cut off)")
        self._messages.append(message)
        return ToolCalls(message, (), reply)


class MockAgent:
    """Plays a fixed list of answers without a model: deterministic tests of everything around it."""

    def __init__(self, answers: Sequence[str | Sequence[ToolCall]]) -> None:
        self._answers = tuple(answers)

    def start(self, context: AgentContext) -> "MockRun":
        return MockRun(self._answers)


class MockRun:
    """`seen` keeps what the runtime reported back, for assertions."""

    def __init__(self, answers: Sequence[str | Sequence[ToolCall]]) -> None:
        self._answers = list(answers)
        self.seen: list[Observations] = []

    async def send(self, observations: Observations) -> Finish | ToolCalls:
        self.seen.append(observations)
        if not self._answers:
            raise ProviderError("the mock agent has no answer left", code="provider_protocol")
        answer = self._answers.pop(0)
        if isinstance(answer, str):
            reply = ModelReply("complete", text=answer, finish="stop")
            return Finish(Message("assistant", answer), reply)
        calls = tuple(answer)
        reply = ModelReply("complete", tool_calls=calls, finish="tool_calls")
        return ToolCalls(Message("assistant", tool_calls=calls), calls, reply)

    async def cancel(self) -> None:
        self._answers.clear()
