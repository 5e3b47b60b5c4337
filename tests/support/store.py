"""Records to put into a journal, and a journal to put them into."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fluzo.core.events import OperationIntended, Scope, TaskCreated
from fluzo.core.records import (
    Attempt,
    AttemptState,
    Grant,
    Limits,
    Message,
    OperationRecord,
    OperationState,
    Session,
    StoredMessage,
    Task,
    TaskState,
)
from fluzo.storage.journal import Journal

AT = "2026-01-02T03:04:05.000006Z"
LIMITS = Limits(max_turns=10, max_tool_calls=20, max_active_seconds=30.5, max_total_tokens=4000)

_numbers = itertools.count(1)


def new_id(prefix: str) -> str:
    return f"{prefix}_{next(_numbers):08d}"


def now() -> str:
    return AT


@asynccontextmanager
async def journal_at(drive: Path, *, read_only: bool = False) -> AsyncIterator[Journal]:
    journal = await Journal.open(drive, new_id=new_id, now=now, read_only=read_only)
    try:
        yield journal
    finally:
        await journal.close()


def a_session(journal: Journal, session_id: str = "s_1", **changes: Any) -> Session:
    return Session(session_id, journal.project().id, "Fix the test", AT, AT)._replace(**changes)


def a_task(task_id: str = "t_1", **changes: Any) -> Task:
    task = Task(task_id, "s_1", f"request-{task_id}", "fix it", TaskState.PENDING, "", AT, AT, "/repo", "1:2", LIMITS)
    return task._replace(**changes)


def an_attempt(attempt_id: str = "a_1", **changes: Any) -> Attempt:
    return Attempt(attempt_id, "t_1", "trace", 1, AttemptState.RUNNING, AT)._replace(**changes)


def an_operation(operation_id: str, state: OperationState, **changes: Any) -> OperationRecord:
    record = OperationRecord(
        id=operation_id,
        task_id="t_1",
        attempt_id="a_1",
        turn=1,
        call_id="call_1",
        tool="run",
        action="execute",
        effect="execute",
        summary="cargo test",
        scope={"argv": ["cargo", "test"], "cwd": "."},
        fingerprint="f" * 64,
        state=state,
        requested_at=AT,
        authorized_by="user",
    )
    return record._replace(**changes)


def an_intent(operation_id: str, **changes: Any) -> OperationRecord:
    return an_operation(operation_id, OperationState.INTENT_COMMITTED, **changes)


def a_grant(grant_id: str, kind: Any = "once", **changes: Any) -> Grant:
    return Grant(grant_id, kind, "user", "t_1", "f" * 64, {"argv": ["cargo", "test"]}, AT)._replace(**changes)


def a_message(position: int, message: Message, **changes: Any) -> StoredMessage:
    return StoredMessage(f"m_{position}", "s_1", "t_1", "a_1", 1, position, AT, message)._replace(**changes)


def created(task_id: str = "t_1", text: str = "fix it") -> tuple[Scope, TaskCreated]:
    return Scope("s_1", task_id), TaskCreated(text, {"max_turns": 10})


def intended(operation_id: str) -> tuple[Scope, OperationIntended]:
    return Scope("s_1", "t_1", "a_1", operation_id), OperationIntended("run", "cargo test")


async def seed(journal: Journal) -> None:
    """A session with one task in its first attempt."""
    await journal.commit(a_session(journal), a_task(), an_attempt())
