"""Every read of the store: plain functions from a reading connection to records.

Results are complete values; nothing lazy outlives the call, so no cursor holds back a checkpoint.
"""

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from peewee import ModelSelect, SqliteDatabase

from fluzo.core.contracts import SessionSummary
from fluzo.core.events import Event
from fluzo.core.records import (
    Artifact,
    Attempt,
    AttemptState,
    Grant,
    OperationRecord,
    OperationState,
    Session,
    StoredMessage,
    Task,
)
from fluzo.storage import artifacts
from fluzo.storage.database import ARTIFACTS, DATABASE, damaged, raw, storage_error
from fluzo.storage.rows import (
    TABLES,
    ArtifactRow,
    AttemptRow,
    EventRow,
    GrantRow,
    MessageRow,
    OperationRow,
    SessionRow,
    TaskRow,
    event_from_row,
    from_row,
)

R = TypeVar("R")
PREFIX_MATCHES = 20
"""How many ids an ambiguous prefix is shown with."""
SUMMARY_CHARACTERS = 400
SUMMARY_PATHS = 200

_FIGURES = """SELECT count(*), total(json_extract(consumption, '$.turns')),
    total(json_extract(consumption, '$.input_tokens')) + total(json_extract(consumption, '$.output_tokens'))
    FROM tasks WHERE session_id = ?"""
_FIRST_TEXT = f"SELECT substr(text, 1, {SUMMARY_CHARACTERS}) FROM tasks WHERE session_id = ? ORDER BY row LIMIT 1"
_LAST_TEXT = f"""SELECT substr(text, 1, {SUMMARY_CHARACTERS}) FROM messages
    WHERE session_id = ? AND role = 'assistant' AND text != '' ORDER BY position DESC LIMIT 1"""
_BRANCH = "SELECT json_extract(baseline, '$.branch') FROM attempts WHERE task_id = ? ORDER BY number DESC LIMIT 1"
_CHANGES = "FROM tasks, json_each(tasks.result, '$.changes') AS change WHERE session_id = ?"
_LINES = f"""SELECT CAST(total(json_extract(change.value, '$.added')) AS INTEGER),
    CAST(total(json_extract(change.value, '$.removed')) AS INTEGER) {_CHANGES}"""
_PATHS = f"SELECT DISTINCT json_extract(change.value, '$.path') AS path {_CHANGES} ORDER BY path LIMIT ?"


def _select(record_type: type[Any]) -> ModelSelect:
    table = TABLES[record_type]
    return table.model.select(*table.columns)


def _all(db: SqliteDatabase, record_type: type[R], query: ModelSelect) -> tuple[R, ...]:
    return _decoded(query.tuples().execute(db), lambda row: from_row(record_type, row))


def _decoded(rows: Iterable[Any], convert: Callable[[Any], R]) -> tuple[R, ...]:
    try:
        return tuple(convert(row) for row in rows)
    except (ValueError, KeyError, TypeError) as exc:
        raise damaged("A row holds something that Fluzo did not write.") from exc


def _one(db: SqliteDatabase, record_type: type[R], query: ModelSelect) -> R | None:
    found = _all(db, record_type, query.limit(1))
    return found[0] if found else None


def session(db: SqliteDatabase, session_id: str) -> Session | None:
    return _one(db, Session, _select(Session).where(SessionRow.id == session_id))


def task(db: SqliteDatabase, task_id: str) -> Task | None:
    return _one(db, Task, _select(Task).where(TaskRow.id == task_id))


def task_by_request(db: SqliteDatabase, request_id: str) -> Task | None:
    # The second condition lets SQLite use the partial index; an empty request id names no task.
    return _one(db, Task, _select(Task).where(TaskRow.request_id == request_id, TaskRow.request_id != ""))


def attempts(db: SqliteDatabase, task_id: str) -> tuple[Attempt, ...]:
    return _all(db, Attempt, _select(Attempt).where(AttemptRow.task_id == task_id).order_by(AttemptRow.number))


def operations(db: SqliteDatabase, task_id: str) -> tuple[OperationRecord, ...]:
    query = _select(OperationRecord).where(OperationRow.task_id == task_id).order_by(OperationRow.row)
    return _all(db, OperationRecord, query)


def grants(db: SqliteDatabase, task_id: str) -> tuple[Grant, ...]:
    """The grants of a task, oldest first; those of no task for an empty id."""
    owner = GrantRow.task_id == task_id if task_id else GrantRow.task_id.is_null()
    return _all(db, Grant, _select(Grant).where(owner).order_by(GrantRow.row))


def artifact(db: SqliteDatabase, artifact_id: str) -> Artifact | None:
    return _one(db, Artifact, _select(Artifact).where(ArtifactRow.id == artifact_id))


def artifact_ids(db: SqliteDatabase) -> frozenset[str]:
    return frozenset(row[0] for row in ArtifactRow.select(ArtifactRow.id).tuples().execute(db))


def messages(db: SqliteDatabase, session_id: str) -> tuple[StoredMessage, ...]:
    query = _select(StoredMessage).where(MessageRow.session_id == session_id).order_by(MessageRow.position)
    return _all(db, StoredMessage, query)


