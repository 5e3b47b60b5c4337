"""Messages that wait for the task's next safe step: read, edited, put in another order or dropped.

Invariant: what is shown is what the runtime holds. Each act is asked of it and shown when it has said so; a message
that the agent took meanwhile stays taken.
"""

from typing import TYPE_CHECKING, Literal

from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import AnyContainer, Window
from prompt_toolkit.layout.controls import UIContent, UIControl

from .controls import rows_content
from .floats import box_size, boxed, window_of
from .state import Queued
from .text import Line, drawable, shorten

if TYPE_CHECKING:
    from .app import Screen


class _List(UIControl):
    def __init__(self, view: "QueueView") -> None:
        self._view = view
        self._keys = view.bindings()

    def is_focusable(self) -> bool:
        return True

    def get_key_bindings(self) -> KeyBindings:
        return self._keys

    def create_content(self, width: int, height: int) -> UIContent:
        return rows_content(self._view.rows()[:height])


class QueueView:
    """A float over the conversation."""

    kind: Literal["page", "float"] = "float"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._lit = 0
        self.focus = Window(_List(self), always_hide_cursor=True)
        foot = "Enter edit  K/J up or down  d drop  Esc back"
        self.container: AnyContainer = boxed(screen, lambda: "Queued messages", foot, self.focus)

    def hints(self) -> str:
        return "Enter edit  K/J order  d drop  Esc back"

    def refresh(self) -> None:
        self._lit = max(min(self._lit, len(self._screen.state.queued) - 1), 0)

    def rows(self) -> list[Line]:
        queued = self._screen.state.queued
        columns, height = box_size(self._screen)
        if not queued:
            return [[], [("class:text.muted", "Nothing is queued.")]]
        found: list[Line] = [[]]
        for number in window_of(self._lit, len(queued), height - 3):
            item, lit = queued[number], number == self._lit
            style = "class:bg.select class:text.on_select" if lit else "class:text.primary"
            state = "" if item.id else "  sending"
            text = shorten(
                f"{number + 1}  {drawable(' '.join(item.text.split()))}", columns - 15, self._screen.glyphs.more
            )
            found.append([(style, f"{'>' if lit else ' '} {text}{state}")])
        return found

    @property
    def _item(self) -> Queued | None:
        """The lit message, once the runtime has it."""
        queued = self._screen.state.queued
        item = queued[self._lit] if self._lit < len(queued) else None
        if item is not None and not item.id:
            self._screen.say("This message is on its way to the runtime")
            return None
        return item

    def _edit(self) -> None:
        item, screen = self._item, self._screen
        if item is not None and screen.link is not None:
            screen.link.withdraw(item.task_id, item.id, item.text)
            screen.views.close()

    def _drop(self) -> None:
        item, screen = self._item, self._screen
        if item is not None and screen.link is not None:
            screen.composer.remember(item.text)
            screen.link.drop(item.task_id, item.id)
            screen.say("Dropped; Up in the composer brings it back")

    def _move(self, step: int) -> None:
        """Change places with a neighbour: what stands from there on is taken back and queued anew."""
        item, screen = self._item, self._screen
        queued = [found for found in screen.state.queued if found.id]
        if item is None or screen.link is None or item not in queued:
            return
        at = queued.index(item)
        other = at + step
        if 0 <= other < len(queued):
            first = min(at, other)
            rest = queued[first:]
            rest[0], rest[1] = rest[1], rest[0]
            screen.link.requeue(item.task_id, [(found.id, found.text) for found in rest])
            self._lit = max(self._lit + step, 0)

    def bindings(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("down")
        @keys.add("j")
        def down(event: KeyPressEvent) -> None:
            self._lit = min(self._lit + 1, max(len(self._screen.state.queued) - 1, 0))

        @keys.add("up")
        @keys.add("k")
        def up(event: KeyPressEvent) -> None:
            self._lit = max(self._lit - 1, 0)

        keys.add("enter")(lambda event: self._edit())
        keys.add("d")(lambda event: self._drop())
        keys.add("delete")(lambda event: self._drop())
        keys.add("K")(lambda event: self._move(-1))
        keys.add("J")(lambda event: self._move(1))
        return keys
