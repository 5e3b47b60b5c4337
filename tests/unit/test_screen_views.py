from typing import Any

import pytest

from fluzo.screens.diagnostics import budget_rows, event_row, slot_rows
from fluzo.screens.session_text import about_session, session_row
from fluzo.screens.sheet import fitted
from fluzo.screens.task_text import check_rows, operation_line, reason_word, state_word
from fluzo.screens.task_text import task_row as show_task
from fluzo.screens.text import Line, cells
from fluzo.screens.theme import UNICODE

SESSION = {
    "id": "s_1",
    "title": "Fix\x1b[31m it",
    "created_at": "2026-01-01T10:00:00Z",
    "updated_at": "2026-01-02T11:12:13Z",
}


def text(line: Line) -> str:
    return "".join(part for _, part in line)


def task_row(**more: Any) -> dict[str, Any]:
    return {
        "id": "t_1",
        "session_id": "s_1",
        "text": "fix it",
        "state": "blocked",
        "reason": "task_interrupted",
        "created_at": "2026-01-01T10:00:00Z",
        "updated_at": "2026-01-01T10:05:00Z",
        "turns": 3,
        "active_seconds": 61.0,
        "tokens": 4000,
        **more,
    }


def test_a_row_is_cut_in_cells_wherever_it_begins() -> None:
    line: Line = [("class:a", "ab"), ("class:b", "漢字漢字")]
    for left in range(5):
        assert cells(text(fitted(line, left, 5))) <= 5
    assert text(fitted(line, 0, 10)) == "ab漢字漢字"
    assert text(fitted(line, 1, 3)) == "b…"


def test_a_session_shows_its_title_branch_and_when_it_was_used_with_nothing_hidden() -> None:
    shown = text(session_row({**SESSION, "branch": "main\u202e", "turns": 12}, 100, here=True))
    assert "* Fix<U+001B>[31m it" in shown
    assert "main<U+202E>" in shown
    assert "2026-01-02 11:12" in shown
    assert shown.endswith("12")
    assert shown.startswith("empty"), "without a task it has no state"


@pytest.mark.parametrize("width", [58, 70, 78, 110])
def test_a_row_of_a_list_is_as_wide_as_its_columns_and_no_wider(width: int) -> None:
    record = {**SESSION, "title": "漢字" * 80, "branch": "b" * 40, "state": "blocked", "reason": "x" * 80, "turns": 999}
    assert cells(text(session_row(record, width, here=True))) <= width
    row = task_row(text="漢字" * 80, reason="r" * 80, tokens=10**9)
    assert cells(text(show_task(row, width, 10**6, 0.0, UNICODE))) <= width


def test_a_session_tells_of_its_newest_task_its_first_text_and_its_last_words() -> None:
    record = {
        **SESSION,
        "state": "blocked",
        "reason": "budget_exhausted",
        "turns": 7,
        "first": "the first",
        "last": "all\ngreen",
    }
    rows = [text(line) for line in about_session(record)]
    assert rows[1] == "created 2026-01-01, 7 turns, 0 tokens"
    assert rows[2:] == ["state: blocked: budget exhausted", 'first: "the first"', 'last:  "all green"']


REASONS = [
    ({"state": "running", "turns": 9}, "running", "turn 9"),
    ({"state": "waiting"}, "waiting", "you"),
    ({"state": "pending"}, "queued", "writer"),
    ({"state": "blocked", "reason": "budget_exhausted"}, "blocked", "limit"),
    ({"state": "blocked", "reason": "task_interrupted"}, "interrupted", "cut off"),
    ({"state": "blocked", "reason": "provider_unavailable"}, "blocked", "model"),
    ({"state": "failed", "reason": "odd_\x1bcode"}, "failed", "odd <U+001B>code"),
    ({"state": "completed", "reason": "", "verdict": "passed"}, "done", "checked"),
    ({"state": "completed", "reason": "", "verdict": "unverified"}, "done", "unverified"),
    ({"state": "stopping"}, "stopping", "3 s"),
]


