from collections.abc import Mapping
from typing import Any

import pytest

from fluzo.commands.presenter import (
    Line,
    Presenter,
    permission_answer,
    permission_lines,
    question_lines,
    summary_lines,
)
from fluzo.core import events
from fluzo.core.events import Event, Payload, Scope


def event(payload: Payload, operation_id: str = "o_1") -> Event:
    return Event(1, "e_1", "2026-01-01T00:00:00.000000Z", Scope("s", "t", "a", operation_id), payload)


def requested(tool: str, action: str, summary: str) -> events.OperationRequested:
    return events.OperationRequested(tool, action, summary, "f", 1)


def ended(summary: str, ok: bool = True, code: str = "", **result: object) -> events.OperationEnded:
    return events.OperationEnded(ok, code, summary, result)


def shown(*payloads: Payload, interactive: bool = False, unicode: bool = True) -> list[str]:
    presenter = Presenter(interactive=interactive)
    return [line.text(unicode=unicode) for payload in payloads for line in presenter.lines(event(payload))]


def test_an_operation_is_one_line_when_it_has_ended() -> None:
    read = requested("read_file", "read", "src/interval.rs")
    assert shown(read) == []
    assert shown(read, ended("src/interval.rs", lines=86)) == [
        "▸ read    src/interval.rs                                86 lines"
    ]


@pytest.mark.parametrize(
    ("tool", "action", "result", "ok", "line"),
    [
        ("read_file", "read", {"lines": 1}, True, "▸ read    it   1 line"),
        ("list_files", "list", {"entries": 2, "truncated": True}, True, "▸ list    it   2 entries, more exist"),
        ("search", "search", {"hits": 0}, True, "▸ search  it   0 hits"),
        ("edit_file", "edit", {"lines_added": 1, "lines_removed": 2}, True, "✓ edit    it   +1 -2"),
        ("delete_file", "delete", {"lines_added": 0, "lines_removed": 9}, True, "✓ delete  it   +0 -9"),
        ("run", "execute", {"exit_status": 0, "elapsed_seconds": 1.84}, True, "▸ run     it   exit 0   1.8 s"),
        ("run", "execute", {"exit_status": 101}, False, "▸ run     it   exit 101"),
        ("run", "execute", {"exit_status": None, "timed_out": True}, False, "✗ run     it   timed out"),
        ("run", "execute", {"exit_status": None, "signal": 9}, False, "✗ run     it   signal 9"),
        ("run", "execute", {"exit_status": 0, "still_running": [7]}, True, "▸ run     it   exit 0   still running: 7"),
        ("git", "git_read", {"exit_status": 0}, True, "▸ git     it   exit 0"),
        ("edit_file", "edit", {"message": "it drifted"}, False, "✗ edit    it   it drifted"),
        ("edit_file", "edit", {}, False, "✗ edit    it   stale_file"),
    ],
)
def test_the_outcome_is_the_figures_that_matter(
    tool: str, action: str, result: dict[str, Any], ok: bool, line: str
) -> None:
    lines = shown(requested(tool, action, "it"), ended("it", ok, "" if ok else "stale_file", **result))
    assert [" ".join(text.split()) for text in lines] == [" ".join(line.split())]


def test_a_long_subject_pushes_the_outcome_and_is_not_cut() -> None:
    (line,) = shown(requested("read_file", "read", "d/" * 40), ended("d/" * 40, lines=3))
    assert line == f"▸ read    {'d/' * 40}  3 lines"


def test_wide_characters_count_as_two_cells() -> None:
    narrow, wide = Line("plain", "read", "ab", "x").text(), Line("plain", "read", "漢", "x").text()
    assert len(wide) == len(narrow) - 1


def test_without_unicode_the_glyphs_are_ascii() -> None:
    for tone in ("plain", "good", "bad", "ask", "note"):
        assert Line(tone, "read", "x").text(unicode=False).isascii()  # type: ignore[arg-type]


