import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.store import a_message, created, journal_at, new_id, now, seed

from fluzo.core.errors import StorageError
from fluzo.core.records import Message
from fluzo.storage import database
from fluzo.storage.database import BUSY_SECONDS, open_reader, open_writer, raw, storage_error
from fluzo.storage.rows import TABLES


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    return tmp_path / ".fluzodrive"


CHILD = Path(__file__).resolve().parents[1] / "support" / "journal_child.py"


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def fill(drive: Path, messages: int = 60) -> Path:
    """A store with some content, closed; returns its file."""

    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            texts = (a_message(number, Message("user", "x" * 3000)) for number in range(1, messages + 1))
            await journal.commit(*texts, events=[created()])

    asyncio.run(scenario())
    return drive / "state.sqlite3"


def opening_fails_with(drive: Path, code: str) -> StorageError:
    async def scenario() -> None:
        async with journal_at(drive):
            pass

    with pytest.raises(StorageError) as failed:
        asyncio.run(scenario())
    assert failed.value.code == code
    return failed.value


@pytest.mark.parametrize("round_number", [1, 2])
def test_the_writer_has_its_pragmas_in_effect_on_a_new_and_on_a_reopened_store(drive: Path, round_number: int) -> None:
    for _ in range(round_number):
        db, _ = open_writer(drive, new_id=new_id, now=now)
        try:
            wanted = {
                "journal_mode": "wal",
                "synchronous": 2,
                "foreign_keys": 1,
                "trusted_schema": 0,
                "busy_timeout": BUSY_SECONDS * 1000,
                "query_only": 0,
            }
            assert {name: pragma(raw(db), name) for name in wanted} == wanted
        finally:
            db.close()


def test_a_reader_cannot_write(drive: Path) -> None:
    fill(drive)
    db = open_reader(drive)
    try:
        assert pragma(raw(db), "query_only") == 1
        assert pragma(raw(db), "busy_timeout") == BUSY_SECONDS * 1000
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            raw(db).execute("DELETE FROM tasks")
    finally:
        db.close()


def test_a_mode_that_cannot_be_had_is_refused(drive: Path) -> None:
    path = fill(drive)
    with pytest.raises(StorageError, match="PRAGMA foreign_keys is 1, not 2") as failed:
        database._connect(path, {"foreign_keys": 2})
    assert failed.value.code == "storage_failed"


def test_every_model_names_the_columns_of_its_table(drive: Path) -> None:
    fill(drive)
    db = open_reader(drive)
    try:
        for table in TABLES.values():
            name = table.model._meta.table_name
            columns = {row[1] for row in raw(db).execute(f"PRAGMA table_info({name})")}
            assert columns == {"row", *(field.column_name for field in table.columns)}
        spec = "projects sessions messages tasks attempts operations permission_grants provider_requests"
        spec += " config_snapshots artifacts observations events"
        made = {row[0] for row in raw(db).execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}
        assert made == set(spec.split())
        for name in sorted(made):
            raw(db).execute(f"SELECT * FROM {name} LIMIT 1").fetchall()
    finally:
        db.close()


