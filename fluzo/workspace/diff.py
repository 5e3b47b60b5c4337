"""Unified diffs of two versions of a file, for people and models. Pure; lines end at LF and nowhere else."""

import difflib
from collections.abc import Iterator
from typing import Literal

from fluzo.core.named import NamedTuple

MAX_COMPARED_LINES = 20_000
"""Between the first and last difference; beyond that the whole stretch is shown as replaced, which is quick."""
CONTEXT_LINES = 3
_ESCAPES = str.maketrans(
    {chr(code): f"\\{code:03o}" for code in (*range(32), 127)}
    | {chr(code): f"\\{letter}" for code, letter in zip(range(7, 14), "abtnvfr", strict=True)}
    | {'"': r"\"", "\\": r"\\"}
)


class Difference(NamedTuple):
    text: str
    lines_added: int
    lines_removed: int


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:8000]  # The length Git looks at.


def header(path: str) -> str:
    """The line that a file's part of a diff begins with; nothing in a name can begin another one."""
    return f"diff --git {_named('a/', path)} {_named('b/', path)}\n"


def _named(side: str, path: str) -> str:
    """A path in a header, quoted as Git does it (git-config(1), core.quotePath): control characters, `"` and `\\`."""
    quoted = path.translate(_ESCAPES)
    return side + path if quoted == path else f'"{side}{quoted}"'


def compare(path: str, before: bytes | None, after: bytes | None, modes: tuple[str, str] = ("", "")) -> Difference:
    """The difference in Git's form; None stands for no file, `modes` are octal. Undecodable bytes become surrogates."""
    head = [header(path)]
    if before is None:
        head.append(f"new file mode {modes[1] or '100644'}\n")
    elif after is None:
        head.append(f"deleted file mode {modes[0] or '100644'}\n")
    elif modes[0] != modes[1]:
        head += [f"old mode {modes[0]}\n", f"new mode {modes[1]}\n"]
    if before == after or not (before or after):
        return Difference("".join(head), 0, 0)
    if is_binary(before or b"") or is_binary(after or b""):
        return Difference("".join([*head, f"Binary file {_named('', path)} differs\n"]), 0, 0)
    head += [f"--- {'/dev/null' if before is None else _named('a/', path)}\n"]
    head += [f"+++ {'/dev/null' if after is None else _named('b/', path)}\n"]
    body = list(_hunks(_lines(before or b""), _lines(after or b"")))
    added = sum(line.startswith("+") for line in body)
    removed = sum(line.startswith("-") for line in body)
    return Difference("".join(head + body), added, removed)


def changed_lines(before: bytes | None, after: bytes) -> tuple[tuple[int, int], ...] | None:
    """First and last number, from 1, of each stretch of lines in `after` that is not as it was in `before`.

    None where that cannot be told line by line: bytes that are no text, or too many of them to compare.
    """
    if is_binary(before or b"") or is_binary(after):
        return None
    matcher = _Matcher(_lines(before or b""), _lines(after))
    if before is not None and matcher.too_long:
        return None
    codes = matcher.get_opcodes()
    return tuple((start + 1, end) for tag, _, _, start, end in codes if tag != "equal" and start < end)


def _lines(data: bytes) -> list[str]:
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    last = lines.pop()
    whole = [line + "\n" for line in lines]
    return [*whole, last] if last else whole


Opcode = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


class _Matcher(difflib.SequenceMatcher[str]):
    """A matcher that is told what is equal at both ends: most edits are small, most files are not."""

    def __init__(self, before: list[str], after: list[str]) -> None:
        shortest = min(len(before), len(after))
        self._start = next((i for i in range(shortest) if before[i] != after[i]), shortest)
        room = shortest - self._start
        self._end = next((i for i in range(room) if before[-1 - i] != after[-1 - i]), room)
        self._sizes = (len(before), len(after))
        super().__init__(
            None, before[self._start : len(before) - self._end], after[self._start : len(after) - self._end]
        )

    @property
    def too_long(self) -> bool:
        """Whether the stretch between the ends is taken for replaced instead of compared."""
        return max(self._sizes) - self._start - self._end > MAX_COMPARED_LINES

    def get_opcodes(self) -> list[Opcode]:
        start, (old, new) = self._start, self._sizes
        codes: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
        if self.too_long:
            codes.append(("replace", start, old - self._end, start, new - self._end))
        else:
            codes += [(t, i + start, j + start, k + start, m + start) for t, i, j, k, m in super().get_opcodes()]
        if self._end:
            codes.append(("equal", old - self._end, old, new - self._end, new))
        return codes


def _hunks(before: list[str], after: list[str]) -> Iterator[str]:
    for group in _Matcher(before, after).get_grouped_opcodes(CONTEXT_LINES):
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (_marked(" ", line) for line in before[old_start:old_end])
            else:
                yield from (_marked("-", line) for line in before[old_start:old_end])
                yield from (_marked("+", line) for line in after[new_start:new_end])


def _marked(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def _range(start: int, end: int) -> str:
    length = end - start
    begin = start + 1 if length else start
    return str(begin) if length == 1 else f"{begin},{length}"
