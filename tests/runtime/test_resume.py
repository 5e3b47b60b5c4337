import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.hosted import Running, start, workspace
from support.project import Project, call, make_project, say, scripted
from support.workspaces import git

from fluzo.core.errors import ConfigError, FluzoError, UsageError, WorkspaceError
from fluzo.core.port import AnswerPermission, ResumePlan, ResumeTask, StartTask
from fluzo.host import Host, HostOptions, open_host
from fluzo.simulator.server import Simulator

EDIT = call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"}, "e1")
TOUCH = call("run", {"argv": ["touch", "made"]}, "c1")
AGAIN = call("run", {"argv": ["touch", "made"]}, "c2")
SCRIPT = "echo run >> ran; echo ready > pipe; sleep 60"
RUN = call("run", {"shell": True, "script": SCRIPT}, "c1")
RERUN = call("run", {"shell": True, "script": SCRIPT}, "c2")


def plan_of(host: Host, task_id: str) -> Mapping[str, Any]:
    data: Mapping[str, Any] = host.port.query(ResumePlan(task_id)).result(60).data
    return data


def resume(host: Host, task_id: str, **more: Any) -> Running:
    plan = plan_of(host, task_id)
    ack = host.port.dispatch(ResumeTask(os.urandom(8).hex(), task_id, plan["reconciled"], **more)).result(60)
    assert ack.accepted
    return Running(host, ack, host.port.subscribe(ack.task_id, ack.cursor))


def refused(host: Host, command: ResumeTask | StartTask) -> FluzoError:
    with pytest.raises(FluzoError) as error:
        host.port.dispatch(command).result(60)
    return error.value


def killed(root: Path, base_url: str) -> Project:
    """A run that is killed while its command runs."""
    project = make_project(root, base_url)
    os.mkfifo(root / "pipe")
    process = project.start("run", "--yolo", "do it", stdin=-3, stdout=-3, stderr=-3)
    assert (root / "pipe").read_text() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    return project


def test_a_blocked_task_goes_on_in_a_new_attempt_that_is_linked_to_the_old_one(tmp_path: Path) -> None:
    with Simulator(scripted(TOUCH, AGAIN, say("done"))) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            first = start(host).finish()
            assert first["task"]["reason"] == "permission_required"
            running = resume(host, first["task"]["id"], allow=(("touch", "made"),))
            detail = running.finish()
            names = running.event_names()
        assert simulator.finish() == []
    one, two = detail["attempts"]
    assert (one["number"], two["number"], two["state"]) == (1, 2, "completed")
    assert one["trace_id"] != two["trace_id"]
    assert detail["task"]["state"] == "completed" and (tmp_path / "made").exists()
    assert detail["task"]["consumption"]["turns"] == 3, "what was used up stays used up"
    assert "ResumeReconciled" in names


def test_resuming_carries_over_neither_grants_nor_yolo(tmp_path: Path) -> None:
    blocked = call("ask_user", {"question": "which?"}, "q1")
    with Simulator(scripted(TOUCH, blocked, AGAIN)) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            first = start(host, yolo=True).finish()
            assert first["task"]["reason"] == "input_required"
            detail = resume(host, first["task"]["id"]).finish()
    assert detail["task"]["reason"] == "permission_required"
    assert detail["task"]["result"]["yolo"] is False


def test_every_difference_since_the_task_stopped_is_named(tmp_path: Path) -> None:
    with Simulator(scripted(EDIT, TOUCH)) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            task_id = start(host).finish()["task"]["id"]
            assert plan_of(host, task_id)["differences"] == []
            (tmp_path / "sheep.py").write_text("COUNT = 3\n")
            git(tmp_path, "commit", "-qm", "meanwhile", "--", "README.md", "sheep.py")
            git(tmp_path, "switch", "-qc", "elsewhere")
            found = {item["what"]: item for item in plan_of(host, task_id)["differences"]}
    assert set(found) == {"file", "branch", "head"}
    assert found["file"]["path"] == "sheep.py"
    assert (found["branch"]["recorded"], found["branch"]["now"]) == ("main", "elsewhere")


def test_a_plan_that_is_no_longer_true_is_refused(tmp_path: Path) -> None:
    with Simulator(scripted(EDIT, TOUCH)) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            task_id = start(host).finish()["task"]["id"]
            seen = plan_of(host, task_id)["reconciled"]
            (tmp_path / "sheep.py").write_text("COUNT = 3\n")
            error = refused(host, ResumeTask("r", task_id, seen))
            assert isinstance(error, WorkspaceError) and error.code == "workspace_changed"
            assert len(simulator.requests) == 2