def test_what_could_act_on_a_terminal_is_made_visible() -> None:
    hostile = "a\x1b[31m\u202eb\nc"
    lines = shown(
        requested("run", "execute", hostile),
        ended(hostile, False, "x", message=hostile),
        events.OperationRefused("path_refused", hostile),
        events.WarningRaised("w", hostile),
        events.QuestionAsked(hostile),
    )
    assert len(lines) == 4
    for line in lines:
        assert "<U+001B>" in line
        assert "\x1b" not in line
        assert "\u202e" not in line
        assert "\n" not in line


def test_a_model_request_is_no_line_and_its_warnings_are() -> None:
    infer = requested("model", "infer", "m turn 1")
    assert shown(infer, ended("m turn 1", outcome="complete")) == []
    assert shown(infer, ended("m turn 1", warnings=["text after the end"])) == ["! model   text after the end"]


def test_the_plan_is_shown_once_with_the_step_at_work() -> None:
    steps = ({"step": "look", "status": "completed"}, {"step": "repair", "status": "in_progress"})
    lines = shown(requested("update_plan", "plan", "1 of 2"), ended("1 of 2", steps=steps), events.PlanUpdated(steps))
    assert [" ".join(line.split()) for line in lines] == ["▸ plan repair 1 of 2 done"]


def test_checks_replace_the_lines_of_their_commands() -> None:
    checks = ({"argv": ["cargo", "test"], "ok": True}, {"argv": ["cargo", "fmt"], "ok": False, "exit_status": 1})
    commands = (("cargo", "test"), ("cargo", "fmt"), ("cargo", "doc"))
    lines = shown(
        events.VerificationStarted(commands, "r"),
        requested("run", "execute", "cargo test"),
        ended("cargo test", exit_status=0),
        events.VerificationEnded("failed", "r", checks),
        requested("run", "execute", "ls"),
        ended("ls", exit_status=0),
    )
    assert [" ".join(line.split()) for line in lines] == [
        "✓ check cargo test passed, current",
        "✗ check cargo fmt failed, exit 1",
        "! check cargo doc not run",
        "▸ run ls exit 0",
    ]


def test_a_refusal_says_what_and_by_which_code() -> None:
    run = requested("run", "execute", "make deploy")
    denied = events.OperationRefused("permission_denied", "the user denied it")
    assert " ".join(shown(run, denied)[0].split()) == "✗ run make deploy denied"
    stale = events.OperationRefused("stale_file", "x changed")
    assert " ".join(shown(requested("edit_file", "edit", "x"), stale)[0].split()) == "✗ edit x [stale_file]"
    assert " ".join(shown(events.OperationRefused("tool_arguments", "no path"))[0].split()) == (
        "✗ refused no path [tool_arguments]"
    )


def test_without_a_person_a_question_is_a_line_and_with_one_it_is_asked() -> None:
    asked = (
        requested("run", "execute", "make"),
        events.PermissionRequested("run", "make", {}, "policy_shell"),
        events.OperationRefused("permission_required", "nobody"),
    )
    assert [" ".join(line.split()) for line in shown(*asked)] == ["? run make needs permission"]
    assert shown(*asked[:2], interactive=True) == []


def test_an_unknown_outcome_says_that_it_is_unknown() -> None:
    unknown = events.OperationMarkedUnknown("make", "the process was lost")
    assert " ".join(shown(requested("run", "execute", "make"), unknown)[0].split()) == (
        "✗ run make outcome unknown: the process was lost"
    )


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (events.AttemptStarted(1, "m", yolo=True), "! yolo"),
        (events.VerificationWaived("user"), "waived by you"),
        (events.BudgetExhausted("max_turns", 30, 30), "30 of 30 used"),
        (events.WarningRaised("disk_low", "little room"), "little room"),
    ],
)
def test_what_changes_the_trust_in_a_run_is_a_line(payload: Payload, said: str) -> None:
    assert said in shown(payload)[0]


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("o", "once"),
        (" Once ", "once"),
        ("t", "task"),
        ("this task", "task"),
        ("D", "deny"),
        ("", None),
        ("   ", None),
        ("y", None),
        ("yes", None),
        ("o t", None),
    ],
)
def test_only_a_named_answer_is_an_answer(typed: str, answer: str | None) -> None:
    assert permission_answer(typed) == answer


