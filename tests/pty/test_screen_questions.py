import random
from typing import Any

import pytest
from support.records import detail_of, message, picture, session_row, task_row, until
from support.screen_inside import ScriptedScreen, begin_task, inside
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.port import (
    ForceStopTask,
    ResumePlan,
    ResumeTask,
    SessionDetail,
    SessionList,
    TaskDetail,
    TaskList,
)
from fluzo.screens.options import Options

F2, F4 = "\x1bOQ", "\x1bOS"
DOWN = "\x1b[B"
CTRL_C = "\x03"
REST = 0.4
"""Seconds without a key after which a question listens."""

RUNNING = task_row(id="t_1", session_id="s_1", state="running", text="repair\x1b[2J it")
TASKS = {TaskList: {"tasks": [RUNNING]}, TaskDetail: detail_of(RUNNING)}


def rests(shown: ScriptedScreen) -> None:
    shown.clock.time += REST


def stops(shown: ScriptedScreen) -> list[Any]:
    return [item for item in shown.port.commands if isinstance(item, ForceStopTask)]


async def force_stop_asked(shown: ScriptedScreen) -> None:
    begin_task(shown)
    shown.keys(F4)
    await until(lambda: "now: run pytest -q" in picture(shown))
    shown.keys("K")
    await until(lambda: "half done" in picture(shown) and "Reading" not in picture(shown))


# --- force stop -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "rows"), [(60, 16), (80, 24), (120, 40)])
def test_a_force_stop_is_a_question_that_names_task_processes_and_risk(columns: int, rows: int) -> None:
    async def look(shown: ScriptedScreen) -> None:
        await force_stop_asked(shown)
        rows = picture(shown)
        assert "repair<U+001B>[2J it" in rows
        assert "1  Keep waiting" in rows and "2  Force stop" in rows
        assert "Nothing is chosen" in rows
        if "more rows" in rows:
            rests(shown)
            shown.keys("\x1b[6~")
        await until(lambda: "4242  pytest -q" in picture(shown))
        rows = picture(shown)
        rests(shown)
        shown.keys("\r")
        rests(shown)
        shown.keys("2")
        assert "> 2  Force stop" in picture(shown)
        assert "Enter confirms 2." in picture(shown)
        assert not stops(shown), "a choice alone does nothing"
        rests(shown)
        shown.keys("\r")
        assert stops(shown) == [ForceStopTask("t_1")]

    inside(look, columns=columns, rows=rows, answers=TASKS)


def test_keys_that_come_too_early_or_too_fast_stop_nothing_and_text_goes_to_the_composer() -> None:
    async def attack(shown: ScriptedScreen) -> None:
        await force_stop_asked(shown)
        shown.keys("2")
        shown.keys("\r")
        assert not stops(shown), "the question is deaf at first"
        rests(shown)
        shown.keys("2")
        shown.keys("\r")
        assert not stops(shown), "the confirmation came with the choice"
        assert not shown.screen.views, "a burst is typing"
        assert shown.screen.composer.text == "2"
        shown.screen.composer.clear()
        await force_stop_asked(shown)
        rests(shown)
        shown.keys("e")
        assert shown.screen.composer.text == "e"
        assert shown.screen.body.focus == "composer"
        await force_stop_asked(shown)
        rests(shown)
        shown.keys("\x1b[200~2\r\x1b[201~")
        assert not stops(shown)
        assert "e2" in shown.screen.composer.text

    inside(attack, answers=TASKS)


def test_esc_and_keep_waiting_go_back_to_the_list_and_a_task_that_ended_is_not_stopped() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await force_stop_asked(shown)
        shown.keys("\x1b")
        assert "Force stop?" not in picture(shown) and len(shown.screen.views) == 1
        shown.keys("K")
        rests(shown)
        shown.keys("1")
        rests(shown)
        shown.keys("\r")
        assert len(shown.screen.views) == 1
        shown.keys("K")
        rests(shown)
        shown.keys("2")
        shown.screen.apply(event(90, events.TaskStateChanged("running", "cancelled")))
        assert "The task has ended" in picture(shown)
        rests(shown)
        shown.keys("\r")
        assert not stops(shown)

    inside(look, columns=120, rows=40, answers=TASKS)


def test_what_is_said_of_a_forced_stop_goes_with_the_task() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await force_stop_asked(shown)
        for key in "2\r":
            rests(shown)
            shown.keys(key)
        assert stops(shown) and "Asked to force the stop" in shown.draw()[-1]
        shown.screen.apply(event(90, events.TaskStateChanged("running", "cancelled")))
        assert "Asked to force" not in shown.draw()[-1]

    inside(look, answers=TASKS)


def test_ctrl_c_while_stopping_and_the_command_open_the_question_once_and_never_act() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.screen.apply(event(60, events.TaskStateChanged("running", "stopping")))
        for _ in range(20):
            shown.keys(CTRL_C)
            shown.clock.time += 1
        assert len(shown.screen.views) == 1
        assert "Force stop?" in picture(shown)
        assert not stops(shown)
        shown.keys("\x1b")
        shown.screen.run_action("kill", "kill")
        assert "Force stop?" in picture(shown)
        assert not stops(shown)

    inside(look, answers=TASKS)


