"""The settings page in this process: the real rows of the registry, a scripted port, and what is sent to it."""

import pytest
from support.screen_inside import ScriptedScreen
from support.scripted_port import event
from support.settings_page import (
    DOWN,
    ENTER,
    ESC,
    F6,
    FILE,
    RIGHT,
    ScriptedFile,
    at,
    at_settings,
    focus_back,
    has,
    press,
    row_of,
    saves,
)

from fluzo.core import events
from fluzo.core.errors import StorageError
from fluzo.core.port import Ack, ApplyConfigToActiveWork, SaveConfig
from fluzo.core.settings import set_value


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_a_row_shows_what_is_saved_what_is_in_force_and_from_where(columns: int, rows: int) -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "max_turns")
        picture = await press(shown)
        row = row_of(picture, "turns per task")
        assert row.split("turns per task")[1].split()[:2] == ["30", "80"] and row.endswith("flag")
        assert has(picture, "harness.max_turns 1 to 100000 turns default 30")
        assert has(picture, "locked by --set for this run")
        assert ("1 to 100000" in row) == (columns >= 112)

    at_settings(work, ScriptedFile({"harness.max_turns": 80}), columns=columns, rows=rows)


def test_groups_stand_at_the_left_and_are_jumped_to() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        picture = await press(shown)
        assert has(picture, "> Models") and has(picture, "main: endpoint")
        picture = await press(shown, "\t")
        assert has(picture, "> Limits")
        assert has(picture, "harness.max_turns")
        await press(shown, ESC)
        shown.screen.run_action("settings.limits")
        assert has(await press(shown), "> Limits")
        picture = await press(shown, ESC, "\x1bp")
        assert has(picture, "> Models")

    at_settings(work)


def test_an_edit_is_marked_and_sent_with_the_file_it_stands_on() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        seen = str(file.file)
        await at(shown, "max_turns")
        picture = await press(shown, ENTER, "\x7f\x7f", "45", ENTER)
        assert row_of(picture, "turns per task").split("turns per task")[1].split() == ["30", "45", "*", "edited"]
        assert has(picture, "1 change not saved") and saves(shown) == []
        picture = await press(shown, "s")
        assert saves(shown) == [SaveConfig({"harness.max_turns": 45}, seen)]
        assert row_of(picture, "turns per task").split("turns per task")[1].split() == ["45", "same", "file"]
        assert has(picture, ".fluzo saved")

    at_settings(work)


@pytest.mark.parametrize(
    ("wanted", "text", "words"),
    [
        ("max_turns", "0", "harness.max_turns must be a whole number from 1 to 100000 (turns)."),
        ("max_turns", "many", "harness.max_turns takes a whole number"),
        ("compaction_threshold", "7", "context.compaction_threshold must be a number from 0.1 to 1"),
        ("models.main.model", "sk-abcdefghijklmnopqrstuvwx", "models.main.model looks like a literal secret"),
    ],
)
def test_a_bad_value_is_refused_with_key_and_range_and_can_be_corrected(wanted: str, text: str, words: str) -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, wanted)
        picture = await press(shown, ENTER, "\x15", text, ENTER)
        assert has(picture, words)
        picture = await press(shown, ESC, "s")
        assert has(picture, "There is nothing to save") and saves(shown) == []

    at_settings(work)


def test_values_that_do_not_fit_together_are_told_at_once_and_not_sent() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "max_output_tokens")
        picture = await press(shown, ENTER, "\x15", "40000", ENTER)
        assert has(picture, "leaves no room for input")
        picture = await press(shown, "s")
        assert has(picture, "leaves no room for input") and saves(shown) == []
        await press(shown, ESC)
        await at(shown, "main: context window")
        picture = await press(shown, ENTER, "\x15", "90000", ENTER, "s")
        (sent,) = saves(shown)
        assert sent.values == {"models.main.max_output_tokens": 40000, "models.main.context_window": 90000}

    at_settings(work)


