"""Readable text out of bytes that nobody vouches for, and the words a refused call is answered with.

Pure functions. Whatever comes in, the text that goes out encodes as UTF-8: no lone surrogates, no NUL.
"""

import json
import re

from fluzo.core.records import ToolResult
from fluzo.core.redact import printable

# Escape sequences as ECMA-48 (5th edition, 5.4 and 8.3) and xterm write them. No pattern runs past the next ESC,
# and an unterminated string sequence ends with its line, so that a broken one cannot swallow what follows.
# `re` compiles all of these when they are first needed.
_ESCAPES = r"""(?x)
      (?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?               # OSC: title, clipboard, links
    | (?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\|\x9c)?      # DCS, SOS, PM, APC
    | (?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]                                     # CSI: colours, cursor
    | \x1b[ -/]*[0-~]                                                      # two-character sequences
    | \x1b
"""
_CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
_SURROGATES = r"[\x00\ud800-\udfff]"
_DIGITS_OR_ONE = r"\d+|\D"

MAX_REDRAW = 400
"""Longest part of a line, in characters, that is compared with what a carriage return redraws."""


def decode(data: bytes) -> str:
    """UTF-8 text; every byte that is none is shown as `\\xNN`."""
    return data.decode("utf-8", "backslashreplace")


def well_formed(text: str) -> str:
    """The same text without lone surrogates and NUL, which JSON and UTF-8 cannot carry; both become escapes."""
    return re.sub(_SURROGATES, lambda match: _json_like(match[0]), text)


def _json_like(char: str) -> str:
    """NUL, an undecodable byte of a name (PEP 383) or half of a pair, as a program writes it."""
    code = ord(char) - 0xDC00 if "\udc80" <= char <= "\udcff" else ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def clean_output(data: bytes) -> str:
    """A command's output as a person would have read it, for the model and for plain text.

    Bytes that are not UTF-8 are marked as `\\xNN`, colours, titles and links removed, lines redrawn by carriage
    return reduced to their last state, line ends made LF, other control characters shown as escapes.
    """
    text = re.sub(_ESCAPES, "", decode(data))
    if "\r" in text or "\b" in text:
        text = "\n".join(_redrawn(line) for line in text.split("\n"))
    return re.sub(_CONTROLS, lambda match: f"\\x{ord(match[0]):02x}", text)


def visible(data: bytes) -> str:
    """Text in which nothing is dropped: control characters but LF and tab become escapes, CRLF becomes LF."""
    text = decode(data).replace("\r\n", "\n")
    return re.sub(_CONTROLS, lambda match: f"\\x{ord(match[0]):02x}", text)


def cut_middle(text: str, limit_bytes: int, omitted_before: int = 0) -> str:
    """At most `limit_bytes` of UTF-8: a third from the start, the rest from the end, and what is missing said.

    `omitted_before` counts bytes that were lost before `text` was made; they are part of the figure.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return text
    room = max(limit_bytes - 64, 0)
    head, tail = data[: room // 3], data[len(data) - (room - room // 3) :]
    head = head[: head.rfind(b"\n") + 1] or head
    tail = tail[tail.find(b"\n") + 1 :] or tail if b"\n" in tail[: len(tail) // 2] else tail
    omitted = len(data) - len(head) - len(tail) + omitted_before
    start = head.decode("utf-8", "ignore").rstrip("\n")
    return f"{start}\n... {omitted} bytes omitted ...\n{tail.decode('utf-8', 'ignore')}"


def one_line(text: str, limit: int = 160) -> str:
    """The first line, made harmless for a terminal, cut to `limit` characters with an ellipsis."""
    first, _, more = text.strip().partition("\n")
    shown = printable(first, keep_newlines=False)
    if more or len(shown) > limit:
        shown = shown[: limit - 4].rstrip() + " ..."
    return shown


def shown_name(path: str) -> str:
    """A file name as text. One that would be misread is quoted as a JSON string, ready for a tool's arguments."""
    if path == path.strip() and printable(path, keep_newlines=False) == path:
        return path
    quoted = json.dumps(path, ensure_ascii=False)
    return "".join(json.dumps(c)[1:-1] if printable(c, keep_newlines=False) != c else c for c in quoted)


def _redrawn(line: str) -> str:
    """What is left of a line when carriage returns and backspaces have had their say."""
    if "\r" not in line and "\b" not in line:
        return line
    state = ""
    for drawn in line.split("\r"):
        update = _backspaced(drawn)
        if update.strip():
            state = _without_old_status(state, update.strip()) + update
    return state.rstrip() if line.rstrip("\r") != state else state


def _without_old_status(state: str, update: str) -> str:
    """The part of `state` that an update keeps: all before a status of the same shape, such as `10%` for `90%`.

    A redraw of any other shape replaces the line.
    """
    new = [_shape(token) for token in re.findall(_DIGITS_OR_ONE, update[:MAX_REDRAW])]
    old = re.findall(_DIGITS_OR_ONE, state[-2 * MAX_REDRAW :])
    end = old[len(old) - len(new) :]
    if len(update) > MAX_REDRAW or [_shape(token) for token in end] != new:
        return ""
    return state[: len(state) - sum(map(len, end))]


def _shape(token: str) -> str:
    return "0" if token.isdigit() else token


def _backspaced(text: str) -> str:
    if "\b" not in text:
        return text
    kept: list[str] = []
    for char in text:
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept)


# --- refusals -------------------------------------------------------------------------------------------------

_NEXT: dict[str, str] = {
    "permission_denied": "Do not try it again in another form; go on without it, or finish and say what is missing.",
    "permission_required": "Nobody is there to approve it; go on without it, or finish and say what is missing.",
    "path_refused": "Use a path inside the workspace.",
    "stale_file": "Read the file again, then repeat the change against what it says now.",
    "cancelled": "It was interrupted and may have happened in part; look before you repeat it.",
    "outcome_unknown": "It may or may not have happened; look before you repeat it.",
    "budget_exhausted": "Finish now with what you have.",
}
"""The next possible step by reason code; a code without one leaves that to the message."""


def refused(code: str, message: str) -> ToolResult:
    """The answer to a call that was denied, failed or never ran: the cause, then what can be done next."""
    text = well_formed(message.strip()) or code.replace("_", " ")
    if not text.endswith((".", "!", "?", "\n", ":")) and "\n" not in text:
        text += "."
    step = _NEXT.get(code, "")
    return ToolResult(ok=False, text=f"error: {text} {step}".rstrip(), code=code)
