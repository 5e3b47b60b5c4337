"""Going on with a blocked or interrupted task: a question that names the task, its state and what is unknown.

Invariant: nothing goes on but from exactly the plan that is shown, and nothing unknown is done a second time unless it
was marked here, each mark by two acts of its own. A limit that is used up is raised to the figure that is shown, or the
task stays as it is: without that it would be blocked again at once.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fluzo.core.port import Query, ResumePlan, ResumeTask, Snapshot, TaskDetail, TaskList

from .intake import new_request_id
from .question import Question, paragraph
from .sheet import Reader, safe
from .task_text import state_word
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

NAME = "Resume?"
KEEP, GO_ON = 1, 2
MAX_MARKS = 7
"""Unknown operations that can be marked here, one digit each; the command line has no such bound."""
_UNITS = {
    "max_turns": "turns",
    "max_tool_calls": "tool calls",
    "max_active_seconds": "seconds",
    "max_total_tokens": "tokens",
    "max_cost_microunits": "microunits",
}
_TASKS = 200
"""Tasks of the session among which the blocked one is looked for, the newest first."""


def ask_resume(screen: "Screen", session_id: str, text: str = "") -> None:
    """Open the question over the session's blocked task; `text` is what the agent is told besides."""
    top = screen.views[-1] if screen.views else None
    if screen.link is None:
        screen.say("Fluzo is still opening")
    elif screen.state.running:
        screen.say("A task is running; cancel it or let it end first")
    elif not (isinstance(top, Question) and top.name == NAME):
        screen.views.show(_Resume(screen, session_id, text).question)


class _Resume:
    """What the question shows, and what its answer does."""

    def __init__(self, screen: "Screen", session_id: str, text: str) -> None:
        self._screen = screen
        self._session_id = session_id
        self._text = text
        self._task: Mapping[str, Any] | None = None
        self._plan: Mapping[str, Any] | None = None
        self._nothing = ""
        self._marked: set[str] = set()
        self._reader = Reader(screen, self._read)
        self._reader.ask(TaskList(_TASKS, "", session_id))
        self.question = Question(
            screen, NAME, about=self._about, choices=self._choices, over=self._over, chosen=self._chosen
        )

    def _read(self, query: Query, snapshot: Snapshot) -> None:
        data = snapshot.data
        if isinstance(query, TaskList):
            blocked = next((task for task in data["tasks"] if task["state"] == "blocked"), None)
            if blocked is None:
                self._nothing = "No task of this session is blocked; a message goes on with its conversation."
            else:
                self._reader.ask(TaskDetail(str(blocked["id"])))
        elif isinstance(query, TaskDetail):
            self._task = data["task"]
            self._reader.ask(ResumePlan(query.task_id))
        else:
            self._plan = data
            self.question.ask_again()

    def _over(self) -> str:
        if self._nothing or self._reader.problem:
            return self._nothing or safe(self._reader.problem)
        if self._screen.state.running:
            return "A task is running; nothing is resumed beside it."
        if self._plan is None or self._screen.state.session_id != self._session_id:
            return "Reading what has changed since; nothing can be answered yet."
        return "" if self._plan["resumable"] else "This task has ended; a message goes on with its conversation."

    def _risky(self) -> Sequence[Mapping[str, Any]]:
        """The unknown operations whose repetition may do something twice."""
        unknown = self._plan["unknown"] if self._plan is not None else ()
        return [item for item in unknown if item["risk"]][:MAX_MARKS]

    def _choices(self) -> list[tuple[str, str]]:
        risky, marked = self._risky(), len(self._marked)
        again = "nothing that is unknown is done again"
        if marked:
            again = f"{marked} marked below may be done a second time"
        marks = [
            (f"[{'x' if item['operation_id'] in self._marked else ' '}] may be done again", safe(item["text"]))
            for item in risky
        ]
        limit = self._plan["limit"] if self._plan is not None else None
        resume = f"Resume with the limit raised to {_amount(limit, 'raised')}" if limit else "Resume"
        return [("Keep reading", "nothing runs"), (resume, again if risky else "a new attempt begins"), *marks]

    def _about(self, width: int) -> list[Line]:
        task, plan = self._task, self._plan
        if task is None or plan is None:
            return []
        word, reason = state_word(task), safe(task.get("reason")).replace("_", " ")
        state = f"{word}: {reason}" if reason and word == "blocked" else word
        rows = [
            [],
            *paragraph(f"task  {safe(task['text'])}", width, "class:text.strong")[:6],
            [("class:state.blocked", f"state  {state}")],
        ]
        if limit := plan["limit"]:
            used = f"{limit['used']:,.0f} of {_amount(limit, 'allowed')} are used up"
            rest = "" if limit["used"] >= limit["allowed"] else "; what is left is too little to go on"
            rows += paragraph(f"limit  {safe(limit['limit'])}: {used}{rest}", width, "class:warn.fg")
        number = plan["attempt_number"]
        rows += [[("class:text.muted", f"attempt {number} ended so; attempt {number + 1} would begin")], []]
        differences = [safe(item["text"]) for item in plan["differences"]]
        for text in differences or ["nothing that was recorded differs"]:
            rows += paragraph(f"differs  {text}", width)
        for item in plan["unknown"]:
            rows += paragraph(f"UNKNOWN  {safe(item['text'])}", width, "class:warn.fg")
            if item["risk"]:
                rows += paragraph(f"         {safe(item['risk'])}", width, "class:warn.fg")
        rows += [
            [],
            *paragraph("Earlier permissions and checks do not count any more. What was used up stays used up.", width),
        ]
        yolo = (
            "YOLO is on: nothing asks, every command runs as you."
            if self._screen.state.yolo
            else "Permission is asked for as always."
        )
        rows += paragraph(yolo, width, "class:danger.fg" if self._screen.state.yolo else "class:text.primary")
        if self._text:
            rows += paragraph(f"the agent is told besides: {safe(self._text)}", width)
        return rows

    def _chosen(self, choice: int) -> None:
        screen, plan, task = self._screen, self._plan, self._task
        if choice == KEEP or plan is None or task is None or screen.link is None:
            screen.views.close()
            return
        if choice > GO_ON:
            self._marked ^= {str(self._risky()[choice - GO_ON - 1]["operation_id"])}
            self.question.ask_again()
            return
        limit = plan["limit"]
        command = ResumeTask(
            new_request_id(),
            str(task["id"]),
            str(plan["reconciled"]),
            self._text,
            extend={str(limit["limit"]): float(limit["raised"])} if limit else {},
            retry=tuple(sorted(self._marked)),
            yolo=screen.state.yolo,
            interactive=True,
        )
        screen.views.close_all()
        screen.transcript.to_end()
        screen.link.resume(command, str(task["text"]), task["limits"])
        screen.say("Asked to resume")


def _amount(limit: Mapping[str, Any], which: str) -> str:
    """A figure of a limit with its unit, in full: it is what the person agrees to."""
    return f"{limit[which]:,.0f} {_UNITS.get(str(limit['limit']), '')}".rstrip()
