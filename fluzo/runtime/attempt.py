"""One attempt, from the workspace baseline to the committed result.

Owns the task record while it runs: every state change is committed here, and nothing is reported before it is.
"""

import asyncio
import logging
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fluzo.context import assemble
from fluzo.core.contracts import AttemptOutcome
from fluzo.core.errors import Cancelled, FluzoError, StorageError
from fluzo.core.events import (
    AttemptEnded,
    AttemptStarted,
    BaselineCaptured,
    CancelRequested,
    ContextAssembled,
    InterventionConsumed,
    InterventionQueued,
    InterventionWithdrawn,
    Payload,
    Scope,
    TaskStateChanged,
    VerificationWaived,
    WarningRaised,
)
from fluzo.core.named import NamedTuple
from fluzo.core.records import Attempt, AttemptState, Grant, Session, Task, TaskState
from fluzo.runtime import result as results
from fluzo.runtime.approvals import Approvals
from fluzo.runtime.budget import Budget
from fluzo.runtime.gate import Gate
from fluzo.runtime.grants import changed_limits
from fluzo.runtime.harness import LoopHarness
from fluzo.runtime.recorder import Recorder
from fluzo.runtime.services import Services
from fluzo.runtime.wiring import Wiring, wire

if TYPE_CHECKING:
    from fluzo.runtime.workspace import TaskWorkspace
    from fluzo.workspace.baseline import Changes

_log = logging.getLogger(__name__)

_NOT_BEGUN = (TaskState.PENDING, TaskState.READY)

NO_ANSWER = "no_answer"


class Resumed(NamedTuple):
    """What an attempt goes on from: the text for the agent, and operations that must not happen twice unasked."""

    text: str
    unsettled: Mapping[str, str]


