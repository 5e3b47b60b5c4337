"""What the shown task changed, and what its checks say of it. Looking stages, reverts and accepts nothing."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from prompt_toolkit.layout import AnyContainer

from fluzo.core.port import Query, Snapshot, TaskDetail

from .diff_text import Rows, change_rows, diff_rows, loose_rows
from .rows import CHANGES, change_facts
from .sheet import Reader, Sheet, framed, moment, safe, sheet_window, shown_task
from .state import State
from .task_text import STYLES, check_rows, section
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

_VERDICTS = {
    "unverified": "unverified: no checks are declared",
    "waived": "waived by you",
    "not_run": "not run",
    "stale": "stale: something changed after the checks passed",
}


class Changes:
    """A page view over the result of the shown task; while it runs, over its edits so far."""

    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._task: Mapping[str, Any] | None = None
        self._shown = Rows()
        self._reader = Reader(screen, self._read)
        self._sheet = Sheet(screen, lambda: self._shown.rows, context="diff")
        self._sheet.act("diff.next_hunk", lambda: self._jump(self._shown.hunks, 1))
        self._sheet.act("diff.previous_hunk", lambda: self._jump(self._shown.hunks, -1))
        self._sheet.act("diff.next_file", lambda: self._jump(self._shown.files, 1))
        self._sheet.act("diff.previous_file", lambda: self._jump(self._shown.files, -1))
        self._sheet.act("diff.copy", self._copy)
        self.focus = sheet_window(self._sheet)
        self.container: AnyContainer = framed(screen, self._head, self.focus)
        self._moment = moment(screen.state)
        self._build()
        self._reader.ask(shown_task(screen.state))

    def hints(self) -> str:
        return "n/p hunk  [/] file  h/l sideways  y copy  Esc back"

    def refresh(self) -> None:
        now = moment(self._screen.state)
        if now != self._moment:
            self._moment = now
            self._build()
            self._reader.ask(shown_task(self._screen.state))

    def _read(self, query: Query, snapshot: Snapshot) -> None:
        found = snapshot.data
        if found.get("tasks"):
            self._reader.ask(TaskDetail(str(found["tasks"][0]["id"])))
        elif "task" in found:
            self._task = found["task"] or None
            self._build()

    @property
    def _result(self) -> Mapping[str, Any]:
        return (self._task or {}).get("result") or {}

    def _build(self) -> None:
        result, state = self._result, self._screen.state
        if state.running or not result:
            self._shown = Rows(tuple(running_rows(state)))
        else:
            self._shown = result_rows(self._task or {}, self._screen.layout.columns)

    def _jump(self, places: tuple[int, ...], step: int) -> None:
        top = self._sheet.top
        after = [place for place in places if place > top]
        before = [place for place in places if place < top]
        if step > 0 and after:
            self._sheet.move(after[0] - top)
        elif step < 0 and before:
            self._sheet.move(before[-1] - top)

    def _copy(self) -> None:
        diff = str(self._result.get("diff") or "")
        if diff and not self._screen.state.running:
            self._screen.copy(diff, "the diff")
        else:
            self._screen.say("There is no diff to copy yet")

    def _head(self) -> Line:
        line: Line = [("", " "), ("class:text.strong", "Changes")]
        if self._reader.problem:
            return [*line, ("class:state.failed", f"  {safe(self._reader.problem)}")]
        if self._screen.state.running:
            return [*line, ("class:text.muted", "  so far; the task is running")]
        if self._result:
            figures = change_facts(tuple(self._result.get("changes") or ()))
            text = f"  {figures}  of: {safe((self._task or {}).get('text'))}"
            return [*line, ("class:text.muted", text)]
        return line


def result_rows(task: Mapping[str, Any], width: int) -> Rows:
    """The checks, the list of files, then the diff of an ended task."""
    result = task["result"]
    changes = tuple(result.get("changes") or ())
    verification = result.get("verification") or {}
    word = _VERDICTS.get(str(verification.get("verdict")), "")
    checks = check_rows(verification, width, task)
    if word:
        checks.insert(0, [("class:warn.fg", word)])
    rows = [*section("checks, when the task ended", checks)[1:], *section("files", change_rows(changes))]
    if not changes:
        rows += [[], [("class:text.muted", "The task changed no file.")]]
    diff = diff_rows(str(result.get("diff") or ""), changes)
    end: list[Line] = []
    if result.get("diff_truncated"):
        end = [[], [("class:warn.fg", "The rest of the diff was too large to be kept; see: git diff")]]
    start = len(rows)
    return Rows(
        (*rows, *diff.rows, *end),
        tuple(place + start for place in diff.files),
        tuple(place + start for place in diff.hunks),
    )


def running_rows(state: State) -> list[Line]:
    """Checks and edits as far as the runtime has told of them; the diff of the whole is made at the end."""
    checks: list[Line] = [
        [(STYLES.get(word, "class:text.muted"), f"{word:<8}"), ("class:text.primary", f"  {safe(name)}")]
        for name, word in state.checks
    ]
    rows = section("checks", checks)[1:]
    for block in state.blocks:
        tool = block.tool
        if tool is not None and block.task_id == state.task_id and tool.verb in CHANGES and tool.diff:
            head = f"{tool.verb} {safe(tool.subject)}  {tool.facts}  {block.state}"
            rows += [[], [("class:text.strong", head)], *loose_rows(tool.diff)]
    return rows or [[("class:text.muted", "No task of this session has changed anything yet.")]]
