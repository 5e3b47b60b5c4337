"""A list of records beside what is known of the lit one: read a page at a time, searched, looked at.

Invariant: the lit record stays the same one when newer ones come; the list is read and drawn, never waited for.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from prompt_toolkit.layout import AnyContainer, DynamicContainer, HSplit, VSplit, Window

from fluzo.core.port import Query, Snapshot

from .controls import joined, row, text_control
from .entry import Entry
from .sheet import Reader, Sheet, fitted, framed, headed, moment, rule_window, safe, sheet_window
from .text import Line, wrap_line

if TYPE_CHECKING:
    from .app import Screen

PAGE = 50
"""Records that a list reads at a time."""
PREVIEW_COLUMNS = 48
PREVIEW_ROWS = 8

Record = Mapping[str, Any]


class Records:
    """Records of one kind, and which of them is lit on the sheet. `query(limit, before)` asks for a page.

    `order` sorts what is shown, the greatest first; without it they stay as they were read, the newest first.
    """

    def __init__(
        self,
        screen: "Screen",
        name: str,
        query: Callable[[int, str], Query],
        *,
        words: Callable[[Record], str],
        taken: Callable[[], None],
        order: Callable[[Record], str] | None = None,
    ) -> None:
        self._name = name
        self._query = query
        self._words = words
        self._changed = taken
        self._order = order
        self._items: list[Record] = []
        self._besides: list[Record] = []
        self.reader = Reader(screen, self._taken)
        self.shown: list[Record] = []
        self.more = False
        self.wanted = ""
        self._read_once = False

    @property
    def known(self) -> list[Record]:
        """Those that have been read, shown or not."""
        return [*self._items, *self._besides]

    def put_beside(self, records: list[Record]) -> None:
        """Show records from elsewhere with these, in place of those that were beside them before."""
        self._besides = records
        self._show()
        self._changed()

    def read(self) -> None:
        """Read again what is there, and at least the first page."""
        self.reader.ask(self._query(max(PAGE, len(self._items)), ""))

    def read_older(self) -> None:
        if self.more and not self.reader.busy:
            self.reader.ask(self._query(PAGE, str(self._items[-1]["id"])))

    def search(self, wanted: str) -> None:
        """Show those alone that have every one of the words."""
        self.wanted = wanted
        self._show()

    def _show(self) -> None:
        words = self.wanted.lower().split()
        found = [item for item in self.known if _has(self._words(item).lower(), words)]
        self.shown = sorted(found, key=self._order, reverse=True) if self._order is not None else found

    def _taken(self, query: Query, snapshot: Snapshot) -> None:
        page = list(snapshot.data[self._name])
        asked: Any = query
        self._items = [*self._items, *page] if asked.before else page
        self.more = len(page) >= asked.limit
        self._read_once = True
        self._show()
        self._changed()

    def empty_text(self, nothing: str) -> str:
        """What to show while there is no record."""
        if self.reader.problem:
            return self.reader.problem
        if self.wanted:
            return "Looking through older ones." if self.more else "Nothing here has these words."
        return nothing if self._read_once else "Reading."


def _identity(record: Record) -> tuple[str, str]:
    """Where a record is and which one; a folder that was copied has those of the other one once more."""
    return str(record.get("folder") or ""), str(record["id"])


def _has(text: str, words: Sequence[str]) -> bool:
    return all(word in text for word in words)


class ListPage:
    """A page view: the list, and beside it (below it on a narrow screen) what the lit record is about."""

    kind: Literal["page", "float"] = "page"
    name = ""
    nothing = ""

    def __init__(
        self,
        screen: "Screen",
        records: str,
        query: Callable[[int, str], Query],
        order: Callable[[Record], str] | None = None,
    ) -> None:
        self._screen = screen
        self._details: dict[str, Record] = {}
        self._reader = Reader(screen, self._detail_read)
        self.sheet = Sheet(screen, self._rows, context="list", picks=True, moved=self._moved)
        self.records = Records(screen, records, query, words=self.words_of, taken=self._taken, order=order)
        self.entry = Entry(self._focused, self._searched)
        self._lit = ("", "")
        self._window = sheet_window(self.sheet)
        self.focus = self._window
        self.container: AnyContainer = self._contained()
        self.sheet.act("list.find", self._find)
        self._moment = moment(screen.state)
        self.records.read()

    # --- what each list says of its records

    def words_of(self, record: Record) -> str:
        """What a search looks through."""
        raise NotImplementedError

    def row_of(self, record: Record, width: int) -> Line:
        raise NotImplementedError

    def about(self, record: Record, detail: Record | None) -> list[Line]:
        raise NotImplementedError

    def detail_query(self, record: Record) -> Query | None:
        """What is asked for once a record is lit; None where its row says everything."""
        return None

    def columns(self, width: int) -> Line:
        """The names of the columns."""
        raise NotImplementedError

    def standing(self) -> str:
        """How the whole stands, for the head."""
        raise NotImplementedError

    # --- the view

    def refresh(self) -> None:
        now = moment(self._screen.state)
        if now != self._moment:
            self._moment = now
            self._details.clear()
            self.records.read()

    @property
    def lit(self) -> Record | None:
        shown = self.records.shown
        return shown[min(self.sheet.lit, len(shown) - 1)] if shown else None

    def _detail_read(self, query: Query, snapshot: Snapshot) -> None:
        kind = "session" if "session" in snapshot.data else "task"
        self._details[str(snapshot.data[kind]["id"])] = snapshot.data

    def _taken(self) -> None:
        known = [_identity(item) for item in self.records.shown]
        if self.sheet.lit and self._lit in known:
            self.sheet.lit = known.index(self._lit)
        self._moved()

    def _moved(self) -> None:
        lit = self.lit
        self._lit = _identity(lit) if lit is not None else ("", "")
        if lit is not None and str(lit["id"]) not in self._details:
            self._reader.ask(self.detail_query(lit))
        # A search goes on through older pages until it has filled the list.
        short = self.records.wanted and len(self.records.shown) < self.sheet.height
        if short or self.sheet.lit >= len(self.records.shown) - 1:
            self.records.read_older()

    def _find(self) -> None:
        self.entry.ask("/", self.records.wanted, lambda text: None)

    def _searched(self) -> None:
        if self.entry.searching:
            self.sheet.lit = 0
            self.records.search(self.entry.text)
            self._moved()

    def _focused(self, window: Window | None) -> None:
        """The list has the keyboard again for None; a search that found its words stays on."""
        self.focus = window or self._window
        self._screen.body.focus_on(self.focus)

    # --- drawing

    @property
    def _beside(self) -> bool:
        return self._screen.layout.size in ("standard", "wide")

    @property
    def _width(self) -> int:
        columns = self._screen.layout.columns
        return (columns - PREVIEW_COLUMNS - 1 if self._beside else columns) - 2

    def _contained(self) -> AnyContainer:
        screen = self._screen
        below = Window(text_control(self._preview), height=PREVIEW_ROWS, always_hide_cursor=True)
        beside = Window(text_control(self._preview), width=PREVIEW_COLUMNS, always_hide_cursor=True)
        rows = HSplit([self.entry.container, row(lambda: [("", " "), *self.columns(self._width)]), self._window])
        bar = Window(char=screen.glyphs.bar, width=1, style="class:border.idle")
        wide = VSplit([rows, bar, beside])
        narrow = HSplit([rows, rule_window(screen), below])
        return framed(screen, self._head, DynamicContainer(lambda: wide if self._beside else narrow))

    def _head(self) -> Line:
        return headed(self.name, "", self.standing(), self._screen.layout.columns)

    def _rows(self) -> list[Line]:
        shown = self.records.shown
        self.sheet.lights = bool(shown)
        if not shown:
            return [[("class:text.muted", safe(self.records.empty_text(self.nothing)))]]
        return [self.row_of(item, self._width) for item in shown]

    def _preview(self) -> Line:
        lit = self.lit
        if lit is None:
            return []
        rows = self.about(lit, self._details.get(str(lit["id"])))
        if self._beside:
            rows = [part for line in rows for part in wrap_line(line, PREVIEW_COLUMNS - 2, [("", "  ")])]
        else:
            rows = [fitted(line, 0, self._screen.layout.columns - 2) for line in rows]
        return joined([[("", " "), *line] for line in rows])
