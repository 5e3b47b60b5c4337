import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.records import detail_of, message, picture, session_row, task_row, until
from support.screen_inside import ScriptedScreen, ask, begin_task, inside, request
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.errors import StorageError
from fluzo.core.events import TextDelta
from fluzo.core.port import (
    Ack,
    CancelTask,
    OtherSession,
    OtherSessions,
    RenameSession,
    SessionDetail,
    SessionList,
    TaskDetail,
    TaskList,
)
from fluzo.screens.options import Options
from fluzo.screens.other_folders import command_of
from fluzo.screens.pager import Pager, laid_out
from fluzo.screens.sanitize import visible_text

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
        assert "[this folder] | all folders   2 sessions   sort: last used" in rows
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


ABROAD = session_row(
    id="s_x", title="Theirs\x1b[2J", updated_at="2026-01-01T20:00:00Z", branch="side", folder="/home/me/src/in voice"
)
UNREAD = {"folder": "/srv/old", "code": "storage_failed", "problem": "It has schema 3.", "hint": "Start a task once."}
OTHERS: dict[type, Any] = {
    **SESSIONS,
    OtherSessions: {"sessions": [ABROAD], "folders": [UNREAD], "left_out": 3},
    OtherSession: {
        "session": ABROAD,
        "tasks": [task_row()],
        "messages": [message(4, "user", "draw it"), message(5, "assistant", "It is \x1b[2Jdrawn. " * 12)],
    },
}
AT_HOME = Options("~/w", environ={**ENVIRON, "HOME": "/home/me"}, yolo=True)


async def all_folders(shown: ScriptedScreen) -> None:
    shown.keys(F2)
    await until(lambda: "Older work" in picture(shown))
    assert "Theirs" not in picture(shown)
    shown.keys("\t")
    await until(lambda: "Theirs" in picture(shown))


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_tab_lists_the_sessions_of_all_folders_and_what_could_not_be_read(columns: int, rows: int) -> None:
    async def look(shown: ScriptedScreen) -> None:
        await all_folders(shown)
        rows = picture(shown)
        assert "this folder | [all folders]   3 sessions   sort: last used" in rows
        assert rows.index("Fix it") < rows.index("Theirs") < rows.index("Older work"), "by their last use"
        assert "/srv/old" in rows and "3 more folders were not looked at" in rows
        shown.keys(DOWN)
        rows = picture(shown)
        assert "folder: ~/src/in voice  branch: side" in rows
        shown.keys(DOWN * 2)
        assert "It has schema 3." in picture(shown) and "Start a task once." in picture(shown)
        shown.keys("/")
        shown.keys("src/in voice\r")
        rows = picture(shown)
        assert "Theirs" in rows and "Older work" not in rows
        shown.keys("\t")
        assert "Nothing here has these words." in picture(shown)
        assert shown.port.commands == []

    inside(look, columns=columns, rows=rows, answers=OTHERS, options=AT_HOME)


def test_a_session_of_another_folder_is_read_as_text_and_the_own_one_stays_where_it_is() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        before = shown.screen.state
        commands = list(shown.port.commands)
        await all_folders(shown)
        shown.keys(DOWN + "\r")
        await until(lambda: "you: draw it" in picture(shown))
        rows = picture(shown)
        assert "It is drawn." in rows
        assert "Theirs<U+001B>[2J   " in rows
        assert "In ~/src/in voice, to be read here; nothing goes on with it." in rows
        assert "To go on: fluzo -C '/home/me/src/in voice'" in rows
        assert "Its last 2 messages; all of them:" in rows
        assert max(map(len, shown.draw())) <= 80
        shown.keys("continue\r\x1b")
        after = shown.screen.state
        assert (after.session_id, after.task_id, after.running) == (before.session_id, before.task_id, True)
        assert [block.source for block in after.blocks][: len(before.blocks)] == ["go"]
        assert shown.port.commands == commands
        assert OtherSession("/home/me/src/in voice", "s_x") in shown.port.queries

    inside(look, answers=OTHERS, options=AT_HOME)


