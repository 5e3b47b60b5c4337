"""Where the changes that are looked at come from: a turn, the task, the session, or Git's working tree.

Invariant: it only asks; what has not been told yet is not shown, and whose a line is, is never guessed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from fluzo.core.outcome import count
from fluzo.core.port import Query, Snapshot, TaskDetail, TaskList, WorkingTree

from .diff_about import running_files, turn_files
from .diff_text import File, carried, files_of, hunks_of
from .sheet import Reader, safe, shown_task

if TYPE_CHECKING:
    from .app import Screen

Source = Literal["turn", "task", "session", "tree"]

SOURCES: tuple[Source, ...] = ("task", "session", "tree", "turn")
_SESSION_TASKS = 50
MASK = "[redacted]"
"""In a diff whose lines were masked; there may then be fewer of them than its headers count."""


class Sources:
    """What was read of each source. `changed` is called when there is something else to show."""

    def __init__(self, screen: "Screen", changed: Callable[[], None]) -> None:
        self._screen = screen
        self._changed = changed
        self._others: dict[str, Mapping[str, Any] | None] = {}
        self._missing: list[str] = []
        self._tree: Mapping[str, Any] | None = None
        self._turn = 0
        self._about = Reader(screen, self._task_taken)
        self._reader = Reader(screen, self._taken, changed)
        self.name: Source = "task"
        self.task: Mapping[str, Any] | None = None
        self.detail: Mapping[str, Any] = {}

    def read(self) -> None:
        """Read again the task, for its checks and its baseline, and what the shown source is made of."""
        self._about.ask(shown_task(self._screen.state))
        session_id = self._screen.state.session_id
        if self.name == "tree":
            self._reader.ask(WorkingTree())
        elif self.name == "session" and session_id:
            self._reader.ask(TaskList(_SESSION_TASKS, "", session_id))

    def next(self) -> None:
        """Look at the next source."""
        self.name = SOURCES[(SOURCES.index(self.name) + 1) % len(SOURCES)]
        self.read()
        self._changed()

    def _task_taken(self, query: Query, snapshot: Snapshot) -> None:
        found = snapshot.data
        if found.get("tasks"):
            self._about.ask(TaskDetail(str(found["tasks"][0]["id"])))
        elif "task" in found:
            self.task, self.detail = found["task"] or None, found
            self._changed()

    def _taken(self, query: Query, snapshot: Snapshot) -> None:
        found = snapshot.data
        if isinstance(query, WorkingTree):
            self._tree = found
            self._changed()
        elif isinstance(query, TaskList):
            last = {str(task["id"]): task["updated_at"] for task in found["tasks"]}
            self._others = {task_id: self._others.get(task_id) for task_id in last}
            # One that is as it was when it was read has changed nothing since; it may be one of many.
            self._missing = [
                task_id for task_id, task in self._others.items() if not task or task["updated_at"] != last[task_id]
            ]
            self._read_next()
        else:
            self._others[str(found["task"]["id"])] = found["task"]
            self._read_next()

    def _read_next(self) -> None:
        """The tasks of a session are read one after the other; then what they changed is shown together."""
        if self._missing:
            self._reader.ask(TaskDetail(self._missing.pop(0)))
        else:
            self._changed()

    @property
    def result(self) -> Mapping[str, Any]:
        return (self.task or {}).get("result") or {}

    def files(self) -> list[File]:
        """The changed files of the source, as far as they have been told."""
        state = self._screen.state
        if self.name == "turn":
            self._turn, files = turn_files(state, state.task_id or str((self.task or {}).get("id") or ""))
            return files
        if self.name == "tree":
            return [] if self._reader.problem else _tree_files(self._tree or {}, self.detail, self.result)
        if self.name == "session":
            tasks = [task for task in self._others.values() if task is not None and task.get("result")]
            return [file for task in tasks for file in _task_files(task)]
        return running_files(state) if state.running or not self.result else _task_files(self.task or {})

    def since(self) -> str:
        """What the changes are told from, for the head."""
        if self.name == "turn":
            return f"since: turn {self._turn}" if self._turn else "since: this turn"
        if self.name == "tree":
            left = int((self._tree or {}).get("left_out") or 0)
            return f"since: HEAD{f', {left} more files' if left else ''}"
        if self.name == "task" and self._screen.state.running:
            return "so far; the task is running"
        if self.name == "session" and len(self._others) >= _SESSION_TASKS:
            return f"since: the last {len(self._others)} tasks"
        return f"since: this {self.name}"

    def nothing(self) -> str:
        """What to say where there is no file."""
        reader = self._reader if self.name in ("session", "tree") else self._about
        if reader.problem:
            return safe(reader.problem)
        if reader.busy:
            return "Reading."
        if self.name == "turn":
            return "No turn of this task has edited a file; what its commands changed is told with the task."
        if self.name == "tree":
            return "The working tree is as in the last commit."
        return "The task changed no file." if self.result else "No task of this session has changed anything yet."


def _task_files(task: Mapping[str, Any]) -> list[File]:
    result = task.get("result") or {}
    changes = tuple(result.get("changes") or ())
    cut = bool(result.get("diff_truncated"))
    return files_of(str(result.get("diff") or ""), changes, safe(task.get("text")), cut=cut)


def _tree_files(tree: Mapping[str, Any], detail: Mapping[str, Any], result: Mapping[str, Any]) -> list[File]:
    """Files of the working tree. One that is still as the task found it, on the same HEAD, is the user's as a whole; in
    one that is still as the task left it, the user's lines are told; of another it is only told that it had been
    changed before."""
    attempts: Sequence[Mapping[str, Any]] = detail.get("attempts") or ()
    baseline = (attempts[0].get("baseline") or {}) if attempts else {}
    versions = baseline.get("versions") or {}
    same_head = bool(versions) and tree.get("head") == baseline.get("head")
    left = ((attempts[-1].get("baseline") or {}).get("end") or {}).get("versions") or {} if same_head else {}
    own = {change["path"]: change["own_lines"] for change in result.get("changes") or () if change.get("own_lines")}
    parts = {file.path: file for file in _task_files({"result": result})} if own else {}
    changes = []
    for change in tree.get("files") or ():
        path, digest = change["path"], change.get("digest")
        known = {"preexisting": path in versions, "untouched": same_head and versions.get(path) == digest}
        lines: tuple[str, ...] = parts[path].lines if path in own and digest and left.get(path) == digest else ()
        if lines and not any(MASK in line for line in lines):
            known["own_new"] = carried(own[path], hunks_of(lines))
        changes.append({**change, **known})
    return files_of(str(tree.get("diff") or ""), changes, cut=bool(tree.get("diff_truncated")))


def figures(files: list[File]) -> str:
    """How many files, and the lines of all of them."""
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    return f"{count(len(files), 'file', 'files')}  +{added} -{removed}"
