"""The eight contracts (house rules, section 4): what the runtime asks of its parts, and nothing more.

Protocols without base classes. An implementation name never appears in the control flow of the runtime; the
composition root chooses. Values crossing a contract are records of `fluzo.core`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol

from fluzo.core.events import Event, Payload, Scope
from fluzo.core.named import NamedTuple
from fluzo.core.records import (
    Artifact,
    Attempt,
    Decision,
    FileVersion,
    Fragment,
    Grant,
    Message,
    ModelReply,
    ModelRequest,
    Operation,
    OperationRecord,
    ProcessResult,
    Record,
    Session,
    StoredMessage,
    Task,
    ToolCall,
    ToolResult,
    ToolSpec,
)

# --- agent ----------------------------------------------------------------------------------------------------

Fit = Callable[[Sequence[Message], Sequence[ToolSpec], str], Awaitable[Sequence[Message]]]
"""Messages that fit the model's window, compacted if need be; the text says why when that is not the threshold."""

Infer = Callable[[ModelRequest], Awaitable[ModelReply]]
"""The one way to a model that an agent is given; authorization, budget, slot and journal are behind it."""


class AgentContext(NamedTuple):
    """What an agent starts from. `history` is the conversation so far, oldest first, without a system message."""

    instructions: str
    fragments: tuple[Fragment, ...]
    history: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    max_output_tokens: int
    infer: Infer
    fit: Fit


class Observations(NamedTuple):
    """What the agent learns between two turns: results in the order of its calls, then what the user added."""

    results: tuple[Message, ...] = ()
    user_messages: tuple[Message, ...] = ()


class Finish(NamedTuple):
    """The agent has nothing more to do; `message` is its last word, for a person."""

    message: Message
    reply: ModelReply


class ToolCalls(NamedTuple):
    message: Message
    calls: tuple[ToolCall, ...]
    reply: ModelReply


class AgentRun(Protocol):
    async def send(self, observations: Observations) -> Finish | ToolCalls: ...

    async def cancel(self) -> None: ...


class Agent(Protocol):
    def start(self, context: AgentContext) -> AgentRun: ...


# --- routing and running --------------------------------------------------------------------------------------


class Route(NamedTuple):
    agent: str
    model: str


class Router(Protocol):
    def route(self, task: Task) -> Route: ...


class AttemptOutcome(NamedTuple):
    """How one attempt ended. `reason` is a stable code, empty when the task is completed."""

    state: Literal["completed", "failed", "blocked", "cancelled"]
    reason: str
    message: str
    detail: Mapping[str, object]


class Harness(Protocol):
    async def run_attempt(self, attempt: Attempt) -> AttemptOutcome: ...


class Policy(Protocol):
    def evaluate(self, operation: Operation) -> Decision: ...


# --- tools and backend ----------------------------------------------------------------------------------------


class FileContent(NamedTuple):
    """A file as read through the jail. `data` may be the head only; `version` is always of the whole file."""

    path: str
    data: bytes
    version: FileVersion
    size_bytes: int
    mode: int


class ProcessRequest(NamedTuple):
    """One process: an argument vector, never a joined command line (a script is `sh -c SCRIPT`, as argv)."""

    argv: tuple[str, ...]
    cwd: str = "."
    env: tuple[tuple[str, str], ...] = ()
    timeout_seconds: float = 120.0
    capture_bytes: int = 2 * 1024 * 1024


class GitRequest(NamedTuple):
    """One read-only Git inspection; `options` are checked by the tool, `paths` follow a `--`."""

    subcommand: Literal["status", "diff", "log", "show", "blame", "branch", "remote"]
    options: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class ListedFile(NamedTuple):
    path: str
    kind: Literal["file", "directory", "link", "other"]
    size_bytes: int = 0


class Listing(NamedTuple):
    entries: tuple[ListedFile, ...]
    truncated: bool


class SearchHit(NamedTuple):
    path: str
    line: int
    text: str


class SearchResult(NamedTuple):
    hits: tuple[SearchHit, ...]
    files: int
    truncated: bool


Watch = Callable[[bytes], None]
"""Takes output of a running process as it comes, unredacted, on the event loop; never blocks."""


class ExecutionBackend(Protocol):
    """Where operations happen. Paths are root-relative; every one is resolved beneath the root by handle.

    Raises WorkspaceError (`path_refused`) for what the jail refuses and ToolError for what is merely wrong
    (`stale_file`, no such file, a directory, too large); processes end in a ProcessResult, never an exception,
    unless they could not be started (ToolError).
    """

    async def read_file(self, path: str, max_bytes: int) -> FileContent: ...

    async def file_version(self, path: str) -> FileVersion: ...

    async def write_file(self, path: str, data: bytes, expected: FileVersion) -> FileVersion: ...

    async def delete_file(self, path: str, expected: FileVersion) -> None: ...

    async def move_file(self, source: str, target: str, expected: FileVersion) -> FileVersion: ...

    async def list_files(self, path: str, max_entries: int, depth: int) -> Listing: ...

    async def search(self, pattern: str, path: str, *, regex: bool, glob: str, max_hits: int) -> SearchResult: ...

    async def execute(self, request: ProcessRequest) -> ProcessResult: ...

    async def git(self, request: GitRequest) -> ProcessResult: ...

    def watched(self, watch: Watch) -> "ExecutionBackend":
        """This backend, with what `execute` reads from a process also given to `watch` while it runs."""
        ...


