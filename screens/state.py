"""What the screen shows, as one immutable value, and `reduce`: the only way it changes. Pure; the clock is an argument.

Invariant: nothing looks authorized, saved or done before the runtime has said so. Updates are those of the port, told
apart by their type names, so that the first frame needs no runtime module; what the screen itself adds is below.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .blocks import Block, Blocks

RUNNING_STATES = ("pending", "ready", "running", "waiting", "stopping")


class Submitted(NamedTuple):
    """The person sent a message; the runtime has not answered yet."""

    request_id: str
    text: str
    at: str


class Accepted(NamedTuple):
    request_id: str
    task_id: str
    session_id: str


class Refused(NamedTuple):
    """A command was not accepted: a message of the runtime with its code and its next step."""

    message: str
    code: str
    hint: str = ""
    request_id: str = ""


class Opened(NamedTuple):
    """The runtime is there: the folder, the settings in force as plain values."""

    root: str
    facts: Mapping[str, Any]


class OpeningFailed(NamedTuple):
    message: str
    code: str
    hint: str = ""


class PendingRead(NamedTuple):
    task_id: str
    requests: tuple[Mapping[str, Any], ...]


class MessagesRead(NamedTuple):
    """Stored messages of the running task, to complete what was streamed."""

    messages: tuple[Mapping[str, Any], ...]


class PageRead(NamedTuple):
    """A page of a session's history: the newest one replaces what is shown, an older one goes before it."""

    session_id: str
    title: str
    blocks: tuple[Block, ...]
    oldest_position: int
    more: bool
    newest: bool
    interrupted: str = ""
    """What the rule at the point of loss says, where the newest page is that of a session which was cut off."""
    lost_task: str = ""
    blocked: str = ""
    """Why its newest task is blocked, for a session that was not cut off."""


class ResultRead(NamedTuple):
    task_id: str
    detail: Mapping[str, Any]


class Toggled(NamedTuple):
    """The person opened or closed a row."""

    key: int
    open: bool


class CommandSent(NamedTuple):
    """An answer or a cancel is on its way; shown as `sent`, never as done."""

    operation_id: str
    answer: str


class QueuedHere(NamedTuple):
    """The person sent a message to the running task; the runtime has not recorded it yet."""

    task_id: str
    text: str


class QueueReturned(NamedTuple):
    """The runtime did not take a queued message; its text goes back to the composer."""

    text: str


class YoloChosen(NamedTuple):
    """The mode for the next task, chosen while none runs."""

    enabled: bool


class Noted(NamedTuple):
    """The screen itself has something to say in the conversation."""

    text: str
    tone: str


class SettingsRead(NamedTuple):
    """What the next task works with, from the settings in force: model, endpoint and context window."""

    facts: Mapping[str, Any]


class Resumed(NamedTuple):
    """The runtime goes on with a task that was blocked or cut off; its events follow."""

    task_id: str
    session_id: str
    text: str
    limits: Mapping[str, Any]


class Titled(NamedTuple):
    """The runtime has given a session another title."""

    session_id: str
    title: str


class FolderRead(NamedTuple):
    """What stands in the folder: its branch, how many files the person has changed, instructions with their bytes."""

    branch: str
    changed: int
    instructions: tuple[tuple[str, int], ...]


class Earlier(NamedTuple):
    """What was done in this folder before: how much, and the session that was used last."""

    sessions: int = 0
    more: bool = False
    tasks: int = 0
    title: str = ""
    at: str = ""
    word: str = ""


class EarlierRead(NamedTuple):
    earlier: Earlier


class SessionLeft(NamedTuple):
    """`/new`: the next message begins a new session."""


class Request(NamedTuple):
    """One open permission request or question."""

    operation_id: str
    task_id: str
    kind: str
    fingerprint: str
    data: Mapping[str, Any]
    since: float
    sent: str = ""


class Queued(NamedTuple):
    """A message to the running task, until the task takes it; `id` is empty until the runtime has recorded it."""

    id: str
    text: str
    task_id: str


class Retrying(NamedTuple):
    """A model request that is sent again at `due` (monotonic seconds): retry `number` of at most `of`."""

    number: int
    of: int
    due: float


