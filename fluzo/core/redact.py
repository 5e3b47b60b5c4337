"""The one redactor: a pure function used before anything is stored, logged, shown or sent.

It knows the secret values of this run (provider keys, credentials) and the shapes that secrets commonly
have. What it cannot recognise it cannot hide; it is a net under the rule that secrets are never put into
text in the first place.
"""

import re
from collections.abc import Callable, Iterable, Mapping

MASK = "[redacted]"

_SHAPES = re.compile(
    r"""
    \b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}            # OpenAI and alike
  | \bgh[pousr]_[A-Za-z0-9]{20,}                 # GitHub
  | \bgithub_pat_[A-Za-z0-9_]{20,}
  | \bxox[abprs]-[A-Za-z0-9-]{10,}               # Slack
  | \bAKIA[0-9A-Z]{16}\b                         # AWS access key id
  | \bAIza[0-9A-Za-z_-]{35}                      # Google
  | \b(?:hf_|gsk_|glpat-|xai-|r8_)[A-Za-z0-9_-]{16,}     # Hugging Face, Groq, GitLab, xAI, Replicate
  | \beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}   # JWT (RFC 7519)
  | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)   # PEM (RFC 7468)
  | (?<=\bBearer\ )[A-Za-z0-9._~+/=-]{16,}                # RFC 6750
    """,
    re.VERBOSE | re.DOTALL,
)
_URL_USERINFO = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")

_SHAPE_BEGUN = re.compile(
    r"(?:\b(?:sk|pk|rk)-|\bgh[pousr]_|\bgithub_pat_|\bxox[abprs]-|\bAKIA|\bAIza|\b(?:hf_|gsk_|glpat-|xai-|r8_)|\beyJ"
    r"|\bBearer )[A-Za-z0-9._~+/=-]*\Z|://[^/\s@]*\Z"
)
"""The end of a text that may go on to be one of the shapes."""
_LONGEST_BEGINNING = 2048
MIN_SECRET_LENGTH = 6
"""A shorter value would mask ordinary words; such a credential protects nothing anyway."""

Redactor = Callable[[str], str]


def make_redactor(secrets: Iterable[str] = ()) -> Redactor:
    """A function that masks the given values and everything shaped like a secret."""
    values = sorted({value for value in secrets if len(value) >= MIN_SECRET_LENGTH}, key=len, reverse=True)
    known = re.compile("|".join(re.escape(value) for value in values)) if values else None

    def redact(text: str) -> str:
        if known is not None:
            text = known.sub(MASK, text)
        return _URL_USERINFO.sub(MASK, _SHAPES.sub(MASK, text))

    return redact


class GrowingRedactor:
    """A redactor that learns further values while it is in use, each before any text can hold it."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._values = frozenset(secrets)
        self._redact = make_redactor(self._values)

    def learn(self, secrets: Iterable[str]) -> None:
        """Mask these values too, from now on and for good; usable from any thread."""
        values = self._values.union(secrets)
        if values != self._values:
            self._values, self._redact = values, make_redactor(values)

    def __call__(self, text: str) -> str:
        return self._redact(text)

    def begun(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a known value."""
        longest = max(map(len, self._values), default=1)
        for size in range(min(longest - 1, len(text)), 0, -1):
            if any(value.startswith(text[-size:]) for value in self._values if len(value) >= MIN_SECRET_LENGTH):
                return size
        return 0


def unfinished(redact: Redactor, text: str) -> int:
    """How many characters at the end of a redacted text may be the beginning of a secret that goes on."""
    known = redact.begun(text) if isinstance(redact, GrowingRedactor) else 0
    shape = _SHAPE_BEGUN.search(text, max(len(text) - _LONGEST_BEGINNING, 0))
    return max(known, len(text) - shape.start() if shape else 0)


class RedactedStream:
    """Redacts a text that comes in pieces: what may be the beginning of a known value waits for the next piece.

    Shapes of secrets are recognised within a piece only; the whole text, once it is there, is redacted as a whole.
    """

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._held = ""

    def feed(self, text: str) -> str:
        """What of the text so far can be shown now."""
        clean = self._redact(self._held + text)
        shown = len(clean) - (self._redact.begun(clean) if isinstance(self._redact, GrowingRedactor) else 0)
        self._held = clean[shown:]
        return clean[:shown]

    def rest(self) -> str:
        """What was still waiting, when nothing more comes."""
        held, self._held = self._held, ""
        return held


def redact_value(value: object, redact: Redactor) -> object:
    """The same JSON-like value with every string in it redacted, keys included."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(str(key)): redact_value(item, redact) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(item, redact) for item in value]
    return value


def printable(text: str, *, keep_newlines: bool = True) -> str:
    """Text that cannot act on a terminal: control, bidi and format characters are spelt, as `<U+202E>`.

    Newline and tab stay when `keep_newlines`; everything else of Unicode categories Cc, Cf, Cs, Co, Zl and Zp is spelt
    by its number, an undecodable byte as `\\xNN` (PRD 29.2.3; bidi controls as in Unicode TR 9).
    """
    if text.isprintable():  # None of those categories is.
        return text
    return re.sub(_UNSAFE, lambda m: _escape(m[0], keep_newlines), text)


_UNSAFE = (
    "[\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e007f]"
)


def _escape(char: str, keep_newlines: bool) -> str:
    if keep_newlines and char in "\n\t":
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # An undecodable byte of a file name (PEP 383).
    return f"<U+{code:04X}>"
