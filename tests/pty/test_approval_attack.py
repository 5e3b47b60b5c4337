import random
from itertools import pairwise

import pytest
from support.screen_inside import ScriptedScreen, ask, begin_task, inside, request

from fluzo.core.port import AnswerPermission, AnswerQuestion, QueueIntervention
from fluzo.screens.approval import BURST, CONFIRM, GUARD

SEQUENCES = 250
"""Of each of the eight seeds; the pure machine gets many more in the unit tests."""
LETTERS = "abcdefghijklmnopqrstuwxyz"
STRAY = "ap"
"""Letters that no card knows: they are in the composer or in the field that was open, wherever they were typed."""
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


@pytest.mark.parametrize("kind", ["permission", "question"])
@pytest.mark.parametrize("seed", range(4))
def test_with_any_keys_an_answer_is_always_a_choice_or_words_and_a_later_enter_on_a_card_at_rest(
    seed: int, kind: str
) -> None:
    dice = random.Random(100 + seed)
    several = kind == "question" and seed % 2 == 0
    approved: list[object] = []
    written: list[object] = []

    async def attack(shown: ScriptedScreen) -> None:
        begin_task(shown)
        for number in range(SEQUENCES):
            fresh(shown)
            log: list[tuple[float, str]] = []
            letters = ""
            opened_at = 0.0
            appears = dice.randrange(6)
            for at in range(18):
                if at == appears:
                    asked = {"question": "Which?", "choices": ["x", "y", "z"], "several": several}
                    more = asked if kind == "question" else {}
                    wanted = (request(10 * number + extra, kind, **more) for extra in range(dice.randint(1, 2)))
                    ask(shown, *wanted)
                    shown.lay_out()
                shown.clock.time += dice.choice(GAPS)
                key = dice.choice(
                    [
                        "\t",
                        "\t",
                        "\r",
                        "\r",
                        "\r",
                        "\x1b",
                        *ARROWS,
                        *"123",
                        *"23",
                        *"ap",
                        *"eee[]",
                        "\x7f",
                        *" " * several,
                    ]
                )
                if key in (*ARROWS, "\x7f") and shown.screen.body.focus == "composer":
                    continue  # There they fetch what was sent before, or delete what is to be counted.
                before = answers(shown)
                log.append((shown.clock.time, key))
                focus, card = shown.screen.body.focus, shown.screen.card
                burst = card.held and shown.clock.time - card.key_at < BURST
                in_field = focus == "card" and card.writing and not burst
                shown.keys(key)
                # In the conversation letters are commands, not text.
                letters += key if key in STRAY and focus != "transcript" and not in_field else ""
                for answer in answers(shown)[len(before) :]:
                    check_answer(answer, log, opened_at if card.writing else None, (approved, written))
                if shown.screen.card.writing and not card.writing:
                    opened_at = shown.clock.time
            kept = [char for char in typed_so_far(shown) if char in STRAY]
            assert "".join(kept) == letters

    inside(attack)
    assert approved, "the attack never approved anything, so it would not notice"
    assert written, "the attack never wrote a reason or an answer, so it would not notice"


def answers(shown: ScriptedScreen) -> list[AnswerPermission | AnswerQuestion]:
    return [item for item in shown.port.commands if isinstance(item, AnswerPermission | AnswerQuestion)]


def check_answer(
    answer: AnswerPermission | AnswerQuestion,
    log: list[tuple[float, str]],
    opened_at: float | None,
    found: tuple[list[object], list[object]],
) -> None:
    """`opened_at` is when the field was opened that Enter was pressed in, None outside of it."""
    if isinstance(answer, AnswerQuestion):
        # Words may go with what was marked before the field was opened.
        chosen = answer.answer in ("x", "y", "z") or (bool(answer.chosen) and opened_at is None)
    else:
        chosen = answer.answer != "deny"
    if opened_at is None:
        check_deliberate(list(log))
    else:
        assert not chosen
        assert log[-1][1] == "\r"
        assert log[-1][0] - log[-2][0] >= BURST - 1e-9
        assert log[-1][0] - opened_at >= CONFIRM - 1e-9
        check_rested(log)
        found[1].append(answer)
    if chosen:
        found[0].append(answer)


def check_rested(log: list[tuple[float, str]]) -> None:
    """After the keyboard came to the card there was a pause as long as its guard wants."""
    tab = max(number for number, (_, key) in enumerate(log) if key == "\t")
    keys = log[tab:]
    assert keys[-1][0] - keys[0][0] >= GUARD
    assert any(later - earlier >= GUARD - 1e-9 for (earlier, _), (later, _) in pairwise(keys))


def check_deliberate(log: list[tuple[float, str]]) -> None:
    (chosen_at, choice), (enter_at, enter) = log[-2:]
    assert enter == "\r"
    assert choice in ("1", "2", "3", " ", *ARROWS, "\r")
    while log[-2][1] == "\r":  # An Enter that came too early did nothing; the choice stands before it.
        del log[-2]
        chosen_at, choice = log[-2]
    assert choice in ("1", "2", "3", " ", *ARROWS)
    assert enter_at - chosen_at >= CONFIRM - 1e-9
    check_rested(log)
    tab = max(at for at, key in log if key == "\t")
    assert chosen_at - tab >= GUARD - 1e-9
    assert log[-1][0] - log[-2][0] >= BURST


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
