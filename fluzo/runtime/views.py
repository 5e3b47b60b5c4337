"""Read models: plain JSON values made from stored records. Reading changes nothing and calls nobody."""

from collections.abc import Mapping, Sequence

from fluzo.core.contracts import SessionSummary
from fluzo.core.records import (
    Attempt,
    AttemptState,
    Grant,
    OperationRecord,
    OperationState,
    Session,
    StoredMessage,
    Task,
    TaskState,
)
from fluzo.runtime.approvals import Pending

_OPEN = (OperationState.INTENT_COMMITTED, OperationState.DISPATCHED)


def session_json(session: Session) -> dict[str, object]:
    return session._asdict()


def session_row(session: Session, summary: SessionSummary, *, live: bool) -> dict[str, object]:
    """One line of a list of sessions. `state` and `reason` are those of its newest task, empty without one."""
    newest = summary.newest
    state, reason = task_state(newest, live=live) if newest is not None else ("", "")
    return {
        **session_json(session),
        "state": state,
        "reason": reason,
        "tasks": summary.tasks,
        "turns": summary.turns,
        "tokens": summary.tokens,
        "branch": summary.branch,
        "first": summary.first,
        "last": summary.last,
        "paths": list(summary.paths),
        "added": summary.added,
        "removed": summary.removed,
        "verdict": verdict_of(newest) if newest is not None else "",
    }


def verdict_of(task: Task) -> str:
    """What the checks of a task said when its last attempt ended, empty before that."""
    verification = task.result.get("verification")
    return str(verification.get("verdict", "")) if isinstance(verification, Mapping) else ""


def task_row(task: Task, *, live: bool) -> dict[str, object]:
    """One line of a list. `live` says that a process owns the workspace and may be running this task now."""
    state, reason = task_state(task, live=live)
    spent = task.consumption
    return {
        "id": task.id,
        "session_id": task.session_id,
        "text": task.text,
        "state": state,
        "reason": reason,
        "created_at": task.created_at,
        "updated_at": task.updated_at,
        "turns": spent.turns,
        "active_seconds": round(spent.active_seconds, 3),
        "tokens": spent.input_tokens + spent.output_tokens,
        "verdict": verdict_of(task),
    }


def task_state(task: Task, *, live: bool) -> tuple[str, str]:
    """The state to show: a task left running by a process that is gone is interrupted, not running."""
    unfinished = task.state in (TaskState.PENDING, TaskState.READY, TaskState.RUNNING, TaskState.WAITING)
    if not live and (unfinished or task.state is TaskState.STOPPING):
        return TaskState.BLOCKED, "task_interrupted"
    return task.state, task.reason


def task_detail(
    task: Task,
    attempts: Sequence[Attempt],
    operations: Sequence[OperationRecord],
    grants: Sequence[Grant],
    pending: Sequence[Pending],
    *,
    live: bool,
) -> dict[str, object]:
    return {
        "task": {
            **task_row(task, live=live),
            "limits": task.limits._asdict(),
            "consumption": task.consumption._asdict(),
            "verification": [list(argv) for argv in task.verification],
            "verification_waived": task.verification_waived,
            "final_message": task.final_message,
            "result": dict(task.result) or None,
        },
        "attempts": [attempt_json(attempt, live=live) for attempt in attempts],
        "operations": [operation_json(operation, live=live) for operation in operations],
        "grants": [grant._asdict() for grant in grants],
        "pending": [pending_json(item) for item in pending],
    }


def attempt_json(attempt: Attempt, *, live: bool) -> dict[str, object]:
    state = attempt.state
    if not live and state is AttemptState.RUNNING:
        state = AttemptState.INTERRUPTED
    return {
        "id": attempt.id,
        "number": attempt.number,
        "trace_id": attempt.trace_id,
        "model": attempt.config.get("model", ""),
        "state": state,
        "reason": attempt.reason,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "baseline": dict(attempt.baseline),
    }


def operation_json(operation: OperationRecord, *, live: bool) -> dict[str, object]:
    """An intent without a result is unknown once nobody is left who could still write one."""
    state = operation.state
    if not live and state in _OPEN:
        state = OperationState.UNKNOWN
    return {
        "id": operation.id,
        "attempt_id": operation.attempt_id,
        "turn": operation.turn,
        "tool": operation.tool,
        "action": operation.action,
        "summary": operation.summary,
        "state": state,
        "ok": operation.ok,
        "code": operation.code,
        "authorized_by": operation.authorized_by,
        "grant_id": operation.grant_id,
        "requested_at": operation.requested_at,
        "ended_at": operation.ended_at,
        "result": dict(operation.result),
        "artifact_id": operation.artifact_id,
    }


def message_json(stored: StoredMessage) -> dict[str, object]:
    message = stored.message
    return {
        "id": stored.id,
        "task_id": stored.task_id,
        "turn": stored.turn,
        "position": stored.position,
        "at": stored.created_at,
        "role": message.role,
        "text": message.text,
        "reasoning": message.reasoning,
        "tool_calls": [call._asdict() for call in message.tool_calls],
        "tool_call_id": message.tool_call_id,
        "incomplete": message.incomplete,
    }


def pending_json(pending: Pending) -> dict[str, object]:
    return {
        "operation_id": pending.operation_id,
        "kind": pending.kind,
        "fingerprint": pending.fingerprint,
        **pending.data,
    }
