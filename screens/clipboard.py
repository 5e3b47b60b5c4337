"""Copying as source text: a local tool that answers, else the terminal and a file, and an honest sentence about it.

Invariant: no key waits for a clipboard; tools run on a thread of their own. Nothing is called copied unless
a tool took it.
"""

import base64
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.output import Output

from .chips import size_text

if TYPE_CHECKING:
    from .app import Screen

MAX_OSC52_BYTES = 100_000
SCREEN_BYTES = 700
"""What GNU screen passes on in one string (its manual says 768)."""
COPIED = "copied.txt"
_TOOL_SECONDS = 0.2
_TOOLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
    ("WSL_DISTRO_NAME", ("clip.exe",)),
)
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SPELT = re.compile("<U\\+[0-9A-F]{4,6}>")


def copy(screen: "Screen", text: str, what: str) -> None:
    """Put the text where a paste can find it, and say which way it went when that is known."""
    text, spelt = prepared(text)
    data = text.encode("utf-8", "replace")
    drive = screen.link.drive if screen.link is not None else ""
    environ, output = screen.options.environ, screen.app.output

    def work() -> None:
        used = with_tool(data, environ)
        kept = "" if used else to_file(data, drive)
        screen.intake.on_loop(finish, used, kept)

    def finish(used: str, kept: str) -> None:
        sent = not used or "SSH_CONNECTION" in environ
        sent = sent and to_terminal(data, output, environ)
        screen.say(sentence(f"{what}, {size_text(len(data))}", used, kept, spelt, sent=sent))

    threading.Thread(target=work, name="fluzo-copy", daemon=True).start()


def prepared(text: str) -> tuple[str, str]:
    """The text as it may be pasted, hidden characters spelt `<U+202E>`, and the first place of such a one."""
    text = _HIDDEN.sub(lambda match: f"<U+{ord(match[0]):04X}>", text)
    found = _SPELT.search(text)
    return text, text[max(found.start() - 8, 0) : found.end() + 8].replace("\n", " ") if found else ""


def sentence(what: str, used: str, kept: str, spelt: str, *, sent: bool) -> str:
    """What happened, and `copied` only for what a tool took."""
    if used:
        told = f"copied {what}, with {used}"
    elif sent:
        told = f"sent {what}, to the terminal" + (f", and to {kept}" if kept else ", which may not take it")
    else:
        told = f"{what}: too long for the terminal, " + (f"it is in {kept}" if kept else "and no tool took it")
    return told + (f'; hidden characters are spelt out: "{spelt}"' if spelt else "")


def to_file(data: bytes, drive: str) -> str:
    """Keep the text in a private file; its name beneath the folder, empty when there is none."""
    from .drafts import write_private

    path = Path(drive) / COPIED
    try:
        if drive:
            write_private(path, data)
    except OSError:
        return ""
    return f"{path.parent.name}/{path.name}" if drive else ""


def to_terminal(data: bytes, output: Output, environ: Mapping[str, str]) -> bool:
    """Hand the text to the terminal; False when it is too long for that."""
    if len(data) > MAX_OSC52_BYTES:
        return False
    output.write_raw(osc52(data, environ))
    output.flush()
    return True


def osc52(data: bytes, environ: Mapping[str, str]) -> str:
    """The clipboard sequence, wrapped for the multiplexer it has to pass."""
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if environ.get("TMUX"):
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environ.get("TERM", "").startswith("screen"):
        pieces = (sequence[at : at + SCREEN_BYTES] for at in range(0, len(sequence), SCREEN_BYTES))
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return sequence


def with_tool(data: bytes, environ: Mapping[str, str]) -> str:
    """The local tool that took the text; empty when none answered in time."""
    for variable, command in _TOOLS:
        if (variable and not environ.get(variable)) or shutil.which(command[0]) is None:
            continue
        try:
            # These tools stay behind to serve the clipboard: a pipe of ours that they hold would never end.
            done = subprocess.run(
                command,
                input=data,
                timeout=_TOOL_SECONDS,
                check=False,
                env=dict(os.environ),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return command[0]
    return ""
