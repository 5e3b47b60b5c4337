"""The unified diff of one proposed change, for the person who approves it.

Invariant: two different changes of the same file never give the same text, so an approval that is bound to it
cannot cover another change. What is too long or not text is represented by the digest of the new content.
"""

import difflib
import hashlib
from collections.abc import Iterator

from fluzo.core.named import NamedTuple
from fluzo.core.text import decode, shown_name

CONTEXT_LINES = 3
MAX_MATCHED_LINES = 4_000
MAX_DIFF_CHARACTERS = 256 * 1024


class Diff(NamedTuple):
    text: str
    added: int
    removed: int


def unified(path: str, before: bytes | None, after: bytes | None) -> Diff:
    """The difference between two contents; None stands for no file. Counts are lines as Git counts them."""
    name = shown_name(path)
    header = (
        f"--- {'/dev/null' if before is None else 'a/' + name}\n+++ {'/dev/null' if after is None else 'b/' + name}\n"
    )
    old, new = before or b"", after or b""
    if b"\0" in old or b"\0" in new:
        return Diff(f"{header}binary, {len(old)} -> {len(new)} bytes, {_digest(new)}\n", 0, 0)
    old_lines, new_lines = _lines(old), _lines(new)
    # The CR of each line is noise when every line on both sides has it, and news when not.
    if all(line.endswith(b"\r\n") for line in (*old_lines, *new_lines)):
        old_lines = [line[:-2] + b"\n" for line in old_lines]
        new_lines = [line[:-2] + b"\n" for line in new_lines]
    hunks = list(_hunks(old_lines, new_lines))
    added = sum(line[0] == "+" for line in hunks)
    removed = sum(line[0] == "-" for line in hunks)
    text = header + "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in hunks
    )
    if len(text) > MAX_DIFF_CHARACTERS:
        text = f"{text[:MAX_DIFF_CHARACTERS]}\n... {len(text) - MAX_DIFF_CHARACTERS} characters more, {_digest(new)}\n"
    return Diff(text, added, removed)


def _lines(data: bytes) -> list[bytes]:
    """Lines end at LF and nowhere else."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]] + ([rest] if (rest := data.rpartition(b"\n")[2]) else [])


def _digest(data: bytes) -> str:
    return f"sha256 {hashlib.sha256(data).hexdigest()}"


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[str]:
    """Hunk lines. Only the part between the common ends is matched, so a small edit of a big file stays cheap."""
    shortest = min(len(old), len(new))
    head = next((i for i in range(shortest) if old[i] != new[i]), shortest)
    tail = next((i for i in range(shortest - head) if old[-1 - i] != new[-1 - i]), shortest - head)
    start = max(0, head - CONTEXT_LINES)
    keep = max(0, tail - CONTEXT_LINES)
    a, b = old[start : len(old) - keep], new[start : len(new) - keep]
    for group in _groups(a, b):
        first, last = group[0], group[-1]
        yield f"@@ -{_range(start, first[1], last[2])} +{_range(start, first[3], last[4])} @@\n"
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                yield from (" " + decode(line) for line in a[a1:a2])
                continue
            yield from ("-" + decode(line) for line in a[a1:a2])
            yield from ("+" + decode(line) for line in b[b1:b2])


def _groups(a: list[bytes], b: list[bytes]) -> list[list[tuple[str, int, int, int, int]]]:
    if len(a) + len(b) > MAX_MATCHED_LINES:
        return [[("replace", 0, len(a), 0, len(b))]]  # Matching takes quadratic time; replaced whole is as true.
    matcher = difflib.SequenceMatcher(None, a, b)
    return [list(group) for group in matcher.get_grouped_opcodes(CONTEXT_LINES)]


def _range(offset: int, start: int, end: int) -> str:
    """Line range of a hunk header; an empty range names the line before it (POSIX diff -u)."""
    length = end - start
    first = offset + start + (1 if length else 0)
    return str(first) if length == 1 else f"{first},{length}"
