"""Typing as it is measured: lines of keys at random moments, and how long each took to be seen.

Invariant: no key is left out, and the draft was what was typed whenever a line was done; else the run stops.
"""

import random
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from terminal import Frame, Terminal

ECHO_KEYS_A_SAMPLE = 25
KEYS_A_SECOND = 20
LINE = 40
REST_SECONDS = 0.3
CLEAR = "\x15"
ALPHABETS = tuple(f"{letters}1234567890nyny" for letters in (ascii_lowercase, ascii_uppercase))
"""What is typed; digits, n and y would be answers if a card took them. A line differs from the one before."""
BAR = "\N{BOX DRAWINGS LIGHT VERTICAL}"


class Key(NamedTuple):
    """When a key or a paste was handed over, and how the draft begins once it is shown."""

    at: float
    shown: str


class Typist:
    """Types lines at random moments and clears each; knows what must be in the composer."""

    def __init__(self, terminal: Terminal, seed: int) -> None:
        self.terminal = terminal
        self.keys: list[Key] = []
        self.rests: list[Key] = []
        """What the whole draft must have been when a line was done."""
        self.shown = self.typed = ""
        self._number = 0
        self._source = random.Random(seed)
        self._when = 0.0

    def type_line(self, acts: Mapping[int, Callable[[], object]], *, keep: bool = False) -> None:
        """One line; before the letter at a place its act, and after the line the draft is cleared, or kept."""
        self._when = time.perf_counter()
        for place, letter in enumerate(ALPHABETS[self._number % 2]):
            acts.get(place, int)()
            self._wait(self._source.uniform(0.5, 1.5) / KEYS_A_SECOND)
            self._press(letter, letter, letter)
        self._number += 1
        # So that the last key is seen, and the line is empty before it is written in again.
        self._wait(REST_SECONDS)
        acts.get(LINE, int)()
        self.rests.append(Key(time.perf_counter(), self.shown))
        if not keep:
            self.clear()

    def clear(self) -> None:
        self.terminal.send(CLEAR)
        self.terminal.read_for(REST_SECONDS)
        self.shown = self.typed = ""

    def paste(self, text: str, shown: str) -> None:
        self._press(f"\x1b[200~{text}\x1b[201~", text, shown)

    def _press(self, keys: str, text: str, shown: str) -> None:
        self.shown += shown
        self.typed += text
        self.keys.append(Key(self.terminal.send(keys), self.shown))

    def _wait(self, seconds: float) -> None:
        self._when += seconds
        self.terminal.read_until(self._when)


def echoes(typist: Typist) -> list[float]:
    """Seconds from each key to the frame that first shows it.

    Stops the run when a key was never shown, or the draft was anything but what was typed when a line was done.
    """
    frames = [(frame.at, _composed(frame)) for frame in typist.terminal.frames()]
    times = [at for at, _ in frames]
    for at, typed in typist.rests:
        shown = frames[bisect_right(times, at) - 1][1]
        if shown != typed:
            raise SystemExit(f"{typed!r} was typed, the draft is {shown!r}")
    found: list[float] = []
    number = 0
    for at, typed in typist.keys:
        number = max(number, bisect_left(times, at))
        while number < len(frames) and not frames[number][1].startswith(typed):
            number += 1
        if number == len(frames):
            raise SystemExit(f"what was typed was never shown: {typed!r}")
        found.append(times[number] - at)
    return found


def _composed(frame: Frame) -> str:
    """What stands in the composer."""
    row = next((row for row in reversed(frame.rows) if row.startswith("> ")), "")
    return row[2:].partition(BAR)[0].rstrip()


def ms(seconds: Sequence[float]) -> list[float]:
    return [value * 1000 for value in seconds]
