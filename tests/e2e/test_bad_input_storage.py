import sqlite3
from pathlib import Path

import pytest
from support.complaints import complaint, error_object, fluzo_in
from support.confined import with_file_limit, without_override
from support.project import FLUZO, Project, make_project, say, scripted, shipped

from fluzo.simulator.server import Simulator

STORAGE = ("storage_failed", 10)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    with Simulator(shipped("two-turn")) as simulator:
        return make_project(tmp_path / "p", simulator.base_url)


# --- read-only --------------------------------------------------------------------------------------------------


def test_in_a_read_only_folder_nothing_starts_and_looking_back_works(project: Project) -> None:
    program = without_override(FLUZO)
    project.root.chmod(0o555)
    try:
        words = complaint(fluzo_in(project.root, "run", "Go.", program=program), *STORAGE)
        assert "Permission denied" in words
        error_object(fluzo_in(project.root, "run", "-o", "json", "Go.", program=program), *STORAGE)
        saved = fluzo_in(project.root, "config", "set", "harness.max_turns", "9", program=program)
        assert "The file is as it was." in complaint(saved, "configuration_invalid", 3)
        for command in (("tasks", "list"), ("history", "list"), ("config", "show")):
            assert fluzo_in(project.root, *command, program=program).returncode == 0
        doctor = fluzo_in(project.root, "doctor", program=program)
    finally:
        project.root.chmod(0o755)
    assert doctor.returncode == 1
    assert b"cannot be written  [storage_failed]" in doctor.stdout
    assert sorted(path.name for path in project.root.iterdir()) == [".fluzo", ".git", "README.md", "sheep.py"]


def test_a_store_that_became_read_only_is_readable_and_takes_no_task(tmp_path: Path) -> None:
    program = without_override(FLUZO)
    with Simulator(shipped("text-only")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        assert project.fluzo("run", "Say hello.").returncode == 0
        store = project.root / ".fluzodrive"
        for path in (*store.iterdir(), store):
            path.chmod(0o500 if path.is_dir() else 0o400)
        words = complaint(fluzo_in(project.root, "run", "Go.", program=program), *STORAGE)
        assert ".fluzodrive" in words
        assert len(simulator.requests) == 1
        for command in (("tasks", "show", "last"), ("replay", "last"), ("history", "list"), ("sessions", "list")):
            assert fluzo_in(project.root, *command, program=program).returncode == 0
        assert b"cannot be written" in fluzo_in(project.root, "doctor", program=program).stdout
        store.chmod(0o700)


def test_a_home_that_cannot_be_written_is_named(project: Project, isolation: Path) -> None:
    program = without_override(FLUZO)
    (isolation / ".local").mkdir(mode=0o500)
    words = complaint(fluzo_in(project.root, "run", "Go.", program=program), "workspace_unusable", 11)
    assert str(isolation) in words
    assert "XDG_STATE_HOME" in words


# --- full -------------------------------------------------------------------------------------------------------


def test_a_disk_without_room_for_the_store_is_said_before_the_server_is_contacted(tmp_path: Path) -> None:
    with Simulator(shipped("two-turn")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        program = with_file_limit(20_000, FLUZO)
        complaint(fluzo_in(project.root, "run", "Go.", program=program), *STORAGE)
        error_object(fluzo_in(project.root, "run", "--output", "stream-json", "Go.", program=program), *STORAGE)
        assert simulator.requests == []
        assert project.fluzo("tasks", "list").stdout == b"No tasks are recorded in this workspace.\n"
        assert project.fluzo("run", "Go.").returncode == 0, "with room again, everything works"


def test_a_disk_that_fills_up_during_a_task_ends_it_and_the_record_says_so(tmp_path: Path) -> None:
    write = {"id": "c1", "name": "write_file", "arguments": {"path": "new.txt", "content": "x\n"}}
    with Simulator(scripted({"respond": {"parts": [{"tool_call": write}]}}, say("done"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        program = with_file_limit(200_000, FLUZO)
        done = fluzo_in(project.root, "run", "--output", "json", "Go.", program=program)
        words = error_object(done, *STORAGE)
        assert "could not be stored" in words
        assert simulator.requests, "the disk was to fill up later"
    task = project.json("tasks", "show", "last")
    assert task["task"]["id"] in words
    assert task["task"]["state"] == "blocked"
    written = [item for item in task["operations"] if item["tool"] == "write_file"]
    assert (project.root / "new.txt").exists() <= bool(written), "no file without its intent"
    assert all(item["state"] in ("known_result", "unknown") for item in written)
    assert not list(project.root.glob("*.tmp"))


def test_consent_that_cannot_be_kept_is_not_given(tmp_path: Path, isolation: Path) -> None:
    with Simulator(shipped("text-only")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        assert project.fluzo("config", "trust", "--revoke").returncode == 0
        before = (isolation / ".config" / "fluzo" / "consent.json").read_bytes()
        program = with_file_limit(max(10, len(before)), FLUZO)
        complaint(fluzo_in(project.root, "config", "trust", "--yes", program=program), *STORAGE)
        assert (isolation / ".config" / "fluzo" / "consent.json").read_bytes() == before
        complaint(project.fluzo("run", "Go."), "consent_required", 3)
        assert simulator.requests == []


@pytest.mark.parametrize("limit_bytes", [0, 60, 1000])
def test_a_demo_without_room_says_where_and_leaves_nothing(tmp_path: Path, limit_bytes: int) -> None:
    program = with_file_limit(limit_bytes, FLUZO)
    done = fluzo_in(tmp_path, "demo", "--output", "json", program=program, env={"TMPDIR": str(tmp_path)})
    words = error_object(done, "workspace_unusable", 11)
    # With no room at all there is not even a directory.
    assert ("could not be prepared" if limit_bytes else "No temporary directory can be made") in words
    assert "TMPDIR" in words or "room" in words
    assert list(tmp_path.iterdir()) == []


# --- in the way -------------------------------------------------------------------------------------------------


def test_a_store_that_git_would_show_is_refused_with_the_repair(project: Project) -> None:
    exclude = project.root / ".git" / "info" / "exclude"
    exclude.write_text("/.fluzo\n")
    words = complaint(project.fluzo("run", "Go."), "storage_unprotected", 10)
    assert "info/exclude" in words
    assert not (project.root / ".fluzodrive").exists()


@pytest.mark.parametrize("kind", ["file", "link", "not a database", "newer"])
def test_a_store_that_is_none_is_left_as_it_is(project: Project, kind: str) -> None:
    store = project.root / ".fluzodrive"
    code = "storage_unprotected"
    if kind == "file":
        store.write_text("mine")
    elif kind == "link":
        (project.root.parent / "elsewhere").mkdir()
        store.symlink_to(project.root.parent / "elsewhere")
    elif kind == "not a database":
        store.mkdir(mode=0o700)
        (store / "state.sqlite3").write_bytes(b"not a database at all" * 100)
        code = "store_damaged"
    else:
        with Simulator(shipped("text-only")) as simulator:
            project.fluzo("--set", f"models.main.base_url={simulator.base_url}", "run", "Go.")
        with sqlite3.connect(store / "state.sqlite3") as connection:
            connection.execute("PRAGMA user_version = 999")
        connection.close()
        code = "schema_too_new"
    error_object(project.fluzo("run", "-o", "json", "Go."), code, 10)
    if kind == "file":
        assert store.read_text() == "mine"
    elif kind == "link":
        assert store.is_symlink()
        assert list((project.root.parent / "elsewhere").iterdir()) == []
    elif kind == "not a database":
        assert (store / "state.sqlite3").read_bytes().startswith(b"not a database")
