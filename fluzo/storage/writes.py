"""Every write of the store: plain functions on the writer's connection, inside a transaction the journal holds.

A record's stored state decides what may follow it. Breaking that order is a fault in the program, not in the
store: it raises ValueError, and the transaction is rolled back.
"""

import sqlite3
from collections.abc import Sequence

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

_FIRST_STATES = frozenset({OperationState.REQUESTED, OperationState.AUTHORIZED, OperationState.REFUSED})
_BEFORE_INTENT = frozenset({None, OperationState.REQUESTED, OperationState.AUTHORIZED})


def put(connection: sqlite3.Connection, record: Record) -> None:
    """Insert a record or bring its row up to date."""
    if isinstance(record, OperationRecord):
        _check_operation(connection, record)
    elif isinstance(record, Task):
        _check_task(connection, record)
    elif isinstance(record, Grant):
        _check_grant(connection, record)
    _upsert(connection, record)


def put_intent(connection: sqlite3.Connection, operation: OperationRecord) -> None:
    """Write an operation as intended: new, or requested or authorized before."""
    stored = _operation_state(connection, operation.id)
    if operation.state is not OperationState.INTENT_COMMITTED or stored not in _BEFORE_INTENT:
        raise ValueError(f"operation {operation.id} is {stored or 'new'}, it gets no intent as {operation.state}")
    _upsert(connection, operation)


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


def _upsert(connection: sqlite3.Connection, record: Record) -> None:
    table = TABLES[type(record)]
    connection.execute(table.upsert, table.to_row(record))


def _operation_state(connection: sqlite3.Connection, operation_id: str) -> OperationState | None:
    row = connection.execute("SELECT state FROM operations WHERE id = ?", (operation_id,)).fetchone()
    return OperationState(row[0]) if row else None


def _check_operation(connection: sqlite3.Connection, record: OperationRecord) -> None:
    stored = _operation_state(connection, record.id)
    if record.state is stored:
        return
    allowed = record.state in _FIRST_STATES if stored is None else operation_may_become(stored, record.state)
    if not allowed or record.state is OperationState.INTENT_COMMITTED:
        raise ValueError(f"operation {record.id} is {stored or 'new'}, it cannot become {record.state}")


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
