"""The gate: every privileged effect passes through `perform`, and through nothing else.

Tool calls come in by `use`; inference (`runtime/inference.py`) comes in by `perform` itself.

Policy, approval, slot, durable intent, effect, durable outcome, in this order. A crash between intent and
outcome leaves an operation that is unknown; nothing here ever repeats one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from fluzo.context.assemble import ledger
from fluzo.context.sources import ScopedInstructions
from fluzo.core.answers import told
from fluzo.core.contracts import ExecutionBackend, Policy, Tool
from fluzo.core.errors import (
    Cancelled,
    FluzoError,
    InputRequired,
    OutcomeUnknown,
    PermissionDenied,
    PermissionRequired,
    StorageError,
    ToolError,
    WorkspaceError,
)
from fluzo.core.events import (
    ContextAssembled,
    LiveUpdate,
    OperationDecided,
    OperationEnded,
    OperationIntended,
    OperationMarkedUnknown,
    OperationProgress,
    OperationRefused,
    OperationRequested,
    OutputProgress,
    Payload,
    PlanUpdated,
)
from fluzo.core.named import NamedTuple
from fluzo.core.records import (
    Decision,
    Operation,
    OperationRecord,
    OperationState,
    ToolCall,
    ToolResult,
)
from fluzo.core.text import refused
from fluzo.policy.scope import exact_scope_of, fingerprint, scope_of
from fluzo.runtime.approvals import Approvals, Authorization, requested
from fluzo.runtime.budget import Budget
from fluzo.runtime.live_output import LiveOutput
from fluzo.runtime.reconcile import RISK
from fluzo.runtime.recorder import Recorder
from fluzo.tools.dialogue import answered

if TYPE_CHECKING:
    from fluzo.tools.registry import Registry

T = TypeVar("T")

ENDS_ATTEMPT = ("policy_shell", "policy_edit", "policy_git_commit", "policy_git_push")
"""Denials that are the user's own rule: without a terminal they end the attempt, visibly (PRD 12.1)."""


class GateParts(NamedTuple):
    """What the composition root hands to the gate alone: agents get `infer`, tools get the backend."""

    policy: Policy
    approvals: Approvals
    budget: Budget
    recorder: Recorder
    tools: "Registry"
    backend: ExecutionBackend
    workspace: str
    user_changed: frozenset[str]
    unsettled: Mapping[str, str]
    """Scope fingerprints of earlier operations whose outcome is unknown (`reconcile.repeat_guard`)."""
    notes: ScopedInstructions
    interactive: bool
    cancelled: asyncio.Event
    publish_live: Callable[[LiveUpdate], None]
    new_id: Callable[[str], str]
    now: Callable[[], str]


class Known(NamedTuple):
    """How an effect ended, for the journal."""

    ok: bool
    code: str
    summary: str
    result: dict[str, object]
    artifact_id: str = ""
    events: tuple[Payload, ...] = ()
    """What else is committed with the outcome, in the same transaction."""


