"""Reopening a store: what a dead process left open is marked, and nothing is ever replayed (PRD 22.1).

Runs only under workspace ownership, so whatever is still marked running has no process behind it.
"""

from collections.abc import Callable

from fluzo.core.contracts import Draft, Storage
from fluzo.core.events import (
    AttemptEnded,
    AttemptInterrupted,
    GrantEnded,
    OperationMarkedUnknown,
    OperationRefused,
    Scope,
    TaskStateChanged,
)
from fluzo.core.records import (
    Attempt,
    AttemptState,
    OperationRecord,
    OperationState,
    Record,
    Task,
    TaskState,
)

WHY = "the process that ran it ended without recording how"

_BEFORE_INTENT = (OperationState.REQUESTED, OperationState.AUTHORIZED)


async def reopen(storage: Storage, now: Callable[[], str]) -> tuple[Attempt, ...]:
    """Mark interrupted attempts and unknown operations; returns the attempts that were marked."""
    attempts, operations = await storage.unfinished()
    for attempt in attempts:
        task = await storage.task(attempt.task_id)
        own = [record for record in operations if record.attempt_id == attempt.id]
        await _interrupt(storage, attempt, task, own, now)
    return attempts


async def _interrupt(
    storage: Storage, attempt: Attempt, task: Task | None, operations: list[OperationRecord], now: Callable[[], str]
) -> None:
    scope = Scope(task.session_id if task else "", attempt.task_id, attempt.id, trace_id=attempt.trace_id)
    ended = attempt._replace(state=AttemptState.INTERRUPTED, ended_at=now(), reason="task_interrupted")
    records: list[Record] = [ended]
    events: list[Draft] = [(scope, AttemptInterrupted(WHY))]
    for operation in operations:
        record, event = _settle(operation, now())
        records.append(record)
        events.append((scope._replace(operation_id=operation.id), event))
    for grant in await storage.grants(attempt.task_id):
        if grant.usable:
            records.append(grant._replace(expired_at=now()))
            events.append((scope, GrantEnded(grant.id, "expired")))
    events.append((scope, AttemptEnded(AttemptState.INTERRUPTED, "task_interrupted")))
    if task is not None and task.state not in (TaskState.BLOCKED, TaskState.COMPLETED, TaskState.CANCELLED):
        blocked = task._replace(state=TaskState.BLOCKED, reason="task_interrupted", updated_at=now())
        records.append(blocked)
        events.append((scope, TaskStateChanged(task.state, TaskState.BLOCKED, "task_interrupted")))
    await storage.commit(*records, events=events)


def _settle(operation: OperationRecord, at: str) -> tuple[OperationRecord, OperationMarkedUnknown | OperationRefused]:
    """An operation without an intent certainly did nothing; one with it may have."""
    if operation.state in _BEFORE_INTENT:
        refused = operation._replace(state=OperationState.REFUSED, ok=False, code="task_interrupted", ended_at=at)
        return refused, OperationRefused("task_interrupted", WHY)
    unknown = operation._replace(state=OperationState.UNKNOWN, ended_at=at, result={"why": WHY})
    return unknown, OperationMarkedUnknown(operation.summary, WHY)
