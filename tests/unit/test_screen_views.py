from typing import Any

from fluzo.screens.sessions import about_session, session_row
from fluzo.screens.sheet import fitted
from fluzo.screens.text import Line, cells

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


def test_a_session_shows_its_title_and_when_it_was_used_with_nothing_hidden() -> None:
    shown = text(session_row(SESSION, 40, here=True))
    assert "Fix<U+001B>[31m it" in shown
    assert "2026-01-02 11:12" in shown
    assert shown.endswith("open")


def test_a_session_tells_of_its_newest_task_its_first_text_and_its_last_words() -> None:
    messages = [{"role": "assistant", "text": "all\ngreen"}, {"role": "tool", "text": "no"}]
    tasks = [task_row(), task_row(id="t_0", text="the first", turns=4, state="completed", reason="")]
    rows = [text(line) for line in about_session(SESSION, {"tasks": tasks, "messages": messages})]
    assert rows[1] == "created 2026-01-01 10:00 UTC, 2 tasks, 7 turns"
    assert rows[2:] == ["state blocked: task interrupted", "first the first", "last  all green"]
