"""The permission and question card as a pure machine: which keys choose, write, answer, or go back to the composer
(P1 to P14).

Invariant: no answer leaves here but by two separate acts on an armed card: a choice, or opening the field for words,
then Enter at least `CONFIRM` seconds later. Words only ever deny or answer a question. Outside the field a burst of
keys, a paste, or anything printable that is no choice gives the keys back to the composer.
"""

from typing import Literal, NamedTuple

from .text import clusters

GUARD = 0.35
"""Seconds after taking focus, and seconds without a key, before the card listens."""
BURST = 0.03
"""Keys closer together than this were not pressed by a person who was reading."""
CONFIRM = 0.12
MAX_WORDS = 500
"""Characters of a reason or an answer."""

ANSWERS: tuple[Literal["deny", "once", "task"], ...] = ("deny", "once", "task")

KeyName = Literal["up", "down", "enter", "escape", "tab", "page", "text", "paste", "backspace"]


class Card(NamedTuple):
    """`choice` counts from 1 and is 0 while nothing is chosen; `held` is printable text that the guard swallowed.

    With `many` the choice is only lit; a digit, or Space on it, marks and unmarks, and the `marks` are what is sent.
    While `writing`, keys go into `words`: the reason of a denial, or the free answer to a question.
    """

    operation_id: str = ""
    fingerprint: str = ""
    choices: int = 3
    focused: bool = False
    armed: bool = False
    focused_at: float = 0.0
    key_at: float = 0.0
    chosen_at: float = 0.0
    choice: int = 0
    held: str = ""
    flash: bool = False
    question: bool = False
    several: bool = False
    """Other requests wait as well."""
    many: bool = False
    """Any number of the choices of a question may be marked."""
    marks: tuple[int, ...] = ()
    writing: bool = False
    words: str = ""


class Effect(NamedTuple):
    """What the screen does after a key: insert `text` into the composer, answer `choice`, or something harmless.

    An answer of choice 0 is the `text` itself, with the `marks` of a question that takes several; of choice 1 of a
    permission, `text` is the reason of the denial.
    """

    kind: Literal["none", "insert", "answer", "blur", "next", "view", "turn"] = "none"
    text: str = ""
    choice: int = 0
    marks: tuple[int, ...] = ()


NOTHING = Effect()


def take_focus(card: Card, now: float) -> Card:
    """Focus by an act of the person; whatever was chosen before is dropped."""
    return drop_focus(card)._replace(focused=True, focused_at=now, key_at=now)


def drop_focus(card: Card) -> Card:
    """Without focus and choice; what was written into the field is kept."""
    return card._replace(
        focused=False, armed=False, choice=0, chosen_at=0.0, held="", flash=False, writing=False, marks=()
    )


def press(card: Card, key: KeyName, text: str, now: float) -> tuple[Card, Effect]:
    """The card after one key while it has focus. `text` is what the key would insert elsewhere."""
    if not card.focused:
        return card, NOTHING
    gap = now - card.key_at
    if card.armed and gap >= BURST:
        card = card._replace(held="")  # The key before this one chose, and nothing followed it at once.
    armed = card.armed or (now - card.focused_at >= GUARD and gap >= GUARD)
    card = card._replace(key_at=now, armed=armed, flash=False)
    if card.writing:
        return _write(card, key, text, now, gap)
    if key in ("escape", "tab"):
        return drop_focus(card), Effect("blur" if key == "escape" else "next", card.held)
    if key == "paste" or (armed and gap < BURST):
        return drop_focus(card), Effect("insert", card.held + (text if key in ("text", "paste") else ""))
    return _act(card, key, text, now) if armed else _guarded(card, key, text)


def _guarded(card: Card, key: KeyName, text: str) -> tuple[Card, Effect]:
    if key != "text":
        return card, NOTHING
    if _is_choice(card, text) or text in ("v", "e") or (card.many and text == " "):
        return card._replace(held=card.held + text), NOTHING
    return drop_focus(card), Effect("insert", card.held + text)


def _write(card: Card, key: KeyName, text: str, now: float, gap: float) -> tuple[Card, Effect]:
    """A key in the field. A key that follows the opening one in a burst shows that both were typing."""
    effect = NOTHING
    if card.held and gap < BURST:
        return drop_focus(card), Effect("insert", card.held + (text if key in ("text", "paste") else ""))
    card = card._replace(held="")
    if key in ("text", "paste"):
        card = card._replace(words=(card.words + " ".join(text.splitlines()))[:MAX_WORDS])
    elif key == "backspace":
        card = card._replace(words="".join(clusters(card.words)[:-1]))
    elif key == "escape":
        card = card._replace(writing=False, choice=0)
    elif key == "tab":
        card, effect = drop_focus(card), Effect("next")
    elif key == "enter":
        words = card.words.strip()
        if words and gap >= BURST and now - card.chosen_at >= CONFIRM:
            return drop_focus(card), Effect("answer", words, 0 if card.question else 1, card.marks)
        card = card._replace(flash=True)
    return card, effect


def _act(card: Card, key: KeyName, text: str, now: float) -> tuple[Card, Effect]:
    card = card._replace(held="")
    if key == "enter":
        return _confirm(card, now)
    if key in ("up", "down"):
        step = 1 if key == "down" else -1
        start = card.choice or (0 if key == "down" else card.choices + 1)
        return card._replace(choice=min(max(start + step, 1), card.choices), chosen_at=now), NOTHING
    if key == "backspace":
        return drop_focus(card), Effect("blur")  # Whoever deletes believes to be in the composer.
    if _is_choice(card, text) or (card.many and text == " "):
        return _choose(card, text, now), NOTHING
    if text == "e":
        return card._replace(writing=True, choice=0 if card.question else 1, chosen_at=now, held="e"), NOTHING
    return _look(card, key, text)


def _choose(card: Card, text: str, now: float) -> Card:
    number = card.choice if text == " " else int(text)
    if not number:
        return card._replace(flash=True)
    marks = tuple(sorted(set(card.marks) ^ {number})) if card.many else ()
    # Should the next key follow within a burst, this one was typing as well.
    return card._replace(choice=number, marks=marks, chosen_at=now, held=text)


def _confirm(card: Card, now: float) -> tuple[Card, Effect]:
    if card.many:
        if card.marks and now - card.chosen_at >= CONFIRM:
            return drop_focus(card), Effect("answer", card.words.strip(), 0, card.marks)
        return card._replace(flash=True), NOTHING
    if card.choice and now - card.chosen_at >= CONFIRM:
        words = card.words.strip() if card.choice == 1 and not card.question else ""
        return drop_focus(card), Effect("answer", words, card.choice)
    return card._replace(flash=True), NOTHING


def _look(card: Card, key: KeyName, text: str) -> tuple[Card, Effect]:
    if key == "page" or text == "v":
        return card, Effect("view")
    if card.several and text in ("[", "]"):
        return card, Effect("turn", choice=1 if text == "]" else -1)
    return drop_focus(card), Effect("insert", text)


def _is_choice(card: Card, text: str) -> bool:
    return len(text) == 1 and text in "123456789" and int(text) <= card.choices
