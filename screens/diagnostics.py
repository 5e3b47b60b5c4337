"""Diagnostics of the shown task: budgets, slots, compactions, trace id, last events. Looking changes none of it."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from prompt_toolkit.layout import AnyContainer

from fluzo.core.outcome import count
from fluzo.core.port import CapacityStatus, EventPage, Query, Snapshot, TaskDetail

from .entry import with_find
from .overlay import screen_facts
from .rows import clock, thousands
from .sheet import Reader, Sheet, column, framed, moment, safe, sheet_window, shown_task
from .state import State
from .task_text import error_rows, section, trace_of
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

EVENTS = 500
"""Events read at a time."""
KEPT = 60
"""Events shown, the newest first."""
_MUTED, _PLAIN = "class:text.muted", "class:text.primary"
_DATA_CHARACTERS = 200


class Diagnostics:
    """A page view. Events are read once each, from the last one that was seen."""

    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._detail: Mapping[str, Any] | None = None
        self._slots: Sequence[Mapping[str, Any]] = ()
        self._forget()
        self._task = Reader(screen, self._task_read)
        self._capacity = Reader(screen, self._capacity_read)
        self._log = Reader(screen, self._events_read)
        self._sheet = Sheet(screen, self._rows)
        self._sheet.act("pager.copy", self._copy)
        self.focus = sheet_window(self._sheet)
        self.container: AnyContainer = framed(screen, self._head, with_find(screen, self, self._sheet), self.focus)
        self._moment: tuple[object, ...] = ()
        self.refresh()

    def hints(self) -> str:
        return "Up/Down PgUp/PgDn scroll  y copy  Esc back"

    def refresh(self) -> None:
        now = moment(self._screen.state)
        if now != self._moment:
            self._moment = now
            self._task.ask(shown_task(self._screen.state))
            self._capacity.ask(CapacityStatus())

    # --- reading

    def _forget(self) -> None:
        self._task_id = ""
        self._after = 0
        self._events: deque[Mapping[str, Any]] = deque(maxlen=KEPT)
        self._compactions: list[Mapping[str, Any]] = []

    def _task_read(self, query: Query, snapshot: Snapshot) -> None:
        found = snapshot.data
        if found.get("tasks"):
            self._task.ask(TaskDetail(str(found["tasks"][0]["id"])))
        elif found.get("task"):
            self._detail = found
            task_id = str(found["task"]["id"])
            if task_id != self._task_id:
                self._forget()
                self._task_id = task_id
            self._log.ask(EventPage(task_id, self._after, EVENTS))

    def _capacity_read(self, query: Query, snapshot: Snapshot) -> None:
        self._slots = tuple(snapshot.data["slots"])

    def _events_read(self, query: Query, snapshot: Snapshot) -> None:
        page = snapshot.data["events"]
        if not isinstance(query, EventPage) or query.task_id != self._task_id:
            return
        # The same page may have been asked for twice; what was seen is not taken again.
        fresh = [item for item in page if int(item["seq"]) > self._after]
        self._events.extend(fresh)
        self._compactions += [item for item in fresh if item["type"] == "ContextCompacted"]
        if page:
            self._after = max(self._after, int(page[-1]["seq"]))
        if len(page) >= EVENTS:
            self._log.ask(EventPage(self._task_id, self._after, EVENTS))

    # --- what is shown

    def _head(self) -> Line:
        title = safe(self._detail["task"]["text"]) if self._detail is not None else "no task is shown"
        return [("", " "), ("class:text.strong", "Diagnostics"), (_MUTED, f"  {title}")]

    def _rows(self) -> list[Line]:
        problems = [reader.problem for reader in (self._task, self._capacity, self._log) if reader.problem]
        rows: list[Line] = [[("class:state.failed", safe(problem))] for problem in problems]
        detail = self._detail
        if detail is not None:
            task = detail["task"]
            ids = [("trace", trace_of(detail)), ("task", safe(task["id"])), ("session", safe(task["session_id"]))]
            rows += error_rows((task.get("result") or {}).get("error") or detail.get("failure"), self._sheet.width)
            rows += section("ids", [[(_MUTED, f"{name:<9}"), (_PLAIN, value)] for name, value in ids])
            rows += section("budgets: used, allowed, where the figure is from", budget_rows(task))
        rows += section("slots of this process", slot_rows(self._slots))
        rows += section("health", health_rows(self._screen.state))
        if rows:
            facts = screen_facts(self._screen)
            rows += section("this screen", [[(_MUTED, f"{name:<34}"), (_PLAIN, value)] for name, value in facts])
        if detail is not None:
            none: list[Line] = [[(_MUTED, "none; the conversation is whole")]]
            rows += section("compactions (token figures are estimates)", compaction_rows(self._compactions) or none)
            rows += section("last events, newest first", [event_row(item) for item in reversed(self._events)])
        return rows or [[(_MUTED, "Reading.")]]

    def _copy(self) -> None:
        rows = ["".join(part for _, part in line) for line in self._rows()]
        self._screen.copy("\n".join(rows), "the diagnostics")


def budget_rows(task: Mapping[str, Any]) -> list[Line]:
    """Used against allowed: as the result says it, or as it is counted while the task runs."""
    budget = task["result"].get("budget") if task.get("result") else None
    rows: list[Line] = []
    for name, line in (budget or running_budget(task)).items():
        used, allowed = float(line["used"]), float(line["allowed"])
        figure = clock if name == "active_seconds" else thousands
        style = "class:warn.fg" if used >= allowed else _PLAIN
        label = "active time" if name == "active_seconds" else safe(name).replace("_", " ")
        rows.append(
            [
                (_MUTED, column(label, 17)),
                (style, f"{figure(used):>8}"),
                (_MUTED, f"  of {figure(allowed):<8}  {safe(line['provenance'])}"),
            ]
        )
    return rows


def running_budget(task: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The lines of a result's budget, from what a running task has used up so far."""
    spent, limits = task["consumption"], task["limits"]
    tokens = int(spent["input_tokens"]) + int(spent["output_tokens"])
    estimated = int(spent["estimated_tokens"])
    source = "reported" if not estimated else "estimated" if estimated >= tokens else "partly estimated"
    lines = [
        ("turns", spent["turns"], limits["max_turns"], "counted"),
        ("tool_calls", spent["tool_calls"], limits["max_tool_calls"], "counted"),
        ("active_seconds", spent["active_seconds"], limits["max_active_seconds"], "measured"),
        ("tokens", tokens, limits["max_total_tokens"], source if tokens else "counted"),
    ]
    if limits.get("max_cost_microunits"):
        lines.append(("cost_microunits", spent["cost_microunits"], limits["max_cost_microunits"], lines[-1][3]))
    return {name: {"used": used, "allowed": allowed, "provenance": where} for name, used, allowed, where in lines}


