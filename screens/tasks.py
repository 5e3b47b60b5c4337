"""The tasks: the list, and one task in full. Looking runs nothing; a force stop is a question of its own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from prompt_toolkit.layout import AnyContainer

from fluzo.core.outcome import count
from fluzo.core.port import Query, Snapshot, TaskDetail, TaskList

from .entry import with_find
from .listing import ListPage, Record
from .sheet import Reader, Sheet, framed, headed, hint_line, moment, safe, sheet_window
from .state import RUNNING_STATES
from .stopping import ask_force_stop, cancel
from .task_text import about_task, reason_word, state_word, task_columns, task_row, task_rows
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

COUNTED = ("running", "waiting", "stopping", "queued")


class Tasks(ListPage):
    """A page view over the list."""

    name = "Tasks"
    nothing = "There are no tasks in this folder yet."

    def __init__(self, screen: "Screen") -> None:
        super().__init__(screen, "tasks", TaskList)
        self.sheet.entered("list.open", self._open)
        self.sheet.act("list.answer", self._answer)
        self.sheet.act("list.cancel", lambda: cancel(screen, self.lit))
        self.sheet.act("list.force", self._force)

    def hints(self) -> str:
        return hint_line(
            self._screen,
            ("list.open", "look"),
            ("list.answer", "answer"),
            ("list.cancel", "cancel"),
            ("list.force", "force stop (asks)"),
            ("list.find", "find"),
            ("escape", "back"),
        )

    def words_of(self, record: Record) -> str:
        return f"{record['text']} {state_word(record)} {reason_word(record, 0)} {record['id']}"

    def columns(self, width: int) -> Line:
        return task_columns(width)

    def row_of(self, record: Record, width: int) -> Line:
        elapsed, left = self._times(record)
        return task_row(record, width, elapsed, left, self._screen.glyphs)

    def about(self, record: Record, detail: Record | None) -> list[Line]:
        elapsed, left = self._times(record)
        return about_task(record, detail, elapsed, left)

    def detail_query(self, record: Record) -> Query:
        return TaskDetail(str(record["id"]))

    def standing(self) -> str:
        words = [state_word(item) for item in self.records.shown]
        parts = [f"{words.count(word)} {word}" for word in COUNTED if word in words]
        more = " or more" if self.records.more else ""
        return "  ".join(parts) or f"{count(len(self.records.known), 'task', 'tasks')}{more}"

    def _times(self, task: Mapping[str, Any]) -> tuple[float, float]:
        """How long it has run, and how long a cancelled one may still take to end by itself."""
        screen = self._screen
        shown = screen.state.tasks.get(str(task["id"]))
        if shown is None or shown.state not in RUNNING_STATES:
            return float(task["active_seconds"]), 0.0
        now = screen.now()
        return now - shown.since, screen.state.grace_seconds - (now - shown.state_since)

    def _open(self) -> None:
        if self.lit is not None:
            self._screen.views.show(TaskPage(self._screen, str(self.lit["id"])))

    def _answer(self) -> None:
        """Go to the card of what this task asks; it is answered there and nowhere else."""
        screen, lit = self._screen, self.lit
        asked = [n for n, item in enumerate(screen.state.requests) if lit is not None and item.task_id == lit["id"]]
        if not asked:
            screen.say("This task asks nothing")
            return
        if screen.request_at not in asked:
            screen.show_request(asked[0])
        screen.views.close()
        screen.run_action("answer")

    def _force(self) -> None:
        lit = self.lit
        if lit is None or lit["state"] not in RUNNING_STATES:
            self._screen.say("This task does not run; there is nothing to stop")
        else:
            ask_force_stop(self._screen, str(lit["id"]), str(lit["text"]))


class TaskPage:
    """A page view over one task: attempts, operations, checks, errors, trace id."""

    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen", task_id: str) -> None:
        self._screen = screen
        self._task_id = task_id
        self._detail: Mapping[str, Any] | None = None
        self._made: tuple[int, list[Line]] = (0, [])
        self._reader = Reader(screen, self._read)
        self._sheet = Sheet(screen, self._rows)
        self._sheet.act("pager.copy", self._copy)
        self.focus = sheet_window(self._sheet)
        self.container: AnyContainer = framed(screen, self._head, with_find(screen, self, self._sheet), self.focus)
        self._moment = moment(screen.state)
        self._reader.ask(TaskDetail(task_id))

    def hints(self) -> str:
        keys = hint_line(self._screen, ("pager.find", "find"), ("pager.copy", "copy"), ("escape", "back"))
        return f"Up/Down PgUp/PgDn scroll  {keys}"

    def refresh(self) -> None:
        now = moment(self._screen.state)
        if now != self._moment:
            self._moment = now
            self._reader.ask(TaskDetail(self._task_id))

    @property
    def _task(self) -> Mapping[str, Any] | None:
        return self._detail["task"] if self._detail is not None else None

    def _read(self, query: Query, snapshot: Snapshot) -> None:
        self._detail, self._made = snapshot.data, (0, [])

    def _copy(self) -> None:
        rows = ["".join(part for _, part in line) for line in self._rows()]
        self._screen.copy("\n".join(rows), "the task")

    def _head(self) -> Line:
        title = safe(self._task["text"]) if self._task is not None else self._task_id
        return headed("Task", title, "", self._screen.layout.columns)

    def _rows(self) -> list[Line]:
        if self._detail is None:
            return [[("class:text.muted", safe(self._reader.problem) or "Reading.")]]
        columns = self._screen.layout.columns
        if self._made[0] != columns:
            self._made = columns, task_rows(self._detail, columns)
        return self._made[1]
