import asyncio

import pytest
from support.screen_inside import ScriptedScreen, begin_task, inside

from fluzo.screens.demo import Scene, Script
from fluzo.screens.options import Options
from fluzo.screens.specimens import SAMPLES, STATES, width_card
from fluzo.screens.text import cells

ENVIRON = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
PREPARED: list[str] = []


def demo_options() -> Options:
    PREPARED.clear()
    scenes = (Scene("The first", "Look here.", "Do the first."), Scene("A list", "Look there.", opens="sessions"))
    return Options("~/w", environ=ENVIRON, demo=Script(scenes, PREPARED.append))


def test_the_mark_is_shown_in_every_state_at_every_rate_and_is_its_own_again_after() -> None:
    async def work(shown: ScriptedScreen) -> None:
        screen = shown.screen
        screen.run_action("demo", "4")
        motion = screen.motion
        for word in STATES:
            rows = shown.draw()
            assert any(f" > {'done' if word == 'completed' else word}" in row for row in rows)
            assert "MADE UP" in rows[3]
            assert rows[-1].startswith(" DEMO ")
            assert (motion._state, motion.moving) == (word, word in ("running", "waiting", "completed"))
            shown.keys("\x1b[B")
        for _ in STATES:
            shown.keys("\x1b[A")
        shown.keys("\x1b[B")
        for key, rate in (("6", 60), ("3", 30), ("1", 15)):
            shown.keys(key)
            shown.draw()
            assert (motion.fps, motion.moving) == (rate, True)
            assert motion.next_at == pytest.approx(shown.clock() + 1 / rate)
        shown.keys("0")
        shown.draw()
        assert (motion.fps, motion.moving, motion.next_at) == (0, False, None)
        shown.keys("6")
        shown.keys("r")
        assert any("reduced motion" in row for row in shown.draw())
        assert not motion.moving
        shown.keys("r")
        shown.draw()
        assert motion.moving
        shown.keys("\x1b")
        shown.draw()
        assert (motion._state, motion.moving) == ("idle", False)
        assert screen.state.word == "idle"

    inside(work, options=demo_options())


def test_without_unicode_the_shown_mark_is_the_word() -> None:
    async def work(shown: ScriptedScreen) -> None:
        shown.screen.run_action("demo", "4")
        rows = shown.draw()
        assert [row.strip() for row in rows[:3]] == ["", "FLUZO", ""]
        assert shown.written.isascii()

    inside(work, options=demo_options()._replace(environ={**ENVIRON, "TERM": "linux"}))


def test_made_up_notices_say_so_and_touch_no_task() -> None:
    async def work(shown: ScriptedScreen) -> None:
        before = shown.screen.state
        shown.screen.run_action("demo", "3")
        assert all("Made up" in item.title for item in shown.screen.board.notices.kept)
        assert {item.level for item in shown.screen.board.notices.kept} == {"info", "done", "warn", "error"}
        assert any("Made up: a long one" in row for row in shown.draw())
        assert shown.screen.state is before

    inside(work, options=demo_options())


def test_every_row_of_the_width_card_ends_at_the_same_cell() -> None:
    rows = width_card().split("\n")
    assert len(rows) == len(SAMPLES) + 2
    assert len({cells(row.partition("|")[0]) for row in rows}) == 1


def test_a_scene_puts_the_repository_back_and_sends_its_text_in_a_new_session_without_yolo() -> None:
    async def work(shown: ScriptedScreen) -> None:
        screen = shown.screen
        screen.state = screen.state._replace(yolo=True, session_id="s_old")
        screen.composer.insert("my draft")
        shown.keys("\x1b[18~")
        assert any(">  1  The first" in row for row in shown.draw())
        shown.keys("\r")
        while screen.state.waiting_submit is None and not screen.state.task_id:
            await asyncio.sleep(0)
        (command,) = shown.port.commands
        assert command._asdict()["text"] == "Do the first."
        assert (command._asdict()["session_id"], command._asdict()["yolo"]) == ("", False)
        assert PREPARED == ["Do the first."]
        assert shown.approvals() == []

    inside(work, options=demo_options())


def test_no_scene_begins_beside_a_task_or_without_a_number_of_its_own() -> None:
    async def work(shown: ScriptedScreen) -> None:
        screen = shown.screen
        for argument in ("0", "6", "x", "-1"):
            screen.run_action("demo", argument)
            assert screen.flash == "Scenes have the numbers 1 to 5; /demo lists them"
        begin_task(shown)
        sent = len(shown.port.commands)
        screen.run_action("demo", "1")
        assert "A task is running" in screen.flash
        assert len(shown.port.commands) == sent
        assert PREPARED == []

    inside(work, options=demo_options())


def test_a_live_session_has_no_scenes_and_no_badge() -> None:
    async def work(shown: ScriptedScreen) -> None:
        assert "demo" not in shown.screen.registry.actions
        assert "DEMO" not in "\n".join(shown.draw())
        shown.screen.run_action("demo")
        assert shown.screen.views == []

    inside(work)
