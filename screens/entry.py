"""One line that is typed on a page: what to find, or a new title. Esc leaves it without an effect.

Invariant: while it is open it has the keyboard, and its keys reach nothing else of the page. What stands in it, from a
file or a paste, is drawn and never acts on the terminal.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, VSplit, Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from .composer import inverse_map
from .controls import text_control
from .sanitize import visible_text
from .sheet import Sheet
from .text import clusters, drawable

if TYPE_CHECKING:
    from .app import Screen
    from .views import View


_BREAK = "\udc0a"
"""A line break within the entry, whose one row could not show more than a line; no terminal sends this character."""


class Entry:
    """`focused` gives the keyboard to the window of the entry, or back to the page for None.

    `changed` is called after each change of the text.
    """

    def __init__(self, focused: Callable[[Window | None], None], changed: Callable[[], None] = lambda: None) -> None:
        self._focused = focused
        self._label = ""
        self._done: Callable[[str], None] = lambda text: None
        self._left: Callable[[], None] = lambda: None
        self._lines = False
        self.shown = False
        self.buffer = Buffer(multiline=False, on_text_changed=lambda _: changed())
        self.window = Window(BufferControl(self.buffer, [_Drawn()], key_bindings=self._keys()), height=1)
        label = Window(
            text_control(lambda: [("class:accent.primary", f" {self._label} ")]), width=self._width, height=1
        )
        self.container = ConditionalContainer(VSplit([label, self.window]), Condition(lambda: self.shown))

    @property
    def text(self) -> str:
        return self.buffer.text.replace(_BREAK, "\n")

    @property
    def searching(self) -> bool:
        """What is typed is what to find."""
        return self._label == "/"

    def ask(
        self,
        label: str,
        text: str,
        done: Callable[[str], None],
        left: Callable[[], None] = lambda: None,
        *,
        lines: bool = False,
    ) -> None:
        """Take the keyboard: Enter calls `done` with the text, Esc calls `left`. Either gives the keyboard back. With
        `lines` the line breaks of a paste stay, spelt in the row; else they become spaces."""
        self._label, self._done, self._left, self._lines = label, done, left, lines
        self.shown = True
        self.buffer.text = text.replace("\n", _BREAK)
        self.buffer.cursor_position = len(text)
        self._focused(self.window)

    def close(self) -> None:
        self.shown = False
        self.buffer.text = ""

    def _width(self) -> int:
        return len(self._label) + 2

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def enter(event: KeyPressEvent) -> None:
            self._focused(None)
            self._done(self.text)

        @keys.add("escape")
        def escape(event: KeyPressEvent) -> None:
            self.close()
            self._focused(None)
            self._left()

        @keys.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            lines = "\n".join(event.data.splitlines())
            self.buffer.insert_text(
                lines.strip("\n").replace("\n", _BREAK) if self._lines else lines.replace("\n", " ").strip()
            )

        for key in ("tab", "s-tab", "up", "down"):
            keys.add(key)(_nothing)
        return keys


def _nothing(event: KeyPressEvent) -> None:
    """A key that means something elsewhere."""


class _Drawn(Processor):
    """Shows what a terminal would obey or draw in another width as something visible."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        text = "".join(part for _, part, *_ in transformation_input.fragments)
        if text.isascii() and text.isprintable():
            return Transformation(transformation_input.fragments)
        to_display, drawn = [0], ""
        for cluster in clusters(text):
            drawn += visible_text("\n" if cluster == _BREAK else drawable(cluster))
            to_display += [len(drawn)] * len(cluster)
        source = inverse_map(to_display, len(drawn))
        return Transformation(
            [("", drawn)],
            source_to_display=lambda at: to_display[min(at, len(to_display) - 1)],
            display_to_source=lambda at: source[min(at, len(source) - 1)],
        )


class Finder:
    """Find in the rows of a sheet: what is typed is marked, Enter goes to the next match, Esc takes the marks away."""

    def __init__(self, sheet: Sheet, context: str, focused: Callable[[Window | None], None]) -> None:
        self._sheet = sheet
        self.entry = Entry(focused, self._typed)
        sheet.act(f"{context}.find", self._ask)

    def _ask(self) -> None:
        self.entry.ask("/", self._sheet.find, lambda text: self._sheet.seek(1))

    def _typed(self) -> None:
        self._sheet.find = self.entry.text


def with_find(screen: "Screen", page: "View", sheet: Sheet) -> ConditionalContainer:
    """Find in a text in full, `n` and `N` from match to match; what is returned stands over the text."""
    text = page.focus

    def focused(window: Window | None) -> None:
        page.focus = window or text
        screen.body.focus_on(page.focus)

    sheet.act("pager.next", lambda: sheet.seek(1))
    sheet.act("pager.previous", lambda: sheet.seek(-1))
    return Finder(sheet, "pager", focused).entry.container
