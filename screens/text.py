"""Cells and rows: how wide text is, where it breaks, and how it is made drawable.

Invariant: after `drawable`, the sum of the characters' widths is what a terminal uses, so no row is ever wider than
its region. Text for copying is never passed through here.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from prompt_toolkit.utils import get_cwidth

Fragment = tuple[str, str]
Line = list[Fragment]


class SourceRow(list[Fragment]):
    """A row that knows what part of its block's source it shows, by character positions, for copying.

    Its first `lead` characters are decoration; -1 says that the row stands for all of the part, as a table's does.
    Rows next to each other with the same part share it.
    """

    __slots__ = ("end", "lead", "start")

    def __init__(self, row: Iterable[Fragment], start: int, end: int, lead: int = 0) -> None:
        super().__init__(row)
        self.start, self.end, self.lead = start, end, lead


_JOINED = re.compile("\u200d.?[\ufe0e\ufe0f]?[\U0001f3fb-\U0001f3ff]?")
_DROPPED = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20e3\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]"
)
_SKIN = re.compile("(?<=[\u2600-\u27bf\U0001f000-\U0001faff])[\U0001f3fb-\U0001f3ff]")
_FLAGS = re.compile("[\U0001f1e6-\U0001f1ff]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NO_LINE_START = frozenset("\u3001\u3002\uff0c\uff0e\uff1a\uff1b\uff01\uff1f\uff09\u300d\u300f\u3011")
"""Closing CJK punctuation, which must not begin a row."""
_BREAK_AFTER = "/-_."
TAB_COLUMNS = 4


def cells(text: str) -> int:
    """Display width in columns of text that is `drawable`."""
    return len(text) if text.isascii() else sum(map(get_cwidth, text))


def drawable(text: str) -> str:
    """The text as it is drawn: clusters that terminals measure differently become their base character.

    Joined emoji and skin tones leave the first one, flags become two letters, variation selectors, bidi controls and
    zero-width characters go, and a control character that got this far becomes U+FFFD. Tabs become spaces.
    """
    if text.isascii():
        return text if text.isprintable() else _plain(text)
    text = _SKIN.sub("", _JOINED.sub("", text))
    text = _FLAGS.sub(lambda match: chr(ord(match[0]) - 0x1F1E6 + ord("A")), text)
    return _plain(_DROPPED.sub("", text).replace("\u00a0", " "))


def _plain(text: str) -> str:
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.expandtabs(TAB_COLUMNS) if "\t" in text else text)


def rows_of(text: str, width: int) -> list[tuple[int, int]]:
    """Start and end of each row of one line of text, at most `width` cells each; at least one row.

    Breaks at spaces, then after `/ - _ .`, between wide characters, and anywhere as the last resort.
    """
    width = max(width, 2)
    ascii_only = text.isascii()
    found: list[tuple[int, int]] = []
    start, length = 0, len(text)
    while True:
        end = min(start + width, length) if ascii_only else _fit(text, start, width)
        if end >= length:
            found.append((start, length))
            return found
        cut = _cut(text, start, end, ascii_only)
        found.append((start, len(text[start:cut].rstrip(" ")) + start))
        start = cut
        while start < length and text[start] == " ":
            start += 1
        if start >= length:
            return found


def _fit(text: str, start: int, width: int) -> int:
    used, index = 0, start
    while index < len(text):
        used += get_cwidth(text[index])
        if used > width:
            return max(index, start + 1)
        index += 1
    return index


def _cut(text: str, start: int, end: int, ascii_only: bool) -> int:
    if text[end] == " ":
        return end
    space = text.rfind(" ", start, end)
    if not ascii_only:
        wide = end
        if text[wide] in _NO_LINE_START and wide - 1 > start:
            wide -= 1
        if get_cwidth(text[wide]) == 2 or get_cwidth(text[wide - 1]) == 2:
            return wide
    if space > start:
        return space + 1
    mark = max(text.rfind(char, start, end) for char in _BREAK_AFTER)
    return mark + 1 if mark > start else end


def wrap(text: str, width: int) -> list[str]:
    """The rows of one line of drawable text."""
    return [text[start:end] for start, end in rows_of(text, width)]


def wrap_line(line: Sequence[Fragment], width: int, hang: Sequence[Fragment] = ()) -> list[Line]:
    """The rows of one styled line; rows after the first begin with `hang`, which is part of the width."""
    text = "".join(part for _, part in line)
    if cells(text) <= width:
        return [list(line)]
    indent = sum(cells(part) for _, part in hang)
    rows = rows_of(text, width) if not indent else _hanging(text, width, indent)
    return [[*(hang if number else ()), *cut_line(line, start, end)] for number, (start, end) in enumerate(rows)]


def _hanging(text: str, width: int, indent: int) -> list[tuple[int, int]]:
    first = rows_of(text, width)
    if len(first) == 1:
        return first
    start = first[1][0]
    rest = rows_of(text[start:], max(width - indent, 2))
    return [first[0], *((start + a, start + b) for a, b in rest)]


def around(before: Sequence[Fragment], row: Line, after: Sequence[Fragment] = ()) -> Line:
    """A row between fragments that decorate it."""
    line = [*before, *row, *after]
    if not isinstance(row, SourceRow):
        return line
    lead = row.lead if row.lead < 0 else row.lead + sum(len(part) for _, part in before)
    return SourceRow(line, row.start, row.end, lead)


def cut_line(line: Iterable[Fragment], start: int, end: int) -> Line:
    """The fragments between two character positions."""
    found: Line = []
    at = 0
    for style, part in line:
        left, right = max(start - at, 0), min(end - at, len(part))
        if left < right:
            found.append((style, part[left:right]))
        at += len(part)
        if at >= end:
            break
    return found


def shorten(text: str, width: int, more: str = "…") -> str:
    """The text, cut at its end to at most `width` cells with a mark that says so."""
    if cells(text) <= width:
        return text
    room = max(width - len(more), 0)
    end = _fit(text, 0, room)
    if cells(text[:end]) > room:
        end = 0
    return text[:end].rstrip() + more[: max(width, 0)]


def shorten_path(path: str, width: int, more: str = "…") -> str:
    """A path cut in its middle: first part and file name stay, then the file name alone, then its ends."""
    if cells(path) <= width:
        return path
    first, _, rest = path.partition("/")
    parts = rest.split("/")
    for kept in range(len(parts) - 1, 0, -1):
        candidate = f"{first}/{more}/{'/'.join(parts[-kept:])}"
        if cells(candidate) <= width:
            return candidate
    name = parts[-1] or first
    if cells(f"{more}/{name}") <= width:
        return f"{more}/{name}"
    head = max(width - len(more) - 4, 1)
    return shorten(name, width, more) if "." not in name else f"{name[:head]}{more}{name[-4:]}"[: max(width, 0)]


def hints_within(hints: str, width: int) -> str:
    """As many hints as have room: the first ones, and the last one, which says how to leave."""
    parts = hints.split("  ")
    while len(parts) > 1 and cells("  ".join(parts)) > width:
        del parts[-2]
    return "  ".join(parts)


def justify(left: str, right: str, width: int, more: str = "…") -> str:
    """Two texts at the edges of a row; the left one gives way. No trailing blanks."""
    room = width - cells(right) - (1 if right else 0)
    left = shorten(left, max(room, 0), more)
    if not right:
        return left
    return f"{left}{' ' * (width - cells(left) - cells(right))}{right}"


def clusters(text: str) -> list[str]:
    """The user-perceived characters of a text: what one key press moves over or deletes."""
    if text.isascii():
        return list(text)
    found: list[str] = []
    for char in text:
        if found and (_extends(char) or found[-1].endswith("\u200d") or _second_flag(found[-1], char)):
            found[-1] += char
        else:
            found.append(char)
    return found


def _extends(char: str) -> bool:
    code = ord(char)
    if code < 0x300:
        return False
    joins = code == 0x200D or 0xFE00 <= code <= 0xFE0F or 0x1F3FB <= code <= 0x1F3FF or 0xE0020 <= code <= 0xE007F
    return joins or unicodedata.category(char) in ("Mn", "Me", "Mc")


def _second_flag(before: str, char: str) -> bool:
    return len(before) == 1 and _FLAGS.match(before) is not None and _FLAGS.match(char) is not None