def slot_rows(slots: Iterable[Mapping[str, Any]]) -> list[Line]:
    """One row a model or pool; an uncertain slot is occupied until a user says otherwise."""
    rows: list[Line] = []
    for slot in slots:
        words = f"{slot['occupied']} of {slot['limit']} occupied, {slot['queued']} queued"
        line: Line = [(_MUTED, f"{safe(slot['kind']):<7}"), (_PLAIN, f"{column(safe(slot['name']), 24)} {words}")]
        if slot.get("shadow"):
            line.append((_MUTED, f", {count(int(slot['shadow']), 'observation', 'observations')}"))
        if slot.get("uncertain"):
            line.append(("class:warn.fg", f", {slot['uncertain']} uncertain"))
        rows.append(line)
    return rows


def health_rows(state: State) -> list[Line]:
    """Where telemetry is set to go and whether an observer is asked, whose words are observations and never acts."""
    more = {
        "telemetry": "where the settings have it exported to",
        "observer": "observations only; nothing is done because of them",
    }
    return [
        [(_MUTED, f"{safe(name):<11}"), (_PLAIN, column(safe(word), 10)), (_MUTED, more.get(name, ""))]
        for name, word in state.health
    ]


def compaction_rows(events: Iterable[Mapping[str, Any]]) -> list[Line]:
    rows: list[Line] = []
    for item in events:
        data = item["data"]
        figures = f"{thousands(float(data['tokens_before']))} to {thousands(float(data['tokens_after']))} tokens"
        more = f"{count(int(data['messages']), 'message', 'messages')}, {safe(data['why'])}"
        rows.append([(_MUTED, f"{safe(item['at'])[11:19]}  "), (_PLAIN, figures), (_MUTED, f"  {more}")])
    return rows


def event_row(item: Mapping[str, Any]) -> Line:
    """Time (UTC), number, name and the beginning of what it says."""
    said = ", ".join(f"{key} {value}" for key, value in item["data"].items() if value not in ("", None, (), []))
    return [
        (_MUTED, f"{safe(item['at'])[11:19]} {item['seq']:>6}  "),
        (_PLAIN, column(safe(item["type"]), 22)),
        (_MUTED, f" {safe(said[:_DATA_CHARACTERS])}"),
    ]
