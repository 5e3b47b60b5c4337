import os
from pathlib import Path

import pytest
from prompt_toolkit.data_structures import Size
from support.project import make_project
from support.screen import ScriptedUser, user_at
from support.screen_inside import FakeTerminal, ScriptedScreen, begin_task, inside

from fluzo.screens.terminal import KITTY_OFF, KITTY_ON, RESET, ScreenOutput
from fluzo.screens.theme import ASCII

ASK_KITTY, ASK_CURSOR = "\x1b[?u", "\x1b[6n"


def output(*, asks_width: bool = True) -> tuple[ScreenOutput, FakeTerminal]:
    terminal = FakeTerminal()
    found = ScreenOutput(terminal, lambda: Size(rows=24, columns=80), term="xterm-256color")
    found.asks_width = asks_width
    return found, terminal


def entered(screen: ScreenOutput, terminal: FakeTerminal) -> str:
    screen.enter_alternate_screen()
    screen.flush()
    return terminal.taken()


def left(screen: ScreenOutput, terminal: FakeTerminal) -> str:
    screen.quit_alternate_screen()
    screen.flush()
    return terminal.taken()


def test_the_terminal_is_asked_once_and_on_its_other_screen() -> None:
    screen, terminal = output()
    first = entered(screen, terminal)
    assert first.index("\x1b[?1049h") < first.index(ASK_KITTY) < first.index(ASK_CURSOR)
    assert first.endswith("\r\x1b[K"), "the character it was asked about is gone again"
    left(screen, terminal)
    again = entered(screen, terminal)
    assert ASK_KITTY not in again
    assert ASK_CURSOR not in again


def test_keys_by_number_are_switched_on_for_who_knows_them_and_off_before_the_screen_is_left() -> None:
    screen, terminal = output()
    assert KITTY_ON not in entered(screen, terminal)
    assert screen.answered("\x1b[?0u")
    assert terminal.taken() == KITTY_ON
    assert screen.answered("\x1b[?5u")
    assert terminal.taken() == "", "once is enough"
    end = left(screen, terminal)
    assert end.index(KITTY_OFF) < end.index("\x1b[?1049l")
    assert end.index("\x1b[>4m") < end.index("\x1b[?1049l")
    assert entered(screen, terminal).endswith(KITTY_ON)
    assert screen.undo == KITTY_OFF + RESET


def test_who_does_not_answer_gets_no_keys_by_number() -> None:
    screen, terminal = output()
    assert KITTY_ON not in entered(screen, terminal) + left(screen, terminal) + entered(screen, terminal)
    assert KITTY_OFF not in left(screen, terminal)
    assert screen.undo == RESET


@pytest.mark.parametrize(("report", "wide"), [("\x1b[1;2R", False), ("\x1b[1;3R", True)])
def test_the_width_of_an_ambiguous_character_is_the_column_after_it(report: str, wide: bool) -> None:
    screen, terminal = output()
    told: list[bool] = []
    screen.on_wide = lambda: told.append(True)
    assert not screen.answered(report), "nothing was asked yet"
    entered(screen, terminal)
    assert screen.awaits_width
    assert screen.answered(report)
    assert told == ([True] if wide else [])
    assert not screen.awaits_width
    assert not screen.answered(report), "a second one is no answer"


def test_without_wide_glyphs_no_width_is_asked() -> None:
    screen, terminal = output(asks_width=False)
    assert ASK_CURSOR not in entered(screen, terminal)
    assert not screen.awaits_width


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_where_ambiguous_characters_are_wide_the_chrome_is_ascii(size: tuple[int, int]) -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.draw()
        shown.screen.use_glyphs(ASCII)
        rows = shown.draw()
        chrome = "\n".join(row for row in rows if not set(row) & set("█▀▄"))
        assert chrome.isascii(), chrome
        assert "- ask -" in chrome

    inside(look, columns=size[0], rows=size[1])


def test_a_program_at_a_terminal_that_answers_takes_its_keys_and_gives_everything_back(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", "http://127.0.0.1:9/v1")
    with user_at(cwd=project.root, env=os.environ) as user:
        user.sees("idle  scripted")
        assert ASK_KITTY.encode() in user.raw
        assert ASK_CURSOR.encode() in user.raw
        user.sees("─ ask ─")
        user.types("\x1b[?0u\x1b[1;3R")
        user.sees("- ask -")
        assert KITTY_ON.encode() in user.raw
        user.types("one\x1b[13;2utwo\x1b[97;1uthree\x1b[99;9u")
        user.sees("three")
        assert_lines(user, "one", "twoathree")
        user.types("\x1b[99;5u")
        user.sees("Draft cleared")
        user.types("\x1b[Q")
        user.sees("Sessions")
        user.types("\x1b[27u")
        user.sees("Type a task")
        user.types("/quit\r")
        assert user.leaves() == 0
        assert user.raw.rfind(KITTY_OFF.encode()) > user.raw.rfind(KITTY_ON.encode())
        assert user.raw.rfind(KITTY_OFF.encode()) < user.raw.rfind(b"\x1b[?1049l")


def assert_lines(user: ScriptedUser, *lines: str) -> None:
    shown = [row.removeprefix("> ").strip() for row in user.rows]
    first = shown.index(lines[0])
    assert tuple(shown[first : first + len(lines)]) == lines


def test_a_terminal_that_is_gone_keeps_its_last_size_and_is_told_of_once() -> None:
    sizes: list[Size | None] = [Size(rows=40, columns=120), None, None]
    gone: list[bool] = []

    def size() -> Size:
        if (now := sizes.pop(0)) is None:
            raise OSError("gone")
        return now

    screen = ScreenOutput(FakeTerminal(), size, term="xterm")
    screen.on_gone = lambda: gone.append(True)
    assert [screen.get_size() for _ in range(3)] == [Size(rows=40, columns=120)] * 3
    assert gone == [True]
