"""How rows get on the screen: whole, from cells that are kept, and compared a row at a time.

Invariant: what is drawn is what the toolkit would draw for the same rows and styles, and every cell has a width. The
toolkit's own window places each cell, styles each again, and leaves a cycle of references behind at every frame that
only garbage collection frees: a tenth of a second, about once a second under load, in which no key is read.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial, wraps
from typing import TYPE_CHECKING, Any

from prompt_toolkit import renderer
from prompt_toolkit.application import get_app
from prompt_toolkit.data_structures import Point
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import Window
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition
from prompt_toolkit.mouse_events import MouseEvent
from prompt_toolkit.utils import to_str

from .pen import Pen

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_bindings import NotImplementedOrNone

KEPT_ROWS = 256
"""Rows whose cells are kept, some 10 kB each at 160 columns: a few screens."""

_char = lru_cache(8192)(Char)


class RowsWindow(Window):
    """Draws the rows of its control where they are: nothing wraps, scrolls or has a cursor, and no row is cut in two.

    The control is told of the mouse in cells of this window, so that a wide character is two.
    """

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,
        z_index: int | None,
    ) -> None:
        draw = partial(self._draw, screen, mouse_handlers, write_position, parent_style)
        if z_index is None or z_index <= 0:
            draw()
        else:
            screen.draw_with_z_index(z_index, draw)

    def _draw(self, screen: Screen, mouse_handlers: MouseHandlers, at: WritePosition, parent_style: str) -> None:
        if at.width <= 0 or at.height <= 0:
            return
        content = self.content.create_content(at.width, at.height)
        style = f"{parent_style} {to_str(self.style)} "
        mouse = get_app().renderer.mouse_support()
        handlers = dict.fromkeys(range(at.xpos, at.xpos + at.width), partial(self._mouse, at)) if mouse else {}
        for number in range(at.height):
            line: StyleAndTextTuples = content.get_line(number) if number < content.line_count else []
            screen.data_buffer[at.ypos + number].update(row_cells(tuple(line), style, at.width, at.xpos))
            if mouse:
                mouse_handlers.mouse_handlers[at.ypos + number].update(handlers)
        screen.height = max(screen.height, at.ypos + at.height)
        screen.visible_windows_to_write_positions[self] = at
        if get_app().layout.current_window is self:
            screen.set_cursor_position(self, Point(at.xpos, at.ypos))
            screen.show_cursor = False

    def _mouse(self, at: WritePosition, event: MouseEvent) -> "NotImplementedOrNone":
        if self not in get_app().layout.walk_through_modal_area():
            return NotImplemented
        place = Point(event.position.x - at.xpos, event.position.y - at.ypos)
        return self.content.mouse_handler(MouseEvent(place, event.event_type, event.button, event.modifiers))


@lru_cache(KEPT_ROWS)
def row_cells(line: tuple[Any, ...], style: str, width: int, left: int) -> Mapping[int, Char]:
    """The cells of a row by screen column, blanks to its end; the same object for the same row. Never changed.

    A fragment's style comes after `style`; what does not fit is left out.
    """
    cells: dict[int, Char] = {}
    used = last = 0
    for fragment in line:
        full = style + fragment[0]
        for character in fragment[1]:
            char = _char(character, full)
            if used + char.width > width:
                break
            if char.width:
                last = left + used
                cells[last] = char
                cells.update({last + more: _char("", style) for more in range(1, char.width)})
                used += char.width
            elif cells:
                # A combining character belongs to the one before it.
                cells[last] = _char(cells[last].char + character, cells[last].style)
    blank = _char(" ", style)
    cells.update({left + place: blank for place in range(used, width)})
    return cells


def without_halves(row: dict[int, Char], columns: int) -> None:
    """A blank in place of each half of a wide character whose other half is covered or beyond the last column.

    A terminal cannot show the half, and what is written after it would stand a column beside its place.
    """
    for column in [column for column, char in row.items() if char.width != 1]:
        char, before, after = row[column], row.get(column - 1), row.get(column + 1)
        if char.width:
            whole = column + 1 < columns and after is not None and not after.char
        else:
            whole = before is not None and before.width > 1
        if not whole:
            row[column] = _char(" ", char.style)


def changed_rows_only(compare: Callable[..., Any]) -> Callable[..., Any]:
    """The toolkit's comparison of two frames, in its place where only some rows differ. Ends the previous frame."""

    @wraps(compare)
    def compared(
        app: Any,
        output: Any,
        screen: Screen,
        cursor: Point,
        depth: Any,
        previous: Screen | None,
        last_style: str | None,
        is_done: bool,
        **more: Any,
    ) -> Any:
        arguments = (app, output, screen, cursor, depth, previous, last_style, is_done)
        size = more["size"]
        if previous is None or is_done or more["previous_width"] != size.columns or screen.height != previous.height:
            for row in screen.data_buffer.values():
                without_halves(row, size.columns)
            return compare(*arguments, **more)  # Everything is written anew, or nearly.
        output.hide_cursor()
        looks = more["attrs_for_style_string"], more["style_string_has_style"]
        pen = Pen(output, cursor, last_style, size.columns, depth, *looks)
        new, old = screen.data_buffer, previous.data_buffer
        for number in range(min(screen.height, size.rows)):
            row, before = new[number], old[number]
            if row != before:
                without_halves(row, size.columns)
                pen.row(number, row, before)
        pen.move(*screen.get_cursor_position(app.layout.current_window))
        pen.reset()
        if screen.show_cursor:
            output.show_cursor()
        # Nobody looks at the previous frame again, but the composer's window keeps it in a cycle of references.
        old.clear()
        previous.zero_width_escapes.clear()
        return Point(pen.x, pen.y), pen.style

    return compared


renderer._output_screen_diff = changed_rows_only(renderer._output_screen_diff)
