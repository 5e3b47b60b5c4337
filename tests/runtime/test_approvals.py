from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.hosted import Running, start, workspace
from support.project import call, say, scripted

from fluzo.core.events import PermissionAnswered
from fluzo.core.port import (
    MAX_REASON_CHARACTERS,
    AnswerPermission,
    AnswerQuestion,
    QueueIntervention,
    RevokeGrant,
    SetYolo,
    WithdrawIntervention,
)
from fluzo.host import HostOptions, open_host
from fluzo.simulator.scenario import Scenario
from fluzo.simulator.server import Simulator

TOUCH = call("run", {"argv": ["touch", "made"]}, "c1")
AGAIN = call("run", {"argv": ["touch", "made"]}, "c2")
EDIT = call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"}, "e1")


@contextmanager
def interactive(root: Path, scenario: Scenario, **more: Any) -> Iterator[tuple[Running, Simulator]]:
    with Simulator(scenario) as simulator:
        workspace(root, simulator.base_url)
        if "before" in more:
            more.pop("before")(root)
        with open_host(HostOptions(root)) as host:
            yield start(host, interactive=True, **more), simulator


def answer(running: Running, choice: Any) -> Any:
    question = running.pending()
    told = running.tell(
        AnswerPermission(running.ack.task_id, question["operation_id"], question["fingerprint"], choice)
    )
    assert told.accepted
    return question


def test_a_request_shows_the_exact_scope_and_waits_without_using_up_time(tmp_path: Path) -> None:
    with interactive(tmp_path, scripted(TOUCH, say("done"))) as (running, _):
        question = running.pending()
        assert question["scope"]["argv"] == ["touch", "made"]
        assert question["scope"]["cwd"] == "."
        assert running.task()["task"]["state"] == "waiting"
        assert not (tmp_path / "made").exists()
        running.tell(AnswerPermission(running.ack.task_id, question["operation_id"], question["fingerprint"], "once"))
        assert running.finish()["task"]["state"] == "completed"
    assert (tmp_path / "made").exists()


def test_a_reason_goes_with_a_denial_to_the_model_and_into_the_record(tmp_path: Path) -> None:
    key = "sk-abcdefghijklmnopqrstuv"
    with interactive(tmp_path, scripted(TOUCH, say("done"))) as (running, simulator):
        asked = running.pending()
        reason = f"use \x1b[31m make\ninstead of {key} " + "x" * 900
        running.tell(AnswerPermission(running.ack.task_id, asked["operation_id"], asked["fingerprint"], "deny", reason))
        running.finish()
        (recorded,) = [event.payload for event in running.events() if event.type == "PermissionAnswered"]
        told = simulator.requests[1].raw.decode()
    assert isinstance(recorded, PermissionAnswered)
    assert recorded.reason.startswith("use <U+001B>[31m make instead of [redacted] xxx")
    assert len(recorded.reason) <= MAX_REASON_CHARACTERS
    assert "the user says: use" in told
    assert key not in told
    assert not (tmp_path / "made").exists()


def test_a_reason_with_an_approval_is_dropped(tmp_path: Path) -> None:
    with interactive(tmp_path, scripted(TOUCH, say("done"))) as (running, _):
        asked = running.pending()
        running.tell(
            AnswerPermission(running.ack.task_id, asked["operation_id"], asked["fingerprint"], "once", "because")
        )
        running.finish()
        (recorded,) = [event.payload for event in running.events() if event.type == "PermissionAnswered"]
    assert isinstance(recorded, PermissionAnswered)
    assert recorded.reason == ""


def test_once_allows_once_and_asks_again(tmp_path: Path) -> None:
    with interactive(tmp_path, scripted(TOUCH, AGAIN, say("done"))) as (running, _):
        answer(running, "once")
        second = answer(running, "deny")
        detail = running.finish()
    assert second["scope"]["argv"] == ["touch", "made"]
    runs = [item for item in detail["operations"] if item["tool"] == "run"]
    assert [(item["state"], item["authorized_by"]) for item in runs] == [("known_result", "user"), ("refused", "")]
    (grant,) = detail["grants"]
    assert (grant["kind"], bool(grant["consumed_at"])) == ("once", True)


def test_this_task_allows_the_same_again_and_ends_with_the_task(tmp_path: Path) -> None:
    with interactive(tmp_path, scripted(TOUCH, AGAIN, say("done"))) as (running, _):
        answer(running, "task")
        detail = running.finish()
    runs = [item for item in detail["operations"] if item["tool"] == "run"]
    assert [item["authorized_by"] for item in runs] == ["user", "grant"]
    assert detail["grants"][0]["expired_at"]


