"""Copying as source text: OSC 52 and the local tools that answer, and an honest sentence about what happened."""

import base64
import os
import shutil
import subprocess
from collections.abc import Mapping

from prompt_toolkit.output import Output

MAX_OSC52_BYTES = 100_000
_TOOL_SECONDS = 0.2
_TOOLS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("WAYLAND_DISPLAY", ("wl-copy",), "wl-copy"),
    ("DISPLAY", ("xclip", "-selection", "clipboard"), "xclip"),
    ("DISPLAY", ("xsel", "--clipboard", "--input"), "xsel"),
    ("", ("pbcopy",), "pbcopy"),
)


def copy(text: str, what: str, output: Output, environ: Mapping[str, str]) -> str:
    """Put the text where a paste can find it; the sentence says which way, and never `copied` on hope."""
    data = text.encode("utf-8", "replace")
    size = f"{what}, {len(data)} bytes"
    used = _tool(data, environ)
    if used:
        return f"copied {size} with {used}"
    if len(data) > MAX_OSC52_BYTES:
        return f"{size} is too long for the terminal's clipboard, and no clipboard tool answered"
    output.write_raw(osc52(data, environ))
    output.flush()
    return f"sent {size} to the terminal; whether it took it cannot be known"


def osc52(data: bytes, environ: Mapping[str, str]) -> str:
    """The clipboard sequence, wrapped for the multiplexer it has to pass."""
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if environ.get("TMUX"):
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environ.get("TERM", "").startswith("screen"):
        return f"\x1bP{sequence}\x1b\\"
    return sequence


def _tool(data: bytes, environ: Mapping[str, str]) -> str:
    for variable, command, name in _TOOLS:
        if (variable and not environ.get(variable)) or shutil.which(command[0]) is None:
            continue
        try:
            done = subprocess.run(
                command, input=data, timeout=_TOOL_SECONDS, check=False, env=dict(os.environ), capture_output=True
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return name
    return ""