@pytest.mark.parametrize("seed", range(40))
def test_no_typing_forces_a_stop_without_a_rest_between_choice_and_confirmation(seed: int) -> None:
    choose = random.Random(seed)
    keys = ["2", "1", "\r", DOWN, " ", "y", "k", "K", "kill\r", "\x1b[200~2\r\x1b[201~", "force stop\r"]

    async def attack(shown: ScriptedScreen) -> None:
        await force_stop_asked(shown)
        for _ in range(30):
            shown.clock.time += choose.choice((0.0, 0.001, 0.02, 0.025))
            shown.keys(choose.choice(keys))
        assert not stops(shown)

    inside(attack, answers=TASKS)


def test_a_screen_too_small_to_show_the_question_answers_nothing() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await force_stop_asked(shown)
        shown.screen.layout = shown.screen.layout._replace(size="too small")
        rests(shown)
        shown.keys("2")
        rests(shown)
        shown.keys("\r")
        assert not stops(shown)

    inside(look, answers=TASKS)


# --- resuming -------------------------------------------------------------------------------------------------

BLOCKED = task_row(id="t_7", state="blocked", reason="task_interrupted", text="migrate\x1b[2J it")
UNKNOWN = {
    "operation_id": "o_9",
    "tool": "run",
    "summary": "alembic upgrade head",
    "observed": "what the command did can not be told from here",
    "risk": "doing it again may do it twice",
    "text": "run alembic upgrade head: what the command did can not be told from here",
}
PLAN = {
    "task_id": "t_7",
    "attempt_id": "a_1",
    "attempt_number": 1,
    "differences": [{"what": "branch", "text": "the branch was main and is\x1b[31m other"}],
    "unknown": [UNKNOWN, {**UNKNOWN, "operation_id": "o_8", "risk": "", "text": "model m: cost is not known"}],
    "limit": None,
    "reconciled": "digest",
    "resumable": True,
}
CALL = [{"id": "c_1", "name": "run", "arguments": '{"argv": ["alembic", "upgrade", "head"]}'}]
MESSAGES = [message(1, "user", "migrate it"), message(2, "assistant", "I migrate.", tool_calls=CALL)]
CUT_OFF = {
    SessionList: {"sessions": [session_row(state="blocked", reason="task_interrupted")]},
    SessionDetail: {"session": session_row(), "tasks": [BLOCKED], "messages": MESSAGES},
    TaskList: {"tasks": [BLOCKED]},
    TaskDetail: detail_of(BLOCKED),
    ResumePlan: PLAN,
}


def resumed(shown: ScriptedScreen) -> list[Any]:
    return [item for item in shown.port.commands if isinstance(item, ResumeTask)]


async def opened(shown: ScriptedScreen) -> None:
    shown.keys(F2)
    await until(lambda: "Fix it" in picture(shown))
    shown.keys("\r")
    await until(lambda: shown.screen.state.session_id == "s_7")


def test_a_session_that_was_cut_off_shows_where_and_what_is_unknown_and_runs_nothing() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        rows = picture(shown)
        assert "recovered: Fluzo stopped here on 2026-01-01 10:05 UTC" in rows
        assert "outcome unknown; not run again" in rows
        assert rows.index("alembic upgrade head") < rows.index("recovered: Fluzo")
        shown.screen.say("")
        assert "/resume (asks)" in picture(shown)
        assert shown.port.commands == []
        assert not [query for query in shown.port.queries if isinstance(query, ResumePlan)]

    inside(look, answers=CUT_OFF)


@pytest.mark.parametrize("way", ["list", "command"])
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_resuming_asks_first_and_names_task_state_and_what_is_unknown(way: str, columns: int, rows: int) -> None:
    async def look(shown: ScriptedScreen) -> None:
        if way == "list":
            shown.keys(F2)
            await until(lambda: "Fix it" in picture(shown))
            shown.keys("R")
        else:
            await opened(shown)
            shown.keys("/resume look at the tests\r")
        await until(lambda: "Nothing is chosen" in picture(shown))
        rows = picture(shown)
        assert "UNKNOWN  run alembic" in rows
        assert "task  migrate<U+001B>[2J it" in rows
        assert "state  interrupted" in rows
        assert "differs  the branch was main and is<U+001B>[31m other" in rows
        rests(shown)
        shown.keys("\r")
        assert resumed(shown) == []
        rests(shown)
        shown.keys("2")
        rests(shown)
        assert resumed(shown) == []
        shown.keys("\r")
        (command,) = resumed(shown)
        assert (command.task_id, command.reconciled, command.retry) == ("t_7", "digest", ())
        assert (command.yolo, command.interactive, command.extend) == (False, True, {})
        assert command.text == ("" if way == "list" else "look at the tests")
        await until(lambda: shown.screen.state.task_id == "t_1")
        assert "Going on with: migrate" in picture(shown)
        assert shown.screen.state.read_only == ""

    inside(look, columns=columns, rows=rows, answers=CUT_OFF)


