"""The card as a control: its rows, and every key and click on their way to the card's machine."""

from typing import TYPE_CHECKING

from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.controls import UIContent, UIControl
from prompt_toolkit.mouse_events import MouseEvent

from .card_pointer import CardPointer
from .controls import rows_content

if TYPE_CHECKING:
    from .app import Screen


class CardControl(UIControl):
    """Draws the card and, while it has focus, sends every key to the card's machine before anything else sees it."""

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._keys = self._bindings()
        self.pointer = CardPointer(screen)

    def is_focusable(self) -> bool:
        return True

    def get_key_bindings(self) -> KeyBindings:
        return self._keys

    def create_content(self, width: int, height: int) -> UIContent:
        self.pointer.drawn()
        return rows_content(self._screen.card_rows[:height])

    def mouse_handler(self, mouse_event: MouseEvent) -> None:
        self.pointer.event(mouse_event)

    def _bindings(self) -> KeyBindings:
        keys, screen = KeyBindings(), self._screen
        keys.add("up")(lambda event: screen.card_key("up"))
        keys.add("down")(lambda event: screen.card_key("down"))
        keys.add("enter")(lambda event: screen.card_key("enter"))
        keys.add("escape")(lambda event: screen.card_key("escape"))
        keys.add("tab")(lambda event: screen.card_key("tab"))
        keys.add("pageup")(lambda event: screen.card_key("page"))
        keys.add("pagedown")(lambda event: screen.card_key("page"))
        keys.add("backspace")(lambda event: screen.card_key("backspace"))

        @keys.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            screen.card_key("paste", event.data)

        @keys.add(Keys.Any)
        def other(event: KeyPressEvent) -> None:
            if event.data.isprintable() and event.data:
                screen.card_key("text", event.data)

        return keys
