import asyncio

import pytest
from prompt_toolkit.output import ColorDepth
from support.screen_inside import ScriptedScreen, ask, begin_task, inside, request
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.port import ConfigDetail
from fluzo.screens.logo import compact
from fluzo.screens.motion import Motion, _made
from fluzo.screens.options import Options
from fluzo.screens.state import OpeningFailed, PageRead

ENVIRON = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
COMPACT, STANDARD = (80, 24), (120, 40)
SIZES = pytest.mark.parametrize("size", [COMPACT, STANDARD], ids=["compact", "pixels"])


def options(fps: int = 60, *, reduced: bool = False) -> Options:
    return Options("~/w", animation_fps=fps, reduced_motion=reduced, environ=ENVIRON)


async def settled(shown: ScriptedScreen) -> Motion:
    """Draw, and let the loop do what it was asked for before; the clock stands still meanwhile."""
    shown.draw()
    while shown.screen.app.invalidated:
        await asyncio.sleep(0)
    shown.draw()
    while shown.screen.app.invalidated:
        await asyncio.sleep(0)
    shown._stream.feed(shown.terminal.taken())
    return shown.screen.motion


def picture(shown: ScriptedScreen) -> list[str]:
    return [row.rstrip() for row in shown._picture.display]


def play(shown: ScriptedScreen, seconds: float) -> int:
    """Let this time pass, with every frame of the mark that is due in it; how many were painted."""
    motion, end = shown.screen.motion, shown.clock.time + seconds
    before = motion.frames
    while motion.next_at is not None and motion.next_at <= end:
        shown.clock.time = max(shown.clock.time, motion.next_at)
        motion.tick()
    shown.clock.time = end
    return motion.frames - before


def end_task(shown: ScriptedScreen, state: str) -> None:
    shown.screen.apply(event(90, events.TaskStateChanged("running", state)))


@SIZES
@pytest.mark.parametrize(
    ("fps", "reduced", "frames"),
    [(60, False, 96), (30, False, 48), (15, False, 24), (1, False, 1), (0, False, 0), (60, True, 0), (15, True, 0)],
)
def test_a_running_mark_paints_as_many_frames_as_its_rate(
    size: tuple[int, int], fps: int, reduced: bool, frames: int
) -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        await settled(shown)
        assert play(shown, 1.61) == frames
        assert shown.screen.motion.skipped == 0

    inside(run, columns=size[0], rows=size[1], options=options(fps, reduced=reduced))


@SIZES
def test_a_waiting_mark_pulses_slowly(size: tuple[int, int]) -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request())
        await settled(shown)
        painted = play(shown, 3.01)
        assert 60 < painted <= 180, "fewer frames than the rate: equal ones are not written"
        assert shown.screen.motion.moving

    inside(run, columns=size[0], rows=size[1], options=options())


@SIZES
@pytest.mark.parametrize(("waiting", "period"), [(False, 16), (True, 3)])
def test_the_frames_of_a_pulse_are_made_once_and_return(size: tuple[int, int], waiting: bool, period: int) -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        if waiting:
            ask(shown, request())
        await settled(shown)
        play(shown, 0.01)
        shown.terminal.taken()
        painted = play(shown, period)
        made, written = _made.cache_info().misses, shown.terminal.taken()
        assert play(shown, period) == painted > 0 and shown.terminal.taken() == written
        assert _made.cache_info().misses == made

    inside(run, columns=size[0], rows=size[1], options=options(15))


@SIZES
def test_a_completed_mark_is_lit_once_and_then_nothing_is_written(size: tuple[int, int]) -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        await settled(shown)
        end_task(shown, "completed")
        await settled(shown)
        assert 20 < play(shown, 1.1) <= 61
        assert shown.screen.motion.next_at is None
        shown.terminal.taken()
        assert play(shown, 60.0) == 0
        assert shown.terminal.taken() == ""

    inside(run, columns=size[0], rows=size[1], options=options())


SETTLED = ("idle", "queued", "stopping", "blocked", "failed", "cancelled", "recovered", "no runtime")


@SIZES
@pytest.mark.parametrize("state", SETTLED)
def test_a_state_at_rest_paints_nothing_after_its_frame(size: tuple[int, int], state: str) -> None:
    async def run(shown: ScriptedScreen) -> None:
        screen = shown.screen
        if state in ("stopping", "blocked", "failed", "cancelled"):
            begin_task(shown)
            end_task(shown, state)
        elif state == "queued":
            screen.apply(event(1, events.TaskCreated("go", {})))
        elif state == "recovered":
            screen.apply(PageRead("s_1", "t", (), 1, False, True, "recovered: Fluzo stopped here"))
        elif state == "no runtime":
            screen.apply(OpeningFailed("no", "configuration_invalid"))
        assert screen.state.word == ("blocked" if state == "no runtime" else state)
        motion = await settled(shown)
        assert motion.next_at is None
        assert play(shown, 60.0) == 0
        motion.drawn()
        assert shown.terminal.taken() == "", "a draw that leaves the mark alone repeats no frame of it"

    inside(run, columns=size[0], rows=size[1], options=options())


