"""The acts that change the settings on their page: a value, an item of a list, an entry of a table.

Invariant: an act is an edit of the form and nothing else; what is refused changes nothing and is said with its key.
What is added is asked for whole before it is there, and an entry goes only after a question.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .settings_form import (
    Form,
    Row,
    choices,
    edited,
    problems,
    removal_of,
    stepped,
    takes_lines,
    typed,
    value_of,
    written,
)
from .settings_items import (
    added,
    asked,
    home,
    is_entry,
    moved,
    opens,
    place_of,
    read_answer,
    removed,
    undone,
)
from .sheet import safe

if TYPE_CHECKING:
    from .settings import Settings


class Editing:
    """`message` is what stands with the lit row until the next key; `asking` is what a line is typed for."""

    def __init__(self, page: "Settings") -> None:
        self._page = page
        self._removing = self._asked = ""
        self.message = ""
        self.asking: Row | None = None

    def acts(self) -> dict[str, Callable[[], None]]:
        return {
            "settings.more": lambda: self._step(1),
            "settings.less": lambda: self._step(-1),
            "settings.default": self._default,
            "settings.undo": lambda: self._on_lit(undone),
            "settings.add": self._add,
            "settings.remove": self._remove,
            "settings.earlier": lambda: self._move(-1),
            "settings.later": lambda: self._move(1),
        }

    def touched(self) -> None:
        """A key: what was asked before is over, unless this key is the answer."""
        self.message = ""
        self._asked, self._removing = self._removing, ""

    def change(self, form: Form, light: str = "") -> None:
        """Take a form over and say what would be wrong with the file."""
        self._page.form = form
        self._page.list.rows_changed(light)
        found = problems(form) if form.edits else ()
        if found:
            self.message = found[0]

    def _on_lit(self, act: Callable[[Form, Row], Form | tuple[Form, str]]) -> None:
        lit = self._page.list.lit
        if lit is None:
            return
        try:
            done = act(self._page.form, lit)
        except ValueError as error:
            self.message = str(error)
            return
        form, light = (done, "") if isinstance(done, Form) else done
        self.change(form, light)

    # --- a value

    def edit(self) -> None:
        """Enter: the next choice, a line to type, or what is within the row."""
        form, lit = self._page.form, self._page.list.lit
        if lit is None:
            return
        if lit["type"] == "add":
            self._add()
        elif gone := removal_of(form, str(lit["key"])):
            self.message = f"{gone} is to be removed; {self._page.key('undo')} takes that back."
        elif opens(lit):
            self._open(lit, str(lit["key"]) not in form.opened)
        elif choices(form, lit):
            self._step(1)
        else:
            self._ask(lit, written(lit, value_of(form, lit)), partial(self._typed, lit))

    def _ask(self, row: Row, text: str, done: Callable[[str], None]) -> None:
        self.asking = row
        unit = f" ({row['unit']})" if row["unit"] else ""
        name = row.get("ask") or str(row["key"]).rpartition(".")[2]
        self._page.entry.ask(f"{safe(name)}{unit} =", text, done, lines=takes_lines(row))

    def _typed(self, lit: Row, text: str) -> None:
        try:
            value = typed(lit, text if lit.get("path") else text.strip())
        except ValueError as error:
            self.message = str(error)
            self._ask(lit, text, partial(self._typed, lit))
            return
        self._page.entry.close()
        self.message = ""
        field = bool(lit.get("path")) and lit["default"] is not None
        self.change(edited(self._page.form, lit, None if field and value == lit["default"] else value))

    def _step(self, step: int) -> None:
        form, lit = self._page.form, self._page.list.lit
        if lit is None:
            return
        inside = home(form, lit)
        if opens(lit) and (step > 0 or lit["key"] in form.opened):
            self._open(lit, step > 0)
        elif inside and step < 0 and not lit["choices"]:
            self.change(form._replace(opened=form.opened - {inside}), inside)
        elif not opens(lit) and lit["type"] != "add":
            self._on_lit(lambda form, lit: stepped(form, lit, step))

    def _open(self, row: Row, wanted: bool) -> None:
        form, key = self._page.form, str(row["key"])
        self.change(form._replace(opened=form.opened | {key} if wanted else form.opened - {key}))
        if wanted:
            self._page.list.lit_first()

    def _default(self) -> None:
        def back(form: Form, lit: Row) -> Form:
            if lit["type"] == "add" or (lit.get("path") and lit["default"] is None):
                raise ValueError(f"The default is that of {lit['root']} as a whole.")
            return edited(form, lit, None)

        self._on_lit(back)

    # --- items and entries

    def _add(self) -> None:
        lit = self._page.list.lit
        place = place_of(self._page.form, lit) if lit is not None else None
        if place is None:
            self.message = "Nothing can be added here."
        else:
            self._ask_next(place, asked(self._page.form, place), ())

    def _ask_next(self, place: Row, rows: Sequence[Row], answers: Sequence[Any], text: str = "") -> None:
        if len(answers) == len(rows):
            self._page.entry.close()
            self.change(*added(self._page.form, place, answers))
            if place["kind"] is not None:
                self._page.list.lit_first()
            return
        self._ask(rows[len(answers)], text, partial(self._answered, place, rows, answers))

    def _answered(self, place: Row, rows: Sequence[Row], answers: Sequence[Any], text: str) -> None:
        self.message = ""
        try:
            value = read_answer(self._page.form, place, rows[len(answers)], text.strip())
        except ValueError as error:
            self.message = str(error)
            self._ask_next(place, rows, answers, text)
            return
        self._ask_next(place, rows, (*answers, value))

    def _remove(self) -> None:
        form, lit = self._page.form, self._page.list.lit
        key = str(lit["key"]) if lit is not None else ""
        if lit is not None and is_entry(form, lit) and self._asked != key and not removal_of(form, key):
            self._removing = key
            again, back = self._page.key("remove"), self._page.key("undo")
            self.message = f"All of it goes when you save. {again} again removes it; {back} takes it back."
            return
        self._on_lit(removed)

    def _move(self, step: int) -> None:
        self._on_lit(lambda form, lit: moved(form, lit, step))
