"""The pixel wordmark: five letters of 5x5 pixels with a shadow, in half blocks, coloured by column, time and state.

Pure: a frame is a function of state, seconds since it began, theme and colour depth. The figures are those of the
reference artwork; this is the only place with colours besides the theme tokens.
"""

from functools import lru_cache
from math import cos, pi
from typing import NamedTuple

from prompt_toolkit.output import ColorDepth

from .text import Line

COLUMNS, ROWS = 30, 3
WORD = "FLUZO"
SHADOW = 0.32
WORDMARK_PERIOD = 8.0
RUNNING_PERIOD = 1.6
WAITING_PERIOD = 3.0
COMPLETED_SECONDS = 1.0
PERIODS = {"running": 2 * WORDMARK_PERIOD, "waiting": WAITING_PERIOD}
"""Seconds after which a moving state begins anew: the gradient turns by halves, and the pulse fits into it."""
COMPACT_COLUMNS = (2, 8, 14, 20, 26)

_LETTERS = (
    ("#####", "#....", "####.", "#....", "#...."),
    ("#....", "#....", "#....", "#....", "#####"),
    ("#...#", "#...#", "#...#", "#...#", ".###."),
    ("#####", "...#.", "..#..", ".#...", "#####"),
    (".###.", "#...#", "#...#", "#...#", ".###."),
)
_STOPS = ((48, 224, 224), (77, 151, 249), (167, 113, 248))
_TINTS = {
    "waiting": (255, 190, 80),
    "blocked": (230, 175, 60),
    "stopping": (230, 175, 60),
    "completed": (0, 255, 178),
    "failed": (255, 90, 90),
    "cancelled": (133, 131, 146),
}
_NAMED = {
    "idle": "ansibrightblack",
    "queued": "ansibrightblack",
    "recovered": "ansibrightblack",
    "cancelled": "ansibrightblack",
    "waiting": "ansiyellow",
    "blocked": "ansiyellow",
    "stopping": "ansiyellow",
    "completed": "ansigreen",
    "failed": "ansired",
}
MOVING = ("running", "waiting")
RESTING = ("idle", "queued", "recovered")

Color = tuple[int, int, int]


@lru_cache(maxsize=1)
def pixels() -> tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]:
    """Letter pixels and shadow pixels as (column, row) of 30x6."""
    letters = {
        (number * 6 + column, row)
        for number, letter in enumerate(_LETTERS)
        for row, line in enumerate(letter)
        for column, mark in enumerate(line)
        if mark == "#"
    }
    shadow = {(column + 1, row + 1) for column, row in letters} - letters
    return frozenset(letters), frozenset(shadow)


def gradient(position: float, seconds: float, theme: str) -> Color:
    """The wordmark's own colour at a place (0 to 1) and time."""
    f = (1 - cos(pi * (position - seconds / WORDMARK_PERIOD))) / 2
    if theme == "high-contrast":
        return 255, round(80 + 175 * f), round(48 * (1 - f))
    low, high = (_STOPS[0], _STOPS[1]) if f < 0.5 else (_STOPS[1], _STOPS[2])
    part = f * 2 if f < 0.5 else f * 2 - 1
    return _mix(low, high, part)


def _mix(low: Color, high: Color, part: float) -> Color:
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    return red, green, blue


def strength(state: str, position: float, seconds: float, *, moving: bool) -> float:
    """How bright a column is in a state."""
    if state == "running":
        return 0.75 + 0.25 * cos(2 * pi * (2 * abs(position - 0.5) + seconds / RUNNING_PERIOD)) if moving else 1.0
    if state == "waiting":
        return 0.75 + 0.15 * cos(2 * pi * (seconds if moving else 0.0) / WAITING_PERIOD)
    if state == "completed":
        return 1 - 0.35 * min(seconds, 1.0) if moving else 0.65
    return 1.0 if state in _TINTS else 0.55


def color_at(state: str, column: int, seconds: float, theme: str, *, moving: bool) -> Color:
    position = column / (COLUMNS - 1)
    base = _TINTS.get(state) or gradient(position, seconds if moving and state == "running" else 0.0, theme)
    level = strength(state, position, seconds, moving=moving)
    return _scaled(base, level)


def _scaled(color: Color, level: float) -> Color:
    red, green, blue = (max(0, min(255, round(channel * level))) for channel in color)
    return red, green, blue


def _named(state: str, column: int, theme: str) -> str:
    """The 16-colour name of a column."""
    if state in _NAMED:
        return _NAMED[state]
    f = (1 - cos(pi * column / (COLUMNS - 1))) / 2
    third = 0 if f < 0.33 else 1 if f < 0.66 else 2
    if theme == "high-contrast":
        return ("ansibrightred", "ansired", "ansibrightyellow")[third]
    return ("ansicyan", "ansiblue", "ansimagenta")[third]


class Cell(NamedTuple):
    """One cell of the mark: a half block and its shades: 0 the ground, 1 the shadow, 2 the letter's colour."""

    text: str
    fore: int = 0
    back: int = 0


@lru_cache(maxsize=2)
def shape(*, shadows: bool = True) -> tuple[tuple[Cell, ...], ...]:
    """The three rows of the mark, 30 cells each; the same in every frame, only the colours move."""
    letters, shadow = pixels()

    def level(column: int, row: int) -> int:
        return 2 if (column, row) in letters else 1 if (column, row) in shadow and shadows else 0

    return tuple(
        tuple(_cell(level(column, 2 * row), level(column, 2 * row + 1)) for column in range(COLUMNS))
        for row in range(ROWS)
    )


def _cell(upper: int, lower: int) -> Cell:
    if upper == lower:
        return Cell("█", upper) if upper else Cell(" ")
    if not lower:
        return Cell("▀", upper)
    return Cell("▄", lower) if not upper else Cell("▀", upper, lower)


class Tint(NamedTuple):
    """What the colours of a frame depend on; `seconds` since the state began."""

    state: str
    seconds: float
    theme: str
    depth: ColorDepth
    moving: bool


def shades(tint: Tint, column: int) -> tuple["Color | str | None", "Color | str | None"]:
    """The colours of a column's letter and shadow."""
    if tint.depth is ColorDepth.DEPTH_1_BIT:
        return None, None
    if tint.depth is ColorDepth.DEPTH_4_BIT:
        return _named(tint.state, column, tint.theme), "ansibrightblack"
    bright = color_at(tint.state, column, tint.seconds, tint.theme, moving=tint.moving)
    return bright, _scaled(bright, SHADOW)


def compact_color(tint: Tint, column: int) -> "Color | str | None":
    """The colour of a letter of the small word. At rest it keeps its full colours: dimmed it could not be read."""
    if tint.state in RESTING:
        tint = tint._replace(state="running", moving=False)
    return shades(tint, column)[0]


def compact(state: str, theme: str, depth: ColorDepth) -> Line:
    """The word in a state as it is at rest, one sample of the gradient per letter."""
    tint = Tint(state, COMPLETED_SECONDS, theme, depth, moving=False)
    line: Line = []
    for letter, column in zip(WORD, COMPACT_COLUMNS, strict=True):
        color = compact_color(tint, column)
        if isinstance(color, tuple):
            line.append(("bold fg:#{:02x}{:02x}{:02x}".format(*color), letter))
        else:
            line.append((f"bold fg:{color}" if color else "bold", letter))
    return line
