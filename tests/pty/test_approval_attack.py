import random
from itertools import pairwise

import pytest
from support.screen_inside import ScriptedScreen, ask, begin_task, inside, request

from fluzo.core.port import AnswerPermission, QueueIntervention
from fluzo.screens.approval import BURST, CONFIRM, GUARD

SEQUENCES = 250
"""Of each of the eight seeds; the pure machine gets many more in the unit tests."""
LETTERS = "abcdefghijklmnopqrstuwxyz"
TYPED = LETTERS + "123 123 .,v?"
ARROWS = ("\x1b[A", "\x1b[B")
GAPS = (0.001, 0.005, 0.02, 0.05, 0.13, 0.2, 0.4, 0.7)


def typed_so_far(shown: ScriptedScreen) -> str:
    sent = [item.text for item in shown.port.commands if isinstance(item, QueueIntervention)]
    return "".join([*sent, shown.screen.composer.text])


def fresh(shown: ScriptedScreen) -> None:
    screen = shown.screen
    shown.port.commands.clear()
    screen.state = screen.state._replace(requests=(), queued=())
    screen._requests_changed()
    screen.body.focus_composer()
    screen.composer.set("")


@pytest.mark.parametrize("seed", range(4))
def test_without_tab_no_key_ever_approves_and_the_composer_gets_everything(seed: int) -> None:
    dice = random.Random(seed)

    async def attack(shown: ScriptedScreen) -> None:
        begin_task(shown)
        for number in range(SEQUENCES):
            fresh(shown)
            wanted = ""
            appears = dice.randrange(8)
            for at in range(9):
                if at == appears:
                    ask(shown, *(request(10 * number + extra) for extra in range(dice.randint(1, 3))))
                    shown.lay_out()
                shown.clock.time += dice.choice(GAPS)
                kind = dice.randrange(10)
                if kind == 0:
                    shown.keys("\r" * dice.randint(1, 3))
                elif kind == 1:
                    pasted = "".join(dice.choices(TYPED, k=4)) + "2\r\r"
                    shown.keys(f"\x1b[200~{pasted}\x1b[201~")
                    wanted += pasted.replace("\r", "\n")
                elif kind == 2:
                    digits = dice.choice("123") * dice.randint(1, 8)  # A key held down.
                    shown.keys(digits)
                    wanted += digits
                else:
                    text = "".join(dice.choices(TYPED, k=dice.randint(1, 3)))
                    shown.keys(text)
                    wanted += text
            assert not [item for item in shown.port.commands if isinstance(item, AnswerPermission)]
            assert typed_so_far(shown) == wanted

    inside(attack)


@pytest.mark.parametrize("seed", range(4))
def test_with_any_keys_an_approval_is_always_a_choice_and_a_later_enter_on_a_card_at_rest(seed: int) -> None:
    dice = random.Random(100 + seed)
    approved = 0

    async def attack(shown: ScriptedScreen) -> None:
        nonlocal approved
        begin_task(shown)
        for number in range(SEQUENCES):
            fresh(shown)
            log: list[tuple[float, str]] = []
            letters = ""
            appears = dice.randrange(6)
            for at in range(16):
                if at == appears:
                    ask(shown, *(request(10 * number + extra) for extra in range(dice.randint(1, 2))))
                    shown.lay_out()
                shown.clock.time += dice.choice(GAPS)
                key = dice.choice(
                    ["\t", "\t", "\r", "\r", "\r", "\x1b", "\x1b[A", "\x1b[B", "1", "2", "3", "2", "3", "a", "p"]
                )
                if key in ARROWS and shown.screen.body.focus == "composer":
                    continue  # There they fetch what was sent before.
                before = len(shown.approvals())
                log.append((shown.clock.time, key))
                in_conversation = shown.screen.body.focus == "transcript"  # There letters are commands, not text.
                shown.keys(key)
                letters += key if key in LETTERS and not in_conversation else ""
                if len(shown.approvals()) > before:
                    approved += 1
                    check_deliberate(log)
            kept = [char for char in typed_so_far(shown) if char in LETTERS]
            assert "".join(kept) == letters

    inside(attack)
    assert approved > 0, "the attack never approved anything, so it would not notice"


def check_deliberate(log: list[tuple[float, str]]) -> None:
    (chosen_at, choice), (enter_at, enter) = log[-2:]
    assert enter == "\r"
    assert choice in ("1", "2", "3", "\x1b[A", "\x1b[B") or choice == "\r"
    while log[-2][1] == "\r":  # An Enter that came too early did nothing; the choice stands before it.
        del log[-2]
        chosen_at, choice = log[-2]
    assert choice in ("1", "2", "3", "\x1b[A", "\x1b[B")
    assert enter_at - chosen_at >= CONFIRM - 1e-9
    tab = max(number for number, (_, key) in enumerate(log) if key == "\t")
    keys = log[tab:]
    assert keys[-1][0] - keys[0][0] >= GUARD
    assert chosen_at - keys[0][0] >= GUARD - 1e-9
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(keys)]
    assert any(gap >= GUARD - 1e-9 for gap in gaps)
    assert gaps[-1] >= BURST


@pytest.mark.parametrize("typed", ["y", "yes\r", "2\r", "\r\r\r", "a\r2\r", "\x1b[B\r", " ", "allow\r"])
def test_what_a_hurried_person_types_as_the_card_appears_approves_nothing(typed: str) -> None:
    async def attack(shown: ScriptedScreen) -> None:
        begin_task(shown)
        for gap in (0.0, 0.01, 0.05, 0.2, 1.0):
            fresh(shown)
            ask(shown, request())
            shown.lay_out()
            for key in ("\t", *([typed] if typed.startswith("\x1b") else typed)):
                shown.clock.time += gap
                shown.keys(key)
            if gap < GUARD:
                assert not shown.approvals()
            assert shown.screen.request is not None

    inside(attack)
