"""Reading for an empty conversation: what stands in the folder, and what was done in it before.

Invariant: nothing waits for it, and what cannot be told is left out.
"""

from functools import partial
from typing import TYPE_CHECKING

from fluzo.core.port import FolderFacts, SessionList, Snapshot

from .session_text import session_state
from .sheet import safe
from .state import Earlier, EarlierRead, FolderRead

if TYPE_CHECKING:
    from .app import Screen

_SESSIONS = 50
"""Sessions that are counted; further ones are called more."""


def read_earlier(screen: "Screen") -> None:
    """Ask for what is shown; what cannot be told is left out."""
    link, on_loop = screen.link, screen.intake.on_loop
    if link is not None:
        link.look(FolderFacts(), partial(on_loop, _folder_read, screen), _not_told)
        link.look(SessionList(_SESSIONS), partial(on_loop, _sessions_read, screen), _not_told)


def _not_told(problem: str) -> None:
    """The page does without it; what really keeps Fluzo from working is told elsewhere."""


def _folder_read(screen: "Screen", snapshot: Snapshot) -> None:
    facts = snapshot.data
    sizes = tuple((safe(item["name"]), int(item["size_bytes"])) for item in facts["instructions"])
    screen.apply(FolderRead(str(facts["branch"]), int(facts["changed"]), sizes))


def _sessions_read(screen: "Screen", snapshot: Snapshot) -> None:
    sessions = snapshot.data["sessions"]
    if sessions:
        last = max(sessions, key=lambda item: str(item["updated_at"]))
        tasks = sum(int(item["tasks"]) for item in sessions)
        more = len(sessions) >= _SESSIONS
        told = (safe(last["title"]), str(last["updated_at"]), session_state(last))
        screen.apply(EarlierRead(Earlier(len(sessions), more, tasks, *told)))
