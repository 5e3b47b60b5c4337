"""The states of the mock-ups against golden screens: characters and tokens of every cell, at the three sizes."""

from collections.abc import Callable

import pytest
from prompt_toolkit.output import ColorDepth
from support import scenes
from support.golden import compare
from support.records import session_row, until
from support.screen import SIZES
from support.screen_inside import ScriptedScreen, inside

from fluzo.core.port import FolderFacts, SessionList
from fluzo.screens.notice import Level, received
from fluzo.screens.options import Options

FOLDER = "~/src/ledger"
ENVIRON = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def _answering(shown: ScriptedScreen) -> None:
    scenes.permission(shown)
    shown.draw()
    shown.clock.time += 1
    shown.keys("\t")
    shown.draw()
    shown.clock.time += 1
    shown.keys("2")


def _palette(shown: ScriptedScreen) -> None:
    for command in ("/diff\r", "\x1b"):
        shown.keys(command)
    shown.keys("\x10")
    shown.keys("mo")


def _notices(shown: ScriptedScreen) -> None:
    scenes.start(shown)
    board = shown.screen.board

    def receive(notice_id: str, level: Level, title: str, text: str) -> None:
        board.notices = received(board.notices, notice_id, level, title, text, shown.clock.time + 5)

    receive("n_1", "error", "Invoice PDF layout failed", "model refused the request; see F4")
    receive("n_2", "done", "Map callers of q() done", "00:48, checks passed")
    receive("n_3", "warn", "context at 75 %", "compaction starts at 80 %")
    receive("n_4", "info", "one more", "that does not fit")


def _done(shown: ScriptedScreen) -> None:
    scenes.work(shown)
    scenes.end(shown, "completed")


def _failed(shown: ScriptedScreen) -> None:
    scenes.work(shown)
    scenes.end(shown, "failed", "model_invalid_reply", 'The reply was not valid for tool "edit".')


def _blocked(shown: ScriptedScreen) -> None:
    scenes.start(shown)
    scenes.end(shown, "blocked", "endpoint_unreachable", "No answer from http://127.0.0.1:11434/v1.", "Start it.")


def _cancelled(shown: ScriptedScreen) -> None:
    scenes.work(shown)
    scenes.end(shown, "cancelled", "cancelled_by_user")


def _yolo(shown: ScriptedScreen) -> None:
    shown.keys("/yolo yolo\r")
    scenes.work(shown)


SCENES: dict[str, Callable[[ScriptedScreen], None]] = {
    "working": scenes.work,
    "permission": scenes.permission,
    "answering": _answering,
    "palette": _palette,
    "notices": _notices,
    "done": _done,
    "failed": _failed,
    "blocked": _blocked,
    "cancelled": _cancelled,
    "yolo": _yolo,
}


@pytest.mark.parametrize(("columns", "rows"), SIZES)
@pytest.mark.parametrize("name", SCENES)
def test_a_state_looks_as_it_was_drawn(name: str, columns: int, rows: int, request: pytest.FixtureRequest) -> None:
    async def look(shown: ScriptedScreen) -> None:
        SCENES[name](shown)
        compare(request, f"{name}-{columns}x{rows}", shown)

    options = Options(FOLDER, environ=ENVIRON, reduced_motion=True)
    inside(look, columns=columns, rows=rows, options=options, facts=scenes.FACTS)


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_an_empty_conversation_looks_as_it_was_drawn(columns: int, rows: int, request: pytest.FixtureRequest) -> None:
    async def look(shown: ScriptedScreen) -> None:
        await until(lambda: shown.screen.state.earlier.tasks == 2 and shown.screen.state.own_changes == 3)
        compare(request, f"idle-{columns}x{rows}", shown)

    options = Options(FOLDER, environ=ENVIRON, reduced_motion=True)
    last = session_row(title="Invoice import", updated_at="2020-11-02T12:00:00Z")
    answers = {
        FolderFacts: {"branch": "main", "changed": 3, "instructions": [{"name": "AGENTS.md", "size_bytes": 2100}]},
        SessionList: {"sessions": [last, session_row(id="s_6", updated_at="2020-01-02T12:00:00Z")]},
    }
    inside(look, columns=columns, rows=rows, options=options, facts=scenes.FACTS, answers=answers)


@pytest.mark.parametrize("name", ["working", "answering", "failed"])
def test_without_colour_and_unicode_a_state_looks_as_it_was_drawn(name: str, request: pytest.FixtureRequest) -> None:
    async def look(shown: ScriptedScreen) -> None:
        SCENES[name](shown)
        compare(request, f"{name}-plain", shown)

    environ = {"TERM": "linux", "NO_COLOR": "1"}
    options = Options(FOLDER, environ=environ, reduced_motion=True)
    inside(look, options=options, facts=scenes.FACTS, depth=ColorDepth.DEPTH_1_BIT)


def test_a_terminal_too_small_says_so(request: pytest.FixtureRequest) -> None:
    async def look(shown: ScriptedScreen) -> None:
        scenes.permission(shown)
        compare(request, "too-small-50x12", shown)

    inside(look, columns=50, rows=12, options=Options(FOLDER, environ=ENVIRON), facts=scenes.FACTS)
