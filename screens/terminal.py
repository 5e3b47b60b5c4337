"""The terminal as Fluzo uses it: keys that are read whole, frames that arrive whole, modes that are always undone.

Invariant: every mode switched on here is switched off on exit, suspend and crash; an unknown escape sequence never
becomes text.
"""

import os
import re
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from prompt_toolkit.input import ansi_escape_sequences, vt100_parser
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output

FRAME_BEGIN, FRAME_END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronized output: a terminal that knows it shows a frame whole."""

NEWLINE_KEY = Keys.F24
_SHIFT_ENTER = ("\x1b[27;2;13~", "\x1b[13;2u")  # xterm's modifyOtherKeys and the kitty protocol.
FOCUS_IN, FOCUS_OUT = Keys.F23, Keys.F22
_FOCUS = {"\x1b[I": FOCUS_IN, "\x1b[O": FOCUS_OUT}
_CSI = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]")
_OPEN_CSI = re.compile("\x1b\\[[0-?]*[ -/]*$")
_KNOWN_FORMS = re.compile("\x1b\\[(?:<[0-9;]+[mM]|M|[0-9;]+R)")
_MAX_OPEN = 64
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"

RESET = "\x1b[0m\x1b[?2026l\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[>4m\x1b[0 q"
"""Undoes every mode that this program may have set; harmless where none is."""


def register_keys() -> None:
    """Teach prompt-toolkit the sequences it lacks; must happen before input is read."""
    table = ansi_escape_sequences.ANSI_SEQUENCES
    for sequence in _SHIFT_ENTER:
        table[sequence] = NEWLINE_KEY
    table.update(_FOCUS)
    vt100_parser._IS_PREFIX_OF_LONGER_MATCH_CACHE.clear()


class SequenceFilter:
    """Drops escape sequences that nobody knows, also when they arrive in pieces; text and known keys pass."""

    def __init__(self) -> None:
        self._held = ""
        self._pasting = False

    def feed(self, data: str) -> str:
        data, self._held = self._held + data, ""
        if self._pasting:
            before, mark, after = data.partition(_PASTE_END)
            if not mark:
                return data
            self._pasting = False
            return before + mark + self.feed(after)
        start = data.find(_PASTE_START)
        if start >= 0:
            self._pasting = True
            head = self._known(data[:start])
            return head + _PASTE_START + self.feed(data[start + len(_PASTE_START) :])
        opened = _OPEN_CSI.search(data)
        if opened is not None and len(opened[0]) > 2 and len(opened[0]) <= _MAX_OPEN:
            data, self._held = data[: opened.start()], opened[0]
        return self._known(data)

    def flush(self) -> None:
        """Nothing followed: what is held was not a key."""
        self._held = ""

    def _known(self, data: str) -> str:
        if "\x1b[" not in data:
            return data
        return _CSI.sub(lambda match: match[0] if _is_known(match[0]) else "", data)


def _is_known(sequence: str) -> bool:
    return sequence in ansi_escape_sequences.ANSI_SEQUENCES or _KNOWN_FORMS.match(sequence) is not None


class KeyReader(Vt100Input):
    """Standard input, filtered."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self._filter = SequenceFilter()

    def read_keys(self) -> list[KeyPress]:
        self.vt100_parser.feed(self._filter.feed(self.stdin_reader.read()))
        keys, self._buffer = self._buffer, []
        return keys

    def flush_keys(self) -> list[KeyPress]:
        self._filter.flush()
        return super().flush_keys()


class ScreenOutput(Vt100_Output):
    """Standard output: frames are bracketed so that the terminal shows them whole, and the mouse reports clicks and
    the wheel only, never every motion."""

    written = 0
    """Characters written, for the render diagnostics."""
    gone = False

    on_gone: Callable[[], None] | None = None
    """What the screen does when nobody sees it any more."""

    def enter_alternate_screen(self) -> None:
        super().enter_alternate_screen()
        self.write_raw("\x1b[>4;1m\x1b[?1004h")

    def quit_alternate_screen(self) -> None:
        self.write_raw("\x1b[>4m\x1b[?1004l")
        super().quit_alternate_screen()

    def enable_mouse_support(self) -> None:
        self.write_raw("\x1b[?1000h\x1b[?1006h")

    def disable_mouse_support(self) -> None:
        self.write_raw("\x1b[?1000l\x1b[?1006l")

    def flush(self) -> None:
        """Write what has gathered; a terminal that is gone is told to `on_gone`, once, and gets nothing more."""
        self.written += sum(map(len, self._buffer))
        if self.gone:
            self._buffer = []
            return
        try:
            super().flush()
        except OSError:
            self.gone = True
            self._buffer = []
            if self.on_gone is not None:
                self.on_gone()


@contextmanager
def restored() -> Iterator[None]:
    """Whatever happens inside, the terminal is as it was before: main screen, cursor, echo, no reporting."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    clean = False
    try:
        yield
        clean = True
    finally:
        with suppress(OSError, termios.error):
            # Also when the terminal is gone: there is nothing left to restore then.
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
        if not clean:
            with suppress(OSError):
                os.write(sys.stdout.fileno(), RESET.encode())