def message_page(
    db: SqliteDatabase, session_id: str, *, limit: int, before_position: int = 0
) -> tuple[StoredMessage, ...]:
    """The last `limit` messages of a session before a position (0: the end), oldest first."""
    query = _select(StoredMessage).where(MessageRow.session_id == session_id)
    if before_position:
        query = query.where(MessageRow.position < before_position)
    return _all(db, StoredMessage, query.order_by(MessageRow.position.desc()).limit(limit))[::-1]


def events_after(db: SqliteDatabase, seq: int, *, task_id: str = "", limit: int = 1000) -> tuple[Event, ...]:
    query = EventRow.select().where(EventRow.seq > seq)
    if task_id:
        query = query.where(EventRow.task_id == task_id)
    return _decoded(query.order_by(EventRow.seq).limit(limit).tuples().execute(db), event_from_row)


def last_seq(db: SqliteDatabase) -> int:
    """Number of the last event, 0 before the first."""
    return int(raw(db).execute("SELECT ifnull(max(seq), 0) FROM events").fetchone()[0])


def unfinished(db: SqliteDatabase) -> tuple[tuple[Attempt, ...], tuple[OperationRecord, ...]]:
    running = _select(Attempt).where(AttemptRow.state == AttemptState.RUNNING).order_by(AttemptRow.row)
    between = (OperationState.INTENT_COMMITTED, OperationState.DISPATCHED)
    open_operations = _select(OperationRecord).where(OperationRow.state.in_(between)).order_by(OperationRow.row)
    return _all(db, Attempt, running), _all(db, OperationRecord, open_operations)


def page_sessions(db: SqliteDatabase, *, limit: int, before: str = "") -> tuple[Session, ...]:
    """The newest sessions, or those created before one of them; nothing when that one is not there."""
    return _all(db, Session, _page(_select(Session), SessionRow, limit, before))


def summary(db: SqliteDatabase, session_id: str) -> SessionSummary:
    """What the tasks of one session came to; of texts and paths as much as a list can show."""
    newest = page_tasks(db, limit=1, session_id=session_id)
    if not newest:
        return SessionSummary(None)
    tasks, turns, tokens = map(int, _first_row(db, _FIGURES, session_id))
    (first,) = _first_row(db, _FIRST_TEXT, session_id)
    (last,) = _first_row(db, _LAST_TEXT, session_id) or ("",)
    (branch,) = _first_row(db, _BRANCH, newest[0].id) or ("",)
    added, removed = _first_row(db, _LINES, session_id)
    paths = tuple(str(row[0]) for row in raw(db).execute(_PATHS, (session_id, SUMMARY_PATHS)))
    return SessionSummary(newest[0], tasks, turns, tokens, branch or "", first, last, paths, added, removed)


def _first_row(db: SqliteDatabase, statement: str, key: str) -> Any:
    return raw(db).execute(statement, (key,)).fetchone()


def page_tasks(db: SqliteDatabase, *, limit: int, before: str = "", session_id: str = "") -> tuple[Task, ...]:
    """The newest tasks (of a session), or those created before one of them."""
    query = _select(Task)
    if session_id:
        query = query.where(TaskRow.session_id == session_id)
    return _all(db, Task, _page(query, TaskRow, limit, before))


def _page(query: ModelSelect, model: Any, limit: int, before: str) -> ModelSelect:
    if before:
        query = query.where(model.row < model.select(model.row).where(model.id == before))
    return query.order_by(model.row.desc()).limit(limit)


def session_by_prefix(db: SqliteDatabase, prefix: str) -> tuple[Session, ...]:
    return _all(db, Session, _prefixed(_select(Session), SessionRow, prefix))


def task_by_prefix(db: SqliteDatabase, prefix: str) -> tuple[Task, ...]:
    return _all(db, Task, _prefixed(_select(Task), TaskRow, prefix))


def _prefixed(query: ModelSelect, model: Any, prefix: str) -> ModelSelect:
    """Ids that begin with the prefix, newest first. A range, so that the index of ids answers it."""
    within = (model.id >= prefix) & (model.id < prefix + "\U0010ffff")
    return query.where(within).order_by(model.row.desc()).limit(PREFIX_MATCHES)


def usage(db: SqliteDatabase, drive: Path) -> dict[str, int]:
    """What the store takes on disk, in bytes, and how much is in it."""
    sizes = {
        "database_bytes": _size(drive / DATABASE),
        "wal_bytes": _size(drive / f"{DATABASE}-wal"),
        "artifact_bytes": artifacts.size_of(drive / ARTIFACTS),
    }
    counts = {name: _count(db, name) for name in ("sessions", "tasks", "events")}
    return {**sizes, "total_bytes": sum(sizes.values()), **counts}


def _count(db: SqliteDatabase, table: str) -> int:
    return int(raw(db).execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def problems(db: SqliteDatabase) -> tuple[str, ...]:
    """What SQLite finds wrong in the whole file, empty for a sound store; reads every page."""
    try:
        found = raw(db).execute("PRAGMA integrity_check(20)").fetchall()
    except sqlite3.DatabaseError as exc:
        if storage_error(exc).code != "store_damaged":
            raise
        return (str(exc),)
    return tuple(str(row[0]) for row in found if row[0] != "ok")
