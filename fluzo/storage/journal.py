"""The store as the runtime sees it: state and its events in one commit, intents, outcomes, pages.

One thread writes, through one connection, one transaction a call; an acknowledgement means that SQLite has the
commit on disk. Readers have connections of their own and never hold a snapshot between two calls. A task may
only take the steps that `core.records` allows, and an operation reaches `intent_committed` by `commit_intent`
alone.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from peewee import PeeweeException, SqliteDatabase

from fluzo.core.contracts import Draft, SessionSummary
from fluzo.core.errors import StorageError
from fluzo.core.events import Event
from fluzo.core.records import (
    Artifact,
    Attempt,
    Grant,
    OperationRecord,
    OperationState,
    Record,
    Session,
    StoredMessage,
    Task,
)
from fluzo.storage import artifacts, database, queries, writes
from fluzo.storage.database import ARTIFACTS, DATABASE, STORE, NewId, Now, Project, raw, storage_error, translated
from fluzo.storage.writer import WriterThread

T = TypeVar("T")

_READERS = 2
_FAILURES = (sqlite3.Error, PeeweeException, OSError, StorageError)
_OUTCOMES = frozenset({OperationState.KNOWN_RESULT, OperationState.UNKNOWN, OperationState.REFUSED})


class Journal:
    """`core.contracts.Storage` on SQLite. Every method may be called from any event loop.

    A cancelled write still ends as a whole before the cancellation goes on: what it committed stays
    committed, and whoever needs to know asks the store.
    """

    def __init__(self, drive: Path, *, new_id: NewId, now: Now, read_only: bool = False) -> None:
        """Use `open`; a journal is not usable before its connections are."""
        self._drive = drive
        self._path = str(drive / DATABASE)
        self._new_id = new_id
        self._now = now
        self._read_only = read_only
        # Times of files come from a clock that is some milliseconds behind.
        self._opened_at = time.time() - 1.0
        with translated():
            self._writer = WriterThread("fluzo-journal")
        self._readers = ThreadPoolExecutor(_READERS, "fluzo-reader")
        self._idle: list[SqliteDatabase] = []
        self._db: SqliteDatabase | None = None
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] = (0, 0)
        self._project = Project("", "")
        self._staging: set[str] = set()
        self._damage: StorageError | None = None

    @classmethod
    async def open(cls, drive: Path, *, new_id: NewId, now: Now, read_only: bool = False) -> "Journal":
        """Open (or, unless read-only, create) the store in this directory, and verify it.

        A read-only journal creates nothing; where there is no store it is empty. Raises StorageError:
        storage_unprotected, store_damaged, schema_too_new, storage_busy or storage_failed.
        """
        journal = cls(drive, new_id=new_id, now=now, read_only=read_only)
        try:
            await journal._writer.run(journal._start)
        except BaseException:
            await journal.close()
            raise
        return journal

    def _start(self) -> None:
        if self._read_only:
            reader = database.open_reader(self._drive)
            self._idle.append(reader)
            with translated():
                self._project = database.read_project(reader)
            return
        self._db, self._project = database.open_writer(self._drive, new_id=self._new_id, now=self._now)
        self._connection = raw(self._db)
        with translated():
            status = os.lstat(self._path)
        self._identity = (status.st_dev, status.st_ino)

    async def close(self) -> None:
        """Finish what was called, then close every connection. A second call does nothing."""
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._stop))

    def _stop(self) -> None:
        self._readers.shutdown()
        self._writer.stop()
        with translated():
            while self._idle:
                self._idle.pop().close()
            # Last, so that SQLite moves the log into the file and removes it.
            if self._db is not None:
                self._db.close()
                self._db = self._connection = None

    def project(self) -> Project:
        """Identity of this repository's store; empty ids where a read-only journal found none."""
        return self._project

    # --- writing ----------------------------------------------------------------------------------------------

    async def commit(self, *records: Record, events: Sequence[Draft] = ()) -> tuple[Event, ...]:
        """Write the records and append the events, all or nothing.

        Raises StorageError, and ValueError for a step that the record's state does not allow.
        """

        def apply(connection: sqlite3.Connection) -> tuple[Event, ...]:
            for record in records:
                writes.put(connection, record)
            return writes.append(connection, events, self._now)

        return await self._write(apply)

    async def commit_intent(
        self, operation: OperationRecord, *, grant: Grant | None = None, events: Sequence[Draft] = ()
    ) -> tuple[Event, ...]:
        """Commit the durable intent of an authorized operation, and the use of its grant, or neither.

        An operation that was never committed, or only as requested, passes through the states before in this
        same transaction. Raises PermissionRequired when the grant can no longer be used, StorageError, and
        ValueError for an operation that already went further.
        """

        def apply(connection: sqlite3.Connection) -> tuple[Event, ...]:
            if grant is not None:
                writes.use_grant(connection, grant.id, self._now)
            writes.put_intent(connection, operation)
            return writes.append(connection, events, self._now)

        return await self._write(apply)

    async def commit_outcome(
        self, operation: OperationRecord, *records: Record, events: Sequence[Draft] = ()
    ) -> tuple[Event, ...]:
        """Commit how an operation ended, with whatever changed by it. Raises as `commit` does."""
        if operation.state not in _OUTCOMES:
            raise ValueError(f"an outcome is not {operation.state}")
        return await self.commit(operation, *records, events=events)

    async def _write(self, apply: Callable[[sqlite3.Connection], T]) -> T:
        return await self._writer.run(partial(self._transact, apply))

    def _transact(self, apply: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._admit_write()
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = apply(connection)
                connection.execute("COMMIT")
            except BaseException:
                # SQLite ends the transaction itself after some errors, a full disk among them.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result
        except _FAILURES as exc:
            self._fail(exc)

    def _admit_write(self) -> sqlite3.Connection:
        """The writer's connection, while there is reason to trust what it says."""
        if self._connection is None:
            raise StorageError(f"{STORE} was opened for reading only; nothing was written.")
        if self._damage is not None:
            raise self._damage
        try:
            status = os.lstat(self._path)
        except OSError:
            status = None
        # SQLite would go on writing to a file that has lost its name, and acknowledge what nobody can find.
        if status is None or (status.st_dev, status.st_ino) != self._identity:
            raise StorageError(
                f"{STORE} was moved, replaced or deleted while in use; nothing of this step was recorded.",
                hint="Put it back if you still have it, then start Fluzo again.",
            )
        return self._connection

    # --- artifacts --------------------------------------------------------------------------------------------

    async def store_artifact(self, task_id: str, kind: str, data: bytes, *, truncated: bool = False) -> Artifact:
        """Make the content durable, then commit the record that refers to it. Raises StorageError."""
        await self._writer.run(self._admit_write)
        artifact_id = self._new_id("a")
        self._staging.add(artifact_id)
        try:
            digest = await self._off(lambda: self._stage(artifact_id, data))
            record = Artifact(artifact_id, task_id, kind, len(data), digest, self._now(), truncated)
            await self.commit(record)
        finally:
            self._staging.discard(artifact_id)
        return record

    def _stage(self, artifact_id: str, data: bytes) -> str:
        with translated():
            artifacts.store(self._drive / ARTIFACTS, artifact_id, data)
        return artifacts.digest_of(data)

    async def read_artifact(self, artifact_id: str) -> bytes:
        """The content as it was stored. Raises StorageError: not_found, or store_damaged when it is not."""
        record = None
        if artifacts.is_artifact_id(artifact_id):
            record = await self._read(lambda db: queries.artifact(db, artifact_id))
        if record is None:
            raise StorageError("There is no artifact with this id.", code="not_found")
        return await self._off(lambda: self._load(record))

    def _load(self, record: Artifact) -> bytes:
        # Unlike damage to the database, a lost artifact does not stop the work: it is about that artifact alone.
        with translated():
            return artifacts.load(self._drive / ARTIFACTS, record)

    async def sweep(self) -> tuple[str, ...]:
        """Remove files that an interrupted write left behind before this journal opened; returns their names."""
        await self._writer.run(self._admit_write)

        def clean(db: SqliteDatabase) -> tuple[str, ...]:
            # Those under way first: one that gets its record between the two looks is then in the second.
            staging = self._staging.copy()
            keep = {*staging, *(name + artifacts.STAGED for name in staging), *queries.artifact_ids(db)}
            removed = artifacts.sweep(self._drive / ARTIFACTS, keep, before=self._opened_at)
            return removed + database.sweep(self._drive, before=self._opened_at)

        return await self._read(clean)

    # --- reading ----------------------------------------------------------------------------------------------

    async def session(self, session_id: str) -> Session | None:
        return await self._read(lambda db: queries.session(db, session_id))

    async def task(self, task_id: str) -> Task | None:
        return await self._read(lambda db: queries.task(db, task_id))

    async def task_by_request(self, request_id: str) -> Task | None:
        return await self._read(lambda db: queries.task_by_request(db, request_id))

    async def attempts(self, task_id: str) -> tuple[Attempt, ...]:
        return await self._read(lambda db: queries.attempts(db, task_id))

    async def operations(self, task_id: str) -> tuple[OperationRecord, ...]:
        return await self._read(lambda db: queries.operations(db, task_id))

    async def grants(self, task_id: str) -> tuple[Grant, ...]:
        return await self._read(lambda db: queries.grants(db, task_id))

    async def messages(self, session_id: str) -> tuple[StoredMessage, ...]:
        return await self._read(lambda db: queries.messages(db, session_id))

    async def message_page(self, session_id: str, *, limit: int, before_position: int = 0) -> tuple[StoredMessage, ...]:
        return await self._read(
            lambda db: queries.message_page(db, session_id, limit=limit, before_position=before_position)
        )

    async def events_after(self, seq: int, *, task_id: str = "", limit: int = 1000) -> tuple[Event, ...]:
        return await self._read(lambda db: queries.events_after(db, seq, task_id=task_id, limit=limit))

    async def last_seq(self) -> int:
        """Number of the last event committed, 0 before the first."""
        return await self._read(queries.last_seq)

    async def unfinished(self) -> tuple[tuple[Attempt, ...], tuple[OperationRecord, ...]]:
        return await self._read(queries.unfinished)

    async def page_sessions(self, *, limit: int, before: str = "") -> tuple[Session, ...]:
        return await self._read(lambda db: queries.page_sessions(db, limit=limit, before=before))

    async def summaries(self, session_ids: Sequence[str]) -> tuple[SessionSummary, ...]:
        return await self._read(lambda db: tuple(queries.summary(db, session_id) for session_id in session_ids))

    async def left_changed(self, attempt_id: str, head: str) -> frozenset[str] | None:
        """Paths that other attempts left changed; None when one ended without a word of it since this HEAD."""
        return await self._read(lambda db: queries.left_changed(db, attempt_id, head))

    async def page_tasks(self, *, limit: int, before: str = "", session_id: str = "") -> tuple[Task, ...]:
        return await self._read(lambda db: queries.page_tasks(db, limit=limit, before=before, session_id=session_id))

    async def session_by_prefix(self, prefix: str) -> tuple[Session, ...]:
        """Sessions whose id begins so, newest first, at most PREFIX_MATCHES."""
        return await self._read(lambda db: queries.session_by_prefix(db, prefix))

    async def task_by_prefix(self, prefix: str) -> tuple[Task, ...]:
        """Tasks whose id begins so, newest first, at most PREFIX_MATCHES."""
        return await self._read(lambda db: queries.task_by_prefix(db, prefix))

    async def usage_bytes(self) -> Mapping[str, int]:
        """`database_bytes`, `wal_bytes`, `artifact_bytes`, `total_bytes`, and the number of `sessions`, `tasks`
        and `events`."""
        return await self._read(lambda db: queries.usage(db, self._drive))

    async def problems(self) -> tuple[str, ...]:
        """What SQLite finds wrong in the whole file, empty for a sound store; reads every page."""
        return await self._read(queries.problems)

    async def _read(self, query: Callable[[SqliteDatabase], T]) -> T:
        return await self._off(lambda: self._snapshot(query))

    def _snapshot(self, query: Callable[[SqliteDatabase], T]) -> T:
        """Run a query on one consistent view of the store."""
        with self._guarded():
            try:
                db = self._idle.pop()
            except IndexError:
                db = database.open_reader(self._drive)
            try:
                raw(db).execute("BEGIN")
                try:
                    return query(db)
                finally:
                    raw(db).execute("ROLLBACK")
            finally:
                self._idle.append(db)

    # --- running ----------------------------------------------------------------------------------------------

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except _FAILURES as exc:
            self._fail(exc)

    def _fail(self, exc: Exception) -> NoReturn:
        """Raise what a failure means, and remember damage: a store that is damaged somewhere takes no more work."""
        error = exc if isinstance(exc, StorageError) else storage_error(exc)
        if error.code == "store_damaged":
            self._damage = error
        if error is exc:
            raise exc
        raise error from exc

    async def _off(self, work: Callable[[], T]) -> T:
        """Run blocking work that does not write to the database."""
        future = asyncio.get_running_loop().run_in_executor(self._readers, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise
