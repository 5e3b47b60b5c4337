"""The render diagnostics: three rows over the conversation, of work that Fluzo did, which is not display FPS.

Invariant: they are drawn with frames that are due anyway; showing them asks for none.
"""

from typing import TYPE_CHECKING

from .layout import OVERLAY_WIDTH
from .preferences import FIELDS, value_of
from .rows import thousands
from .sheet import column
from .text import Line
from .theme import ASCII

if TYPE_CHECKING:
    from .app import Screen

NAME = "work done by Fluzo, not display FPS"


def figures_text(screen: "Screen") -> str:
    """The same in one row, for where no conversation is on screen."""
    figures = screen.frames.stats.figures(screen.now(), getattr(screen.app.output, "written", 0))
    return f"redraws {figures.redraws:.1f}/s  p50 {figures.p50:.1f} p95 {figures.p95:.1f} ms  ({NAME})"


def overlay_rows(screen: "Screen") -> list[Line]:
    """The overlay, `OVERLAY_WIDTH` cells wide."""
    stats, renderer = screen.frames.stats, screen.renderer
    figures = stats.figures(screen.now(), getattr(screen.app.output, "written", 0))
    asked = renderer.hits + renderer.rendered
    hits = f"{100 * renderer.hits // asked}%" if asked else "-"
    texts = (
        f"redraws {figures.redraws:.1f}/s  mark {figures.marks:.1f}/s  skipped {screen.motion.skipped}",
        f"frame p50 {figures.p50:.1f} p95 {figures.p95:.1f} ms  cache {hits}  {thousands(figures.written)} bytes/s",
        NAME,
    )
    return [[("class:text.muted class:bg.overlay", column(f" {text}", OVERLAY_WIDTH))] for text in texts]


def screen_facts(screen: "Screen") -> list[tuple[str, str]]:
    """What a picture of the screen depends on besides its content: looks in force, and what the terminal is."""
    looks = [(key, str(value_of(screen.preferences, key)).lower()) for key in FIELDS]
    return [
        *looks,
        ("size", f"{screen.layout.columns}x{screen.layout.rows} {screen.layout.size}"),
        ("colours", screen.depth.value.removeprefix("DEPTH_").replace("_", " ").lower()),
        ("glyphs", "ascii" if screen.glyphs is ASCII else "unicode"),
        (
            "draws, mark frames, skipped",
            f"{screen.frames.drawn}, {screen.motion.frames}, {screen.motion.skipped}",
        ),
    ]
