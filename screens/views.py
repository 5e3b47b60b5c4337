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
