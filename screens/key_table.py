"""Keys that terminals report as numbers: kitty's `CSI n;m u` and xterm's `CSI 27;m;n ~`. Pure.

Invariant: the table holds every such key that this screen asks a terminal for, so that asking for them loses none; a
number that stands for plain text becomes that text, and what is in no table is no key.
"""

import re
from collections.abc import Mapping

from prompt_toolkit.keys import Keys

NEWLINE_KEY = Keys.F24
"""The spare key that means a new line in the composer."""
SHIFT, ALT, CONTROL = 1, 2, 4
_LOCKS = 64 | 128
"""Caps lock and num lock are reported with each key and mean nothing for it."""

Meaning = Keys | tuple[Keys | str, ...]

_SPECIAL = {27: Keys.Escape, 9: Keys.ControlI, 13: Keys.ControlM, 127: Keys.ControlH, 8: Keys.ControlH}
_CONTROL = {
    " ": Keys.ControlAt,
    "@": Keys.ControlAt,
    "[": Keys.Escape,
    "\\": Keys.ControlBackslash,
    "]": Keys.ControlSquareClose,
    "^": Keys.ControlCircumflex,
    "_": Keys.ControlUnderscore,
    "/": Keys.ControlUnderscore,
    "-": Keys.ControlUnderscore,
}
_KEYPAD_TEXT = dict(zip(range(57399, 57417), (*b"0123456789./*-+", 13, *b"=,"), strict=True))
_KEYPAD_KEYS = {
    57417: "D",
    57418: "C",
    57419: "A",
    57420: "B",
    57421: "5~",
    57422: "6~",
    57423: "H",
    57424: "F",
    57425: "2~",
    57426: "3~",
}
_FUNCTION = {"\x1b[P": Keys.F1, "\x1b[Q": Keys.F2, "\x1b[S": Keys.F4}
"""Kitty's first function keys; xterm and the others send `ESC O P` and so on."""

_NUMBERED = re.compile(r"\x1b\[([0-9]+)(?::([0-9]*))?(?::([0-9]*))?(?:;([0-9]*))?u\Z")
_OTHER_KEYS = re.compile(r"\x1b\[27;([0-9]+);([0-9]+)~\Z")
_MODIFIED = re.compile(r"\x1b\[([0-9]+);([0-9]+)([ABCDEFHPQS~])\Z")


def key_table() -> Mapping[str, Meaning]:
    """Every numbered key with every combination of Shift, Alt and Control, in both forms."""
    table: dict[str, Meaning] = dict(_FUNCTION)
    for code in (*_SPECIAL, *range(32, 127)):
        for held in range(8):
            meaning = _meaning(code, held)
            if meaning is None:
                continue
            table[f"\x1b[{code};{held + 1}u"] = meaning
            table[f"\x1b[27;{held + 1};{code}~"] = meaning
            if not held:
                table[f"\x1b[{code}u"] = meaning
    return table


def _meaning(code: int, held: int) -> Meaning | None:
    """The key or keys of a code; None where it types text."""
    key: Keys | str
    if code == 13 and held & SHIFT:
        return NEWLINE_KEY
    if code == 9 and held & SHIFT:
        key = Keys.BackTab
    elif code in _SPECIAL:
        key = _SPECIAL[code]
    elif held & CONTROL:
        key = _controlled(chr(code))
    elif held & ALT:
        key = chr(code).upper() if held & SHIFT else chr(code)
    else:
        return None
    if held & ALT and key is not Keys.Ignore:
        return (Keys.Escape, key)
    return key if isinstance(key, Keys) else None


def _controlled(char: str) -> Keys:
    if char.isalpha():
        return Keys(f"c-{char.lower()}")
    return _CONTROL.get(char, Keys.Ignore)


def canonical(sequence: str) -> str:
    """A sequence as the tables have it: without lock keys and alternates, keypad keys as the keys they stand for, and
    plain text as the text. What is not a numbered or modified key comes back as it is."""
    numbered = _NUMBERED.match(sequence)
    if numbered:
        code, shifted, base, held = (int(part or 0) for part in numbered.groups())
        return _canonical_number(code, shifted, base, _held(held))
    other = _OTHER_KEYS.match(sequence)
    if other:
        held, code = _held(int(other[1])), int(other[2])
        return _text(code, held) or f"\x1b[27;{held + 1};{code}~"
    modified = _MODIFIED.match(sequence)
    if modified and (int(modified[2]) - 1) & _LOCKS:
        return _modified(modified[3], int(modified[1]), _held(int(modified[2])))
    return sequence


def _held(parameter: int) -> int:
    return max(parameter - 1, 0) & ~_LOCKS


def _modified(final: str, number: int, held: int) -> str:
    if held:
        return f"\x1b[{number};{held + 1}{final}"
    return f"\x1b[{number}~" if final == "~" else f"\x1b[{final}"


def _canonical_number(code: int, shifted: int, base: int, held: int) -> str:
    if code in _KEYPAD_KEYS:
        form = _KEYPAD_KEYS[code]
        return _modified(form[-1], int(form[:-1] or 1), held)
    code = _KEYPAD_TEXT.get(code, code)
    if code > 127 and base:
        # A key of another script: shortcuts go by where it is on the keyboard.
        code = base
    elif held & SHIFT and held & ALT and not held & CONTROL and shifted > 32:
        code, held = shifted, held & ~SHIFT
    return _text(code, held) or (f"\x1b[{code};{held + 1}u" if held else f"\x1b[{code}u")


def _text(code: int, held: int) -> str:
    """What a key types, if it types."""
    if held & ~SHIFT or code < 32 or code == 127 or 0xE000 <= code <= 0xF8FF or code > 0x10FFFF:
        return ""
    char = chr(code)
    char = char.upper() if held & SHIFT else char
    return char if char.isprintable() else ""
