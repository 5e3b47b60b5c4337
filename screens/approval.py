"""The permission card as a pure machine: which keys choose, answer, or go back to the composer (P1 to P12).

Invariant: no answer leaves here but by two separate acts on an armed card: a choice, then Enter at least `CONFIRM`
seconds later. A burst of keys, a paste, or anything printable that is no choice gives the keys back to the composer.
"""

from typing import Literal, NamedTuple

GUARD = 0.35
"""Seconds after taking focus, and seconds without a key, before the card listens."""
BURST = 0.03
"""Keys closer together than this were not pressed by a person who was reading."""
CONFIRM = 0.12

ANSWERS: tuple[Literal["deny", "once", "task"], ...] = ("deny", "once", "task")

KeyName = Literal["up", "down", "enter", "escape", "tab", "page", "text", "paste"]


class Card(NamedTuple):
    """`choice` counts from 1 and is 0 while nothing is chosen; `held` is printable text that the guard swallowed."""

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


class Effect(NamedTuple):
    """What the screen does after a key: insert `text` into the composer, answer `choice`, or something harmless."""

    kind: Literal["none", "insert", "answer", "blur", "next", "view"] = "none"
    text: str = ""
    choice: int = 0


NOTHING = Effect()


def take_focus(card: Card, now: float) -> Card:
    """Focus by an act of the person; whatever was chosen before is dropped."""
    return card._replace(
        focused=True, armed=False, focused_at=now, key_at=now, choice=0, chosen_at=0.0, held="", flash=False
    )


def drop_focus(card: Card) -> Card:
    return card._replace(focused=False, armed=False, choice=0, chosen_at=0.0, held="", flash=False)


def press(card: Card, key: KeyName, text: str, now: float) -> tuple[Card, Effect]:
    """The card after one key while it has focus. `text` is what the key would insert elsewhere."""
    if not card.focused:
        return card, NOTHING
    gap = now - card.key_at
    armed = card.armed or (now - card.focused_at >= GUARD and gap >= GUARD)
    card = card._replace(key_at=now, armed=armed, flash=False)
    if key in ("escape", "tab"):
        return drop_focus(card), Effect("blur" if key == "escape" else "next", card.held)
    if key == "paste" or (armed and gap < BURST):
        return drop_focus(card), Effect("insert", card.held + (text if key in ("text", "paste") else ""))
    return _act(card, key, text, now) if armed else _guarded(card, key, text)


def _guarded(card: Card, key: KeyName, text: str) -> tuple[Card, Effect]:
    if key != "text":
        return card, NOTHING
    if _is_choice(card, text) or text == "v":
        return card._replace(held=card.held + text), NOTHING
    return drop_focus(card), Effect("insert", card.held + text)


def _act(card: Card, key: KeyName, text: str, now: float) -> tuple[Card, Effect]:
    card = card._replace(held="")
    if key == "enter":
        if card.choice and now - card.chosen_at >= CONFIRM:
            return drop_focus(card), Effect("answer", choice=card.choice)
        return card._replace(flash=True), NOTHING
    if key in ("up", "down"):
        step = 1 if key == "down" else -1
        start = card.choice or (0 if key == "down" else card.choices + 1)
        return card._replace(choice=min(max(start + step, 1), card.choices), chosen_at=now), NOTHING
    if _is_choice(card, text):
        # Should the next key follow within a burst, this one was typing as well.
        return card._replace(choice=int(text), chosen_at=now, held=text), NOTHING
    if key == "page" or text == "v":
        return card, Effect("view")
    return drop_focus(card), Effect("insert", text)


def _is_choice(card: Card, text: str) -> bool:
    return len(text) == 1 and text in "123456789" and int(text) <= card.choices
