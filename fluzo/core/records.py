"""The records Fluzo works with: Session > Task > Attempt > Turn > Operation (ARCH 6.1).

Plain frozen values, named tuples because defining a dataclass takes ten times as long. No I/O, no clock: whoever
creates a record brings its id and times. Times ending in `_at` are UTC, ISO 8601 with microseconds and a `Z`; those
ending in `_seconds` are durations.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from fluzo.core.named import NamedTuple


class TaskState(StrEnum):
    PENDING = "pending"
    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    BLOCKED = "blocked"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class OperationState(StrEnum):
    """ARCH 9.2: requested -> authorized -> intent_committed -> dispatched -> known_result | unknown.

    `refused` ends an operation that never got its intent: denied, stale, invalid or cancelled before dispatch.
    """

    REQUESTED = "requested"
    AUTHORIZED = "authorized"
    INTENT_COMMITTED = "intent_committed"
    DISPATCHED = "dispatched"
    KNOWN_RESULT = "known_result"
    UNKNOWN = "unknown"
    REFUSED = "refused"


TASK_TRANSITIONS: Mapping[TaskState, frozenset[TaskState]] = {
    TaskState.PENDING: frozenset({TaskState.READY, TaskState.CANCELLED, TaskState.BLOCKED}),
    TaskState.READY: frozenset({TaskState.RUNNING, TaskState.CANCELLED, TaskState.BLOCKED}),
    TaskState.RUNNING: frozenset(
        {TaskState.WAITING, TaskState.BLOCKED, TaskState.STOPPING, TaskState.COMPLETED, TaskState.FAILED}
    ),
    TaskState.WAITING: frozenset({TaskState.RUNNING, TaskState.STOPPING, TaskState.BLOCKED}),
    TaskState.BLOCKED: frozenset({TaskState.READY, TaskState.STOPPING}),
    TaskState.STOPPING: frozenset({TaskState.CANCELLED, TaskState.BLOCKED}),
    TaskState.COMPLETED: frozenset(),
    TaskState.FAILED: frozenset(),
    TaskState.CANCELLED: frozenset(),
}
"""ARCH 6.2, plus blocked before the first dispatch (no workspace, no consent, no store)."""

OPERATION_TRANSITIONS: Mapping[OperationState, frozenset[OperationState]] = {
    OperationState.REQUESTED: frozenset({OperationState.AUTHORIZED, OperationState.REFUSED}),
    OperationState.AUTHORIZED: frozenset({OperationState.INTENT_COMMITTED, OperationState.REFUSED}),
    OperationState.INTENT_COMMITTED: frozenset(
        {OperationState.DISPATCHED, OperationState.KNOWN_RESULT, OperationState.UNKNOWN}
    ),
    OperationState.DISPATCHED: frozenset({OperationState.KNOWN_RESULT, OperationState.UNKNOWN}),
    OperationState.KNOWN_RESULT: frozenset(),
    OperationState.UNKNOWN: frozenset(),
    OperationState.REFUSED: frozenset(),
}


def task_may_become(old: TaskState, new: TaskState) -> bool:
    return new in TASK_TRANSITIONS[old]


def operation_may_become(old: OperationState, new: OperationState) -> bool:
    return new in OPERATION_TRANSITIONS[old]


# --- what an operation would do -------------------------------------------------------------------------------

Action = Literal[
    "infer",
    "read",
    "list",
    "search",
    "edit",
    "write",
    "delete",
    "move",
    "execute",
    "git_read",
    "git_commit",
    "git_push",
    "ask",
    "plan",
    "invalid",
]
Effect = Literal["none", "read", "write", "execute", "network", "user"]


class FileVersion(NamedTuple):
    """What was seen of one file: content digest plus identity, so that a same-size, same-second change shows.

    `digest` is the SHA-256 of the bytes in hex; the empty string says that there is no such file.
    """

    digest: str
    size_bytes: int = 0
    device: int = 0
    inode: int = 0

    @property
    def absent(self) -> bool:
        return not self.digest


ABSENT = FileVersion("")


class Operation(NamedTuple):
    """One proposed effect with its exact scope; equal scopes are equal authorizations (PRD 12.1).

    Paths are relative to the workspace root with `/`, undecodable bytes as lone surrogates. `versions` are
    the file versions this operation was prepared against; the backend refuses to act on any other.
    """

    tool: str
    action: Action
    effect: Effect
    summary: str
    paths: tuple[str, ...] = ()
    versions: tuple[tuple[str, FileVersion], ...] = ()
    argv: tuple[str, ...] = ()
    script: str = ""
    cwd: str = "."
    env: tuple[tuple[str, str], ...] = ()
    timeout_seconds: float = 0.0
    preview: str = ""
    touches_user_changes: bool = False
    destination: str = ""
    """Where a push goes, as the repository names it; never with a user name or password."""
    intended: tuple[tuple[str, str], ...] = ()
    """Digest that each path is to have afterwards, empty for none: what recovery compares with (PRD 22.1)."""
    lines_added: int = 0
    lines_removed: int = 0


class Decision(NamedTuple):
    """Policy's answer for one operation; `reason` is a stable code, `text` the sentence for a person."""

    verdict: Literal["allow", "deny", "ask"]
    reason: str
    text: str = ""


class ProcessResult(NamedTuple):
    """How an owned process ended. `output` is head and tail of stdout and stderr as they came, bounded."""

    exit_status: int | None
    output: bytes
    output_bytes: int
    truncated: bool
    elapsed_seconds: float
    timed_out: bool = False
    cancelled: bool = False
    termination: Literal["exited", "terminated", "killed", "uncertain"] = "exited"
    still_running: tuple[int, ...] = ()
    signal: int = 0


