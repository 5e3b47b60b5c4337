"""Tasks: each explicit request for work becomes one task, and one task at a time writes in a workspace.

Commands are idempotent where they can be repeated: the same request id starts one task only.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fluzo.core.errors import StorageError, UsageError, WorkspaceError
from fluzo.core.events import (
    CapacityReset,
    Payload,
    ResumeReconciled,
    Scope,
    SessionRenamed,
    TaskCreated,
    YoloChanged,
)
from fluzo.core.port import (
    Ack,
    AnswerPermission,
    AnswerQuestion,
    CancelTask,
    Command,
    ForceStopTask,
    QueueIntervention,
    RenameSession,
    ResetCapacity,
    ResumeTask,
    RevokeGrant,
    SetYolo,
    StartTask,
    WithdrawIntervention,
)
from fluzo.core.records import (
    OperationRecord,
    TaskState,
)
from fluzo.runtime import reconcile
from fluzo.runtime.approvals import NOT_ASKED, Pending
from fluzo.runtime.attempt import AttemptRun, Resumed
from fluzo.runtime.beginning import attempt_of, session_of, task_of, title_of
from fluzo.runtime.grants import extend_limits, granted, limits_json, retry_grants, task_grants, used_up
from fluzo.runtime.keeper import Keeper
from fluzo.runtime.recorder import Recorder
from fluzo.runtime.services import Services

if TYPE_CHECKING:
    from fluzo.runtime.elsewhere import Elsewhere


class Tasks:
    """Starts attempts and delivers the user's acts to the running one."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._keeper = Keeper(services.storage, services.feed.publish, services.redact, services.now)
        self._run: AttemptRun | None = None
        self._running: asyncio.Task[None] | None = None
        self._beginning = asyncio.Lock()
        self._renewal: Callable[[Services], Services] | None = None
        self.failure: StorageError | None = None
        """Why the last attempt's end could not be committed; None when it was."""

    async def handle(self, command: Command) -> Ack:
        """Carry out one command of the port. Raises what the command's own method raises."""
        handlers: Mapping[type[Any], Callable[[Any], Awaitable[Ack]]] = {
            StartTask: self.start,
            ResumeTask: self.resume,
            CancelTask: self.cancel,
            ForceStopTask: self.force_stop,
            AnswerPermission: self.answer,
            AnswerQuestion: self.answer,
            QueueIntervention: self.intervene,
            WithdrawIntervention: self.withdraw,
            ResetCapacity: self.reset_capacity,
            RevokeGrant: self.revoke,
            RenameSession: self.rename,
            SetYolo: self.set_yolo,
        }
        if isinstance(command, StartTask | ResumeTask | RenameSession):
            # One after the other: between the look at what runs and the beginning there are writes to wait for.
            async with self._beginning:
                return await handlers[type(command)](command)
        return await handlers[type(command)](command)

    async def start(self, command: StartTask) -> Ack:
        """Create the task and begin it. Raises ConfigError without consent, WorkspaceError while another runs."""
        services = self._services
        known = await services.storage.task_by_request(command.request_id)
        if known is not None:
            return Ack(True, known.id, known.session_id)
        services.require_consent()
        self._refuse_second()
        session, events = await session_of(services, command)
        task = task_of(services, command, session)
        grants = task_grants(services, task, command.allow)
        attempt = attempt_of(services, task, None)
        created = TaskCreated(task.text, limits_json(task.limits), task.verification)
        scope = Scope(session.id, task.id, attempt.id, trace_id=attempt.trace_id)
        recorder = Recorder(services.storage, services.feed.publish, scope, services.redact)
        first = await recorder.commit(session, task, attempt, *grants, events=(*events, created, *granted(grants)))
        run = AttemptRun(services, session, task, attempt, grants, command.interactive, skills=command.skills)
        self._begin(run)
        return Ack(True, task.id, session.id, cursor=first - 1)

    async def resume(self, command: ResumeTask) -> Ack:
        """Go on with a blocked task in a new attempt, from exactly the plan that the user has seen.

        Raises ConfigError without consent, UsageError for a task that cannot go on, WorkspaceError when the
        workspace is another one or has changed since the plan was made.
        """
        services = self._services
        attempts = await services.storage.attempts(command.task_id)
        if any(attempt.config.get("request_id") == command.request_id for attempt in attempts):
            return Ack(True, command.task_id)
        services.require_consent()
        self._refuse_second()
        plan, operations = await self.plan(command.task_id)
        self._check_plan(plan, command)
        session = await services.storage.session(plan.task.session_id)
        if session is None:
            raise StorageError("The task's session is missing from the store.", code="store_damaged")
        session = session._replace(updated_at=services.now(), yolo=command.yolo)
        limits, extended = extend_limits(plan.task.limits, command.extend)
        task = plan.task._replace(limits=limits, updated_at=services.now())
        grants = [*task_grants(services, task, command.allow), *retry_grants(services, plan, operations, command.retry)]
        attempt = attempt_of(services, task, plan.previous)._replace(config={"request_id": command.request_id})
        events: tuple[Payload, ...] = (
            *((YoloChanged(True, "user"),) if command.yolo else ()),
            ResumeReconciled(plan.previous.id, plan.differences, plan.unknown, command.retry),
            *extended,
            *granted(grants),
        )
        run = AttemptRun(
            services,
            session,
            task,
            attempt,
            grants,
            command.interactive,
            resumed=Resumed(reconcile.continuation(plan, command.text), reconcile.repeat_guard(operations)),
        )
        first = await run.recorder.commit(session, task, attempt, *grants, events=events)
        self._begin(run)
        return Ack(True, task.id, session.id, cursor=first - 1)

    async def plan(self, task_id: str) -> tuple[reconcile.Plan, tuple[OperationRecord, ...]]:
        """Compare a task's records with the workspace as it is. Raises UsageError for an unknown task."""
        storage = self._services.storage
        task = await storage.task(task_id)
        attempts = await storage.attempts(task_id)
        if task is None or not attempts:
            raise UsageError(f"There is no task {task_id}.", code="not_found", hint="See: fluzo tasks list")
        operations = await storage.operations(task_id)
        now = await self._services.observe(reconcile.watched_paths(attempts, operations))
        found = reconcile.plan(task, attempts, operations, self._services.workspace_identity, now)
        return found._replace(limit=used_up(task, self._services.defaults.limits)), operations

    async def force_stop(self, command: ForceStopTask) -> Ack:
        """End what the task owns at once. The front end has had it confirmed (PRD 17.2)."""
        run = await self._running_or_begun(command.task_id)
        if run is None:
            return await self._keeper.cancel(command.task_id, command.by)
        await run.force_stop(command.by)
        return Ack(True, command.task_id)

    async def cancel(self, command: CancelTask) -> Ack:
        run = await self._running_or_begun(command.task_id)
        if run is None:
            return await self._keeper.cancel(command.task_id, command.by)
        await run.cancel(command.by)
        return Ack(True, command.task_id)

    async def answer(self, command: AnswerPermission | AnswerQuestion) -> Ack:
        """First answer wins; an answer to anything but what is being asked now is refused."""
        run, task_id = self._active(command.task_id), command.task_id
        problem = NOT_ASKED
        if run is not None and isinstance(command, AnswerPermission):
            told = command.operation_id, command.fingerprint, command.answer, command.reason
            problem = "" if run.approvals.answer(*told) else NOT_ASKED
        elif run is not None and isinstance(command, AnswerQuestion):
            problem = run.approvals.answer_question(command.operation_id, command.answer, command.chosen)
        if not problem:
            return Ack(True, task_id)
        return Ack(False, task_id, code="stale_answer" if problem == NOT_ASKED else "usage", message=problem)

    async def intervene(self, command: QueueIntervention) -> Ack:
        run = self._active(command.task_id)
        if run is None:
            return Ack(False, command.task_id, code="not_found", message="That task is not running here.")
        await run.queue(self._services.new_id("i"), command.text)
        return Ack(True, command.task_id)

    async def withdraw(self, command: WithdrawIntervention) -> Ack:
        run = self._active(command.task_id)
        if run is not None and await run.withdraw(command.intervention_id):
            return Ack(True, command.task_id)
        return Ack(False, command.task_id, code="not_found", message="the agent has read that message already")

    def interventions(self, task_id: str) -> Mapping[str, str]:
        run = self._active(task_id)
        return run.interventions if run else {}

    async def reset_capacity(self, command: ResetCapacity) -> Ack:
        """Free uncertain slots; the acknowledgement's message is their number."""
        freed = self._services.gateway.admission.reset(command.pool)
        event = CapacityReset(command.pool, freed, command.by)
        self._services.feed.publish(await self._services.storage.commit(events=((Scope(), event),)))
        return Ack(True, message=str(freed))

    async def file_names(self, limit: int) -> Sequence[str]:
        """Files of the workspace for a front end to complete. Raises WorkspaceError."""
        return await self._services.file_names(limit)

    async def folder_facts(self) -> Mapping[str, Any]:
        """What stands in the workspace before a task begins. Raises WorkspaceError."""
        return await self._services.folder_facts()

    async def working_tree(self) -> Mapping[str, Any]:
        """What differs from the last commit, without the secrets that are known. Raises WorkspaceError."""
        found = await self._services.working_tree()
        return {**found, "diff": self._services.redact(str(found["diff"]))}

    @property
    def elsewhere(self) -> "Elsewhere":
        return self._services.elsewhere

    def capacity(self) -> Sequence[Mapping[str, Any]]:
        """Slots by pool and model, as plain values."""
        return [use._asdict() for use in self._services.gateway.admission.snapshot()]

    async def revoke(self, command: RevokeGrant) -> Ack:
        run = self._active(command.task_id)
        done = run is not None and await run.approvals.revoke(command.grant_id)
        return Ack(done, command.task_id, code="" if done else "not_found")

    async def rename(self, command: RenameSession) -> Ack:
        """Keep another title. A running task writes its session too, so it is refused until that has ended."""
        services = self._services
        session = await services.storage.session(command.session_id)
        title = title_of(services.redact(command.title))
        if session is None:
            return Ack(False, code="not_found", message=f"there is no session {command.session_id}")
        if not title:
            return Ack(False, session_id=session.id, code="usage", message="a session needs a title")
        if self._run is not None and self._run.task.session_id == session.id and not self._done():
            why = "its task is running; give it another title when the task has ended"
            return Ack(False, session_id=session.id, code="workspace_owned", message=why)
        recorder = Recorder(services.storage, services.feed.publish, Scope(session.id), services.redact)
        first = await recorder.commit(session._replace(title=title), events=(SessionRenamed(title, session.title),))
        return Ack(True, session_id=session.id, cursor=first - 1, message=title)

    async def set_yolo(self, command: SetYolo) -> Ack:
        """Only the running session can be switched: the mode never outlives it (PRD 12.2)."""
        run = self._run
        if run is None or run.task.session_id != command.session_id or self._done():
            return Ack(False, code="not_found", message="that session has no running task")
        await run.recorder.commit(events=(YoloChanged(command.enabled, "user"),))
        run.approvals.set_yolo(command.enabled)
        return Ack(True, run.task.id, command.session_id)

    def active(self, task_id: str) -> bool:
        return self._active(task_id) is not None

    def pending(self, task_id: str) -> Sequence[Pending]:
        run = self._active(task_id)
        return run.approvals.pending if run else ()

    def processes(self, task_id: str) -> Sequence[tuple[int, str]]:
        """The commands that the task runs now: process id and command line, for people."""
        run = self._active(task_id)
        return run.processes() if run else ()

    async def renew(self, make: Callable[[Services], Services]) -> None:
        """Have the next task begin with other services; a running one keeps those that it began with."""
        async with self._beginning:
            self._renewal = make
            if self._done():
                self._take_renewal()

    async def apply_limits(self, task_id: str, limits: Mapping[str, float]) -> Ack:
        """Give the running task other limits; what it used up stays used up. The values have been checked."""
        run = await self._running_or_begun(task_id)
        if run is not None and await run.apply_limits(limits):
            return Ack(True, task_id, run.task.session_id)
        return Ack(False, task_id, code="not_found", message="That task is not running here.")

    async def quiesce(self) -> None:
        """Cancel what runs, wait until its end is committed, and close the connections to model servers."""
        if self._running is not None and self._run is not None:
            if not self._running.done():
                # What cannot be recorded any more still ends; the task's own end says what became of the store.
                with suppress(StorageError):
                    await self._run.cancel("shutdown")
            await asyncio.gather(self._running, return_exceptions=True)
        await self._services.gateway.close()

    # --- helpers ----------------------------------------------------------------------------------------------

    def _begin(self, run: AttemptRun) -> None:
        self._run = run
        self._services.announce(run.task.id)
        self._running = asyncio.create_task(self._finish(run))

    async def _finish(self, run: AttemptRun) -> None:
        try:
            await run.run()
        except StorageError as error:
            self.failure = error
        finally:
            self._services.announce("")
            self._services.feed.finish(run.task.id)
            self._take_renewal()

    def _take_renewal(self) -> None:
        make, self._renewal = self._renewal, None
        if make is not None:
            self._services = make(self._services)

    def _done(self) -> bool:
        return self._running is None or self._running.done()

    async def _running_or_begun(self, task_id: str) -> AttemptRun | None:
        """The run of a task, also when it is only just going on again."""
        if run := self._active(task_id):
            return run
        async with self._beginning:
            return self._active(task_id)

    def _active(self, task_id: str) -> AttemptRun | None:
        return self._run if self._run and self._run.task.id == task_id and not self._done() else None

    def _refuse_second(self) -> None:
        if not self._done():
            raise WorkspaceError(
                "Another task is running in this workspace.",
                code="workspace_owned",
                hint="Wait for it to end, or cancel it.",
            )

    def _check_plan(self, plan: reconcile.Plan, command: ResumeTask) -> None:
        if plan.task.state is not TaskState.BLOCKED:
            raise UsageError(
                f"Task {plan.task.id} is {plan.task.state}; only a blocked task goes on.",
                hint=f'Add a new task to its conversation: fluzo run --session {plan.task.session_id} "..."',
            )
        if plan.task.workspace_identity != self._services.workspace_identity:
            raise WorkspaceError(
                f"Task {plan.task.id} belongs to {plan.task.workspace_root}, which is not this directory.",
                code="workspace_changed",
                hint="Resume it there, or begin a new task here.",
            )
        if command.reconciled != plan.digest:
            raise WorkspaceError(
                "The workspace has changed since the differences were shown.",
                code="workspace_changed",
                hint=f"Look again: fluzo sessions resume {plan.task.session_id}",
            )
