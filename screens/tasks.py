"""The tasks: the list, one task in full, and the question before a force stop.

Invariant: looking runs nothing. A cancel is one key; a force stop is a word typed on a page of its own, then Enter.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import AnyContainer, HSplit, VSplit, Window
from prompt_toolkit.layout.controls import BufferControl

from fluzo.core.port import Query, Snapshot, TaskDetail, TaskList

from .controls import joined, row, text_control
from .rows import count
from .sheet import Reader, Records, Sheet, framed, moment, safe, sheet_window
from .state import RUNNING_STATES
from .task_text import about_task, process_text, task_row, task_rows
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

WORD = "kill"
"""What is typed to force a stop, as on the command line."""


class Tasks:
    """A page view over the list."""

    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._details: dict[str, Mapping[str, Any]] = {}
        self._reader = Reader(screen, self._detail_read)
        self._sheet = Sheet(screen, self._rows, picks=True, moved=self._moved)
        self._records = Records(screen, "tasks", TaskList, self._moved, self._sheet)
        self._sheet.on("enter")(self._open)
        self._sheet.on("a")(self._answer)
        self._sheet.on("c")(lambda: cancel(screen, self._records.lit))
        self._sheet.on("K")(lambda: ask_force_stop(screen, self._records.lit))
        self.focus = sheet_window(self._sheet)
        self.container: AnyContainer = framed(screen, self._head, self.focus, self._about)
        self._moment = moment(screen.state)
        self._records.read()

    def hints(self) -> str:
        return "Enter look  a answer  c cancel  K force stop (asks)  Esc back"

    def refresh(self) -> None:
        now = moment(self._screen.state)
        if now != self._moment:
            self._moment = now
            self._details.clear()
            self._records.read()

    def _moved(self) -> None:
        lit = self._records.lit
        if lit is not None and str(lit["id"]) not in self._details:
            self._reader.ask(TaskDetail(str(lit["id"])))
        if self._sheet.lit >= len(self._records.items) - 1:
            self._records.read_older()

    def _detail_read(self, query: Query, snapshot: Snapshot) -> None:
        self._details[str(snapshot.data["task"]["id"])] = snapshot.data

    def _open(self) -> None:
        lit = self._records.lit
        if lit is not None:
            self._screen.open_view(TaskPage(self._screen, str(lit["id"])))

    def _answer(self) -> None:
        """Go to the card of what the task asks; it is answered there and nowhere else."""
        screen = self._screen
        if screen.request is None:
            screen.say("Nothing is asked")
        else:
            screen.close_view()
            screen.run_action("answer")

    def _elapsed(self, task: Mapping[str, Any]) -> float:
        shown = self._screen.state.tasks.get(str(task["id"]))
        if shown is not None and shown.state in RUNNING_STATES:
            return self._screen.now() - shown.since
        return float(task["active_seconds"])

    def _head(self) -> Line:
        items = self._records.items
        parts = []
        for state in ("running", "waiting", "stopping", "pending"):
            number = sum(item["state"] == state for item in items)
            parts += [f"{number} {state}"] if number else []
        right = "  ".join(parts) or f"{count(len(items), 'task', 'tasks')}{' or more' if self._records.more else ''}"
        return [("", " "), ("class:text.strong", "Tasks"), ("class:text.muted", f"  {right}")]

    def _rows(self) -> list[Line]:
        items = self._records.items
        if not items:
            return [[("class:text.muted", safe(self._records.empty_text("There are no tasks in this folder yet.")))]]
        width, glyphs = self._screen.layout.columns, self._screen.glyphs
        return [task_row(item, width, self._elapsed(item), glyphs) for item in items]

    def _about(self) -> list[Line]:
        lit = self._records.lit
        if lit is None:
            return []
        rows = about_task(lit, self._details.get(str(lit["id"])), self._elapsed(lit))
        return [[("", " "), *line] for line in rows]


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
        self._sheet.on("c")(lambda: cancel(screen, self._task))
        self._sheet.on("K")(lambda: ask_force_stop(screen, self._task))
        self._sheet.on("y")(self._copy)
        self.focus = sheet_window(self._sheet)
        self.container: AnyContainer = framed(screen, self._head, self.focus)
        self._moment = moment(screen.state)
        self._reader.ask(TaskDetail(task_id))

    def hints(self) -> str:
        return "Up/Down PgUp/PgDn scroll  y copy  c cancel  K force stop (asks)  Esc back"

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
        return [("", " "), ("class:text.strong", "Task"), ("class:text.muted", f"  {title}")]

    def _rows(self) -> list[Line]:
        if self._detail is None:
            return [[("class:text.muted", safe(self._reader.problem) or "Reading.")]]
        columns = self._screen.layout.columns
        if self._made[0] != columns:
            self._made = columns, task_rows(self._detail, columns)
        return self._made[1]


# --- ending one -----------------------------------------------------------------------------------------------


def cancel(screen: "Screen", task: Mapping[str, Any] | None) -> None:
    """Cancel a task that runs; the row says `stopping` when the runtime has said so."""
    if task is None or screen.link is None or task["state"] not in RUNNING_STATES:
        screen.say("This task is over; there is nothing to cancel")
        return
    screen.link.cancel(str(task["id"]))
    screen.say("Asked to cancel; what was edited stays")


def ask_force_stop(screen: "Screen", task: Mapping[str, Any] | None) -> None:
    if task is None or task["state"] not in RUNNING_STATES:
        screen.say("This task is over; there is nothing to stop")
        return
    screen.open_view(ForceStop(screen, task))


class ForceStop:
    """The question before a force stop. Esc, or Enter without the word, keeps waiting."""

    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen", task: Mapping[str, Any]) -> None:
        self._screen = screen
        self._task = task
        self._processes: list[str] | None = None
        self._reader = Reader(screen, self._read)
        self._buffer = Buffer(multiline=False)
        self.focus = Window(BufferControl(self._buffer, key_bindings=self._keys()), height=1)
        prompt = Window(text_control(lambda: [("class:accent.primary", " > ")]), width=3)
        self.container: AnyContainer = HSplit(
            [
                row(lambda: [("", " "), ("class:text.strong", "Force stop?")]),
                Window(char=screen.glyphs.rule, height=1, style="class:border.idle"),
                VSplit([prompt, self.focus], height=1),
                Window(text_control(lambda: joined(self._question())), always_hide_cursor=True, wrap_lines=True),
            ]
        )
        self._reader.ask(TaskDetail(str(task["id"])))

    def hints(self) -> str:
        return f"{WORD} and Enter force the stop  Esc keeps waiting"

    def refresh(self) -> None:
        """The question stays as it was asked; a task that ended meanwhile refuses the stop."""

    def _read(self, query: Query, snapshot: Snapshot) -> None:
        self._processes = [process_text(item) for item in snapshot.data.get("processes") or ()]

    def _question(self) -> list[Line]:
        running = self._processes
        if running is None:
            shown = [safe(self._reader.problem) or "Reading which processes it runs."]
        else:
            shown = running or ["It runs no process now."]
        return [
            [],
            [("class:text.primary", f" Task: {safe(self._task['text'])[:200]}")],
            *([("class:text.muted", f"   {text}")] for text in shown),
            [],
            [("class:warn.fg", " Its processes end at once, without a chance to finish; effects may be half done.")],
            [("class:text.primary", f" Type {WORD} and press Enter to do it. Esc keeps waiting.")],
        ]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def enter(event: KeyPressEvent) -> None:
            screen = self._screen
            if self._buffer.text != WORD or screen.link is None:
                screen.say(f"Nothing is stopped; type {WORD}, or Esc to keep waiting")
                return
            screen.close_view()
            screen.link.force_stop(str(self._task["id"]))
            screen.say("Asked to force the stop")

        return keys
