"""The terminal as Fluzo uses it: keys that are read whole, frames that arrive whole, modes that are always undone.

Invariant: every mode switched on here is switched off on exit, suspend and crash. The terminal is asked what it can do
while the first frame is on its way, and nothing waits for its answers.
"""

import asyncio
import os
import re
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output.vt100 import Vt100_Output

from .key_stream import BURST_SECONDS, KeyStream, is_burst

FRAME_BEGIN, FRAME_END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronized output: a terminal that knows it shows a frame whole."""

MAX_BURST = 4_000_000
"""Characters of one paste without marks; what is longer arrives as several."""
KITTY_ON, KITTY_OFF = "\x1b[>5u", "\x1b[<u"
"""Keys told apart (1), with the key of the Latin layout beside one of another script (4), so that Ctrl+C stays one."""
_ASK_KITTY = "\x1b[?u"
_ASK_WIDTH = "\x1b[H\u2502\x1b[6n\r\x1b[K"
"""A character of ambiguous width in the first cell, and the question where the cursor is then."""
_CURSOR = re.compile("\x1b\\[1;([0-9]+)R\\Z")

_PLAIN = str.maketrans("\u2026\u00b7\u00b5", "~-u")
"""What the chrome cuts, separates and measures with, where such a character may take two columns or is none."""
_MODES = (2026, 1049, 1000, 1002, 1003, 1006, 1004, 2004)
RESET = "\x1b[0m" + "".join(f"\x1b[?{mode}l" for mode in _MODES) + "\x1b[?25h\x1b[>4m\x1b[0 q"
"""Undoes every mode that this program may have set; harmless where none is."""


class KeyReader(Vt100Input):
    """Standard input as keys. `on_report` is told what the terminal answers and says whether it was asked."""

    def __init__(self, stdin: TextIO, on_report: Callable[[str], bool]) -> None:
        super().__init__(stdin)
        self._stream = KeyStream(on_report, time.monotonic)

    def read_keys(self) -> list[KeyPress]:
        data = self.stdin_reader.read()
        if self._stream.between_keys and is_burst(data):
            return self._stream.paste(data + self._rest())
        return self._stream.feed(data)

    def _rest(self) -> str:
        """What belongs to a paste without marks: everything that comes without a pause."""
        rest, size, piece = [""], 0, " "
        while piece and size < MAX_BURST and select.select([self.fileno()], [], [], BURST_SECONDS)[0]:
            piece = self.stdin_reader.read()
            rest.append(piece)
            size += len(piece)
        return "".join(rest)

    def flush_keys(self) -> list[KeyPress]:
        return self._stream.flush()


class ScreenOutput(Vt100_Output):
    """Standard output: frames are bracketed so that the terminal shows them whole, and the mouse reports clicks, the
    wheel and drags, never every motion."""

    written = 0
    """Characters written, for the render diagnostics."""
    gone = False

    on_gone: Callable[[], None] | None = None
    """What the screen does when nobody sees it any more."""

    asks_width = False
    """Whether to find out how wide characters of ambiguous width are; asked once, and no answer is needed."""
    on_wide: Callable[[], None] | None = None
    """What the screen does when they take two columns."""
    awaits_width = False
    plain = False
    """Whether marks of ambiguous width are written as ASCII ones of one column."""
    _in_frame = _keeps = False
    _asked = False
    _kitty = False
    _size = Size(rows=24, columns=80)

    def enter_alternate_screen(self) -> None:
        super().enter_alternate_screen()
        self.write_raw("\x1b[>4;1m\x1b[?1004h")
        if self._kitty:
            self.write_raw(KITTY_ON)
        if not self._asked:
            self._asked = True
            self.write_raw(_ASK_KITTY)
            if self.asks_width:
                self.awaits_width = True
                self.write_raw(_ASK_WIDTH)

    def quit_alternate_screen(self) -> None:
        # Each screen of the terminal has its own stack of keyboard modes: this one's is undone while it is on.
        self.write_raw(f"{KITTY_OFF if self._kitty else ''}\x1b[>4m\x1b[?1004l")
        super().quit_alternate_screen()

    def answered(self, report: str) -> bool:
        """Take an answer of the terminal; False for what was not asked."""
        if report.startswith("\x1b[?"):
            if self._asked and not self._kitty:
                self._kitty = True
                self.write_raw(KITTY_ON)
                self.flush()
            return True
        column = _CURSOR.match(report)
        if not self.awaits_width or column is None:
            return False
        self.awaits_width = False
        if int(column[1]) > 2 and self.on_wide is not None:
            self.on_wide()
        return True

    @property
    def undo(self) -> str:
        """What brings the terminal back from whatever this output has switched on."""
        return f"{KITTY_OFF if self._kitty else ''}{RESET}"

    def enable_mouse_support(self) -> None:
        self.write_raw("\x1b[?1002h\x1b[?1006h")

    def disable_mouse_support(self) -> None:
        self.write_raw("\x1b[?1002l\x1b[?1006l")

    def write(self, data: str) -> None:
        super().write(data.translate(_PLAIN) if self.plain else data)

    def begin_frame(self) -> None:
        """What gathers from here to the next flush is one frame."""
        if not self._in_frame:
            self.write_raw(FRAME_BEGIN)
        self._in_frame, self._keeps = True, False

    def prepare_frame(self) -> None:
        """Begin a frame ahead of its drawing: until `begin_frame` nothing is written, what gathers is part of it."""
        self.begin_frame()
        self._keeps = True

    def flush(self) -> None:
        """Write what has gathered; a terminal that is gone is told to `on_gone`, once, and gets nothing more."""
        if self._keeps:
            return
        if self._in_frame:
            # In the same piece: who draws it is woken once, and what comes after a frame does not hold up its end.
            self._in_frame = False
            self.write_raw(FRAME_END)
        self.written += sum(map(len, self._buffer))
        if self.gone:
            self._buffer = []
            return
        try:
            super().flush()
        except OSError:
            self._lost()

    def get_size(self) -> Size:
        """The size now; of a terminal that is gone, the last one it had."""
        try:
            self._size = super().get_size()
        except OSError:
            self._lost()
        return self._size

    def _lost(self) -> None:
        self._buffer = []
        if not self.gone:
            self.gone = True
            if self.on_gone is not None:
                self.on_gone()


@contextmanager
def leaving_on_signals(loop: asyncio.AbstractEventLoop, leave: Callable[[int], None]) -> Iterator[None]:
    """Have SIGTERM and SIGHUP call `leave` on the loop, and give them back as they were.

    The loop itself would leave them deadly, and the second one, which a terminal that goes away is followed by, would
    cut off what closes the runtime. Off the main thread nothing is done: whoever runs the screen there handles signals.
    """
    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        handler = signal.getsignal(number)
        try:
            loop.add_signal_handler(number, leave, number)
        except (ValueError, RuntimeError):
            break
        before[number] = handler
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler or signal.SIG_DFL)


@contextmanager
def restored(output: ScreenOutput) -> Iterator[None]:
    """Whatever happens inside, the terminal is as it was before: main screen, cursor, echo, no reporting."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    clean = False
    try:
        yield
        clean = True
    finally:
        # An answer that is still on its way would be typed into the shell.
        when = termios.TCSAFLUSH if output.awaits_width else termios.TCSANOW
        with suppress(OSError, termios.error):
            # Also when the terminal is gone: there is nothing left to restore then.
            termios.tcsetattr(descriptor, when, before)
        if not clean:
            with suppress(OSError):
                os.write(sys.stdout.fileno(), output.undo.encode())
