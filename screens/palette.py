"""The command palette: every action by a few of its letters.

Enter runs the lit row and nothing else; with no match it does nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import AnyContainer, Window
from prompt_toolkit.layout.controls import BufferControl

from .floats import box_size, boxed, window_of
from .keys import Action
from .text import Line, cells, shorten

if TYPE_CHECKING:
    from .app import Screen


def score(wanted: str, text: str) -> int:
    """How well letters in order match a text; 0 for not at all. Whole words and beginnings count more."""
    wanted, text = wanted.lower(), text.lower()
    if not wanted:
        return 1
    if wanted in text:
        return 100 - text.index(wanted) + (50 if text.startswith(wanted) else 0)
    at = -1
    for char in wanted:
        at = text.find(char, at + 1)
        if at < 0:
            return 0
    return 10


def matching(wanted: str, actions: Sequence[Action], recent: Sequence[str]) -> list[Action]:
    """The actions that match, best first; without a text the recent ones first."""
    ranked = []
    for number, action in enumerate(actions):
        best = max(score(wanted, action.title), score(wanted.lstrip("/"), action.slash.lstrip("/")))
        used = len(recent) - list(reversed(recent)).index(action.id) if action.id in recent else 0
        if best:
            ranked.append((-best, -used, number, action))
    return [action for *_, action in sorted(ranked, key=lambda item: item[:3])]


class Palette:
    """A float over the conversation."""

    kind: Literal["page", "float"] = "float"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._lit = 0
        self._buffer = Buffer(multiline=False, on_text_changed=lambda _: self._reset())
        self.focus = Window(BufferControl(self._buffer, key_bindings=self._bindings()), height=1)
        self.container: AnyContainer = boxed(screen, lambda: "Commands", "Enter run  Esc close", self._rows, self.focus)

    def hints(self) -> str:
        return "Enter run  Up/Down choose  Esc close"

    def refresh(self) -> None:
        """The list does not depend on the conversation."""

    def _reset(self) -> None:
        self._lit = 0

    def _found(self) -> list[Action]:
        return matching(self._buffer.text, self._screen.registry.commands(), self._screen.recent)

    def _rows(self) -> Line:
        found = self._found()
        columns, height = box_size(self._screen)
        room, width = height - 4, columns - 4
        if not found:
            text = f'\nno match. Enter does nothing; Tab puts "/{self._buffer.text}" in the composer'
            return [("class:text.muted", text)]
        rows: Line = [("", "\n")]
        for number in window_of(self._lit, len(found), room):
            action = found[number]
            style = "class:bg.select class:text.on_select" if number == self._lit else "class:text.primary"
            keys = action.keys[0] if action.keys else ""
            left = shorten(action.title, width - 28)
            mark = ">" if number == self._lit else " "
            text = f"{mark} {left}{' ' * (width - 28 - cells(left))}{action.slash:<16}{keys:<10}"
            rows.append((style, f"{text}\n"))
        return rows

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("down")
        def down(event: KeyPressEvent) -> None:
            self._lit = min(self._lit + 1, max(len(self._found()) - 1, 0))

        @keys.add("up")
        def up(event: KeyPressEvent) -> None:
            self._lit = max(self._lit - 1, 0)

        @keys.add("enter")
        def run(event: KeyPressEvent) -> None:
            found = self._found()
            if found:
                self._screen.views.close()
                self._screen.run_action(found[min(self._lit, len(found) - 1)].id)

        @keys.add("tab")
        def to_composer(event: KeyPressEvent) -> None:
            text = self._buffer.text
            self._screen.views.close()
            self._screen.composer.insert(f"/{text.lstrip('/')}")

        return keys
