"""The conversation on screen: a control that renders what is visible, at an anchor that nothing but the person moves.

Invariant: the position is a block and a row in it, never a distance from the top; new output, late measuring, resize
and opening rows elsewhere leave what is read where it is. Following the end is a state that only scrolling changes.
"""

from collections.abc import Callable
from typing import NamedTuple

from prompt_toolkit.layout.controls import UIContent, UIControl
from prompt_toolkit.mouse_events import MouseEvent

from .blocks import Block
from .controls import rows_content
from .folding import fold_at, folded_row
from .pointing import Pointer
from .render import RAIL, SILENT_SECONDS, BlockRenderer, has_gap
from .state import State
from .text import Fragment, Line, cells, drawable, justify

MAX_QUEUED_ROWS = 3
EDGE = 4
"""Columns that are not text: rail, space, and two at the right edge (one is the scrollbar's)."""


class Anchor(NamedTuple):
    key: int = 0
    row: int = 0


class Visible(NamedTuple):
    """One row on screen; `last` is the block's number of rows."""

    key: int
    row: int
    line: Line


class Transcript(UIControl):
    """`state` and `now` are asked for each frame; scrolling keeps its own position between frames."""

    def __init__(self, state: Callable[[], State], now: Callable[[], float], renderer: BlockRenderer) -> None:
        self._state = state
        self._now = now
        self.renderer = renderer
        self.follow = True
        self.anchor = Anchor()
        self.selected: int | None = None
        self.focused = False
        self.find = ""
        self.width = 80
        self.height = 1
        self.shown: list[Visible] = []
        self.pointer = Pointer(self, state, now)
        self._left_at: tuple[int, int] = (0, 0)
        self._wheel = 0

    def is_focusable(self) -> bool:
        return True

    # --- measuring

    def rows_of(self, key: int) -> list[Line]:
        """The rows of a block at the width of now."""
        blocks, width = self._state().blocks, max(self.width - EDGE, 8)
        previous = blocks.get(key - 1)
        first, last = fold_at(blocks, key)
        if first < last:
            gap: list[Line] = [[]] if has_gap(blocks[key], previous) else []
            return [*gap, folded_row(blocks, first, last, width, self.renderer.glyphs)] if key == first else []
        return self.renderer.rows(blocks[key], previous, width, self._now())

    def reset(self) -> None:
        """Another conversation: its end, followed."""
        self.follow, self.selected, self.find = True, None, ""
        self.pointer.clear()
        self.renderer.clear()

    # --- position

    def scroll(self, rows: int) -> None:
        """Move by rows, down if positive; reaching the end follows it again, moving up leaves it."""
        blocks = self._state().blocks
        if not len(blocks):
            return
        if rows < 0:
            if self.follow:
                self._leave()
            self.anchor = self._moved(self.anchor, rows)
            self.follow = self.anchor == self._end_anchor()  # So it is where everything fits.
            return
        if self.follow:
            return
        target = self._moved(self.anchor, rows)
        end = self._end_anchor()
        if target >= end:
            self.to_end()
        else:
            self.anchor = target

    def page(self, pages: float) -> None:
        step = max(int((self.height - 2) * abs(pages)), 1)
        self.scroll(step if pages > 0 else -step)

    def to_top(self) -> None:
        if self.follow:
            self._leave()
        self.anchor = Anchor(self._state().blocks.first, 0)
        self.follow = self.anchor == self._end_anchor()

    def to_end(self) -> None:
        self.follow, self.selected = True, None

    def to_block(self, key: int, row: int = 0) -> None:
        """Show a block, a few rows below the upper edge; keeps it where it is when it is on screen already."""
        if any(visible.key == key and visible.row == row for visible in self.shown):
            return
        if self.follow:
            self._leave()
        self.anchor = self._moved(Anchor(key, row), -2)
        if self.anchor >= self._end_anchor():
            self.to_end()

    def hold(self, key: int, at: int) -> None:
        """Keep a block's first row on a screen row, whatever its size is now."""
        if self.follow and self._end_anchor() <= Anchor(key, 0) and at == 0:
            return
        if self.follow:
            self._leave()
        self.anchor = self._moved(Anchor(key, 0), -at)
        self.follow = self.anchor == self._end_anchor()

    def to_turn(self, step: int) -> None:
        """The next or previous message of the person."""
        blocks = self._state().blocks
        key = (self.shown[0].key if self.shown else self.anchor.key) + step
        while key in blocks:
            if blocks[key].kind == "user":
                if self.follow:
                    self._leave()
                self.anchor = Anchor(key, 0)
                if self.anchor >= self._end_anchor():
                    self.to_end()
                return
            key += step
        if step > 0:
            self.to_end()

    def _leave(self) -> None:
        self.anchor = self._end_anchor()
        self.follow = False
        blocks = self._state().blocks
        if len(blocks):
            self._left_at = (blocks.next - 1, len(self.rows_of(blocks.next - 1)))

    def _moved(self, anchor: Anchor, rows: int) -> Anchor:
        blocks = self._state().blocks
        key, row = anchor
        if key not in blocks:
            key, row = blocks.first, 0
        row += rows
        while row < 0 and key > blocks.first:
            key -= 1
            row += len(self.rows_of(key))
        while key < blocks.next - 1 and row >= (size := len(self.rows_of(key))):
            row -= size
            key += 1
        return Anchor(key, max(row, 0))

    def _end_anchor(self) -> Anchor:
        """The anchor at which the last row is the last of the screen."""
        blocks = self._state().blocks
        room, key = self.height, blocks.next
        while key > blocks.first and room > 0:
            key -= 1
            size = len(self.rows_of(key))
            if size >= room:
                return Anchor(key, size - room)
            room -= size
        return Anchor(blocks.first, 0)

    @property
    def new_rows(self) -> int:
        """Rows that came below since following ended."""
        blocks = self._state().blocks
        if self.follow or not len(blocks):
            return 0
        key, rows = self._left_at
        if key not in blocks:
            return 0
        grown = max(len(self.rows_of(key)) - rows, 0)
        width = max(self.width - EDGE, 8)
        return grown + sum(self.renderer.estimate(blocks[later], width) for later in range(key + 1, blocks.next))

    @property
    def near_top(self) -> bool:
        """Whether an older page should be fetched now."""
        blocks = self._state().blocks
        return bool(self.shown) and self.shown[0].key - blocks.first < 10

    # --- drawing

    def visible(self, width: int, height: int) -> list[Visible]:
        """The rows of one screen. Renders the blocks that are on it and no others."""
        self.width, self.height = width, height
        wheel, self._wheel = self._wheel, 0
        if wheel:
            self.scroll(wheel)
        blocks = self._state().blocks
        if not len(blocks):
            self.shown = []
            return []
        anchor = self._end_anchor() if self.follow else self.anchor
        key, row = anchor if anchor.key in blocks else Anchor(blocks.first, 0)
        found: list[Visible] = []
        while key in blocks and len(found) < height:
            lines = self.rows_of(key)
            row = min(row, max(len(lines) - 1, 0))
            found += [Visible(key, number, lines[number]) for number in range(row, len(lines))]
            key, row = key + 1, 0
        self.shown = found[:height]
        return self.shown

    def roll(self, rows: int) -> None:
        """Scroll by these rows with the next frame, and with whatever else is rolled until then."""
        self._wheel += rows

    def mouse_handler(self, mouse_event: MouseEvent) -> None:
        """The wheel scrolls, a drag selects, a click opens; none moves the keyboard away from the composer."""
        self.pointer.event(mouse_event)

    def create_content(self, width: int, height: int) -> UIContent:
        state = self._state()
        after = [*self._unheard(state), *self._queued(state, width)] if self.follow else []
        rows = self.visible(width, max(height - len(after), 1))
        lines = [self._with_rail(state, visible) for visible in rows] + after
        if not self.follow and len(state.blocks):
            lines = self._with_thumb(state, lines, width)
        return rows_content(lines)

    def _with_thumb(self, state: State, lines: list[Line], width: int) -> list[Line]:
        """The rows with the scrollbar's thumb in the last column, measured in blocks, which need no rendering."""
        first, last = (self.shown[0].key, self.shown[-1].key) if self.shown else (0, 0)
        begin, size = first - state.blocks.first, max(last - first + 1, 1)
        height, count = self.height, len(state.blocks)
        top = min(begin * height // count, height - 1)
        bottom = min(max(-(-(begin + size) * height // count), top + 1), height)
        lines = lines + [[] for _ in range(height - len(lines))]
        glyphs = self.renderer.glyphs
        thumb = glyphs.rail if glyphs.rail != "|" else glyphs.full
        for number in range(top, bottom):
            used = sum(cells(part) for _, part in lines[number])
            gap = " " * (width - 1 - used)
            lines[number] = [*lines[number], ("", gap), ("class:scrollbar.thumb", thumb)]
        return lines

    def _unheard(self, state: State) -> list[Line]:
        """That the model was asked and nothing has come of it yet: a large prompt takes a local server its time."""
        task = state.task
        if task is None or not task.asked_since or (quiet := self._now() - task.asked_since) < SILENT_SECONDS:
            return []
        rail = (RAIL.get(task.state, "class:state.idle"), f"{self.renderer.glyphs.rail} ")
        return [[], [rail, ("class:text.faint", f"asked {drawable(state.model)}, no tokens yet for {quiet:.0f} s")]]

    def _queued(self, state: State, width: int) -> list[Line]:
        """What waits for the task's next safe step, greyed at the end."""
        if not state.queued:
            return []
        glyphs = self.renderer.glyphs
        rows: list[Line] = [[]]
        hidden = len(state.queued) - MAX_QUEUED_ROWS
        if hidden > 0:
            rows.append([("class:text.faint", f"{glyphs.user} {hidden} more queued before these: /queue")])
        for item in state.queued[-MAX_QUEUED_ROWS:]:
            text = justify(
                drawable(" ".join(item.text.split())), "queued" if item.id else "sending", width - EDGE, glyphs.more
            )
            rows.append([("class:text.faint", f"{glyphs.user} {text}")])
        return rows

    def _with_rail(self, state: State, visible: Visible) -> Line:
        block = state.blocks[visible.key]
        if block.kind == "rule":
            return visible.line
        glyphs = self.renderer.glyphs
        gap = not visible.line and visible.row == 0
        if gap and (block.kind == "user" or not self._same_turn(state, block)):
            return []
        rail: Fragment
        if block.kind == "user":
            rail = ("class:role.user", f"{glyphs.user} ")
        else:
            task = state.tasks.get(block.task_id)
            rail = (RAIL.get(task.state, "class:state.idle") if task else "class:border.idle", f"{glyphs.rail} ")
        if self.focused and self.selected == visible.key and not gap:
            rail = ("class:border.focus", "> ")
        line = highlighted(visible.line, self.find) if self.find else visible.line
        if self.pointer.selection is not None:
            line = self.pointer.marked(line, visible.key, visible.row)
        return [rail, *line]

    def _same_turn(self, state: State, block: Block) -> bool:
        before = state.blocks.get(block.key - 1)
        return before is not None and before.kind != "user"


def highlighted(line: Line, wanted: str) -> Line:
    """The row with every occurrence of the text marked; letter case does not matter."""
    flat = "".join(part for _, part in line).lower()
    wanted = wanted.lower()
    if not wanted or wanted not in flat:
        return line
    marked = [False] * len(flat)
    at = flat.find(wanted)
    while at >= 0:
        for index in range(at, at + len(wanted)):
            marked[index] = True
        at = flat.find(wanted, at + len(wanted))
    found: Line = []
    position = 0
    for style, part in line:
        start = 0
        for index in range(1, len(part) + 1):
            if index == len(part) or _flag(marked, position + index) != _flag(marked, position + start):
                extra = " class:search.match class:text.on_select" if _flag(marked, position + start) else ""
                found.append((style + extra, part[start:index]))
                start = index
        position += len(part)
    return found


def _flag(marked: list[bool], index: int) -> bool:
    return index < len(marked) and marked[index]
