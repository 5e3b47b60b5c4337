"""The one sanitizer: what models, tools and files wrote becomes text and own styles, never terminal control.

Incremental: `scan` takes the state that the last chunk left behind, so a sequence split across chunks stays harmless.
Bounded: a sequence that does not end is given up after `MAX_SEQUENCE` characters or at the end of its line.
Sequences are those of ECMA-48 (5th edition, 5.4 and 8.3) and xterm; of them only SGR colours survive, as tokens.
"""

import re
from typing import NamedTuple

from .text import Fragment

MAX_SEQUENCE = 4096

_STOP = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_STRING_STARTS = "]PX^_"
_C1 = {"\x9b": "[", "\x9d": "]", "\x90": "P", "\x98": "X", "\x9e": "^", "\x9f": "_"}
_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")

_VISIBLE = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180e"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff"
    "\ue000-\uf8ff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)


class Carry(NamedTuple):
    """What one chunk leaves for the next: an open sequence and the colours in force."""

    mode: str = ""
    held: str = ""
    style: str = ""


START = Carry()


def scan(text: str, carry: Carry = START, *, styled: bool = False) -> tuple[list[Fragment], Carry]:
    """Runs of harmless text and their styles, and the state for the next chunk.

    Newlines and tabs stay, CRLF and a lone CR become newlines, other controls and bidi marks are dropped. Without
    `styled` colours are dropped too. Undecodable bytes (lone surrogates of PEP 383) are shown as `\\xNN`.
    """
    runs: list[Fragment] = []
    mode, held, style = carry
    at, length = 0, len(text)
    if mode == "cr" and text:
        mode = ""
        if text[0] != "\n":
            runs.append((style, "\n"))
    while at < length:
        if mode:
            at, mode, held, style = _within(text, at, mode, held, style)
            continue
        found = _STOP.search(text, at)
        if found is None:
            runs.append((style, text[at:]))
            break
        if found.start() > at:
            runs.append((style, text[at : found.start()]))
        at, mode, shown = _control(text[found.start()], found.start() + 1)
        held = ""
        if mode == "cr" and at < length:
            mode, shown = "", "" if text[at] == "\n" else "\n"
        if shown:
            runs.append((style, shown))
    return (runs if styled else [("", part) for _, part in runs]), Carry(mode, held, style if styled else "")


def _control(char: str, after: int) -> tuple[int, str, str]:
    """Where to go on after a control character, the mode it opens, and what is shown of it."""
    if char == "\x1b":
        return after, "esc", ""
    if char in _C1:
        return after, "csi" if _C1[char] == "[" else "string", ""
    if char == "\r":
        return after, "cr", ""
    if char in "\u2028\u2029":
        return after, "", "\n"
    if "\ud800" <= char <= "\udfff":
        return after, "", _byte(char) or "\N{REPLACEMENT CHARACTER}"
    return after, "", ""


def _byte(char: str) -> str:
    """An undecodable byte (PEP 383) as text; empty for any other character."""
    return f"\\x{ord(char) - 0xDC00:02x}" if "\udc80" <= char <= "\udcff" else ""


def _within(text: str, at: int, mode: str, held: str, style: str) -> tuple[int, str, str, str]:
    char = text[at]
    if mode == "esc":
        return _after_escape(char, at, style)
    if mode == "csi":
        return _in_csi(char, at, held, style)
    if char == "\n" or len(held) >= MAX_SEQUENCE:
        return at, "", "", style
    if char in "\x07\x9c":
        return at + 1, "", "", style
    if char == "\x1b":
        return at + 1, "esc", "", style
    return at + 1, "string", held + char, style


def _after_escape(char: str, at: int, style: str) -> tuple[int, str, str, str]:
    if char == "[":
        return at + 1, "csi", "", style
    if char in _STRING_STARTS:
        return at + 1, "string", "", style
    if " " <= char <= "/":
        return at + 1, "esc", "", style  # Intermediate bytes, as in a character set selection.
    if "0" <= char <= "~":
        return at + 1, "", "", style
    return at, "", "", style  # Not a sequence after all: only the escape is dropped.


def _in_csi(char: str, at: int, held: str, style: str) -> tuple[int, str, str, str]:
    if " " <= char <= "?":
        if len(held) >= MAX_SEQUENCE:
            return at, "", "", style
        return at + 1, "csi", held + char, style
    if "@" <= char <= "~":
        return at + 1, "", "", _sgr(held, style) if char == "m" else style
    return at, "", "", style


def _sgr(parameters: str, style: str) -> str:
    """The style after a Select Graphic Rendition: the 16 colours, bold and underline; the rest is left out."""
    words = style.split()
    numbers = [int(part) if part.isdecimal() and len(part) < 4 else 0 for part in parameters.split(";")]
    for number in numbers:
        if number == 0:
            words = []
        elif number in (38, 48):
            break  # Indexed and direct colours are not of our palette.
        elif 30 <= number <= 37 or 90 <= number <= 97:
            bright = "bright" if number >= 90 else ""
            name = _COLORS[number % 10]
            name = "white" if bright and name == "gray" else f"{bright}{name}"
            words = [word for word in words if not word.startswith("fg:")] + [f"fg:ansi{name}"]
        elif number == 39:
            words = [word for word in words if not word.startswith("fg:")]
        elif number in (1, 4):
            words = [*words, "bold" if number == 1 else "underline"][-4:]
    return " ".join(dict.fromkeys(words))


_LINE_START = re.compile("\x1b\\[0?1?G")
"""Going to the first column without a carriage return (CHA, ECMA-48 8.3.9)."""


def last_lines(text: str, count: int) -> tuple[tuple[Fragment, ...], ...]:
    """The last lines of a terminal's output that hold anything, styled; a line that was redrawn is its last state."""
    lines: list[tuple[Fragment, ...]] = []
    carry = START
    for line in _LINE_START.sub("\r", text).split("\n"):
        shown: list[Fragment] = []
        for state in line.split("\r"):
            runs, carry = scan(state, carry, styled=True)
            shown = runs if "".join(part for _, part in runs).strip() else shown
        carry = Carry(style=carry.style)
        if shown:
            lines.append(tuple(shown))
    return tuple(lines[-count:])


def clean(text: str) -> str:
    """A whole text, sanitized: what `scan` shows of it."""
    if _STOP.search(text) is None:
        return text
    runs, _ = scan(text)
    return "".join(part for _, part in runs)


def visible(text: str, danger: str = "class:danger.fg class:danger.bg") -> list[Fragment]:
    """Fragments of a path or a command in which nothing is hidden: misleading characters are spelt `<U+202E>`, as
    `fluzo.core.redact.printable` does; an undecodable byte is `\\xNN`."""
    found: list[Fragment] = []
    at = 0
    for match in _VISIBLE.finditer(text):
        if match.start() > at:
            found.append(("", text[at : match.start()]))
        found.append((danger, _byte(match[0]) or f"<U+{ord(match[0]):04X}>"))
        at = match.end()
    if at < len(text):
        found.append(("", text[at:]))
    return found


def visible_text(text: str) -> str:
    """`visible` without styles, for one row."""
    return text if text.isascii() and text.isprintable() else "".join(part for _, part in visible(text))