# --- conversation ---------------------------------------------------------------------------------------------


class ToolCall(NamedTuple):
    """A complete call as the model sent it. `arguments` is the raw text; the registry checks it."""

    id: str
    name: str
    arguments: str


class ToolResult(NamedTuple):
    """What a call came to. `text` goes to the model, `detail` to people and machines, both already redacted."""

    ok: bool
    text: str
    code: str = ""
    detail: Mapping[str, object] = {}
    artifact: bytes | None = None
    """Retained beside the journal when larger than what the model sees; None when `text` is all there is."""


Role = Literal["system", "user", "assistant", "tool"]


class Message(NamedTuple):
    role: Role
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    incomplete: bool = False


class Usage(NamedTuple):
    """Tokens of one or more requests. Cached and reasoning tokens are parts of the totals, never added."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class ToolSpec(NamedTuple):
    """A tool as the model is told of it; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, object]


Purpose = Literal["agent_turn", "context_compaction", "capability_probe"]


class ModelRequest(NamedTuple):
    """One inference: everything the wire needs but the endpoint. Equal requests give equal bytes."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    max_output_tokens: int
    purpose: Purpose = "agent_turn"
    estimated_input_tokens: int = 0


Outcome = Literal["complete", "incomplete", "empty"]


class ModelReply(NamedTuple):
    """One received answer. `tool_calls` holds complete calls only; a half-received one is never in it.

    `incomplete` says that the stream broke or was cut off by the output limit: its calls must not run.
    """

    outcome: Outcome
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str = ""
    usage: Usage | None = None
    model: str = ""
    response_id: str = ""
    warnings: tuple[str, ...] = ()
    attempts: int = 1
    first_output_seconds: float | None = None
    queue_seconds: float = 0.0
    """Waited for slots by all attempts together; part of active time, reported apart (PRD 43.3)."""


class Fragment(NamedTuple):
    """A piece of context with its provenance; `key` is stable, fragments are ordered by the provider."""

    key: str
    source: str
    text: str
    version: str = ""
    truncated: bool = False


# --- durable records ------------------------------------------------------------------------------------------


class Session(NamedTuple):
    id: str
    project_id: str
    title: str
    created_at: str
    updated_at: str
    yolo: bool = False
    context: Mapping[str, object] = {}
    """Pointer to the newest compaction: `artifact_id` and `through_position`; empty before the first."""


class Consumption(NamedTuple):
    """What a task has used up; only grows (PRD 22.1)."""

    turns: int = 0
    tool_calls: int = 0
    active_seconds: float = 0.0
    queue_seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_tokens: int = 0
    cost_microunits: int = 0


class Limits(NamedTuple):
    max_turns: int
    max_tool_calls: int
    max_active_seconds: float
    max_total_tokens: int
    max_cost_microunits: int = 0


class Task(NamedTuple):
    id: str
    session_id: str
    request_id: str
    text: str
    state: TaskState
    reason: str
    created_at: str
    updated_at: str
    workspace_root: str
    workspace_identity: str
    limits: Limits
    verification: tuple[tuple[str, ...], ...] = ()
    verification_waived: bool = False
    consumption: Consumption = Consumption()
    final_message: str = ""
    result: Mapping[str, object] = {}
    """The result object of the last finished attempt (docs/headless.md); empty while it runs."""


class Attempt(NamedTuple):
    id: str
    task_id: str
    trace_id: str
    number: int
    state: AttemptState
    started_at: str
    ended_at: str = ""
    reason: str = ""
    previous_id: str = ""
    config: Mapping[str, object] = {}
    baseline: Mapping[str, object] = {}


class OperationRecord(NamedTuple):
    """The durable side of an operation: what was asked, decided, intended and known."""

    id: str
    task_id: str
    attempt_id: str
    turn: int
    call_id: str
    tool: str
    action: str
    effect: str
    summary: str
    scope: Mapping[str, object]
    fingerprint: str
    state: OperationState
    requested_at: str
    ended_at: str = ""
    authorized_by: str = ""
    grant_id: str = ""
    ok: bool | None = None
    code: str = ""
    result: Mapping[str, object] = {}
    artifact_id: str = ""


GrantKind = Literal["once", "task", "standing"]
GrantIssuer = Literal["user", "flag", "settings", "verification"]


class Grant(NamedTuple):
    """Stored permission for exactly one scope fingerprint. A once-grant is consumed with the intent it allows."""

    id: str
    kind: GrantKind
    issuer: GrantIssuer
    task_id: str
    fingerprint: str
    scope: Mapping[str, object]
    granted_at: str
    consumed_at: str = ""
    revoked_at: str = ""
    expired_at: str = ""

    @property
    def usable(self) -> bool:
        return not (self.consumed_at or self.revoked_at or self.expired_at)


class StoredMessage(NamedTuple):
    """One conversation message in the store; `position` orders the session."""

    id: str
    session_id: str
    task_id: str
    attempt_id: str
    turn: int
    position: int
    created_at: str
    message: Message


class Artifact(NamedTuple):
    """A private file beside the journal; the id is opaque and never a path."""

    id: str
    task_id: str
    kind: str
    size_bytes: int
    digest: str
    created_at: str
    truncated: bool = False


Record = Session | Task | Attempt | OperationRecord | Grant | StoredMessage | Artifact
