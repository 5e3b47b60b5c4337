"""Whatever is pressed, pasted, clicked, resized or told, in any order: the screen stands, and shows what it means."""

import asyncio
import random
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from support import scenes
from support.records import picture
from support.scenes_views import VIEWS
from support.screen_inside import ScriptedScreen, ask, begin_task, feed, inside, request
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.errors import StorageError
from fluzo.core.port import FileNames, FolderFacts, PendingRequests, Query
from fluzo.screens import actions
from fluzo.screens.options import Options

STEPS = 120
LOOKS = 0.1
"""How often the picture is compared with one that is drawn from nothing."""
SIZES = ((80, 24), (120, 40), (160, 50), (60, 16), (50, 12), (20, 5), (200, 60))
FUNCTION_KEYS = ("\x1bOP", "\x1bOQ", "\x1bOR", "\x1bOS", *(f"\x1b[{n}~" for n in (15, 17, 18, 19, 20, 24)))
MOVES = ("\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[5~", "\x1b[6~", "\x1b[1;5F", "\x1b[1;5H", "\x1b[Z")
ACTS = ("\r", "\r", "\x1b", "\x1b", "\t", "\t", "\x7f", "\x10", "\x0f", "\x1bo", "\x12", "\x0c", "\x1bn", "\x1bp", "\n")
KEYS = (*FUNCTION_KEYS, *MOVES, *MOVES, *ACTS, *ACTS, *"\x01\x05\x0b\x15\x17\x19\x1f ")
LETTERS = "abcdefghijklmnopqrstuvwxyzKRGYNA/@[]<>123456789?.,\u00e9\u4e2d\U0001f468\u200d\U0001f469"
ELSEWHERE = ("raw", "suspend", "quit", "editor", "config.edit")
"""What gives the terminal to another program, or leaves."""


def refuse() -> Mapping[str, Any]:
    raise StorageError("The store cannot be read.", code="storage_unavailable")


def answers() -> Mapping[type, Any]:
    known: dict[type, Any] = dict.fromkeys(typing.get_args(Query), refuse)
    known[FolderFacts] = {"branch": "main", "changed": 0, "instructions": []}
    known |= {PendingRequests: {"pending": []}, FileNames: {"names": ["a.py", "docs/b.md"]}}
    for _, told in VIEWS.values():
        known.update(told)
    return known


def told(shown: ScriptedScreen, dice: random.Random, seq: int) -> None:
    """Something that the runtime tells of a running task."""
    asked = events.OperationRequested("run", "execute", "make", "f", 1, "c1")
    state = dice.choice(["running", "waiting", "stopping", "completed", "failed", "blocked", "cancelled"])
    many: list[Callable[[], None]] = [
        lambda: feed(shown, [event(seq, asked, f"o_{seq}"), event(seq, events.OperationIntended("run", "make"))]),
        lambda: feed(shown, [events.OutputProgress("t_1", f"o_{seq - 1}", "line\n" * dice.randint(1, 50), 90)]),
        lambda: feed(shown, [events.RetryProgress("t_1", 1, 1, 2, 3.0, "busy")]),
        lambda: feed(shown, [event(seq, events.InterventionQueued(f"i_{seq}", "also"))]),
        lambda: feed(shown, [event(seq, events.TaskStateChanged("running", state))]),
        lambda: ask(shown, request(seq)),
        lambda: ask(shown, request(seq, "question", question="Which?", choices=["x", "y"], several=seq % 2 == 0)),
        lambda: shown.screen.say("a note"),
    ]
    dice.choice(many)()


def press(shown: ScriptedScreen, dice: random.Random, commands: list[str]) -> str:
    """One act of a person who knows nothing; says which."""
    kind = dice.choices(("key", "text", "command", "size", "mouse", "paste", "pause"), (52, 16, 6, 4, 6, 4, 4))[0]
    if kind == "key":
        kind = repr(key := dice.choice(KEYS))
        shown.keys(key)
    elif kind == "text":
        for letter in dice.choices(LETTERS, k=dice.randint(1, 3)):
            shown.keys(letter)
    elif kind == "command":
        kind = dice.choice(commands)
        shown.keys(f"{kind}\r")
    elif kind == "size":
        shown.resizes(*dice.choice(SIZES))
    elif kind == "mouse":
        size = shown.screen.app.output.get_size()
        at = f"{dice.choice((0, 0, 0, 2, 32, 64, 65))};{dice.randint(1, size.columns)};{dice.randint(1, size.rows)}"
        shown.keys(f"\x1b[<{at}M" + f"\x1b[<{at}m" * dice.randint(0, 1))
    elif kind == "paste":
        shown.keys(f"\x1b[200~{''.join(dice.choices(LETTERS + chr(13), k=dice.choice((3, 30, 2000))))}\x1b[201~")
    else:
        shown.clock.time += dice.choice((0.01, 0.1, 0.5, 2.0, 10.0))
    return kind


