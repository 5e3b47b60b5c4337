"""The store's file, its connections, and what its failures mean.

One file, `.fluzodrive/state.sqlite3`, private to its owner. No connection is handed out before the PRAGMAs in
effect were read back, a store appears under its name only when it is complete, and a damaged or foreign file
is never opened for writing, replaced or repaired. Every failure of SQLite becomes one StorageError here.
"""

import errno
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from peewee import PeeweeException, SqliteDatabase

from fluzo.core.errors import StorageError
from fluzo.core.named import NamedTuple
from fluzo.storage import migrations
from fluzo.storage.migrations import MIGRATIONS, Migration

DATABASE = "state.sqlite3"
ARTIFACTS = "artifacts"
STORE = f".fluzodrive/{DATABASE}"
BUSY_SECONDS = 5
APPLICATION_ID = 0x466C757A  # "Fluz", in the header field that SQLite reserves for telling file types apart.
QUICK_CHECK_BYTES = 4 * 1024 * 1024
"""A store up to this size is checked page by page on opening (about 0.6 ms a MiB); a larger one by `fluzo doctor`."""

NewId = Callable[[str], str]
Now = Callable[[], str]

_WRITER = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "trusted_schema": 0}
_READER = {"query_only": 1, "trusted_schema": 0}
# Without a write-ahead log: SQLite ignores that a full disk keeps it from moving one into the file when it closes, and
# the file would get its name without its content.
_CREATOR = {**_WRITER, "journal_mode": "delete"}


class Project(NamedTuple):
    """The repository's own identity; it stays the same for as long as the store exists."""

    id: str
    created_at: str


# --- failures -------------------------------------------------------------------------------------------------


@contextmanager
def translated() -> Iterator[None]:
    """Turn what SQLite, Peewee or the file system raise into a StorageError."""
    try:
        yield
    except (sqlite3.Error, PeeweeException, OSError) as exc:
        raise storage_error(exc) from exc


