"""Compaction, the part that acts: summaries through the same gate, kept before the conversation moves (PRD 16.1).

Runs between two turns only, under the task's own budgets. It changes what the model is shown and nothing else;
when it fails, the old conversation stands and the task blocks with a reason of its own.
"""

from collections.abc import Callable, Sequence

from fluzo.context import compact
from fluzo.context.window import Window
from fluzo.core.contracts import Infer
from fluzo.core.errors import ContextError
from fluzo.core.events import ContextCompacted, dumps
from fluzo.core.named import NamedTuple
from fluzo.core.records import Message, ModelRequest, Session, ToolSpec
from fluzo.runtime.conversation import Conversation
from fluzo.runtime.recorder import Recorder

ARTIFACT_SCHEMA_VERSION = 1

MAX_TRIES = 2
"""Of one summary: an invalid one is asked for once more, then the task blocks."""

MAX_IN_A_ROW = 2
"""Compactions without a turn in between: then what must stay does not fit, and no further one would help."""


class CompactorParts(NamedTuple):
    window: Window
    infer: Infer
    recorder: Recorder
    conversation: Conversation
    session: Callable[[], Session]
    keep_session: Callable[[Session], None]
    request: str
    """The task's own request, kept word for word."""
    facts: Callable[[], str]
    """What the runtime itself knows: files, checks, unknown outcomes."""
    max_output_tokens: int


class Compactor:
    """Makes conversations fit the window. One per attempt."""

    def __init__(self, parts: CompactorParts) -> None:
        self._parts = parts
        self._in_a_row = 0

    async def fit(self, messages: Sequence[Message], tools: Sequence[ToolSpec], why: str = "") -> tuple[Message, ...]:
        """The messages, compacted when the next request would reach the threshold, or when `why` says so.

        The first message is the system message and stays. Raises ContextError `compaction_failed` when no summary
        that can be used came out or it still does not fit, and what the gate raises (budget, provider, cancel).
        """
        window = self._parts.window
        if not why and window.estimate(messages, tools) < window.threshold:
            self._in_a_row = 0
            return tuple(messages)
        if self._in_a_row >= MAX_IN_A_ROW:
            raise self._too_large("The conversation was compacted and is still too large for the window.")
        self._in_a_row += 1
        return await self._compact(messages, tools, why or "threshold")

    async def _compact(self, messages: Sequence[Message], tools: Sequence[ToolSpec], why: str) -> tuple[Message, ...]:
        parts, window = self._parts, self._parts.window
        system, conversation = messages[0], messages[1:]
        before = window.estimate(messages, tools)
        fixed = window.estimate((system,), tools)
        tail_tokens = int(max(0, window.threshold - fixed) * compact.TAIL_SHARE / window.factor)
        cut = compact.cut(conversation, tail_tokens)
        summary, requests = await self._summarize(cut.middle)
        after = (system, *compact.compacted(parts.request, summary, parts.facts(), cut.tail))
        size = window.estimate(after, tools)
        if size >= window.threshold:
            raise self._too_large("Even the compacted conversation does not fit the window.")
        await self._keep(cut, summary, ContextCompacted("", why, before, size, requests, 0, 0, window.size))
        return after

    async def _summarize(self, middle: Sequence[Message]) -> tuple[str, int]:
        """Fold the middle into one summary, part by part; returns it with the number of requests it took."""
        window, limit = self._parts.window, self._parts.max_output_tokens
        room = int((window.available - window.calibrated(1500) - 2 * limit) / window.factor)
        texts = compact.segments(middle, max(room, 512))
        if len(texts) > compact.MAX_SEGMENTS:
            raise self._too_large("The conversation is too long to be summarized within its bounds.")
        summary, requests = "", 0
        for number, text in enumerate(texts, 1):
            asked = compact.request_messages(summary, text, number, len(texts))
            summary, tries = await self._ask(asked, limit)
            requests += tries
        return summary, requests

    async def _ask(self, messages: tuple[Message, ...], limit: int) -> tuple[str, int]:
        why = ""
        for tries in range(1, MAX_TRIES + 1):
            estimate = self._parts.window.estimate(messages, ())
            reply = await self._parts.infer(ModelRequest(messages, (), limit, "context_compaction", estimate))
            why = compact.problem(reply.text, limit)
            if reply.outcome == "complete" and not why:
                return reply.text.strip(), tries
            why = why or "it was cut off"
        raise ContextError(
            f"No usable summary of the conversation came back: {why}.",
            code="compaction_failed",
            hint="Use a model with a larger window, or begin a new session with what is left to do.",
        )

    async def _keep(self, cut: compact.Cut, summary: str, event: ContextCompacted) -> None:
        """Store the artifact, then move the session's pointer with the event in one commit (PRD 16.1)."""
        parts = self._parts
        through = parts.conversation.position - len(cut.tail)
        text = compact.compacted(parts.request, summary, parts.facts(), ())[0].text
        artifact = {
            "schema_version": ARTIFACT_SCHEMA_VERSION,
            "kind": "compaction",
            "through_position": through,
            "messages": len(cut.middle),
            "request": parts.request,
            "summary": summary,
            "text": text,
            "estimated_tokens_before": event.tokens_before,
            "estimated_tokens_after": event.tokens_after,
        }
        artifact_id = await parts.recorder.keep("compaction", dumps(artifact).encode(), truncated=False)
        moved = parts.session()._replace(context={"artifact_id": artifact_id, "through_position": through})
        done = event._replace(artifact_id=artifact_id, messages=len(cut.middle), through_position=through)
        await parts.recorder.commit(moved, events=(done,))
        parts.keep_session(moved)

    def _too_large(self, message: str) -> ContextError:
        window = self._parts.window
        return ContextError(
            message,
            code="compaction_failed",
            hint="Use a model with a larger window, or lower context.tool_context_max_bytes.",
            detail={"window": window.size, "available": window.available, "threshold": window.threshold},
        )
