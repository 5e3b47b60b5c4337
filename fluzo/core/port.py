"""The application port: the only thing a front end knows of the runtime (ARCH 5.4, 6.2).

Commands ask for something to be done, queries for something to be shown; both are owned, versioned values
that survive JSON, and so are the answers. An acknowledgement is not a completion. Methods may be called from
any thread and never block: they answer with futures. Re-exports what a front end needs of the records.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Literal, Protocol, get_args

from fluzo.core.events import Event, LiveUpdate, event_from_json
from fluzo.core.named import NamedTuple
from fluzo.core.records import AttemptState, OperationState, TaskState

PROTOCOL_VERSION = 1
MAX_REASON_CHARACTERS = 500

__all__ = [
    "Ack",
    "AnswerPermission",
    "AnswerQuestion",
    "ApplyConfigToActiveWork",
    "AttemptState",
    "CancelTask",
    "CapacityStatus",
    "Command",
    "ConfigDetail",
    "Event",
    "EventPage",
    "FileNames",
    "FolderFacts",
    "ForceStopTask",
    "HistoryUsage",
    "Lagged",
    "LiveUpdate",
    "OperationState",
    "OtherSession",
    "OtherSessions",
    "PendingRequests",
    "Port",
    "Query",
    "QueueIntervention",
    "RenameSession",
    "ResetCapacity",
    "ResumePlan",
    "ResumeTask",
    "RevokeGrant",
    "SaveConfig",
    "SessionDetail",
    "SessionList",
    "SetYolo",
    "Snapshot",
    "StartTask",
    "Subscription",
    "TaskDetail",
    "TaskList",
    "TaskState",
    "Update",
    "WithdrawIntervention",
    "WorkingTree",
    "event_from_json",
    "from_wire",
    "to_wire",
]


# --- commands -------------------------------------------------------------------------------------------------


class StartTask(NamedTuple):
    """Create a task and begin it. The same `request_id` again gives the same acknowledgement and no second task.

    `session_id` is empty for a new session. `allow` and `verify` are exact argument vectors that the user named
    on the command line: task grants. `interactive` says that somebody can answer questions. `skills` are files of the
    workspace that the user named for this task.
    """

    request_id: str
    text: str
    session_id: str = ""
    allow: tuple[tuple[str, ...], ...] = ()
    verify: tuple[tuple[str, ...], ...] = ()
    waive_verification: bool = False
    yolo: bool = False
    interactive: bool = False
    skills: tuple[str, ...] = ()


class CancelTask(NamedTuple):
    task_id: str
    by: str = "user"


class ForceStopTask(NamedTuple):
    """End what the task owns at once, without the grace period. The user has confirmed it (PRD 17.2)."""

    task_id: str
    by: str = "user"


class ResumeTask(NamedTuple):
    """Go on with a blocked or interrupted task in a new attempt: nothing of it is carried over but what it used up.

    `reconciled` is the digest of the `ResumePlan` that the user has seen; another state of the workspace since then
    is refused. `extend` raises limits by name. `retry` names unknown operations that may be done a second time.
    """

    request_id: str
    task_id: str
    reconciled: str
    text: str = ""
    allow: tuple[tuple[str, ...], ...] = ()
    extend: Mapping[str, float] = {}
    retry: tuple[str, ...] = ()
    yolo: bool = False
    interactive: bool = False


class AnswerPermission(NamedTuple):
    """The user's act on one pending request; refused unless `fingerprint` is still the one being asked.

    `reason` goes with a denial: it is recorded, and the agent is told it as the user's words, made one line of at most
    `MAX_REASON_CHARACTERS`.
    """

    task_id: str
    operation_id: str
    fingerprint: str
    answer: Literal["once", "task", "deny"]
    reason: str = ""


class AnswerQuestion(NamedTuple):
    """The user's words, or by their numbers from 1 the `chosen` choices, more than one where several may be chosen."""

    task_id: str
    operation_id: str
    answer: str = ""
    chosen: tuple[int, ...] = ()