def test_the_pages_are_answered_by_an_index(drive: Path) -> None:
    fill(drive)
    db = open_reader(drive)
    queries = (
        "SELECT * FROM events WHERE seq > 5 AND task_id = 't' ORDER BY seq LIMIT 5",
        "SELECT * FROM operations WHERE state IN ('intent_committed', 'dispatched') ORDER BY row",
        "SELECT * FROM operations WHERE task_id = 't' ORDER BY row",
        "SELECT * FROM attempts WHERE state = 'running' ORDER BY row",
        "SELECT * FROM messages WHERE session_id = 's' AND position < 9 ORDER BY position DESC LIMIT 5",
        "SELECT * FROM tasks WHERE session_id = 's' AND row < 5 ORDER BY row DESC LIMIT 5",
        "SELECT * FROM tasks WHERE request_id = 'r' AND request_id != '' LIMIT 1",
    )
    try:
        for query in queries:
            plan = " ".join(row[3] for row in raw(db).execute(f"EXPLAIN QUERY PLAN {query}"))
            assert "USING" in plan, query
            assert "TEMP B-TREE" not in plan, query
    finally:
        db.close()


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_files_are_private_whatever_the_umask_is(drive: Path, umask: int) -> None:
    async def scenario() -> dict[str, int]:
        async with journal_at(drive) as journal:
            await seed(journal)
            await journal.store_artifact("t_1", "output", b"x")
            return {str(path.relative_to(drive.parent)): path.lstat().st_mode for path in drive.parent.rglob("*")}

    before = os.umask(umask)
    try:
        modes = asyncio.run(scenario())
    finally:
        os.umask(before)
    assert {".fluzodrive/state.sqlite3-wal", ".fluzodrive/state.sqlite3-shm"} < set(modes)
    for name, mode in modes.items():
        assert stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600), name


def test_modes_that_were_loosened_are_tightened_on_opening(drive: Path) -> None:
    path = fill(drive)
    for loosened, mode in ((path, 0o644), (drive, 0o755), (drive / "artifacts", 0o755)):
        loosened.chmod(mode)
    fill_again = open_writer(drive, new_id=new_id, now=now)[0]
    fill_again.close()
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, drive, drive / "artifacts")] == [0o600, 0o700, 0o700]


def _link_drive(drive: Path) -> None:
    drive.rename(drive.parent / "elsewhere")
    drive.symlink_to(drive.parent / "elsewhere", target_is_directory=True)


def _link_database(drive: Path) -> None:
    (drive / "state.sqlite3").rename(drive.parent / "elsewhere")
    (drive / "state.sqlite3").symlink_to(drive.parent / "elsewhere")


def _dangling_database(drive: Path) -> None:
    (drive / "state.sqlite3").unlink()
    (drive / "state.sqlite3").symlink_to(drive.parent / "nowhere")


def _link_artifacts(drive: Path) -> None:
    (drive / "artifacts").rmdir()
    (drive / "artifacts").symlink_to(drive.parent, target_is_directory=True)


def _pipe_database(drive: Path) -> None:
    (drive / "state.sqlite3").unlink()
    os.mkfifo(drive / "state.sqlite3")


def _file_drive(drive: Path) -> None:
    drive.rename(drive.parent / "elsewhere")
    drive.write_text("a file")


@pytest.mark.parametrize(
    "spoil", [_link_drive, _link_database, _dangling_database, _link_artifacts, _pipe_database, _file_drive]
)
def test_a_store_that_is_a_link_or_not_what_it_should_be_is_refused(drive: Path, spoil: Callable[[Path], None]) -> None:
    fill(drive)
    spoil(drive)
    before = sorted(str(path) for path in drive.parent.rglob("*"))
    error = opening_fails_with(drive, "storage_unprotected")
    assert ".fluzodrive" in error.message
    assert error.hint
    assert sorted(str(path) for path in drive.parent.rglob("*")) == before
    if spoil is not _link_artifacts:
        with pytest.raises(StorageError) as failed:
            open_reader(drive)
        assert failed.value.code == "storage_unprotected"


def _overwrite_middle(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 4096)


def _overwrite_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"not a database at all")


def _truncate(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


@pytest.mark.parametrize(
    "damage", [_overwrite_middle, _overwrite_header, _truncate(0), _truncate(100), _truncate(9 * 4096)]
)
def test_a_damaged_store_is_refused_and_left_as_it_is(drive: Path, damage: Callable[[Path], None]) -> None:
    path = fill(drive)
    damage(path)
    before = path.read_bytes()
    names = sorted(entry.name for entry in drive.iterdir())
    error = opening_fails_with(drive, "store_damaged")
    assert ".fluzodrive/state.sqlite3 is damaged" in error.message
    assert "fluzo doctor" in error.hint
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in drive.iterdir()) == names


