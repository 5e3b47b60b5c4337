"""Counts of the drawing itself, for the render diagnostics. The clock is an argument.

Invariant: bounded, and measured whether or not anybody looks; looking asks for no frame.
"""

from collections import deque
from typing import NamedTuple

WINDOW_SECONDS = 5.0
_KEPT = 512


class Figures(NamedTuple):
    """What was done in the last seconds: draws and painted frames of the mark per second, milliseconds of a draw, and
    characters written per second."""

    redraws: float
    marks: float
    p50: float
    p95: float
    written: float


class FrameStats:
    def __init__(self) -> None:
        self._draws: deque[tuple[float, float, int]] = deque(maxlen=_KEPT)
        self._marks: deque[float] = deque(maxlen=_KEPT)

    def drawn(self, at: float, seconds: float, written: int) -> None:
        """A draw ended `at` this time and took these seconds; so much was written since the beginning."""
        self._draws.append((at, seconds, written))

    def painted(self, at: float) -> None:
        self._marks.append(at)

    def figures(self, now: float, written: int) -> Figures:
        since = now - WINDOW_SECONDS
        draws = [item for item in self._draws if item[0] >= since]
        times = sorted(seconds for _, seconds, _ in draws)
        first = next((total for at, _, total in self._draws if at >= since), written)
        return Figures(
            len(draws) / WINDOW_SECONDS,
            sum(at >= since for at in self._marks) / WINDOW_SECONDS,
            1000 * _quantile(times, 0.5),
            1000 * _quantile(times, 0.95),
            (written - first) / WINDOW_SECONDS,
        )


def _quantile(ordered: list[float], part: float) -> float:
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0.0