@pytest.mark.parametrize(("record", "state", "reason"), REASONS)
def test_a_task_has_a_word_for_its_state_and_one_for_the_machines_reason(
    record: dict[str, Any], state: str, reason: str
) -> None:
    task = task_row(**record)
    assert (state_word(task), reason_word(task, 3.0)) == (state, reason)
    assert reason_word({**task, "state": "stopping"}, -1.0) == "ending"


def test_an_operation_without_a_recorded_end_is_unknown_and_never_done() -> None:
    item = {"tool": "run", "action": "execute", "summary": "rm x", "ok": None, "code": "", "authorized_by": "once"}
    assert "OUTCOME UNKNOWN" in text(operation_line({**item, "state": "unknown", "result": {}}))
    assert "dispatched" in text(operation_line({**item, "state": "dispatched", "result": {}}))
    ended = {**item, "state": "known_result", "ok": True, "result": {"exit_status": 0, "elapsed_seconds": 1.5}}
    edit = {**item, "tool": "edit_file", "action": "edit", "state": "known_result", "ok": True, "summary": "a.py +1 -2"}
    edit = {**edit, "result": {"lines_added": 1, "lines_removed": 2}}
    assert text(operation_line(edit)) == "edit a.py  +1 -2  by once"
    assert text(operation_line(ended)) == "run rm x  exit 0 1.5 s  by once"


def test_checks_are_current_stale_failed_or_not_run() -> None:
    passed = {"argv": ["make", "test"], "ok": True}
    failed = {"argv": ["make", "test"], "ok": False, "output_tail": "one\x1b]0;x\x07\ntwo"}
    task = {"verification": [["make", "test"]], "verification_waived": False}
    assert "passed (current)" in text(check_rows({"current": True, "commands": [passed]}, 80, task)[0])
    assert "passed (stale)" in text(check_rows({"current": False, "commands": [passed]}, 80, task)[0])
    rows = [text(line) for line in check_rows({"current": True, "commands": [failed]}, 80, task)]
    assert rows[0].startswith("failed")
    assert rows[1:] == ["    one", "    two"]
    assert text(check_rows({}, 80, task)[0]) == "not run  make test"


SPENT = {
    "turns": 3,
    "tool_calls": 2,
    "active_seconds": 61.0,
    "input_tokens": 3000,
    "output_tokens": 1000,
    "estimated_tokens": 1000,
    "cost_microunits": 0,
}
LIMITS = {"max_turns": 3, "max_total_tokens": 200_000, "max_tool_calls": 90, "max_active_seconds": 600}


def test_budgets_say_where_each_figure_comes_from_and_mark_what_is_used_up() -> None:
    rows = budget_rows({"consumption": SPENT, "limits": LIMITS, "result": None})
    words = [" ".join(text(line).split()) for line in rows]
    assert words == [
        "turns 3 of 3 counted",
        "tool calls 2 of 90 counted",
        "active time 01:01 of 10:00 measured",
        "tokens 4k of 200k partly estimated",
    ]
    assert rows[0][1][0] == "class:warn.fg"
    assert rows[1][1][0] != "class:warn.fg"
    ended = {"budget": {"tokens": {"used": 5000, "allowed": 9000, "provenance": "reported"}}}
    assert [" ".join(text(line).split()) for line in budget_rows({"result": ended})] == ["tokens 5k of 9k reported"]


def test_an_uncertain_slot_is_told_apart_from_an_occupied_one() -> None:
    slot = {"kind": "pool", "name": "local", "limit": 2, "occupied": 2, "uncertain": 1, "queued": 3, "shadow": 0}
    assert " ".join(text(slot_rows([slot])[0]).split()) == "pool local 2 of 2 occupied, 3 queued, 1 uncertain"
    assert "uncertain" not in text(slot_rows([{**slot, "uncertain": 0}])[0])


def test_an_event_is_one_row_with_nothing_hidden() -> None:
    item = {
        "at": "2026-01-01T10:11:12Z",
        "seq": 7,
        "type": "WarningRaised",
        "data": {"message": "a\x1b[2J\nb", "code": ""},
    }
    assert " ".join(text(event_row(item)).split()) == "10:11:12 7 WarningRaised message a<U+001B>[2J b"
