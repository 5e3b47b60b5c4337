"""The lines of a changed file that its diff leaves out, from the file as it is now. Blocking; call it in a thread.

Invariant: they are shown only when every line that the diff tells of still stands where it says; a file that was
changed since, is a link, or lies outside the folder gives a sentence instead.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from .diff_text import Hunk

MAX_BYTES = 4 * 1024 * 1024
_GONE = "The file cannot be read; its unchanged lines are not shown."
_OTHER = "The file has changed since; its unchanged lines are not shown."


def unchanged_lines(root: str, path: str, hunks: Sequence[Hunk]) -> list[str] | str:
    """All lines of the file, or why they are not shown."""
    try:
        data = _read(Path(root), path)
    except (OSError, ValueError):
        return _GONE
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    for row in (row for hunk in hunks for row in hunk.rows if row.new):
        if row.new > len(lines) or lines[row.new - 1] != row.text:
            return _OTHER
    return lines


def _read(root: Path, path: str) -> bytes:
    """Raises OSError, or ValueError for what is no plain file of this folder."""
    parent = (root / path).parent.resolve(strict=True)
    if not parent.is_relative_to(root.resolve(strict=True)):
        raise ValueError(path)
    handle = os.open(parent / Path(path).name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise ValueError(path)
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(MAX_BYTES)
    finally:
        os.close(handle)