class AttemptRun:
    """The running attempt of one task. `approvals` and `cancel` are what commands from outside reach."""

    def __init__(
        self,
        services: Services,
        session: Session,
        task: Task,
        attempt: Attempt,
        grants: list[Grant],
        interactive: bool,
        *,
        skills: tuple[str, ...] = (),
        resumed: Resumed | None = None,
    ) -> None:
        self._services = services
        self._skills = skills
        self._resumed = resumed
        self._session = session
        self.task = task
        self._attempt = attempt
        scope = Scope(session.id, task.id, attempt.id, trace_id=attempt.trace_id)
        self._recorder = Recorder(services.storage, services.feed.publish, scope, services.redact)
        self._budget = Budget(task.limits, task.consumption, services.clock, services.defaults.prices)
        self._cancelled = asyncio.Event()
        self._over = False
        """The end is being written: from here on there is nothing left to cancel."""
        self._interactive = interactive
        self._interventions: dict[str, str] = {}
        self._workspace: TaskWorkspace | None = None
        self.warnings: list[str] = []
        self.approvals = Approvals(
            recorder=self._recorder,
            workspace=services.workspace_identity,
            grants=grants,
            yolo=session.yolo,
            interactive=interactive,
            waiting=self._waiting,
            new_id=services.new_id,
            now=services.now,
        )

    # --- commands from outside --------------------------------------------------------------------------------

    async def cancel(self, by: str) -> None:
        """Stop new work, invalidate open questions, end owned processes; idempotent.

        By `no_answer` it is a front end that lost its person: what is asked then blocks the task, resumable,
        instead of cancelling it.
        """
        if self._over or self._cancelled.is_set() or (by == NO_ANSWER and self.approvals.give_up()):
            return
        self._cancelled.set()
        try:
            if self.task.state in _NOT_BEGUN:
                await self._recorder.commit(events=(CancelRequested(by),))
            else:
                await self._become(TaskState.STOPPING, "cancelled", CancelRequested(by))
        finally:
            # A cancel that cannot be recorded still stops the task: nobody may wait for an answer any more.
            self.approvals.cancel()

    async def force_stop(self, by: str) -> None:
        """Cancel without the grace period: owned processes are killed now."""
        try:
            await self.cancel(by)
        finally:
            if self._workspace is not None:
                self._workspace.kill()

    def processes(self) -> list[tuple[int, str]]:
        """Process id and command line of every command that runs now."""
        running = self._workspace.running() if self._workspace is not None else ()
        return [(pid, self._services.redact(shlex.join(argv))) for pid, argv in running]

    async def queue(self, intervention_id: str, text: str) -> None:
        """Hand a message of the user to the next safe boundary."""
        await self._recorder.commit(events=(InterventionQueued(intervention_id, text),))
        self._interventions[intervention_id] = text

    async def withdraw(self, intervention_id: str) -> bool:
        """Take a queued message back; False when the agent has read it already."""
        if self._interventions.pop(intervention_id, None) is None:
            return False
        await self._recorder.commit(events=(InterventionWithdrawn(intervention_id),))
        return True

    async def apply_limits(self, wanted: Mapping[str, float]) -> bool:
        """Other limits from the next step on, on record before they hold; False when there is no next step."""
        if self._over or self._cancelled.is_set():
            return False
        before = self.task.limits
        limits, events = changed_limits(before, wanted)
        if not events:
            return True
        now = self._services.now()
        applied = {"at": now, "limits": limits._asdict()}
        versions = self._attempt.config.get("limits")
        history = [*versions, applied] if isinstance(versions, list) else [applied]
        self._attempt = self._attempt._replace(config={**self._attempt.config, "limits": history})
        # Before the write, as in `_start`; the budget, which acts on it, only after.
        self.task = self.task._replace(limits=limits, updated_at=now, consumption=self._budget.spent)
        try:
            await self._recorder.commit(self.task, self._attempt, events=events)
        except StorageError:
            self.task = self.task._replace(limits=before)
            raise
        self._budget.set_limits(limits)
        return True

    @property
    def interventions(self) -> Mapping[str, str]:
        """Messages that wait for the next boundary, by id."""
        return self._interventions

    @property
    def recorder(self) -> Recorder:
        return self._recorder

    # --- the attempt ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run to the end and commit it. Raises StorageError when that commit is impossible."""
        services = self._services
        workspace: TaskWorkspace | None = None
        harness: LoopHarness | None = None
        try:
            workspace = self._workspace = await services.open_workspace(self._cancelled)
            harness, gate = await self._prepare(workspace)
            outcome = await harness.run_attempt(self._attempt)
        except Cancelled as error:
            outcome = AttemptOutcome("cancelled", error.code, error.message, {})
        except StorageError as error:
            outcome = AttemptOutcome("blocked", error.code, error.message, {"hint": error.hint})
        except FluzoError as error:
            outcome = AttemptOutcome("blocked", error.code, error.message, {"hint": error.hint, **error.detail})
        except Exception as error:
            # A defect of ours: the record must still say how the attempt ended; the traceback is for the log.
            _log.exception("attempt %s ended by a defect", self._attempt.id)
            what = f"An internal error ended the task ({type(error).__name__}); nothing of it is lost."
            outcome = AttemptOutcome("failed", "internal_error", what, {})
        try:
            await self._end(outcome, workspace, harness, gate if harness else None)
        finally:
            if workspace is not None:
                await workspace.close()

    async def _prepare(self, workspace: "TaskWorkspace") -> tuple[LoopHarness, Gate]:
        services, task = self._services, self.task
        route = services.router.route(task)
        self._attempt = self._attempt._replace(
            baseline=workspace.baseline.to_json(),
            config={**self._attempt.config, **services.defaults.config},
        )
        checks = tuple(shlex.join(argv) for argv in task.verification)
        providers = services.context(workspace, checks, self._skills)
        fragments = [item for provider in providers for item in await provider.collect(workspace.backend)]
        await self._start(workspace, route.model, assemble.ledger(fragments))
        return await wire(
            Wiring(
                services=services,
                workspace=workspace,
                task=task,
                model_id=route.model,
                fragments=tuple(fragments),
                request=self._resumed.text if self._resumed else task.text,
                unsettled=self._resumed.unsettled if self._resumed else {},
                recorder=self._recorder,
                budget=self._budget,
                approvals=self.approvals,
                interactive=self._interactive,
                cancelled=self._cancelled,
                session=lambda: self._session,
                keep_session=self._keep_session,
                checkpoint=self._checkpoint,
                interventions=self._take_interventions,
                warn=self._warn,
            )
        )

    async def _start(self, workspace: "TaskWorkspace", model: str, ledger: tuple[dict[str, object], ...]) -> None:
        """Commit the attempt, its baseline and the running state in one transaction. Raises Cancelled."""
        if self._cancelled.is_set():
            raise Cancelled("The task was cancelled before it began.")
        before = self.task.state
        ready = self.task._replace(state=TaskState.READY, updated_at=self._services.now())
        running = ready._replace(state=TaskState.RUNNING)
        waived = (VerificationWaived("user"),) if self.task.verification_waived else ()
        changed = tuple(sorted(workspace.baseline.user_changed))
        # Known here before it is on disk: writes keep the order in which they are given to the store, so whoever
        # cancels meanwhile goes on from this state and not from the one before it.
        self.task = running
        await self._recorder.commit(
            self._attempt,
            ready,
            running,
            events=(
                TaskStateChanged(before, TaskState.READY),
                AttemptStarted(self._attempt.number, model, self._attempt.previous_id, self._session.yolo),
                BaselineCaptured(workspace.baseline.head, workspace.baseline.branch, changed),
                ContextAssembled(ledger),
                *waived,
                TaskStateChanged(TaskState.READY, TaskState.RUNNING),
            ),
        )
        self._budget.start()

    async def _end(
        self, outcome: AttemptOutcome, workspace: "TaskWorkspace | None", harness: LoopHarness | None, gate: Gate | None
    ) -> None:
        self._budget.stop()
        survivors = await workspace.stop() if workspace else ()
        if survivors:
            pids = ", ".join(str(pid) for pid in survivors)
            await self._warn("process_survived", f"processes {pids} could not be confirmed to have ended")
        await self.approvals.expire()
        changes = await self._changes(workspace) if workspace else results.NO_CHANGES
        verification = results.verification_json(harness, changes)
        if outcome.state == "completed" and verification["verdict"] == "stale":
            outcome = AttemptOutcome(
                "failed", "verification_failed", "a file changed after the checks passed; run them again", {}
            )
        facts = results.Facts(
            message=harness.final_message if harness else "",
            changes=changes,
            verification=verification,
            budget=self._budget.report(),
            requests=gate.requests if gate else [],
            warnings=self.warnings,
            yolo=self.approvals.yolo,
        )
        final = results.build(self.task, self._attempt, outcome, facts)
        await self._commit_end(outcome, final, results.end_state(changes) if workspace else {})

    async def _changes(self, workspace: "TaskWorkspace") -> "Changes":
        """What differs from the baseline; lines are the user's only where no other attempt can have left them."""
        changes = await workspace.changes()
        if all(change.own_lines is None for change in changes.files):
            return changes
        left = await self._services.storage.left_changed(self._attempt.id, workspace.baseline.head)
        kept = [
            change if left is not None and change.path not in left else change._replace(own_lines=None)
            for change in changes.files
        ]
        return changes._replace(files=tuple(kept))

    async def _commit_end(self, outcome: AttemptOutcome, final: dict[str, object], end: Mapping[str, object]) -> None:
        now = self._services.now()
        attempt = self._attempt._replace(
            state=AttemptState(outcome.state),
            ended_at=now,
            reason=outcome.reason,
            baseline={**self._attempt.baseline, "end": end} if end else self._attempt.baseline,
        )
        target = TaskState(outcome.state)
        steps: list[Task] = []
        current = self.task
        if target is TaskState.CANCELLED and current.state not in (TaskState.STOPPING, *_NOT_BEGUN):
            current = current._replace(state=TaskState.STOPPING)
            steps.append(current)
        message = final["message"]
        done = current._replace(
            state=target,
            reason=outcome.reason,
            updated_at=now,
            consumption=self._budget.spent,
            final_message=message if isinstance(message, str) else "",
            result=final,
        )
        self._over = True
        await self._recorder.commit(
            attempt,
            *steps,
            done,
            events=(
                AttemptEnded(outcome.state, outcome.reason),
                TaskStateChanged(self.task.state, target, outcome.reason),
            ),
        )
        self.task = done

    # --- helpers ----------------------------------------------------------------------------------------------

    async def _become(self, state: TaskState, reason: str, *events: Payload) -> None:
        changed = self.task._replace(
            state=state,
            reason=reason,
            updated_at=self._services.now(),
            consumption=self._budget.spent,
        )
        before, self.task = self.task.state, changed  # Before the write, as in `_start`.
        await self._recorder.commit(changed, events=(*events, TaskStateChanged(before, state, reason)))

    def _checkpoint(self) -> Task:
        """The task with what it has used up by now, to be committed with the next turn."""
        self.task = self.task._replace(updated_at=self._services.now(), consumption=self._budget.spent)
        return self.task

    def _keep_session(self, session: Session) -> None:
        self._session = session

    async def _warn(self, code: str, message: str) -> None:
        self.warnings.append(f"{message}  [{code}]")
        await self._recorder.commit(events=(WarningRaised(code, message),))

    @asynccontextmanager
    async def _waiting(self, reason: str) -> AsyncIterator[None]:
        await self._become(TaskState.WAITING, reason)
        self._budget.begin_wait()
        try:
            yield
        finally:
            self._budget.end_wait()
            if not self._cancelled.is_set():
                await self._become(TaskState.RUNNING, "")

    def _take_interventions(self) -> tuple[tuple[str, Payload], ...]:
        taken = tuple((text, InterventionConsumed(key)) for key, text in self._interventions.items())
        self._interventions.clear()
        return taken
