"""Chips: pasted texts and mentioned files that stand for themselves as one character of the composer's text.

Invariant: what a chip says is what is sent for it. Its characters are those of a private plane that no font and no
paste uses; they never leave the process: files and messages hold the whole text.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from .sanitize import visible_text

FIRST, LAST = 0x100000, 0x10FFFD
"""Supplementary Private Use Area-B (Unicode 15.0, 23.5), so that icons of area A and of the basic plane stay text."""
_CHIP = re.compile(f"[{chr(FIRST)}-{chr(LAST)}]")
MAX_SENT_BYTES = 1_000_000
"""Of one paste; more than this is no message, it is a file."""
SENT_HEAD_BYTES = 64_000
READ_BYTES = 65_536
"""What the agent reads of a file in one piece; a longer one takes several."""
_THOUSAND = 1000


class Chip(NamedTuple):
    """`text` is what it unfolds to: the paste, or `@path` with or without `:10-40`. `size` is a file's, in bytes, and
    -1 while it is not known."""

    kind: Literal["paste", "file"]
    text: str
    number: int = 0
    size: int = -1
    outside: bool = False


Part = str | Chip


class Chips:
    """The characters in use and what each stands for. The same chip is the same character."""

    def __init__(self) -> None:
        self._chips: dict[str, Chip] = {}
        self._chars: dict[Chip, str] = {}

    def __contains__(self, char: object) -> bool:
        return char in self._chips

    def __getitem__(self, char: str) -> Chip:
        return self._chips[char]

    def char(self, chip: Chip) -> str:
        """The character of a chip; its whole text when there are no characters left."""
        known = self._chars.get(chip)
        if known is not None:
            return known
        code = FIRST + len(self._chips)
        if code > LAST:
            return foreign_free(chip.text)
        self._chips[chr(code)], self._chars[chip] = chip, chr(code)
        return chr(code)

    def sized(self, text: str, size: int) -> None:
        """The size of a mentioned file is known now; the chip in the text keeps its character."""
        for char, chip in self._chips.items():
            if chip.kind == "file" and chip.text.partition(":")[0] == text and chip.size != size:
                del self._chars[chip]
                self._chips[char] = chip._replace(size=size)
                self._chars[self._chips[char]] = char

    def parts(self, text: str) -> list[Part]:
        """The composer's text as strings and chips."""
        found: list[Part] = []
        at = 0
        for match in _CHIP.finditer(text):
            if match[0] in self._chips:
                found += [text[at : match.start()], self._chips[match[0]]]
                at = match.end()
        return [part for part in (*found, text[at:]) if part]

    def joined(self, parts: Sequence[Part]) -> str:
        """The composer's text of strings and chips."""
        return "".join(foreign_free(part) if isinstance(part, str) else self.char(part) for part in parts)

    def whole(self, text: str) -> str:
        """The text with every chip unfolded."""
        return _CHIP.sub(lambda match: self._chips[match[0]].text if match[0] in self._chips else match[0], text)

    def sent(self, text: str) -> str:
        """The text as it is sent: whole, but for pastes that are too long, which say so."""
        return _CHIP.sub(lambda match: sent(self._chips[match[0]]) if match[0] in self._chips else match[0], text)


def foreign_free(text: str) -> str:
    """Characters of the chips' plane are chips here; a foreign one must not look like one."""
    return _CHIP.sub("\N{REPLACEMENT CHARACTER}", text)


def sent(chip: Chip) -> str:
    data = chip.text.encode("utf-8", "replace") if chip.kind == "paste" else b""
    if len(data) <= MAX_SENT_BYTES:
        return chip.text
    head = data[:SENT_HEAD_BYTES].decode("utf-8", "ignore")
    return f"{head}\n[the paste ends here: {len(head.encode())} of its {len(data)} bytes were sent]\n"


@lru_cache(maxsize=64)
def label(chip: Chip) -> str:
    """What a chip is drawn as, with the limit that its sending has."""
    if chip.kind == "file":
        told = "outside the folder: the agent cannot read it" if chip.outside else ""
        if not chip.outside and chip.size >= 0:
            told = size_text(chip.size) + (", read in parts" if chip.size > READ_BYTES else "")
        return f"[{visible_text(chip.text)}{f' {told}' if told else ''}]"
    lines, size = chip.text.count("\n") + 1, len(chip.text.encode("utf-8", "replace"))
    cut = f", {size_text(SENT_HEAD_BYTES)} of it are sent" if size > MAX_SENT_BYTES else ""
    return f"[paste {chip.number}: {lines} {'line' if lines == 1 else 'lines'}, {size_text(size)}{cut}]"


def size_text(size: int) -> str:
    """Bytes as people read them, in powers of ten."""
    if size < 100:
        return f"{size} B"
    if size < _THOUSAND * _THOUSAND:
        return f"{size / _THOUSAND:.1f} kB"
    return f"{size / _THOUSAND / _THOUSAND:.1f} MB"


# --- in files -------------------------------------------------------------------------------------------------


def to_plain(parts: Sequence[Part]) -> list[Any]:
    """Parts as JSON values."""
    return [part if isinstance(part, str) else part._asdict() for part in parts]


def from_plain(values: object) -> list[Part]:
    """Parts of JSON values that may be anything; what is no part is left out."""
    found: list[Part] = []
    for value in values if isinstance(values, list) else []:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, Mapping) and isinstance(value.get("text"), str):
            kind: Literal["paste", "file"] = "file" if value.get("kind") == "file" else "paste"
            number, size = value.get("number"), value.get("size")
            found.append(
                Chip(
                    kind,
                    value["text"],
                    number if isinstance(number, int) else 0,
                    size if isinstance(size, int) else -1,
                    value.get("outside") is True,
                )
            )
    return found


def whole_text(parts: Sequence[Part]) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in parts)
