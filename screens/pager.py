"""The pager: one long text in full, to read, search and copy. Looking changes nothing."""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from prompt_toolkit.layout import AnyContainer

from .entry import with_find
from .keys import Registry
from .sheet import FRAME_ROWS, Sheet, framed, headed, hint_line, sheet_window
from .text import Line, drawable, rows_of, shorten

if TYPE_CHECKING:
    from .app import Screen


_CONTEXTS = {
    "global": "Everywhere",
    "composer": "In the composer",
    "transcript": "In the conversation (Tab)",
    "card": "On the permission card",
    "palette": "In the list of commands (Ctrl+P)",
    "history": "In the search through what you sent (Ctrl+R)",
    "queue": "In the queued messages (`/queue`)",
    "settings": "In the settings (F6)",
    "demo": "In the scenes of the demo (only in `fluzo demo --interactive`)",
    "menu": "In the developer menu (only with `--dev-menu`, F12)",
    "theme": "In the theme picker (/theme)",
    "list": "In the lists of sessions and tasks",
    "diff": "In the changes",
    "pager": "In a text in full",
}


READING_COLUMNS = 100
"""Prose in wider rows is hard to read."""


class Laid(NamedTuple):
    """Prose in rows of at most `width` cells; `places` are the number of the line and the first character of each."""

    width: int
    lines: Sequence[Line]
    places: Sequence[tuple[int, int]]


def reading_width(columns: int) -> int:
    """Cells of a row of prose on a page."""
    return min(columns - 2, READING_COLUMNS)


def laid_out(text: str, width: int) -> Laid:
    """A sanitized text in rows. Of a long one it takes a while; call it in a thread."""
    lines: list[Line] = []
    places: list[tuple[int, int]] = []
    for number, line in enumerate(map(drawable, text.split("\n"))):
        for start, end in rows_of(line, width):
            lines.append([("", line[start:end])])
            places.append((number, start))
    return Laid(width, lines, places)


class Pager:
    """A page view over one text, already sanitized. `copies` is what copying takes instead of it, and its name. A text
    that comes `laid` out is prose, whose rows follow the width of the screen; another one scrolls sideways."""

    kind: Literal["page", "float"] = "page"

    def __init__(
        self,
        screen: "Screen",
        name: str,
        text: str,
        copies: tuple[str, str] | None = None,
        laid: Laid | None = None,
    ) -> None:
        self._name = name
        self._text = text
        self._screen = screen
        self._laid = laid
        self._wanted = laid.width if laid is not None else 0
        self._lines = laid.lines if laid is not None else [[("", drawable(line))] for line in text.split("\n")]
        self._sheet = sheet = Sheet(screen, self._rows, shifts=laid is None)
        self.focus = sheet_window(sheet)
        taken, what = copies or (text, "the text")
        sheet.act("pager.copy", lambda: screen.copy(taken, what))
        self._find = with_find(screen, self, sheet)
        self.container: AnyContainer = framed(screen, self._head, self._find, self.focus)

    def hints(self) -> str:
        keys = hint_line(self._screen, ("pager.find", "find"), ("pager.copy", "copy"), ("escape", "back"))
        return f"Up/Down PgUp/PgDn{' Left/Right' if self._laid is None else ''} scroll  {keys}"

    def refresh(self) -> None:
        """The text is what it was when it was opened."""

    def _rows(self) -> Sequence[Line]:
        """The rows as they are; prose for another width is laid out behind them, which may take a while."""
        width, loop = reading_width(self._screen.layout.columns), self._screen.loop
        if self._laid is not None and width != self._wanted and loop is not None:
            self._wanted = width
            loop.run_in_executor(None, laid_out, self._text, width).add_done_callback(self._take)
        return self._lines

    def _take(self, making: "asyncio.Future[Laid]") -> None:
        """The rows of another width; what stood at the top stays there."""
        laid, before = making.result(), self._laid
        if laid.width != self._wanted or before is None:
            return
        sheet = self._sheet
        sheet.top = bisect_right(laid.places, before.places[min(sheet.top, len(before.places) - 1)]) - 1
        sheet.at = -1
        self._laid, self._lines = laid, laid.lines
        self._screen.changed()

    def _head(self) -> Line:
        # Drawn before the text below it, which has another height after a resize and beside what is found.
        height = self._screen.layout.rows - FRAME_ROWS - self._find.filter()
        rows = len(self._rows())
        top = max(0, min(self._sheet.top, rows - height))
        where = f"rows {top + 1} to {min(top + height, rows)} of {rows}"
        return headed(shorten(drawable(self._name), 60), "", where, self._screen.layout.columns)


def keys_document(registry: Registry) -> str:
    """`docs/keys.md`: the registry as a Markdown document."""
    rows = [
        "# Keys",
        "",
        "Generated from the screen's registry; `tests/unit/test_screen_layout.py` checks that it is current.",
        "",
    ]
    rows += ["Approving has no name here: it is two acts inside a focused card.", ""]
    for context in dict.fromkeys(action.context for action in registry.actions.values()):
        rows += [
            f"## {_CONTEXTS.get(context, f'In {context}')}",
            "",
            "| key | command | action |",
            "| --- | --- | --- |",
        ]
        rows += [
            f"| {', '.join(f'`{key}`' for key in action.keys)} | {f'`{action.usage}`' if action.slash else ''} "
            f"| {action.title} |"
            for action in registry.actions.values()
            if action.context == context
        ]
        rows.append("")
    return "\n".join(rows)


def help_text(registry: Registry) -> str:
    """Every action with its keys, by context."""
    rows: list[str] = []
    for context in dict.fromkeys(action.context for action in registry.actions.values()):
        rows += ["", _CONTEXTS.get(context, f"In {context}"), ""]
        for action in registry.actions.values():
            if action.context == context:
                rows.append(f"  {'  '.join(action.keys):<16} {action.usage:<16} {action.title}")
    return "\n".join(rows[1:])
