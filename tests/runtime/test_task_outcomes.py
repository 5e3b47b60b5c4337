import json
from pathlib import Path
from typing import Any

import pytest
from support.hosted import played
from support.project import call, say, scripted, shipped

from fluzo.core.events import Event
from fluzo.simulator import library

SUCCESS = 'import sys; sys.exit(0 if open("sheep.py").read() == "COUNT = 2\\n" else 1)'
CHECK = ("python3", "-c", SUCCESS)
EDIT = call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"}, "call_edit")


def names(events: list[Event]) -> list[str]:
    return [event.type for event in events]


def test_the_whole_record_of_a_run_that_reads_and_answers(tmp_path: Path) -> None:
    detail, events, simulator = played(tmp_path, shipped("two-turn"))
    assert simulator.finish() == []
    assert detail["task"]["result"]["status"] == "completed"
    assert names(events) == [
        "SessionCreated",
        "TaskCreated",
        "TaskStateChanged",
        "AttemptStarted",
        "BaselineCaptured",
        "ContextAssembled",
        "TaskStateChanged",
        "TurnStarted",
        "MessageRecorded",
        "OperationRequested",
        "OperationDecided",
        "OperationIntended",
        "OperationEnded",
        "UsageSettled",
        "MessageRecorded",
        "OperationRequested",
        "OperationDecided",
        "OperationIntended",
        "OperationEnded",
        "MessageRecorded",
        "TurnStarted",
        "OperationRequested",
        "OperationDecided",
        "OperationIntended",
        "OperationEnded",
        "UsageSettled",
        "MessageRecorded",
        "AttemptEnded",
        "TaskStateChanged",
    ]
    assert [event.seq for event in events] == list(range(events[0].seq, events[0].seq + len(events)))
    assert {event.scope.trace_id for event in events} == {detail["attempts"][0]["trace_id"]}
    assert {event.scope.task_id for event in events} == {detail["task"]["id"]}


def test_a_task_without_declared_checks_is_completed_and_plainly_unverified(tmp_path: Path) -> None:
    detail, _, _ = played(tmp_path, scripted(say("nothing to do")))
    result = detail["task"]["result"]
    assert (result["status"], result["reason"]) == ("completed", "")
    assert result["verification"] == {"verdict": "unverified", "current": False, "commands": []}
    assert result["message"] == "nothing to do"


def test_a_declared_check_decides_and_its_pass_is_current(tmp_path: Path) -> None:
    detail, events, _ = played(tmp_path, scripted(EDIT, say("done")), verify=(CHECK,))
    result = detail["task"]["result"]
    assert result["verification"]["verdict"] == "passed" and result["verification"]["current"]
    assert result["changes"] == [
        {"path": "sheep.py", "status": "modified", "added": 1, "removed": 1, "preexisting": False}
    ]
    assert "-COUNT = 1\n+COUNT = 2\n" in result["diff"]
    assert result["git"] == {"staged": False, "committed": False}
    assert (tmp_path / "sheep.py").read_text() == "COUNT = 2\n"
    assert names(events).index("VerificationStarted") < names(events).index("VerificationEnded")


def test_a_failed_check_goes_back_to_the_agent_who_repairs_it(tmp_path: Path) -> None:
    scenario = scripted(say("all fine"), {**EDIT, "expect": {"last_contains": ["failed (exit 1)"]}}, say("now it is"))
    detail, _, simulator = played(tmp_path, scenario, verify=(CHECK,))
    assert simulator.finish() == []
    assert detail["task"]["result"]["verification"]["verdict"] == "passed"
    assert detail["task"]["result"]["message"] == "now it is"


def test_a_check_that_never_passes_ends_the_task_as_failed(tmp_path: Path) -> None:
    scenario = scripted(say("done"), say("done"), say("done"))
    detail, _, simulator = played(tmp_path, scenario, verify=(CHECK,))
    assert simulator.finish() == []
    result = detail["task"]["result"]
    assert (result["status"], result["reason"]) == ("failed", "verification_failed")
    assert result["verification"]["commands"][0]["exit_status"] == 1
    assert detail["task"]["state"] == "failed"


