"""The command palette: every action by a few of its letters.

Enter runs the lit row and nothing else; with no match, or where the lit one would do nothing now, it does nothing.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.layout import AnyContainer, Window
from prompt_toolkit.layout.controls import BufferControl

from .clicking import Clicks
from .controls import RowsList, acting_keys
from .floats import at_row, box_size, boxed, window_of
from .keys import Action
from .offers import ALIASES, idle_reason
from .text import Line, cells, shorten

if TYPE_CHECKING:
    from .app import Screen


_BY_ALIAS = 40
"""Less than most titles that have the letters together, more than letters that are apart."""


def score(wanted: str, text: str) -> int:
    """How well letters in order match a text; 0 for not at all. Whole words and beginnings count more."""
    wanted, text = wanted.lower(), text.lower()
    if not wanted:
        return 1
    if wanted in text:
        return 100 - text.index(wanted) + (50 if text.startswith(wanted) else 0)
    at = -1
    for char in wanted:
        at = text.find(char, at + 1)
        if at < 0:
            return 0
    return 10


def best_score(wanted: str, action: Action) -> int:
    """How well a text matches an action by its title, its command or another word for it."""
    wanted = wanted.removeprefix("/")
    named = max(score(wanted, action.title), score(wanted, action.slash[1:]))
    other = any(word.startswith(wanted.lower()) for word in ALIASES.get(action.id, "").split())
    return max(named, _BY_ALIAS if wanted and other else 0)


def matching(wanted: str, actions: Sequence[Action], recent: Sequence[str]) -> list[Action]:
    """The actions that match, best first; without a text the recent ones first."""
    ranked = []
    for number, action in enumerate(actions):
        best = best_score(wanted, action)
        used = len(recent) - list(reversed(recent)).index(action.id) if action.id in recent else 0
        if best:
            ranked.append((-best, -used, number, action))
    return [action for *_, action in sorted(ranked, key=lambda item: item[:3])]


class Palette:
    """A float over the conversation."""

    kind: Literal["page", "float"] = "float"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._lit = 0
        self._shown = range(0)
        self._buffer = Buffer(multiline=False, on_text_changed=lambda _: self._reset())
        acts: dict[str, Callable[[], object]] = {
            "palette.down": lambda: self._light(1),
            "palette.up": lambda: self._light(-1),
            "palette.run": self._run,
            "palette.write": self._write,
        }
        self.focus = Window(BufferControl(self._buffer, key_bindings=acting_keys(screen, acts)), height=1)
        clicks = Clicks(lambda y: at_row(self._shown, y), lambda: self._lit, self._light, self._run)
        rows = Window(RowsList(self._rows, clicks), always_hide_cursor=True)
        self.container: AnyContainer = boxed(screen, lambda: "Commands", "Enter run  Esc close", rows, self.focus)

    def hints(self) -> str:
        return "Enter run  Up/Down choose  Esc close"

    def refresh(self) -> None:
        """The list does not depend on the conversation."""

    def _reset(self) -> None:
        self._lit = 0

    def _found(self) -> list[Action]:
        return matching(self._buffer.text, self._screen.commands(), self._screen.recent)

    def _rows(self) -> list[Line]:
        found = self._found()
        columns, height = box_size(self._screen)
        room, width = height - 4, columns - 4
        if not found:
            self._shown = range(0)
            text = f'no match. Enter does nothing; Tab puts "/{self._buffer.text}" in the composer'
            return [[], [("class:text.muted", text)]]
        rows: list[Line] = [[]]
        self._shown = window_of(self._lit, len(found), room)
        for number in self._shown:
            action = found[number]
            reason = idle_reason(self._screen.state, action.id)
            plain = "class:text.faint" if reason else "class:text.primary"
            style = "class:bg.select class:text.on_select" if number == self._lit else plain
            keys = action.keys[0] if action.keys else ""
            told = f"{shorten(reason, 26):<26}" if reason else f"{action.slash:<16}{keys:<10}"
            left = shorten(action.title, width - 28)
            mark = ">" if number == self._lit else " "
            text = f"{mark} {left}{' ' * (width - 28 - cells(left))}{told}"
            rows.append([(style, text)])
        return rows

    def _light(self, step: int) -> None:
        self._lit = max(0, min(self._lit + step, len(self._found()) - 1))

    def _run(self) -> None:
        found = self._found()
        if not found:
            return
        action = found[min(self._lit, len(found) - 1)]
        if reason := idle_reason(self._screen.state, action.id):
            self._screen.say(f"{action.title}: {reason}")
            return
        self._screen.views.close()
        self._screen.run_action(action.id)

    def _write(self) -> None:
        text = self._buffer.text
        self._screen.views.close()
        self._screen.composer.insert(f"/{text.lstrip('/')}")
