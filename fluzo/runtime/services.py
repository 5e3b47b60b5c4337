"""What the composition root hands to the runtime: implementations and plain values, chosen once in `host.py`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fluzo.core.contracts import Agent, ContextProvider, ExecutionBackend, Policy, Router, Storage, Tool
from fluzo.core.records import Fragment, Limits, ToolSpec
from fluzo.core.redact import Redactor
from fluzo.runtime.feed import Feed
from fluzo.runtime.gate import Gateway, ToolBox


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that is not as it was when the task began."""

    path: str
    status: str
    added: int
    removed: int
    preexisting: bool


@dataclass(frozen=True, slots=True)
class WorkspaceChanges:
    files: tuple[FileChange, ...]
    diff: str
    diff_truncated: bool
    head_moved: bool
    index_changed: bool


class Workspace(Protocol):
    """One task's view of the working tree: the backend it acts through and the baseline it began with."""

    @property
    def backend(self) -> ExecutionBackend: ...

    @property
    def user_changed(self) -> frozenset[str]: ...

    @property
    def head(self) -> str: ...

    @property
    def branch(self) -> str: ...

    def baseline(self) -> Mapping[str, object]: ...

    async def revision(self) -> str: ...

    async def changes(self) -> WorkspaceChanges: ...

    async def stop(self) -> Sequence[int]:
        """End every owned process within the grace period; what is left are pids that could not be ended."""
        ...


class Tools(ToolBox, Protocol):
    def specs(self) -> tuple[ToolSpec, ...]: ...

    def tool(self, name: str) -> Tool: ...


@dataclass(frozen=True, slots=True)
class TaskDefaults:
    """Values of the effective settings that a new task starts from."""

    limits: Limits
    verification: tuple[tuple[str, ...], ...]
    shell_env: tuple[tuple[str, str], ...]
    standing_grants: tuple[Mapping[str, object], ...]
    max_output_tokens: int
    context_window: int
    config: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Services:
    storage: Storage
    feed: Feed
    project_id: str
    root: Path
    workspace_identity: str
    open_workspace: "Callable[[object], Awaitable[Workspace]]"
    make_tools: Callable[[], Tools]
    gateway: Gateway
    policy: Policy
    agent: Agent
    router: Router
    instructions: str
    context: Callable[[Workspace, tuple[str, ...]], Sequence[ContextProvider]]
    fragments: Callable[[Sequence[ContextProvider], ExecutionBackend], Awaitable[tuple[Fragment, ...]]]
    defaults: TaskDefaults
    require_consent: Callable[[], None]
    redact: Redactor
    new_id: Callable[[str], str]
    new_trace_id: Callable[[], str]
    now: Callable[[], str]
    clock: Callable[[], float]
