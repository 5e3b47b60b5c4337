"""The pager: one long text in full, to read, search and copy. Looking changes nothing."""

from functools import partial
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import AnyContainer, HSplit, Window
from prompt_toolkit.layout.controls import UIContent, UIControl

from .controls import row, rows_content
from .keys import Registry
from .text import Line, drawable, shorten
from .transcript import highlighted

if TYPE_CHECKING:
    from .app import Screen


_CONTEXTS = {
    "global": "Everywhere",
    "composer": "In the composer",
    "transcript": "In the conversation (Tab)",
    "card": "On the permission card",
}


class _Body(UIControl):
    def __init__(self, text: str, keys: KeyBindings) -> None:
        self.lines = [drawable(line) for line in text.split("\n")]
        self.top, self.left, self.height = 0, 0, 1
        self.find = ""
        self._keys = keys

    def is_focusable(self) -> bool:
        return True

    def get_key_bindings(self) -> KeyBindings:
        return self._keys

    def move(self, rows: int) -> None:
        self.top = max(0, min(self.top + rows, len(self.lines) - self.height))

    def create_content(self, width: int, height: int) -> UIContent:
        self.height = height
        self.top = max(0, min(self.top, len(self.lines) - height))
        shown: list[Line] = []
        for line in self.lines[self.top : self.top + height]:
            text: Line = [("", " " + shorten(line[self.left :], width - 2))]
            shown.append(highlighted(text, self.find) if self.find else text)
        return rows_content(shown)


class Pager:
    """A page view over one text, already sanitized."""

    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen", name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._screen = screen
        self._body = _Body(text, self._bindings())
        self.focus = Window(self._body, always_hide_cursor=True, style="class:bg.base")
        self.container: AnyContainer = HSplit(
            [
                row(self._head),
                Window(char=screen.glyphs.rule, height=1, style="class:border.idle"),
                self.focus,
            ]
        )

    def hints(self) -> str:
        return "Up/Down PgUp/PgDn Left/Right scroll  y copy  Esc back"

    def refresh(self) -> None:
        """The text is what it was when it was opened."""

    def _head(self) -> Line:
        body = self._body
        last = min(body.top + body.height, len(body.lines))
        where = f"  rows {body.top + 1} to {last} of {len(body.lines)}"
        return [("", " "), ("class:text.strong", shorten(drawable(self._name), 60)), ("class:text.muted", where)]

    def _move(self, step: int, event: KeyPressEvent) -> None:
        self._body.move(step)

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        moves = {"down": 1, "j": 1, "up": -1, "k": -1}
        for key, step in moves.items():
            keys.add(key)(partial(self._move, step))
        keys.add("pagedown")(lambda event: self._body.move(self._body.height - 2))
        keys.add(" ")(lambda event: self._body.move(self._body.height - 2))
        keys.add("pageup")(lambda event: self._body.move(2 - self._body.height))
        keys.add("g")(lambda event: self._body.move(-len(self._body.lines)))
        keys.add("home")(lambda event: self._body.move(-len(self._body.lines)))
        keys.add("G")(lambda event: self._body.move(len(self._body.lines)))
        keys.add("end")(lambda event: self._body.move(len(self._body.lines)))

        @keys.add("right")
        @keys.add("l")
        def right(event: KeyPressEvent) -> None:
            self._body.left += 8

        @keys.add("left")
        @keys.add("h")
        def left(event: KeyPressEvent) -> None:
            self._body.left = max(self._body.left - 8, 0)

        @keys.add("y")
        def copy(event: KeyPressEvent) -> None:
            self._screen.copy(self._text, "the text")

        return keys


def keys_document(registry: Registry) -> str:
    """`docs/keys.md`: the registry as a Markdown document."""
    rows = [
        "# Keys",
        "",
        "Generated from the screen's registry; `tests/unit/test_screen_layout.py` checks that it is current.",
        "",
    ]
    rows += ["Approving has no name here: it is two acts inside a focused card.", ""]
    for context in dict.fromkeys(action.context for action in registry.actions.values()):
        rows += [
            f"## {_CONTEXTS.get(context, f'In {context}')}",
            "",
            "| key | command | action |",
            "| --- | --- | --- |",
        ]
        rows += [
            f"| {', '.join(f'`{key}`' for key in action.keys)} | {f'`{action.slash}`' if action.slash else ''} "
            f"| {action.title} |"
            for action in registry.actions.values()
            if action.context == context
        ]
        rows.append("")
    return "\n".join(rows)


def help_text(registry: Registry) -> str:
    """Every action with its keys, by context."""
    rows: list[str] = []
    for context in dict.fromkeys(action.context for action in registry.actions.values()):
        rows += ["", _CONTEXTS.get(context, f"In {context}"), ""]
        for action in registry.actions.values():
            if action.context == context:
                rows.append(f"  {'  '.join(action.keys):<30} {action.slash:<14} {action.title}")
    return "\n".join(rows[1:])
