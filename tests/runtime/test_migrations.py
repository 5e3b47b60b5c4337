import hashlib
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.store import new_id, now

from fluzo.core.errors import StorageError
from fluzo.storage.database import Project, open_writer, raw
from fluzo.storage.migrations import MIGRATIONS, Migration, schema_version


def second(db: sqlite3.Connection) -> None:
    db.execute("ALTER TABLE projects ADD COLUMN name TEXT NOT NULL DEFAULT 'unnamed'")


def third(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE notes (text TEXT NOT NULL)")
    db.execute("INSERT INTO notes SELECT name FROM projects")


def broken(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE half_done (text TEXT NOT NULL)")
    db.execute("INSERT INTO nowhere VALUES (1)")


def interrupted(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE half_done (text TEXT NOT NULL)")
    raise KeyboardInterrupt


RELEASED = {1: "2450d2183a0d2fa9"}

LATER = (*MIGRATIONS, second, third)


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    return tmp_path / ".fluzodrive"


def opened(drive: Path, steps: Sequence[Migration]) -> tuple[int, Project, list[str]]:
    """Version, project and tables of the store after opening it with these steps."""
    db, project = open_writer(drive, new_id=new_id, now=now, steps=steps)
    try:
        return schema_version(raw(db)), project, tables(raw(db))
    finally:
        db.close()


def tables(db: sqlite3.Connection) -> list[str]:
    return sorted(row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))


def names(drive: Path) -> list[str]:
    return sorted(path.name for path in drive.iterdir())


def test_a_new_store_has_every_step_and_no_backup(drive: Path) -> None:
    version, _, found = opened(drive, LATER)
    assert version == len(LATER)
    assert "notes" in found
    assert names(drive) == ["artifacts", "state.sqlite3"]


def test_a_store_of_this_version_is_left_alone(drive: Path) -> None:
    _, project, _ = opened(drive, MIGRATIONS)
    before = (drive / "state.sqlite3").read_bytes()
    assert opened(drive, MIGRATIONS)[1] == project
    assert (drive / "state.sqlite3").read_bytes() == before
    assert names(drive) == ["artifacts", "state.sqlite3"]


def test_an_older_store_is_copied_with_its_log_and_then_upgraded(drive: Path) -> None:
    _, project, old_tables = opened(drive, MIGRATIONS)
    # Another process still has the store open: its last commit is in the log alone.
    other = sqlite3.connect(drive / "state.sqlite3", isolation_level=None)
    other.execute("INSERT INTO projects (id, created_at) VALUES ('p_in_the_log', '')")
    assert (drive / "state.sqlite3-wal").stat().st_size > 0

    version, upgraded, new_tables = opened(drive, LATER)
    other.close()
    assert (version, upgraded) == (len(LATER), project)
    assert set(new_tables) - set(old_tables) == {"notes"}

    backup = drive / f"state.sqlite3.backup-v{len(MIGRATIONS)}"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    copy = sqlite3.connect(f"{backup.as_uri()}?mode=ro", uri=True)
    assert schema_version(copy) == len(MIGRATIONS)
    assert tables(copy) == old_tables
    assert [row[0] for row in copy.execute("SELECT id FROM projects ORDER BY row")] == [project.id, "p_in_the_log"]
    copy.close()
    assert names(drive) == ["artifacts", "state.sqlite3", backup.name]


@pytest.mark.parametrize("step", [broken, interrupted])
def test_a_step_that_fails_leaves_the_store_as_it_was(drive: Path, step: Migration) -> None:
    _, project, old_tables = opened(drive, MIGRATIONS)
    with pytest.raises((StorageError, KeyboardInterrupt)) as failed:
        opened(drive, (*LATER, step))
    if isinstance(failed.value, StorageError):
        assert failed.value.code == "storage_failed"
    assert opened(drive, MIGRATIONS) == (len(MIGRATIONS), project, old_tables)
    # The repaired program then upgrades the same store, over the backup of the first try.
    assert opened(drive, LATER)[0] == len(LATER)
    assert names(drive) == ["artifacts", "state.sqlite3", f"state.sqlite3.backup-v{len(MIGRATIONS)}"]


def test_a_backup_that_cannot_be_made_stops_the_upgrade(drive: Path) -> None:
    _, project, old_tables = opened(drive, MIGRATIONS)
    (drive / f"state.sqlite3.backup-v{len(MIGRATIONS)}").mkdir()
    with pytest.raises(StorageError):
        opened(drive, LATER)
    assert opened(drive, MIGRATIONS) == (len(MIGRATIONS), project, old_tables)
    assert names(drive) == ["artifacts", "state.sqlite3", f"state.sqlite3.backup-v{len(MIGRATIONS)}"]


def test_an_upgraded_store_is_too_new_for_the_program_before(drive: Path) -> None:
    opened(drive, LATER)
    with pytest.raises(StorageError) as failed:
        opened(drive, MIGRATIONS)
    assert failed.value.code == "schema_too_new"


def test_a_released_step_still_makes_the_schema_it_made(drive: Path) -> None:
    opened(drive, MIGRATIONS[:1])
    db = sqlite3.connect(drive / "state.sqlite3")
    schema = "\n".join(row[0] for row in db.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name"))
    db.close()
    digest = hashlib.sha256(" ".join(schema.split()).encode()).hexdigest()
    assert digest[:16] == RELEASED[1], "a released step is never edited; a new schema is a new step"
