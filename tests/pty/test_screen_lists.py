from typing import Any

import pytest
from support.records import detail_of, message, picture, session_row, task_row, until
from support.screen_inside import ScriptedScreen, ask, begin_task, inside, request
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.events import TextDelta
from fluzo.core.port import Ack, CancelTask, RenameSession, SessionDetail, SessionList, TaskDetail, TaskList
from fluzo.screens.options import Options

F2, F4, F5 = "\x1bOQ", "\x1bOS", "\x1b[15~"
DOWN, UP = "\x1b[B", "\x1b[A"
ENVIRON = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
OLDER = session_row(
    id="s_6",
    title="Older work",
    updated_at="2026-01-01T09:00:00Z",
    branch="pdf-fix",
    first="draw the \x1b[2Jinvoice",
    paths=["invoice/layout.py"],
    state="blocked",
    reason="task_interrupted",
    verdict="",
)
SESSIONS = {
    SessionList: {"sessions": [OLDER, session_row()]},
    SessionDetail: {
        "session": session_row(),
        "tasks": [task_row()],
        "messages": [message(1, "user", "fix it please"), message(2, "assistant", "It is fixed.")],
    },
}


# --- sessions -------------------------------------------------------------------------------------------------


def test_the_sessions_stand_by_their_last_use_with_what_they_came_to() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.keys(F2)
        await until(lambda: "Older work" in picture(shown))
        rows = picture(shown)
        assert rows.index("Fix it") < rows.index("Older work"), "the last used one is the first"
        assert "this folder   2 sessions   sort: last used" in rows
        assert "recovered" in rows and "pdf-fix" in rows
        assert "created 2026-01-01, 3 turns, 4k tokens" in rows
        assert 'last:  "It is fixed."' in rows
        assert "changed 1 file  +2 -1  a.py" in rows
        assert "checks of the last task: passed" in rows
        shown.keys(DOWN)
        rows = picture(shown)
        assert "recovered; R goes on with it (asks)" in rows
        assert "draw the <U+001B>[2Jinvoice" in rows

    inside(look, answers=SESSIONS)
    inside(look, columns=120, rows=40, answers=SESSIONS)


def test_opening_a_session_reads_it_and_starts_nothing() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.composer.set("my draft")
        shown.keys(F2)
        await until(lambda: "Older work" in picture(shown))
        shown.keys("\r")
        await until(lambda: shown.screen.state.session_id == "s_7")
        rows = picture(shown)
        assert "It is fixed." in rows
        assert not shown.screen.views
        assert shown.port.commands == []
        assert not shown.screen.state.yolo

    inside(look, answers=SESSIONS, options=Options("~/w", environ=ENVIRON, yolo=True))


def test_no_session_is_opened_or_resumed_over_a_running_task() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys(F2)
        await until(lambda: "Older work" in picture(shown))
        for key in ("\r", "R"):
            shown.keys(key)
            assert "A task is running" in picture(shown)
        assert shown.screen.state.session_id == "s_1"
        assert len(shown.port.commands) == 1
        shown.keys("\x1b")
        assert not shown.screen.views

    inside(look, answers=SESSIONS)


@pytest.mark.parametrize("words", ["older", "PDF-FIX", "layout.py draw", "recovered"])
def test_a_search_looks_through_title_branch_first_words_files_and_state(words: str) -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.keys(F2)
        await until(lambda: "Older work" in picture(shown))
        shown.keys("/")
        shown.keys(words)
        rows = picture(shown)
        assert f"/ {words}" in rows
        assert "Older work" in rows
        assert "Fix it" not in rows
        shown.keys("\r")
        shown.keys(DOWN)
        assert f"/ {words}" in picture(shown), "the search stays on while one moves"
        shown.keys("/")
        shown.keys("\x1b")
        assert "Fix it" in picture(shown)
        assert shown.screen.views, "Esc left the search, not the page"

    inside(look, answers=SESSIONS)


