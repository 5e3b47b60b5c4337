import asyncio
import gc

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from support.screen import SIZES
from support.screen_inside import ScriptedScreen, begin_task, feed, inside

from fluzo.core.events import TextDelta
from fluzo.screens.blocks import Block
from fluzo.screens.completion import ComposerCompleter, FileIndex, Found, completes
from fluzo.screens.keys import Registry
from fluzo.screens.state import PageRead
from fluzo.screens.terminal import FRAME_BEGIN, FRAME_END

BEYOND_THE_SCREEN = 2
"""Blocks that may be measured besides those on screen: one at each edge."""
LINES = "\n".join(f"Line {number} of what was said." for number in range(10))


def session(count: int, *, newest: bool = True) -> PageRead:
    blocks = tuple(
        Block(0, "text" if number % 4 else "user", "t_0", f"Message {number}.\n\n{LINES}") for number in range(count)
    )
    return PageRead("s_9", "Long", blocks, 9000, True, newest)


def on_screen(shown: ScriptedScreen) -> int:
    return len({visible.key for visible in shown.screen.transcript.shown})


def rendered_by(shown: ScriptedScreen) -> int:
    """Blocks rendered for one more frame."""
    shown.screen.renderer.rendered = 0
    shown.draw()
    return shown.screen.renderer.rendered


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_opening_a_session_renders_what_is_on_screen(columns: int, rows: int) -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.apply(session(5000))
        assert rendered_by(shown) <= on_screen(shown) + BEYOND_THE_SCREEN
        assert on_screen(shown)

    inside(look, columns=columns, rows=rows)


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_a_page_up_renders_what_comes_into_view(columns: int, rows: int) -> None:
    async def page(shown: ScriptedScreen) -> None:
        shown.screen.apply(session(2000))
        shown.draw()
        for _ in range(5):
            shown.screen.renderer.rendered = 0
            shown.keys("\x1b[5~")
            shown.draw()
            assert 0 < shown.screen.renderer.rendered <= on_screen(shown) + BEYOND_THE_SCREEN

    inside(page, columns=columns, rows=rows)


def test_going_to_the_top_and_back_renders_two_screens() -> None:
    async def jump(shown: ScriptedScreen) -> None:
        shown.screen.apply(session(5000))
        shown.draw()
        for keys in ("\x1b[1;5H", "\x1b[1;5F"):
            shown.screen.renderer.rendered = 0
            shown.keys(keys)
            shown.draw()
            assert shown.screen.renderer.rendered <= on_screen(shown) + BEYOND_THE_SCREEN

    inside(jump, columns=120, rows=40)


def test_an_older_page_renders_nothing_that_is_not_seen() -> None:
    async def older(shown: ScriptedScreen) -> None:
        shown.screen.apply(session(200))
        shown.draw()
        shown.screen.apply(session(200, newest=False))
        assert rendered_by(shown) <= BEYOND_THE_SCREEN

    inside(older, columns=120, rows=40)


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_a_key_renders_no_block_and_writes_little(columns: int, rows: int) -> None:
    async def type_(shown: ScriptedScreen) -> None:
        shown.screen.apply(session(5000))
        begin_task(shown)
        shown.draw()
        for key in "some words":
            before = len(shown.written)
            shown.keys(key)
            assert rendered_by(shown) == 0
            assert len(shown.written) - before < 200

    inside(type_, columns=columns, rows=rows)


async def turns_of_the_loop(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_key_is_one_frame_and_a_frame_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def type_(shown: ScriptedScreen) -> None:
        await turns_of_the_loop()
        pieces: list[str] = []
        monkeypatch.setattr(shown.terminal, "write", pieces.append)
        for number, key in enumerate("words"):
            shown.keys(key)
            await turns_of_the_loop()
            assert len(pieces) == number + 1
            assert pieces[-1].startswith(FRAME_BEGIN) and pieces[-1].endswith(FRAME_END)
            assert pieces[-1].count(FRAME_END) == 1 and key in pieces[-1]

    inside(type_, columns=160, rows=50)


def test_another_size_is_one_frame_without_an_empty_screen_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resize(shown: ScriptedScreen) -> None:
        await turns_of_the_loop()
        pieces: list[str] = []
        monkeypatch.setattr(shown.terminal, "write", pieces.append)
        monkeypatch.setattr(shown.screen.app.output, "_get_size", lambda: Size(rows=30, columns=100))
        shown.screen.app._on_resize()
        await turns_of_the_loop()
        assert pieces[0].startswith(FRAME_BEGIN) and pieces[0].endswith(FRAME_END)
        assert sum(piece.count(FRAME_BEGIN) for piece in pieces) == 1, "the mark alone comes after it"
        assert (shown.screen.layout.columns, shown.screen.layout.rows) == (100, 30)

    inside(resize, columns=120, rows=40)


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("fix it", False),
        ("/", True),
        ("/the", True),
        ("/find x", False),
        ("a\n/the", False),
        ("see @", True),
        ("@a b", False),
    ],
)
def test_completions_are_looked_for_where_there_are_some(text: str, offered: bool) -> None:
    files = FileIndex()
    files._found = Found({"a.py": 1, "src/b.py": 2})
    completer = ComposerCompleter(Registry().commands, files, frozenset)
    found = list(completer.get_completions(Document(text), CompleteEvent(text_inserted=True)))
    assert (completes(text), bool(found)) == (offered, offered)


def test_a_delta_renders_the_tail_of_one_block() -> None:
    async def stream(shown: ScriptedScreen) -> None:
        begin_task(shown)
        text = "".join(f"Paragraph {number} is settled.\n\n" for number in range(40))
        feed(shown, [TextDelta("t_1", 1, 0, text)])
        shown.draw()
        key = shown.screen.state.blocks.next - 1
        settled = shown.screen.renderer._streams[key].rows
        for number in range(10):
            feed(shown, [TextDelta("t_1", 1, len(text) + 2 * number, "so")])
            assert rendered_by(shown) == 1
            after = shown.screen.renderer._streams[key]
            assert all(row is known for row, known in zip(after.rows, settled, strict=False))
            assert len(text) - after.characters < 50

    inside(stream, columns=120, rows=40)


def test_a_delta_outside_the_view_renders_nothing_of_it() -> None:
    async def stream(shown: ScriptedScreen) -> None:
        shown.screen.apply(session(2000))
        begin_task(shown)
        shown.draw()
        shown.keys("\x1b[5~" * 5)
        shown.draw()
        feed(shown, [TextDelta("t_1", 1, 0, "word " * 2000)])
        shown.draw()
        where = shown.screen.transcript.shown
        feed(shown, [TextDelta("t_1", 1, 10_000, "more")])
        assert rendered_by(shown) <= BEYOND_THE_SCREEN
        assert shown.screen.transcript.shown == where

    inside(stream, columns=120, rows=40)


def test_a_frame_leaves_no_picture_for_the_garbage_collection() -> None:
    async def draw(shown: ScriptedScreen) -> None:
        shown.screen.apply(session(200))
        shown.draw()
        before = gc.get_threshold()
        gc.collect()
        gc.set_threshold(0)  # The screen itself allows collections again after every frame.
        try:
            for key in "ten keys.":
                shown.keys(key)
                shown.draw()
            found = gc.collect()
        finally:
            gc.set_threshold(*before)
        assert found < 9 * 1000, "the places of a frame's cells are thousands of objects"

    inside(draw, columns=160, rows=50)
