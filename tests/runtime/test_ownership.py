"""One owner per workspace, among real processes."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.workspaces import make_repository

from fluzo.core.errors import WorkspaceError
from fluzo.workspace.identity import Ownership, acquire, is_owned, owner, resolve_root

HOLD = """
import sys
from pathlib import Path
from fluzo.core.errors import FluzoError
from fluzo.workspace.identity import acquire, resolve_root
try:
    ownership = acquire(resolve_root(Path(sys.argv[1])), {"task_id": sys.argv[2]})
except FluzoError as exc:
    print(exc.code, flush=True)
else:
    print("owner", flush=True)
    sys.stdin.read()
    ownership.release()
"""


def start(root: Path, task: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root), task], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def finish(process: subprocess.Popen[str]) -> None:
    process.communicate()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "ws", {"a": "a"})


def lock_files(home: Path) -> list[Path]:
    return list((home / ".local/state/fluzo/owners").iterdir())


def test_of_processes_that_compete_exactly_one_becomes_the_owner(root: Path) -> None:
    processes = [start(root, f"t_{number}") for number in range(5)]
    try:
        answers = [first_line(process) for process in processes]
    finally:
        for process in processes:
            finish(process)
    assert sorted(answers) == ["owner", *["workspace_owned"] * 4]


def test_the_second_is_told_who_the_owner_is(root: Path) -> None:
    owner = start(root, "t_first")
    try:
        assert first_line(owner) == "owner"
        with pytest.raises(WorkspaceError) as caught:
            acquire(resolve_root(root), {"task_id": "t_second"})
        assert caught.value.code == "workspace_owned"
        for part in ("t_first", str(owner.pid), "since 20", str(root)):
            assert part in caught.value.message
        record = caught.value.detail["owner"]
        assert isinstance(record, dict)
        ticks = Path(f"/proc/{owner.pid}/stat").read_text().rpartition(")")[2].split()[19]
        assert record["started"] == ticks
        assert is_owned(resolve_root(root))
    finally:
        finish(owner)
    assert not is_owned(resolve_root(root))
    acquire(resolve_root(root), {"task_id": "t_second"}).release()


def test_a_killed_owner_leaves_the_workspace_free_and_its_pid_decides_nothing(root: Path, isolation: Path) -> None:
    owner = start(root, "t_first")
    assert first_line(owner) == "owner"
    owner.send_signal(signal.SIGKILL)
    finish(owner)
    (lock,) = lock_files(isolation)
    lock.write_text(json.dumps({"task_id": "t_old", "pid": str(os.getpid())}))  # A living process, not an owner.
    acquire(resolve_root(root), {"task_id": "t_second"}).release()


def test_a_child_of_the_owner_does_not_keep_the_workspace(root: Path) -> None:
    ownership = acquire(resolve_root(root), {"task_id": "t_1"})
    with subprocess.Popen(["sleep", "300"], close_fds=False) as child:
        ownership.release()
        ownership.release()
        acquire(resolve_root(root), {"task_id": "t_2"}).release()
        child.kill()


def test_one_process_cannot_own_a_workspace_twice(root: Path) -> None:
    ownership = acquire(resolve_root(root), {"task_id": "t_1"})
    with pytest.raises(WorkspaceError):
        acquire(resolve_root(root / "."), {})
    ownership.release()


def test_two_workspaces_are_owned_apart(root: Path, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other", {"a": "a"})
    first, second = acquire(resolve_root(root), {}), acquire(resolve_root(other), {})
    first.release()
    second.release()


def test_who_only_looks_keeps_nobody_out(root: Path) -> None:
    resolved = resolve_root(root)
    enough = threading.Event()

    def look() -> None:
        while not enough.is_set():
            is_owned(resolved)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(300):
            acquire(resolved, {}).release()
    finally:
        enough.set()
        looking.join()


def test_a_look_is_no_owner_and_an_owner_waits_until_it_is_over(root: Path, isolation: Path) -> None:
    resolved = resolve_root(root)
    acquire(resolved, {}).release()
    looks = [lock.open() for lock in lock_files(isolation)]
    for look in looks:
        fcntl.flock(look, fcntl.LOCK_SH)
    assert not is_owned(resolved), "two may look at the same time"
    owners: list[Ownership] = []
    becoming = threading.Thread(target=lambda: owners.append(acquire(resolved, {})))
    becoming.start()
    for look in looks:
        look.close()
    becoming.join()
    owners[0].release()


def test_who_comes_before_the_owner_has_said_who_it_is_waits_for_that(
    root: Path, isolation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = resolve_root(root)
    acquire(resolved, {}).release()
    (lock,) = lock_files(isolation)
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        monkeypatch.setattr(time, "sleep", lambda _: lock.write_text('{"pid": "4711"}'))
        with pytest.raises(WorkspaceError) as caught:
            acquire(resolved, {})
    assert "process 4711" in caught.value.message


def test_the_record_never_shows_half_of_what_it_was(root: Path) -> None:
    resolved = resolve_root(root)
    ownership = acquire(resolved, {})
    ownership.describe("t_" + "0" * 40)
    ownership.describe("t_1")
    found = owner(resolved)
    assert found is not None
    assert (found["task_id"], found["instance"]) == ("t_1", ownership.instance)
    ownership.describe("")
    assert owner(resolved) == {**found, "task_id": ""}
    ownership.release()
    assert owner(resolved) is None


def test_every_owner_has_a_name_of_its_own(root: Path) -> None:
    names = set()
    for _ in range(2):
        ownership = acquire(resolve_root(root), {})
        names.add(ownership.instance)
        ownership.release()
    assert len(names) == 2


def test_a_lock_file_that_was_removed_does_not_let_two_in(root: Path, isolation: Path) -> None:
    first = acquire(resolve_root(root), {})
    (lock,) = lock_files(isolation)
    first.release()
    lock.unlink()
    second = acquire(resolve_root(root), {})
    with pytest.raises(WorkspaceError):
        acquire(resolve_root(root), {})
    second.release()


def test_another_home_is_kept_out_by_the_lock_in_the_store(root: Path, tmp_path: Path) -> None:
    resolved, store = resolve_root(root), root / ".fluzodrive"
    homes = [{"HOME": str(tmp_path / name)} for name in ("one", "two")]
    first = acquire(resolved, {"task_id": "t_first"}, homes[0], store)
    with pytest.raises(WorkspaceError) as caught:
        acquire(resolved, {}, homes[1], store)
    assert caught.value.code == "workspace_owned"
    assert "t_first" in caught.value.message
    # The refused one has given its own lock back.
    assert not is_owned(resolved, homes[1])
    first.describe("t_other")
    with pytest.raises(WorkspaceError, match="t_other"):
        acquire(resolved, {}, homes[1], store)
    first.release()
    acquire(resolved, {}, homes[1], store).release()


def test_a_lock_that_is_removed_or_replaced_under_its_owner_leaves_the_other(root: Path, isolation: Path) -> None:
    store = root / ".fluzodrive"
    for replace in (False, True):
        for victim in ("state", "store"):
            first = acquire(resolve_root(root), {}, store=store)
            path = store / "owner.lock" if victim == "store" else lock_files(isolation)[0]
            path.unlink()
            if replace:
                path.write_text(json.dumps({"pid": "1"}))
            with pytest.raises(WorkspaceError) as caught:
                acquire(resolve_root(root), {}, store=store)
            assert caught.value.code == "workspace_owned"
            first.release()
    acquire(resolve_root(root), {}, store=store).release()


def test_the_store_of_the_lock_is_private_and_never_a_link(root: Path, tmp_path: Path) -> None:
    store = root / ".fluzodrive"
    acquire(resolve_root(root), {}, store=store).release()
    assert store.stat().st_mode & 0o777 == 0o700
    assert (store / "owner.lock").stat().st_mode & 0o777 == 0o600
    (store / "owner.lock").unlink()
    (tmp_path / "victim").write_text("precious")
    (store / "owner.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(WorkspaceError) as caught:
        acquire(resolve_root(root), {}, store=store)
    assert caught.value.code == "workspace_unusable"
    assert (tmp_path / "victim").read_text() == "precious"
    (store / "owner.lock").unlink()
    store.rename(tmp_path / "elsewhere")
    store.symlink_to(tmp_path / "elsewhere")
    acquire(resolve_root(root), {}, store=store).release()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert not is_owned(resolve_root(root))


def test_a_killed_owner_of_both_locks_leaves_them_free(root: Path) -> None:
    store = root / ".fluzodrive"
    program = HOLD.replace('{"task_id": sys.argv[2]}', '{}, store=Path(sys.argv[1]) / ".fluzodrive"')
    with subprocess.Popen(
        [sys.executable, "-c", program, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner_process:
        assert first_line(owner_process) == "owner"
        with pytest.raises(WorkspaceError):
            acquire(resolve_root(root), {}, store=store)
        owner_process.kill()
    record = json.loads((store / "owner.lock").read_text())
    assert record["pid"] == str(owner_process.pid)
    # A living process that has nothing to do with it: a number that went round.
    (store / "owner.lock").write_text(json.dumps({**record, "pid": str(os.getpid())}))
    acquire(resolve_root(root), {}, store=store).release()


def test_the_lock_is_private(root: Path, isolation: Path) -> None:
    old = os.umask(0)
    try:
        acquire(resolve_root(root), {}).release()
    finally:
        os.umask(old)
    (lock,) = lock_files(isolation)
    assert lock.stat().st_mode & 0o777 == 0o600
    assert lock.parent.stat().st_mode & 0o777 == lock.parent.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["XDG_STATE_HOME", "HOME", "XDG_RUNTIME_DIR"])
def test_the_place_of_the_lock_follows_the_environment(root: Path, tmp_path: Path, name: str) -> None:
    environ = {name: str(tmp_path / "place"), "XDG_STATE_HOME" if name != "XDG_STATE_HOME" else "X": "relative"}
    acquire(resolve_root(root), {}, environ).release()
    assert len(list((tmp_path / "place").rglob("*.lock"))) == 1


def test_a_place_that_is_a_link_or_a_file_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runtime/fluzo").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError) as caught:
        acquire(resolve_root(root), {}, {"XDG_RUNTIME_DIR": str(tmp_path / "runtime")})
    assert caught.value.code == "workspace_unusable"
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError) as caught:
        acquire(resolve_root(root), {}, {"XDG_STATE_HOME": str(tmp_path / "file")})
    assert "XDG_STATE_HOME" in caught.value.hint