class QueueIntervention(NamedTuple):
    task_id: str
    text: str


class WithdrawIntervention(NamedTuple):
    """Take back a queued message that the agent has not read yet; to change one, queue it anew."""

    task_id: str
    intervention_id: str


class ResetCapacity(NamedTuple):
    """Free the slots of requests that may still be running on the server; only the user can know that they are not."""

    pool: str = ""
    by: str = "user"


class RevokeGrant(NamedTuple):
    task_id: str
    grant_id: str


class RenameSession(NamedTuple):
    """Give a session another title. Refused while its task runs; the acknowledgement's message is the title as kept."""

    session_id: str
    title: str


class SetYolo(NamedTuple):
    """Switch the session's YOLO mode by an act of the user; never stored as a default."""

    session_id: str
    enabled: bool


class SaveConfig(NamedTuple):
    """Save settings: key -> plain value, None for "not in the file any more", which means its default.

    All are checked together and written as one. `fingerprint` is that of the file as the user saw it; refused as
    `config_changed` when the file has moved since. Without values the file is taken over as it stands. The next task
    gets what was saved; a running one keeps what it began with (PRD 26.2).
    """

    values: Mapping[str, Any]
    fingerprint: str


class ApplyConfigToActiveWork(NamedTuple):
    """Give a running task other limits, by name such as `max_turns`; the user has seen them beside what is used up.

    What was used up stays used up: a limit below it ends the task as used up at its next step.
    """

    task_id: str
    limits: Mapping[str, float]


Command = (
    StartTask
    | ResumeTask
    | CancelTask
    | ForceStopTask
    | AnswerPermission
    | AnswerQuestion
    | QueueIntervention
    | WithdrawIntervention
    | ResetCapacity
    | RevokeGrant
    | RenameSession
    | SetYolo
    | SaveConfig
    | ApplyConfigToActiveWork
)


class Ack(NamedTuple):
    """The command was accepted for processing. `cursor` is the last committed event before its effects."""

    accepted: bool
    task_id: str = ""
    session_id: str = ""
    cursor: int = 0
    code: str = ""
    message: str = ""


# --- queries --------------------------------------------------------------------------------------------------


class TaskList(NamedTuple):
    limit: int = 50
    before: str = ""
    session_id: str = ""


class TaskDetail(NamedTuple):
    """One task by id or unique id prefix (`last` is the newest), with attempts, operations and grants."""

    task_id: str


class SessionList(NamedTuple):
    """Sessions, the newest first, each with what its tasks came to (`SessionSummary`)."""

    limit: int = 50
    before: str = ""


class SessionDetail(NamedTuple):
    session_id: str
    limit: int = 200
    before_position: int = 0


class OtherSessions(NamedTuple):
    """The newest `limit` sessions of each other folder that the user has worked in, as `SessionList` gives them, with
    their `folder`. `folders` are those that could not be read, with `problem` and `hint`, `left_out` how many more
    there are. Looking opens nothing for writing and runs nothing.
    """

    limit: int = 50


class OtherSession(NamedTuple):
    """The last messages of one of them, as `SessionDetail` gives them; to be read, it is gone on with in its folder."""

    folder: str
    session_id: str
    limit: int = 200


class EventPage(NamedTuple):
    task_id: str = ""
    after: int = 0
    limit: int = 500


class PendingRequests(NamedTuple):
    """Permission requests and questions that wait for the user now."""

    task_id: str


class ResumePlan(NamedTuple):
    """What is different since the last attempt of a task, and what of it is unknown. Looking changes nothing.

    `limit` tells of a task that was blocked by one which is used up, else it is None: its name, what is `used` and
    `allowed`, and `raised`, to which `ResumeTask.extend` may raise it so that as much is left as a new task has.
    """

    task_id: str


