"""The progress of a task on stderr: whole lines anywhere, and on a terminal also what is happening right now.

Invariant: progress is never worth a task. When stderr cannot be written any more the view falls silent and the
task goes on.
"""

import os
from collections.abc import Iterable
from typing import TextIO

from fluzo.core.redact import printable

from .output import cell_width, has_unicode, is_styled
from .presenter import Line

_CLEAR_LINE = "\r\x1b[2K"
_FALLBACK_COLUMNS = 80


class View:
    """Writes to `stream`. A status is one line that the next output replaces; there is one on a terminal only."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._styled = is_styled(stream)
        self._unicode = has_unicode(stream)
        self._gone = False
        self._in_text = False
        self._status = ""

    @property
    def is_live(self) -> bool:
        """True on a terminal that takes cursor movements: streamed text and a status are shown there."""
        return self._styled

    def line(self, line: Line) -> None:
        if self._styled:
            from .paint import paint_line

            self._put(f"{paint_line(line, unicode=self._unicode)}\n")
        else:
            self._put(f"{line.text(unicode=self._unicode)}\n")

    def plain(self, lines: Iterable[str]) -> None:
        """Lines that are already fit to be shown."""
        self._put("".join(f"{line}\n" for line in lines))

    def details(self, lines: Iterable[str]) -> None:
        """What is asked, or a diff: additions and removals in colour where there is colour."""
        if self._styled:
            from .paint import paint_diff

            lines = map(paint_diff, lines)
        self.plain(lines)

    def text(self, delta: str) -> None:
        """A piece of the model's text, as it comes; only on a terminal."""
        if not self._styled or not delta:
            return
        if not self._in_text:
            self._put("")
        self._write(printable(delta))
        self._in_text = not delta.endswith("\n")

    def prompt(self, text: str) -> None:
        """Ask on a line of its own; what is typed follows it."""
        self._put(text)
        self._in_text = False

    def status(self, line: Line | None) -> None:
        """What is happening now, until something else is written; nothing off a terminal or amid a text."""
        if not self._styled or self._in_text:
            return
        shown = line.text(unicode=self._unicode) if line else ""
        while cell_width(shown) >= self._columns():
            shown = shown[:-1]
        if shown != self._status:
            self._write(f"{_CLEAR_LINE}{shown}")
            self._status = shown

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _FALLBACK_COLUMNS
        except OSError:
            return _FALLBACK_COLUMNS

    def _put(self, text: str) -> None:
        """Write from the start of a line: after the status is gone and a streamed text has ended."""
        if self._status:
            self._write(_CLEAR_LINE)
            self._status = ""
        if self._in_text:
            self._write("\n")
            self._in_text = False
        self._write(text)

    def _write(self, text: str) -> None:
        if self._gone:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._gone = True
