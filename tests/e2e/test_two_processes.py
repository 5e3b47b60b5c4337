"""One workspace and several Fluzo processes: who owns it, who waits, who looks, cancels and kills."""

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.project import DEADLINE_SECONDS, Project, call, make_project, say, scripted
from support.terminal import person_at
from support.workspaces import is_alive

from fluzo.simulator.server import Simulator
from fluzo.workspace import identity

HELD = {"respond": {"parts": [{"text": "half an ans"}, {"hold": "gate"}, {"text": "wer"}]}}
STUBBORN = call("run", {"shell": True, "script": "trap '' TERM; echo ready > pipe; while :; do sleep 600; done"}, "c1")
GIVEN_UP = {**say("not reached"), "optional": True}
BRIEF = "[tools.shell]\ntermination_grace_seconds = 0.1\n"
PATIENT = "[tools.shell]\ntermination_grace_seconds = 600\n"
HASTY = ("--set", "tools.shell.termination_grace_seconds=0.1")
"""For the owner alone: who asks it to stop goes by the settings, and waits as long as they say."""

Process = subprocess.Popen[bytes]


@contextmanager
def started(project: Project, *arguments: str) -> Iterator[Process]:
    process = project.start(*arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def answering(project: Project, simulator: Simulator, *arguments: str) -> Iterator[tuple[Process, str]]:
    """A run whose model is in the middle of its answer, and the id of its task."""
    with started(project, "run", "--output", "json", *arguments, "do it") as process:
        assert simulator.wait_until_held("gate")
        yield process, project.json("tasks", "list")["tasks"][0]["id"]


@contextmanager
def commanding(project: Project, *options: str) -> Iterator[tuple[Process, str]]:
    """A run in the middle of a command that ignores being asked to end, and the id of its task."""
    os.mkfifo(project.root / "pipe")
    with started(project, *options, "run", "--yolo", "--output", "json", "do it") as process:
        assert (project.root / "pipe").read_text() == "ready\n"
        yield process, project.json("tasks", "list")["tasks"][0]["id"]


def end_of(process: Process, status: int) -> Any:
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == status, err.decode()
    return json.loads(out)


def lock_of(project: Project) -> Path:
    return identity.control_path(identity.resolve_root(project.root)).parent


# --- one owner ------------------------------------------------------------------------------------------------


def test_of_two_that_start_at_once_one_works_and_the_other_is_told_who(tmp_path: Path) -> None:
    with Simulator(scripted(HELD)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with ThreadPoolExecutor() as pool, started(project, "run", "one") as one, started(project, "run", "two") as two:
            ends = {pool.submit(process.communicate, timeout=DEADLINE_SECONDS): process for process in (one, two)}
            try:
                (loser,), _ = wait(ends, return_when=FIRST_COMPLETED)
                assert simulator.wait_until_held("gate")
                (listed,) = project.json("tasks", "list")["tasks"]
                shown = project.json("tasks", "show", "last")
            finally:
                simulator.release("gate")
                wait(ends)
        (winner,) = ends.keys() - {loser}
        assert (ends[winner].returncode, ends[loser].returncode) == (0, 11), (winner.result(), loser.result())
        complaint = loser.result()[1].decode()
        assert "[workspace_owned]" in complaint
        assert f"process {ends[winner].pid}" in complaint
        assert not any(b"locked" in text for end in ends for text in end.result())
        assert (listed["state"], shown["task"]["state"]) == ("running", "running")
        assert simulator.finish() == []
    assert len(project.json("tasks", "list")["tasks"]) == 1, "the second one has written nothing"


def test_a_second_one_in_json_gets_the_owner_as_data(tmp_path: Path) -> None:
    with Simulator(scripted(HELD)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with answering(project, simulator) as (process, task_id):
            error = project.json("run", "me too", status=11)["error"]
            assert error["code"] == "workspace_owned"
            assert error["detail"]["owner"]["pid"] == str(process.pid)
            assert error["detail"]["owner"]["task_id"] == task_id
            resumed = project.json("sessions", "resume", "last", "--yes", status=11)["error"]
            assert resumed["code"] == "workspace_owned"
            simulator.release("gate")
            end_of(process, 0)


def test_another_home_does_not_make_a_second_owner(tmp_path: Path) -> None:
    with Simulator(scripted(HELD)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with answering(project, simulator) as (process, task_id):
            elsewhere = {"XDG_STATE_HOME": str(tmp_path / "elsewhere")}
            for command in (("cancel",), ("kill", "--yes")):
                done = project.fluzo("tasks", *command, task_id, env=elsewhere)
                assert (done.returncode, b"[workspace_owned]" in done.stderr) == (11, True), done.stderr.decode()
                assert f"process {process.pid}".encode() in done.stderr
            simulator.release("gate")
            end_of(process, 0)


# --- waiting --------------------------------------------------------------------------------------------------


def test_waiting_gets_the_workspace_when_the_first_one_ends(tmp_path: Path) -> None:
    with Simulator(scripted(HELD, say("second"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with (
            answering(project, simulator) as (first, task_id),
            started(project, "run", "--wait", "100", "--output", "json", "more") as second,
        ):
            assert second.stderr is not None
            assert f"by task {task_id}".encode() in second.stderr.readline()
            simulator.release("gate")
            end_of(first, 0)
            assert end_of(second, 0)["message"] == "second"
        assert simulator.finish() == []


def test_waiting_has_an_end(tmp_path: Path) -> None:
    with Simulator(scripted(HELD)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with answering(project, simulator) as (process, _):
            assert project.json("run", "--wait", "0.2", "me too", status=11)["error"]["code"] == "workspace_owned"
            with started(project, "run", "--wait", "100", "--output", "json", "more") as waiting:
                assert waiting.stderr is not None
                waiting.stderr.readline()
                waiting.send_signal(signal.SIGINT)
                assert end_of(waiting, 130)["error"]["code"] == "cancelled"
            simulator.release("gate")
            end_of(process, 0)
    assert len(project.json("tasks", "list")["tasks"]) == 1


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "1e9"])
def test_a_wait_without_an_end_is_refused(tmp_path: Path, seconds: str) -> None:
    project = make_project(tmp_path / "p", "http://127.0.0.1:9/v1")
    assert project.json("run", "--wait", seconds, "do it", status=2)["error"]["code"] == "usage"


# --- cancel ---------------------------------------------------------------------------------------------------


def test_a_cancel_from_outside_ends_an_answer_of_the_model(tmp_path: Path) -> None:
    with Simulator(scripted(HELD)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=PATIENT)
        with answering(project, simulator) as (process, task_id):
            said = project.json("tasks", "cancel", task_id[:6])
            result = end_of(process, 130)
        assert said == {
            "schema_version": 1,
            "type": "task_stopped",
            "action": "cancel",
            "task_id": task_id,
            "state": "cancelled",
            "reason": "cancelled",
            "already": False,
        }
        assert (result["task_id"], result["reason"]) == (task_id, "cancelled")
        again = project.json("tasks", "cancel", "last")
        assert again == {**said, "already": True}
        assert project.json("tasks", "kill", "last") == {**again, "action": "kill"}, "nothing is left to confirm"
    events = project.json("replay", task_id)["events"]
    assert [item["data"]["by"] for item in events if item["type"] == "CancelRequested"] == ["another process"]


def test_a_cancel_from_outside_ends_a_command(tmp_path: Path) -> None:
    with Simulator(scripted(STUBBORN, GIVEN_UP)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=PATIENT)
        with commanding(project, *HASTY) as (process, task_id):
            done = project.fluzo("tasks", "cancel", "last")
            assert done.returncode == 0, done.stderr.decode()
            assert f"task {task_id} is cancelled".encode() in done.stdout
            assert end_of(process, 130)["reason"] == "cancelled"


def test_what_does_not_stop_is_said_to_be_stopping_and_can_be_killed(tmp_path: Path) -> None:
    with Simulator(scripted(STUBBORN, GIVEN_UP)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=BRIEF)
        with commanding(project, "--set", "tools.shell.termination_grace_seconds=600") as (process, task_id):
            error = project.json("tasks", "cancel", task_id, status=9)["error"]
            assert error["code"] == "still_stopping"
            assert f"fluzo tasks kill {task_id}" in error["hint"]
            (running, *_) = project.json("tasks", "show", task_id)["processes"]
            assert project.json("tasks", "kill", task_id, "--yes")["state"] == "cancelled"
            end_of(process, 130)
            assert not is_alive(running["pid"])


def test_a_blocked_task_is_cancelled_where_nothing_runs(tmp_path: Path) -> None:
    with Simulator(scripted(call("run", {"argv": ["make"]}, "c1"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        assert project.json("run", "make it", status=4)["reason"] == "permission_required"
    (project.root / ".fluzo").unlink()
    assert project.json("tasks", "cancel", "last")["state"] == "cancelled"
    assert project.json("tasks", "cancel", "last")["already"] is True
    assert project.json("sessions", "resume", "last", "--yes", status=3)["error"]["code"] == "configuration_required"


def test_what_has_ended_or_never_was_cannot_be_cancelled(tmp_path: Path) -> None:
    with Simulator(scripted(say("done"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        project.json("run", "do it")
    for command in ("cancel", "kill"):
        assert project.json("tasks", command, "last", status=2)["error"]["code"] == "task_ended"
        assert project.json("tasks", command, "t_none", status=2)["error"]["code"] == "not_found"


# --- kill -----------------------------------------------------------------------------------------------------


def test_a_kill_needs_a_word_and_then_waits_for_no_grace(tmp_path: Path) -> None:
    with Simulator(scripted(STUBBORN, GIVEN_UP)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=PATIENT)
        with commanding(project) as (process, task_id):
            error = project.json("tasks", "kill", "last", status=2)["error"]
            assert (error["code"], error["detail"]["task_id"]) == ("confirmation_required", task_id)
            assert all(is_alive(item["pid"]) for item in error["detail"]["processes"])
            assert error["detail"]["processes"]
            with person_at("tasks", "kill", "last", cwd=project.root, env=dict(os.environ)) as person:
                person.sees("type kill to do it")
                for said in (task_id, "do it", f"process {error['detail']['processes'][0]['pid']}", "cut off half-way"):
                    assert said in person.screen()
                person.types("yes")
                person.presses("enter")
                assert person.leaves() == 130
            assert process.poll() is None
            with person_at("tasks", "kill", "last", cwd=project.root, env=dict(os.environ)) as person:
                person.sees("type kill to do it")
                person.types("kill")
                person.presses("enter")
                person.sees(f"task {task_id} is cancelled")
                assert person.leaves() == 0
            assert end_of(process, 130)["reason"] == "cancelled"
        (ran,) = [item for item in project.json("tasks", "show", "last")["operations"] if item["tool"] == "run"]
        assert (ran["result"]["cancelled"], ran["result"]["termination"]) == (True, "killed")


# --- owners that are gone, and others that only look like one -------------------------------------------------


def test_a_dead_owner_leaves_the_workspace_free_and_its_socket_is_cleared_away(tmp_path: Path) -> None:
    with Simulator(scripted(HELD, say("second"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with answering(project, simulator) as (process, task_id):
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE_SECONDS)
            control = identity.control_path(identity.resolve_root(project.root))
            assert control.is_socket(), "it could not be cleared away"
            (task,) = project.json("tasks", "list")["tasks"]
            assert (task["state"], task["reason"]) == ("blocked", "task_interrupted")
            assert project.json("tasks", "cancel", task_id)["state"] == "cancelled"
        simulator.release("gate")
        assert project.json("run", "again")["message"] == "second"
        assert not control.exists()


@contextmanager
def bystander() -> Iterator[Process]:
    """A process that has nothing to do with anything."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()


def claim_pid(project: Project, pid: int) -> None:
    """Have the owner's record name another process."""
    (lock,) = lock_of(project).glob("*.lock")
    record = json.loads(lock.read_bytes())
    started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    lock.write_text(json.dumps({**record, "pid": str(pid), "started": started}))


def test_a_process_that_got_the_pid_of_a_dead_owner_is_left_alone(tmp_path: Path) -> None:
    with Simulator(scripted(HELD, say("second"))) as simulator, bystander() as other:
        project = make_project(tmp_path / "p", simulator.base_url)
        with answering(project, simulator) as (process, task_id):
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE_SECONDS)
            claim_pid(project, other.pid)
            assert project.json("tasks", "kill", task_id, "--yes")["state"] == "cancelled"
            simulator.release("gate")
            assert project.json("run", "again")["message"] == "second", "the record keeps nobody out"
            assert other.poll() is None


def test_a_wrong_pid_in_the_record_of_a_living_owner_does_not_matter(tmp_path: Path) -> None:
    with Simulator(scripted(STUBBORN, GIVEN_UP)) as simulator, bystander() as other:
        project = make_project(tmp_path / "p", simulator.base_url, more=PATIENT)
        with commanding(project) as (process, task_id):
            claim_pid(project, other.pid)
            assert project.json("tasks", "kill", task_id, "--yes")["state"] == "cancelled"
            end_of(process, 130)
            assert other.poll() is None


def interrupted(project: Project, simulator: Simulator) -> str:
    """A task that a dead process left behind."""
    with answering(project, simulator) as (process, task_id):
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_SECONDS)
        return task_id


def test_an_owner_that_cannot_be_reached_is_not_forced(tmp_path: Path) -> None:
    with Simulator(scripted(HELD)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        task_id = interrupted(project, simulator)
        before = project.json("replay", task_id)
        ownership = identity.acquire(identity.resolve_root(project.root), {"task_id": task_id})
        try:
            ownership.control.unlink()
            for command in (("cancel",), ("kill", "--yes")):
                error = project.json("tasks", *command, task_id, status=11)["error"]
                assert error["code"] == "owner_unreachable"
            assert project.json("tasks", "show", task_id)["task"]["state"] == "running", "looking still works"
        finally:
            ownership.release()
        assert project.json("replay", task_id) == before


def test_somebody_else_at_the_socket_of_the_owner_is_told_nothing(tmp_path: Path) -> None:
    with Simulator(scripted(HELD)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        task_id = interrupted(project, simulator)
        ownership = identity.acquire(identity.resolve_root(project.root), {"task_id": task_id})
        ownership.control.unlink()
        received: list[bytes] = []
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(ownership.control))
            ownership.control.chmod(0o600)
            listener.listen()
            pretending = threading.Thread(target=pretend, args=(listener, received))
            pretending.start()
            try:
                error = project.json("tasks", "cancel", task_id, status=11)["error"]
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                pretending.join()
                ownership.release()
        assert error["code"] == "owner_unverified"
        assert received and not any(received)


def pretend(listener: socket.socket, received: list[bytes]) -> None:
    """Greet as an owner of another name, and keep what is said to it."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b'{"control":1,"instance":"0123456789abcdef0123456789abcdef"}\n')
            received.append(connection.recv(1000))
