"""The composer: a text that is never lost, with pasted text folded into chips, history, and cluster-wise editing.

Invariant: nothing here sends by itself. A chip is one character in the buffer (`chips.py`); `text` is the whole.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.mouse_events import MouseEvent, MouseEventType

from .chips import Chip, Chips, Part, foreign_free, label
from .completion import completes
from .layout import MAX_COMPOSER_ROWS
from .sanitize import clean
from .text import cells, clusters, drawable

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_bindings import NotImplementedOrNone

CHIP_LINES = 10
CHIP_CHARACTERS = 1000
MAX_HISTORY = 1000
PLACEHOLDER = "Type a task, @file or /command"


class Unfolded(NamedTuple):
    """A chip that was opened in place: what stands before and after its text, for as long as that is so."""

    chip: Chip
    before: str
    after: str


class Composer:
    """The buffer and what surrounds it. `changed` is called after every edit, `remembered` with what history takes."""

    def __init__(
        self, completer: Completer, changed: Callable[[], None], remembered: Callable[[list[Part]], None]
    ) -> None:
        self.chips = Chips()
        self._remembered = remembered
        self._history: list[str] = []
        self._at: int | None = None
        self._kept = ""
        self._unfolded: list[Unfolded] = []
        self._lit: tuple[str, int] = ("", -1)
        self._column: tuple[str, int, int] = ("", -1, 0)
        """The text and place that a step up or down led to, and the column that further ones aim at."""
        self.buffer = Buffer(
            multiline=True,
            completer=completer,
            complete_while_typing=Condition(lambda: completes(self.buffer.document.text_before_cursor)),
            on_text_changed=lambda _: changed(),
            name="composer",
        )

    @property
    def text(self) -> str:
        """Everything that would be sent, chips unfolded."""
        return self.chips.sent(self.buffer.text)

    @property
    def parts(self) -> list[Part]:
        """The draft as strings and chips."""
        return self.chips.parts(self.buffer.text)

    @property
    def draft(self) -> list[Part]:
        """What must not be lost: the draft that is put aside, and what is written in its place unless that is a command
        or is in history anyway."""
        text = self.buffer.text
        if self._at is not None:
            own = "" if text in self._history or text.startswith("/") else text
            text = "\n\n".join(part for part in (self._kept, own) if part.strip())
        return self.chips.parts(text)

    @property
    def empty(self) -> bool:
        return not self.buffer.text

    # --- editing

    def insert(self, text: str) -> None:
        """Insert text as if it had been typed."""
        self.buffer.insert_text(foreign_free(text))

    def give_back(self, text: str) -> None:
        """Put a text that was not taken elsewhere at the end of the draft, folded when it is long; also of one that is
        put aside, so that it gets into nothing else that is being written."""
        draft = self.buffer.text if self._at is None else self._kept
        added = ("\n\n" if draft.strip() else "") + self._folded(foreign_free(text))
        if self._at is not None:
            self._kept += added
            return
        self.buffer.cursor_position = len(draft)
        self.buffer.insert_text(added)

    def paste(self, data: str) -> bool:
        """Insert a paste in one step; True when something in it was dropped. Long ones become a chip."""
        text = data.replace("\r\n", "\n").replace("\r", "\n")
        kept = foreign_free(clean(text))
        self.buffer.save_to_undo_stack()
        self.buffer.insert_text(self._folded(kept))
        return kept != text

    def _folded(self, text: str) -> str:
        if text.count("\n") < CHIP_LINES and len(text) <= CHIP_CHARACTERS:
            return text
        pastes = [part for part in self.parts if isinstance(part, Chip) and part.kind == "paste"]
        return self.chips.char(Chip("paste", text, max((chip.number for chip in pastes), default=0) + 1))

    def fold(self) -> bool:
        """Fold the opened chip that the cursor is in, as it was edited since; False when it is in none."""
        text, cursor = self.buffer.text, self.buffer.cursor_position
        for item in reversed(self._unfolded):
            begin, end = len(item.before), len(text) - len(item.after)
            fits = begin < end and text.startswith(item.before) and text.endswith(item.after)
            if fits and begin <= cursor <= end:
                self._unfolded.remove(item)
                char = self.chips.char(item.chip._replace(text=self.chips.whole(text[begin:end])))
                self._put(item.before + char + item.after, begin + 1)
                return True
        return False

    def open_chip(self) -> bool:
        """Unfold the chip at or before the cursor in place; False when there is none."""
        text, cursor = self.buffer.text, self.buffer.cursor_position
        for at in (cursor, cursor - 1):
            if 0 <= at < len(text) and text[at] in self.chips:
                chip = self.chips[text[at]]
                before, after = text[:at], text[at + 1 :]
                self._unfolded = [*self._unfolded, Unfolded(chip, before, after)][-8:]
                self._put(before + chip.text + after, at + len(chip.text))
                return True
        return False

    def _put(self, text: str, cursor: int) -> None:
        self.buffer.save_to_undo_stack()
        self.buffer.document = Document(text, cursor)

    def replace(self, old: str, chip: Chip, before: int) -> bool:
        """Put a chip in the place of a text that ends at a position, if it is still there."""
        text, cursor = self.buffer.text, self.buffer.cursor_position
        begin = before - len(old)
        if begin < 0 or text[begin:before] != old:
            return False
        char = self.chips.char(chip)
        moved = cursor - len(old) + len(char) if cursor >= before else min(cursor, begin + len(char))
        self._put(text[:begin] + char + text[before:], moved)
        return True

    @property
    def lit(self) -> bool:
        """The cursor was moved onto a chip, which Enter and `v` then open."""
        return self._lit == (self.buffer.text, self.buffer.cursor_position)

    def move(self, step: int) -> None:
        """One user-perceived character to the left or right; onto a chip it is lit."""
        document = self.buffer.document
        if step < 0:
            before = clusters(document.text_before_cursor)
            self.buffer.cursor_position -= len(before[-1]) if before else 0
        else:
            after = clusters(document.text_after_cursor)
            self.buffer.cursor_position += len(after[0]) if after else 0
        at = self.buffer.cursor_position
        self._lit = (document.text, at) if document.text[at : at + 1] in self.chips else ("", -1)

    def step_row(self, step: int, width: int) -> bool:
        """Go one row up (-1) or down (1) as the text is drawn in this width; False on the first or last row."""
        text, cursor = self.buffer.text, self.buffer.cursor_position
        document = self.buffer.document
        start = cursor - document.cursor_position_col
        places = row_places(self, document.current_line, width)
        _, row, column = next(place for place in reversed(places) if place[0] <= cursor - start)
        if self._column[:2] == (text, cursor):
            column = self._column[2]
        row += step
        if not 0 <= row <= places[-1][1]:
            number = document.cursor_position_row + step
            if not 0 <= number < document.line_count:
                return False
            start = document.translate_row_col_to_index(number, 0)
            places = row_places(self, document.lines[number], width)
            row = 0 if step > 0 else places[-1][1]
        there = [place for place in places if place[1] == row]
        at = next((place for place in reversed(there) if place[2] <= column), there[0])[0]
        self.buffer.cursor_position = start + at
        self._column = (text, start + at, column)
        return True

    def backspace(self) -> None:
        before = clusters(self.buffer.document.text_before_cursor)
        if before:
            self.buffer.delete_before_cursor(len(before[-1]))

    def newline(self) -> None:
        self.buffer.insert_text("\n")

    def set(self, text: str) -> None:
        """Replace the whole text; undo brings the old one back."""
        self._put(text, len(text))

    def put(self, parts: Sequence[Part]) -> None:
        """Replace the whole draft by strings and chips; undo brings the old one back."""
        self.set(self.chips.joined(parts))

    def put_aside(self, text: str) -> None:
        """Have a text in place of the draft, which comes back as from history: when that was sent, or with Down."""
        if self._at is None:
            self._kept, self._at = self.buffer.text, len(self._history)
        self.set(text)

    def swap(self, parts: Sequence[Part]) -> list[Part]:
        """Another draft in place of this one, which is returned with what was put aside."""
        draft = self.draft
        self._kept, self._at = "", None
        self.put(parts)
        return draft

    def take(self) -> str:
        """The whole text for sending; history has it, and a draft that was put aside comes back."""
        text = self.text
        kept = self._kept if self._at is not None else ""
        self._kept = ""
        self.remember()
        self.set(kept)
        return text

    def clear(self) -> None:
        """Empty the composer; Up brings the text back."""
        self.take()

    # --- history

    def load_history(self, entries: Sequence[Sequence[Part]]) -> None:
        """Older entries, oldest first; what was sent in this run stays newest."""
        older = [self.chips.joined(parts) for parts in entries]
        self._history = [*older, *self._history][-MAX_HISTORY:]

    def remember(self, text: str | None = None) -> None:
        """Have history take the draft, or another text; commands are recalled in this run only."""
        entry = self.buffer.text if text is None else foreign_free(text)
        self._at = None
        if entry.strip() and self._history[-1:] != [entry]:
            self._history = [*self._history, entry][-MAX_HISTORY:]
            if not entry.startswith("/"):
                self._remembered(self.chips.parts(entry))

    def history(self, step: int) -> bool:
        """Go up (-1) or down (1) in history, the draft kept at its end; False when there is nothing there."""
        if self._at is None:
            if step > 0 or not self._history:
                return False
            self._kept, self._at = self.buffer.text, len(self._history)
        target = self._at + step
        if target < 0:
            return False
        if target >= len(self._history):
            kept, self._at = self._kept, None
            self.set(kept)
            return True
        self._at = target
        self.set(self._history[target])
        return True

    @property
    def entries(self) -> list[list[Part]]:
        """History, newest first, each entry once."""
        return [self.chips.parts(entry) for entry in dict.fromkeys(reversed(self._history))]


class ComposerControl(BufferControl):
    """The composer's text. A click puts the cursor there and the keyboard here; the mouse selects nothing in it."""

    clicked: Callable[[], bool]
    """Gives the composer the keyboard; False when something stands over it."""

    def mouse_handler(self, mouse_event: MouseEvent) -> "NotImplementedOrNone":
        if mouse_event.event_type is not MouseEventType.MOUSE_DOWN or not self.clicked():
            return NotImplemented
        handled = super().mouse_handler(mouse_event)
        self.buffer.exit_selection()
        return handled


