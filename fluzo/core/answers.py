"""The user's answer to a question of the agent: how a typed one is read, and how one is told. Pure.

Invariant: numbers stand for choices only where each of them is one; what is no pick of choices is the user's own words.
"""

import re
from collections.abc import Sequence

from fluzo.core.named import NamedTuple

_NUMBERS = re.compile(r"\d{1,4}(?:[\s,;]+\d{1,4})*[,;]?")


class Typed(NamedTuple):
    """Numbers of choices, from 1 in their order, or words; `problem` says why it is neither, and what to do."""

    chosen: tuple[int, ...] = ()
    words: str = ""
    problem: str = ""


def read_answer(typed: str, choices: int, *, several: bool) -> Typed:
    """What a person typed: `2`, or where several may be chosen `1,3`; anything else is words. Empty is no answer."""
    text = typed.strip()
    if not choices or not _NUMBERS.fullmatch(text):
        return Typed(words=text)
    numbers = sorted({int(number) for number in re.findall(r"\d+", text)})
    unknown = [number for number in numbers if not 1 <= number <= choices]
    if not several and len(numbers) == 1:
        return Typed(words=text) if unknown else Typed(tuple(numbers))
    if not several:
        return Typed(problem="Only one of them can be chosen; give one number, or answer in words.")
    if unknown:
        what = ", ".join(map(str, unknown))
        return Typed(problem=f"There is no choice {what}; give numbers from 1 to {choices}, like 1,2, or words.")
    return Typed(tuple(numbers))


def told(answer: str, chosen: Sequence[str]) -> str:
    """An answer for people: each choice in a row of its own, then the words."""
    return "\n".join(part for part in (*chosen, answer) if part)