def test_toggles_and_choices_go_on_and_numbers_step_within_their_range() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "tui.theme")
        assert has(await press(shown, " "), "high-co… *")
        await press(shown, ESC)
        await at(shown, "reduced_motion")
        assert has(await press(shown, RIGHT), "on *")
        await press(shown, ESC)
        await at(shown, "max_visible")
        picture = await press(shown, RIGHT, RIGHT, RIGHT)
        assert has(picture, "tui.notifications.max_visible must be a whole number from 1 to 5")
        assert has(picture, "5 *") and has(picture, "3 changes not saved")

    at_settings(work)


def test_default_and_undo_take_an_edit_back() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "max_turns")
        file.file = file.in_force = set_value(FILE, "harness.max_turns", 5)
        await press(shown, ESC)
        await at(shown, "max_turns")
        focus_back(shown)
        picture = await press(shown, "r")
        assert row_of(picture, "turns per task").split("turns per task")[1].split() == ["5", "30", "*", "edited"]
        assert has(await press(shown, "u"), ".fluzo saved")
        await press(shown, "r", "s")
        assert saves(shown)[0].values == {"harness.max_turns": None}

    at_settings(work)


def test_leaving_with_edits_asks_once_and_they_survive_other_pages() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "max_turns")
        await press(shown, RIGHT, ESC)
        picture = await press(shown, ESC)
        assert has(picture, "1 change is not saved. Esc again drops them; s saves")
        assert has(await press(shown, DOWN, ESC), "not saved. Esc again")
        await press(shown, "\x1bOP")
        assert has(await press(shown, F6), "1 change not saved")
        await press(shown, ESC, ESC)
        assert shown.screen.views == []
        assert not has(await press(shown, F6), "not saved")

    at_settings(work)


def test_a_file_that_moved_is_told_before_anything_is_saved_and_the_edits_go_on_top() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "max_turns")
        await press(shown, RIGHT)
        file.changed_outside("harness.max_tool_calls", "50")
        picture = await press(shown, "s")
        assert has(picture, "The file was changed outside. R takes it over (drops your 1 change) K keeps them on top")
        assert saves(shown) == []
        picture = await press(shown, "K", "s")
        assert saves(shown)[0].values == {"harness.max_turns": 40}
        assert file.file["harness"] == {"max_turns": 40, "max_tool_calls": 50}
        assert not has(picture, "changed outside")
        file.changed_outside("harness.max_tool_calls", "60")
        focus_back(shown)
        assert has(await press(shown), "changed outside")

    at_settings(work)


def test_reload_takes_the_file_over_and_drops_the_edits() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "max_turns")
        await press(shown, RIGHT)
        file.changed_outside("harness.max_turns", "7")
        focus_back(shown)
        await press(shown)
        picture = await press(shown, "R")
        assert saves(shown) == [SaveConfig({}, str(file.file))]
        assert row_of(picture, "turns per task").split("turns per task")[1].split() == ["7", "same", "file"]
        assert has(picture, ".fluzo saved")

    at_settings(work)


def test_a_refused_save_keeps_the_edits_and_says_why() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "max_turns")
        file.refusal = Ack(False, code="configuration_invalid", message=".fluzo could not be saved: disk full.")
        picture = await press(shown, RIGHT, "s")
        assert has(picture, "disk full. [configuration_invalid]") and has(picture, "1 change not saved")
        file.refusal = None
        assert has(await press(shown, "s"), ".fluzo saved")

    at_settings(work)


def test_a_broken_file_shows_its_diagnosis_and_is_never_sent_to() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "max_turns")
        await press(shown, RIGHT)
        file.problem = ".fluzo, line 12: harness.max_turn is not a setting; did you mean harness.max_turns?"
        picture = await press(shown, "s")
        assert has(picture, "line 12: harness.max_turn is not a setting")
        await press(shown, "s", "R", "K", "s")
        assert saves(shown) == []
        file.problem = ""
        assert not has(await press(shown, "R"), "line 12")

    at_settings(work)


