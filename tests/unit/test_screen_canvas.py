import random
from functools import partial
from io import StringIO
from itertools import pairwise
from typing import Any

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit import renderer as toolkit
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.input import DummyInput
from prompt_toolkit.layout import HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.controls import UIContent, UIControl
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Screen, WritePosition
from prompt_toolkit.mouse_events import MouseButton, MouseEvent, MouseEventType
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.utils import get_cwidth
from support.screen import Picture

from fluzo.screens.canvas import RowsWindow
from fluzo.screens.controls import rows_content
from fluzo.screens.text import Line

WIDTH, HEIGHT = 20, 6
STYLES = ("", "class:text.muted", "bold", "class:bg.select")
LOOKLESS = ("class:last-line", "[transparent]")
CHARACTERS = "ab \u00e9\u0301\u6f22\U0001f642\u0300x"


class Rows(UIControl):
    def __init__(self, rows: list[Line]) -> None:
        self.rows = rows
        self.events: list[MouseEvent] = []

    def create_content(self, width: int, height: int) -> UIContent:
        return rows_content(self.rows)

    def mouse_handler(self, mouse_event: MouseEvent) -> None:
        self.events.append(mouse_event)


def drawn(window: Window, width: int = WIDTH) -> tuple[Screen, MouseHandlers]:
    screen, handlers = Screen(), MouseHandlers()
    place = WritePosition(3, 2, width, HEIGHT)
    window.write_to_screen(screen, handlers, place, "class:bg.base", False, None)
    return screen, handlers


def pictured(screen: Screen) -> list[list[tuple[str, list[str]]]]:
    """Characters and style words of every cell, without two of the toolkit's own that no theme gives a look."""
    found = []
    for number in range(2, 2 + HEIGHT):
        cells = [screen.data_buffer[number][column] for column in range(3, 3 + WIDTH)]
        found.append([(cell.char, [word for word in cell.style.split() if word not in LOOKLESS]) for cell in cells])
    return found


rows = st.lists(
    st.lists(st.tuples(st.sampled_from(STYLES), st.text(CHARACTERS, max_size=8)), max_size=4), max_size=HEIGHT
)


@settings(deadline=None)
@given(rows)
def test_rows_look_as_in_the_window_of_the_toolkit(lines: list[Line]) -> None:
    # At either end of a row the toolkit leaves a combining character in a cell of its own, which has no width then.
    based = [[("", "x"), *line, ("", "x")] for line in lines]
    fitting = [line for line in based if sum(len(text) for _, text in line) * 2 <= WIDTH]
    app: Application[None] = Application(Layout(Window(Rows([]))), input=DummyInput(), output=None)
    with set_app(app):
        own, _ = drawn(RowsWindow(Rows(fitting), style="class:bg.raised"))
        theirs, _ = drawn(Window(Rows(fitting), style="class:bg.raised", always_hide_cursor=True))
    assert pictured(own) == pictured(theirs)


def test_a_wide_character_that_does_not_fit_is_left_out_with_what_follows() -> None:
    app: Application[None] = Application(Layout(Window(Rows([]))), input=DummyInput())
    with set_app(app):
        screen, _ = drawn(RowsWindow(Rows([[("", "ab\u6f22c")]])), width=3)
    assert [screen.data_buffer[2][column].char for column in range(3, 7)] == ["a", "b", " ", " "]


def test_the_mouse_is_told_in_cells() -> None:
    control = Rows([[("", "\u6f22\u6f22x")]])
    window = RowsWindow(control)
    app: Application[None] = Application(Layout(HSplit([VSplit([window])])), input=DummyInput(), mouse_support=True)
    with set_app(app):
        _, handlers = drawn(window)
        press = partial(
            MouseEvent, event_type=MouseEventType.MOUSE_DOWN, button=MouseButton.LEFT, modifiers=frozenset()
        )
        handlers.mouse_handlers[2][7](press(Point(7, 2)))
        handlers.mouse_handlers[4][12](press(Point(12, 4)))
    assert [event.position for event in control.events] == [Point(4, 0), Point(9, 2)]