def test_a_finished_task_does_not_go_on(tmp_path: Path) -> None:
    with Simulator(scripted(say("done"))) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            task_id = start(host).finish()["task"]["id"]
            plan = plan_of(host, task_id)
            assert plan["resumable"] is False
            error = refused(host, ResumeTask("r", task_id, plan["reconciled"]))
    assert isinstance(error, UsageError) and "--session" in error.hint


def test_a_used_up_limit_goes_on_only_with_an_extension_on_record(tmp_path: Path) -> None:
    with Simulator(scripted(EDIT, say("done"))) as simulator:
        workspace(tmp_path, simulator.base_url, more="[harness]\nmax_turns = 1\n")
        with open_host(HostOptions(tmp_path)) as host:
            task_id = start(host).finish()["task"]["id"]
            again = resume(host, task_id).finish()
            assert again["task"]["reason"] == "budget_exhausted"
            assert len(simulator.requests) == 1
            limit = plan_of(host, task_id)["limit"]
            assert limit == {"limit": "max_turns", "used": 1, "allowed": 1, "raised": 2}
            running = resume(host, task_id, extend={limit["limit"]: limit["raised"]})
            detail = running.finish()
            extended = [event.payload._asdict() for event in running.events() if event.type == "LimitsExtended"]
    assert detail["task"]["state"] == "completed"
    assert extended == [{"limit": "max_turns", "old": 1, "new": 2, "by": "user"}]
    told = str(simulator.requests[-1].body["messages"])
    assert "The task stopped at a limit and now goes on." in told


def test_what_a_raised_limit_would_be_is_used_and_as_much_again_as_a_new_task_has(tmp_path: Path) -> None:
    with Simulator(scripted(EDIT, say("done"))) as simulator:
        workspace(tmp_path, simulator.base_url, more="[harness]\nmax_turns = 1\n")
        with open_host(HostOptions(tmp_path)) as host:
            task_id = start(host).finish()["task"]["id"]
    with Simulator(scripted(say("never asked"))):
        text = (tmp_path / ".fluzo").read_text()
        (tmp_path / ".fluzo").write_text(text.replace("max_turns = 1", "max_turns = 30"))
        with open_host(HostOptions(tmp_path)) as host:
            assert plan_of(host, task_id)["limit"]["raised"] == 31


def test_only_a_task_that_a_limit_blocked_tells_of_one(tmp_path: Path) -> None:
    with Simulator(scripted(TOUCH)) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            first = start(host).finish()
            assert first["task"]["reason"] == "permission_required"
            assert plan_of(host, first["task"]["id"])["limit"] is None


def test_the_command_names_the_limit_and_how_it_is_raised(tmp_path: Path) -> None:
    with Simulator(scripted(EDIT, say("done"))) as simulator:
        project = make_project(tmp_path, simulator.base_url)
        project.fluzo("--set", "harness.max_turns=1", "run", "do it")
        asked = project.fluzo("--set", "harness.max_turns=1", "sessions", "resume", "last")
        assert b"max_turns: 1 of 1 used; it blocks again at once unless it is raised" in asked.stderr
        assert b"--extend max_turns=2" in asked.stderr
        done = project.fluzo("sessions", "resume", "last", "--yes", "--extend", "max_turns=2")
        assert done.returncode == 0, done.stderr.decode()


def test_the_same_resume_request_starts_one_attempt(tmp_path: Path) -> None:
    with Simulator(scripted(TOUCH, say("done"))) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            task_id = start(host).finish()["task"]["id"]
            command = ResumeTask("same", task_id, plan_of(host, task_id)["reconciled"])
            ack = host.port.dispatch(command).result(60)
            Running(host, ack, host.port.subscribe(task_id, ack.cursor)).finish()
            assert host.port.dispatch(command).result(60).accepted
        assert len(simulator.requests) == 2


@pytest.mark.parametrize(("extend", "words"), [({"max_turn": 9}, "not a limit"), ({"max_turns": 1}, "higher")])
def test_a_wrong_extension_starts_nothing(tmp_path: Path, extend: dict[str, float], words: str) -> None:
    with Simulator(scripted(TOUCH)) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            task_id = start(host).finish()["task"]["id"]
            plan = plan_of(host, task_id)
            error = refused(host, ResumeTask("r", task_id, plan["reconciled"], extend=extend))
            assert words in error.message
            assert len(simulator.requests) == 1


