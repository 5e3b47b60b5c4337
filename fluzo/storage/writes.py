"""Every write of the store: plain functions on the writer's connection, inside a transaction the journal holds.

A record's stored state decides what may follow it. Breaking that order is a fault in the program, not in the
store: it raises ValueError, and the transaction is rolled back.
"""

import sqlite3
from collections.abc import Iterable, Sequence

from fluzo.core.contracts import Draft
from fluzo.core.errors import PermissionRequired
from fluzo.core.events import Event
from fluzo.core.records import (
    Grant,
    OperationRecord,
    OperationState,
    Record,
    Task,
    TaskState,
    operation_may_become,
    task_may_become,
)
from fluzo.storage.database import Now
from fluzo.storage.rows import EVENT_SQL, TABLES, event_id, event_row

_OPERATIONS = TABLES[OperationRecord]


def _words(states: Iterable[OperationState]) -> str:
    return ", ".join(f"'{state}'" for state in states)


def _statement(state: OperationState) -> tuple[str, bool]:
    """Text that writes an operation in this state unless the stored one forbids it, and whether it may be new.

    The condition is part of the write, because reading the stored state first takes a quarter of the time.
    """
    before = _words(old for old in OperationState if old is state or operation_may_become(old, state))
    if state in (OperationState.REQUESTED, OperationState.AUTHORIZED, OperationState.REFUSED):
        return f"{_OPERATIONS.upsert} WHERE state IN ({before})", True
    if state is OperationState.INTENT_COMMITTED:  # By `put_intent` alone; what has one is brought up to date.
        before = _words([state])
    return f"{_OPERATIONS.update} AND state IN ({before})", False


_WRITE = {state: _statement(state) for state in OperationState}
_INTEND = f"{_OPERATIONS.upsert} WHERE state IN ({_words([OperationState.REQUESTED, OperationState.AUTHORIZED])})"


def put(connection: sqlite3.Connection, record: Record) -> None:
    """Insert a record or bring its row up to date."""
    if isinstance(record, OperationRecord):
        _put_operation(connection, record)
        return
    if isinstance(record, Task):
        _check_task(connection, record)
    elif isinstance(record, Grant):
        _check_grant(connection, record)
    table = TABLES[type(record)]
    connection.execute(table.upsert, table.to_row(record))


def put_intent(connection: sqlite3.Connection, operation: OperationRecord) -> None:
    """Write an operation as intended: new, or requested or authorized before."""
    if (
        operation.state is not OperationState.INTENT_COMMITTED
        or not connection.execute(_INTEND, _OPERATIONS.to_row(operation)).rowcount
    ):
        stored = _stored_state(connection, operation)
        raise ValueError(f"operation {operation.id} is {stored}, it gets no intent as {operation.state}")


def use_grant(connection: sqlite3.Connection, grant_id: str, now: Now) -> None:
    """Consume a once-grant; a task or standing grant stays. Raises PermissionRequired when it is not usable."""
    found = connection.execute(
        "SELECT kind FROM permission_grants WHERE id = ? AND consumed_at = '' AND revoked_at = '' AND expired_at = ''",
        (grant_id,),
    ).fetchone()
    if found is None:
        raise PermissionRequired(
            "The permission for this operation was used up, revoked or has expired meanwhile; nothing was done.",
            hint="Answer the request again.",
            detail={"grant": grant_id},
        )
    if found[0] == "once":
        connection.execute("UPDATE permission_grants SET consumed_at = ? WHERE id = ?", (now(), grant_id))


def append(connection: sqlite3.Connection, drafts: Sequence[Draft], now: Now) -> tuple[Event, ...]:
    """Append events and give each its number, id and time."""
    committed = []
    for scope, payload in drafts:
        at = now()
        seq = connection.execute(EVENT_SQL, event_row(at, scope, payload)).lastrowid or 0
        committed.append(Event(seq, event_id(seq), at, scope, payload))
    return tuple(committed)


def _put_operation(connection: sqlite3.Connection, record: OperationRecord) -> None:
    statement, may_be_new = _WRITE[record.state]
    row = _OPERATIONS.to_row(record)
    if not connection.execute(statement, row if may_be_new else _OPERATIONS.to_update(row)).rowcount:
        raise ValueError(
            f"operation {record.id} is {_stored_state(connection, record)}, it cannot become {record.state}"
        )


def _stored_state(connection: sqlite3.Connection, record: OperationRecord) -> str:
    row = connection.execute("SELECT state FROM operations WHERE id = ?", (record.id,)).fetchone()
    return str(row[0]) if row else "new"


def _check_task(connection: sqlite3.Connection, record: Task) -> None:
    row = connection.execute("SELECT state FROM tasks WHERE id = ?", (record.id,)).fetchone()
    if row and row[0] != record.state and not task_may_become(TaskState(row[0]), record.state):
        raise ValueError(f"task {record.id} is {row[0]}, it cannot become {record.state}")


def _check_grant(connection: sqlite3.Connection, record: Grant) -> None:
    row = connection.execute(
        "SELECT consumed_at, revoked_at, expired_at FROM permission_grants WHERE id = ?", (record.id,)
    ).fetchone()
    ended = (record.consumed_at, record.revoked_at, record.expired_at)
    if row and any(old and not new for old, new in zip(row, ended, strict=True)):
        raise ValueError(f"grant {record.id} has ended, it cannot be usable again")
