"""Ending a task: the cancel that lets it finish what it must, and the question before a force stop.

Invariant: nothing here ends a process without a choice and its confirmation on the question's own page.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fluzo.core.port import Query, Snapshot, TaskDetail

from .chrome import FORCING
from .question import Question, paragraph
from .sheet import Reader, safe
from .state import RUNNING_STATES
from .task_text import process_text
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

NAME = "Force stop?"
_CHOICES = (("Keep waiting", "it goes on ending by itself"), ("Force stop", "its processes are killed now"))
_RISK = (
    "Its processes are killed at once, without a chance to finish: what they were doing may be half done, in files, "
    "in Git and on other machines. What the task has edited stays as it is."
)


def cancel(screen: "Screen", task: Mapping[str, Any] | None) -> None:
    """Cancel a task that runs; the row says `stopping` when the runtime has said so."""
    if task is None or screen.link is None or task["state"] not in RUNNING_STATES:
        screen.say("This task does not run; there is nothing to cancel")
        return
    screen.link.cancel(str(task["id"]))
    screen.say("Asked to cancel; what was edited stays")


def ask_force_stop(screen: "Screen", task_id: str, text: str) -> None:
    """Open the question; asked again while it is open, it stays as it is."""
    top = screen.views[-1] if screen.views else None
    if isinstance(top, Question) and top.name == NAME:
        return
    screen.views.show(_ForceStop(screen, task_id, text).question)


class _ForceStop:
    """What the question shows, and what its answer does."""

    def __init__(self, screen: "Screen", task_id: str, text: str) -> None:
        self._screen = screen
        self._task_id = task_id
        self._title = safe(text)
        self._processes: list[str] | None = None
        self._ended = False
        self._reader = Reader(screen, self._read)
        self._reader.ask(TaskDetail(task_id))
        self.question = Question(
            screen, NAME, about=self._about, choices=lambda: _CHOICES, over=self._over, chosen=self._chosen
        )

    def _read(self, query: Query, snapshot: Snapshot) -> None:
        self._processes = [process_text(item) for item in snapshot.data.get("processes") or ()]
        self._ended = snapshot.data["task"]["state"] not in RUNNING_STATES

    def _over(self) -> str:
        shown = self._screen.state.tasks.get(self._task_id)
        ended = self._ended or (shown is not None and shown.state != "" and shown.state not in RUNNING_STATES)
        return "The task has ended; there is nothing to stop." if ended else ""

    def _about(self, width: int) -> list[Line]:
        running = self._processes
        if running is None:
            rows = [safe(self._reader.problem) or "Reading which processes it runs."]
        else:
            rows = running or ["no process now"]
        return [
            [],
            *paragraph(f"task  {self._title}", width, "class:text.strong"),
            *paragraph(_RISK, width, "class:warn.fg"),
            [],
            [("class:text.muted", "processes")],
            *([("class:text.primary", f"  {text}")] for text in rows),
        ]

    def _chosen(self, choice: int) -> None:
        screen = self._screen
        screen.views.close()
        if choice == len(_CHOICES) and screen.link is not None:
            screen.link.force_stop(self._task_id)
            screen.say(FORCING)
