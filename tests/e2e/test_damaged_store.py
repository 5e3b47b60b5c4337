"""A store that is damaged, half upgraded or too new: said by every command, never replaced, set aside on request."""

import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support.complaints import complaint, fluzo_in
from support.hosted import start, workspace
from support.interrupted import point_at
from support.project import Project, call, make_project, say, scripted

from fluzo.host import HostOptions, open_host
from fluzo.simulator.server import Simulator

STORE = "state.sqlite3"


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 4096)


def truncated(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


def too_new(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


DAMAGES: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "4 KiB in the middle": (overwritten, "store_damaged"),
    "empty": (truncated(0), "store_damaged"),
    "100 bytes": (truncated(100), "store_damaged"),
    "half": (truncated(16 * 4096), "store_damaged"),
    "newer": (too_new, "schema_too_new"),
}
LOOKING = (("tasks", "list"), ("sessions", "list"), ("history", "list"), ("replay", "last"))


def contents(drive: Path) -> dict[str, bytes]:
    """Every file of the store with something in it, but for the lock and the memory that SQLite's readers share."""
    files = (path for path in drive.rglob("*") if path.is_file() and not path.name.endswith((".lock", "-shm")))
    return {
        str(path.relative_to(drive)): path.read_bytes()
        for path in files
        if path.stat().st_size or not path.name.endswith("-wal")
    }


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A workspace with a task in its store."""
    with Simulator(scripted(say("done"))) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            start(host).finish()
    (tmp_path / ".fluzodrive" / "artifacts" / "a_kept").write_bytes(b"kept")
    return Project(tmp_path)


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_command_says_what_is_wrong_and_leaves_the_store_as_it_is(project: Project, damage: str) -> None:
    spoil, code = DAMAGES[damage]
    drive = project.root / ".fluzodrive"
    spoil(drive / STORE)
    before = contents(drive)
    words = complaint(fluzo_in(project.root, "run", "do it"), code, 10)
    assert "state.sqlite3" in words
    for command in LOOKING:
        done = fluzo_in(project.root, *command)
        if done.returncode:  # A page that a list does not read may be the damaged one.
            complaint(done, code, 10)
        else:
            assert damage == "4 KiB in the middle"
    assert contents(drive) == before
    doctor = project.fluzo("doctor")
    assert doctor.returncode == 1
    assert f"[{code}]" in doctor.stdout.decode()
    assert ("doctor --repair" in doctor.stdout.decode()) == (code == "store_damaged")
    assert contents(drive) == before


@pytest.mark.parametrize(("damage", "log"), [("4 KiB in the middle", b""), ("empty", b"\xa5" * 5000)])
def test_a_repair_keeps_the_store_under_another_name_and_begins_a_new_one(
    project: Project, damage: str, log: bytes
) -> None:
    drive = project.root / ".fluzodrive"
    DAMAGES[damage][0](drive / STORE)
    (drive / f"{STORE}-wal").write_bytes(log)
    before = contents(drive)
    unsure = complaint(fluzo_in(project.root, "doctor", "--repair"), "confirmation_required", 2)
    assert "--yes" in unsure and contents(drive) == before
    done = project.fluzo("doctor", "--repair", "--yes")
    assert done.returncode == 0, done.stdout.decode()
    after = contents(drive)
    (aside,) = [name for name in after if re.fullmatch(rf"{re.escape(STORE)}\.damaged-[0-9TZ.]+", name)]
    assert aside in done.stdout.decode()
    assert STORE not in after and f"{STORE}-wal" not in after
    assert after == {name.replace(STORE, aside): content for name, content in before.items()}
    with Simulator(scripted(say("done"))) as simulator:
        point_at(project.root, simulator.base_url)
        assert project.fluzo("run", "do it").returncode == 0
    assert len(project.json("tasks", "list")["tasks"]) == 1
    assert contents(drive)[aside] == before[STORE]


def test_a_store_that_is_sound_or_too_new_is_never_set_aside(project: Project) -> None:
    drive = project.root / ".fluzodrive"
    sound = project.fluzo("doctor", "--repair", "--yes")
    assert sound.returncode == 0 and b"needs no repair" in sound.stdout
    assert STORE in contents(drive)
    too_new(drive / STORE)
    before = contents(drive)
    complaint(fluzo_in(project.root, "doctor", "--repair", "--yes"), "schema_too_new", 10)
    assert contents(drive) == before


def test_nothing_is_set_aside_while_somebody_works_in_the_workspace(project: Project) -> None:
    drive = project.root / ".fluzodrive"
    with open_host(HostOptions(project.root)):
        overwritten(drive / STORE)
        complaint(fluzo_in(project.root, "doctor", "--repair", "--yes"), "workspace_owned", 11)
        assert (drive / STORE).exists()


def test_a_garbage_log_beside_a_sound_store_changes_nothing(project: Project) -> None:
    tasks = project.json("tasks", "list")["tasks"]
    (project.root / ".fluzodrive" / f"{STORE}-wal").write_bytes(os.urandom(20_000))
    assert project.json("tasks", "list")["tasks"] == tasks
    assert project.fluzo("doctor").returncode == 0


def test_an_upgrade_that_was_cut_off_left_the_store_as_it_was(project: Project) -> None:
    path = project.root / ".fluzodrive" / STORE
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE of_a_later_version (id TEXT)")
    connection.execute("PRAGMA user_version = 99")
    # The process dies here: what it wrote was never committed, whatever of it is in the log.
    half = {
        name: path.with_name(name).read_bytes() for name in (STORE, f"{STORE}-wal") if path.with_name(name).exists()
    }
    connection.execute("ROLLBACK")
    connection.close()
    for name, content in half.items():
        path.with_name(name).write_bytes(content)
    assert len(project.json("tasks", "list")["tasks"]) == 1
    with Simulator(scripted(say("done"))) as simulator:
        point_at(project.root, simulator.base_url)
        assert project.fluzo("run", "do it").returncode == 0


@pytest.mark.parametrize("gone", ["moved", "missing"])
def test_a_task_goes_on_only_in_its_own_directory(tmp_path: Path, gone: str) -> None:
    with Simulator(scripted(call("run", {"argv": ["touch", "made"]}, "c1"))) as simulator:
        project = make_project(tmp_path / "one", simulator.base_url)
        assert project.fluzo("run", "do it").returncode == 4
        if gone == "moved":
            project.root.rename(tmp_path / "two")
        else:
            shutil.copytree(project.root, tmp_path / "two", symlinks=True)
            shutil.rmtree(project.root)
        moved = Project(tmp_path / "two")
        assert moved.fluzo("config", "trust", "--yes").returncode == 0
        words = complaint(moved.fluzo("sessions", "resume", "last", "--yes"), "workspace_changed", 11)
        assert str(tmp_path / "one") in words
        assert len(simulator.requests) == 1
        assert moved.fluzo("sessions", "open", "last").returncode == 0, "it can be read anywhere"
    assert not (tmp_path / "two" / "made").exists()
