"""From the bytes of a terminal to keys: whole keys only, and nothing of a sequence that nobody knows.

Invariant: text comes from keys that type text and from pastes, and from nothing else; an escape sequence becomes a key,
a report for `on_report`, or nothing, also when it arrives in pieces.
"""

import re
from collections.abc import Callable
from typing import cast

from prompt_toolkit.input import ansi_escape_sequences, vt100_parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from .key_table import NEWLINE_KEY, canonical, key_table

FOCUS_IN, FOCUS_OUT = Keys.F23, Keys.F22
_FOCUS = {"\x1b[I": FOCUS_IN, "\x1b[O": FOCUS_OUT}
TAIL_SECONDS = 0.005
"""What follows an Escape within this time was sent with it: no hand is that fast."""

_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
BURST_CHARACTERS = 20
BURST_SECONDS = 0.01
_INNER_NEWLINE = re.compile("[\r\n]+[^\r\n]")
_MAX_HELD = 64
_MAX_HELD_STRING = 4096
_SEQUENCE = re.compile("\x1b(?:\\[\\[[A-E]|\\[[0-?]*[ -/]*[@-~]|O[ -~]|[\\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\\\))")
"""Whole: a function key of the Linux console, CSI, SS3, or a string (OSC, DCS, APC, PM, SOS) with its end."""
_OPEN = re.compile("\x1b(?:O|\\[\\[?[0-?]*[ -/]*)?\\Z")
_OPEN_STRING = re.compile("\x1b(?:\\][0-9]+;|P[0-9>!+$])[^\x07\x1b]*\x1b?\\Z")
_TAILS = {"[": re.compile("[0-?]*[ -/]*([@-~])?"), "]": re.compile("[^\x07\x1b]*(\x07|\x1b\\\\?)?")}
_REPORT = re.compile("\x1b\\[(?:\\?[0-9]+u|[0-9]+;[0-9]+R)\\Z")
_MOUSE = re.compile("\x1b\\[(?:<[0-9;]+[mM]|M)\\Z")
_WITH_DATA = (Keys.BracketedPaste, Keys.Vt100MouseEvent)


def register_keys() -> None:
    """Teach prompt-toolkit the sequences it lacks; must happen before input is read."""
    table = ansi_escape_sequences.ANSI_SEQUENCES
    for sequence, key in list(table.items()):
        if key in (NEWLINE_KEY, FOCUS_IN, FOCUS_OUT):
            table[sequence] = Keys.Ignore  # The spare keys are ours alone.
    table.update(cast(dict[str, Keys | tuple[Keys, ...]], key_table()))
    table.update(_FOCUS)
    vt100_parser._IS_PREFIX_OF_LONGER_MATCH_CACHE.clear()