def test_a_session_in_a_copy_of_this_folder_stays_lit_when_the_list_is_read_again() -> None:
    copied = {**OTHERS[OtherSessions]["sessions"][0], "id": "s_7", "updated_at": "2026-01-01T09:00:00Z"}
    others = {**OTHERS, OtherSessions: {**OTHERS[OtherSessions], "sessions": [copied]}}

    async def look(shown: ScriptedScreen) -> None:
        await all_folders(shown)
        lit = next(n for n, row in enumerate(shown.screen.views[-1].records.shown) if row.get("folder"))
        shown.keys(DOWN * lit)
        asked = len(shown.port.queries)
        records = shown.screen.views[-1].records
        records.read()
        await until(lambda: len(shown.port.queries) > asked and not records.reader.busy)
        shown.keys("\r")
        await until(lambda: "you: draw it" in picture(shown))

    inside(look, answers=others, options=AT_HOME)


def test_a_session_of_another_folder_goes_on_only_there_and_the_way_can_be_copied() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await all_folders(shown)
        copied: list[tuple[str, str]] = []
        shown.screen.copy = lambda text, what: copied.append((text, what))  # type: ignore[method-assign]
        shown.keys(DOWN + "R")
        rows = picture(shown)
        assert "It goes on in its own folder" in rows
        assert "  fluzo -C '/home/me/src/in voice'" in rows
        assert "  fluzo -C '/home/me/src/in voice' sessions resume s_x" in rows
        shown.keys("y")
        assert copied == [("fluzo -C '/home/me/src/in voice'", "the command")]
        shown.keys("\x1b")
        shown.keys("r")
        assert "renamed in its own folder" in picture(shown)
        shown.keys(DOWN * 2 + "R")
        assert "It has schema 3." in picture(shown)
        assert shown.screen.state.session_id != "s_x"
        assert shown.port.commands == []

    inside(look, answers=OTHERS, options=AT_HOME)


def test_prose_follows_the_width_of_the_screen_and_stays_where_one_reads() -> None:
    text = "\n".join(f"{number}: {'some words ' * 20}end{number}" for number in range(60))

    async def look(shown: ScriptedScreen) -> None:
        shown.screen.views.show(Pager(shown.screen, "Read", text, laid=laid_out(text, 78)))
        shown.draw()
        shown.keys("\x1b[6~" * 2 + "j")
        top = shown.draw()[2].split(":")[0].strip()
        assert top == "13" and "end13" in picture(shown)
        for columns, row in ((60, 58), (160, 100)):
            shown.resizes(columns, 24)
            await until(lambda row=row: row - 11 <= max(len(line.strip()) for line in shown.draw()[2:-1]) <= row)
            assert shown.draw()[2].split(":")[0].strip() == top
            assert f"end{top}" in picture(shown)

    inside(look)


@pytest.mark.parametrize(
    "name", [b"a b'c", b"o\xff\x1b[2J\n d'd\\", "h\u00e9\u6f22 $HOME".encode(), "\u202egpj".encode()]
)
def test_the_command_for_a_folder_of_any_name_is_safe_to_show_and_takes_a_shell_there(
    tmp_path: Path, name: bytes
) -> None:
    folder = os.fsencode(tmp_path) + b"/" + name
    Path(os.fsdecode(folder)).mkdir()
    command = command_of({"folder": folder.decode("utf-8", "surrogateescape")})
    assert visible_text(command) == command
    argv = ["bash", "-c", command.replace("fluzo -C", "cd --", 1) + " && pwd"]
    assert subprocess.run(argv, capture_output=True, check=True).stdout == folder + b"\n"


def test_other_folders_that_cannot_be_looked_at_are_told_and_the_own_list_stays() -> None:
    def refuse() -> Any:
        raise StorageError("The disk of another folder does not answer.", code="storage_busy")

    async def look(shown: ScriptedScreen) -> None:
        shown.keys(F2)
        await until(lambda: "Older work" in picture(shown))
        shown.keys("\t")
        await until(lambda: "does not answer" in picture(shown))
        assert "Fix it" in picture(shown)

    inside(look, answers={**OTHERS, OtherSessions: refuse}, options=AT_HOME)


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