def written(before: Screen | None, after: Screen, plain: bool, depth: ColorDepth | None = None) -> str:
    """What the terminal gets for the step from one frame to the next; the cursor is in the first cell before it."""
    out = StringIO()
    output = Vt100_Output(out, lambda: Size(rows=HEIGHT + 2, columns=WIDTH + 3), term="xterm-256color")
    app: Application[None] = Application(Layout(Window(Rows([]))), input=DummyInput(), output=output, full_screen=True)
    compare: Any = toolkit._output_screen_diff
    compare = compare.__wrapped__ if plain else compare
    renderer = app.renderer
    app.renderer.render(app, app.layout)  # Makes the caches of styles.
    output._buffer.clear()
    compare(
        app,
        output,
        after,
        Point(0, 0),
        depth or app.color_depth,
        before,
        None,
        False,
        full_screen=True,
        attrs_for_style_string=renderer._attrs_for_style,
        style_string_has_style=renderer._style_string_has_style,
        size=Size(rows=HEIGHT + 2, columns=WIDTH + 3),
        previous_width=WIDTH + 3,
    )
    return "".join(output._buffer)


def cells_of(picture: pyte.Screen) -> list[list[Any]]:
    """What an emulator shows, the second halves of wide characters as part of the first."""
    return [[picture.buffer[y][x] for x in range(picture.columns)] for y in range(picture.lines)]


def covered(source: random.Random) -> Screen:
    """A frame of rows with wide characters, part of it under a box whose edges may cut some in two."""
    lines: list[Line] = [[("class:text.muted", "\u6f22\u5b57" * source.randrange(6) + "ab")] for _ in range(HEIGHT)]
    screen, _ = drawn(RowsWindow(Rows(lines)))
    if source.random() < 0.7:
        left, width = source.randrange(3, WIDTH), source.randrange(1, 5)
        box = RowsWindow(Rows([[("bold", "|" * width)] for _ in range(HEIGHT)]))
        box.write_to_screen(screen, MouseHandlers(), WritePosition(left, 2, width, HEIGHT), "", True, None)
    return screen


@pytest.mark.parametrize("depth", [ColorDepth.TRUE_COLOR, ColorDepth.DEPTH_4_BIT, ColorDepth.MONOCHROME])
def test_frames_whose_wide_characters_are_cut_show_what_one_drawn_from_nothing_shows(depth: ColorDepth) -> None:
    source = random.Random(7)
    picture = Picture(WIDTH + 3, HEIGHT + 2)
    stream = pyte.Stream(picture)
    app: Application[None] = Application(Layout(Window(Rows([]))), input=DummyInput())
    with set_app(app):
        before = None
        for _ in range(8):
            state = source.getstate()
            frame = covered(source)
            source.setstate(state)
            same = covered(source)
            stream.feed("\x1b[H" + written(before, frame, plain=False, depth=depth))
            fresh = Picture(WIDTH + 3, HEIGHT + 2)
            pyte.Stream(fresh).feed(written(None, same, plain=False, depth=depth))
            assert cells_of(picture) == cells_of(fresh)
            halves = [cell for row in cells_of(picture) for cell, right in pairwise(row) if is_half(cell, right)]
            assert not halves
            before = frame


def is_half(cell: Any, right: Any) -> bool:
    return (get_cwidth(cell.data) == 2) != (right.data == "")


@pytest.mark.parametrize("seed", range(20))
def test_the_step_to_the_next_frame_is_written_as_by_the_toolkit(seed: int) -> None:
    source = random.Random(seed)
    words = [[("bold", "one")], [("", "two \u6f22")], [], [("class:x", "three" * 3)], [("bold", "f" * WIDTH)]]
    first = [source.choice(words) for _ in range(HEIGHT)]
    second = [line if source.random() < 0.5 else source.choice(words) for line in first]
    app: Application[None] = Application(Layout(Window(Rows([]))), input=DummyInput())
    with set_app(app):
        screens = [[drawn(RowsWindow(Rows(lines)))[0] for lines in (first, second)] for _ in range(2)]
        own, theirs = (written(*pair, plain) for pair, plain in zip(screens, (False, True), strict=True))
    assert own == theirs
    assert not screens[0][0].data_buffer, "the frame before is given back"