@pytest.mark.parametrize("depth", [ColorDepth.DEPTH_1_BIT, ColorDepth.DEPTH_4_BIT])
@SIZES
def test_without_shades_nothing_moves(size: tuple[int, int], depth: ColorDepth) -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        motion = await settled(shown)
        assert motion.next_at is None
        assert play(shown, 2.0) == 0

    inside(run, columns=size[0], rows=size[1], options=options(), depth=depth)


def test_frames_that_come_late_are_skipped_and_counted() -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        motion = await settled(shown)
        before = motion.frames
        shown.clock.time += 0.5
        motion.tick()
        assert motion.frames == before + 1
        assert motion.skipped == 29
        assert motion.next_at == pytest.approx(shown.clock.time + 1 / 60)

    inside(run, columns=120, rows=40, options=options())


def test_a_frame_that_is_due_with_a_draw_goes_right_after_it() -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        motion = await settled(shown)
        shown.clock.time += 1 / 60
        shown.screen.app.invalidate()
        motion.tick()
        assert shown.terminal.taken() == ""
        shown.draw()
        assert shown.written.rstrip().endswith("\x1b8")
        assert motion.skipped == 0

    inside(run, columns=120, rows=40, options=options())


@pytest.mark.parametrize("opened", ["palette", "help", "theme"])
def test_what_stands_over_the_mark_is_not_painted_over(opened: str) -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        motion = await settled(shown)
        assert motion.moving
        shown.screen.run_action(opened)
        covered = opened != "theme"  # The picker is narrow and leaves the mark alone.
        await settled(shown)
        rows = picture(shown)
        assert motion.moving is not covered
        painted = play(shown, 1.0)
        assert (painted == 0) is covered
        shown._stream.feed(shown.terminal.taken())
        assert picture(shown) == rows
        shown.screen.views.close()
        await settled(shown)
        assert motion.moving
        assert play(shown, 0.5) == 30

    file = {"path": ".fluzo", "fingerprint": "", "problem": "", "consent": [], "rows": []}
    inside(run, columns=120, rows=40, options=options(), answers={ConfigDetail: file})


def test_nothing_is_painted_while_another_program_has_the_terminal() -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        motion = await settled(shown)
        shown.screen.app.renderer.erase()  # As before a suspend and before an editor.
        shown.terminal.taken()
        shown.clock.time += 0.1
        motion.tick()
        assert shown.terminal.taken() == ""
        await settled(shown)
        assert play(shown, 0.5) == 30, "and it goes on afterwards"

    inside(run, columns=120, rows=40, options=options())


def test_a_screen_that_is_too_small_has_no_mark_to_move() -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        motion = await settled(shown)
        assert not motion.moving
        assert play(shown, 1.0) == 0

    inside(run, columns=59, rows=20, options=options())


@SIZES
def test_painting_changes_no_cell_and_no_cursor(size: tuple[int, int]) -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        await settled(shown)
        rows = picture(shown)
        cursor = (shown._picture.cursor.x, shown._picture.cursor.y)
        shown.terminal.taken()
        assert play(shown, 0.4)
        shown._stream.feed(shown.terminal.taken())
        assert picture(shown) == rows
        assert (shown._picture.cursor.x, shown._picture.cursor.y) == cursor

    inside(run, columns=size[0], rows=size[1], options=options())


def test_the_small_mark_ends_in_the_colours_that_the_header_has_at_rest() -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        await settled(shown)
        end_task(shown, "completed")
        await settled(shown)
        play(shown, 2.0)
        shown._stream.feed(shown.terminal.taken())
        painted = [shown._picture.buffer[0][column].fg for column in range(1, 6)]
        shown.screen.app.renderer.clear()
        shown.screen.motion.stop()
        shown.draw()
        assert [shown._picture.buffer[0][column].fg for column in range(1, 6)] == painted

    inside(run, columns=80, rows=24, options=options())


def test_at_rest_the_small_mark_keeps_colours_that_can_be_read() -> None:
    for theme in ("default", "high-contrast"):
        for state in ("idle", "queued", "recovered"):
            assert compact(state, theme, ColorDepth.DEPTH_24_BIT) == compact("running", theme, ColorDepth.DEPTH_24_BIT)
    assert compact("failed", "default", ColorDepth.DEPTH_24_BIT)[0] == ("bold fg:#ff5a5a", "F")
    assert compact("failed", "default", ColorDepth.DEPTH_4_BIT)[0] == ("bold fg:ansired", "F")
    assert compact("failed", "default", ColorDepth.DEPTH_1_BIT)[0] == ("bold", "F")


@SIZES
def test_a_typed_key_writes_its_cells_and_no_mark(size: tuple[int, int]) -> None:
    async def run(shown: ScriptedScreen) -> None:
        await settled(shown)
        before = len(shown.written)
        shown.keys("x")
        shown.draw()
        assert len(shown.written) - before < 200

    inside(run, columns=size[0], rows=size[1], options=options())


def test_the_time_of_the_task_stands_beside_its_state() -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.clock.time += 42
        assert "running  00:42" in shown.draw()[0]
        end_task(shown, "failed")
        shown.clock.time += 600
        assert "failed  00:42" in shown.draw()[0], "the time it took stays"

    inside(run, columns=80, rows=24, options=options())

    async def beside(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.clock.time += 42
        assert any(row.rstrip().endswith("00:42") and "running" in row[87:] for row in shown.draw())

    inside(beside, columns=120, rows=40, options=options())
