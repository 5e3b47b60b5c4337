"""What the pages share: rows that scroll with one of them lit or none, the frame around them, and reading for them.

Invariant: a page never waits. It asks the port, draws what it has, and draws again when the answer is there.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import AnyContainer, HSplit, Window
from prompt_toolkit.layout.controls import UIContent, UIControl
from prompt_toolkit.mouse_events import MouseEvent

from fluzo.core.port import Query, Snapshot, TaskDetail, TaskList

from .clicking import Clicks
from .controls import row, rows_content
from .keys import Context, parse_key
from .pointing import WHEEL_ROWS
from .sanitize import visible_text
from .state import State
from .text import Line, cells, cut_line, drawable, shorten
from .transcript import highlighted

if TYPE_CHECKING:
    from .app import Screen

SIDEWAYS = 8
"""Columns that a step to the side moves."""
_NAME, _DOT, _PLAIN_DOT = "FLUZO", "  · ", "  - "
_HEAD_GAPS = 6
FRAME_ROWS = 3
"""Of a page: its head, the rule, and the status row below it."""
LIT = "class:bg.select class:text.on_select"


class Sheet(UIControl):
    """`rows` is asked each frame. With `picks` one row is lit and stays in view; `moved` is called after each move.

    Its keys are those of the registry in `context`. `shifts` says that rows move sideways as a whole; else `left` is
    for whoever makes the rows.
    """

    def __init__(
        self,
        screen: "Screen",
        rows: Callable[[], Sequence[Line]],
        *,
        context: Context = "pager",
        picks: bool = False,
        shifts: bool = True,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        self._screen = screen
        self._rows = rows
        self._moved = moved
        self._picks = picks
        self._shifts = shifts
        self.keys = KeyBindings()
        wheel_rows = 1 if picks else WHEEL_ROWS
        self._clicks = Clicks(self._at, lambda: self.lit, self.move, self._entered, wheel_rows)
        self._enter: Callable[[], object] = lambda: None
        self.top, self.left, self.lit = 0, 0, 0
        self.width, self.height = screen.layout.columns, max(screen.layout.rows - FRAME_ROWS, 1)
        self.find = ""
        self.at = -1
        """The row of the match that was gone to."""
        self.lights = picks
        """Whether there is something to light; not where the one row says that there is nothing."""
        self._bind(context)

    def is_focusable(self) -> bool:
        return True

    def get_key_bindings(self) -> KeyBindings:
        return self.keys

    def act(self, action_id: str, call: Callable[[], object]) -> None:
        """Have the keys of an action call a function."""
        for shown in self._screen.registry.actions[action_id].keys:
            self.keys.add(*parse_key(shown))(partial(self._call, call))

    def _call(self, call: Callable[[], object], event: KeyPressEvent) -> None:
        self._screen.flash = ""
        call()

    def mouse_handler(self, mouse_event: MouseEvent) -> None:
        """The wheel moves; a click lights a row, and one on the lit row is what `entered` named."""
        self._clicks.event(mouse_event)

    def entered(self, action_id: str, call: Callable[[], object]) -> None:
        """`act`, also for a click on the lit row."""
        self._enter = call
        self.act(action_id, call)

    def _entered(self) -> None:
        self._screen.flash = ""
        self._enter()

    def _at(self, y: int) -> int | None:
        number = self.top + y
        return number if self._picks and number < len(self._rows()) else None

    def move(self, rows: int) -> None:
        last = max(len(self._rows()) - 1, 0)
        if self._picks:
            self.lit = max(0, min(self.lit + rows, last))
        else:
            self.top = max(0, min(self.top + rows, last + 1 - self.height))
        self._moved()

    def show(self, row: int) -> None:
        """Bring a row into view, and light it where one is lit."""
        if self._picks:
            self.lit = row
        elif not self.top <= row < self.top + self.height:
            self.top = max(0, min(row - self.height // 3, len(self._rows()) - self.height))

    def seek(self, step: int) -> None:
        """Go to the next row (or for -1 the one before) that has the text in `find`, around the end."""
        wanted, rows = self.find.lower(), self._rows()
        if not wanted or not rows:
            return
        for distance in range(1, len(rows) + 1):
            number = (self.at + step * distance) % len(rows)
            if wanted in "".join(part for _, part in rows[number]).lower():
                self.at = number
                self.show(number)
                return
        self._screen.say(f'"{self.find}" is not found')

    def _bind(self, context: Context) -> None:
        self.act(f"{context}.down", lambda: self.move(1))
        self.act(f"{context}.up", lambda: self.move(-1))
        self.act(f"{context}.page_down", lambda: self.move(max(self.height - 2, 1)))
        self.act(f"{context}.page_up", lambda: self.move(-max(self.height - 2, 1)))
        self.act(f"{context}.top", lambda: self.move(-len(self._rows())))
        self.act(f"{context}.end", lambda: self.move(len(self._rows())))
        self.act(f"{context}.right", lambda: self._sideways(SIDEWAYS))
        self.act(f"{context}.left", lambda: self._sideways(-SIDEWAYS))

    def _sideways(self, columns: int) -> None:
        self.left = max(self.left + columns, 0)

    def create_content(self, width: int, height: int) -> UIContent:
        self.width, self.height = width, height
        rows = self._rows()
        if self._picks:
            self.lit = max(0, min(self.lit, len(rows) - 1))
            self.top = min(max(self.top, self.lit - height + 1), self.lit)
        self.top = max(0, min(self.top, len(rows) - height))
        shown = []
        for number, line in enumerate(rows[self.top : self.top + height], self.top):
            drawn = fitted(line, self.left if self._shifts else 0, width - 1)
            if self.lights and number == self.lit:
                shown.append(_lit(drawn, width - 1))
            else:
                shown.append([("", " "), *(highlighted(drawn, self.find) if self.find else drawn)])
        return rows_content(shown, height if self._picks else 0)


def fitted(line: Line, left: int, width: int) -> Line:
    """A row without its first characters, cut to a width in cells."""
    if left:
        line = cut_line(line, left, sum(len(part) for _, part in line))
    found: Line = []
    for style, part in line:
        used = cells(part)
        if used > width:
            found.append((style, shorten(part, width)))
            break
        found.append((style, part))
        width -= used
    return found


def _lit(line: Line, width: int) -> Line:
    text = "".join(part for _, part in line)
    return [(LIT, f">{text}{' ' * (width - cells(text))}")]


def safe(text: object) -> str:
    """A text of others in one row: nothing in it is hidden, nothing in it moves the cursor."""
    return drawable(visible_text(" ".join(str(text or "").split())))


def column(text: str, width: int) -> str:
    """A drawable text cut and filled to exactly this many cells."""
    text = shorten(text, width)
    return text + " " * (width - cells(text))


def framed(screen: "Screen", head: Callable[[], Line], *parts: AnyContainer) -> AnyContainer:
    """A page: a head, a rule, and what it shows.

    It names its ground, so that the renderer writes every cell of it, also where the mark was painted past it.
    """

    def drawn() -> Line:
        dot = _DOT if screen.glyphs.rail != "|" else _PLAIN_DOT
        return [(style, dot if part == _DOT else part) for style, part in head()]

    return HSplit([row(drawn), rule_window(screen), *parts], style="class:bg.base")


def rule_window(screen: "Screen") -> Window:
    return Window(char=screen.glyphs.rule, height=1, style="class:border.idle")


def headed(name: str, left: str, right: str, width: int) -> Line:
    """The head of a page: its name and what it is about at the left, how it stands at the right.

    The product's name stands before it where all of that has room.
    """
    brand: Line = [("", " ")]
    used = cells(_NAME + _DOT)
    if used + cells(name) + cells(left) + cells(right) + _HEAD_GAPS <= width:
        brand += [("class:text.strong", _NAME), ("class:text.faint", _DOT)]
        width -= used
    room = max(width - cells(name) - cells(right) - 6, 0)
    left = shorten(left, room) if left else ""
    gap = " " * max(width - cells(name) - cells(left) - cells(right) - 4, 1)
    return [*brand, ("class:text.strong", name), ("class:text.muted", f"  {left}{gap}{right}")]


def hint_line(screen: "Screen", *hints: tuple[str, str]) -> str:
    """Keys and what they do, for the status row; the keys are those of the registry now."""
    return "  ".join(f"{screen.registry.key(action)} {text}" for action, text in hints)


def sheet_window(sheet: Sheet) -> Window:
    return Window(sheet, always_hide_cursor=True, style="class:bg.base")


# --- reading --------------------------------------------------------------------------------------------------


def moment(state: State) -> tuple[object, ...]:
    """What must differ before a page reads again: streamed text alone changes no record that it shows."""
    task = state.task
    at = (task.state, task.turns, task.result) if task is not None else ()
    return (state.phase, state.session_id, state.task_id, *at, state.requests, state.queued, state.operations)


def shown_task(state: State) -> Query | None:
    """What asks for the task on the screen: by its id, or first for the newest one of a session that is only read."""
    if state.task_id:
        return TaskDetail(state.task_id)
    return TaskList(1, "", state.session_id) if state.session_id else None


class Reader:
    """One kind of question at a time; asking while one is out asks once more when the answer is there."""

    def __init__(
        self,
        screen: "Screen",
        taken: Callable[[Query, Snapshot], None],
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._screen = screen
        self._taken = taken
        self._told = failed
        self._waiting: Query | None = None
        self._next: Query | None = None
        self.problem = ""

    @property
    def busy(self) -> bool:
        return self._waiting is not None

    def ask(self, query: Query | None) -> None:
        link = self._screen.link
        if query is None:
            return
        if link is None or link.port is None:
            # A page asks again when the state has changed, and so when the runtime is there.
            failed = self._screen.state.phase == "failed"
            self.problem = "Nothing can be read, for Fluzo cannot begin here yet. /retry tries again." if failed else ""
            return
        if self.busy:
            self._next = query
            return
        self._waiting = query
        on_loop = self._screen.intake.on_loop
        link.look(query, partial(on_loop, self._answered), partial(on_loop, self._failed))

    def _answered(self, snapshot: Snapshot) -> None:
        query, self._waiting, self.problem = self._waiting, None, ""
        if query is not None:
            self._taken(query, snapshot)
        self._go_on()

    def _failed(self, problem: str) -> None:
        self._waiting, self.problem = None, problem
        self._told()
        self._go_on()

    def _go_on(self) -> None:
        query, self._next = self._next, None
        if query is not None:
            self.ask(query)
        self._screen.changed()