@pytest.mark.parametrize("seed", range(6))
def test_the_screen_stands_whatever_comes_and_a_frame_is_what_would_be_drawn_from_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ELSEWHERE:
        monkeypatch.setitem(actions.HANDLERS, name, lambda screen, argument="": None)
    dice = random.Random(seed)

    async def attack(shown: ScriptedScreen) -> None:
        screen, log, failures = shown.screen, [], []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        commands = [action.slash for action in screen.registry.commands() if action.id not in ELSEWHERE]
        begins = dice.randrange(STEPS)
        for number in range(STEPS):
            if number == begins:
                screen.views.close_all()
                begin_task(shown)
            elif number > begins and dice.random() < 0.15:
                told(shown, dice, 100 + number)
            log.append(press(shown, dice, commands))
            for _ in range(dice.randint(0, 3)):
                await asyncio.sleep(0)
            if not screen.app.is_running or screen.app.is_done:
                break
            if dice.random() < LOOKS and "draws, frames" not in picture(shown):  # That page counts the frames itself.
                # What only a frame can tell, such as how long a page is, is shown by the next one.
                frame, anew = shown.draw(), shown.draw_anew()
                # The pixel mark is painted past the renderer, and only while it is on screen.
                room = screen.layout.columns - screen.layout.sidebar.width
                assert [row[:room].rstrip() for row in frame] == [row[:room].rstrip() for row in anew], log[-5:]
            assert not failures, log[-5:]

    options = Options("~/src/ledger", environ=ENVIRON, reduced_motion=seed % 2 == 0, dev_menu=seed % 3 > 0)
    inside(attack, options=options, answers=answers(), facts=scenes.FACTS)


ENVIRON = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


@pytest.mark.parametrize("key", [*FUNCTION_KEYS, "\x10", "\x12", "/tasks\r", "/find x\r"])
def test_on_a_screen_too_small_to_show_it_nothing_is_opened_and_nothing_breaks(key: str) -> None:
    async def work(shown: ScriptedScreen) -> None:
        shown.resizes(20, 5)
        assert "Too small" in picture(shown)
        shown.keys(key)
        shown.keys("\r\x1b[Bk")
        shown.draw()
        shown.resizes(80, 24)
        picture(shown)
        assert not shown.screen.views

    inside(work, options=Options("~/src/ledger", environ=ENVIRON), answers=answers(), facts=scenes.FACTS)


def test_a_page_that_was_open_when_the_screen_became_too_small_has_the_keyboard_again_afterwards() -> None:
    async def work(shown: ScriptedScreen) -> None:
        shown.keys("\x1bOP")
        assert "Keys" in picture(shown)
        shown.resizes(20, 5)
        shown.draw()
        shown.keys("abc\r")
        shown.resizes(80, 24)
        assert "Keys" in picture(shown)
        assert shown.screen.composer.text == "abc"
        shown.keys("\x1b[6~")
        assert "rows 1 to" not in picture(shown)
        shown.resizes(20, 5)
        shown.draw()
        shown.keys("\x1b")
        shown.resizes(80, 24)
        assert "> abc" in picture(shown)

    inside(work, options=Options("~/src/ledger", environ=ENVIRON), answers=answers(), facts=scenes.FACTS)


def test_text_typed_at_a_card_that_is_no_longer_shown_goes_to_the_draft_and_the_choice_is_dropped() -> None:
    async def work(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request())
        shown.draw()
        shown.keys("\t")
        shown.clock.time += 1
        shown.keys("2")
        assert shown.screen.card.choice == 2
        shown.resizes(20, 5)
        shown.draw()
        shown.clock.time += 1
        shown.keys("\r2")
        shown.keys("\x1b[200~ more\x1b[201~")
        shown.resizes(80, 24)
        shown.draw()
        assert (shown.screen.composer.text, shown.screen.body.focus) == ("2 more", "composer")
        assert not shown.screen.card.focused and not shown.approvals()

    inside(work, options=Options("~/src/ledger", environ=ENVIRON), answers=answers(), facts=scenes.FACTS)


def test_find_from_a_page_goes_back_to_the_conversation_and_keeps_the_draft() -> None:
    async def work(shown: ScriptedScreen) -> None:
        shown.keys("unsent")
        shown.keys("\x1bOP")
        shown.keys("\x1bOR")
        assert shown.draw()[-2].startswith("> /find") and "Type what to find" in shown.draw()[-1]
        shown.keys("word")
        assert shown.screen.composer.text == "/find word"
        shown.keys("\r")
        assert shown.screen.composer.text == "unsent"

    inside(work, options=Options("~/src/ledger", environ=ENVIRON), answers=answers(), facts=scenes.FACTS)
