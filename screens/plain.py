"""The conversation as plain lines on the normal terminal, where its own selection and search work.

Invariant: sanitized text and newlines, nothing else; who spoke is said in words.
"""

import os
import sys
import termios
import tty
from contextlib import suppress

from .blocks import Block, Blocks
from .render import source_of
from .sanitize import clean

_WHO = {"user": "you: ", "text": "fluzo: ", "thought": "thought: "}
END = "-- any key goes back to the screen --"


def plain_text(blocks: Blocks) -> str:
    """Everything that is loaded, oldest first, a blank line between what is set apart on the screen."""
    found, before = "", ""
    for block in blocks:
        gap = "" if not before else "\n" if block.kind == before == "tool" else "\n\n"
        found += gap + clean(_said(block))
        before = block.kind
    return found


def _said(block: Block) -> str:
    text = source_of(block)
    if block.tool is None:
        return _WHO.get(block.kind, "") + text
    head, _, rest = text.partition("\n")
    figures = "  ".join(part for part in (block.state, block.tool.tag, block.tool.facts) if part)
    return f"{head}  ({figures})" + (f"\n{rest}" if rest else "")


def show_until_key(text: str) -> None:
    """Print the text and wait for one key; what else was typed with it is dropped."""
    sys.stdout.write(f"{text}\n\n{END}\n")
    sys.stdout.flush()
    descriptor = sys.stdin.fileno()
    with suppress(termios.error):  # Without a terminal there is no key to wait for.
        before = termios.tcgetattr(descriptor)
        try:
            tty.setcbreak(descriptor)
            os.read(descriptor, 1)
            termios.tcflush(descriptor, termios.TCIFLUSH)
        finally:
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
