"""What a view is: a page in place of the conversation, or a float over it, opened and closed by the screen.

To add one: write a module whose class has the attributes below, and register it in `VIEWS` with the action that opens
it. The composer's draft, the transcript's position and the running task are the screen's and survive every view.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from prompt_toolkit.layout import AnyContainer, Window

from .layout import Rect

if TYPE_CHECKING:
    from .app import Screen


class View(Protocol):
    """`page` views take the whole body and cost nothing while closed; `float` views stand over the conversation."""

    kind: Literal["page", "float"]
    container: AnyContainer
    focus: Window
    """The window that has the keyboard; its control's key bindings are the view's keys. Esc is the screen's."""

    def hints(self) -> str:
        """The view's keys in one row, for the status row."""
        ...

    def refresh(self) -> None:
        """The state changed while the view is open."""
        ...


class Specimen(NamedTuple):
    """A mark in a state that no task has, which a page of the demo shows: its window, its cells, its state word."""

    host: Window
    place: Rect
    word: str


Factory = Callable[["Screen"], View]


def _palette(screen: "Screen") -> View:
    from .palette import Palette

    return Palette(screen)


def _help(screen: "Screen") -> View:
    from .pager import Pager, help_text

    return Pager(screen, "Keys", help_text(screen.registry))


def _sessions(screen: "Screen") -> View:
    from .sessions import Sessions

    return Sessions(screen)


def _tasks(screen: "Screen") -> View:
    from .tasks import Tasks

    return Tasks(screen)


def _changes(screen: "Screen") -> View:
    from .diff import Changes

    return Changes(screen)


def _diagnostics(screen: "Screen") -> View:
    from .diagnostics import Diagnostics

    return Diagnostics(screen)


def _theme(screen: "Screen") -> View:
    from .themes import ThemePicker

    return ThemePicker(screen)


def _devmenu(screen: "Screen") -> View:
    from .devmenu import DeveloperMenu

    return DeveloperMenu(screen)


VIEWS: dict[str, Factory] = {
    "palette": _palette,
    "help": _help,
    "sessions": _sessions,
    "tasks": _tasks,
    "changes": _changes,
    "diagnostics": _diagnostics,
    "theme": _theme,
    "devmenu": _devmenu,
}
"""Action id to the view it opens. The modules are imported when they are first opened."""


class OpenViews(list[View]):
    """The views that are open, the front one last; each named one is open once."""

    def __init__(self, screen: "Screen") -> None:
        super().__init__()
        self._screen = screen
        self._named: dict[str, View] = {}

    def show(self, view: View) -> None:
        """Open a view in front of the others."""
        self.append(view)
        self._focus(view)

    def toggle(self, action_id: str) -> None:
        """Open a named view; asked for again it closes, or comes to the front without what was over it."""
        view = self._named.get(action_id)
        if view is None or view not in self:
            self._named[action_id] = view = VIEWS[action_id](self._screen)
            self.show(view)
        elif view is self[-1]:
            self.close()
        else:
            del self[self.index(view) + 1 :]
            self._focus(view)

    def close(self) -> None:
        """Close the front view; the keyboard goes to what is in front then."""
        screen = self._screen
        if self:
            self.pop()
        if self:
            self._focus(self[-1])
            return
        if screen.looked_at and screen.looked_at == (screen.card.operation_id, screen.card.fingerprint):
            screen.body.focus_card()
        else:
            screen.body.focus_composer()
        screen.looked_at = None
        screen.changed()

    def close_all(self) -> None:
        """Back to the composer, whatever is open."""
        self.clear()
        self._screen.looked_at = None
        self._screen.body.focus_composer()
        self._screen.changed()

    def _focus(self, view: View) -> None:
        self._screen.body.focus_on(view.focus)
        self._screen.changed()