def test_an_unknown_act_is_done_again_only_when_it_was_marked_by_two_acts() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        shown.keys("/resume\r")
        await until(lambda: "[ ] may be done again" in picture(shown))
        assert "4  " not in picture(shown), "what cannot be done twice cannot be marked"
        rests(shown)
        shown.keys("3")
        assert "[ ] may be done again" in picture(shown)
        rests(shown)
        shown.keys("\r")
        rows = picture(shown)
        assert "[x] may be done again" in rows
        assert "Nothing is chosen" in rows
        assert resumed(shown) == []
        rests(shown)
        shown.keys("2")
        rests(shown)
        shown.keys("\r")
        assert resumed(shown)[0].retry == ("o_9",)

    inside(look, columns=120, rows=40, answers=CUT_OFF)


@pytest.mark.parametrize(("columns", "rows"), [(60, 16), (80, 24), (120, 40)])
@pytest.mark.parametrize(
    ("limit", "told", "raised"),
    [
        (
            {"limit": "max_turns", "used": 8, "allowed": 8, "raised": 16},
            "max_turns: 8 of 8 turns are used up",
            "Resume with the limit raised to 16 turns",
        ),
        (
            {"limit": "max_total_tokens", "used": 190_000, "allowed": 200_000, "raised": 390_000},
            "max_total_tokens: 190,000 of 200,000 tokens are used up; what is left",
            "Resume with the limit raised to 390,000 tokens",
        ),
        (
            {"limit": "max_active_seconds", "used": 600.4, "allowed": 600, "raised": 1201},
            "max_active_seconds: 600 of 600 seconds are used up",
            "Resume with the limit raised to 1,201 seconds",
        ),
    ],
)
def test_a_used_up_limit_is_named_and_raised_only_by_the_choice_that_says_to_what(
    limit: dict[str, Any], told: str, raised: str, columns: int, rows: int
) -> None:
    row = {**BLOCKED, "text": "check", "reason": "budget_exhausted"}
    plan = {**PLAN, "differences": [], "unknown": [], "limit": limit}
    answers = {**CUT_OFF, TaskList: {"tasks": [row]}, TaskDetail: detail_of(row), ResumePlan: plan}

    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        shown.keys("/resume\r")
        await until(lambda: "Nothing is chosen" in picture(shown))
        text = " ".join(picture(shown).split())
        assert told in text
        assert f"2 {raised}" in text and "1 Keep reading" in text
        assert "3 " not in text.partition(raised)[2].partition("Nothing")[0], "there is no third way"
        rests(shown)
        shown.keys("\r")
        assert resumed(shown) == [], "nothing was chosen"
        rests(shown)
        shown.keys("1")
        rests(shown)
        shown.keys("\r")
        assert resumed(shown) == []
        assert not shown.screen.views
        shown.keys("/resume\r")
        await until(lambda: raised in picture(shown))
        rests(shown)
        shown.keys("2")
        rests(shown)
        assert resumed(shown) == []
        shown.keys("\r")
        (command,) = resumed(shown)
        assert command.extend == {limit["limit"]: limit["raised"]}

    inside(look, columns=columns, rows=rows, answers=answers)


def test_keep_reading_and_typing_resume_nothing() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        for keys in ("1", "\x1b", "2 more words", "y"):
            shown.keys("/resume\r")
            await until(lambda: "UNKNOWN  run alembic" in picture(shown))
            rests(shown)
            shown.keys(keys)
            if shown.screen.views:
                rests(shown)
                shown.keys("\r")
            assert not shown.screen.views
            assert shown.screen.composer.text == (keys if len(keys) > 1 or keys == "y" else "")
            shown.screen.composer.clear()
        assert shown.port.commands == []

    inside(look, answers=CUT_OFF)


def test_a_session_without_a_blocked_task_says_so_and_a_yolo_mode_is_named() -> None:
    done = {**CUT_OFF, TaskList: {"tasks": [task_row()]}}

    async def nothing(shown: ScriptedScreen) -> None:
        await opened(shown)
        shown.keys("/resume\r")
        await until(lambda: "No task of this session is blocked" in picture(shown))
        rests(shown)
        shown.keys("2")
        rests(shown)
        shown.keys("\r")
        assert resumed(shown) == []

    async def yolo(shown: ScriptedScreen) -> None:
        await opened(shown)
        assert not shown.screen.state.yolo, "opening turns it off"
        shown.keys("/yolo yolo\r")
        shown.keys("/resume\r")
        await until(lambda: "YOLO is on: nothing asks" in picture(shown))
        rests(shown)
        shown.keys("2")
        rests(shown)
        shown.keys("\r")
        assert resumed(shown)[0].yolo

    inside(nothing, answers=done)
    environ = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    inside(yolo, answers=CUT_OFF, options=Options("~/w", environ=environ, yolo=True), columns=120, rows=40)