class Decided(NamedTuple):
    """One line of the permission history."""

    at: str
    answer: str
    by: str
    verb: str
    subject: str
    reason: str = ""


class TaskView(NamedTuple):
    """The task as the runtime last told it."""

    id: str
    text: str = ""
    state: str = ""
    reason: str = ""
    since: float = 0.0
    state_since: float = 0.0
    asked_since: float = 0.0
    """When the model was asked, until the first sign of its answer; else 0."""
    turns: int = 0
    tokens: int = 0
    estimated: bool = False
    limits: Mapping[str, Any] = {}
    result: Mapping[str, Any] | None = None


class State(NamedTuple):
    """Everything shown. `phase` is `opening`, `ready` or `failed`: whether the runtime behind the screen is there."""

    phase: str = "opening"
    failure: OpeningFailed | None = None
    root: str = ""
    folder: str = ""
    branch: str = ""
    model: str = ""
    endpoint: str = ""
    context_window: int = 0
    context_used: int = 0
    coming: Mapping[str, Any] = {}
    """What of the three above changes when the running task has ended."""
    session_id: str = ""
    title: str = ""
    yolo: bool = False
    blocks: Blocks = Blocks()
    tasks: Mapping[str, TaskView] = {}
    task_id: str = ""
    waiting_submit: Submitted | None = None
    requests: tuple[Request, ...] = ()
    queued: tuple[Queued, ...] = ()
    history: tuple[Decided, ...] = ()
    plan: tuple[Mapping[str, Any], ...] = ()
    changes: tuple[Mapping[str, Any], ...] = ()
    own_changes: int = 0
    checks: tuple[tuple[str, str], ...] = ()
    checking: bool = False
    older: int = 0
    more: bool = False
    operations: Mapping[str, int] = {}
    grace_seconds: float = 5.0
    """What a cancelled task has before it is forced; a setting of the runtime."""
    retrying: Retrying | None = None
    compacts_at: int = 0
    """Tokens at which the conversation is compacted; 0 while that is not known."""
    health: tuple[tuple[str, str], ...] = ()
    """What is not the model's: name and word, as the settings in force say."""
    instructions: tuple[tuple[str, int], ...] = ()
    earlier: Earlier = Earlier()
    read_only: str = ""
    """Why nothing runs by itself here: the session was cut off and is only shown."""

    @property
    def task(self) -> TaskView | None:
        return self.tasks.get(self.task_id)

    @property
    def running(self) -> bool:
        """A task is under way, or a message is about to begin one."""
        task = self.task
        return self.waiting_submit is not None or (task is not None and task.state in RUNNING_STATES)

    @property
    def word(self) -> str:
        """The state word of the design: what the mark, the header and the rail show."""
        if self.phase == "failed":
            return "blocked"
        task = self.task
        if self.waiting_submit is not None:
            return "running" if self.phase == "ready" else "queued"
        if task is None or not task.state:
            return "recovered" if self.read_only else "idle"
        if task.state in ("pending", "ready"):
            return "queued"
        return task.state


def reduce(state: State, update: Any, now: float) -> State:
    """The state after one update of the port or of the screen. `now` is monotonic seconds. Unknown updates change
    nothing: a newer runtime may tell more than this screen knows."""
    from .local import LOCAL
    from .reducers import EVENTS

    local = LOCAL.get(type(update).__name__)
    if local is not None:
        return local(state, update, now)
    handler = EVENTS.get(getattr(update, "type", ""))
    return handler(state, update, now) if handler is not None else state


def replace(state: State, /, **fields: Any) -> State:
    return state._replace(**fields)


def with_task(state: State, task_id: str, /, **fields: Any) -> State:
    """The state with fields of one task changed; a task not seen before begins here."""
    known = state.tasks.get(task_id) or TaskView(task_id)
    return state._replace(tasks={**state.tasks, task_id: known._replace(**fields)})


def heard(state: State, task_id: str) -> State:
    """The model has given a sign, or is not asked any more."""
    view = state.tasks.get(task_id)
    return with_task(state, task_id, asked_since=0.0) if view is not None and view.asked_since else state
