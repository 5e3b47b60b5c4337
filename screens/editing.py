"""The person's own editor. The draft goes through a private temporary file."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path


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


def change_file(path: Path, environ: Mapping[str, str]) -> bool | None:
    """`edit_file`, and whether the file is another one after it; None when no editor could be started."""
    before = _content(path)
    return _content(path) != before if edit_file(path, environ) else None


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
