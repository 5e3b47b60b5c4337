"""The box of a float over the conversation: a title, what may be typed, rows, and the keys in its lower edge."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.layout import AnyContainer, HSplit, VSplit, Window
from prompt_toolkit.layout.controls import FormattedTextControl

from .controls import row, text_control
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

WIDTH, HEIGHT = 72, 18
_EDGE = "class:border.focus class:bg.overlay"


def box_size(screen: "Screen") -> tuple[int, int]:
    """Columns and rows of a float, edges counted; never fewer than it needs, though a small screen cuts it off."""
    return max(min(WIDTH, screen.layout.columns - 4), 20), max(min(HEIGHT, screen.layout.rows - 6), 5)


def boxed(
    screen: "Screen",
    title: Callable[[], str],
    keys: str,
    rows: Window | Callable[[], Line],
    entry: Window | None = None,
) -> AnyContainer:
    """The float's container; `rows` fills it below the line that is typed into, if there is one."""
    width, height = box_size(screen)
    glyphs = screen.glyphs

    def edge(text: str, *, top: bool) -> Line:
        left, right = tuple(glyphs.corners[:2] if top else glyphs.corners[2:])
        return [(_EDGE, f"{left}{glyphs.rule} {text} ".ljust(width - 1, glyphs.rule) + right)]

    filled = rows if isinstance(rows, Window) else Window(text_control(rows), always_hide_cursor=True)
    parts: list[AnyContainer] = [filled]
    if entry is not None:
        mark = Window(FormattedTextControl([("class:accent.primary", "> ")]), width=2)
        parts.insert(0, VSplit([mark, entry], height=1))
    side = [Window(char=glyphs.bar, width=1, style=_EDGE) for _ in range(2)]
    body = HSplit(parts, style="class:bg.overlay")
    return HSplit(
        [
            row(lambda: edge(title(), top=True)),
            VSplit([side[0], Window(width=1, style="class:bg.overlay"), body, side[1]]),
            row(lambda: edge(keys, top=False)),
        ],
        width=width,
        height=height,
        style="class:bg.overlay",
    )


def at_row(shown: range, y: int) -> int | None:
    """The number of what stands in a row below an empty one, None where nothing does."""
    return shown[y - 1] if 0 < y <= len(shown) else None


def window_of(lit: int, count: int, room: int) -> range:
    """The numbers of the rows to show so that the lit one is among them."""
    first = max(0, min(lit - room + 2, count - room))
    return range(first, min(first + room, count))
