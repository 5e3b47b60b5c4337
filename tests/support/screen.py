"""The full screen at a real terminal: the program on a pty, and the emulator's picture of what it draws."""

import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pyte
from prompt_toolkit.utils import get_cwidth
from support.terminal import hang_up

FRAME_BEGIN, FRAME_END = b"\x1b[?2026h", b"\x1b[?2026l"
KEYS = {
    "enter": "\r",
    "tab": "\t",
    "esc": "\x1b",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "left": "\x1b[D",
    "pgup": "\x1b[5~",
    "pgdn": "\x1b[6~",
    "ctrl-end": "\x1b[1;5F",
    "ctrl-home": "\x1b[1;5H",
    "ctrl-c": "\x03",
    "ctrl-d": "\x04",
    "ctrl-o": "\x0f",
    "ctrl-p": "\x10",
    "ctrl-z": "\x1a",
    "alt-n": "\x1bn",
    "alt-up": "\x1b\x1b[A",
    "backspace": "\x7f",
    "f1": "\x1bOP",
    "f3": "\x1bOR",
    "f4": "\x1bOS",
    "f5": "\x1b[15~",
    "f7": "\x1b[18~",
    "f8": "\x1b[19~",
}
SIZES = ((80, 24), (120, 40), (160, 50))
DEADLINE_SECONDS = 120
"""No test waits for this; it only keeps a hang from lasting for ever."""
LOOK_SECONDS = 0.05
"""How often something is looked for that is not on the screen."""
GUARD_SECONDS = 0.4
"""A pause as long as a card wants it before it listens. Longer is as good: what counts is that it is not shorter."""
CONFIRM_SECONDS = 0.2
"""As long as a choice must stand before it can be confirmed."""
AGAIN_SECONDS = 10
"""When a key that had no effect is pressed again."""
QUIT_SECONDS = 1.1
"""Ctrl+C means leaving only so long after another act."""


class Picture(pyte.Screen):
    """The emulator, which would leave out what follows a character without a width, such as a vowel sign."""

    def draw(self, data: str) -> None:
        super().draw("".join(char for char in data if get_cwidth(char) or unicodedata.combining(char)))


