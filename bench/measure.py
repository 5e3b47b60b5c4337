"""Two things measured against each other in one run, so that the figure is a ratio and not a machine.

A sample of one is taken next to a sample of the other, in alternating order: what disturbs the machine disturbs both.
"""

import math
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

WARM_UP = 3
"""Samples of each side that are taken first and not counted."""


@dataclass(frozen=True)
class Row:
    """One measured path beside its reference; samples are seconds, `limit` the ratio that its median must not pass."""

    name: str
    reference: str
    limit: float
    samples: list[float]
    reference_samples: list[float]

    @property
    def ratio(self) -> float:
        return percentile(self.samples, 50) / percentile(self.reference_samples, 50)

    @property
    def is_within_limit(self) -> bool:
        return self.ratio <= self.limit


@dataclass(frozen=True)
class Figure:
    """What was measured in itself, without a reference: one value, or samples with limits on their percentiles.

    `limits` holds (percentile, limit) in `unit`; for a single value the percentile is 100. Without limits the figure
    is told, not judged.
    """

    name: str
    where: str
    unit: str
    samples: Sequence[float]
    limits: Sequence[tuple[float, float]] = ()
    note: str = ""

    @property
    def is_within_limit(self) -> bool:
        return all(percentile(self.samples, percent) <= limit for percent, limit in self.limits)


@dataclass(frozen=True)
class Setting:
    """Where the rows run: the interpreter of an environment with the installed wheel, an own home, and how often."""

    python: Path
    home: Path
    samples: int

    def process(self, *argv: str | Path) -> Callable[[], None]:
        """A command, run to its end with its output thrown away; raises CalledProcessError when it fails."""
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}

        def run() -> None:
            subprocess.run(
                argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True
            )

        return run


def interleave(
    subject: Callable[[], object], reference: Callable[[], object], samples: int
) -> tuple[list[float], list[float]]:
    """Take `samples` of each in turn, after `WARM_UP` of each that are not counted; seconds, subject first."""
    for _ in range(WARM_UP):
        subject()
        reference()
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(samples):
        for side in (0, 1) if number % 2 else (1, 0):
            started = time.perf_counter()
            (subject, reference)[side]()
            taken[side].append(time.perf_counter() - started)
    return taken


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least `percent` of them do not exceed (nearest rank)."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
