"""What the pages share: rows that scroll with one of them lit or none, the frame around them, and reading for them.

Invariant: a page never waits. It asks the port, draws what it has, and draws again when the answer is there.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import AnyContainer, HSplit, Window
from prompt_toolkit.layout.controls import UIContent, UIControl

from fluzo.core.port import Query, Snapshot, TaskDetail, TaskList

from .controls import joined, row, rows_content, text_control
from .sanitize import visible_text
from .state import State
from .text import Line, cells, cut_line, drawable, shorten

if TYPE_CHECKING:
    from .app import Screen

PAGE = 50
"""Records that a list reads at a time."""
LIT = "class:bg.select class:text.on_select"


class Sheet(UIControl):
    """`rows` is asked each frame. With `picks` one row is lit and stays in view; `moved` is called after each move."""

    def __init__(
        self,
        screen: "Screen",
        rows: Callable[[], Sequence[Line]],
        *,
        picks: bool = False,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        self._screen = screen
        self._rows = rows
        self._moved = moved
        self._picks = picks
        self.keys = KeyBindings()
        self.top, self.left, self.height, self.lit = 0, 0, 1, 0
        self._bind()

    def is_focusable(self) -> bool:
        return True

    def get_key_bindings(self) -> KeyBindings:
        return self.keys

    def on(self, *keys: str) -> Callable[[Callable[[], object]], None]:
        """Have these keys call a function."""

        def register(call: Callable[[], object]) -> None:
            for key in keys:
                self.keys.add(key)(partial(self._call, call))

        return register

    def _call(self, call: Callable[[], object], event: KeyPressEvent) -> None:
        self._screen.flash = ""
        call()

    def move(self, rows: int) -> None:
        last = max(len(self._rows()) - 1, 0)
        if self._picks:
            self.lit = max(0, min(self.lit + rows, last))
        else:
            self.top = max(0, min(self.top + rows, last + 1 - self.height))
        self._moved()

    def _bind(self) -> None:
        self.on("down", "j")(lambda: self.move(1))
        self.on("up", "k")(lambda: self.move(-1))
        self.on("pagedown", " ")(lambda: self.move(max(self.height - 2, 1)))
        self.on("pageup")(lambda: self.move(-max(self.height - 2, 1)))
        self.on("g", "home")(lambda: self.move(-len(self._rows())))
        self.on("G", "end")(lambda: self.move(len(self._rows())))
        self.on("right", "l")(lambda: self._sideways(8))
        self.on("left", "h")(lambda: self._sideways(-8))

    def _sideways(self, columns: int) -> None:
        self.left = max(self.left + columns, 0)

    def create_content(self, width: int, height: int) -> UIContent:
        self.height = height
        rows = self._rows()
        if self._picks:
            self.lit = max(0, min(self.lit, len(rows) - 1))
            self.top = min(max(self.top, self.lit - height + 1), self.lit)
        self.top = max(0, min(self.top, len(rows) - height))
        shown = []
        for number, line in enumerate(rows[self.top : self.top + height], self.top):
            drawn = fitted(line, self.left, width - 1)
            shown.append(_lit(drawn, width - 1) if self._picks and number == self.lit else [("", " "), *drawn])
        return rows_content(shown)


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


def framed(
    screen: "Screen", head: Callable[[], Line], sheet: Window, below: Callable[[], list[Line]] | None = None
) -> AnyContainer:
    """A page: a head, the rows, and below them what the lit row is about."""
    rule = Window(char=screen.glyphs.rule, height=1, style="class:border.idle")
    parts: list[AnyContainer] = [row(head), rule, sheet]
    if below is not None:
        panel = Window(text_control(lambda: joined(below())), height=7, always_hide_cursor=True)
        parts += [Window(char=screen.glyphs.rule, height=1, style="class:border.idle"), panel]
    return HSplit(parts)


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

    def __init__(self, screen: "Screen", taken: Callable[[Query, Snapshot], None]) -> None:
        self._screen = screen
        self._taken = taken
        self._waiting: Query | None = None
        self._next: Query | None = None
        self.problem = ""

    @property
    def busy(self) -> bool:
        return self._waiting is not None

    def ask(self, query: Query | None) -> None:
        link = self._screen.link
        if query is None or link is None or link.port is None:
            return  # A page asks again when the state has changed, and so when the runtime is there.
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
        self._go_on()

    def _go_on(self) -> None:
        query, self._next = self._next, None
        if query is not None:
            self.ask(query)
        self._screen.changed()


class Records:
    """Records of one kind, newest first, a page at a time, and which of them is lit on the sheet.

    `query(limit, before)` asks for a page. The lit record stays the same one when newer ones come.
    """

    def __init__(
        self, screen: "Screen", name: str, query: Callable[[int, str], Query], taken: Callable[[], None], sheet: Sheet
    ) -> None:
        self._name = name
        self._sheet = sheet
        self._query = query
        self._changed = taken
        self.reader = Reader(screen, self._taken)
        self.items: list[Mapping[str, Any]] = []
        self.more = False
        self.read_once = False

    @property
    def lit(self) -> Mapping[str, Any] | None:
        return self.items[min(self._sheet.lit, len(self.items) - 1)] if self.items else None

    def read(self) -> None:
        """Read again what is there, and at least the first page."""
        self.reader.ask(self._query(max(PAGE, len(self.items)), ""))

    def read_older(self) -> None:
        if self.more and not self.reader.busy:
            self.reader.ask(self._query(PAGE, str(self.items[-1]["id"])))

    def _taken(self, query: Query, snapshot: Snapshot) -> None:
        page = list(snapshot.data[self._name])
        asked: Any = query
        lit = self.lit
        self.items = [*self.items, *page] if asked.before else page
        if lit is not None and self._sheet.lit:
            ids = [item["id"] for item in self.items]
            self._sheet.lit = ids.index(lit["id"]) if lit["id"] in ids else self._sheet.lit
        self.more = len(page) >= asked.limit
        self.read_once = True
        self._changed()

    def empty_text(self, nothing: str) -> str:
        """What to show while there is no record."""
        if self.reader.problem:
            return self.reader.problem
        return nothing if self.read_once else "Reading."