def test_a_waiver_is_recorded_and_runs_no_check(tmp_path: Path) -> None:
    more = f"[verification]\ncommands = [{json.dumps(list(CHECK))}]\n"
    detail, events, _ = played(tmp_path, scripted(say("done")), more=more, waive_verification=True)
    assert detail["task"]["result"]["verification"]["verdict"] == "waived"
    assert "VerificationWaived" in names(events) and "VerificationStarted" not in names(events)


def test_a_check_that_changes_a_file_after_an_earlier_one_still_binds_to_what_is_there(tmp_path: Path) -> None:
    dirty = ("python3", "-c", 'open("new.txt", "w").write("x")')
    detail, _, _ = played(tmp_path, scripted(say("done")), verify=(dirty,))
    result = detail["task"]["result"]
    assert result["verification"]["current"]
    assert [change["path"] for change in result["changes"]] == ["new.txt"]


@pytest.mark.parametrize(
    ("setting", "steps", "limit"),
    [
        ("max_turns = 1", [EDIT], "max_turns"),
        ("max_tool_calls = 1", [EDIT, call("read_file", {"path": "README.md"}, "c2")], "max_tool_calls"),
    ],
)
def test_a_used_up_budget_blocks_with_its_figures(
    tmp_path: Path, setting: str, steps: list[dict[str, Any]], limit: str
) -> None:
    detail, events, _ = played(tmp_path, scripted(*steps), more=f"[harness]\n{setting}\n")
    result = detail["task"]["result"]
    assert (result["status"], result["reason"]) == ("blocked", "budget_exhausted")
    assert result["error"]["detail"] == {"limit": limit, "used": 1, "allowed": 1}
    assert detail["task"]["state"] == "blocked"
    assert "BudgetExhausted" in names(events)
    assert (tmp_path / "sheep.py").read_text() == "COUNT = 2\n", "what was done stays"


def test_a_token_budget_that_cannot_hold_the_request_sends_nothing(tmp_path: Path) -> None:
    scenario = scripted(say("never asked"))
    detail, _, simulator = played(tmp_path, scenario, more="[harness]\nmax_total_tokens = 5000\n")
    assert detail["task"]["reason"] == "budget_exhausted"
    assert simulator.requests == []


def test_a_command_nobody_granted_is_not_run_and_says_how_to_grant_it(tmp_path: Path) -> None:
    run = call("run", {"argv": ["touch", "made"]})
    detail, events, _ = played(tmp_path, scripted(run))
    result = detail["task"]["result"]
    assert (result["status"], result["reason"]) == ("blocked", "permission_required")
    assert "--allow" in result["error"]["hint"]
    assert result["permission_requests"][0]["scope"]["argv"] == ["touch", "made"]
    assert not (tmp_path / "made").exists()
    assert names(events).count("OperationIntended") == 1, "only the inference"


def test_an_allowed_command_runs_and_one_more_word_does_not(tmp_path: Path) -> None:
    steps = (call("run", {"argv": ["touch", "a"]}, "c1"), call("run", {"argv": ["touch", "a", "b"]}, "c2"))
    detail, _, _ = played(tmp_path, scripted(*steps), allow=(("touch", "a"),))
    assert detail["task"]["reason"] == "permission_required"
    assert (tmp_path / "a").exists() and not (tmp_path / "b").exists()
    (granted,) = [item for item in detail["operations"] if item["tool"] == "run" and item["state"] == "known_result"]
    assert granted["authorized_by"] == "grant"