def test_a_denial_is_told_to_the_model_and_the_task_goes_on(tmp_path: Path) -> None:
    last = {"expect": {"tool_results": [{"call": "c1", "contains": ["denied"]}]}, **_text("then not")}
    with interactive(tmp_path, scripted(TOUCH, last)) as (running, simulator):
        answer(running, "deny")
        detail = running.finish()
        assert simulator.finish() == []
    assert detail["task"]["state"] == "completed"
    assert not (tmp_path / "made").exists()


def test_an_answer_to_another_operation_is_refused_and_the_question_stays(tmp_path: Path) -> None:
    with interactive(tmp_path, scripted(TOUCH, say("done"))) as (running, _):
        question = running.pending()
        wrong = AnswerPermission(running.ack.task_id, question["operation_id"], "0" * 64, "once")
        assert running.tell(wrong).code == "stale_answer"
        right = AnswerPermission(running.ack.task_id, question["operation_id"], question["fingerprint"], "once")
        assert running.tell(right).accepted
        running.finish()
        assert not running.tell(right).accepted, "a late duplicate"


def test_a_file_that_changes_while_the_question_is_open_makes_the_approval_void(tmp_path: Path) -> None:
    def changed_by_user(root: Path) -> None:
        (root / "sheep.py").write_text("COUNT = 1  # mine\n")

    last = {"expect": {"tool_results": [{"call": "e1", "contains": ["changed while"]}]}, **_text("I will read again")}
    with interactive(tmp_path, scripted(EDIT, last), before=changed_by_user) as (running, simulator):
        question = running.pending()
        assert question["reason"] == "user_changes"
        assert "+COUNT = 2  # mine" in question["preview"]
        (tmp_path / "sheep.py").write_text("COUNT = 1  # mine, and more\n")
        running.tell(AnswerPermission(running.ack.task_id, question["operation_id"], question["fingerprint"], "once"))
        running.finish()
        assert simulator.finish() == []
    assert (tmp_path / "sheep.py").read_text() == "COUNT = 1  # mine, and more\n"


def test_an_approved_edit_of_the_users_own_change_keeps_the_rest_and_says_whose_it_was(tmp_path: Path) -> None:
    def changed_by_user(root: Path) -> None:
        (root / "sheep.py").write_text("COUNT = 1  # mine\n")

    further = call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 2", "new_text": "COUNT = 3"}, "e2")
    steps = scripted(EDIT, say("done"), further, say("again"))
    with interactive(tmp_path, steps, before=changed_by_user) as (running, _):
        answer(running, "once")
        result = running.finish()["task"]["result"]
        assert (tmp_path / "sheep.py").read_text() == "COUNT = 2  # mine\n"
        second = start(running.host, interactive=True)
        answer(second, "once")
        (mixed,) = second.finish()["task"]["result"]["changes"]
    assert mixed["preexisting"] and "own_lines" not in mixed, "what the first task left is not the user's"
    assert result["changes"] == [
        {"path": "sheep.py", "status": "modified", "added": 1, "removed": 1, "preexisting": True, "own_lines": [[1, 1]]}
    ]


def test_switching_yolo_on_settles_the_open_question_and_is_named_as_the_one_who_did(tmp_path: Path) -> None:
    with interactive(tmp_path, scripted(TOUCH, AGAIN, say("done"))) as (running, _):
        running.pending()
        assert running.tell(SetYolo(running.ack.session_id, True)).accepted
        detail = running.finish()
        assert "YoloChanged" in running.event_names()
    runs = [item for item in detail["operations"] if item["tool"] == "run"]
    assert [item["authorized_by"] for item in runs] == ["yolo", "yolo"]


def test_the_answer_is_on_record_before_the_task_runs_again(tmp_path: Path) -> None:
    with interactive(tmp_path, scripted(TOUCH, say("done"))) as (running, _):
        answer(running, "once")
        running.finish()
        names = running.event_names()
    asked = names.index("PermissionRequested")
    assert names[asked : asked + 7] == [
        "PermissionRequested",
        "TaskStateChanged",
        "PermissionAnswered",
        "GrantCreated",
        "TaskStateChanged",
        "OperationDecided",
        "OperationIntended",
    ]


def test_a_revoked_grant_no_longer_covers_the_next_dispatch(tmp_path: Path) -> None:
    with interactive(tmp_path, scripted(TOUCH, _held(AGAIN), say("done"))) as (running, simulator):
        answer(running, "task")
        assert simulator.wait_until_held("gate")
        (grant,) = running.task()["grants"]
        assert running.tell(RevokeGrant(running.ack.task_id, grant["id"])).accepted
        simulator.release("gate")
        answer(running, "deny")
        detail = running.finish()
    assert detail["grants"][0]["revoked_at"]


