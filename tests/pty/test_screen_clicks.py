from typing import Any

import pytest
from support.mouse import click, drag, find, press, release, wheel
from support.records import detail_of, picture, session_row, task_row, until
from support.screen_inside import ScriptedScreen, begin_task, inside, request
from support.screen_inside import ask as asks

from fluzo.core.port import ConfigDetail, ForceStopTask, SessionDetail, SessionList, TaskDetail, TaskList
from fluzo.core.settings import parse_settings
from fluzo.core.settings_rows import InForce, config_rows, entry_rows
from fluzo.screens.chips import Part
from fluzo.screens.demo import Scene, Script
from fluzo.screens.options import Options
from fluzo.screens.state import Queued

F2, F4, F6, F7, F12 = "\x1bOQ", "\x1bOS", "\x1b[17~", "\x1b[18~", "\x1b[24~"
ENVIRON = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
SESSIONS = [
    session_row(id="s_7", title="Newer"),
    session_row(id="s_6", title="Older", updated_at="2025-01-01T00:00:00Z"),
]
TASKS = [task_row(id="t_8", text="write it"), task_row(id="t_7", text="read it")]
FILE: dict[str, Any] = {
    "schema_version": 1,
    "agent": {"model": "main"},
    "models": {"main": {"provider": "openai_compatible", "base_url": "http://127.0.0.1:1/v1", "model": "scripted"}},
}


def settings() -> dict[str, Any]:
    read = parse_settings(FILE)
    rows = config_rows(InForce(read, FILE, {}, read), FILE, read)
    return {
        "path": "/w/.fluzo",
        "fingerprint": "f",
        "in_force": "f",
        "problem": "",
        "hint": "",
        "consent": [],
        "rows": rows,
        "entries": entry_rows(),
    }


ANSWERS = {
    SessionList: {"sessions": SESSIONS},
    SessionDetail: {"session": SESSIONS[1], "tasks": [], "messages": []},
    TaskList: {"tasks": TASKS},
    TaskDetail: detail_of(TASKS[1]),
    ConfigDetail: settings,
}


def row(shown: ScriptedScreen, text: str) -> tuple[int, int]:
    return find(shown.draw(), text)


async def click_on(shown: ScriptedScreen, text: str) -> None:
    await until(lambda: text in picture(shown))
    click(shown, *row(shown, text))


def lit(shown: ScriptedScreen, text: str) -> bool:
    """The row of the text has the mark of the lit one."""
    return any(">" in line.partition(text)[0] for line in shown.draw() if text in line)


def test_a_click_lights_a_session_and_one_on_the_lit_one_opens_it_to_read() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.mouse = True
        shown.keys(F2)
        await click_on(shown, "Older")
        assert lit(shown, "Older") and not lit(shown, "Newer")
        assert shown.screen.views, "one click opens nothing"
        await click_on(shown, "Older")
        assert not shown.screen.views
        await until(
            lambda: any(isinstance(item, SessionDetail) and item.session_id == "s_6" for item in shown.port.queries)
        )
        assert shown.port.commands == []

    inside(look, answers=ANSWERS)


def test_a_click_is_a_press_and_a_release_on_the_same_row_with_the_first_button() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.mouse = True
        shown.keys(F4)
        await until(lambda: "read it" in picture(shown))
        x, first = row(shown, "write it")
        _, second = row(shown, "read it")
        press(shown, x, first)
        drag(shown, x, second)
        release(shown, x, second)
        assert lit(shown, "write it") and len(shown.screen.views) == 1
        shown.keys(f"\x1b[<2;{x + 1};{second + 1}M")
        shown.keys(f"\x1b[<2;{x + 1};{second + 1}m")
        assert lit(shown, "write it"), "the right button lights nothing"
        release(shown, x, second)
        assert lit(shown, "write it"), "a release alone is no click"
        click(shown, x, second + 3)
        assert lit(shown, "write it"), "below the last row there is nothing"
        click(shown, x, second)
        assert lit(shown, "read it")
        click(shown, x, second)
        assert len(shown.screen.views) == 2, "the task is looked at"
        assert shown.port.commands == []

    inside(look, answers=ANSWERS)


def test_the_wheel_moves_what_is_lit_and_a_text_in_full() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.mouse = True
        shown.keys(F4)
        await until(lambda: "read it" in picture(shown))
        x, y = row(shown, "write it")
        wheel(shown, x, y, down=True)
        assert lit(shown, "read it")
        wheel(shown, x, y, down=False)
        assert lit(shown, "write it")
        shown.keys("\x1b")
        shown.keys("\x1bOP")
        before = shown.draw()[3]
        wheel(shown, 5, 10, down=True)
        assert shown.draw()[3] != before
        assert "rows 4 to" in picture(shown)

    inside(look, answers=ANSWERS)


def test_a_click_runs_the_lit_command_of_the_palette_alone() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.mouse = True
        shown.keys("\x10")
        shown.keys("mo")
        await click_on(shown, "Reduced motion: off")
        assert lit(shown, "Reduced motion") and shown.screen.views
        assert not shown.screen.motion.reduced
        await click_on(shown, "Settings: models, servers")
        assert lit(shown, "Settings: models, servers") and shown.screen.views, "the first row is one, too"
        await click_on(shown, "Reduced motion: off")
        await click_on(shown, "Reduced motion: off")
        assert not shown.screen.views and shown.screen.motion.reduced

    inside(look)


