"""Messages that wait for the task's next safe step: read, edited, put in another order or dropped.

Invariant: what is shown is what the runtime holds. Each act is asked of it and shown when it has said so; a message
that the agent took meanwhile stays taken.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.layout import AnyContainer, Window

from .chrome import keys_in_words
from .clicking import Clicks
from .controls import RowsList, acting_keys
from .floats import at_row, box_size, boxed, window_of
from .state import Queued
from .text import Line, drawable, shorten

if TYPE_CHECKING:
    from .app import Screen


class QueueView:
    """A float over the conversation."""

    kind: Literal["page", "float"] = "float"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._lit = 0
        self._shown = range(0)
        acts: dict[str, Callable[[], object]] = {
            "queue.down": lambda: self._light(1),
            "queue.up": lambda: self._light(-1),
            "queue.edit": self._edit,
            "queue.earlier": lambda: self._move(-1),
            "queue.later": lambda: self._move(1),
            "queue.drop": self._drop,
        }
        clicks = Clicks(lambda y: at_row(self._shown, y), lambda: self._lit, self._light, self._edit)
        control = RowsList(self.rows, clicks, acting_keys(screen, acts))
        self.focus = Window(control, always_hide_cursor=True)
        self.container: AnyContainer = boxed(screen, lambda: "Queued messages", self.hints(), self.focus)

    def hints(self) -> str:
        wanted = [(f"queue.{name}", name) for name in ("edit", "earlier", "later", "drop")]
        return f"{keys_in_words(self._screen.registry, wanted)}  Esc back"

    def refresh(self) -> None:
        self._lit = max(min(self._lit, len(self._screen.state.queued) - 1), 0)

    def rows(self) -> list[Line]:
        queued = self._screen.state.queued
        columns, height = box_size(self._screen)
        if not queued:
            self._shown = range(0)
            return [[], [("class:text.muted", "Nothing is queued.")]]
        found: list[Line] = [[]]
        self._shown = window_of(self._lit, len(queued), height - 3)
        for number in self._shown:
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

    def _light(self, step: int) -> None:
        self._lit = max(0, min(self._lit + step, len(self._screen.state.queued) - 1))

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
