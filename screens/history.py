"""Search through what was sent before: this folder first, all on request. Enter takes an entry and sends nothing."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.layout import AnyContainer, Window
from prompt_toolkit.layout.controls import BufferControl

from .chips import Chip, Part, label, whole_text
from .chrome import keys_in_words
from .clicking import Clicks
from .controls import RowsList, acting_keys
from .floats import at_row, box_size, boxed, window_of
from .sanitize import clean
from .text import Line, drawable, shorten

if TYPE_CHECKING:
    from .app import Screen

MAX_FOUND = 500


class HistorySearch:
    """A float; the draft stays as it is until an entry is taken."""

    kind: Literal["page", "float"] = "float"

    def __init__(self, screen: "Screen", wanted: str) -> None:
        self._screen = screen
        self._lit = 0
        self._all = False
        self._others: list[list[Part]] | None = None
        self._found: tuple[object, list[list[Part]]] = (None, [])
        self._buffer = Buffer(
            multiline=False, document=Document(wanted, len(wanted)), on_text_changed=lambda _: self._reset()
        )
        self._shown = range(0)
        acts: dict[str, Callable[[], object]] = {
            "history.down": lambda: self._light(1),
            "history.up": lambda: self._light(-1),
            "history.take": self._take,
            "history.folders": self._flip_folders,
        }
        self.focus = Window(BufferControl(self._buffer, key_bindings=acting_keys(screen, acts)), height=1)
        clicks = Clicks(lambda y: at_row(self._shown, y), lambda: self._lit, self._light, self._take)
        rows = Window(RowsList(self._rows, clicks), always_hide_cursor=True)
        self.container: AnyContainer = boxed(screen, self._title, self.hints(), rows, self.focus)

    def hints(self) -> str:
        wanted = (("history.take", "takes it"), ("history.folders", "folder/all"))
        return f"{keys_in_words(self._screen.registry, wanted)}  Esc back"

    def refresh(self) -> None:
        """The list does not depend on the conversation."""

    def _title(self) -> str:
        return "Sent before: every folder" if self._all else "Sent before: this folder (Tab: all)"

    def _reset(self) -> None:
        self._lit = 0

    def found(self) -> list[list[Part]]:
        """What matches, newest first, this folder's before those of others."""
        wanted = self._buffer.text.lower()
        key = (wanted, self._all, self._others is None)
        if self._found[0] != key:
            entries = [*self._screen.composer.entries, *((self._others or []) if self._all else [])]
            matching = [parts for parts in entries if wanted in whole_text(parts).lower()]
            self._found = (key, matching[:MAX_FOUND])
        return self._found[1]

    def _rows(self) -> list[Line]:
        found = self.found()
        columns, height = box_size(self._screen)
        if not found:
            self._shown = range(0)
            waiting = self._all and self._others is None
            return [[], [("class:text.muted", "Reading." if waiting else "Nothing like that was sent before.")]]
        rows: list[Line] = [[]]
        self._shown = window_of(self._lit, len(found), height - 4)
        for number in self._shown:
            lit = number == self._lit
            style = "class:bg.select class:text.on_select" if lit else "class:text.primary"
            text = shorten(one_row(found[number]), columns - 6, self._screen.glyphs.more)
            rows.append([(style, f"{'>' if lit else ' '} {text}")])
        return rows

    def _light(self, step: int) -> None:
        self._lit = max(0, min(self._lit + step, len(self.found()) - 1))

    def _flip_folders(self) -> None:
        self._all, self._lit = not self._all, 0
        drafts = self._screen.drafts
        if self._all and self._others is None and drafts is not None:
            drafts.all_prompts(self._read)

    def _take(self) -> None:
        found = self.found()
        if found:
            self._screen.views.close()
            self._screen.composer.put(found[min(self._lit, len(found) - 1)])

    def _read(self, entries: list[list[Part]]) -> None:
        self._others = entries
        self._screen.changed()


def one_row(parts: list[Part]) -> str:
    """An entry in one row, its chips by their labels."""
    text = "".join(label(part) if isinstance(part, Chip) else part for part in parts)
    return drawable(" ".join(clean(text).split()))