def test_a_command_of_unknown_outcome_is_not_repeated_by_any_grant_or_mode(tmp_path: Path) -> None:
    with Simulator(scripted(RUN, RERUN)) as simulator:
        killed(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            task_id = host.port.query(ResumePlan("last")).result(60).data["task_id"]
            (unknown,) = plan_of(host, task_id)["unknown"]
            assert "can not be told" in unknown["observed"] and "twice" in unknown["risk"]
            detail = resume(host, task_id, yolo=True).finish()
    assert detail["task"]["reason"] == "permission_required"
    assert detail["task"]["result"]["permission_requests"][0]["reason"] == "may_repeat_unknown"
    assert (tmp_path / "ran").read_text() == "run\n"


def test_the_user_may_allow_exactly_that_repetition_and_it_is_used_up_by_it(tmp_path: Path) -> None:
    quick = call("run", {"shell": True, "script": SCRIPT}, "c3")
    with Simulator(scripted(RUN, RERUN, quick)) as simulator:
        killed(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            task_id = host.port.query(ResumePlan("last")).result(60).data["task_id"]
            (unknown,) = plan_of(host, task_id)["unknown"]
            running = resume(host, task_id, retry=(unknown["operation_id"],))
            assert (tmp_path / "pipe").read_text() == "ready\n"
            assert running.task()["grants"][-1]["consumed_at"]
        assert (tmp_path / "ran").read_text() == "run\nrun\n"


def test_the_user_is_asked_with_the_risk_and_may_answer_once(tmp_path: Path) -> None:
    with Simulator(scripted(RUN, RERUN, say("left alone"))) as simulator:
        killed(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            task_id = host.port.query(ResumePlan("last")).result(60).data["task_id"]
            running = resume(host, task_id, interactive=True, yolo=True)
            question = running.pending()
            assert question["reason"] == "may_repeat_unknown" and "twice" in question["text"]
            running.tell(AnswerPermission(task_id, question["operation_id"], question["fingerprint"], "deny"))
            assert running.finish()["task"]["state"] == "completed"
    assert (tmp_path / "ran").read_text() == "run\n"


def test_the_agent_is_told_what_is_unknown_and_every_call_has_a_result(tmp_path: Path) -> None:
    last = {
        "expect": {
            "tool_results": [{"call": "c1", "contains": ["outcome unknown"]}],
            "any_contains": ["it is not known whether they were done"],
        },
        **_text("I will look first"),
    }
    with Simulator(scripted(RUN, last)) as simulator:
        killed(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            task_id = host.port.query(ResumePlan("last")).result(60).data["task_id"]
            assert resume(host, task_id).finish()["task"]["state"] == "completed"
        assert simulator.finish() == []


def test_a_lost_session_open_and_a_copied_store_start_nothing(tmp_path: Path) -> None:
    with Simulator(scripted(TOUCH)) as simulator:
        workspace(tmp_path / "one", simulator.base_url)
        with open_host(HostOptions(tmp_path / "one")) as host:
            task_id = start(host).finish()["task"]["id"]
        (tmp_path / "one").rename(tmp_path / "two")
        with open_host(HostOptions(tmp_path / "two")) as host:
            error = refused(host, ResumeTask("r", task_id, "0" * 64))
            assert isinstance(error, ConfigError) and error.code == "consent_required"
        Project(tmp_path / "two").fluzo("config", "trust", "--yes")
        with open_host(HostOptions(tmp_path / "two")) as host:
            plan = plan_of(host, task_id)
            assert plan["differences"][0]["what"] == "workspace"
            error = refused(host, ResumeTask("r", task_id, plan["reconciled"]))
            assert error.code == "workspace_changed" and "one" in error.message
        assert len(simulator.requests) == 1


def test_the_command_shows_the_plan_and_needs_a_yes(tmp_path: Path) -> None:
    with Simulator(scripted(RUN, say("done"))) as simulator:
        project = killed(tmp_path, simulator.base_url)
        asked = project.fluzo("sessions", "resume", "last")
        assert asked.returncode == 2
        assert b"UNKNOWN run" in asked.stderr and b"--retry o_" in asked.stderr
        assert b"confirmation_required" in asked.stderr
        assert len(simulator.requests) == 1
        done = project.fluzo("sessions", "resume", "last", "--yes", "--output", "json")
        assert done.returncode == 0, done.stderr.decode()
        opened = project.fluzo("sessions", "open", "last")
        assert opened.returncode == 0
        nothing = project.fluzo("sessions", "resume", "last", "--yes")
        assert (nothing.returncode, b"not_found" in nothing.stderr) == (2, True)


def _text(text: str) -> dict[str, Any]:
    return {"respond": {"parts": [{"text": text}]}}