class Gate:
    def __init__(self, parts: GateParts) -> None:
        self._parts = parts
        self._unsettled = dict(parts.unsettled)
        self.requests: list[dict[str, object]] = []
        """Permission requests and questions that blocked, for the result object."""

    # --- tools ------------------------------------------------------------------------------------------------

    async def use(self, call: ToolCall) -> ToolResult:
        """Run one complete tool call. What the model can recover from comes back as a result.

        Raises PermissionRequired, InputRequired, PermissionDenied (only where it ends the attempt),
        BudgetError, StorageError and Cancelled.
        """
        parts = self._parts
        if parts.cancelled.is_set():
            raise Cancelled("the task was cancelled")
        parts.budget.count_tool_call()
        try:
            tool, args = parts.tools.prepare(call)
            operation = self._mark(await tool.describe(args, parts.backend))
            await self._tell_notes(operation)
        except (ToolError, WorkspaceError) as error:
            return await self._not_started(call, error)
        record = self.record(operation, call.id)
        try:
            if operation.action == "ask":
                return await self._ask_user(operation, record, several=bool(args["several"]))
            return await self._execute(tool, args, operation, record)
        except (ToolError, WorkspaceError) as error:
            return refused(error.code, error.message)
        except PermissionDenied as error:
            reason = error.detail.get("reason")
            if reason in ENDS_ATTEMPT and not parts.interactive:
                raise
            return refused("permission_denied", error.message)

    async def _tell_notes(self, operation: Operation) -> None:
        """Instructions of a folder come before the first change beneath it. Raises ToolError with their text."""
        if operation.effect != "write":
            return
        fragments = await self._parts.notes.before(operation.paths, self._parts.backend)
        if not fragments:
            return
        await self._parts.recorder.commit(events=(ContextAssembled(ledger(fragments)),))
        texts = "\n\n".join(f"{fragment.source}:\n{fragment.text.strip()}" for fragment in fragments)
        raise ToolError(
            f"nothing was changed yet: these project notes apply there. Repeat the call if it still fits.\n\n{texts}",
            code="read_notes_first",
        )

    async def run_check(self, operation: Operation, tool: Tool, args: dict[str, object]) -> ToolResult:
        """Run one declared verification command under the same rules as any other process."""
        self._parts.budget.count_tool_call()
        operation = self._mark(operation)
        try:
            return await self._execute(tool, args, operation, self.record(operation))
        except (ToolError, WorkspaceError) as error:
            return refused(error.code, error.message)

    async def _execute(
        self, tool: Tool, args: dict[str, object], operation: Operation, record: OperationRecord
    ) -> ToolResult:
        parts = self._parts

        async def effect() -> ToolResult:
            summary = parts.recorder.redact(operation.summary)
            parts.publish_live(OperationProgress(record.task_id, record.id, operation.tool, summary))
            live = LiveOutput(
                parts.recorder.redact,
                lambda tail, total: parts.publish_live(OutputProgress(record.task_id, record.id, tail, total)),
            )
            try:
                result = await tool.execute(args, operation, parts.backend.watched(live.add))
            finally:
                live.close()
            return result._replace(text=parts.recorder.redact(result.text))

        async def settle(result: ToolResult) -> Known:
            if result.detail.get("termination") == "uncertain":
                raise OutcomeUnknown("the process could not be confirmed to have ended")
            artifact_id = ""
            if result.artifact is not None:
                truncated = bool(result.detail.get("truncated"))
                artifact_id = await parts.recorder.keep(operation.tool, result.artifact, truncated=truncated)
            events = (PlanUpdated(_steps(result)),) if operation.action == "plan" else ()
            return Known(result.ok, result.code, operation.summary, dict(result.detail), artifact_id, events)

        async def recheck() -> None:
            fresh = self._mark(await tool.describe(args, parts.backend))
            if exact_scope_of(fresh, parts.workspace) != exact_scope_of(operation, parts.workspace):
                raise ToolError(
                    f"{operation.summary}: the file changed while the approval was open; read it again",
                    code="stale_file",
                )

        return await self.perform(operation, record, effect, settle, recheck)

    async def _ask_user(self, operation: Operation, record: OperationRecord, *, several: bool) -> ToolResult:
        parts = self._parts
        question, *choices = operation.argv
        several = several and len(choices) > 1
        try:
            answer, chosen = await parts.approvals.ask_user(record, question, tuple(choices), several=several)
        except InputRequired as error:
            self.requests.append({"kind": "question", **error.detail})
            await self._refuse(record, error)
            raise
        except Cancelled as error:
            await self._refuse(record, error)
            raise
        done = record._replace(state=OperationState.AUTHORIZED, authorized_by="user")
        await parts.recorder.commit_intent(
            done._replace(state=OperationState.INTENT_COMMITTED),
            None,
            (OperationIntended(operation.tool, operation.summary),),
        )
        await self._commit_known(done, Known(True, "", operation.summary, {"answer": told(answer, chosen)}))
        redact = parts.recorder.redact
        return answered(redact(answer), [redact(choice) for choice in chosen])

    # --- the one way ------------------------------------------------------------------------------------------

    async def perform(
        self,
        operation: Operation,
        record: OperationRecord,
        effect: Callable[[], Awaitable[T]],
        settle: Callable[[T], Awaitable[Known]],
        recheck: Callable[[], Awaitable[None]] | None = None,
    ) -> T:
        """Run one privileged effect; nothing happens before its intent is on disk.

        `settle` books what came out, for the journal. Raises PermissionDenied, PermissionRequired, Cancelled or
        StorageError before the effect starts; afterwards what the effect raised, or OutcomeUnknown.
        """
        parts = self._parts
        decision = parts.policy.evaluate(operation)
        repeated = str(record.scope["guard"]) in self._unsettled
        if repeated and decision.verdict != "deny":
            decision = Decision("ask", "may_repeat_unknown", RISK)
        try:
            # Over what may have been done already, only an answer to exactly that counts: no grant, no mode.
            authorization = await parts.approvals.settle(operation, record, decision, explicit=repeated)
            if authorization.by == "user" and recheck is not None:
                # The user may have taken minutes to answer: the file may have moved meanwhile.
                await recheck()
            if parts.cancelled.is_set():
                raise Cancelled("the task was cancelled before this operation began")
        except FluzoError as error:
            if isinstance(error, PermissionRequired):
                self.requests.append({"kind": "permission", "tool": operation.tool, **error.detail})
            await self._refuse(record, error)
            raise
        record = record._replace(
            state=OperationState.INTENT_COMMITTED,
            authorized_by=authorization.by,
            grant_id=authorization.grant.id if authorization.grant else "",
        )
        await parts.recorder.commit_intent(
            record, authorization.grant, self._intent_events(record, authorization, decision.reason)
        )
        self._unsettled.pop(str(record.scope["guard"]), None)
        if authorization.grant:
            parts.approvals.consumed(authorization.grant)
        return await self._dispatch(record, effect, settle)

    async def _dispatch(
        self, record: OperationRecord, effect: Callable[[], Awaitable[T]], settle: Callable[[T], Awaitable[Known]]
    ) -> T:
        try:
            value = await effect()
            known = await settle(value)
        except (StorageError, OutcomeUnknown) as error:
            await self._mark_unknown(record, error.message)
            raise
        except FluzoError as error:
            await self._commit_known(record, Known(False, error.code, record.summary, {"message": error.message}))
            raise
        except asyncio.CancelledError:
            await asyncio.shield(self._mark_unknown(record, "cancelled while it ran; how far it came is not known"))
            raise
        except Exception as error:
            await self._mark_unknown(record, f"ended by an internal error ({type(error).__name__})")
            raise
        await self._commit_known(record, known)
        return value

    # --- records ----------------------------------------------------------------------------------------------

    def _mark(self, operation: Operation) -> Operation:
        """What the tool cannot know: whose changes the files hold, and how much of the task's time is left."""
        keeps = operation.effect == "write" or operation.action == "git_commit"
        touched = keeps and any(path in self._parts.user_changed for path in operation.paths)
        timeout = min(operation.timeout_seconds, self._parts.budget.remaining_seconds())
        return operation._replace(touches_user_changes=touched, timeout_seconds=timeout)

    def record(self, operation: Operation, call_id: str = "") -> OperationRecord:
        """The durable side of an operation that is about to be asked for."""
        parts = self._parts
        scope = scope_of(operation, parts.workspace)
        return OperationRecord(
            id=parts.new_id("o"),
            task_id=parts.recorder.scope.task_id,
            attempt_id=parts.recorder.scope.attempt_id,
            turn=parts.budget.spent.turns,
            call_id=call_id,
            tool=operation.tool,
            action=operation.action,
            effect=operation.effect,
            summary=operation.summary,
            scope={**scope, "guard": _guard(scope), "effects": _effects(operation)},
            fingerprint=fingerprint(exact_scope_of(operation, parts.workspace)),
            state=OperationState.REQUESTED,
            requested_at=parts.now(),
        )

    def _opening(self, record: OperationRecord) -> tuple[OperationRequested, ...]:
        return () if self._parts.approvals.announced(record) else (requested(record),)

    def _intent_events(self, record: OperationRecord, authorization: Authorization, reason: str) -> tuple[Payload, ...]:
        return (
            *self._opening(record),
            OperationDecided("allow", reason, authorization.by, record.grant_id),
            OperationIntended(record.tool, record.summary, record.grant_id),
        )

    async def _not_started(self, call: ToolCall, error: FluzoError) -> ToolResult:
        operation = Operation(call.name, "invalid", "none", error.message)
        record = self.record(operation, call.id)
        await self._refuse(record, error)
        return refused(error.code, error.message)

    async def _refuse(self, record: OperationRecord, error: FluzoError) -> None:
        ended = record._replace(state=OperationState.REFUSED, ok=False, code=error.code, ended_at=self._parts.now())
        events: tuple[Payload, ...] = (*self._opening(record), OperationRefused(error.code, error.message))
        await self._parts.recorder.commit(ended, events=events, operation_id=record.id)

    async def _commit_known(self, record: OperationRecord, known: Known) -> None:
        ended = record._replace(
            state=OperationState.KNOWN_RESULT,
            ok=known.ok,
            code=known.code,
            result=known.result,
            artifact_id=known.artifact_id,
            ended_at=self._parts.now(),
        )
        event = OperationEnded(known.ok, known.code, known.summary, known.result, known.artifact_id)
        await self._parts.recorder.commit_outcome(ended, events=(event, *known.events))

    async def _mark_unknown(self, record: OperationRecord, why: str) -> None:
        ended = record._replace(state=OperationState.UNKNOWN, ended_at=self._parts.now(), result={"why": why})
        await self._parts.recorder.commit_outcome(ended, events=(OperationMarkedUnknown(record.summary, why),))


def _guard(scope: Mapping[str, object]) -> str:
    """What may not be repeated unasked while its outcome is unknown: the same deed, in whatever environment."""
    return fingerprint({key: value for key, value in scope.items() if key != "env"})


def _effects(operation: Operation) -> dict[str, dict[str, str]]:
    """The file versions before and after, for recovery to compare with what it finds."""
    return {
        "before": {path: version.digest for path, version in operation.versions},
        "intended": dict(operation.intended),
    }


def _steps(result: ToolResult) -> tuple[Mapping[str, object], ...]:
    steps = result.detail.get("steps")
    return tuple(steps) if isinstance(steps, list | tuple) else ()
