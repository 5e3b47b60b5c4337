"""A person at a terminal: a process on a real pty, and what an emulator shows of its output."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pyte

KEYS = {"enter": "\r", "down": "\x1b[B", "space": " ", "ctrl-c": "\x03", "ctrl-d": "\x04", "kill-line": "\x05\x15"}


class ScriptedPerson:
    """Types and looks; `sees` waits for text anywhere on the screen or in what has scrolled off it."""

    def __init__(self, child: "pexpect.spawn[bytes]", columns: int, rows: int) -> None:
        self._child = child
        self._screen = pyte.HistoryScreen(columns, rows, history=2000)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""

    def sees(self, text: str, times: int = 1, seconds: float = 120) -> None:
        while self.screen().count(text) < times:
            try:
                data = self._child.read_nonblocking(65536, timeout=seconds)
            except (pexpect.TIMEOUT, pexpect.EOF) as exc:
                raise AssertionError(f"never saw {text!r}; the screen was:\n{self.screen()}") from exc
            self.raw += data
            self._stream.feed(data)

    def screen(self) -> str:
        gone = ["".join(line[x].data for x in range(self._screen.columns)) for line in self._screen.history.top]
        return "\n".join(line.rstrip() for line in [*gone, *self._screen.display])

    def types(self, text: str) -> None:
        self._child.send(text.encode())

    def presses(self, *keys: str) -> None:
        for key in keys:
            self._child.send(KEYS[key].encode())

    def answers(self, question: str, text: str) -> None:
        """Replace the offered answer by `text`."""
        self.sees(question)
        self.presses("kill-line")
        self.types(text)
        self.presses("enter")

    def accepts(self, question: str) -> None:
        self.sees(question)
        self.presses("enter")

    def leaves(self, seconds: float = 120) -> int:
        """Wait for the end of the process and return its exit status."""
        while True:
            try:
                data = self._child.read_nonblocking(65536, timeout=seconds)
            except pexpect.EOF:
                break
            self.raw += data
            self._stream.feed(data)
        self._child.wait()
        self._child.close()
        return self._child.exitstatus if self._child.exitstatus is not None else -(self._child.signalstatus or 0)


def hang_up(child: "pexpect.spawn[bytes]") -> None:
    """End whatever still runs at the terminal, also where its end takes longer than pexpect waits for it."""
    try:
        child.close(force=True)
    except pexpect.ExceptionPexpect:
        child.wait()  # It has been killed.


@contextmanager
def person_at(
    *argv: str, cwd: Path, env: dict[str, str], columns: int = 110, rows: int = 40
) -> Iterator[ScriptedPerson]:
    """Start `fluzo ARGV` on a terminal."""
    child = pexpect.spawn(
        sys.executable,
        ["-m", "fluzo", *argv],
        cwd=str(cwd),
        env={"TERM": "xterm-256color", **env, "PROMPT_TOOLKIT_NO_CPR": "1"},  # The emulator does not report its cursor.
        dimensions=(rows, columns),
        timeout=30,
    )
    try:
        yield ScriptedPerson(child, columns, rows)
    finally:
        hang_up(child)