class Tool(Protocol):
    """One tool: a description for the model, an exact operation, and the effect.

    `describe` may look at the workspace through the backend, to bind versions and to show a diff; it changes
    nothing. `execute` does what the operation says and nothing else. Both raise ToolError with a text that
    lets the model recover.
    """

    @property
    def spec(self) -> ToolSpec: ...

    async def describe(self, args: Mapping[str, object], backend: ExecutionBackend) -> Operation: ...

    async def execute(
        self, args: Mapping[str, object], operation: Operation, backend: ExecutionBackend
    ) -> ToolResult: ...


class ContextProvider(Protocol):
    async def collect(self, backend: ExecutionBackend) -> Sequence[Fragment]: ...


# --- storage --------------------------------------------------------------------------------------------------

Draft = tuple[Scope, Payload]
"""An event before its commit: the store gives it sequence, id and time."""


class SessionSummary(NamedTuple):
    """A session in figures and in its first and last words. `newest` is its newest task, `verdict` what its checks
    said; `added` and `removed` are lines over all tasks, so that one changed twice counts twice."""

    newest: Task | None
    tasks: int = 0
    turns: int = 0
    tokens: int = 0
    branch: str = ""
    first: str = ""
    last: str = ""
    paths: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0


class Storage(Protocol):
    """State and event in one commit; an acknowledgement means that SQLite has it on disk.

    Raises StorageError; after one, nothing of that call is in the store.
    """

    async def commit(self, *records: Record, events: Sequence[Draft] = ()) -> tuple[Event, ...]: ...

    async def commit_intent(
        self, operation: OperationRecord, *, grant: Grant | None = None, events: Sequence[Draft] = ()
    ) -> tuple[Event, ...]:
        """Commit an operation in state intent_committed and consume a once-grant with it, or neither.

        Raises PermissionRequired when the grant was consumed, revoked or expired meanwhile.
        """
        ...

    async def commit_outcome(
        self, operation: OperationRecord, *records: Record, events: Sequence[Draft] = ()
    ) -> tuple[Event, ...]: ...

    async def store_artifact(self, task_id: str, kind: str, data: bytes, *, truncated: bool = False) -> Artifact:
        """Stage, sync and finalize a private file and commit its record: referenced only once it is durable."""
        ...

    async def read_artifact(self, artifact_id: str) -> bytes: ...

    async def session(self, session_id: str) -> Session | None: ...

    async def task(self, task_id: str) -> Task | None: ...

    async def task_by_request(self, request_id: str) -> Task | None: ...

    async def attempts(self, task_id: str) -> tuple[Attempt, ...]: ...

    async def operations(self, task_id: str) -> tuple[OperationRecord, ...]: ...

    async def grants(self, task_id: str) -> tuple[Grant, ...]: ...

    async def messages(self, session_id: str) -> tuple[StoredMessage, ...]: ...

    async def events_after(self, seq: int, *, task_id: str = "", limit: int = 1000) -> tuple[Event, ...]: ...

    async def unfinished(self) -> tuple[tuple[Attempt, ...], tuple[OperationRecord, ...]]:
        """Attempts still marked running and operations between intent and result: what recovery looks at."""
        ...

    async def page_sessions(self, *, limit: int, before: str = "") -> tuple[Session, ...]: ...

    async def summaries(self, session_ids: Sequence[str]) -> tuple[SessionSummary, ...]:
        """What the tasks of each of these sessions came to, in their order."""
        ...

    async def left_changed(self, attempt_id: str, head: str) -> frozenset[str] | None:
        """Paths that other attempts left changed; None when one ended without a word of it since this HEAD."""
        ...

    async def page_tasks(self, *, limit: int, before: str = "", session_id: str = "") -> tuple[Task, ...]: ...

    async def task_by_prefix(self, prefix: str) -> tuple[Task, ...]: ...

    async def session_by_prefix(self, prefix: str) -> tuple[Session, ...]: ...

    async def message_page(self, session_id: str, *, limit: int, before_position: int = 0) -> tuple[StoredMessage, ...]:
        """The last `limit` messages before a position (0: the end), oldest first."""
        ...

    async def last_seq(self) -> int: ...

    async def usage_bytes(self) -> Mapping[str, int]: ...