def test_damage_that_shows_later_stops_all_further_writes(drive: Path) -> None:
    path = fill(drive, messages=1500)
    assert path.stat().st_size > database.QUICK_CHECK_BYTES
    with path.open("r+b") as file:
        for page in range(300, 700):
            file.seek(page * 4096)
            file.write(b"\xa5" * 4096)

    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await journal.commit(events=[created()])
            with pytest.raises(StorageError) as failed:
                await journal.messages("s_1")
            assert failed.value.code == "store_damaged"
            with pytest.raises(StorageError) as failed:
                await journal.commit(events=[created()])
            assert failed.value.code == "store_damaged"
            assert await journal.last_seq() == 2
            assert await journal.problems() != ()

    asyncio.run(scenario())


@pytest.mark.parametrize("garbage", ["'{'", "'[]'", "x'ff00'", '\'{"max_turns": 1, "unknown": 2}\''])
def test_a_row_with_garbage_in_it_is_damage(drive: Path, garbage: str) -> None:
    path = fill(drive)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"UPDATE tasks SET limits = {garbage}")
    connection.close()

    async def scenario() -> None:
        async with journal_at(drive) as journal:
            with pytest.raises(StorageError) as failed:
                await journal.task("t_1")
            assert failed.value.code == "store_damaged"

    asyncio.run(scenario())


def test_a_database_of_another_program_is_not_used(drive: Path) -> None:
    fill(drive)
    path = drive / "state.sqlite3"
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.commit()
    connection.close()
    assert "not one that Fluzo made" in opening_fails_with(drive, "store_damaged").message


def test_a_store_of_a_newer_program_is_refused_and_left_as_it_is(drive: Path) -> None:
    path = fill(drive)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    error = opening_fails_with(drive, "schema_too_new")
    assert "99" in error.message
    with pytest.raises(StorageError) as failed:
        open_reader(drive)
    assert failed.value.code == "schema_too_new"
    assert path.read_bytes() == before


def test_an_interrupted_creation_leaves_no_store(drive: Path) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_writer(drive, new_id=new_id, now=interrupted)
    assert [path.name for path in drive.iterdir()] == ["artifacts"]
    db, project = open_writer(drive, new_id=new_id, now=now)
    db.close()
    assert project.id


def test_a_store_that_another_process_made_first_is_taken(drive: Path) -> None:
    first: list[database.Project] = []

    def slow() -> str:
        if not first:
            first.append(database.Project("", ""))
            db, first[0] = open_writer(drive, new_id=new_id, now=now)
            db.close()
        return now()

    db, project = open_writer(drive, new_id=new_id, now=slow)
    db.close()
    assert project == first[0]
    assert sorted(path.name for path in drive.iterdir()) == ["artifacts", "state.sqlite3"]


def test_a_directory_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = opening_fails_with(tmp_path / "file" / ".fluzodrive", "storage_failed")
    assert str(tmp_path) not in error.message


def test_a_full_database_is_told_from_other_failures(drive: Path) -> None:
    fill(drive)
    db, _ = open_writer(drive, new_id=new_id, now=now)
    try:
        pages = pragma(raw(db), "page_count")
        raw(db).execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(sqlite3.Error) as full:
            raw(db).execute("INSERT INTO projects (id, created_at) VALUES (hex(randomblob(90000)), '')")
        error = storage_error(full.value)
        assert (error.code, "full" in error.message) == ("storage_failed", True)
    finally:
        db.close()


def test_a_store_on_a_read_only_disk_can_still_be_read() -> None:
    # Permissions do not stop root, so the reader is another process that gives root up; it must reach the place.
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o711)
        drive = Path(place) / ".fluzodrive"
        fill(drive)
        result = subprocess.run([sys.executable, CHILD, drive, "unprivileged"], capture_output=True, text=True)
        assert (result.returncode, result.stdout) == (0, "t_1\nstorage_failed\n"), result.stderr
        drive.chmod(0o700)
        assert sorted(path.name for path in drive.iterdir()) == ["artifacts", "state.sqlite3"]
