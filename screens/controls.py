"""Rows and fragments as prompt-toolkit wants them; the only place that knows of its wider fragment type."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout.controls import FormattedTextControl, UIContent, UIControl
from prompt_toolkit.mouse_events import MouseEvent

from .canvas import RowsWindow
from .clicking import Clicks
from .keys import parse_key
from .text import Line

if TYPE_CHECKING:
    from .app import Screen


def rows_content(rows: list[Line], height: int = 0) -> UIContent:
    """The content of a control that has sliced its rows itself, without a cursor.

    With a height, rows of one blank fill it up: the toolkit takes a click below the last row for one on it, and one on
    a row without any cell for one on the first.
    """
    if height:
        rows = [line or [("", " ")] for line in rows]
        rows += [[("", " ")]] * (height - len(rows))
    return UIContent(
        get_line=lambda number: cast(StyleAndTextTuples, rows[number]), line_count=len(rows), show_cursor=False
    )


def text_control(text: Callable[[], Line], keys: KeyBindings | None = None) -> FormattedTextControl:
    """A small text that is asked for each frame; with keys it can have the keyboard."""
    return FormattedTextControl(
        lambda: cast(StyleAndTextTuples, text()), focusable=keys is not None, show_cursor=False, key_bindings=keys
    )


class Rows(UIControl):
    """Rows that are asked for each frame, and nothing else."""

    def __init__(self, rows: Callable[[], list[Line]]) -> None:
        self._rows = rows

    def create_content(self, width: int, height: int) -> UIContent:
        return rows_content(self._rows()[:height])


class RowsList(UIControl):
    """Rows that are asked for each frame and can be clicked; with keys they can have the keyboard."""

    def __init__(self, rows: Callable[[], list[Line]], clicks: Clicks, keys: KeyBindings | None = None) -> None:
        self._rows = rows
        self._clicks = clicks
        self._keys = keys

    def is_focusable(self) -> bool:
        return self._keys is not None

    def get_key_bindings(self) -> KeyBindings | None:
        return self._keys

    def create_content(self, width: int, height: int) -> UIContent:
        return rows_content(self._rows()[:height], height)

    def mouse_handler(self, mouse_event: MouseEvent) -> None:
        self._clicks.event(mouse_event)


def acting_keys(screen: "Screen", acts: Mapping[str, Callable[[], object]]) -> KeyBindings:
    """The registry's keys of these actions; what was said last gives way to what they do."""
    keys = KeyBindings()
    for action_id, call in acts.items():
        for shown in screen.registry.actions[action_id].keys:
            keys.add(*parse_key(shown))(partial(_act, screen, call))
    return keys


def _act(screen: "Screen", call: Callable[[], object], event: KeyPressEvent) -> None:
    screen.flash = ""
    call()


def row(text: Callable[[], Line]) -> RowsWindow:
    """One row of such a text."""
    return RowsWindow(text_control(text), height=1)


def joined(rows: list[Line]) -> Line:
    """Rows as one text."""
    found: Line = []
    for number, line in enumerate(rows):
        if number:
            found.append(("", "\n"))
        found += line
    return found
