"""Syntax colours: Pygments tokens as `code.*` styles, by the name of the fence only.

Invariant: the text of the lines is the text that came in, drawable; colouring never drops or adds a character.
"""

from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound

from .text import TAB_COLUMNS, Line, drawable

MAX_CHARACTERS = 50_000

_STYLES = (
    (Comment, "class:code.comment"),
    (Keyword, "class:code.keyword"),
    (Operator.Word, "class:code.keyword"),
    (String, "class:code.string"),
    (Number, "class:code.number"),
    (Name.Function, "class:code.name"),
    (Name.Decorator, "class:code.name"),
    (Name.Class, "class:code.type"),
    (Name.Builtin, "class:code.type"),
    (Keyword.Type, "class:code.type"),
)


@lru_cache(maxsize=32)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except (ClassNotFound, ValueError):
        return None


def highlight(text: str, language: str) -> list[Line]:
    """The lines of a code text; plain when the language is not known or the text is large."""
    text = "\n".join(line.expandtabs(TAB_COLUMNS) for line in text.split("\n"))
    lexer = _lexer(language.lower()) if language and len(text) <= MAX_CHARACTERS else None
    if lexer is None:
        return [[("", drawable(line))] if line else [] for line in text.split("\n")]
    lines: list[Line] = [[]]
    for kind, value in lexer.get_tokens(text):
        style = next((style for token, style in reversed(_STYLES) if kind in token), "")
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append((style, drawable(part)))
    return lines
