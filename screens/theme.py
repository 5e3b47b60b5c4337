"""Themes as prompt-toolkit styles, the colour depth of the terminal, and the glyph sets.

Code elsewhere names tokens (`class:state.running`) and glyph names only. A theme is switched by another style.
"""

from collections.abc import Mapping
from typing import NamedTuple

from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from .theme_tokens import TOKENS, Token

THEMES = ("default", "high-contrast")
ROOT_STYLE = "class:bg.base class:text.primary"

_CUBE = (0, 95, 135, 175, 215, 255)
_NAMES = {"default": "ansiblack", "white": "ansigray", "brightwhite": "ansiwhite"}
"""Of the 16 names. The themes' `default` grounds are painted, or their light text would be lost on a light terminal."""


class Glyphs(NamedTuple):
    """The characters of the chrome; none of them is an emoji, and `ambiguous` widths have their own set."""

    done: str = "✓"
    failed: str = "✗"
    closed: str = "▸"
    opened: str = "▾"
    waiting: str = "◌"
    cancelled: str = "-"
    rail: str = "┃"
    user: str = "▎"
    rule: str = "─"
    bar: str = "│"
    corners: str = "┌┐└┘"
    full: str = "█"
    empty: str = "░"
    more: str = "…"
    activity: str = "▔"
    caret: str = "█"


UNICODE = Glyphs()
ASCII = Glyphs("+", "x", ">", "v", "o", "-", "|", "|", "-", "|", "++++", "#", ".", "...", "-", "_")


def glyphs_for(encoding: str, environ: Mapping[str, str]) -> Glyphs:
    """The Unicode set where the terminal's encoding carries it; the Linux console lacks most of these glyphs.

    Python writes UTF-8 in a C locale, too; a person who asks for such a one by `LC_ALL` has no UTF-8.
    """
    chosen = environ.get("LC_ALL", "")
    if chosen and "utf" not in chosen.lower():
        return ASCII
    if "utf" not in encoding.lower().replace("-", "") or environ.get("TERM") == "linux":
        return ASCII
    return UNICODE


def color_depth(environ: Mapping[str, str]) -> ColorDepth:
    """What the terminal says it can show: NO_COLOR wins, then an explicit depth, then COLORTERM and TERM."""
    if environ.get("NO_COLOR"):
        return ColorDepth.DEPTH_1_BIT
    explicit = environ.get("PROMPT_TOOLKIT_COLOR_DEPTH", "")
    if explicit in ColorDepth.__members__.values():
        return ColorDepth(explicit)
    term = environ.get("TERM", "")
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return ColorDepth.TRUE_COLOR
    if term in ("dumb", ""):
        return ColorDepth.DEPTH_1_BIT
    if "256" in term or term in ("alacritty", "foot", "tmux", "xterm-kitty", "xterm-ghostty", "wezterm"):
        return ColorDepth.DEPTH_8_BIT
    return ColorDepth.DEPTH_4_BIT


def style_for(theme: str, depth: ColorDepth) -> Style:
    """The style of a theme, with the fixed column of the depth; an unknown theme is the default one."""
    contrast = theme == "high-contrast"
    return Style([(token.name, _rule(token, contrast, depth)) for token in TOKENS])


def _rule(token: Token, contrast: bool, depth: ColorDepth) -> str:
    ground = "bg:" if token.background else "fg:"
    attributes = token.plain if token.name in _ALWAYS else ""
    if depth is ColorDepth.DEPTH_1_BIT:
        return token.plain
    if depth is ColorDepth.DEPTH_4_BIT:
        name = token.contrast_16 if contrast else token.default_16
        color = _NAMES.get(name, f"ansi{name}")
        # Where 16 colours cannot carry the difference, the attribute does.
        attributes = token.plain if token.name.endswith(".word") else attributes
    elif depth is ColorDepth.DEPTH_8_BIT:
        color = palette(token.contrast_256 if contrast else token.default_256)
    else:
        color = token.contrast if contrast else token.default
    return f"{ground}{color} {attributes}".rstrip()


_ALWAYS = ("text.strong", "text.link", "md.heading", "role.thought", "state.waiting", "state.failed")
"""Tokens that keep their attributes in colour too."""


def palette(index: int) -> str:
    """The RGB text of a colour of the xterm palette from 16 up; prompt-toolkit maps it back to exactly that index."""
    if index >= 232:
        level = 8 + 10 * (index - 232)
        return f"#{level:02x}{level:02x}{level:02x}"
    cube = index - 16
    return f"#{_CUBE[cube // 36]:02x}{_CUBE[cube // 6 % 6]:02x}{_CUBE[cube % 6]:02x}"


def ground_color(theme: str, depth: ColorDepth) -> tuple[int, int, int] | str | None:
    """The ground for what is painted past the renderer: RGB, a name, or None where the terminal's own shows."""
    if depth is ColorDepth.DEPTH_1_BIT:
        return None
    if depth is ColorDepth.DEPTH_4_BIT:
        return "ansiblack"
    base = next(token for token in TOKENS if token.name == "bg.base")
    text = base.contrast if theme == "high-contrast" else base.default
    if depth is ColorDepth.DEPTH_8_BIT:
        text = palette(base.contrast_256 if theme == "high-contrast" else base.default_256)
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)