def test_a_rule_of_the_user_against_commands_ends_the_run_as_denied(tmp_path: Path) -> None:
    run = call("run", {"argv": ["touch", "made"]})
    detail, _, _ = played(tmp_path, scripted(run), more='[policy]\nshell = "deny"\n', yolo=True)
    assert (detail["task"]["state"], detail["task"]["reason"]) == ("blocked", "permission_denied")
    assert not (tmp_path / "made").exists()


def test_protected_files_are_refused_to_the_model_also_under_yolo(tmp_path: Path) -> None:
    steps = (
        call("write_file", {"path": ".git/hooks/pre-commit", "content": "x"}, "c1"),
        call("read_file", {"path": ".fluzo"}, "c2"),
        {"expect": {"tool_results": [{"call": "c2", "contains": ["error"]}]}, **_say("ok")},
    )
    detail, _, simulator = played(tmp_path, scripted(*steps), yolo=True)
    assert simulator.finish() == []
    assert detail["task"]["result"]["status"] == "completed"
    assert not (tmp_path / ".git/hooks/pre-commit").exists()


def test_yolo_runs_commands_and_is_named_as_the_one_who_allowed_them(tmp_path: Path) -> None:
    detail, events, _ = played(tmp_path, scripted(call("run", {"argv": ["touch", "made"]}), say("done")), yolo=True)
    assert (tmp_path / "made").exists()
    assert detail["task"]["result"]["yolo"] is True
    decided = [event.payload._asdict() for event in events if event.type == "OperationDecided"]
    assert [item["by"] for item in decided] == ["policy", "yolo", "policy"]


def test_a_question_without_anybody_to_answer_is_input_required(tmp_path: Path) -> None:
    ask = call("ask_user", {"question": "Which colour?"})
    detail, _, _ = played(tmp_path, scripted(ask))
    result = detail["task"]["result"]
    assert (result["status"], result["reason"]) == ("blocked", "input_required")
    assert result["permission_requests"][0]["question"] == "Which colour?"


def test_calls_that_cannot_be_read_are_answered_and_nothing_runs(tmp_path: Path) -> None:
    bad = call("no_such_tool", {"x": 1}, "c1")
    wrong = call("read_file", {"nonsense": True}, "c2")
    last = {"expect": {"tool_results": [{"call": "c1", "contains": ["no_such_tool"]}]}, **_say("sorry")}
    detail, events, simulator = played(tmp_path, scripted(bad, wrong, last))
    assert simulator.finish() == []
    assert [item["state"] for item in detail["operations"] if item["tool"] != "model"] == ["refused", "refused"]
    assert names(events).count("OperationRefused") == 2


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("error-401", "provider_auth"),
        ("error-429", "rate_limited"),
        ("html", "provider_protocol"),
        ("malformed", "provider_protocol"),
        ("empty", "provider_empty"),
        ("incomplete", "provider_incomplete"),
        ("error-in-stream", None),
        ("redirect", "redirect_blocked"),
    ],
)
def test_a_failing_server_blocks_the_task_with_a_code_of_its_own(tmp_path: Path, name: str, code: str | None) -> None:
    detail, _, _ = played(tmp_path, shipped(name))
    result = detail["task"]["result"]
    assert result["status"] == "blocked"
    assert result["reason"] == code if code else result["reason"].startswith("provider_")
    assert result["error"]["message"] and "<html" not in result["error"]["message"]


def test_the_python_fixture_is_repaired_with_its_tests_untouched(tmp_path: Path) -> None:
    fixture = library.fixture_path("python-interval")
    files = {name: (fixture / name).read_text() for name in library.tree_files(fixture)}
    detail, _, simulator = played(
        tmp_path, shipped("python-interval"), files=files, verify=(("python3", "-m", "unittest"),)
    )
    assert simulator.finish() == []
    result = detail["task"]["result"]
    assert result["status"] == "completed"
    assert [change["path"] for change in result["changes"] if not change["path"].startswith("__")] == ["interval.py"]


def _say(text: str) -> dict[str, Any]:
    return {"respond": {"parts": [{"text": text}]}}