def test_a_command_is_asked_with_its_exact_scope() -> None:
    request = {
        "effect": "execute",
        "text": "commands need your permission",
        "scope": {"argv": ["make", "a b", "\u202ec"], "cwd": "sub", "env": {"RUST_BACKTRACE": "digest"}},
        "env": {"RUST_BACKTRACE": "1"},
    }
    lines = permission_lines(request)
    assert "  command    make 'a b' '<U+202E>c'" in lines
    assert "  directory  sub" in lines
    assert "  with       RUST_BACKTRACE=1" in lines
    assert any("UNSANDBOXED" in line for line in lines)


def test_a_script_is_asked_line_by_line_as_it_is() -> None:
    lines = permission_lines({"scope": {"script": "cd x\nrm -rf y\x1b[2K"}})
    assert "    cd x" in lines
    assert "    rm -rf y<U+001B>[2K" in lines


def test_an_edit_is_asked_with_its_whole_diff() -> None:
    preview = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new \x1b[31m\n"
    lines = permission_lines({"scope": {"paths": ["x"], "versions": {"x": "1"}}, "preview": preview})
    assert "  path       x" in lines
    assert "  note       you had changed this file before the task began" in lines
    assert lines[-2:] == ["  -old", "  +new <U+001B>[31m"]


def test_a_secret_in_a_request_is_masked() -> None:
    lines = permission_lines({"scope": {"argv": ["curl", "-H", "Authorization: Bearer abcdefgh12345678"]}})
    assert not any("abcdefgh12345678" in line for line in lines)


def test_a_choice_can_be_named_by_its_number_and_nothing_is_an_answer_by_default() -> None:
    assert question_lines("which?", ["left", "right"]) == ["  which?", "  1  left", "  2  right"]


RESULT: Mapping[str, Any] = {
    "status": "completed",
    "reason": "",
    "task_id": "t_8f2c",
    "trace_id": "3f2a91",
    "verification": {"verdict": "passed"},
    "budget": {
        "turns": {"used": 5},
        "active_seconds": {"used": 81.9},
        "tokens": {"used": 4234, "provenance": "reported"},
    },
    "changes": [{"path": "x", "added": 1, "removed": 1}],
    "git": {"staged": False, "committed": False},
    "warnings": [],
}


def test_the_summary_tells_status_budget_and_changes() -> None:
    assert summary_lines(RESULT) == [
        "completed   5 turns   01:21   4.2k tokens (reported)   1 file +1 -1   nothing staged or committed",
        "task t_8f2c   trace 3f2a91   more: fluzo tasks show t_8f2c",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verification": {"verdict": "unverified"}}, "completed, unverified: no checks are declared"),
        ({"verification": {"verdict": "waived"}}, "completed, checks waived"),
        ({"changes": []}, "no files changed"),
        ({"git": {"staged": True, "committed": True}}, "staged and committed"),
        ({"budget": {"tokens": {"used": 12, "provenance": "estimated"}}}, "12 tokens (estimated)"),
        ({"warnings": ["little room"]}, "warning little room"),
    ],
)
def test_the_summary_does_not_look_better_than_the_result(change: dict[str, Any], said: str) -> None:
    assert said in "\n".join(summary_lines({**RESULT, **change}))


def test_a_bad_end_is_told_with_its_reason_and_the_next_step() -> None:
    bad = {
        **RESULT,
        "status": "blocked",
        "reason": "permission_required",
        "error": {"message": "run make needs your permission", "hint": "Name it exactly.\nOr answer."},
    }
    assert summary_lines(bad)[1:4] == [
        "reason run make needs your permission  [permission_required]",
        "  Name it exactly.",
        "  Or answer.",
    ]
