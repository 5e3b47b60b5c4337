"""What the composition root hands to the runtime: implementations and plain values, chosen once in `host.py`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fluzo.context.window import WindowRules
from fluzo.core.contracts import Agent, ContextProvider, Policy, Router, Storage
from fluzo.core.named import NamedTuple
from fluzo.core.records import Limits
from fluzo.core.redact import Redactor
from fluzo.runtime.budget import Prices
from fluzo.runtime.feed import Feed
from fluzo.runtime.worklog import LoopLimits

if TYPE_CHECKING:
    from fluzo.models.gateway import Gateway
    from fluzo.runtime.elsewhere import Elsewhere
    from fluzo.runtime.workspace import Observed, TaskWorkspace
    from fluzo.tools.registry import Registry


class TaskDefaults(NamedTuple):
    """Values of the effective settings that a new task starts from."""

    limits: Limits
    verification: tuple[tuple[str, ...], ...]
    shell_env: tuple[tuple[str, str], ...]
    standing_grants: tuple[Mapping[str, object], ...]
    window: WindowRules
    summary_tokens: int
    prices: Prices
    loops: LoopLimits
    instruction_files: tuple[str, ...]
    config: Mapping[str, object]


class Services(NamedTuple):
    storage: Storage
    feed: Feed
    project_id: str
    root: str
    workspace_identity: str
    open_workspace: "Callable[[asyncio.Event], Awaitable[TaskWorkspace]]"
    observe: "Callable[[Iterable[str]], Awaitable[Observed]]"
    file_names: "Callable[[int], Awaitable[Sequence[str]]]"
    folder_facts: "Callable[[], Awaitable[Mapping[str, object]]]"
    working_tree: "Callable[[], Awaitable[Mapping[str, object]]]"
    elsewhere: "Elsewhere"
    make_tools: "Callable[[], Registry]"
    gateway: "Gateway"
    policy: Policy
    agent: Agent
    router: Router
    instructions: str
    context: "Callable[[TaskWorkspace, tuple[str, ...], tuple[str, ...]], Sequence[ContextProvider]]"
    defaults: TaskDefaults
    require_consent: Callable[[], None]
    redact: Redactor
    announce: Callable[[str], None]
    """Tells other processes which task runs; empty when none does."""
    new_id: Callable[[str], str]
    new_trace_id: Callable[[], str]
    now: Callable[[], str]
    clock: Callable[[], float]
