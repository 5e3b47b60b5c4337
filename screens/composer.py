"""The composer: a text that is never lost, with pasted text folded into chips, history, and cluster-wise editing.

Invariant: nothing here sends by itself. A chip is one private-use character in the buffer; `text` gives the whole text.
"""

from collections.abc import Callable, Sequence

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from .sanitize import clean
from .text import cells, clusters, drawable

CHIP = 0xE000
MAX_CHIPS = 256
CHIP_LINES = 10
CHIP_CHARACTERS = 1000
MAX_HISTORY = 1000
PLACEHOLDER = "Type a task, @file or /command"


class Composer:
    """The buffer and what surrounds it. `changed` is called after every edit."""

    def __init__(self, completer: Completer, changed: Callable[[], None]) -> None:
        self._chips: dict[str, str] = {}
        self._history: list[str] = []
        self._at: int | None = None
        self._kept = ""
        self.buffer = Buffer(
            multiline=True,
            completer=completer,
            complete_while_typing=True,
            on_text_changed=lambda _: changed(),
            name="composer",
        )

    @property
    def text(self) -> str:
        """Everything that would be sent, chips unfolded."""
        return self.unfold(self.buffer.text)

    @property
    def empty(self) -> bool:
        return not self.buffer.text

    def unfold(self, text: str) -> str:
        for chip, whole in self._chips.items():
            text = text.replace(chip, whole)
        return text

    def label(self, chip: str) -> str:
        """What a chip is drawn as."""
        whole = self._chips.get(chip, "")
        lines = whole.count("\n") + 1
        return f"[paste {ord(chip) - CHIP + 1}: {lines} lines, {len(whole.encode()) / 1000:.1f} kB]"

    def is_chip(self, char: str) -> bool:
        return char in self._chips

    # --- editing

    def insert(self, text: str) -> None:
        """Insert text as if it had been typed."""
        self.buffer.insert_text(_without_private(text))

    def paste(self, data: str) -> bool:
        """Insert a paste in one step; True when something in it was dropped. Long ones become a chip."""
        text = data.replace("\r\n", "\n").replace("\r", "\n")
        kept = _without_private(clean(text))
        self.buffer.save_to_undo_stack()
        long = kept.count("\n") >= CHIP_LINES or len(kept) > CHIP_CHARACTERS
        if long and len(self._chips) < MAX_CHIPS:
            chip = chr(CHIP + len(self._chips))
            self._chips[chip] = kept
            kept = chip
        self.buffer.insert_text(kept)
        return self.unfold(kept) != text

    def open_chip(self) -> bool:
        """Unfold the chip at or before the cursor in place; False when there is none."""
        document = self.buffer.document
        for at in (document.cursor_position, document.cursor_position - 1):
            if 0 <= at < len(document.text) and document.text[at] in self._chips:
                whole = self._chips[document.text[at]]
                self.buffer.save_to_undo_stack()
                text = document.text[:at] + whole + document.text[at + 1 :]
                self.buffer.document = Document(text, at + len(whole))
                return True
        return False

    def move(self, step: int) -> None:
        """One user-perceived character to the left or right."""
        document = self.buffer.document
        if step < 0:
            before = clusters(document.text_before_cursor)
            self.buffer.cursor_position -= len(before[-1]) if before else 0
        else:
            after = clusters(document.text_after_cursor)
            self.buffer.cursor_position += len(after[0]) if after else 0

    def backspace(self) -> None:
        before = clusters(self.buffer.document.text_before_cursor)
        if before:
            self.buffer.delete_before_cursor(len(before[-1]))

    def newline(self) -> None:
        self.buffer.insert_text("\n")

    def set(self, text: str) -> None:
        """Replace the whole text; undo brings the old one back."""
        self.buffer.save_to_undo_stack()
        self.buffer.document = Document(text, len(text))

    def take(self) -> str:
        """The whole text for sending; history has it, and a draft that was put aside for history comes back."""
        text = self.text
        kept = self._kept if self._at is not None else ""
        self._kept = ""
        self.remember(text)
        self.set(kept)
        return text

    def clear(self) -> None:
        """Empty the composer; Up brings the text back."""
        self.take()

    # --- history

    def load_history(self, texts: Sequence[str]) -> None:
        """Older entries, oldest first; what was sent in this run stays newest."""
        self._history = [*texts, *self._history][-MAX_HISTORY:]

    def remember(self, text: str) -> None:
        self._at = None
        if text.strip() and self._history[-1:] != [text]:
            self._history = [*self._history, text][-MAX_HISTORY:]

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
        self.set(_without_private(self._history[target]))
        return True

    def search_history(self, wanted: str) -> list[str]:
        return [text for text in reversed(self._history) if wanted.lower() in text.lower()]


def _without_private(text: str) -> str:
    """Private-use characters are chips here; a foreign one must not look like one."""
    return "".join("\N{REPLACEMENT CHARACTER}" if CHIP <= ord(char) < CHIP + MAX_CHIPS else char for char in text)


class Drawn(Processor):
    """Shows chips by their label and clusters in the width that terminals give them; marks `@path` and `/command`."""

    def __init__(self, composer: Composer) -> None:
        self._composer = composer

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        text = "".join(part for _, part, *_ in transformation_input.fragments)
        if text.isascii() and "@" not in text and not text.startswith("/") and "\t" not in text:
            return Transformation(transformation_input.fragments)
        to_display = [0]
        fragments: StyleAndTextTuples = []
        shown_at = 0
        style = ""
        for number, cluster in enumerate(clusters(text)):
            if self._composer.is_chip(cluster):
                shown, used = self._composer.label(cluster), "class:accent.second"
            else:
                style = _style_of(cluster, style, first=number == 0 and transformation_input.lineno == 0)
                shown, used = drawable(cluster), style
            fragments.append((used, shown))
            shown_at += len(shown)
            to_display += [shown_at] * len(cluster)
        source = _inverse(to_display, shown_at)
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


def _inverse(to_display: list[int], size: int) -> list[int]:
    source = [0] * (size + 1)
    for at, shown in enumerate(to_display):
        source[shown] = at
    for index in range(1, size + 1):
        source[index] = source[index] or source[index - 1]
    return source


def rows_needed(composer: Composer, width: int) -> int:
    """Rows that the text takes when it wraps at every cell."""
    rows = 0
    for line in composer.buffer.text.split("\n"):
        shown = "".join(composer.label(char) if composer.is_chip(char) else drawable(char) for char in clusters(line))
        rows += max(1, -(-(cells(shown) + 1) // max(width, 2)))
    return rows
