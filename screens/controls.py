"""Rows and fragments as prompt-toolkit wants them; the only place that knows of its wider fragment type."""

from collections.abc import Callable
from typing import cast

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout.controls import FormattedTextControl, UIContent

from .canvas import RowsWindow
from .text import Line


def rows_content(rows: list[Line]) -> UIContent:
    """The content of a control that has sliced its rows itself, without a cursor."""
    return UIContent(
        get_line=lambda number: cast(StyleAndTextTuples, rows[number]), line_count=len(rows), show_cursor=False
    )


def text_control(text: Callable[[], Line], keys: KeyBindings | None = None) -> FormattedTextControl:
    """A small text that is asked for each frame; with keys it can have the keyboard."""
    return FormattedTextControl(
        lambda: cast(StyleAndTextTuples, text()), focusable=keys is not None, show_cursor=False, key_bindings=keys
    )


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