def test_what_concerns_the_screen_counts_at_once_when_it_is_saved() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        for key in ("tui.theme", "reduced_motion", "duration_seconds"):
            await at(shown, key)
            await press(shown, RIGHT, ESC)
        assert shown.screen.preferences.theme == "default"
        await press(shown, "s")
        assert shown.screen.preferences.theme == "high-contrast" and shown.screen.preferences.reduced_motion
        assert shown.screen.options.notice_seconds == 6

    at_settings(work)


def test_another_model_is_shown_when_it_is_in_force_and_after_the_running_task() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "models.main.model")
        await press(shown, ENTER, "\x15", "other", ENTER, "s")
        assert shown.screen.state.model == "scripted"
        shown.screen.apply(event(60, events.TaskStateChanged("running", "completed")))
        assert shown.screen.state.model == "other"

    at_settings(work, task=TASK)


TASK = {
    "task": {
        "id": "t_1",
        "state": "running",
        "reason": "",
        "text": "go",
        "limits": {
            "max_turns": 30,
            "max_tool_calls": 100,
            "max_active_seconds": 1200,
            "max_total_tokens": 200_000,
            "max_cost_microunits": 0,
        },
        "consumption": {
            "turns": 12,
            "tool_calls": 3,
            "active_seconds": 61.5,
            "input_tokens": 900,
            "output_tokens": 100,
            "cost_microunits": 0,
        },
        "result": None,
    },
    "processes": [],
    "failure": None,
}


def applied(shown: ScriptedScreen) -> list[ApplyConfigToActiveWork]:
    return [command for command in shown.port.commands if isinstance(command, ApplyConfigToActiveWork)]


def test_limits_reach_the_running_task_after_a_preview_and_two_acts() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "max_turns")
        picture = await press(shown, ENTER, "\x15", "10", ENTER, "A")
        row = row_of(picture, "turns per task")
        assert row.split("turns per task")[1].split()[:3] == ["30", "10", "12"] and "used up" in row
        await press(shown, "2", ENTER)
        assert applied(shown) == []
        shown.clock.time += 1
        await press(shown, "2")
        shown.clock.time += 1
        picture = await press(shown, ENTER)
        assert applied(shown) == [ApplyConfigToActiveWork("t_1", {"max_turns": 10})]
        assert has(picture, "The running task has the new limits") and has(picture, "1 change not saved")
        assert saves(shown) == []

    at_settings(work, task=TASK)


def test_nothing_is_applied_while_nothing_runs() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        assert has(await press(shown, "A"), "No task is running")

    at_settings(work)


def test_names_from_the_file_cannot_act_on_the_terminal() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        picture = await press(shown)
        await at(shown, "models.main.model")
        picture = await press(shown)
        assert "\x1b[2J" not in shown.written and "\u202e" not in shown.written
        assert has(picture, "main: model")

    file = ScriptedFile()
    file.file = file.in_force = set_value(FILE, "models.main.model", "a\x1b[2Jb\u202ec")
    at_settings(work, file)


def test_a_save_that_could_not_look_at_the_file_is_over_and_told() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "max_turns")
        file.failure = StorageError("The disk does not answer.", code="storage_busy")
        picture = await press(shown, RIGHT, "s")
        assert has(picture, "Nothing is saved. The disk does not answer.")
        file.failure = None
        focus_back(shown)
        assert "1 change not saved" in (await press(shown))[0]
        assert saves(shown) == []
        await press(shown, "s")
        assert [command.values for command in saves(shown)] == [{"harness.max_turns": 40}]

    at_settings(work)


def test_what_is_saved_are_the_edits_that_were_there_when_it_was_asked_for() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "max_turns")
        await press(shown, RIGHT)
        shown.keys("s")
        shown.keys(RIGHT)
        assert "1 change not saved" in (await press(shown))[0]
        shown.keys("s")
        for key in (ESC, ESC, ESC):  # Out of the search, then the edits are dropped.
            shown.keys(key)
        await press(shown)
        assert [command.values for command in saves(shown)] == [{"harness.max_turns": 40}]

    at_settings(work)