class Drawn(Processor):
    """Shows chips by their label and clusters in the width that terminals give them; marks `@path` and `/command`."""

    def __init__(self, composer: Composer) -> None:
        self._composer = composer

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        text = "".join(part for _, part, *_ in transformation_input.fragments)
        if text.isascii() and "@" not in text and not text.startswith("/") and "\t" not in text:
            return Transformation(transformation_input.fragments)
        to_display = [0]
        document = transformation_input.document
        here = self._composer.lit and document.cursor_position_row == transformation_input.lineno
        lit_at = document.cursor_position_col if here else -1
        fragments: StyleAndTextTuples = []
        shown_at = 0
        style = ""
        for number, cluster in enumerate(clusters(text)):
            if cluster in self._composer.chips:
                shown = label(self._composer.chips[cluster])
                lit = len(to_display) - 1 == lit_at
                used = "class:bg.select class:text.on_select" if lit else "class:accent.second"
            else:
                style = _style_of(cluster, style, first=number == 0 and transformation_input.lineno == 0)
                shown, used = drawable(cluster), style
            fragments.append((used, shown))
            shown_at += len(shown)
            to_display += [shown_at] * len(cluster)
        source = inverse_map(to_display, shown_at)
        return Transformation(
            fragments,
            source_to_display=lambda at: to_display[min(at, len(to_display) - 1)],
            display_to_source=lambda at: source[min(at, len(source) - 1)],
        )


