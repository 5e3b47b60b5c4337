"""Hostile text of the runtime's answers in every view: none of its bytes reaches the terminal as a control."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from support import scenes
from support.records import session_row, until
from support.scenes_views import VIEWS
from support.screen_inside import ScriptedScreen, begin_task, feed, inside
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.port import FileNames, FolderFacts, SessionList
from fluzo.screens.completion import Found
from fluzo.screens.options import Options
from fluzo.screens.state import Accepted

HOSTILE = "A\x1b]52;c;ZXZpbA==\x07B\x1b[2J\x1b[?1049lC\x9b31mD\x1bP1$q\x1b\\E\x00\x07\x08\u202eF\r\nG"
ALLOWED = re.compile("\x1b(?:\\[[0-9;?>]*[A-Za-z]|\\[[0-9;]* q|[78]|\\(B|\\[>4;1m|\\[>4m)")
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]")
WORDS = {"text", "title", "summary", "help", "default", "effective", "saved", "problem", "hint", "message", "first"}
WORDS |= {"last", "branch", "what", "why", "question", "command", "model", "reasoning"}
ENVIRON = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def poisoned(value: Any, name: str = "") -> Any:
    """The same value with what people or models may have written made hostile at its end."""
    if isinstance(value, Mapping):
        return {key: poisoned(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(poisoned(item, name) for item in value) if not hasattr(value, "_fields") else value
    return value + HOSTILE if isinstance(value, str) and value and name in WORDS else value


def harmless(shown: ScriptedScreen) -> None:
    left = ALLOWED.sub("", shown.written)
    assert not CONTROL.search(left), CONTROL.search(left)


@pytest.mark.parametrize("name", VIEWS)
def test_no_control_byte_of_an_answer_reaches_the_terminal_in_a_view(name: str) -> None:
    show, answers = VIEWS[name]

    async def attack(shown: ScriptedScreen) -> None:
        await show(shown)
        shown.draw()
        harmless(shown)

    options = Options("~/src/ledger", environ=ENVIRON, reduced_motion=True, dev_menu=True)
    hostile = {kind: poisoned(answer) for kind, answer in answers.items()}
    inside(attack, columns=160, rows=50, options=options, answers=hostile, facts=scenes.FACTS)


async def _idle(shown: ScriptedScreen) -> None:
    await until(lambda: "Last here" in "\n".join(shown.draw()))


async def _live(shown: ScriptedScreen) -> None:
    begin_task(shown)
    asked = events.OperationRequested("run", "execute", "make", "f", 1, "c1")
    feed(shown, [event(3, asked, "o_1"), event(4, events.OperationIntended("run", "make"), "o_1")])
    feed(shown, [events.OutputProgress("t_1", "o_1", f"{HOSTILE}\n{HOSTILE}", 90)])


async def _retry(shown: ScriptedScreen) -> None:
    begin_task(shown)
    feed(shown, [events.RetryProgress("t_1", 1, 1, 2, 3.0, HOSTILE)])


async def _history(shown: ScriptedScreen) -> None:
    shown.screen.composer.load_history([[HOSTILE], [f"second {HOSTILE}"]])
    shown.keys("\x12")


async def _queue(shown: ScriptedScreen) -> None:
    begin_task(shown)
    feed(shown, [Accepted("r", "t_1", "s_1"), event(3, events.InterventionQueued("i_1", HOSTILE))])
    shown.screen.run_action("queue.show")


async def _files(shown: ScriptedScreen) -> None:
    shown.screen.files.ask = None
    shown.screen.files._found = Found({f"ab{HOSTILE}": 3}, (f"ab{HOSTILE}/",))
    shown.keys("@ab")
    buffer = shown.screen.composer.buffer
    await until(lambda: buffer.complete_state is not None and len(buffer.complete_state.completions) == 2)
    assert "ab" in "\n".join(shown.draw()[-8:-2])


async def _raw(shown: ScriptedScreen) -> None:
    begin_task(shown, HOSTILE)
    shown.screen.run_action("help")


PLACES: Mapping[str, Callable[[ScriptedScreen], Awaitable[None]]] = {
    "idle": _idle,
    "live output": _live,
    "retry": _retry,
    "history": _history,
    "queue": _queue,
    "files": _files,
    "under a page": _raw,
}


@pytest.mark.parametrize("name", PLACES)
def test_no_control_byte_reaches_the_terminal_elsewhere(name: str) -> None:
    async def attack(shown: ScriptedScreen) -> None:
        await PLACES[name](shown)
        shown.draw()
        harmless(shown)

    sessions = [session_row(title=HOSTILE, first=HOSTILE, last=HOSTILE)]
    facts = {"branch": HOSTILE, "changed": 2, "instructions": [{"name": HOSTILE, "size_bytes": 3}]}
    answers = {SessionList: {"sessions": sessions}, FolderFacts: facts, FileNames: {"names": []}}
    options = Options("~/src/ledger", environ=ENVIRON, reduced_motion=True)
    inside(attack, columns=160, rows=50, options=options, answers=answers, facts=scenes.FACTS)
