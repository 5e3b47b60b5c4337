"""Every read of the store: plain functions from a reading connection to records.

Results are complete values; nothing lazy outlives the call, so no cursor holds back a checkpoint.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from peewee import SqliteDatabase

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
    EVENT_SELECT,
    TABLES,
    event_from_row,
    from_row,
    scrub,
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
_LEFT = """SELECT DISTINCT version.key FROM attempts, json_each(attempts.baseline, '$.end.versions') AS version
    WHERE attempts.id != ?"""
_UNTOLD = """SELECT count(*) FROM attempts
    WHERE id != ? AND json_type(baseline, '$.end') IS NULL AND json_extract(baseline, '$.head') = ?"""
# Of a task that has no result yet, or never got one, the files that its edits are known to have changed.
_PATHS = f"""SELECT json_extract(change.value, '$.path') AS path {_CHANGES}
    UNION SELECT touched.value FROM tasks JOIN operations ON operations.task_id = tasks.id,
    json_each(operations.scope, '$.paths') AS touched WHERE session_id = ?1
    AND json_type(tasks.result, '$.changes') IS NULL AND operations.ok
    AND operations.action IN ('edit', 'write', 'delete', 'move') ORDER BY path LIMIT ?2"""


def _all(db: SqliteDatabase, record_type: type[R], clauses: str, *values: object) -> tuple[R, ...]:
    """The records of the rows that `clauses`, what follows the table's name, choose and order."""
    rows = raw(db).execute(f"{TABLES[record_type].select} {clauses}", values)
    return _decoded(rows, lambda row: from_row(record_type, row))


def _decoded(rows: Iterable[Any], convert: Callable[[Any], R]) -> tuple[R, ...]:
    try:
        return tuple(convert(row) for row in rows)
    except (ValueError, KeyError, TypeError) as exc:
        raise damaged("A row holds something that Fluzo did not write.") from exc


def _one(db: SqliteDatabase, record_type: type[R], clauses: str, *values: object) -> R | None:
    found = _all(db, record_type, f"{clauses} LIMIT 1", *values)
    return found[0] if found else None


def session(db: SqliteDatabase, session_id: str) -> Session | None:
    return _one(db, Session, "WHERE id = ?", session_id)


def task(db: SqliteDatabase, task_id: str) -> Task | None:
    return _one(db, Task, "WHERE id = ?", task_id)


def task_by_request(db: SqliteDatabase, request_id: str) -> Task | None:
    # The second condition lets SQLite use the partial index; an empty request id names no task.
    return _one(db, Task, "WHERE request_id = ? AND request_id != ''", scrub(request_id))


def attempts(db: SqliteDatabase, task_id: str) -> tuple[Attempt, ...]:
    return _all(db, Attempt, "WHERE task_id = ? ORDER BY number", task_id)


def operations(db: SqliteDatabase, task_id: str) -> tuple[OperationRecord, ...]:
    return _all(db, OperationRecord, "WHERE task_id = ? ORDER BY row", task_id)


def grants(db: SqliteDatabase, task_id: str) -> tuple[Grant, ...]:
    """The grants of a task, oldest first; those of no task for an empty id."""
    return _all(db, Grant, "WHERE task_id IS ? ORDER BY row", task_id or None)


def artifact(db: SqliteDatabase, artifact_id: str) -> Artifact | None:
    return _one(db, Artifact, "WHERE id = ?", artifact_id)


def artifact_ids(db: SqliteDatabase) -> frozenset[str]:
    return frozenset(row[0] for row in raw(db).execute("SELECT id FROM artifacts"))


def messages(db: SqliteDatabase, session_id: str) -> tuple[StoredMessage, ...]:
    return _all(db, StoredMessage, "WHERE session_id = ? ORDER BY position", session_id)


def message_page(
    db: SqliteDatabase, session_id: str, *, limit: int, before_position: int = 0
) -> tuple[StoredMessage, ...]:
    """The last `limit` messages of a session before a position (0: the end), oldest first."""
    before = before_position or 2**63 - 1
    clauses = "WHERE session_id = ? AND position < ? ORDER BY position DESC LIMIT ?"
    return _all(db, StoredMessage, clauses, session_id, before, limit)[::-1]


def events_after(db: SqliteDatabase, seq: int, *, task_id: str = "", limit: int = 1000) -> tuple[Event, ...]:
    of_task, values = ("AND task_id = ?", (seq, task_id, limit)) if task_id else ("", (seq, limit))
    rows = raw(db).execute(f"{EVENT_SELECT} WHERE seq > ? {of_task} ORDER BY seq LIMIT ?", values)
    return _decoded(rows, event_from_row)


def last_seq(db: SqliteDatabase) -> int:
    """Number of the last event, 0 before the first."""
    return int(raw(db).execute("SELECT ifnull(max(seq), 0) FROM events").fetchone()[0])


def unfinished(db: SqliteDatabase) -> tuple[tuple[Attempt, ...], tuple[OperationRecord, ...]]:
    running = _all(db, Attempt, "WHERE state = ? ORDER BY row", AttemptState.RUNNING.value)
    between = (OperationState.INTENT_COMMITTED.value, OperationState.DISPATCHED.value)
    return running, _all(db, OperationRecord, "WHERE state IN (?, ?) ORDER BY row", *between)


def page_sessions(db: SqliteDatabase, *, limit: int, before: str = "") -> tuple[Session, ...]:
    """The newest sessions, or those created before one of them; nothing when that one is not there."""
    return _page(db, Session, limit, before)


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


def left_changed(db: SqliteDatabase, attempt_id: str, head: str) -> frozenset[str] | None:
    """Paths that other attempts left changed; None when one that began at this HEAD has not told what it left."""
    if raw(db).execute(_UNTOLD, (attempt_id, head)).fetchone()[0]:
        return None
    return frozenset(str(row[0]) for row in raw(db).execute(_LEFT, (attempt_id,)))


def _first_row(db: SqliteDatabase, statement: str, key: str) -> Any:
    return raw(db).execute(statement, (key,)).fetchone()


def page_tasks(db: SqliteDatabase, *, limit: int, before: str = "", session_id: str = "") -> tuple[Task, ...]:
    """The newest tasks (of a session), or those created before one of them."""
    return _page(db, Task, limit, before, {"session_id": session_id} if session_id else {})


def _page(
    db: SqliteDatabase, record_type: type[R], limit: int, before: str, where: Mapping[str, str] = {}
) -> tuple[R, ...]:
    conditions = [f"{column} = ?" for column in where]
    values: list[object] = list(where.values())
    if before:
        conditions.append(f"row < (SELECT row FROM {TABLES[record_type].name} WHERE id = ?)")
        values.append(before)
    chosen = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    return _all(db, record_type, f"{chosen} ORDER BY row DESC LIMIT ?", *values, limit)


def session_by_prefix(db: SqliteDatabase, prefix: str) -> tuple[Session, ...]:
    return _prefixed(db, Session, prefix)


def task_by_prefix(db: SqliteDatabase, prefix: str) -> tuple[Task, ...]:
    return _prefixed(db, Task, prefix)


def _prefixed(db: SqliteDatabase, record_type: type[R], prefix: str) -> tuple[R, ...]:
    """Ids that begin with the prefix, newest first. A range, so that the index of ids answers it."""
    clauses = "WHERE id >= ? AND id < ? ORDER BY row DESC LIMIT ?"
    return _all(db, record_type, clauses, prefix, f"{prefix}\U0010ffff", PREFIX_MATCHES)


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
