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
_RECENT = "recent"
_RECENT_ROWS = 5


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


def listed(wanted: str, actions: Sequence[Action], recent: Sequence[str]) -> list[Action | str]:
    """The rows: what matches and, under a heading, what was run last: above all where nothing is typed, else below.

    Where nothing matches there is nothing at all, so that Enter runs nothing by chance.
    """
    found = matching(wanted, actions, recent)
    used = [name for name in dict.fromkeys(reversed(recent)) if name != "palette"]
    offered = {action.id: action for action in actions}
    last = [offered[name] for name in used if name in offered][:_RECENT_ROWS]
    if not wanted:
        return [_RECENT, *last, "", *(action for action in found if action not in last)] if last else [*found]
    last = [action for action in last if action not in found]
    return [*found, "", _RECENT, *last] if found and last else [*found]


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
        clicks = Clicks(self._at, lambda: self._lit, self._light, self._run)
        rows = Window(RowsList(self._rows, clicks), always_hide_cursor=True)
        self.container: AnyContainer = boxed(screen, lambda: "Commands", "Enter run  Esc close", rows, self.focus)

    def hints(self) -> str:
        return "Enter run  Up/Down choose  Esc close"

    def refresh(self) -> None:
        """The list does not depend on the conversation."""

    def _reset(self) -> None:
        self._lit = 0

    def _listed(self) -> list[Action | str]:
        return listed(self._buffer.text, self._screen.commands(), self._screen.recent)

    def _found(self) -> list[Action]:
        return [entry for entry in self._listed() if isinstance(entry, Action)]

    def _at(self, y: int) -> int | None:
        """The number of the action in a row of the picture; None on a heading and where nothing stands."""
        entries, number = self._listed(), at_row(self._shown, y)
        if number is None or isinstance(entries[number], str):
            return None
        return sum(isinstance(entry, Action) for entry in entries[:number])

    def _rows(self) -> list[Line]:
        entries = self._listed()
        columns, height = box_size(self._screen)
        if not entries:
            self._shown = range(0)
            text = f'no match. Enter does nothing; Tab puts "/{self._buffer.text}" in the composer'
            return [[], [("class:text.muted", text)]]
        lit = [number for number, entry in enumerate(entries) if isinstance(entry, Action)][self._lit]
        self._shown = window_of(lit, len(entries), height - 4)
        return [[], *(self._row(entries[number], columns - 4, lit=number == lit) for number in self._shown)]

    def _row(self, entry: Action | str, width: int, *, lit: bool) -> Line:
        if isinstance(entry, str):
            return [("class:text.muted", f"  {entry}")]
        reason = idle_reason(self._screen.state, entry.id)
        plain = "class:text.faint" if reason else "class:text.primary"
        keys = entry.keys[0] if entry.keys else ""
        told = f"{shorten(reason, 26):<26}" if reason else f"{entry.slash:<16}{keys:<10}"
        left = shorten(entry.title, width - 29)
        text = f"{'>' if lit else ' '} {left}{' ' * (width - 28 - cells(left))}{told}"
        return [("class:bg.select class:text.on_select" if lit else plain, text)]

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
        self._screen.run_action(action.id, named=True)

    def _write(self) -> None:
        text = self._buffer.text
        self._screen.views.close()
        self._screen.composer.insert(f"/{text.lstrip('/')}")
