"""A question in place of the conversation, before what cannot be taken back: nothing is chosen, two acts answer it.

Invariant: it obeys the machine of the permission card (P3 to P6): deaf at first, a choice, then Enter, and whatever was
typed or pasted as text goes to the composer instead. Where it cannot be read whole, or is over, it answers nothing.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import AnyContainer, Window

from .approval import Card, Effect, KeyName, press, take_focus
from .controls import joined, text_control
from .sheet import fitted, framed, headed, rule_window
from .text import Line, cells, wrap_line

if TYPE_CHECKING:
    from .app import Screen

NO_KEYS = ("e",)
"""Keys of the permission card that mean nothing here, and so are text."""
_TITLE_COLUMNS = 24
_LABEL = re.compile(r"\S* {2,}")


class Question:
    """A page view. `about` are the paragraphs and rows above the choices, `choices` a title and a remark each.

    `over` says why there is nothing to answer any more, or nothing. `chosen` is called with the number of the choice
    that was confirmed; the page stays until that closes it.
    """

    kind: Literal["page", "float"] = "page"

    def __init__(
        self,
        screen: "Screen",
        name: str,
        *,
        about: Callable[[int], list[Line]],
        choices: Callable[[], Sequence[tuple[str, str]]],
        over: Callable[[], str],
        chosen: Callable[[int], None],
    ) -> None:
        self._screen = screen
        self.name = name
        self._about = about
        self._choices = choices
        self._over = over
        self._chosen = chosen
        self._top = self._room = 0
        self.card = self._asked_anew()
        self._body = Window(text_control(self._text), always_hide_cursor=True)
        foot = text_control(lambda: joined(self._answers()), self._keys())
        self.focus = Window(foot, height=lambda: len(self._answers()), always_hide_cursor=True)
        self.container: AnyContainer = framed(screen, self._head, self._body, rule_window(screen), self.focus)

    def _asked_anew(self) -> Card:
        """With the keyboard, by the act that opened this; deaf until the keys have rested."""
        return take_focus(Card(choices=len(self._choices())), self._screen.now())

    def hints(self) -> str:
        return "Esc back"

    def refresh(self) -> None:
        if self._over():
            self.card = self.card._replace(choice=0)

    def ask_again(self) -> None:
        """After an answer that only changed what is asked: nothing is chosen, as at first."""
        self.card = self._asked_anew()
        self._screen.changed()

    # --- drawing

    def _head(self) -> Line:
        return headed(self.name, "", "you answer here", self._screen.layout.columns)

    def _text(self) -> Line:
        """The rows of what is asked about, from `_top` on; the last one says how many are left."""
        width = self._screen.layout.columns - 2
        rows = self._about(width)
        info = self._body.render_info
        self._room = room = max((info.window_height if info else self._screen.layout.rows) or 1, 2)
        self._top = max(0, min(self._top, len(rows) - room))
        shown = rows[self._top : self._top + room]
        left = len(rows) - self._top - room
        if left > 0:
            shown = [*shown[:-1], [("class:warn.fg", f"... {left + 1} more rows; PgDn shows them")]]
        return joined([[("", " "), *fitted(line, 0, width)] for line in shown])

    def _answers(self) -> list[Line]:
        over = self._over()
        if over:
            return [[], [("class:warn.fg", f" {over}")], [("class:text.muted", " Esc back")]]
        choice = self.card.choice
        rows: list[Line] = [[]]
        for number, (title, remark) in enumerate(self._choices(), 1):
            lit = number == choice
            style, faint = (
                ("class:bg.select class:text.on_select",) * 2 if lit else ("class:text.primary", "class:text.muted")
            )
            mark = f" {'>' if lit else ' '} {number}  "
            line: Line = [(style, mark + f"{title}  ".ljust(_TITLE_COLUMNS)), (faint, f"{remark} ")]
            rows.append(fitted(line, 0, self._screen.layout.columns - 1))
        tone = "class:text.strong" if self.card.flash else "class:text.muted"
        last = len(rows) - 1
        words = (
            f"Enter confirms {choice}.  Up/Down or 1-{last} change."
            if choice
            else f"Nothing is chosen. Up/Down or 1-{last}, then Enter."
        )
        return [*rows, [], [(tone, f" {words}  Esc back")]]

    # --- keys

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        named: tuple[tuple[str, KeyName], ...] = (
            ("up", "up"),
            ("down", "down"),
            ("enter", "enter"),
            ("escape", "escape"),
            ("tab", "tab"),
            ("s-tab", "tab"),
        )
        for key, name in named:
            keys.add(key)(self._pressing(name))
        keys.add("pageup")(lambda event: self._page(-1))
        keys.add("pagedown")(lambda event: self._page(1))

        @keys.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            self._press("paste", event.data)

        @keys.add(Keys.Any)
        def other(event: KeyPressEvent) -> None:
            text = event.data
            if text and text.isprintable():
                self._press("paste" if text in NO_KEYS else "text", text)

        return keys

    def _pressing(self, name: KeyName) -> Callable[[KeyPressEvent], None]:
        def pressed(event: KeyPressEvent) -> None:
            self._press(name)

        return pressed

    def _page(self, step: int) -> None:
        if self._press("page") == "view":
            self._top += step * max(self._room - 2, 1)

    def _press(self, key: KeyName, text: str = "") -> str:
        screen = self._screen
        if screen.layout.size == "too small" and key != "escape":
            return "none"
        self.card, effect = press(self.card, key, text, screen.now())
        self._do(effect)
        screen.changed()
        return effect.kind

    def _do(self, effect: Effect) -> None:
        screen = self._screen
        if effect.kind == "insert":
            screen.views.close_all()
            screen.composer.insert(effect.text) if "\n" not in effect.text else screen.composer.paste(effect.text)
        elif effect.kind in ("blur", "next"):
            screen.views.close()
        elif effect.kind == "answer" and self._over():
            self.ask_again()
        elif effect.kind == "answer":
            self._chosen(effect.choice)


def paragraph(text: str, width: int, style: str = "class:text.primary") -> list[Line]:
    """A sanitized text in rows; those after the first stand under what follows a label or the space before it."""
    label = _LABEL.match(text)
    return wrap_line([(style, text)], max(width, 20), [("", " " * cells(label[0]))] if label else ())