class SequenceFilter:
    """Lets text and known keys through, each key as the tables have it. `on_report` gets the terminal's answers and
    says whether it had asked; `clock` is monotonic seconds."""

    def __init__(self, on_report: Callable[[str], bool], clock: Callable[[], float]) -> None:
        self._on_report = on_report
        self._clock = clock
        self._held = ""
        self._late, self._late_at = "", 0.0
        self._pasting = False
        self._skipping = ""

    def feed(self, data: str) -> str:
        data, self._held = self._held + data, ""
        if self._late:
            data = self._joined(data)
        if self._pasting:
            return self._pasted(data)
        if self._skipping:
            data = self._skipped(data)
        start = data.find(_PASTE_START)
        if start >= 0:
            self._pasting = True
            return self._known(data[:start]) + _PASTE_START + self._pasted(data[start + len(_PASTE_START) :])
        return self._known(self._hold(data))

    @property
    def between_keys(self) -> bool:
        return not (self._pasting or self._held or self._skipping)

    def flush(self) -> str:
        """Nothing more came with what is held: a lone Escape is the key, the beginning of a sequence is nothing."""
        self._skipping = ""
        if self._pasting or not self._held:
            return ""
        held, self._held = self._held, ""
        self._late, self._late_at = held, self._clock()
        return held if held == "\x1b" else ""

    def _joined(self, data: str) -> str:
        """The rest of a sequence whose beginning was given up a moment ago, with its beginning."""
        late, self._late = self._late, ""
        if self._clock() - self._late_at > TAIL_SECONDS or (late == "\x1b" and data[:1] not in ("[", "O")):
            return data
        return late + data

    def _pasted(self, data: str) -> str:
        """What is in a paste passes as it is, up to its end mark, which may come in pieces."""
        text, mark, after = data.partition(_PASTE_END)
        if mark:
            self._pasting = False
            return text + mark + self.feed(after)
        cut = max((n for n in range(1, len(_PASTE_END)) if data.endswith(_PASTE_END[:n])), default=0)
        self._held = data[len(data) - cut :]
        return data[: len(data) - cut]

    def _hold(self, data: str) -> str:
        opened = _OPEN.search(data) or _OPEN_STRING.search(data)
        if opened is None:
            return data
        kind = "]" if opened[0][1:2] in ("]", "P") else "["
        if len(opened[0]) > (_MAX_HELD_STRING if kind == "]" else _MAX_HELD):
            self._skipping = kind  # Far too long for any key or answer: the rest is dropped as it comes.
        else:
            self._held = opened[0]
        return data[: opened.start()]

    def _skipped(self, data: str) -> str:
        tail = _TAILS[self._skipping].match(data)
        if tail is None:
            return data
        if tail[1] is not None:
            self._skipping = ""
        return data[tail.end() :]

    def _known(self, data: str) -> str:
        return _SEQUENCE.sub(self._kept, data) if "\x1b" in data else data

    def _kept(self, match: re.Match[str]) -> str:
        sequence = match[0]
        if _REPORT.match(sequence) and self._on_report(sequence):
            return ""
        sequence = canonical(sequence)
        if not sequence.startswith("\x1b") or sequence in ansi_escape_sequences.ANSI_SEQUENCES:
            return sequence
        return sequence if _MOUSE.match(sequence) else ""


def is_burst(data: str) -> bool:
    """Whether keys that arrived together are a paste that the terminal does not mark: too many for a hand, and more of
    them after a newline. One line and its Enter may have been typed ahead and stay keys."""
    return len(data) >= BURST_CHARACTERS and "\x1b" not in data and bool(_INNER_NEWLINE.search(data))


class KeyStream:
    """A filter and a parser: what was read in, the keys out."""

    def __init__(self, on_report: Callable[[str], bool], clock: Callable[[], float]) -> None:
        self._filter = SequenceFilter(on_report, clock)
        self._keys: list[KeyPress] = []
        self._parser = vt100_parser.Vt100Parser(self._pressed)

    def feed(self, data: str) -> list[KeyPress]:
        self._parser.feed(self._filter.feed(data))
        return self._taken()

    @property
    def between_keys(self) -> bool:
        """Nothing of a paste or a sequence is open."""
        return self._filter.between_keys

    def paste(self, data: str) -> list[KeyPress]:
        """The keys of a text that is a paste without its marks; what follows an Escape in it is keys again."""
        text, escape, rest = data.partition("\x1b")
        return [*self.feed(f"{_PASTE_START}{text}{_PASTE_END}"), *(self.feed(escape + rest) if escape else [])]

    def flush(self) -> list[KeyPress]:
        """The keys that were waiting for more, when nothing more came for a while."""
        self._parser.feed(self._filter.flush())
        self._parser.flush()
        return self._taken()

    def _pressed(self, press: KeyPress) -> None:
        # A key without a binding is inserted as its data: only what types text has any.
        if isinstance(press.key, Keys) and press.key not in _WITH_DATA:
            press = KeyPress(press.key, "")
        self._keys.append(press)

    def _taken(self) -> list[KeyPress]:
        keys, self._keys = self._keys, []
        return keys