class CapacityStatus(NamedTuple):
    """Slots of this process by pool and model: limits, occupied, uncertain, queued."""


class HistoryUsage(NamedTuple):
    """Sizes and counts of this repository's store."""


class FileNames(NamedTuple):
    """Files of the workspace that Git tracks or does not ignore, for a front end to complete; at most `limit`."""

    limit: int = 200_000


class FolderFacts(NamedTuple):
    """The workspace before anything is done in it: `branch`, how many files the user has `changed`, and the
    `instructions` at its root that are told to the agent, each with `name` and `size_bytes`.
    """


class WorkingTree(NamedTuple):
    """What of the working tree is not as in the last commit, whoever changed it; looking changes nothing.

    `head`, `branch`, `files` (`path`, `status`, `added`, `removed`, and the `digest` that it has now), their `diff` in
    Git's form, `diff_truncated`, and `left_out`: how many more files differ. Untracked files are new ones, ignored
    ones are not there; other repositories and files named like credentials are named alone.
    """


class ConfigDetail(NamedTuple):
    """Every setting: as saved, as in force, and from where.

    `path` and `fingerprint` of the file (empty when there is none), `in_force` (the fingerprint that the next task's
    settings come from), `problem` and `hint` when the file cannot be used, `consent` that is missing, `rows`, and
    `entries`, the kinds of entries that can be added: see `core.settings_rows`.
    """


Query = (
    TaskList
    | TaskDetail
    | SessionList
    | SessionDetail
    | OtherSessions
    | OtherSession
    | EventPage
    | PendingRequests
    | ResumePlan
    | CapacityStatus
    | HistoryUsage
    | ConfigDetail
    | FileNames
    | FolderFacts
    | WorkingTree
)


class Snapshot(NamedTuple):
    """A read model at one point: `cursor` is the last event it contains, `data` plain JSON values."""

    cursor: int
    data: Mapping[str, Any]


# --- subscriptions --------------------------------------------------------------------------------------------


class Lagged(NamedTuple):
    """The subscriber was too slow: committed events from `after` on must be read by `EventPage`."""

    after: int


Update = Event | LiveUpdate | Lagged


class Subscription(Protocol):
    """Updates of one task: committed events in order and without a gap, live updates merged."""

    def next(self, timeout_seconds: float | None) -> Update | None:
        """The next update, or None when the time is over or the subscription has ended."""
        ...

    @property
    def ended(self) -> bool:
        """True once the task's attempt is over and everything has been handed out."""
        ...

    def close(self) -> None:
        """Detach; this never cancels the task."""
        ...


class Port(Protocol):
    def dispatch(self, command: Command) -> "Future[Ack]": ...

    def query(self, query: Query) -> "Future[Snapshot]": ...

    def subscribe(self, task_id: str, after: int) -> Subscription: ...


# --- wire -----------------------------------------------------------------------------------------------------

_WIRE: Mapping[str, Any] = {cls.__name__: cls for cls in (*get_args(Command), *get_args(Query), Ack, Snapshot)}


def to_wire(value: Command | Query | Ack | Snapshot) -> dict[str, Any]:
    """The JSON object of a port value; `from_wire` gives an equal value back."""
    return {"protocol": PROTOCOL_VERSION, "type": type(value).__name__, **value._asdict()}


def from_wire(data: Mapping[str, Any]) -> Any:
    """Rebuild a port value. Raises KeyError for an unknown type and ValueError for another protocol version."""
    if data.get("protocol") != PROTOCOL_VERSION:
        raise ValueError(f"protocol version {data.get('protocol')!r} is not {PROTOCOL_VERSION}")
    cls = _WIRE[data["type"]]
    return cls(**{key: _freeze(item) for key, item in data.items() if key in cls._fields})


def _freeze(value: Any) -> Any:
    return tuple(_freeze(item) for item in value) if isinstance(value, list) else value
