"""A file's bytes as numbered text for the model: pages by lines and bytes, and notes on what text cannot show."""

from fluzo.core.errors import ToolError
from fluzo.core.named import NamedTuple
from fluzo.core.records import FileVersion
from fluzo.core.text import decode, shown_name, well_formed

BOM = b"\xef\xbb\xbf"
MAX_LINE_CHARACTERS = 4_000
NOTE_BYTES = 400
"""Room kept free in a page for the notes below it."""

_KINDS = (
    (b"\x7fELF", "an ELF program"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


class Page(NamedTuple):
    """Lines `first` to `last` of a file; `total` is 0 when the end of the file was not seen."""

    text: str
    first: int
    last: int
    total: int


def refuse_binary(path: str, data: bytes, version: FileVersion) -> None:
    """Raise ToolError `binary_file` with kind and size for content that holds NUL bytes."""
    if b"\0" not in data:
        return
    kind = next((name for magic, name in _KINDS if data.startswith(magic)), "binary")
    raise ToolError(
        f"{shown_name(path)} is {kind} of {version.size_bytes} bytes, not text these tools can work on",
        code="binary_file",
        detail={"size_bytes": version.size_bytes},
    )


def page(data: bytes, *, complete: bool, offset: int, limit: int | None, max_bytes: int) -> Page:
    """Number the lines from `offset` (1 is the first) until `limit` or `max_bytes` is reached.

    Lines end at LF only, as `grep -n` and `sed -n` count them. Raises ToolError when `offset` is past the end.
    """
    body = data.removeprefix(BOM)
    lines = body.split(b"\n")
    final_newline = not lines[-1]
    if final_newline or (not complete and len(lines) > 1):
        lines.pop()  # What follows the last LF: nothing, or a line whose end was not read.
    if not lines:
        return Page("[empty file]", 0, 0, 0)
    if offset > len(lines):
        raise ToolError(f"offset {offset} is past the end; the file has {len(lines)} lines", code="tool_arguments")
    shown: list[str] = []
    used = 0
    for number, raw in enumerate(lines[offset - 1 :], offset):
        text = well_formed(decode(raw.removesuffix(b"\r")))
        if len(text) > MAX_LINE_CHARACTERS:
            text = f"{text[:MAX_LINE_CHARACTERS]} [... {len(text) - MAX_LINE_CHARACTERS} characters more]"
        entry = f"{number}\t{text}"
        used += len(entry.encode("utf-8")) + 1
        if shown and (len(shown) == limit or used > max_bytes - NOTE_BYTES):
            break
        shown.append(entry)
    last = offset + len(shown) - 1
    notes = _notes(data, lines, whole=complete and last == len(lines), final_newline=final_newline)
    if offset > 1 or last < len(lines):
        notes.append(f"lines {offset}-{last} of {len(lines)}")
    if last < len(lines):
        notes.append(f"continue with offset={last + 1}")
    if not complete:
        notes.append(f"only the first {len(data)} bytes of this file can be read; use search for the rest")
    text = "\n".join(shown) + (f"\n[{'; '.join(notes)}]" if notes else "")
    return Page(text, offset, last, len(lines) if complete else 0)


def _notes(data: bytes, lines: list[bytes], *, whole: bool, final_newline: bool) -> list[str]:
    notes = []
    crlf = sum(line.endswith(b"\r") for line in lines)
    if crlf:
        notes.append("CRLF line ends" if crlf >= len(lines) - (not final_newline) else "mixed CRLF and LF line ends")
    if data.startswith(BOM):
        notes.append("starts with a BOM")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        notes.append("bytes that are not UTF-8 shown as \\xNN; do not put them into an edit")
    if whole and not final_newline:
        notes.append("no newline at the end")
    return notes
