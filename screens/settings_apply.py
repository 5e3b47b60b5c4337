"""The question before a running task gets other limits: each as it is, as it would be, and what is used up of it.

Invariant: what is used up stays used up, and nothing is applied without a choice and its confirmation.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from fluzo.core.port import Ack, ApplyConfigToActiveWork, Query, Snapshot, TaskDetail

from .question import Question, paragraph
from .settings_form import Form, limits_to_apply
from .settings_words import label, shown
from .sheet import Reader, column, safe
from .state import RUNNING_STATES
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

NAME = "Limits of the running task"
_CHOICES = (
    ("Leave them as they are", "the next task gets what is saved"),
    ("Give it these limits", "from its next step"),
)
_NOTE = (
    "What is used up stays used up. A limit below it ends the task as used up at its next step; it can go on later. "
    "Requests and commands under way keep the time they were given."
)


def ask_limits(screen: "Screen", form: Form) -> None:
    """Preview the limits that the settings would give the running task, and ask."""
    task = screen.state.task
    if task is None or not screen.state.running:
        screen.say("No task is running; what you save counts from the next one")
        return
    Preview(screen, form, task.id)


class Preview:
    """Reads the task first; the question is opened when there is something to ask."""

    def __init__(self, screen: "Screen", form: Form, task_id: str) -> None:
        self._screen = screen
        self._form = form
        self._task_id = task_id
        self._held: Mapping[str, Any] = {}
        self._used: Mapping[str, float] = {}
        self.limits: dict[str, float] = {}
        self._reader = Reader(screen, self._read)
        self._reader.ask(TaskDetail(task_id))

    def _read(self, query: Query, snapshot: Snapshot) -> None:
        screen, task = self._screen, snapshot.data["task"]
        self._held, self._used = task["limits"], used_of(task["consumption"])
        self.limits = limits_to_apply(self._form, self._held)
        if not self.limits:
            screen.say("The running task has these limits already")
            return
        question = Question(
            screen, NAME, about=self._about, choices=lambda: _CHOICES, over=self._over, chosen=self._chosen
        )
        screen.views.show(question)

    def _over(self) -> str:
        task = self._screen.state.tasks.get(self._task_id)
        ended = task is None or task.state not in RUNNING_STATES
        return "The task has ended; it needs no limits any more." if ended else ""

    def _about(self, width: int) -> list[Line]:
        task = self._screen.state.tasks.get(self._task_id)
        rows: list[Line] = [[], *paragraph(f"task  {safe(task.text if task else '')}", width, "class:text.strong"), []]
        rows.append([("class:text.faint", limit_text("limit", "now", "new", "used"))])
        for name, value in self.limits.items():
            row = self._form.row(f"harness.{name}")
            if row is None:
                continue
            used = self._used.get(name, 0)
            text = limit_text(
                label(f"harness.{name}"), shown(row, self._held[name]), shown(row, value), shown(row, round(used))
            )
            over = bool(value) and used >= value
            tone = "class:warn.fg" if over else "class:text.primary"
            rows.append([(tone, text + ("used up: ends" if over else ""))])
        return [*rows, [], *paragraph(_NOTE, width, "class:text.muted")]

    def _chosen(self, choice: int) -> None:
        screen = self._screen
        screen.views.close()
        if choice == 2 and screen.link is not None:
            command = ApplyConfigToActiveWork(self._task_id, self.limits)
            screen.link.act(command, partial(screen.intake.on_loop, self._answered))

    def _answered(self, ack: Ack) -> None:
        text = "The running task has the new limits" if ack.accepted else f"{ack.message}  [{ack.code}]"
        self._screen.say(text)


def limit_text(*texts: str) -> str:
    return "".join(column(text, width) for text, width in zip(texts, (22, 14, 14, 14), strict=True))


def used_of(spent: Mapping[str, Any]) -> dict[str, float]:
    """What is used up of each limit, by the limit's name."""
    return {
        "max_turns": spent["turns"],
        "max_tool_calls": spent["tool_calls"],
        "max_active_seconds": spent["active_seconds"],
        "max_total_tokens": spent["input_tokens"] + spent["output_tokens"],
        "max_cost_microunits": spent["cost_microunits"],
    }
