import asyncio
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.output import ColorDepth
from support.project import make_project
from support.screen import user_at
from support.screen_inside import ScriptedScreen, ask, begin_task, feed, inside, request
from support.scripted_port import event
from support.settings import raw

from fluzo.core import events
from fluzo.core.port import Ack, CapacityStatus, ConfigDetail, SaveConfig
from fluzo.core.settings import check_settings
from fluzo.core.settings_rows import InForce, config_rows
from fluzo.screens.blocks import Block
from fluzo.screens.options import Options
from fluzo.screens.overlay import screen_facts
from fluzo.screens.preferences import FIELDS
from fluzo.screens.state import PageRead
from fluzo.screens.stats import FrameStats

ENVIRON = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
F12, ESC, DOWN, RIGHT, LEFT = "\x1b[24~", "\x1b", "\x1b[B", "\x1b[C", "\x1b[D"
KEYS = [*FIELDS, "decision.enabled"]


def detail(file: Mapping[str, Any] | None = None, flags: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the runtime tells of the settings, made by the registry itself."""
    data = {**raw(), **(file or {})}
    settings, problems = check_settings(data)
    assert settings is not None, problems
    rows = config_rows(InForce(settings, data, flags or {}, settings), data, settings)
    return {
        "path": "/w/.fluzo",
        "fingerprint": "f-1",
        "in_force": "f-1",
        "problem": "",
        "hint": "",
        "consent": [],
        "rows": rows,
    }


def options(**fields: Any) -> Options:
    return Options("~/w", dev_menu=True, environ=ENVIRON, **fields)


async def opened(shown: ScriptedScreen) -> str:
    """The menu as it is drawn once the settings are known."""
    shown.keys(F12)
    return await drawn(shown)


async def drawn(shown: ScriptedScreen) -> str:
    for _ in range(5):
        await asyncio.sleep(0)  # Answers of the port come by the loop.
    shown.draw()
    return "\n".join(shown.draw())


def saves(shown: ScriptedScreen) -> list[SaveConfig]:
    return [item for item in shown.port.commands if isinstance(item, SaveConfig)]


def light(shown: ScriptedScreen, key: str) -> None:
    shown.keys("k" * len(KEYS))
    shown.keys("j" * KEYS.index(key))


def test_without_the_option_there_is_no_menu_key_command_nor_palette_row() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.keys(F12)
        assert not shown.screen.views
        assert shown.screen.registry.by_slash("/devmenu") is None
        shown.keys("/devmenu\r")
        assert not shown.screen.views
        assert "devmenu" not in [action.id for action in shown.screen.registry.commands()]

    inside(look, options=Options("~/w", environ=ENVIRON), answers={ConfigDetail: detail()})


def test_a_step_out_of_the_range_says_the_range() -> None:
    async def step(shown: ScriptedScreen) -> None:
        await opened(shown)
        light(shown, "tui.animation_fps")
        shown.keys("+")
        assert "tui.animation_fps goes from 0 to 60" in (await drawn(shown)).splitlines()[-1]
        shown.keys("-")
        assert "goes from" not in (await drawn(shown)).splitlines()[-1]

    inside(step, options=options(), answers={ConfigDetail: detail()})


@pytest.mark.parametrize("way", ["key", "command", "palette"])
def test_where_it_is_offered_it_opens_in_three_ways(way: str) -> None:
    async def look(shown: ScriptedScreen) -> None:
        if way == "key":
            shown.keys(F12)
        elif way == "command":
            shown.keys("/devmenu")
            shown.keys("\r")
        else:
            shown.keys("\x10developer")
            shown.keys("\r")
        assert "Developer menu" in (await drawn(shown)).splitlines()[0]

    inside(look, options=options(), answers={ConfigDetail: detail()})


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (160, 50)])
def test_each_entry_shows_its_key_purpose_default_value_source_and_when_it_applies(size: tuple[int, int]) -> None:
    file = {"tui": {"animation_fps": 30}}

    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        rows, about = {}, {}
        for key in KEYS:
            light(shown, key)
            picture = await drawn(shown)
            assert all(len(row) <= size[0] for row in picture.splitlines())
            rows[key] = next(row for row in picture.splitlines() if row.startswith(f" > {key[:20]}"))
            about[key] = " ".join(picture.split())
        assert re.search(r"\[30\] .*file +live", rows["tui.animation_fps"])
        assert re.search(r"\[off\] .*default +live", rows["tui.reduced_motion"])
        assert re.search(r"\[default\] .*default +live", rows["tui.theme"])
        assert all("live" in rows[key] for key in FIELDS)
        assert re.search("locked .*consent not given", rows["decision.enabled"])
        fps = "0 to 60 frames per second; default 60; in force 30 (applies at once)"
        assert f"Upper bound of the logo's motion; 0 is still. integer: {fps}" in about["tui.animation_fps"]
        assert "choice: default, high-contrast; default default" in about["tui.theme"]
        assert "boolean: off, on; default off" in about["tui.flags.render_diagnostics"]
        assert "never here" in about["decision.enabled"]

    inside(look, columns=size[0], rows=size[1], options=options(animation_fps=30), answers={ConfigDetail: detail(file)})


def test_a_preview_is_seen_at_once_and_ends_with_the_menu() -> None:
    async def look(shown: ScriptedScreen) -> None:
        screen = shown.screen
        begin_task(shown)
        shown.keys("a draft")
        ground = screen.ground
        await opened(shown)
        shown.keys(LEFT)
        light(shown, "tui.theme")
        shown.keys(RIGHT)
        light(shown, "tui.reduced_motion")
        shown.keys("\r")
        light(shown, "tui.flags.render_diagnostics")
        shown.keys("\r")
        picture = await drawn(shown)
        assert "preview, not applied" in picture
        assert (screen.theme, screen.motion.rate, screen.motion.fps) == ("high-contrast", 55, 0)
        assert screen.ground != ground
        assert "work done by Fluzo, not display FPS" in picture
        shown.keys(ESC)
        shown.draw()
        assert (screen.theme, screen.motion.fps, screen.ground) == ("default", 60, ground)
        assert not screen.preferences.render_diagnostics
        assert screen.composer.text == "a draft"
        assert screen.body.focus == "composer"
        assert screen.state.running
        assert not saves(shown)

    inside(look, columns=120, rows=40, options=options(), answers={ConfigDetail: detail()})


def test_a_preview_moves_neither_scroll_nor_what_streams() -> None:
    async def look(shown: ScriptedScreen) -> None:
        blocks = tuple(Block(0, "text", "t_0", f"Message {number}.") for number in range(100))
        shown.screen.apply(PageRead("s_9", "Long", blocks, 1, False, True))
        shown.draw()
        shown.keys(f"{ESC}[5~")
        before = shown.draw()
        await opened(shown)
        light(shown, "tui.theme")
        shown.keys(RIGHT)
        await drawn(shown)
        shown.keys(ESC)
        shown.draw()
        assert shown.draw() == before

    inside(look, options=options(), answers={ConfigDetail: detail()})


def test_applied_for_the_session_it_stays_and_the_file_is_not_touched() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        light(shown, "tui.theme")
        shown.keys(f"{RIGHT}a")
        picture = await drawn(shown)
        assert "Applied for this session" in picture
        assert "preview, not applied" not in picture
        assert "session" in next(row for row in picture.splitlines() if "tui.theme" in row)
        shown.keys(ESC)
        shown.draw()
        assert shown.screen.theme == "high-contrast"
        assert not saves(shown)

    inside(look, options=options(), answers={ConfigDetail: detail()})


def test_saving_sends_what_differs_from_the_file_and_nothing_else() -> None:
    file = {"tui": {"animation_fps": 30, "reduced_motion": True}, "harness": {"max_turns": 7}}

    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        light(shown, "tui.theme")
        shown.keys(RIGHT)
        light(shown, "tui.reduced_motion")
        shown.keys("\r")
        shown.keys("s")
        assert saves(shown) == [SaveConfig({"tui.reduced_motion": None, "tui.theme": "high-contrast"}, "f-1")]
        assert "Saved 2 settings to .fluzo" in await drawn(shown)
        shown.keys(ESC)
        shown.draw()
        assert shown.screen.theme == "high-contrast"

    start = options(animation_fps=30, reduced_motion=True)
    inside(look, columns=120, rows=40, options=start, answers={ConfigDetail: detail(file)})


def test_what_is_refused_was_not_saved_and_stays_a_preview() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.port._ack = Ack(False, code="config_changed", message="The file has changed since it was shown.")
        await opened(shown)
        light(shown, "tui.theme")
        shown.keys(f"{RIGHT}s")
        picture = await drawn(shown)
        assert "The file has changed since it was shown." in picture
        assert "preview, not applied" in picture
        assert "Saved" not in picture
        shown.keys(ESC)
        shown.draw()
        assert shown.screen.theme == "default"

    inside(look, columns=120, rows=40, options=options(), answers={ConfigDetail: detail()})


def test_defaults_are_a_preview_too() -> None:
    file = {"tui": {"animation_fps": 30, "theme": "high-contrast"}}

    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        shown.keys("d")
        assert "preview, not applied" in await drawn(shown)
        assert (shown.screen.motion.rate, shown.screen.theme) == (60, "default")
        shown.keys(ESC)
        shown.draw()
        assert (shown.screen.motion.rate, shown.screen.theme) == (30, "high-contrast")

    start = options(animation_fps=30, theme="high-contrast")
    inside(look, options=start, answers={ConfigDetail: detail(file)})


def test_numbers_stay_in_their_range() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        shown.keys("-" * 3)
        assert shown.screen.motion.rate == 57
        shown.keys(LEFT * 20)
        assert shown.screen.motion.rate == 0
        shown.keys(RIGHT * 20)
        assert shown.screen.motion.rate == 60

    inside(look, options=options(), answers={ConfigDetail: detail()})


def test_what_the_command_line_fixes_is_locked() -> None:
    flags = {"tui.animation_fps": 15}
    file = {"tui": {"animation_fps": 15}}

    async def look(shown: ScriptedScreen) -> None:
        picture = await opened(shown)
        line = next(row for row in picture.splitlines() if "tui.animation_fps" in row)
        assert "flag" in line
        assert "locked" in line
        assert "Fixed for this run by --animation-fps." in picture
        shown.keys(f"{RIGHT}d")
        assert shown.screen.motion.rate == 15
        shown.keys("s")
        assert all("tui.animation_fps" not in item.values for item in saves(shown))

    start = options(animation_fps=15, locks={"tui.animation_fps": "--animation-fps"})
    inside(look, columns=120, rows=40, options=start, answers={ConfigDetail: detail(file, flags)})


def test_reduced_motion_and_few_colours_say_that_they_hold_the_rate_back() -> None:
    async def look(shown: ScriptedScreen) -> None:
        assert "tui.reduced_motion is on" in await opened(shown)
        shown.keys(RIGHT)
        assert shown.screen.motion.fps == 0

    start = options(reduced_motion=True, locks={"tui.reduced_motion": "FLUZO_REDUCED_MOTION"})
    inside(look, columns=120, rows=40, options=start, answers={ConfigDetail: detail()})

    async def poor(shown: ScriptedScreen) -> None:
        assert "too few colours" in await opened(shown)

    inside(poor, options=options(), depth=ColorDepth.DEPTH_4_BIT, answers={ConfigDetail: detail()})


def test_the_search_leaves_what_has_the_words_and_its_keys_change_nothing() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        shown.keys("/")
        shown.keys("theme")
        picture = await drawn(shown)
        assert "tui.theme" in picture
        assert "tui.animation_fps" not in picture
        shown.keys("sad")
        assert "Nothing here has these words." in await drawn(shown)
        shown.keys("\x7f\x7f\x7f\r")
        shown.keys(RIGHT)
        assert shown.screen.theme == "high-contrast"
        assert not saves(shown)

    inside(look, options=options(), answers={ConfigDetail: detail()})


def test_the_observer_cannot_be_switched_here_nor_anything_that_is_not_shown() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        light(shown, "decision.enabled")
        before = shown.screen.preferences
        for key in (RIGHT, LEFT, "\r", "+", "-"):
            shown.keys(key)
        picture = await drawn(shown)
        assert "The observer is set up and consented to in the settings" in picture
        assert shown.screen.preferences == before
        shown.keys("d")
        shown.keys("s")
        for item in saves(shown):
            assert set(item.values) <= set(FIELDS)
        assert all(isinstance(item, SaveConfig) for item in shown.port.commands)
        assert all(key.startswith("tui.") for key in FIELDS)

    inside(look, columns=120, rows=40, options=options(), answers={ConfigDetail: detail()})


@pytest.mark.parametrize("key", ["a", "s", "d", "\r", " ", RIGHT, "/"])
def test_no_key_of_the_menu_answers_a_request(key: str) -> None:
    async def press(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request())
        await opened(shown)
        for _ in range(3):
            shown.clock.time += 1
            shown.keys(key)
        assert not shown.approvals()
        assert shown.screen.request is not None
        assert not shown.screen.state.yolo

    inside(press, options=options(), answers={ConfigDetail: detail()})


def test_before_the_runtime_is_there_it_says_so_and_changes_nothing() -> None:
    async def look(shown: ScriptedScreen) -> None:
        link, shown.screen.link = shown.screen.link, None
        assert "Reading the settings." in await opened(shown)
        shown.keys(f"{RIGHT}ds")
        assert shown.screen.motion.rate == 60
        shown.screen.link = link
        feed(shown, [event(3, events.WarningRaised("w", "w"))])
        assert "tui.animation_fps" in await drawn(shown)

    inside(look, options=options(), answers={ConfigDetail: detail()})


# --- the render diagnostics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
def test_the_diagnostics_stand_over_the_conversation_and_ask_for_no_frame(size: tuple[int, int]) -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        picture = await drawn(shown)
        assert "work done by Fluzo, not display FPS" in picture
        assert "redraws " in picture
        assert "skipped 0" in picture
        shown.screen.apply(event(90, events.TaskStateChanged("running", "failed")))
        await drawn(shown)
        quiet = rounds = 0
        while quiet < 3:  # Until what was asked for while the task ran is over.
            await asyncio.sleep(0.02)
            quiet, rounds = (0 if shown.terminal.taken() else quiet + 1), rounds + 1
            assert rounds < 200, "the diagnostics go on asking for frames"

    inside(look, columns=size[0], rows=size[1], options=options(render_diagnostics=True))


def test_the_diagnostics_leave_the_mark_free_and_the_card_whole() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        await drawn(shown)
        assert shown.screen.motion.moving
        ask(shown, request(scope={**request()["scope"], "argv": ["run", *(f"argument-{n}" for n in range(300))]}))
        picture = await drawn(shown)
        for wanted in ("UNSANDBOXED", "1  Deny", "2  Allow once"):
            assert wanted in picture

    inside(look, columns=120, rows=40, options=options(render_diagnostics=True))


def test_figures_are_of_the_last_seconds() -> None:
    stats = FrameStats()
    for number in range(100):
        stats.drawn(100 + number / 10, 0.001 * (number % 10), number * 100)
        stats.painted(100 + number / 10)
    figures = stats.figures(109.9, 9_900)
    assert figures.redraws == pytest.approx(10, abs=0.3)
    assert figures.marks == pytest.approx(10, abs=0.3)
    assert figures.p50 == pytest.approx(5)
    assert figures.p95 == pytest.approx(9)
    assert figures.written == pytest.approx(1000, abs=30)
    assert stats.figures(200, 9_900)[:4] == (0, 0, 0, 0)


def test_what_a_picture_depends_on_is_in_the_diagnostics() -> None:
    async def look(shown: ScriptedScreen) -> None:
        assert dict(screen_facts(shown.screen)) == {
            "tui.animation_fps": "30",
            "tui.reduced_motion": "false",
            "tui.theme": "high-contrast",
            "tui.notifications.desktop_enabled": "false",
            "tui.flags.render_diagnostics": "false",
            "size": "120x40 standard",
            "colours": "24 bit",
            "glyphs": "unicode",
            "draws, mark frames, skipped": f"{shown.screen.frames.drawn}, {shown.screen.motion.frames}, 0",
        }

    async def page(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.screen.run_action("diagnostics")
        assert re.search(r"tui\.theme +high-contrast", await drawn(shown))

    start = options(theme="high-contrast", animation_fps=30)
    inside(look, columns=120, rows=40, options=start)
    slots = {"slots": [{"kind": "pool", "name": "main", "occupied": 1, "limit": 1, "queued": 0}]}
    inside(page, columns=120, rows=60, options=start, answers={CapacityStatus: slots})


# --- the theme picker -----------------------------------------------------------------------------------------


def test_the_picker_shows_a_theme_while_moving_and_escape_brings_the_old_one_back() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.keys("/theme")
        shown.keys("\r")
        before = shown.draw()
        background = shown._picture.buffer[0][0].bg
        shown.keys(DOWN)
        shown.draw()
        assert shown.screen.theme == "high-contrast"
        assert shown._picture.buffer[0][0].bg == "000000" != background
        shown.keys(ESC)
        shown.draw()
        shown.draw()
        assert shown._picture.buffer[0][0].bg == background
        assert shown.screen.theme == "default"
        assert "Theme" in "\n".join(before)
        assert not saves(shown)

    inside(look, answers={ConfigDetail: detail()})


@pytest.mark.parametrize("chosen", [DOWN, "j", "2"])
def test_enter_keeps_the_theme_for_the_session(chosen: str) -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.run_action("theme")
        shown.draw()
        shown.keys(chosen)
        shown.keys("\r")
        shown.draw()
        assert not shown.screen.views
        assert shown.screen.theme == "high-contrast"
        assert not saves(shown)

    inside(look, answers={ConfigDetail: detail()})


def test_the_picker_saves_when_the_runtime_says_so() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.run_action("theme")
        await drawn(shown)
        shown.keys("2s")
        assert saves(shown) == [SaveConfig({"tui.theme": "high-contrast"}, "f-1")]
        assert "Saved tui.theme = high-contrast to .fluzo" in await drawn(shown)
        shown.keys(ESC)
        shown.draw()
        assert shown.screen.theme == "high-contrast"

    inside(look, answers={ConfigDetail: detail()})


def test_a_theme_from_the_command_line_is_fixed() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.run_action("theme")
        await drawn(shown)
        shown.keys(f"2{DOWN}")
        assert shown.screen.theme == "default"
        shown.keys("s\r")
        shown.draw()
        assert shown.screen.theme == "default"
        assert not saves(shown)

    fixed = Options("~/w", environ=ENVIRON, locks={"tui.theme": "--set"})
    inside(look, options=fixed, answers={ConfigDetail: detail()})


def test_what_the_picker_keeps_outlives_a_menu_that_was_open_below_it() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        shown.keys(LEFT)
        shown.screen.run_action("theme")
        shown.draw()
        shown.keys("2\r")
        shown.draw()
        shown.keys(ESC)
        shown.draw()
        assert (shown.screen.theme, shown.screen.motion.rate) == ("high-contrast", 60)

    inside(look, options=options(), answers={ConfigDetail: detail()})


def test_nothing_of_the_conversation_is_rendered_again_for_another_theme() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        feed(shown, [event(3, events.WarningRaised("w", "w"))])
        shown.draw()
        renderer = shown.screen.renderer
        renderer.rendered = 0
        shown.screen.prefer(shown.screen.preferences._replace(theme="high-contrast"))
        shown.draw()
        assert renderer.rendered == 0

    inside(look)


def test_a_float_opens_over_a_page_and_gives_the_keyboard_back_to_it() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.run_action("help")
        shown.draw()
        shown.keys("\x10theme")
        assert "Commands" in "\n".join(shown.draw())
        shown.keys(ESC)
        rows = shown.draw()
        assert rows[0].startswith(" FLUZO  · Keys")
        assert "Commands" not in "\n".join(rows)
        shown.keys(ESC)
        shown.draw()
        assert shown.screen.body.focus == "composer"

    inside(look)


def test_at_a_terminal_the_menu_saves_to_the_file_and_the_next_start_looks_like_it(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", "http://127.0.0.1:9/v1")
    file = project.root / ".fluzo"
    with user_at("--dev-menu", "--animation-fps", "15", cwd=project.root, env=os.environ) as user:
        user.sees("idle  scripted")
        user.types(F12)
        user.sees("Fixed for this run by --animation-fps.")
        user.types("jj")
        user.sees("> tui.theme")
        user.types(RIGHT)
        user.sees("preview, not applied")
        assert "high-contrast" not in file.read_text()
        user.types("s")
        user.sees("Saved tui.theme to .fluzo")
        assert 'theme = "high-contrast"' in file.read_text()
        assert "animation_fps" not in file.read_text()
        user.types(ESC)
        user.sees("Type a task")
        user.types("/quit\r")
        assert user.leaves() == 0
    file.write_text(file.read_text() + "dev_menu = true\n")
    with user_at("--no-dev-menu", cwd=project.root, env=os.environ) as user:
        user.sees("idle  scripted")
        user.shows(lambda: user.style("New session").bg == "000000")
        user.types(f"{F12}/devmenu\r")
        user.sees("There is no command /devmenu")
