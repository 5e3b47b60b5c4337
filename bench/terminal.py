"""A program on a terminal of its own, every byte of it with the time it was read; looked at when the run is over.

While a program is measured nothing is interpreted: the bytes are read as soon as they are there and kept. What they
showed, and when, an emulator works out afterwards, so that looking does not disturb.
"""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyte

FRAME_BEGIN, FRAME_END = b"\x1b[?2026h", b"\x1b[?2026l"
MARK = re.compile(rb"\x1b7\x1b\[0m.*?\x1b8", re.DOTALL)
"""The mark, painted between frames; the emulator need not see it."""


class Frame(NamedTuple):
    """One frame: when its last byte was read, and the rows that are then on the screen."""

    at: float
    rows: list[str]


class Terminal:
    """The near side of a program's terminal."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int, columns: int, rows: int) -> None:
        self.process = process
        self.columns, self.rows = columns, rows
        self.chunks: list[tuple[float, bytes]] = []
        self._master = master
        self._resized: dict[int, tuple[int, int]] = {}
        """Rows and columns from a number of chunks on."""

    def send(self, keys: str) -> float:
        """Press keys; when they were handed over."""
        at = time.perf_counter()
        os.write(self._master, keys.encode())
        return at

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size. It is nobody's controlling terminal, so the signal is sent by hand."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)
        self._resized[len(self.chunks)] = (rows, columns)

    def read_until(self, when: float) -> None:
        """Take in what the program writes until this time."""
        while (left := when - time.perf_counter()) > 0:
            self._read(left)

    def read_for(self, seconds: float) -> None:
        self.read_until(time.perf_counter() + seconds)

    def wait_for(self, text: bytes, seconds: float = 30.0) -> float:
        """When these bytes were read, of what comes from now on."""
        found, end = b"", time.perf_counter() + seconds
        while time.perf_counter() < end:
            if self._read(end - time.perf_counter()):
                at, data = self.chunks[-1]
                found += data
                if text in found:
                    return at
        raise SystemExit(f"the program never wrote {text!r}; it wrote at last:\n{found[-2000:]!r}")

    def quiet(self, seconds: float) -> None:
        """Wait until nothing has come for so long."""
        while self._read(seconds):
            pass

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], max(seconds, 0))[0]:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:
            return False  # The program has closed its side.
        self.chunks.append((time.perf_counter(), data))
        return bool(data)

    def size_from(self, first: int = 0) -> int:
        """Bytes read since a number of chunks."""
        return sum(len(data) for _, data in self.chunks[first:])

    def bytes_from(self, first: int = 0) -> bytes:
        return b"".join(data for _, data in self.chunks[first:])

    def frames(self) -> Iterator[Frame]:
        """Every frame of the whole run, in order."""
        picture = pyte.Screen(self.columns, self.rows)
        stream = pyte.ByteStream(picture)
        held = b""
        for number, (at, data) in enumerate(self.chunks):
            if number in self._resized:
                picture.resize(*self._resized[number])
            held += data
            *whole, held = held.split(FRAME_END)
            for part in whole:
                stream.feed(MARK.sub(b"", part))
                yield Frame(at, [row.rstrip() for row in picture.display])

    def leave(self) -> None:
        """Have the program end by itself, so that it writes its report."""
        self.process.terminate()
        while self._read(20.0):
            pass
        self.process.wait(20)


@contextmanager
def running(
    argv: Sequence[str | Path], cwd: Path, environ: Mapping[str, str], columns: int, rows: int
) -> Iterator[Terminal]:
    """Start a program on a new terminal of this size; it is killed if it is still there at the end."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "PATH": os.environ["PATH"], **environ}
    process = subprocess.Popen(argv, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    try:
        yield Terminal(process, master, columns, rows)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
