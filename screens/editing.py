"""The person's own editor, and code taken out of Markdown. The draft goes through a private temporary file."""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

_FENCE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def edit_text(text: str, environ: Mapping[str, str]) -> str | None:
    """The text after the editor closed; None when none could be started. The file is private and removed."""
    descriptor, name = tempfile.mkstemp(prefix="fluzo-", suffix=".md")
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        if not edit_file(path, environ):
            return None
        return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
    finally:
        path.unlink(missing_ok=True)


def edit_file(path: Path, environ: Mapping[str, str]) -> bool:
    """Open a file in the editor and wait for it; False when none could be started."""
    for command in (environ.get("VISUAL"), environ.get("EDITOR"), "nano", "vi"):
        if not command:
            continue
        try:
            subprocess.run([*shlex.split(command), str(path)], check=False)
        except (OSError, ValueError):
            continue
        return True
    return False


def code_of(source: str) -> str:
    """The last fenced code of a Markdown text, without its fence."""
    found = _FENCE.findall(source)
    return found[-1][1].removesuffix("\n") if found else ""
