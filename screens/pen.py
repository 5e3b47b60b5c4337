"""What of a row that changed goes to the terminal: where the cursor moves, which cells are written, in which look.

Invariant: for the same rows it writes what the toolkit writes. The toolkit looks at every row of both frames, also at
those that are known to be the same; that is a quarter of a frame in which one key shows.
"""

from collections.abc import Mapping
from typing import Any

from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output import ColorDepth, Output

NOTHING = Char(" ", "[transparent]")
"""What stands where nothing was put."""


class Pen:
    """The terminal's cursor at a column and a row, and the style of what was written last. `attributes` and `styled`
    are the toolkit's tables: how a style looks, and whether a blank of it looks like anything."""

    def __init__(
        self,
        output: Output,
        at: tuple[int, int],
        style: str | None,
        columns: int,
        depth: ColorDepth,
        attributes: Mapping[str, Any],
        styled: Mapping[str, bool],
    ) -> None:
        self.x, self.y = at
        self.style = style
        self._output = output
        self._last = columns - 1
        self._depth = depth
        self._attributes = attributes
        self._styled = styled

    def reset(self) -> None:
        self._output.reset_attributes()
        self.style = None

    def move(self, x: int, y: int) -> None:
        output = self._output
        if y > self.y:
            self.reset()  # A newline could be drawn in a background colour.
            output.write("\r\n" * (y - self.y))
            output.cursor_forward(x)
        else:
            if y < self.y:
                output.cursor_up(self.y - y)
            if self.x >= self._last:
                output.write("\r")
                output.cursor_forward(x)
            elif x < self.x:
                output.cursor_backward(self.x - x)
            elif x > self.x:
                output.cursor_forward(x - self.x)
        self.x, self.y = x, y

    def row(self, number: int, new: Mapping[int, Char], old: Mapping[int, Char]) -> None:
        """Write what differs in a row; of a shorter one the rest is erased."""
        end, end_before = self._end(new), self._end(old)
        column = 0
        while column <= end:
            char, before = new.get(column, NOTHING), old.get(column, NOTHING)
            width = char.width or 1
            if char is not before and (char.char != before.char or char.style != before.style):
                self.move(column, number)
                self._put(char)
                self.x += width
            column += width
        if end < end_before:
            self.move(end + 1, number)
            self.reset()
            self._output.erase_end_of_line()

    def _put(self, char: Char) -> None:
        style = char.style
        if style != self.style:
            looks = self._attributes[style]
            if not self.style or looks != self._attributes[self.style]:
                self._output.set_attributes(looks, self._depth)
            self.style = style
        self._output.write(char.char)

    def _end(self, row: Mapping[int, Char]) -> int:
        """The last column that looks like anything."""
        for column in range(self._last, 0, -1):
            char = row.get(column)
            if char is not None and (char.char != " " or self._styled[char.style]):
                return column
        return 0
