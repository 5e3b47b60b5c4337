"""Tasks: each explicit request for work becomes one task, and one task at a time writes in a workspace.

Commands are idempotent where they can be repeated: the same request id starts one task only.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from fluzo.core.errors import StorageError, UsageError, WorkspaceError
from fluzo.core.events import (
    GrantCreated,
    InterventionConsumed,
    InterventionQueued,
    Payload,
    Scope,
    SessionCreated,
    TaskCreated,
    YoloChanged,
)
from fluzo.core.port import (
    Ack,
    AnswerPermission,
    AnswerQuestion,
    CancelTask,
    QueueIntervention,
    RevokeGrant,
    SetYolo,
    StartTask,
)
from fluzo.core.records import Attempt, AttemptState, Grant, GrantIssuer, Limits, Session, Task, TaskState
from fluzo.policy.scope import fingerprint, process_operation, scope_of
from fluzo.runtime.approvals import Pending
from fluzo.runtime.attempt import AttemptRun
from fluzo.runtime.recorder import Recorder
from fluzo.runtime.services import Services

MAX_TITLE_CHARACTERS = 80


class Tasks:
    """Starts attempts and delivers the user's acts to the running one."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._run: AttemptRun | None = None
        self._running: asyncio.Task[None] | None = None
        self.failure: StorageError | None = None
        """Why the last attempt's end could not be committed; None when it was."""

    async def start(self, command: StartTask) -> Ack:
        """Create the task and begin it. Raises ConfigError without consent, WorkspaceError while another runs."""
        services = self._services
        known = await services.storage.task_by_request(command.request_id)
        if known is not None:
            return Ack(True, known.id, known.session_id)
        services.require_consent()
        if self._running is not None and not self._running.done():
            raise WorkspaceError(
                "another task is running in this workspace",
                code="workspace_owned",
                hint="Wait for it to end, or cancel it.",
            )
        session, events = await self._session(command)
        task = self._task(command, session)
        grants = self._grants(command, task)
        attempt = Attempt(
            id=services.new_id("a"),
            task_id=task.id,
            trace_id=services.new_trace_id(),
            number=1,
            state=AttemptState.RUNNING,
            started_at=services.now(),
        )
        created = TaskCreated(task.text, _limits_json(task.limits), task.verification)
        granted = tuple(GrantCreated(grant.id, grant.kind, grant.issuer, grant.scope) for grant in grants)
        scope = Scope(session.id, task.id, attempt.id, trace_id=attempt.trace_id)
        recorder = Recorder(services.storage, services.feed.publish, scope, services.redact)
        first = await recorder.commit(session, task, attempt, *grants, events=(*events, created, *granted))
        self._begin(AttemptRun(services, session, task, attempt, grants, command.interactive))
        return Ack(True, task.id, session.id, cursor=first - 1)

    async def cancel(self, command: CancelTask) -> Ack:
        run = self._active(command.task_id)
        if run is None:
            return Ack(False, command.task_id, code="not_found", message="that task is not running here")
        await run.cancel(command.by)
        return Ack(True, command.task_id)

    async def answer(self, command: AnswerPermission | AnswerQuestion) -> Ack:
        """First answer wins; an answer to anything but what is being asked now is refused."""
        run = self._active(command.task_id)
        if isinstance(command, AnswerPermission):
            delivered = run is not None and run.approvals.answer(
                command.operation_id, command.fingerprint, command.answer
            )
        else:
            delivered = run is not None and self._answer_question(run, command)
        if delivered:
            return Ack(True, command.task_id)
        return Ack(False, command.task_id, code="stale_answer", message="that question is not being asked any more")

    async def intervene(self, command: QueueIntervention) -> Ack:
        run = self._active(command.task_id)
        if run is None:
            return Ack(False, command.task_id, code="not_found", message="that task is not running here")
        intervention_id = self._services.new_id("i")
        await run.recorder.commit(events=(InterventionQueued(intervention_id, command.text),))
        run.queue(command.text, InterventionConsumed(intervention_id))
        return Ack(True, command.task_id)

    async def revoke(self, command: RevokeGrant) -> Ack:
        run = self._active(command.task_id)
        done = run is not None and await run.approvals.revoke(command.grant_id)
        return Ack(done, command.task_id, code="" if done else "not_found")

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

    async def quiesce(self) -> None:
        """Cancel what runs, wait until its end is committed, and close the connections to model servers."""
        if self._running is not None and self._run is not None:
            if not self._running.done():
                await self._run.cancel("shutdown")
            await asyncio.gather(self._running, return_exceptions=True)
        await self._services.gateway.close()

    # --- helpers ----------------------------------------------------------------------------------------------

    def _begin(self, run: AttemptRun) -> None:
        self._run = run
        self._running = asyncio.create_task(self._finish(run))

    async def _finish(self, run: AttemptRun) -> None:
        try:
            await run.run()
        except StorageError as error:
            self.failure = error
        finally:
            self._services.feed.finish(run.task.id)

    def _done(self) -> bool:
        return self._running is None or self._running.done()

    def _active(self, task_id: str) -> AttemptRun | None:
        return self._run if self._run and self._run.task.id == task_id and not self._done() else None

    def _answer_question(self, run: AttemptRun, command: AnswerQuestion) -> bool:
        for pending in run.approvals.pending:
            if pending.operation_id == command.operation_id and pending.kind == "question":
                return run.approvals.answer(command.operation_id, pending.fingerprint, command.answer)
        return False

    async def _session(self, command: StartTask) -> tuple[Session, tuple[Payload, ...]]:
        services = self._services
        yolo: tuple[Payload, ...] = (YoloChanged(True, "user"),) if command.yolo else ()
        if command.session_id:
            old = await services.storage.session(command.session_id)
            if old is None:
                raise UsageError(
                    f"there is no session {command.session_id}", code="not_found", hint="See: fluzo sessions list"
                )
            # A mode of an earlier run never comes back by itself.
            return replace(old, updated_at=services.now(), yolo=command.yolo), yolo
        title = " ".join(command.text.split())[:MAX_TITLE_CHARACTERS]
        now = services.now()
        session = Session(services.new_id("s"), services.project_id, title, now, now, command.yolo)
        return session, (SessionCreated(title), *yolo)

    def _task(self, command: StartTask, session: Session) -> Task:
        services, now = self._services, self._services.now()
        return Task(
            id=services.new_id("t"),
            session_id=session.id,
            request_id=command.request_id,
            text=command.text,
            state=TaskState.PENDING,
            reason="",
            created_at=now,
            updated_at=now,
            workspace_root=services.root,
            workspace_identity=services.workspace_identity,
            limits=services.defaults.limits,
            verification=(*services.defaults.verification, *command.verify),
            verification_waived=command.waive_verification,
        )

    def _grants(self, command: StartTask, task: Task) -> list[Grant]:
        """Task grants for what the user named: `--allow`, the checks, and standing grants consented to."""
        defaults = self._services.defaults
        named: list[tuple[GrantIssuer, tuple[str, ...]]] = [
            *(("flag", argv) for argv in command.allow),
            *(("verification", argv) for argv in task.verification),
        ]
        grants = [self._grant(task, issuer, argv=argv) for issuer, argv in named]
        for entry in defaults.standing_grants:
            argv = entry.get("argv")
            grants.append(
                self._grant(
                    task,
                    "settings",
                    argv=tuple(argv) if isinstance(argv, list | tuple) else (),
                    script=str(entry.get("script", "")),
                    cwd=str(entry.get("cwd", ".")),
                )
            )
        return grants

    def _grant(
        self, task: Task, issuer: GrantIssuer, *, argv: tuple[str, ...] = (), script: str = "", cwd: str = "."
    ) -> Grant:
        services = self._services
        operation = process_operation(argv, script, cwd, services.defaults.shell_env)
        scope = scope_of(operation, services.workspace_identity)
        return Grant(
            id=services.new_id("g"),
            kind="standing" if issuer == "settings" else "task",
            issuer=issuer,
            task_id=task.id,
            fingerprint=fingerprint(scope),
            scope=scope,
            granted_at=services.now(),
        )


def _limits_json(limits: Limits) -> dict[str, object]:
    return {
        "max_turns": limits.max_turns,
        "max_tool_calls": limits.max_tool_calls,
        "max_active_seconds": limits.max_active_seconds,
        "max_total_tokens": limits.max_total_tokens,
    }
