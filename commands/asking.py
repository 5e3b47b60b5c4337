"""The person at the terminal: whether there is one, and what they type, one line at a time.

Invariant: only a line typed after the question was shown can answer it. Reading never blocks the loop that
follows the task, so an interrupt and the end of the task are seen while a question is open.
"""

import os
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

END_OF_INPUT = "\x04"
"""What `read_line` returns when the terminal will give no more lines; no typed line is equal to it."""

_READ_BYTES = 65_536


class Terminal:
    """Lines from the terminal of descriptor `fd`, which stays in its own line editing mode."""

    def __init__(self, fd: int, *, owned: bool) -> None:
        self._fd = fd
        self._owned = owned
        self._partial = b""

    def forget_typed(self) -> None:
        """Drop what was typed before now: it cannot be an answer to what is asked next."""
        self._partial = b""
        with suppress(termios.error):
            termios.tcflush(self._fd, termios.TCIFLUSH)

    def read_line(self) -> str | None:
        """The next whole line without its end, END_OF_INPUT, or None when nothing is there yet. Never waits."""
        if b"\n" not in self._partial:
            if not select.select([self._fd], [], [], 0)[0]:
                return None
            try:
                data = os.read(self._fd, _READ_BYTES)
            except OSError:
                return END_OF_INPUT  # The terminal hung up.
            if not data:
                return END_OF_INPUT
            self._partial += data
        line, newline, rest = self._partial.partition(b"\n")
        if not newline:
            return None
        self._partial = rest
        return line.decode("utf-8", "backslashreplace").rstrip("\r").replace(END_OF_INPUT, "")

    def close(self) -> None:
        if self._owned:
            os.close(self._fd)


@contextmanager
def asking_terminal() -> Iterator[Terminal | None]:
    """`open_terminal`, closed again at the end."""
    terminal = open_terminal()
    try:
        yield terminal
    finally:
        if terminal is not None:
            terminal.close()


def open_terminal() -> Terminal | None:
    """The terminal where questions can be asked, or None: somebody must see stderr and be able to type.

    A process in the background is not asked, because reading would stop it.
    """
    if not sys.stderr.isatty():
        return None
    if sys.stdin.isatty():
        terminal = Terminal(sys.stdin.fileno(), owned=False)
        return terminal if _in_foreground(sys.stdin.fileno()) else None
    try:
        fd = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    if _in_foreground(fd):
        return Terminal(fd, owned=True)
    os.close(fd)
    return None


def _in_foreground(fd: int) -> bool:
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        # Not this process's controlling terminal: job control does not apply, reading does.
        return True