def test_a_click_takes_what_was_sent_before_into_the_composer_and_sends_nothing() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.mouse = True
        entries: list[list[Part]] = [["second one"], ["first one"]]
        shown.screen.composer.load_history(entries)
        shown.keys("\x12")
        await click_on(shown, "second one")
        assert lit(shown, "second one")
        await click_on(shown, "second one")
        assert shown.screen.composer.text == "second one"
        assert shown.port.commands == []

    inside(look)


def test_a_click_takes_a_queued_message_back_to_edit_it() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.screen.mouse = True
        queued = tuple(Queued(f"i_{n}", text, "t_1") for n, text in enumerate(("alpha", "beta")))
        shown.screen.state = shown.screen.state._replace(queued=queued)
        shown.keys("/queue\r")
        await click_on(shown, "beta")
        assert lit(shown, "beta") and shown.screen.views
        await click_on(shown, "beta")
        assert not shown.screen.views
        assert [item.intervention_id for item in shown.port.commands if hasattr(item, "intervention_id")] == ["i_1"]

    inside(look)


def test_a_click_lights_a_setting_and_one_on_the_lit_one_edits_it() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.mouse = True
        shown.screen.run_action("settings.limits")
        await click_on(shown, " tool calls per task")
        assert "harness.max_tool_calls" in picture(shown)
        x, y = row(shown, "tool calls per task")
        click(shown, x, 2)
        click(shown, x, row(shown, "│ Storage")[1])
        assert "harness.max_tool_calls" in picture(shown), "neither names of columns nor groups are settings"
        click(shown, x, y)
        assert "max_tool_calls (calls) =" in picture(shown)
        assert shown.port.commands == []

    inside(look, answers=ANSWERS, columns=120, rows=40)


def test_a_click_lights_and_changes_in_the_developer_menu_and_the_themes() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.mouse = True
        shown.keys(F12)
        await click_on(shown, "tui.reduced_motion")
        assert lit(shown, "tui.reduced_motion") and not shown.screen.preferences.reduced_motion
        await click_on(shown, "tui.reduced_motion")
        assert shown.screen.preferences.reduced_motion, "tried out"
        shown.keys("\x1b")
        shown.draw()
        assert not shown.screen.preferences.reduced_motion
        shown.keys("/theme\r")
        await click_on(shown, "high-contrast")
        assert shown.screen.theme == "high-contrast" and shown.screen.views
        await click_on(shown, "high-contrast")
        assert shown.screen.theme == "high-contrast" and not shown.screen.views

    inside(look, answers=ANSWERS, columns=120, rows=40, options=Options("~/w", environ=ENVIRON, dev_menu=True))


def test_a_click_begins_a_scene_of_the_demo_only_when_it_is_lit() -> None:
    begun: list[str] = []
    script = Script((Scene("One", "look", "first"), Scene("Two", "look", "second")), begun.append)

    async def look(shown: ScriptedScreen) -> None:
        shown.screen.mouse = True
        shown.keys(F7)
        await click_on(shown, "2  Two")
        assert lit(shown, "2  Two") and begun == []
        await click_on(shown, "2  Two")
        await until(lambda: begun == ["second"])

    inside(look, options=Options("~/w", environ=ENVIRON, demo=script))


def test_a_click_on_the_newest_notice_dismisses_it_and_decides_nothing() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys("a draft")
        shown.screen.run_action("mouse")
        for number in (1, 2):
            shown.screen.board.post(f"n_{number}", "info", f"notice {number}", "told")
        before = list(shown.port.commands)
        click(shown, *row(shown, "notice 1"))
        assert "notice 2" in picture(shown), "a click beside the newest one leaves it"
        click(shown, *row(shown, "notice 2"))
        rows = picture(shown)
        assert "notice 2" not in rows and "notice 1" in rows
        assert shown.port.commands == before
        assert shown.screen.body.focus == "composer"

    inside(look)


@pytest.mark.parametrize("clicks", [1, 2, 5])
def test_no_click_answers_a_question(clicks: int) -> None:
    running = task_row(id="t_1", session_id="s_1", state="running", text="go")

    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.screen.mouse = True
        shown.keys(F4)
        await until(lambda: "Enter look" in picture(shown) and "go" in picture(shown))
        shown.keys("K")
        await until(lambda: "2  Force stop" in picture(shown))
        for _ in range(clicks):
            shown.clock.time += 1
            click(shown, *row(shown, "2  Force stop"))
        rows = picture(shown)
        assert "Nothing is chosen" in rows
        assert not [item for item in shown.port.commands if isinstance(item, ForceStopTask)]

    inside(look, answers={**ANSWERS, TaskList: {"tasks": [running]}, TaskDetail: detail_of(running)})


def test_a_list_over_the_card_takes_its_clicks() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        asks(shown, request())
        shown.screen.mouse = True
        shown.draw()
        shown.keys("\x10")
        for y in range(24):
            shown.clock.time += 1
            press(shown, 3, y)
            release(shown, 3, y)
        assert shown.approvals() == []
        assert shown.screen.card.choice == 0

    inside(look)
