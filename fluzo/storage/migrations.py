"""Numbered schema steps and the upgrade that applies them.

Released steps are never edited: a change of the schema is a new function at the end of MIGRATIONS. The number
of applied steps is SQLite's `user_version`. An upgrade copies the whole store first (through SQLite's backup
interface, so that the write-ahead log is in the copy), then takes the missing steps in one transaction; a
failure leaves the store as it was.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

Migration = Callable[[sqlite3.Connection], None]


def m001_initial(db: sqlite3.Connection) -> None:
    """The tables of ARCH 9.2.

    `row` is the order of creation: it pages newest first whatever the clock did. Foreign keys are checked at the
    end of the transaction, so the records of one commit may come in any order. The last event cannot be deleted:
    a purge records itself first, and thus no number is ever given twice. Two of the spec's tables are views,
    because what they list is recorded already: a provider request is an operation that infers, a configuration
    snapshot belongs to its attempt.
    """
    for statement in _INITIAL:
        db.execute(statement)


_LATER = "DEFERRABLE INITIALLY DEFERRED"

_INITIAL = (
    """CREATE TABLE projects (
        row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, created_at TEXT NOT NULL)""",
    f"""CREATE TABLE sessions (
        row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
        project_id TEXT NOT NULL REFERENCES projects (id) {_LATER},
        title TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, yolo INTEGER NOT NULL,
        context TEXT NOT NULL)""",
    f"""CREATE TABLE tasks (
        row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
        session_id TEXT NOT NULL REFERENCES sessions (id) {_LATER},
        request_id TEXT NOT NULL, text TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
        created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
        workspace_root TEXT NOT NULL, workspace_identity TEXT NOT NULL,
        limits TEXT NOT NULL, verification TEXT NOT NULL, verification_waived INTEGER NOT NULL,
        consumption TEXT NOT NULL, final_message TEXT NOT NULL, result TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX tasks_request ON tasks (request_id) WHERE request_id != ''",
    "CREATE INDEX tasks_session ON tasks (session_id, row)",
    f"""CREATE TABLE attempts (
        row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
        task_id TEXT NOT NULL REFERENCES tasks (id) {_LATER},
        trace_id TEXT NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL,
        started_at TEXT NOT NULL, ended_at TEXT NOT NULL, reason TEXT NOT NULL,
        previous_id TEXT REFERENCES attempts (id) {_LATER},
        config TEXT NOT NULL, baseline TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX attempts_task ON attempts (task_id, number)",
    "CREATE INDEX attempts_running ON attempts (row) WHERE state = 'running'",
    f"""CREATE TABLE permission_grants (
        row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, issuer TEXT NOT NULL,
        task_id TEXT REFERENCES tasks (id) {_LATER},
        fingerprint TEXT NOT NULL, scope TEXT NOT NULL, granted_at TEXT NOT NULL,
        consumed_at TEXT NOT NULL, revoked_at TEXT NOT NULL, expired_at TEXT NOT NULL)""",
    "CREATE INDEX permission_grants_task ON permission_grants (task_id, row)",
    f"""CREATE TABLE artifacts (
        row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
        task_id TEXT REFERENCES tasks (id) {_LATER},
        kind TEXT NOT NULL, size_bytes INTEGER NOT NULL, digest TEXT NOT NULL, created_at TEXT NOT NULL,
        truncated INTEGER NOT NULL)""",
    "CREATE INDEX artifacts_task ON artifacts (task_id, row)",
    f"""CREATE TABLE operations (
        row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
        task_id TEXT NOT NULL REFERENCES tasks (id) {_LATER},
        attempt_id TEXT REFERENCES attempts (id) {_LATER},
        turn INTEGER NOT NULL, call_id TEXT NOT NULL, tool TEXT NOT NULL, action TEXT NOT NULL,
        effect TEXT NOT NULL, summary TEXT NOT NULL, scope TEXT NOT NULL, fingerprint TEXT NOT NULL,
        state TEXT NOT NULL, requested_at TEXT NOT NULL, ended_at TEXT NOT NULL, authorized_by TEXT NOT NULL,
        grant_id TEXT REFERENCES permission_grants (id) {_LATER},
        ok INTEGER, code TEXT NOT NULL, result TEXT NOT NULL,
        artifact_id TEXT REFERENCES artifacts (id) {_LATER})""",
    "CREATE INDEX operations_task ON operations (task_id, row)",
    "CREATE INDEX operations_open ON operations (row) WHERE state IN ('intent_committed', 'dispatched')",
    f"""CREATE TABLE messages (
        row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
        session_id TEXT NOT NULL REFERENCES sessions (id) {_LATER},
        task_id TEXT REFERENCES tasks (id) {_LATER},
        attempt_id TEXT REFERENCES attempts (id) {_LATER},
        turn INTEGER NOT NULL, position INTEGER NOT NULL, created_at TEXT NOT NULL,
        role TEXT NOT NULL, text TEXT NOT NULL, reasoning TEXT NOT NULL, tool_calls TEXT NOT NULL,
        tool_call_id TEXT NOT NULL, incomplete INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX messages_position ON messages (session_id, position)",
    f"""CREATE TABLE observations (
        row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
        task_id TEXT NOT NULL REFERENCES tasks (id) {_LATER},
        attempt_id TEXT REFERENCES attempts (id) {_LATER},
        operation_id TEXT REFERENCES operations (id) {_LATER},
        kind TEXT NOT NULL, at TEXT NOT NULL, data TEXT NOT NULL)""",
    "CREATE INDEX observations_task ON observations (task_id, row)",
    f"""CREATE TABLE events (
        seq INTEGER PRIMARY KEY, at TEXT NOT NULL, type TEXT NOT NULL,
        schema_version INTEGER NOT NULL,
        session_id TEXT REFERENCES sessions (id) {_LATER},
        task_id TEXT REFERENCES tasks (id) {_LATER},
        attempt_id TEXT REFERENCES attempts (id) {_LATER},
        operation_id TEXT REFERENCES operations (id) {_LATER},
        trace_id TEXT NOT NULL, causation_id TEXT NOT NULL, data TEXT NOT NULL)""",
    "CREATE INDEX events_task ON events (task_id, seq)",
    """CREATE TRIGGER events_keep_last BEFORE DELETE ON events WHEN old.seq = (SELECT max(seq) FROM events)
        BEGIN SELECT RAISE(ABORT, 'the last event stays, so that no number is given twice'); END""",
    """CREATE VIEW provider_requests AS
        SELECT id, task_id, attempt_id, turn, state, requested_at, ended_at, ok, code, result
        FROM operations WHERE action = 'infer'""",
    """CREATE VIEW config_snapshots AS
        SELECT id AS attempt_id, task_id, started_at AS taken_at, config FROM attempts""",
)

MIGRATIONS: tuple[Migration, ...] = (m001_initial,)


def schema_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def upgrade(db: sqlite3.Connection, steps: Sequence[Migration] = MIGRATIONS) -> None:
    """Take every step that this store has not seen, all in one transaction with the new version number."""
    done = schema_version(db)
    db.execute("BEGIN IMMEDIATE")
    try:
        for step in steps[done:]:
            step(db)
        db.execute(f"PRAGMA user_version = {len(steps)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def back_up(db: sqlite3.Connection, path: Path) -> Path:
    """A complete private copy of the store as it is now, named after its version; replaced if it was there.

    Raises OSError or sqlite3.Error, with no partial copy left behind.
    """
    target = path.with_name(f"{path.name}.backup-v{schema_version(db)}")
    staged = target.with_name(f"{target.name}.new")
    staged.unlink(missing_ok=True)
    os.close(os.open(staged, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        staged.chmod(0o600)
        copy = sqlite3.connect(staged, isolation_level=None)
        try:
            copy.execute("PRAGMA synchronous = FULL")
            db.backup(copy)
            # A copy in WAL mode would need its own log beside it; a backup is one file.
            copy.execute("PRAGMA journal_mode = DELETE")
        finally:
            copy.close()
        staged.replace(target)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    return target
