import os
import signal
from pathlib import Path

from support.project import Project, call, make_project, say, scripted

from fluzo.simulator.server import Simulator

# The command tells that it runs, then waits for good; whoever runs it a second time leaves a second line.
SCRIPT = "echo run >> ran; echo ready > pipe; sleep 60"
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