def storage_error(exc: Exception) -> StorageError:
    """The StorageError of a foreign exception: what happened, what it means for the work, what to do."""
    cause = getattr(exc, "orig", exc)  # Peewee keeps SQLite's own exception, which has the code, beside its own.
    if isinstance(cause, OSError):
        return _os_error(cause)
    # The low byte is the primary result code (https://www.sqlite.org/rescode.html).
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    detail = {"sqlite": getattr(cause, "sqlite_errorname", type(cause).__name__), "reason": str(cause)}
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StorageError(
            f"{STORE} stayed locked by another process for {BUSY_SECONDS} seconds; nothing was written.",
            code="storage_busy",
            hint="End the other Fluzo in this repository, or wait for it, then repeat.",
            detail=detail,
            retry="safe",
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "decode to UTF-8" in str(cause):
        return damaged(f"SQLite reports: {cause}", detail)
    # SQLite's shared memory is a file, too; that it cannot grow is how a full disk shows first.
    if code == sqlite3.SQLITE_FULL or detail["sqlite"] == "SQLITE_IOERR_SHMSIZE":
        return _disk_full(detail)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StorageError(
            f"{STORE} cannot be written: the disk is read-only or the permissions do not allow it.",
            hint="Make .fluzodrive writable for your user, then repeat.",
            detail=detail,
        )
    return StorageError(
        f"{STORE} refused a write or a read ({detail['sqlite']}: {cause}); nothing of this step was recorded.",
        hint="Check the disk, then run: fluzo doctor",
        detail=detail,
    )


def _os_error(exc: OSError) -> StorageError:
    name = errno.errorcode.get(exc.errno or 0, type(exc).__name__)
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return _disk_full({"errno": name})
    return StorageError(
        f"The private store .fluzodrive cannot be used: {exc.strerror or name}.",
        hint="Check the permissions and the disk of .fluzodrive, then repeat.",
        detail={"errno": name},
    )


def _disk_full(detail: Mapping[str, object]) -> StorageError:
    return StorageError(
        "The disk that holds .fluzodrive is full; nothing of this step was recorded.",
        hint="Free some space, then resume.",
        detail=detail,
    )


def damaged(what: str, detail: Mapping[str, object] | None = None) -> StorageError:
    return StorageError(
        f"{STORE} is damaged; it was left as it is. {what}",
        code="store_damaged",
        hint="Nothing is recorded until this is settled. Run: fluzo doctor",
        detail=detail,
    )


def _unprotected(name: str, why: str) -> StorageError:
    return StorageError(
        f"{name} {why}; it is not used as a private store.",
        code="storage_unprotected",
        hint=f"Look at what {name} is, move it away yourself, then repeat.",
    )


# --- files ----------------------------------------------------------------------------------------------------


def check_private(path: Path, name: str, *, directory: bool) -> os.stat_result:
    """The path's own status. Refuses a link, another kind of file, another owner's file."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise _unprotected(name, "is a symbolic link")
    if not (stat.S_ISDIR if directory else stat.S_ISREG)(status.st_mode):
        raise _unprotected(name, "is not a directory" if directory else "is not a regular file")
    if os.geteuid() not in (status.st_uid, 0):
        raise _unprotected(name, "belongs to another user")
    return status


def make_private_directory(path: Path, name: str) -> None:
    """Create the directory, or take an own one, with mode 0700 whatever the umask is."""
    try:
        path.mkdir(0o700)
    except FileExistsError:
        pass
    else:
        path.chmod(0o700)
        sync_directory(path.parent)
    if stat.S_IMODE(check_private(path, name, directory=True).st_mode) & 0o077:
        path.chmod(0o700)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable (fsync(2): syncing a file does not sync its directory entry)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- connections ----------------------------------------------------------------------------------------------


def raw(db: SqliteDatabase) -> sqlite3.Connection:
    """The connection under a Peewee database, for prepared statements."""
    connection: sqlite3.Connection = db.connection()  # type: ignore[no-untyped-call]  # Peewee's stub lacks the type.
    return connection


def _connect(path: Path, pragmas: Mapping[str, object], query: str = "mode=rw") -> SqliteDatabase:
    """A connection whose PRAGMAs are in effect. It never creates the file (`mode=rw`)."""
    db = SqliteDatabase(
        f"{path.absolute().as_uri()}?{query}",
        pragmas=dict(pragmas),
        timeout=BUSY_SECONDS,
        uri=True,
        thread_safe=False,
        check_same_thread=False,
    )
    try:
        db.connect()
        for name, wanted in pragmas.items():
            actual = db.pragma(name)
            if actual != wanted:
                raise StorageError(
                    f"{STORE} cannot be opened safely: PRAGMA {name} is {actual}, not {wanted}; nothing was started.",
                    hint="Keep the repository on a local disk that supports SQLite's write-ahead log.",
                    detail={"pragma": name, "actual": str(actual)},
                )
    except BaseException:
        db.close()
        raise
    return db


def open_writer(
    drive: Path, *, new_id: NewId, now: Now, steps: Sequence[Migration] = MIGRATIONS
) -> tuple[SqliteDatabase, Project]:
    """The one connection that writes, on a store that exists, is private, sound and of this version.

    Raises StorageError: storage_unprotected, store_damaged, schema_too_new, storage_busy or storage_failed.
    """
    with translated():
        make_private_directory(drive, drive.name)
        make_private_directory(drive / ARTIFACTS, f"{drive.name}/{ARTIFACTS}")
        path = drive / DATABASE
        if not os.path.lexists(path):
            _create(path, new_id=new_id, now=now, steps=steps)
        size = _check_file(path, repair=True)
        db = _connect(path, _WRITER)
        try:
            if size <= QUICK_CHECK_BYTES:
                _quick_check(db)
            if _check_version(db, len(steps)) < len(steps):
                migrations.back_up(raw(db), path)
                migrations.upgrade(raw(db), steps)
            return db, read_project(db)
        except BaseException:
            db.close()
            raise


def open_reader(drive: Path, *, as_found: bool = False) -> SqliteDatabase:
    """A connection that cannot write, on an existing store; a missing one reads as an empty store in memory.

    The last one to leave moves a log that a killed writer left into the file, which changes nothing of what is stored;
    `as_found` leaves it where it is.
    """
    with translated():
        path = drive / DATABASE
        try:
            check_private(drive, drive.name, directory=True)
            _check_file(path, repair=False)
        except FileNotFoundError:
            return _empty()
        try:
            # Where there is no log, one that may only read would leave an empty one behind.
            kept = as_found and os.path.lexists(f"{path}-wal")
            return _admit_reader(_connect(path, _READER, "mode=ro" if kept else "mode=rw"))
        except (sqlite3.Error, PeeweeException) as exc:
            # On a read-only disk SQLite cannot make the shared memory that the log needs. Without a log
            # nobody writes there either, and the file alone is the whole store.
            if storage_error(exc).code != "storage_failed" or os.path.lexists(f"{path}-wal"):
                raise
            return _admit_reader(_connect(path, _READER, "mode=ro&immutable=1"))


def _admit_reader(db: SqliteDatabase) -> SqliteDatabase:
    try:
        found = _check_version(db, len(MIGRATIONS))
        if found < len(MIGRATIONS):
            raise StorageError(
                f"{STORE} has schema {found} and is read with schema {len(MIGRATIONS)}.",
                hint="Start a task once: it upgrades the store and keeps a backup.",
            )
    except BaseException:
        db.close()
        raise
    return db


def _empty() -> SqliteDatabase:
    db = SqliteDatabase(":memory:", thread_safe=False, check_same_thread=False)
    db.connect()
    migrations.upgrade(raw(db))
    db.pragma("query_only", 1)
    return db


def read_project(db: SqliteDatabase) -> Project:
    """The store's project; empty for a view of a store that is not there."""
    row = raw(db).execute("SELECT id, created_at FROM projects").fetchone()
    return Project(*row) if row else Project("", "")


def _create(path: Path, *, new_id: NewId, now: Now, steps: Sequence[Migration]) -> None:
    """Build a store under another name and give it its own when it is complete.

    An interrupted creation thus never leaves an empty file that looks like a store that lost its content.
    """
    staged = path.with_name(f"{path.name}.new-{os.urandom(8).hex()}")
    os.close(os.open(staged, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        staged.chmod(0o600)
        db = _connect(staged, _CREATOR)
        try:
            connection = raw(db)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            migrations.upgrade(connection, steps)
            connection.execute("INSERT INTO projects (id, created_at) VALUES (?, ?)", (new_id("p"), now()))
        finally:
            db.close()
        _publish(staged, path)
    finally:
        staged.unlink(missing_ok=True)
        staged.with_name(f"{staged.name}-journal").unlink(missing_ok=True)
    sync_directory(path.parent)


def _publish(staged: Path, path: Path) -> None:
    try:
        path.hardlink_to(staged)
    except FileExistsError:
        return  # Another process made the store meanwhile; that one counts.
    except OSError:
        # A file system without hard links.
        if not os.path.lexists(path):
            staged.rename(path)


def sweep(drive: Path, *, before: float) -> tuple[str, ...]:
    """Remove stores whose creation was interrupted before the given time; returns their names."""
    removed = []
    for path in sorted(drive.glob(f"{DATABASE}.new-*")):
        with suppress(FileNotFoundError):  # Another sweep was there first.
            if path.lstat().st_mtime < before:
                path.unlink()
                removed.append(path.name)
    return tuple(removed)


def _check_file(path: Path, *, repair: bool) -> int:
    """Size of a store's file that may be opened; its length alone shows one that was emptied or cut off."""
    status = check_private(path, f"{path.parent.name}/{path.name}", directory=False)
    if status.st_size < 512:  # The smallest page SQLite knows; a store has many.
        raise damaged(f"It is only {status.st_size} bytes long.")
    if repair and stat.S_IMODE(status.st_mode) & 0o077:
        path.chmod(0o600)
    return status.st_size


def _check_version(db: SqliteDatabase, known: int) -> int:
    if db.pragma("application_id") != APPLICATION_ID:
        raise damaged("It is a database, but not one that Fluzo made.")
    found = migrations.schema_version(raw(db))
    if found > known:
        raise StorageError(
            f"{STORE} has schema {found}, written by a newer Fluzo; this one knows {known}. Nothing was changed.",
            code="schema_too_new",
            hint="Update Fluzo, then repeat.",
            detail={"found": found, "known": known},
        )
    return found


def _quick_check(db: SqliteDatabase) -> None:
    problem = raw(db).execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise damaged(f"SQLite reports: {problem.splitlines()[-1]}")