def test_a_search_goes_on_through_older_pages() -> None:
    title = {117: "needle one", 116: "needle two", 40: "needle three"}
    many = [session_row(id=f"s_{n}", title=title.get(n, f"number {n}")) for n in range(120, 0, -1)]
    known: dict[type, Any] = {**SESSIONS, SessionList: {"sessions": many[:50]}}

    async def look(shown: ScriptedScreen) -> None:
        shown.keys(F2)
        await until(lambda: "50 sessions or more" in picture(shown))
        known[SessionList]["sessions"] = many[50:90]
        shown.keys("/")
        shown.keys("needle")
        await until(lambda: "90 sessions   sort" in picture(shown))
        assert SessionList(50, "s_71") in shown.port.queries
        rows = picture(shown)
        assert all(name in rows for name in title.values())

    inside(look, answers=known)


def test_a_session_is_renamed_in_the_list_and_says_so_when_it_is_done() -> None:
    known: dict[type, Any] = {**SESSIONS, SessionList: {"sessions": [session_row()]}}

    async def look(shown: ScriptedScreen) -> None:
        shown.keys(F2)
        await until(lambda: "Fix it" in picture(shown))
        shown.keys("r")
        assert "title Fix it" in picture(shown)
        shown.keys("\x1b")
        assert shown.port.commands == []
        shown.keys("r")
        shown.keys("!!")
        known[SessionList]["sessions"] = [session_row(title="Fix it!!")]
        shown.keys("\r")
        assert shown.port.commands == [RenameSession("s_7", "Fix it!!")]
        await until(lambda: "Fix it!!" in picture(shown))
        shown.keys("r")
        shown.keys("\x15")
        shown.keys("\r")
        assert len(shown.port.commands) == 1, "an empty title changes nothing"
        assert shown.screen.views

    inside(look, answers=known)


def test_a_refused_title_is_told_on_the_page() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.port._ack = Ack(False, code="workspace_owned", message="its task is running")
        shown.keys(F2)
        await until(lambda: "Older work" in picture(shown))
        shown.keys("r")
        shown.keys("x\r")
        await until(lambda: "its task is running" in picture(shown))

    inside(look, answers=SESSIONS, columns=120, rows=40)


# --- tasks ----------------------------------------------------------------------------------------------------

RUNNING = task_row(id="t_1", session_id="s_1", state="running", text="repair\x1b[2J it")
TASKS = {
    TaskList: {"tasks": [RUNNING, task_row(state="blocked", reason="budget_exhausted")]},
    TaskDetail: detail_of(RUNNING),
}


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_the_tasks_say_what_runs_and_since_when_and_open_in_full(columns: int, rows: int) -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.clock.time += 134
        shown.keys(F4)
        await until(lambda: "now: run pytest -q" in picture(shown))
        rows = picture(shown)
        assert "repair<U+001B>[2J it" in rows
        assert "running: " not in rows and "running  02:14" in rows
        assert "turn 3" in rows
        assert "! blocked" in rows and "limit" in rows
        assert "1 running" in rows.splitlines()[0]
        assert "used: 3 of 30 turns  4k of 200k tokens" in rows
        assert "trace: 4bf92f35  1 message queued to it" in rows
        shown.keys("\r")
        await until(lambda: "also the docs" in picture(shown))
        rows = picture(shown)
        assert "asked 2026-01-01 10:00:00, last change 2026-01-01 10:05:00 UTC" in rows
        assert "4242  pytest -q" in rows
        assert shown.port.commands[1:] == []

    inside(look, columns=columns, rows=rows, answers=TASKS)


def test_a_change_of_the_task_is_read_again_and_streamed_text_is_not() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys(F4)
        await until(lambda: "now: run pytest -q" in picture(shown))
        before = len(shown.port.queries)
        shown.screen.apply(TextDelta("t_1", 1, 0, "words", False))
        assert len(shown.port.queries) == before
        shown.screen.apply(event(60, events.TaskStateChanged("running", "stopping")))
        assert TaskList() in shown.port.queries[before:]

    inside(look, answers=TASKS)


def test_a_task_is_cancelled_from_the_list_with_its_grace_counted_down_and_an_ended_one_is_not() -> None:
    known: dict[type, Any] = {**TASKS, TaskList: {"tasks": list(TASKS[TaskList]["tasks"])}}

    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys(F4)
        await until(lambda: "now: run pytest -q" in picture(shown))
        shown.keys("k")
        assert shown.port.commands[1:] == [CancelTask("t_1")]
        known[TaskList]["tasks"][0] = {**RUNNING, "state": "stopping"}
        shown.screen.apply(event(60, events.TaskStateChanged("running", "stopping")))
        await until(lambda: "stopping: 5 s" in picture(shown))
        shown.clock.time += 3
        assert "stopping: 2 s" in picture(shown)
        shown.clock.time += 3
        assert "stopping: ending" in picture(shown)
        shown.keys(DOWN)
        shown.keys("k")
        assert "does not run" in picture(shown)
        shown.keys("K")
        assert len(shown.screen.views) == 1
        assert shown.port.commands[1:] == [CancelTask("t_1")]

    inside(look, answers=known)