def test_a_question_of_the_agent_is_answered_by_the_user(tmp_path: Path) -> None:
    ask = call("ask_user", {"question": "Which colour?", "choices": ["red", "blue"]}, "q1")
    last = {"expect": {"tool_results": [{"call": "q1", "contains": ["blue"]}]}, **_text("blue it is")}
    with interactive(tmp_path, scripted(ask, last)) as (running, simulator):
        question = running.pending()
        assert (question["kind"], question["choices"]) == ("question", ["red", "blue"])
        assert running.tell(AnswerQuestion(running.ack.task_id, question["operation_id"], "blue")).accepted
        running.finish()
        assert simulator.finish() == []


def test_several_choices_reach_the_model_by_their_names_and_one_that_was_not_offered_is_refused(tmp_path: Path) -> None:
    choices = ["red, dark", "green", "blue"]
    ask = call("ask_user", {"question": "Which?", "choices": choices, "several": True}, "q1")
    wanted = 'The user chooses ["red, dark", "blue"] and adds: the rest later'
    last = {"expect": {"tool_results": [{"call": "q1", "contains": [wanted]}]}, **_text("both")}
    with interactive(tmp_path, scripted(ask, last)) as (running, simulator):
        question = running.pending()
        assert question["several"] is True
        task_id, operation_id = running.ack.task_id, question["operation_id"]
        for chosen in ((4,), (0,), (1, 1)):
            refused = running.tell(AnswerQuestion(task_id, operation_id, "", chosen))
            assert (refused.accepted, refused.code) == (False, "usage")
            assert "it has 3 choices" in refused.message
        assert running.tell(AnswerQuestion(task_id, operation_id, "the rest later", (3, 1))).accepted
        assert running.tell(AnswerQuestion(task_id, operation_id, "late", ())).code == "stale_answer"
        running.finish()
        assert simulator.finish() == []
        (said,) = [item.payload for item in running.events() if item.type == "QuestionAnswered"]
    assert (said.answer, said.chosen) == ("the rest later", ("red, dark", "blue"))


def test_only_one_choice_is_taken_where_the_question_does_not_take_several(tmp_path: Path) -> None:
    ask = call("ask_user", {"question": "Which colour?", "choices": ["red", "blue"]}, "q1")
    last = {"expect": {"tool_results": [{"call": "q1", "contains": ['The user chooses ["red"]']}]}, **_text("red")}
    with interactive(tmp_path, scripted(ask, last)) as (running, simulator):
        question = running.pending()
        assert question["several"] is False
        task_id, operation_id = running.ack.task_id, question["operation_id"]
        assert running.tell(AnswerQuestion(task_id, operation_id, "", (1, 2))).code == "usage"
        assert running.tell(AnswerQuestion(task_id, operation_id, "", (1,))).accepted
        running.finish()
        assert simulator.finish() == []


def test_an_intervention_reaches_the_model_at_the_next_boundary(tmp_path: Path) -> None:
    first = _held(call("read_file", {"path": "README.md"}, "r1"))
    last = {"expect": {"any_contains": ["and mind the goats"]}, **_text("done")}
    with interactive(tmp_path, scripted(first, last)) as (running, simulator):
        assert simulator.wait_until_held("gate")
        assert running.tell(QueueIntervention(running.ack.task_id, "and mind the goats")).accepted
        simulator.release("gate")
        running.finish()
        names = running.event_names()
        assert simulator.finish() == []
    assert names.index("InterventionQueued") < names.index("InterventionConsumed")


def test_a_message_that_was_taken_back_never_reaches_the_model(tmp_path: Path) -> None:
    first = _held(call("read_file", {"path": "README.md"}, "r1"))
    last = {"expect": {"any_lacks": ["and mind the goats"]}, **_text("done")}
    with interactive(tmp_path, scripted(first, last)) as (running, simulator):
        assert simulator.wait_until_held("gate")
        running.tell(QueueIntervention(running.ack.task_id, "and mind the goats"))
        queued = running.until_event("InterventionQueued").payload._asdict()["intervention_id"]
        assert running.task()["interventions"] == {queued: "and mind the goats"}
        assert running.tell(WithdrawIntervention(running.ack.task_id, queued)).accepted
        assert running.tell(WithdrawIntervention(running.ack.task_id, queued)).code == "not_found"
        simulator.release("gate")
        running.finish()
        assert simulator.finish() == []


def _text(text: str) -> dict[str, Any]:
    return {"respond": {"parts": [{"text": text}]}}


def _held(step: dict[str, Any]) -> dict[str, Any]:
    return {**step, "respond": {**step["respond"], "parts": [{"hold": "gate"}, *step["respond"]["parts"]]}}