def _style_of(cluster: str, style: str, *, first: bool) -> str:
    if cluster == "@" and (first or not style):
        return "class:text.link"
    if cluster == "/" and first:
        return "class:accent.primary"
    return "" if cluster.isspace() else style


def inverse_map(to_display: list[int], size: int) -> list[int]:
    """For each place in a drawn text of this size the one in the source; `to_display` goes the other way."""
    source = [0] * (size + 1)
    for at, shown in enumerate(to_display):
        source[shown] = at
    for index in range(1, size + 1):
        source[index] = source[index] or source[index - 1]
    return source


def row_places(composer: Composer, line: str, width: int) -> list[tuple[int, int, int]]:
    """Where the cursor can stand in one line of the text: its position, and the row and the column there, as the line
    wraps at every cell."""
    places: list[tuple[int, int, int]] = []
    at = row = column = 0
    for cluster in clusters(line):
        shown = label(composer.chips[cluster]) if cluster in composer.chips else drawable(cluster)
        for number, size in enumerate(map(cells, shown or " ")):
            if column + size > width:
                row, column = row + 1, 0
            if not number:
                places.append((at, row, column))
            column += size if shown else 0
        at += len(cluster)
    # The cursor behind the last character needs a cell of its own.
    places.append((at, row, column) if column < width else (at, row + 1, 0))
    return places


def rows_needed(composer: Composer, width: int) -> int:
    """Rows that the text takes when it wraps at every cell; counted no further than the composer can grow."""
    rows = 0
    for line in composer.buffer.text.split("\n", MAX_COMPOSER_ROWS)[:MAX_COMPOSER_ROWS]:
        beginning = line[: MAX_COMPOSER_ROWS * width]
        shown = "".join(
            label(composer.chips[char]) if char in composer.chips else drawable(char) for char in clusters(beginning)
        )
        rows += max(1, -(-(cells(shown) + 1) // max(width, 2)))
    return rows
