"""The rows of the settings page: one lit, headings between the groups, and what the lit row means.

Invariant: a row shows what is saved, what is in force and where that comes from; an edit is marked until it is saved.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout.controls import UIContent, UIControl
from prompt_toolkit.mouse_events import MouseEvent

from .clicking import Clicks
from .controls import rows_content
from .keys import parse_key
from .layout import STANDARD_COLUMNS
from .render import wrapped
from .sanitize import visible_text
from .settings_form import Form, Row, is_edited, value_of
from .settings_items import expanded, opens
from .settings_words import applies_text, figure, label, matching, now_text, range_text, shown, source_text
from .sheet import LIT, column, safe
from .text import Line, cells, drawable, shorten

if TYPE_CHECKING:
    from .app import Screen

GROUP_COLUMNS = 17
_FAR = 1 << 30
_FROM, _NOW, _WIDE_NOW, _RANGE = 8, 11, 16, 20
_NAME, _SAVED, _LONG_RANGE = 28, 40, 36
"""Columns that the name, the saved value and the range have at most."""
_LONG_VALUE = 16
"""Cells from which a saved value stands in full with the lit row too."""
_HELP_ROWS = 2


class SettingsList(UIControl):
    """`wanted` narrows the rows. The lit row stays lit by its key, whatever is read anew.

    `touched` is called before what any key does here.
    """

    def __init__(self, screen: "Screen", form: Callable[[], Form], touched: Callable[[], None]) -> None:
        self._screen = screen
        self._touched = touched
        self._form = form
        self._at = 0
        self._top = 0
        self._height = 1
        self._asked_group = ""
        self.wanted = ""
        self.rows: list[Row] = []
        self._numbers: list[int | None] = []
        """Which setting stands in each line; headings have none."""
        self._enter: Callable[[], object] = lambda: None
        self._clicks = Clicks(self._number_at, lambda: self._at, self.move, self._entered)
        self.keys = KeyBindings()
        moves: dict[str, Callable[[], None]] = {
            "settings.down": lambda: self.move(1),
            "settings.up": lambda: self.move(-1),
            "settings.page_down": lambda: self.move(max(self._height - 2, 1)),
            "settings.page_up": lambda: self.move(-max(self._height - 2, 1)),
            "settings.top": lambda: self.move(-len(self.rows)),
            "settings.end": lambda: self.move(len(self.rows)),
            "settings.next_group": lambda: self._group(1),
            "settings.previous_group": lambda: self._group(-1),
        }
        for action_id, call in moves.items():
            self.act(action_id, call)

    def is_focusable(self) -> bool:
        return True

    def get_key_bindings(self) -> KeyBindings:
        return self.keys

    def act(self, action_id: str, call: Callable[[], object]) -> None:
        """Have the keys of an action call a function."""
        for key in self._screen.registry.actions[action_id].keys:
            self.keys.add(*parse_key(key))(partial(self._call, call))

    def entered(self, action_id: str, call: Callable[[], object]) -> None:
        """`act`, also for a click on the lit row."""
        self._enter = call
        self.act(action_id, call)

    def _entered(self) -> None:
        self._screen.flash = ""
        self._touched()
        self._enter()

    def mouse_handler(self, mouse_event: MouseEvent) -> None:
        self._clicks.event(mouse_event)

    def _number_at(self, y: int) -> int | None:
        """The setting in a row of the picture, the first of which names the columns."""
        line = self._top + y - 1
        return self._numbers[line] if y and line < len(self._numbers) else None

    def _call(self, call: Callable[[], object], event: KeyPressEvent) -> None:
        self._screen.flash = ""
        self._touched()
        call()

    @property
    def lit(self) -> Row | None:
        return self.rows[min(self._at, len(self.rows) - 1)] if self.rows else None

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(str(row["group"]) for row in self.rows))

    def rows_changed(self, light: str = "") -> None:
        """The rows of the form as it is now; `light` is the key of another row to light."""
        lit = self.lit
        self.rows = matching(expanded(self._form()), self.wanted)
        keys = [row["key"] for row in self.rows]
        wanted = (light, lit["key"], lit.get("root")) if lit is not None else (light,)
        found = next((key for key in wanted if key in keys), None)
        if found is not None:
            self._at = keys.index(found)
        self._at = max(0, min(self._at, len(self.rows) - 1))
        if self._asked_group:
            self.to_group(self._asked_group)

    def lit_first(self) -> None:
        """Bring the lit row to the top, so that what stands within it is in view."""
        self._top = _FAR

    def search(self, wanted: str) -> None:
        self.wanted = wanted
        self.rows_changed()

    def move(self, rows: int) -> None:
        self._at = max(0, min(self._at + rows, len(self.rows) - 1))

    def to_group(self, group: str) -> None:
        """Light the first row of a group, as soon as there are rows."""
        self._asked_group = "" if self.rows else group
        for number, row in enumerate(self.rows):
            if row["group"] == group:
                self._at = number
                self._top = _FAR  # Its heading comes to the top.
                return

    def _group(self, step: int) -> None:
        groups = self.groups
        if self.lit is not None and groups:
            self.to_group(groups[(groups.index(str(self.lit["group"])) + step) % len(groups)])

    # --- drawing

    def create_content(self, width: int, height: int) -> UIContent:
        self._height = height
        wide = self._screen.layout.columns >= STANDARD_COLUMNS
        columns = widths(width - 1, wide=wide)
        self._numbers = self._placed()
        room = max(height - 1, 1)
        # The heading of a group stays with its first row.
        lit_line = self._numbers.index(self._at) if self.rows else 0
        self._top = min(max(self._top, lit_line - room + 1), max(lit_line - 1, 0))
        self._top = max(0, min(self._top, len(self._numbers) - room))
        visible = range(self._top, min(self._top + room, len(self._numbers)))
        lines = [self._line(number, columns, width) for number in visible] or [self._nothing()]
        return rows_content([[("", " "), *names(columns)], *lines], height)

    def _placed(self) -> list[int | None]:
        """The number of the setting in each line, None for the heading of a group."""
        found: list[int | None] = []
        group = ""
        for number, row in enumerate(self.rows):
            if row["group"] != group:
                group = str(row["group"])
                found.append(None)
            found.append(number)
        return found

    def _line(self, line: int, columns: dict[str, int], width: int) -> Line:
        number = self._numbers[line]
        if number is None:
            return [("class:text.strong", f" {self.rows[self._numbers[line + 1] or 0]['group']}")]
        form, row = self._form(), self.rows[number]
        text = self._row_text(form, row, columns)
        if number == self._at:
            return [(LIT, column(f">{text}", width))]
        edit = is_edited(form, row)
        style = "class:accent.primary" if edit else "class:warn.fg" if row["flag"] else "class:text.primary"
        return [(style, column(f" {text}", width))]

    def _nothing(self) -> Line:
        return [
            ("class:text.muted", f" {'No setting is like that.' if self.wanted else 'There is nothing to show yet.'}")
        ]

    def _row_text(self, form: Form, row: Row, columns: dict[str, int]) -> str:
        glyphs = self._screen.glyphs
        mark = (glyphs.opened if row["key"] in form.opened else glyphs.closed) if opens(row) else ""
        return item_text(form, row, columns, mark) if row.get("depth") else row_text(form, row, columns, mark)


def widths(room: int, *, wide: bool) -> dict[str, int]:
    """How many cells each column has; the name and the saved value share what the others leave, then the range."""
    now = _WIDE_NOW if wide else _NOW
    rest = room - _FROM - now - (_RANGE if wide else 0)
    name = min(rest * 22 // 42, _NAME)
    saved = min(rest - name, _SAVED)
    return {
        "name": name,
        "saved": saved,
        "now": now,
        **({"range": min(_RANGE + rest - name - saved, _LONG_RANGE)} if wide else {}),
        "from": _FROM,
    }


def names(columns: dict[str, int]) -> Line:
    """What the columns are; the first needs no name."""
    texts = (column("" if name == "name" else name, width) for name, width in columns.items())
    return [("class:text.faint", "".join(texts))]


def item_text(form: Form, row: Row, columns: dict[str, int], mark: str) -> str:
    """An item in one piece: what it is called, its value, and whether that is edited."""
    value = "" if row["type"] == "add" else shown(row, value_of(form, row))
    text = f"{'  ' * int(row['depth'])}{f'{mark} ' if mark else ''}{safe(row['label'])}  {exact(value)}"
    width = sum(columns.values()) - columns["from"]
    edit = "edited" if is_edited(form, row) and row["type"] != "add" else ""
    return f"{column(text, width - 1)} {column(edit, columns['from'])}"


def exact(text: str) -> str:
    """A value in one row with every space that it has."""
    return drawable(visible_text(text))


def row_text(form: Form, row: Row, columns: dict[str, int], mark: str = "") -> str:
    texts = {
        "name": f" {f'{mark} ' if mark else ''}{label(str(row['key']))}",
        "saved": shown(row, row["saved"]),
        "now": _now(form, row, columns["now"] - 1),
        "range": _short_range(row, columns.get("range", 0) - 1),
        "from": source_text(form, row),
    }
    return "".join(f"{column(safe(texts[name]), width - 1)} " for name, width in columns.items())


def _short_range(row: Row, width: int) -> str:
    """A bound that nobody reaches is left out where it has no room; the lit row tells it."""
    text = range_text(row)
    return f"{figure(row['low'])} and up" if row["low"] is not None and cells(text) > width else text


def _now(form: Form, row: Row, width: int) -> str:
    """The mark of an edit stays, however long its value is."""
    text = safe(now_text(form, row))
    return f"{shorten(text.removesuffix(' *'), width - 2)} *" if is_edited(form, row) else text


def group_rows(listed: SettingsList) -> list[Line]:
    """The groups, with the one of the lit row marked."""
    lit = str(listed.lit["group"]) if listed.lit is not None else ""
    return [
        [("class:text.strong", f" > {group}")] if group == lit else [("class:text.muted", f"   {group}")]
        for group in listed.groups
    ]


def about(form: Form, row: Row | None, width: int) -> list[Line]:
    """The lit row in full: its key, what it accepts, what it means and when it counts."""
    if row is None:
        return []
    head: Line = [("class:text.strong", safe(row["key"]))]
    head += [("class:text.muted", f"   {exact(part)}") for part in _facts(form, row) if part]
    help_rows = wrapped(f"{row['help']}.", width, "class:text.primary")[:_HELP_ROWS]
    private = "; shown as a reference, never the secret" if row["privacy"] == "secret_reference" else ""
    consent = "; saving is no consent: fluzo config trust" if row["consent"] else ""
    tone = "class:warn.fg" if row["flag"] else "class:text.muted"
    return [head, *help_rows, *wrapped(f"{applies_text(row)}{consent}{private}", width, tone)]


def _facts(form: Form, row: Row) -> tuple[str, ...]:
    """The value in full where the row has no room for it, what is accepted, the default, and what it will be."""
    if row["type"] == "add":
        return ()
    if row.get("ask"):
        return (range_text(row),)
    if row.get("path"):
        default = "" if row["default"] is None else f"default {shown(row, row['default'])}"
        return (shown(row, value_of(form, row)), range_text(row), default)
    edit = f"will be {shown(row, value_of(form, row))}" if row["key"] in form.edits else ""
    default = "required" if row["default"] is None else f"default {shown(row, row['default'])}"
    saved = shown(row, row["saved"])
    whole = saved if cells(safe(saved)) > _LONG_VALUE else ""
    return (whole, edit, f"{range_text(row)}{_unit(row)}", default)


def _unit(row: Row) -> str:
    return f" {row['unit']}" if row["unit"] and row["unit"] not in ("bytes", "fraction") else ""
