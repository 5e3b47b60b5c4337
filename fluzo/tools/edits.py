"""Exact replacement in the bytes of a file.

Invariant: every byte outside the replaced text stays what it was, whatever its encoding or line ends. The new
text is inserted as it is; there is no template syntax. Only line ends are adapted: LF in an edit stands for the
line end that the file has at that place.
"""

import difflib
import re

from fluzo.core.errors import ToolError
from fluzo.core.named import NamedTuple
from fluzo.core.text import decode, well_formed
from fluzo.tools.shared import encoded

MAX_HINT_LINES = 12
MAX_HINT_CHARACTERS = 200
MAX_COMPARED_LINES = 5_000
MAX_NAMED_MATCHES = 10

_NUMBERED = re.compile(r"\s*\d+\t")


class Edit(NamedTuple):
    old_text: str
    new_text: str
    replace_all: bool


def apply_edit(data: bytes, edit: Edit) -> bytes:
    """The file after the edit.

    Raises ToolError: `tool_arguments` (nothing to look for), `no_change`, `text_not_found` with the nearest
    lines, `text_not_unique` with count and line numbers.
    """
    old, new = encoded("old_text", edit.old_text), encoded("new_text", edit.new_text)
    if not old:
        raise ToolError(
            "old_text is empty; give the text to replace, or use write_file for a new or empty file",
            code="tool_arguments",
        )
    if old == new:
        raise ToolError("no change: old_text and new_text are the same", code="no_change")
    spans = _matches(data, old)
    if not spans:
        raise ToolError(_not_found(data, edit.old_text), code="text_not_found")
    if len(spans) > 1 and not edit.replace_all:
        raise ToolError(_not_unique(data, spans), code="text_not_unique")
    pieces, at = [], 0
    for start, end in spans:
        if start < at:
            continue  # Overlaps the match before it; counted for uniqueness, replaced only once.
        pieces += [data[at:start], _with_line_ends(data, start, end, new, b"\r\n" in old)]
        at = end
    result = b"".join([*pieces, data[at:]])
    if result == data:
        raise ToolError("no change: the file already reads like that", code="no_change")
    return result


def _matches(data: bytes, old: bytes) -> list[tuple[int, int]]:
    """Where the text occurs, overlaps included: exactly, or else with CRLF and LF taken as equal."""
    exact = _find(data, re.escape(old))
    if exact or b"\n" not in old:
        return exact
    lines = old.replace(b"\r\n", b"\n").split(b"\n")
    return _find(data, rb"\r?\n".join(re.escape(line) for line in lines))


def _find(data: bytes, pattern: bytes) -> list[tuple[int, int]]:
    found = (match.span(1) for match in re.finditer(b"(?=(" + pattern + b"))", data))
    # A match must not begin between the CR and the LF of one line end: replacing it would tear the pair apart.
    return [(s, e) for s, e in found if not (data[s : s + 1] == b"\n" and data[s - 1 : s] == b"\r")]


def _with_line_ends(data: bytes, start: int, end: int, new: bytes, sent_crlf: bool) -> bytes:
    """The new text with the line ends used where it goes: those of the text it replaces, else of the nearest line."""
    replaced = data[start:end]
    if b"\n" in replaced:
        crlf = 2 * replaced.count(b"\r\n") > replaced.count(b"\n")
    else:
        newline = data.find(b"\n", end)
        newline = newline if newline >= 0 else data.rfind(b"\n", 0, start)
        crlf = newline > 0 and data[newline - 1] == 0x0D
    if not crlf:
        # CRLF in both texts of the edit, LF in the file: the model's habit, not a wish to convert the file.
        return new.replace(b"\r\n", b"\n") if sent_crlf and b"\r\n" not in replaced else new
    return new.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


# --- messages -------------------------------------------------------------------------------------------------


def _not_unique(data: bytes, spans: list[tuple[int, int]]) -> str:
    numbers = [str(data.count(b"\n", 0, start) + 1) for start, _ in spans[:MAX_NAMED_MATCHES]]
    more = ", ..." if len(spans) > MAX_NAMED_MATCHES else ""
    return (
        f"old_text occurs {len(spans)} times, at lines {', '.join(numbers)}{more}; nothing was changed. "
        "Add neighbouring lines to make it unique, or set replace_all"
    )


def _not_found(data: bytes, old_text: str) -> str:
    old = old_text.replace("\r\n", "\n").strip("\n").split("\n")
    if all(_NUMBERED.match(line) for line in old):
        return "old_text was not found; leave out the line numbers that read_file puts before each line"
    text = decode(data.removeprefix(b"\xef\xbb\xbf")).replace("\r\n", "\n")
    lines = text.split("\n")
    start = _nearest(lines, old)
    if start is None:
        return "old_text was not found and no line comes near; read the file again"
    near = lines[start : start + len(old)]
    same_but_blanks = [line.split() for line in near] == [line.split() for line in old]
    why = "The nearest lines differ only in blanks" if same_but_blanks else "The nearest lines are"
    shown = [f"{start + i + 1}\t{line[:MAX_HINT_CHARACTERS]}" for i, line in enumerate(near[:MAX_HINT_LINES])]
    if len(near) > MAX_HINT_LINES:
        shown.append("...")
    return well_formed(f"old_text was not found; nothing was changed. {why}:\n" + "\n".join(shown))


def _nearest(lines: list[str], old: list[str]) -> int | None:
    """Index where the old text fits best: most lines equal but for blanks, else one line that looks alike."""
    places: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        if line.strip():
            places.setdefault(line.strip(), []).append(index)
    votes: dict[int, int] = {}
    for offset, line in enumerate(old[:MAX_COMPARED_LINES]):
        for index in places.get(line.strip(), ())[:MAX_COMPARED_LINES]:
            votes[index - offset] = votes.get(index - offset, 0) + 1
    if votes:
        return max(0, min(votes, key=lambda start: (-votes[start], start)))
    wanted = max((line.strip() for line in old), key=len)[:MAX_HINT_CHARACTERS]
    candidates = [line for line in places if len(line) <= 4 * MAX_HINT_CHARACTERS][:MAX_COMPARED_LINES]
    close = difflib.get_close_matches(wanted, candidates, n=1, cutoff=0.6)
    if not close:
        return None
    return max(0, places[close[0]][0] - [line.strip()[:MAX_HINT_CHARACTERS] for line in old].index(wanted))