class ScriptedUser:
    """Types, presses, resizes, looks. What is looked at is the emulator's screen, never the bytes.

    The program's frames are shown one by one and whole, however its bytes come in: a wait ends at the first frame that
    has what is waited for, and what is asserted next is asserted of that frame, on a machine of any speed.
    """

    def __init__(self, child: "pexpect.spawn[bytes]", columns: int, rows: int) -> None:
        self._child = child
        self._picture = Picture(columns, rows)
        self._stream = pyte.ByteStream(self._picture)
        self._unseen = b""
        self.raw = b""

    @property
    def rows(self) -> list[str]:
        return [line.rstrip() for line in self._picture.display]

    @property
    def screen(self) -> str:
        return "\n".join(self.rows)

    def row(self, text: str) -> str:
        """The first row that holds the text; empty when none does."""
        return next((row for row in self.rows if text in row), "")

    def style(self, text: str) -> pyte.screens.Char:
        """The cell where the text begins."""
        for number, row in enumerate(self._picture.display):
            if (column := row.find(text)) >= 0:
                return self._picture.buffer[number][column]
        raise AssertionError(f"{text!r} is not on the screen:\n{self.screen}")

    def sees(self, text: str) -> None:
        self._until(lambda: text in self.screen, f"never saw {text!r}")

    def sees_no(self, text: str) -> None:
        """Wait until the text is gone."""
        self._until(lambda: text not in self.screen, f"still saw {text!r}")

    def sees_match(self, pattern: str) -> None:
        self._until(lambda: re.search(pattern, self.screen) is not None, f"never saw {pattern!r}")

    def shows(self, there: Callable[[], bool]) -> None:
        """Wait until this holds of the screen: what was waited for before may have come a frame earlier."""
        self._until(there, "never showed that")

    def waits_for(self, there: Callable[[], bool]) -> None:
        """Wait for something that is not on the screen."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not there():
            assert time.monotonic() < end, f"never came; the screen was:\n{self.screen}"
            self._look(LOOK_SECONDS)

    def _until(self, there: Callable[[], bool], complaint: str) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        while not there():
            if time.monotonic() > end or not self._look(DEADLINE_SECONDS):
                raise AssertionError(f"{complaint}; the screen was:\n{self.screen}")

    def _look(self, seconds: float) -> bool:
        """Show the next frame, or what stands between two; False when there is none within the time."""
        end = time.monotonic() + seconds
        while not (piece := self._next_piece()):
            if not self._read(max(end - time.monotonic(), 0)):
                return False
        self._unseen = self._unseen[len(piece) :]
        self._stream.feed(piece)
        return True

    def _next_piece(self) -> bytes:
        """What can be shown of the bytes that have come: nothing of a frame before its end is there."""
        if self._unseen.startswith(FRAME_BEGIN):
            frame, end, _ = self._unseen.partition(FRAME_END)
            return frame + end if end else b""
        before, begin, _ = self._unseen.partition(FRAME_BEGIN)
        if begin:
            return before
        cut = max((size for size in range(1, len(FRAME_BEGIN)) if before.endswith(FRAME_BEGIN[:size])), default=0)
        return before[: len(before) - cut]

    def _read(self, seconds: float) -> bool:
        try:
            data = self._child.read_nonblocking(65536, timeout=seconds)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return False
        self.raw += data
        self._unseen += data
        return True

    def types(self, text: str) -> None:
        self._child.send(text.encode())

    def presses(self, *keys: str) -> None:
        for key in keys:
            self._child.send(KEYS[key].encode())

    def pastes(self, text: str) -> None:
        self._child.send(b"\x1b[200~" + text.encode() + b"\x1b[201~")

    def chooses(self, number: int) -> None:
        """Give the card the keyboard and choose like a person who reads: the card listens after a pause only."""
        self.presses("tab")
        self.picks(number)

    def picks(self, number: int) -> None:
        """Choose on the card that has the keyboard, and wait until the choice can be confirmed."""
        self.sees("you answer here")
        self.picks_on_page(number)

    def picks_on_page(self, number: int) -> None:
        """Choose on the page that asks, and wait until the choice can be confirmed."""
        self._presses_calmly(str(number), f"Enter confirms {number}.")

    def opens_field(self, name: str) -> None:
        """Give the card the keyboard and open its field, like a person who reads."""
        self.presses("tab")
        self.sees("you answer here")
        self._presses_calmly("e", f"\u2502 {name} ")

    def _presses_calmly(self, key: str, shown: str) -> None:
        """Press a key of a card until its effect is seen: one that follows another too soon has none."""
        last = time.monotonic() + DEADLINE_SECONDS
        while shown not in self.screen:
            assert time.monotonic() < last, f"never saw {shown!r}; the screen was:\n{self.screen}"
            self.rests()
            self.types(key)
            end = time.monotonic() + AGAIN_SECONDS
            while shown not in self.screen and self._look(end - time.monotonic()):
                pass
        self.rests(CONFIRM_SECONDS)

    def rests(self, seconds: float = GUARD_SECONDS) -> None:
        """Press nothing for at least this long; what is drawn meanwhile is taken in."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._look(left)

    def resizes(self, columns: int, rows: int) -> None:
        self._picture.resize(rows, columns)
        self._child.setwinsize(rows, columns)

    def quits(self) -> None:
        """Leave by Ctrl+C twice, when nothing runs and the act before is seen; both presses are read at once."""
        self.rests(QUIT_SECONDS)
        self.types("\x03\x03")

    @property
    def runs(self) -> bool:
        return bool(self._child.isalive())

    def signals(self, number: int) -> None:
        self._child.kill(number)

    def leaves(self) -> int:
        """Wait for the end of the process and return its exit status, negative for a signal."""
        while self._read(DEADLINE_SECONDS):
            pass
        self._stream.feed(self._unseen)
        self._unseen = b""
        self._child.wait()
        self._child.close()
        status = self._child.exitstatus
        return status if status is not None else -(self._child.signalstatus or 0)


@contextmanager
def user_at(
    *argv: str,
    cwd: Path,
    env: Mapping[str, str],
    columns: int = 80,
    rows: int = 24,
    program: tuple[str, ...] = (sys.executable, "-m", "fluzo"),
) -> Iterator[ScriptedUser]:
    """Start `fluzo ARGV`, or another program, on a terminal of this size."""
    terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    child = pexpect.spawn(
        program[0],
        [*program[1:], *argv],
        cwd=str(cwd),
        env={**terminal, **env},
        dimensions=(rows, columns),
        timeout=DEADLINE_SECONDS,
    )
    try:
        yield ScriptedUser(child, columns, rows)
    finally:
        hang_up(child)
