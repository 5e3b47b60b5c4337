"""Cancelling a task that nobody runs: a matter of records alone, so it needs no settings, no model and no consent.

Nothing is dispatched, and nothing that is unknown about the task becomes known by it.
"""

from collections.abc import Callable

from fluzo.core.contracts import Storage
from fluzo.core.errors import UsageError
from fluzo.core.events import CancelRequested, Event, Scope, TaskStateChanged
from fluzo.core.port import Ack, CancelTask, Command, ForceStopTask
from fluzo.core.records import Task, TaskState
from fluzo.core.redact import Redactor
from fluzo.runtime.recorder import Recorder

REASON = "cancelled"


class Keeper:
    """Takes the place of `Tasks` in an application that owns the workspace and runs nothing in it."""

    def __init__(
        self,
        storage: Storage,
        publish: Callable[[tuple[Event, ...]], None],
        redact: Redactor,
        now: Callable[[], str],
    ) -> None:
        self._storage = storage
        self._publish = publish
        self._redact = redact
        self._now = now

    async def handle(self, command: Command) -> Ack:
        """Carry out CancelTask, or ForceStopTask, which is the same where nothing runs. Raises UsageError."""
        if isinstance(command, CancelTask | ForceStopTask):
            return await self.cancel(command.task_id, command.by)
        raise UsageError("here, tasks can be cancelled and nothing else", code="not_permitted")

    def active(self, task_id: str) -> bool:
        return False

    async def cancel(self, task_id: str, by: str) -> Ack:
        """End a blocked task as cancelled; one that is cancelled already stays so, any other end is refused."""
        task = await self._storage.task(task_id)
        if task is None:
            return Ack(False, task_id, code="not_found", message=f"there is no task {task_id}")
        if task.state is TaskState.CANCELLED:
            return Ack(True, task.id, task.session_id)
        if task.state is not TaskState.BLOCKED:
            ended = task.state in (TaskState.COMPLETED, TaskState.FAILED)
            code = "task_ended" if ended else "not_found"
            what = f"has ended: it is {task.state}" if ended else "is not running here"
            return Ack(False, task.id, task.session_id, code=code, message=f"task {task.id} {what}")
        return await self._end(task, by)

    async def _end(self, task: Task, by: str) -> Ack:
        attempts = await self._storage.attempts(task.id)
        scope = Scope(task.session_id, task.id)
        if attempts:
            scope = scope._replace(attempt_id=attempts[-1].id, trace_id=attempts[-1].trace_id)
        stopping = task._replace(state=TaskState.STOPPING, reason=REASON, updated_at=self._now())
        cancelled = stopping._replace(state=TaskState.CANCELLED, result=_cancelled(task))
        recorder = Recorder(self._storage, self._publish, scope, self._redact)
        first = await recorder.commit(
            stopping,
            cancelled,
            events=(
                CancelRequested(by),
                TaskStateChanged(task.state, TaskState.STOPPING, REASON),
                TaskStateChanged(TaskState.STOPPING, TaskState.CANCELLED, REASON),
            ),
        )
        return Ack(True, task.id, task.session_id, cursor=first - 1)


def _cancelled(task: Task) -> dict[str, object]:
    """The result as the last attempt left it, where it left one, with the end that the task has now."""
    if not task.result:
        return {}
    why = {"code": REASON, "message": "the blocked task was cancelled", "hint": "", "detail": {}}
    return {**task.result, "status": str(TaskState.CANCELLED), "reason": REASON, "error": why}
