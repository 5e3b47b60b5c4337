"""The mark as bytes for the terminal: three rows of half blocks, or the five letters of the header. Pure.

Invariant: the cursor and the attributes of the terminal are after a frame what they were before it (DECSC, DECRC).
"""

from functools import lru_cache

from prompt_toolkit.output import ColorDepth

from .layout import Rect
from .logo import COLUMNS, COMPACT_COLUMNS, WORD, Color, Tint, compact_color, shades, shape

NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan")


def pixels_text(rect: Rect, tint: Tint, ground: Color | str | None) -> str:
    """A frame of the pixel mark at a place."""
    depth = tint.depth
    back_of_all = sgr(ground, depth, 48)
    fores: list[tuple[str, str, str]] = []
    backs: list[tuple[str, str, str]] = []
    for column in range(COLUMNS):
        bright, dark = shades(tint, column)
        fores.append(("", sgr(dark, depth, 38), sgr(bright, depth, 38)))
        backs.append((back_of_all, sgr(dark, depth, 48), sgr(bright, depth, 48)))
    parts = ["\x1b7\x1b[0m"]
    last_fore = last_back = ""
    for number, row in enumerate(shape(shadows=depth is not ColorDepth.DEPTH_1_BIT)):
        parts.append(_at(rect.x, rect.y + number))
        for column, (text, fore_level, back_level) in enumerate(row):
            fore, back = fores[column][fore_level], backs[column][back_level]
            if fore and fore != last_fore:
                parts.append(fore)
                last_fore = fore
            if back != last_back:
                parts.append(back)
                last_back = back
            parts.append(text)
    parts.append("\x1b[0m\x1b8")
    return "".join(parts)


def letters_text(rect: Rect, tint: Tint, ground: Color | str | None) -> str:
    """A frame of the compact mark at a place; the same letters and, at rest, the same colours as the header's own."""
    parts = ["\x1b7\x1b[0;1m", sgr(ground, tint.depth, 48), _at(rect.x, rect.y)]
    for letter, column in zip(WORD, COMPACT_COLUMNS, strict=True):
        parts += [sgr(compact_color(tint, column), tint.depth, 38), letter]
    parts.append("\x1b[0m\x1b8")
    return "".join(parts)


def _at(x: int, y: int) -> str:
    return f"\x1b[{y + 1};{x + 1}H"


def sgr(color: "Color | str | None", depth: ColorDepth, target: int) -> str:
    """The sequence for a foreground (38) or background (48) colour; empty where the terminal has none."""
    if depth is ColorDepth.DEPTH_1_BIT or color is None:
        return ""
    if isinstance(color, str):
        code = _CODES.get(color)
        return f"\x1b[{code + (target - 38)}m" if code is not None else ""
    red, green, blue = color
    if depth is ColorDepth.TRUE_COLOR:
        return f"\x1b[{target};2;{red};{green};{blue}m"
    return f"\x1b[{target};5;{nearest(red, green, blue)}m"


def nearest(red: int, green: int, blue: int) -> int:
    """The nearest colour of the 6x6x6 cube of the xterm palette."""
    steps = [_nearest_step(channel) for channel in (red, green, blue)]
    return 16 + 36 * steps[0] + 6 * steps[1] + steps[2]


@lru_cache(maxsize=256)
def _nearest_step(channel: int) -> int:
    return min(range(6), key=lambda step: abs(_CUBE[step] - channel))


_CUBE = (0, 95, 135, 175, 215, 255)
_CODES = {
    **{f"ansi{name}": 30 + number for number, name in enumerate(NAMES)},
    **{f"ansibright{name}": 90 + number for number, name in enumerate(NAMES)},
}
