"""Colours for terminals. Imported only when there is one: everything here is the same words as the plain output."""

import io

from rich.console import Console
from rich.text import Text

from .presenter import Line, Tone

_STYLES: dict[Tone, str] = {"plain": "", "good": "green", "bad": "red", "ask": "bold yellow", "note": "yellow"}
_LETTERS = ("bright_cyan", "bright_cyan", "bright_blue", "bright_magenta", "bright_magenta")
"""The colours of the wordmark where there are sixteen."""
_DIFF_STYLES = (("+++", "bold"), ("---", "bold"), ("+", "green"), ("-", "red"), ("@@", "cyan"))


def paint_line(line: Line, *, unicode: bool) -> str:
    """A line of progress with its tone in colour."""
    text = Text(line.text(unicode=unicode))
    text.stylize(_STYLES[line.tone] or "cyan", 0, 1)
    if line.outcome:
        text.stylize(_STYLES[line.tone] or "dim", len(text) - len(line.outcome))
    return _ansi(text)


def paint_text(line: str, style: str = "") -> str:
    """One line in one style."""
    return _ansi(Text(line, style))


def paint_diff(line: str) -> str:
    """A line of a unified diff, coloured by its first characters; blanks before them do not count."""
    head = line.lstrip(" ")
    return _ansi(Text(line, next((style for mark, style in _DIFF_STYLES if head.startswith(mark)), "")))


def paint_mark(mark: str) -> str:
    """The wordmark, each letter in its colour; a letter and the gap after it are six columns."""
    rows = []
    for line in mark.splitlines():
        letters = enumerate(_LETTERS)
        rows.append("".join(paint_text(line[6 * number : 6 * number + 6], style) for number, style in letters))
    return "\n".join(rows) + "\n"


def _ansi(text: Text) -> str:
    console = Console(
        file=io.StringIO(), force_terminal=True, color_system="standard", width=10_000, legacy_windows=False
    )
    with console.capture() as captured:
        console.print(text, end="", soft_wrap=True, markup=False, highlight=False, emoji=False)
    return captured.get()
