"""Puts the parts of one attempt together: gate, inference, compaction, verification, harness."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from fluzo.context import assemble
from fluzo.context.sources import ScopedInstructions
from fluzo.context.window import Window
from fluzo.core.contracts import AgentContext, Storage
from fluzo.core.events import Payload
from fluzo.core.named import NamedTuple
from fluzo.core.records import Fragment, Message, Session, StoredMessage, Task, ToolCall
from fluzo.runtime.approvals import Approvals
from fluzo.runtime.budget import Budget
from fluzo.runtime.compaction import Compactor, CompactorParts
from fluzo.runtime.conversation import Conversation
from fluzo.runtime.gate import Gate, GateParts
from fluzo.runtime.harness import HarnessParts, LoopHarness
from fluzo.runtime.inference import Inference, InferenceParts
from fluzo.runtime.recorder import Recorder
from fluzo.runtime.services import Services
from fluzo.runtime.verify import Verifier
from fluzo.runtime.worklog import WorkLog

if TYPE_CHECKING:
    from fluzo.runtime.workspace import TaskWorkspace


class Wiring(NamedTuple):
    """What an attempt brings along."""

    services: Services
    workspace: "TaskWorkspace"
    task: Task
    model_id: str
    fragments: tuple[Fragment, ...]
    request: str
    unsettled: Mapping[str, str]
    recorder: Recorder
    budget: Budget
    approvals: Approvals
    interactive: bool
    cancelled: asyncio.Event
    session: Callable[[], Session]
    keep_session: Callable[[Session], None]
    checkpoint: Callable[[], Task]
    interventions: Callable[[], tuple[tuple[str, Payload], ...]]
    warn: Callable[[str, str], Awaitable[None]]


async def wire(given: Wiring) -> tuple[LoopHarness, Gate]:
    services, defaults = given.services, given.services.defaults
    tools = services.make_tools()
    window = Window(defaults.window)
    gate = Gate(_gate_parts(given, tools))
    inference = Inference(
        InferenceParts(
            gate=gate,
            gateway=services.gateway,
            model_id=given.model_id,
            budget=given.budget,
            window=window,
            task_id=given.task.id,
            publish_live=services.feed.publish_live,
            warn=given.warn,
            redact=services.redact,
        )
    )
    stored = await services.storage.messages(given.task.session_id)
    conversation = Conversation(given.recorder, _last_position(stored), services.new_id, services.now)
    log = WorkLog(defaults.loops)
    compactor = Compactor(
        CompactorParts(
            window=window,
            infer=inference.infer,
            recorder=given.recorder,
            conversation=conversation,
            session=given.session,
            keep_session=given.keep_session,
            request=given.task.text,
            facts=log.facts,
            max_output_tokens=defaults.summary_tokens,
        )
    )
    context = AgentContext(
        instructions=services.instructions,
        fragments=given.fragments,
        history=await _history(services.storage, given.session(), stored),
        tools=tools.specs(),
        max_output_tokens=defaults.window.max_output_tokens,
        infer=inference.infer,
        fit=compactor.fit,
    )
    verifier = Verifier(
        commands=given.task.verification,
        gate=gate,
        run_tool=tools.tool("run"),
        backend=given.workspace.backend,
        recorder=given.recorder,
        revision=given.workspace.revision,
    )
    parts = HarnessParts(
        agent=services.agent,
        context=context,
        first=assemble.first_user_message(given.request, given.fragments),
        open_calls=_open_calls(stored),
        checkpoint=given.checkpoint,
        gate=gate,
        budget=given.budget,
        recorder=given.recorder,
        conversation=conversation,
        verifier=None if given.task.verification_waived else verifier,
        log=log,
        interventions=given.interventions,
        cancelled=given.cancelled,
    )
    return LoopHarness(parts), gate


def _gate_parts(given: Wiring, tools: Any) -> GateParts:
    services = given.services
    return GateParts(
        policy=services.policy,
        approvals=given.approvals,
        budget=given.budget,
        recorder=given.recorder,
        tools=tools,
        backend=given.workspace.backend,
        workspace=services.workspace_identity,
        user_changed=given.workspace.baseline.user_changed,
        unsettled=given.unsettled,
        notes=ScopedInstructions(services.defaults.instruction_files),
        interactive=given.interactive,
        cancelled=given.cancelled,
        publish_live=services.feed.publish_live,
        new_id=services.new_id,
        now=services.now,
    )


async def _history(storage: Storage, session: Session, stored: tuple[StoredMessage, ...]) -> tuple[Message, ...]:
    """The conversation so far as the model is shown it: from the newest compaction on, if there was one."""
    artifact_id, through = session.context.get("artifact_id"), session.context.get("through_position")
    if not artifact_id or not isinstance(through, int):
        return tuple(item.message for item in stored)
    artifact = json.loads(await storage.read_artifact(str(artifact_id)))
    later = (item.message for item in stored if item.position > through)
    return (Message("user", str(artifact["text"])), *later)


def _open_calls(stored: tuple[StoredMessage, ...]) -> tuple[ToolCall, ...]:
    """Calls at the end of the conversation that a dead process left without a result."""
    answered = {item.message.tool_call_id for item in stored}
    last = next((item.message for item in reversed(stored) if item.message.role == "assistant"), None)
    return tuple(call for call in last.tool_calls if call.id not in answered) if last else ()


def _last_position(stored: tuple[StoredMessage, ...]) -> int:
    return max((item.position for item in stored), default=0)
