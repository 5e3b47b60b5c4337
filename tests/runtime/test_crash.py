import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.faulty import FaultyStorage
from support.hosted import start, workspace
from support.project import Project, call, make_project, say, scripted

from fluzo.core.errors import StorageError
from fluzo.host import HostOptions, open_host
from fluzo.simulator.server import Simulator
from fluzo.storage.journal import Journal

# The command tells that it runs, then waits for good; whoever runs it a second time leaves a second line.
SCRIPT = "echo run >> ran; echo ready > pipe; sleep 600"
RUN = call("run", {"shell": True, "script": SCRIPT}, "c1")


def killed_in_the_middle(root: Path, base_url: str) -> Project:
    project = make_project(root, base_url)
    os.mkfifo(root / "pipe")
    process = project.start("run", "--yolo", "do it", stdin=-3, stdout=-3, stderr=-3)
    assert (root / "pipe").read_text() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    return project


def test_a_command_whose_end_nobody_recorded_is_unknown_and_is_not_run_again(tmp_path: Path) -> None:
    with Simulator(scripted(RUN, say("a new task"))) as simulator:
        project = killed_in_the_middle(tmp_path, simulator.base_url)
        shown = project.json("tasks", "show", "last")
        (ran,) = [item for item in shown["operations"] if item["tool"] == "run"]
        assert ran["state"] == "unknown"
        assert (shown["task"]["state"], shown["task"]["reason"]) == ("blocked", "task_interrupted")
        done = project.fluzo("run", "something else")
        assert done.returncode == 0, done.stderr.decode()
        again = project.json("tasks", "show", shown["task"]["id"])
        replayed = project.fluzo("replay", shown["task"]["id"])
    (ran,) = [item for item in again["operations"] if item["tool"] == "run"]
    assert ran["state"] == "unknown"
    assert again["attempts"][0]["state"] == "interrupted"
    assert (tmp_path / "ran").read_text() == "run\n"
    assert b"OUTCOME UNKNOWN" in replayed.stdout


def test_looking_at_an_interrupted_task_changes_nothing(tmp_path: Path) -> None:
    with Simulator(scripted(RUN)) as simulator:
        project = killed_in_the_middle(tmp_path, simulator.base_url)
        before = project.json("replay", "last")
        project.json("tasks", "show", "last")
        project.json("tasks", "list")
        assert project.json("replay", "last") == before
        assert len(simulator.requests) == 1


@contextmanager
def faulty_store(monkeypatch: pytest.MonkeyPatch, fail_at: int, persistent: bool) -> Iterator[list[FaultyStorage]]:
    """Every journal that is opened fails at its n-th call, as on a full disk."""
    made: list[FaultyStorage] = []
    real = Journal.open

    async def opened(*args: Any, **more: Any) -> Any:
        store = FaultyStorage(await real(*args, **more), fail_at, persistent=persistent)
        made.append(store)
        return store

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "open", opened)
        yield made


@pytest.mark.parametrize("persistent", [False, True], ids=["once", "for good"])
def test_whatever_write_fails_no_effect_is_without_its_intent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, persistent: bool
) -> None:
    edit = call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"}, "e1")
    fail_at, met = 1, True
    while met:
        root = tmp_path / str(fail_at)
        with Simulator(scripted(edit, say("done"))) as simulator:
            workspace(root, simulator.base_url)
            with faulty_store(monkeypatch, fail_at, persistent) as stores:
                _run_through(root)
            met = bool(stores) and stores[0].met
        _check(root, simulator)
        fail_at += 1
    assert fail_at > 12, "a run makes more calls of the store than that"


def _run_through(root: Path) -> None:
    try:
        with open_host(HostOptions(root)) as host:
            running = start(host)
            while not running.subscription.ended:
                running.subscription.next(60)
    except StorageError:
        pass  # Refused, and said so: that is all a full disk allows.


def _check(root: Path, simulator: Simulator) -> None:
    with open_host(HostOptions(root, read_only=True)) as host:
        from fluzo.core.port import TaskDetail, TaskList

        tasks = host.port.query(TaskList()).result(60).data["tasks"]
        operations = []
        if tasks:
            operations = host.port.query(TaskDetail(tasks[0]["id"])).result(60).data["operations"]
    inferences = [item for item in operations if item["action"] == "infer"]
    edits = [item for item in operations if item["action"] == "edit"]
    assert len(inferences) >= len(simulator.requests), "every request had its intent"
    changed = (root / "sheep.py").read_text() == "COUNT = 2\n"
    assert not changed or edits, "the edit had its intent"
    for item in edits:
        assert item["state"] in ("known_result", "unknown")
        if item["state"] == "known_result":
            assert item["ok"] == changed
