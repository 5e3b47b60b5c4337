"""What the runtime tells of the settings, and saving some of them, for the views that offer a few.

Invariant: what is saved was typed by the registry that made the rows; nothing counts as saved before the runtime has
said so, and a file that has moved meanwhile is not written over.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from fluzo.core.port import Ack, ConfigDetail, Query, SaveConfig, Snapshot

from .sheet import Reader

if TYPE_CHECKING:
    from .app import Screen

Row = Mapping[str, Any]


class SettingsFile:
    """`rows` by key, empty while they are not known."""

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._reader = Reader(screen, self._taken)
        self._fingerprint = ""
        self._problem = ""
        self.rows: Mapping[str, Row] = {}
        self.consent: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """Why the file cannot be read or written now, or nothing."""
        return self._reader.problem or self._problem

    def read(self) -> None:
        """Ask for the rows; nothing comes while the runtime is not there."""
        self._reader.ask(ConfigDetail())

    def _taken(self, query: Query, snapshot: Snapshot) -> None:
        data = snapshot.data
        self._fingerprint, self._problem = str(data["fingerprint"]), str(data["problem"])
        self.rows = {str(row["key"]): row for row in data["rows"]}
        self.consent = tuple(map(str, data["consent"]))

    def save(self, values: Mapping[str, Any], done: Callable[[Ack], None]) -> None:
        """Save these keys and no others; `done` is called on the screen's loop with what came of it."""
        screen = self._screen
        if screen.link is None or screen.link.port is None or not self.rows:
            done(Ack(False, code="runtime_closed", message="The runtime is not open, so nothing can be saved."))
            return
        answered = partial(screen.intake.on_loop, self._saved, done)
        screen.link.act(SaveConfig(dict(values), self._fingerprint), answered)

    def _saved(self, done: Callable[[Ack], None], ack: Ack) -> None:
        done(ack)
        self.read()
