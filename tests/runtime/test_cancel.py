import os
import threading
from pathlib import Path
from typing import Any

from support.hosted import start, workspace
from support.project import call, say, scripted

from fluzo.core.errors import WorkspaceError
from fluzo.core.events import Event
from fluzo.core.port import CancelTask, StartTask
from fluzo.host import HostOptions, open_host
from fluzo.simulator.server import Simulator

EDIT = call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"}, "e1")
STUBBORN = "trap '' TERM; echo ready > pipe; sleep 60"
QUICK = "[tools.shell]\ntermination_grace_seconds = 0.2\n"


def held(text: str = "") -> dict[str, Any]:
    return {"respond": {"parts": [{"text": "half an ans"}, {"hold": "gate"}, {"text": text}]}}


def test_a_cancel_while_the_model_answers_ends_the_task_and_keeps_the_edits(tmp_path: Path) -> None:
    with Simulator(scripted(EDIT, held())) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host)
            assert simulator.wait_until_held("gate")
            assert running.tell(CancelTask(running.ack.task_id)).accepted
            detail = running.finish()
    result = detail["task"]["result"]
    assert (result["status"], result["reason"]) == ("cancelled", "cancelled")
    assert detail["task"]["state"] == "cancelled"
    assert (tmp_path / "sheep.py").read_text() == "COUNT = 2\n"
    assert [change["path"] for change in result["changes"]] == ["sheep.py"]
    inference = [item for item in detail["operations"] if item["action"] == "infer"]
    assert [item["state"] for item in inference] == ["known_result", "unknown"], "the server may still be at it"


def test_a_cancel_ends_a_command_that_ignores_being_asked(tmp_path: Path) -> None:
    run = call("run", {"shell": True, "script": STUBBORN}, "c1")
    with Simulator(scripted(run)) as simulator:
        workspace(tmp_path, simulator.base_url, more=QUICK)
        os.mkfifo(tmp_path / "pipe")
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host, yolo=True)
            assert (tmp_path / "pipe").read_text() == "ready\n"
            assert running.tell(CancelTask(running.ack.task_id)).accepted
            detail = running.finish()
    (ran,) = [item for item in detail["operations"] if item["tool"] == "run"]
    assert detail["task"]["state"] == "cancelled"
    assert ran["state"] == "known_result"
    assert (ran["result"]["cancelled"], ran["result"]["termination"]) == (True, "killed")


def test_a_cancel_while_a_question_is_open_takes_the_question_back(tmp_path: Path) -> None:
    with Simulator(scripted(call("run", {"argv": ["touch", "made"]}, "c1"))) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host, interactive=True)
            running.pending()
            assert running.tell(CancelTask(running.ack.task_id)).accepted
            detail = running.finish()
    assert detail["task"]["state"] == "cancelled"
    assert detail["pending"] == []
    assert not (tmp_path / "made").exists()


def test_cancelling_twice_is_cancelling_once(tmp_path: Path) -> None:
    with Simulator(scripted(held())) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host)
            assert simulator.wait_until_held("gate")
            for _ in range(3):
                running.tell(CancelTask(running.ack.task_id))
            running.finish()
            assert running.event_names().count("CancelRequested") == 1


def test_closing_the_host_cancels_what_runs_and_records_it(tmp_path: Path) -> None:
    with Simulator(scripted(held())) as simulator:
        workspace(tmp_path, simulator.base_url)
        host = open_host(HostOptions(tmp_path))
        running = start(host)
        assert simulator.wait_until_held("gate")
        closing = threading.Thread(target=host.close)
        closing.start()
        ended = []
        while not running.subscription.ended:
            update = running.subscription.next(60)
            if isinstance(update, Event):
                ended.append(update.type)
        closing.join(60)
        assert not closing.is_alive()
    assert ended[-2:] == ["AttemptEnded", "TaskStateChanged"]


def test_every_call_is_answered_also_when_the_task_stops_between_them(tmp_path: Path) -> None:
    two = {
        "respond": {
            "parts": [
                {"tool_call": {"id": "c1", "name": "run", "arguments": {"shell": True, "script": STUBBORN}}},
                {"tool_call": {"id": "c2", "name": "read_file", "arguments": {"path": "README.md"}}},
            ]
        }
    }
    last = {
        "expect": {"tool_results": [{"call": "c1"}, {"call": "c2", "contains": ["not run"]}]},
        "respond": {"parts": [{"text": "continued"}]},
    }
    with Simulator(scripted(two, last)) as simulator:
        workspace(tmp_path, simulator.base_url, more=QUICK)
        os.mkfifo(tmp_path / "pipe")
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host, yolo=True)
            assert (tmp_path / "pipe").read_text() == "ready\n"
            running.tell(CancelTask(running.ack.task_id))
            running.finish()
            (tmp_path / "pipe").unlink()
            again = start(host, "go on", session_id=running.ack.session_id)
            assert again.finish()["task"]["state"] == "completed"
        assert simulator.finish() == []


def test_a_new_task_in_a_session_brings_no_old_grant_and_no_yolo(tmp_path: Path) -> None:
    touch = call("run", {"argv": ["touch", "made"]}, "c1")
    with Simulator(scripted(say("first"), touch)) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            first = start(host, yolo=True, allow=(("touch", "made"),))
            first.finish()
            second = start(host, "more", session_id=first.ack.session_id)
            detail = second.finish()
    assert detail["task"]["reason"] == "permission_required"
    assert detail["task"]["consumption"]["turns"] == 1, "a budget of its own"
    assert detail["task"]["session_id"] == first.ack.session_id


def test_a_cancel_that_comes_at_any_moment_ends_the_task_as_cancelled(tmp_path: Path) -> None:
    steps = [call("read_file", {"path": "README.md", "limit": number + 1}, f"c{number}") for number in range(20)]
    steps.append(held())  # It does not end by itself, however late the cancel comes.
    with Simulator(scripted(*steps)) as simulator:
        workspace(tmp_path / "0", simulator.base_url)
        with open_host(HostOptions(tmp_path / "0")) as host:
            running = start(host)
            assert running.tell(CancelTask(running.ack.task_id)).accepted
            assert running.finish()["task"]["state"] == "cancelled"
        for turns in range(1, 5):
            with Simulator(scripted(*steps)) as again:
                workspace(tmp_path / str(turns), again.base_url)
                with open_host(HostOptions(tmp_path / str(turns))) as host:
                    running = start(host)
                    for _ in range(turns):
                        running.until_event("TurnStarted")
                    assert running.tell(CancelTask(running.ack.task_id)).accepted
                    assert running.finish()["task"]["state"] == "cancelled"


def test_two_tasks_that_are_started_at_once_are_one_and_a_refusal(tmp_path: Path) -> None:
    with Simulator(scripted(held())) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            both = [host.port.dispatch(StartTask(f"r{number}", "work")) for number in range(2)]
            outcomes = [future.exception(60) for future in both]
            refused = [error for error in outcomes if error is not None]
            assert len(refused) == 1 and isinstance(refused[0], WorkspaceError)
            assert refused[0].code == "workspace_owned"
