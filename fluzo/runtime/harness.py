"""The loop: turns of one attempt, from the first message to an outcome with a reason.

Safe boundaries lie between turns: there interventions are taken up, budgets checked and a cancel honoured.
Every tool call that was made known gets exactly one result, also when the attempt ends in the middle.
"""

import asyncio
from collections.abc import Callable, Sequence

from fluzo.core.contracts import Agent, AgentContext, AgentRun, AttemptOutcome, Finish, Observations, ToolCalls
from fluzo.core.errors import Cancelled, FluzoError, ProviderError, StorageError
from fluzo.core.events import BudgetExhausted, LoopNoticed, Payload, TurnStarted
from fluzo.core.named import NamedTuple
from fluzo.core.records import Attempt, Message, Task, ToolCall
from fluzo.runtime.budget import Budget
from fluzo.runtime.conversation import Conversation
from fluzo.runtime.gate import Gate
from fluzo.runtime.recorder import Recorder
from fluzo.runtime.verify import Verification, Verifier, feedback
from fluzo.runtime.worklog import WorkLog, notice

MAX_REPAIRS = 2
"""How often a failed verification goes back to the agent before the task ends as failed."""

LOST_RESULT = "outcome unknown: the process ended while this call ran"

GO_ON = "Your answer was cut off at the output limit. Continue with a shorter answer or a smaller step."


class HarnessParts(NamedTuple):
    agent: Agent
    context: AgentContext
    first: Message
    gate: Gate
    budget: Budget
    recorder: Recorder
    conversation: Conversation
    verifier: Verifier | None
    """None when the user waived verification."""
    open_calls: tuple[ToolCall, ...]
    """Calls of an earlier process that never got a result; they are answered as unknown first."""
    checkpoint: Callable[[], Task]
    log: WorkLog
    interventions: Callable[[], tuple[tuple[str, Payload], ...]]
    cancelled: asyncio.Event


class LoopHarness:
    def __init__(self, parts: HarnessParts) -> None:
        self._parts = parts
        self.verification = Verification("not_run")
        self.final_message = ""

    async def run_attempt(self, attempt: Attempt) -> AttemptOutcome:
        """Run turns until the agent is done and verified, or something ends the attempt. Raises StorageError."""
        try:
            return await self._loop()
        except StorageError:
            raise
        except Cancelled as error:
            return AttemptOutcome("cancelled", "cancelled", error.message, {})
        except FluzoError as error:
            await self._note_end(error)
            return AttemptOutcome("blocked", error.code, error.message, {"hint": error.hint, **error.detail})

    async def _loop(self) -> AttemptOutcome:
        parts = self._parts
        lost = tuple(Message("tool", LOST_RESULT, tool_call_id=call.id) for call in parts.open_calls)
        await parts.conversation.record(0, lost)
        run = parts.agent.start(parts.context)
        pending = Observations(lost, (parts.first,))
        repairs = 0
        while True:
            turn = await self._begin_turn(pending)
            answer = await self._send(run, pending)
            await parts.conversation.record(turn, (answer.message,))
            if isinstance(answer, ToolCalls):
                results, notices = await self._run_calls(turn, answer.calls)
                go_on = () if answer.calls else (Message("user", GO_ON),)
                pending = Observations(results, (*go_on, *notices, *await self._interventions()))
                continue
            self.final_message = answer.message.text
            late = await self._interventions()
            if late:
                pending = Observations(user_messages=late)
                continue
            outcome = await self._finish()
            if outcome is not None:
                return outcome
            repairs += 1
            if repairs > MAX_REPAIRS:
                return AttemptOutcome("failed", "verification_failed", "the declared checks do not pass", {})
            pending = Observations(user_messages=(Message("user", feedback(self.verification)),))

    async def _begin_turn(self, pending: Observations) -> int:
        """Count the turn and commit what the agent is about to learn; results are committed already."""
        turn = self._parts.budget.begin_turn()
        await self._parts.conversation.record(
            turn, pending.user_messages, TurnStarted(turn), also=(self._parts.checkpoint(),)
        )
        return turn

    async def _send(self, run: AgentRun, pending: Observations) -> Finish | ToolCalls:
        """Wait for the agent or for a cancel, whichever comes first."""
        sending = asyncio.ensure_future(run.send(pending))
        cancel = asyncio.ensure_future(self._parts.cancelled.wait())
        try:
            await asyncio.wait({sending, cancel}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                return sending.result()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await run.cancel()
            raise Cancelled("the task was cancelled while the model answered")
        finally:
            cancel.cancel()
            if not sending.done():
                sending.cancel()

    async def _run_calls(self, turn: int, calls: Sequence[ToolCall]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """The results in the order of the calls, and what the agent is to be told besides."""
        results: list[Message] = []
        loops: list[LoopNoticed] = []
        try:
            for call in calls:
                result = await self._parts.gate.use(call)
                results.append(Message("tool", self._parts.recorder.redact(result.text), tool_call_id=call.id))
                if loop := self._parts.log.observe(call, result):
                    loops.append(loop)
            if self._parts.cancelled.is_set():
                raise Cancelled("the task was cancelled")
        except FluzoError as error:
            # The conversation stays valid: what did not run is answered as not run (case M01).
            missing = [
                Message("tool", f"not run: {error.code}", tool_call_id=call.id) for call in calls[len(results) :]
            ]
            await self._parts.conversation.record(turn, (*results, *missing))
            raise
        await self._parts.conversation.record(turn, results, *loops)
        return tuple(results), tuple(Message("user", notice(loop)) for loop in loops)

    async def _finish(self) -> AttemptOutcome | None:
        """Verify; None means that the agent gets another chance."""
        verifier = self._parts.verifier
        if verifier is None:
            self.verification = Verification("waived")
        else:
            self.verification = await verifier.run()
            self._parts.log.checked(self.verification.verdict)
        if self._parts.cancelled.is_set():
            raise Cancelled("the task was cancelled")
        if self.verification.verdict == "failed":
            return None
        return AttemptOutcome("completed", "", self.final_message, {})

    async def _interventions(self) -> tuple[Message, ...]:
        taken = self._parts.interventions()
        if taken:
            await self._parts.recorder.commit(events=tuple(event for _, event in taken))
        return tuple(Message("user", text) for text, _ in taken)

    async def _note_end(self, error: FluzoError) -> None:
        detail = error.detail
        if error.code == "budget_exhausted" and "limit" in detail:
            used, allowed = _number(detail.get("used")), _number(detail.get("allowed"))
            await self._parts.recorder.commit(events=(BudgetExhausted(str(detail["limit"]), used, allowed),))
        partial = detail.pop("partial_text", "")
        if isinstance(error, ProviderError) and isinstance(partial, str) and partial:
            cut = Message("assistant", partial, incomplete=True)
            await self._parts.conversation.record(self._parts.budget.spent.turns, (cut,))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