def test_from_the_list_one_goes_to_the_card_of_the_task_with_nothing_chosen() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys(F4)
        await until(lambda: "now: run pytest -q" in picture(shown))
        shown.keys("a")
        assert "This task asks nothing" in picture(shown)
        ask(shown, request())
        shown.keys(DOWN)
        shown.keys("a")
        assert "This task asks nothing" in picture(shown), "the other task is the one that asks"
        shown.keys(UP)
        picture(shown)
        shown.keys("a")
        rows = picture(shown)
        assert shown.screen.body.focus == "card"
        assert "you answer here" in rows
        assert shown.screen.card.choice == 0
        assert shown.approvals() == []

    inside(look, columns=120, rows=40, answers=TASKS)


def test_the_lit_task_stays_the_same_one_when_a_newer_one_comes_and_older_pages_are_read() -> None:
    rows = [task_row(id=f"t_{number}", text=f"number {number}", reason="") for number in range(120, 0, -1)]
    known = {TaskList: {"tasks": rows[1:51]}, TaskDetail: detail_of(rows[2])}

    async def look(shown: ScriptedScreen) -> None:
        shown.keys(F4)
        await until(lambda: "50 tasks or more" in picture(shown))
        shown.keys(DOWN)
        assert ">✓ done        number 118" in picture(shown)
        known[TaskList]["tasks"] = rows[0:50]
        begin_task(shown)
        await until(lambda: "number 120" in picture(shown))
        assert ">✓ done        number 118" in picture(shown)
        known[TaskList]["tasks"] = rows[50:90]
        shown.keys("G")
        await until(lambda: TaskList(50, "t_71") in shown.port.queries and "90 tasks" in picture(shown))

    inside(look, columns=120, rows=40, answers=known)


# --- every view -----------------------------------------------------------------------------------------------


def test_a_view_is_open_once_and_its_key_closes_it_or_brings_it_to_the_front() -> None:
    async def look(shown: ScriptedScreen) -> None:
        names = lambda: [type(view).__name__ for view in shown.screen.views]  # noqa: E731 - asked many times.
        shown.keys(F2)
        assert names() == ["Sessions"]
        shown.keys(F2)
        assert names() == []
        assert shown.screen.body.focus == "composer"
        for key in (F2, F4, F5):
            shown.keys(key)
        assert names() == ["Sessions", "Tasks", "Changes"]
        shown.keys(F4)
        assert names() == ["Sessions", "Tasks"]
        shown.keys(F2)
        assert names() == ["Sessions"]
        shown.keys("\x1b")
        assert names() == []

    inside(look, answers={**SESSIONS, **TASKS})


@pytest.mark.parametrize("name", ["help", "task"])
def test_a_text_in_full_is_searched_from_match_to_match(name: str) -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        if name == "help":
            shown.screen.run_action("help")
            wanted, first, second = "find", "Find in the conversation", "Find"
        else:
            shown.keys(F4)
            await until(lambda: "now: run pytest -q" in picture(shown))
            shown.keys("\r")
            await until(lambda: "also the docs" in picture(shown))
            wanted, first, second = "pytest", "pytest -q", "pytest -q"
        shown.keys("/")
        shown.keys(f"{wanted}\r")
        sheet: Any = shown.screen.views[-1]._sheet  # type: ignore[attr-defined]
        rows = sheet._rows()
        one = sheet.at
        assert first in "".join(part for _, part in rows[one])
        shown.keys("n")
        assert sheet.at > one
        assert second.lower() in "".join(part for _, part in rows[sheet.at]).lower()
        shown.keys("N")
        assert sheet.at == one
        shown.keys("/")
        shown.keys("nowhere at all\r")
        assert "is not found" in picture(shown)
        shown.keys("\x1b")
        assert shown.screen.body.focus in ("view", "composer")

    inside(look, columns=120, rows=40, answers=TASKS)
