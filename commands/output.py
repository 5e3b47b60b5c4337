"""What every command's output has in common: the forms, JSON lines, and plain text that cannot act on a terminal.

In the JSON forms stdout carries JSON and nothing else; words for people go to stderr. Styling is for terminals
only and is done in `paint`, which is imported when there is a terminal to paint on.
"""

import codecs
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TextIO
from unicodedata import east_asian_width

import typer

from fluzo.core.errors import UsageError
from fluzo.core.events import dumps
from fluzo.core.redact import printable

FORMS = ("text", "json", "stream-json")
_PLAIN_FORMS = ("text", "json")

OutputOption = Annotated[
    str, typer.Option("--output", "-o", metavar="FORM", help="text, json or stream-json (one JSON object a line).")
]
PlainOutputOption = Annotated[str, typer.Option("--output", "-o", metavar="FORM", help="text or json.")]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="Show at most this many.")]


def check_form(form: str, *, streams: bool = False) -> str:
    """The output form. Raises UsageError for one that this command does not have."""
    known = FORMS if streams else _PLAIN_FORMS
    if form not in known:
        raise UsageError(f"{form!r} is not an output form here.", hint=f"Use one of: {', '.join(known)}")
    return form


def emit_json(value: object) -> None:
    """Write one JSON line to stdout at once. Raises BrokenPipeError when nobody reads any more."""
    sys.stdout.write(dumps(value) + "\n")
    sys.stdout.flush()


def emit_lines(lines: Iterable[str]) -> None:
    """Write lines for people to stdout."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def is_styled(stream: TextIO) -> bool:
    """True when colours and cursor movements may be sent: a terminal that has them and a user who wants them."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb")
    return stream.isatty() and not plain


def has_unicode(stream: TextIO) -> bool:
    """True when the stream can show the glyphs; a dumb terminal and an ASCII encoding get ASCII ones."""
    try:
        name = codecs.lookup(stream.encoding or "ascii").name
    except LookupError:
        return False
    return name.startswith("utf") and os.environ.get("TERM") != "dumb"


def cell_width(text: str) -> int:
    """Terminal cells that the text takes; East Asian wide characters take two (Unicode UAX 11)."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def pad(text: str, width: int) -> str:
    return text + " " * (width - cell_width(text))


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns, two blanks apart, nothing cut off; every cell made harmless and one line."""
    clean = [[printable(cell, keep_newlines=False) for cell in row] for row in rows]
    widths = [max(map(cell_width, column)) for column in zip(*clean, strict=True)]
    return ["  ".join(map(pad, row, widths)).rstrip() for row in clean]


def text_of(data: Mapping[str, Any], key: str) -> str:
    """A value of a read model as one harmless line of text; missing and null are empty."""
    value = data.get(key)
    return "" if value is None else printable(str(value), keep_newlines=False)
