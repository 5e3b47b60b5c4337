"""How each committed event of the runtime changes the state; one small pure function each, found by its type's name."""

from collections.abc import Callable, Mapping
from typing import Any

from fluzo.core.answers import told
from fluzo.core.outcome import CHANGES, verb_of

from .blocks import Block, Tool
from .changes import (
    LOOK_BACK,
    add,
    close_streams,
    forget,
    note,
    on_tool,
    put,
    stale,
    verdicts,
)
from .rows import between, command_text, cut_of, facts_of, state_of, subject_of, thousands
from .sanitize import clean, visible_text
from .state import Decided, Queued, State, TaskView, heard, replace, with_task

Reducer = Callable[[State, Any, float], State]

ENDED = ("completed", "failed", "cancelled", "blocked")
MAX_HISTORY = 200
TIMED = ("read", "list", "search", *CHANGES)
"""Whose rows say how long it took, from intent to outcome. What a process took is in its own result."""
COMPACTION = "context_compaction"
"""Ends the summary of a model request that compacts the conversation."""


def _session_created(state: State, event: Any, now: float) -> State:
    return replace(state, session_id=event.scope.session_id, title=clean(event.payload.title))


def _yolo_changed(state: State, event: Any, now: float) -> State:
    return replace(state, yolo=event.payload.enabled)


def _task_created(state: State, event: Any, now: float) -> State:
    task_id, text = event.scope.task_id, clean(event.payload.text)
    limits = event.payload.limits
    state = with_task(state, task_id, text=text, limits=limits, state="pending", since=now)
    checks = tuple((command_text(argv), "not run") for argv in event.payload.verification)
    state = replace(state, checks=checks, plan=(), task_id=task_id, session_id=event.scope.session_id)
    for block in state.blocks.reversed():
        if block.kind == "user" and block.source == text and block.task_id in ("", task_id):
            return state
    return add(state, Block(0, "user", task_id, text, at=event.at))


def _task_state(state: State, event: Any, now: float) -> State:
    task_id, new = event.scope.task_id, event.payload.new
    view = state.tasks.get(task_id) or TaskView(task_id)
    since = view.since or now
    state = with_task(
        state, task_id, state=new, reason=visible_text(event.payload.reason), since=since, state_since=now
    )
    state = heard(state, task_id)
    if new in ENDED:
        state = replace(close_streams(state, now), requests=(), operations={}, retrying=None)
        if (row := _compaction_row(state)) is not None:
            state = put(state, row.changed(source="compaction not finished", state="cancelled"))
        left = tuple(item for item in state.queued if item.task_id != task_id)
        state = replace(state, queued=left, coming={}, **state.coming)
    return state


def _attempt_started(state: State, event: Any, now: float) -> State:
    return replace(with_task(state, event.scope.task_id, since=now), yolo=event.payload.yolo or state.yolo)


def _baseline(state: State, event: Any, now: float) -> State:
    return replace(state, branch=clean(event.payload.branch), own_changes=len(event.payload.changed))


def _turn_started(state: State, event: Any, now: float) -> State:
    return with_task(close_streams(state, now), event.scope.task_id, turns=event.payload.turn, asked_since=now)


def _message_recorded(state: State, event: Any, now: float) -> State:
    return close_streams(state, now) if event.payload.role == "assistant" else state


def _compacting(state: State, event: Any) -> State:
    """A row before the conversation is compacted; the same row says afterwards what came of it. One may take several
    requests."""
    if _compaction_row(state) is not None:
        return state
    used = f"~{thousands(state.context_used)} tokens  " if state.context_used else ""
    text = f"compacting {used}(older messages become a summary; the originals are kept)"
    return add(state, Block(0, "note", event.scope.task_id, text, "running", at=event.at, message_id=COMPACTION))


def _compaction_row(state: State) -> Block | None:
    """The row of the compaction that goes on now."""
    for number, block in enumerate(state.blocks.reversed()):
        if block.message_id == COMPACTION and block.state == "running":
            return block
        if number > LOOK_BACK:
            break
    return None


def _operation_requested(state: State, event: Any, now: float) -> State:
    asked = event.payload
    if asked.action == "infer":
        return _compacting(state, event) if asked.summary.endswith(COMPACTION) else state
    verb = "check" if state.checking and asked.action == "execute" else verb_of(asked.tool, asked.action)
    operation_id = event.scope.operation_id
    tool = Tool(operation_id, asked.call_id, asked.tool, verb, subject_of(asked.summary), started=now)
    state = heard(close_streams(state, now), event.scope.task_id)
    block = Block(0, "tool", event.scope.task_id, state="queued", at=event.at, tool=tool, turn=asked.turn)
    return replace(add(state, block), operations={**state.operations, operation_id: state.blocks.next})


def _operation_decided(state: State, event: Any, now: float) -> State:
    tags = {"yolo": "auto", "grant": "granted"}
    tag = tags.get(event.payload.by, "")
    if not tag or event.payload.verdict != "allow":
        return state
    return on_tool(state, event.scope.operation_id, lambda tool: {"tool": tool._replace(tag=tag)})


def _permission_requested(state: State, event: Any, now: float) -> State:
    return on_tool(state, event.scope.operation_id, lambda tool: {"state": "waiting"})


def _permission_answered(state: State, event: Any, now: float) -> State:
    operation_id, payload = event.scope.operation_id, event.payload
    words = {"once": "allowed once", "task": "allowed for task", "deny": "denied", "yolo": "auto"}
    key = state.operations.get(operation_id)
    tool = state.blocks[key].tool if key is not None and key in state.blocks else None
    verb, subject = (tool.verb, tool.subject) if tool else ("", "")
    decided = Decided(event.at, payload.answer, payload.by, verb, subject, visible_text(payload.reason))
    state = replace(
        state,
        requests=tuple(item for item in state.requests if item.operation_id != operation_id),
        history=(*state.history, decided)[-MAX_HISTORY:],
    )
    tag = words.get(payload.answer, payload.answer)
    after = "failed" if payload.answer == "deny" else "queued"
    return on_tool(state, operation_id, lambda tool: {"state": after, "tool": tool._replace(tag=tag)})


def _question_asked(state: State, event: Any, now: float) -> State:
    return on_tool(state, event.scope.operation_id, lambda tool: {"state": "waiting"})


def _question_answered(state: State, event: Any, now: float) -> State:
    operation_id = event.scope.operation_id
    state = replace(state, requests=tuple(item for item in state.requests if item.operation_id != operation_id))
    answer = clean(told(event.payload.answer, event.payload.chosen))
    return on_tool(state, operation_id, lambda tool: {"tool": tool._replace(output=answer)})


def _operation_intended(state: State, event: Any, now: float) -> State:
    return on_tool(
        state,
        event.scope.operation_id,
        lambda tool: {"state": "running", "tool": tool._replace(started=now, intended_at=event.at)},
    )


def _operation_ended(state: State, event: Any, now: float) -> State:
    payload = event.payload
    key = state.operations.get(event.scope.operation_id)
    if key is None:
        return state
    told = facts_of({**payload.result, "message": ""})  # What an error says stands below the row, in full.
    facts = told or ("" if payload.ok else payload.code.replace("_", " "))
    subject = subject_of(payload.summary, facts)
    cut = cut_of(payload.result, kept=bool(payload.artifact_id))
    tool = state.blocks[key].tool
    if told and tool is not None and tool.verb in TIMED and (took := between(tool.intended_at, event.at)):
        facts = f"{facts}  {took}"
    if payload.ok and tool is not None and tool.verb in CHANGES:
        state = _changed_so_far(stale(state), subject, payload.result)
    return on_tool(
        forget(state, event.scope.operation_id),
        event.scope.operation_id,
        lambda tool: {
            "state": state_of(payload.ok, payload.result),
            "tool": tool._replace(facts=facts, subject=subject or tool.subject, live=(), cut=cut),
        },
        key,
    )


def _changed_so_far(state: State, path: str, result: Mapping[str, Any]) -> State:
    """The changed files while a task runs, as its edits tell of them; its result replaces them."""
    added, removed = int(result.get("lines_added") or 0), int(result.get("lines_removed") or 0)
    found = {str(change.get("path")): change for change in state.changes}
    known = found.get(path, {})
    total = {"added": int(known.get("added") or 0) + added, "removed": int(known.get("removed") or 0) + removed}
    return replace(state, changes=tuple({**found, path: {**known, "path": path, **total}}.values()))


def _operation_refused(state: State, event: Any, now: float) -> State:
    operation_id, payload = event.scope.operation_id, event.payload
    key = state.operations.get(operation_id)
    state = replace(state, requests=tuple(item for item in state.requests if item.operation_id != operation_id))
    if key is None:
        return state
    denied = payload.code == "permission_denied"
    after = "cancelled" if payload.code == "cancelled" else "failed"
    text = clean(payload.message)
    return on_tool(
        forget(state, operation_id),
        operation_id,
        lambda tool: {
            "state": after,
            "tool": tool._replace(facts="denied" if denied else payload.code, output=text, tag=""),
        },
        key,
    )


def _operation_unknown(state: State, event: Any, now: float) -> State:
    why = clean(event.payload.why)
    return on_tool(
        state,
        event.scope.operation_id,
        lambda tool: {"state": "unknown", "tool": tool._replace(facts="outcome unknown; not run again", output=why)},
    )


def _usage_settled(state: State, event: Any, now: float) -> State:
    payload, view = event.payload, state.tasks.get(event.scope.task_id) or TaskView(event.scope.task_id)
    tokens = view.tokens + payload.input_tokens + payload.output_tokens
    state = replace(state, context_used=payload.input_tokens + payload.output_tokens)
    return with_task(state, event.scope.task_id, tokens=tokens, estimated=view.estimated or payload.estimated)


def _budget_exhausted(state: State, event: Any, now: float) -> State:
    payload = event.payload
    text = f"Limit reached: {visible_text(payload.limit)}, {payload.used:g} of {payload.allowed:g} used."
    return note(state, text, "blocked", event.scope.task_id, event.at)


def _limits_changed(state: State, event: Any, now: float) -> State:
    payload, task_id = event.payload, event.scope.task_id
    view = state.tasks.get(task_id) or TaskView(task_id)
    state = with_task(state, task_id, limits={**view.limits, payload.limit: payload.new})
    text = f"You gave the task another limit: {visible_text(payload.limit)} {payload.old:g} -> {payload.new:g}."
    return note(state, text, "waiting", task_id, event.at)


def _verification_started(state: State, event: Any, now: float) -> State:
    checks = tuple((command_text(argv), "running") for argv in event.payload.commands)
    return replace(state, checks=checks, checking=True)


def _verification_ended(state: State, event: Any, now: float) -> State:
    for check in event.payload.checks:
        tail = clean(str(check.get("output_tail") or "")).strip("\n")
        if tail and not check.get("ok"):
            state = _check_output(state, command_text(check.get("argv") or ()), tail)
    return replace(state, checks=verdicts({"commands": event.payload.checks, "current": True}), checking=False)


def _check_output(state: State, command: str, tail: str) -> State:
    """The newest row of a failed check shows the end of what it printed, which no message to the model holds."""
    for number, block in enumerate(state.blocks.reversed()):
        tool = block.tool
        if tool is not None and (tool.verb, tool.subject) == ("check", command):
            return put(state, block.changed(tool=tool._replace(output=tail))) if not tool.output else state
        if number > LOOK_BACK:
            break
    return state


def _verification_waived(state: State, event: Any, now: float) -> State:
    return replace(state, checks=tuple((name, "waived") for name, _ in state.checks))


def _plan_updated(state: State, event: Any, now: float) -> State:
    return replace(state, plan=tuple(event.payload.steps))


def _intervention_queued(state: State, event: Any, now: float) -> State:
    text, task_id = clean(event.payload.text), event.scope.task_id
    found = Queued(event.payload.intervention_id, text, task_id)
    for number, item in enumerate(state.queued):
        if not item.id and item.text == text:
            return replace(state, queued=(*state.queued[:number], found, *state.queued[number + 1 :]))
    return replace(state, queued=(*state.queued, found))


def _intervention_consumed(state: State, event: Any, now: float) -> State:
    taken = [item for item in state.queued if item.id == event.payload.intervention_id]
    state = replace(state, queued=tuple(item for item in state.queued if item not in taken))
    for item in taken:
        state = add(close_streams(state, now), Block(0, "user", item.task_id, item.text, at=event.at))
    return state


def _intervention_withdrawn(state: State, event: Any, now: float) -> State:
    wanted = event.payload.intervention_id
    return replace(state, queued=tuple(item for item in state.queued if item.id != wanted))


def _compacted(state: State, event: Any, now: float) -> State:
    payload = event.payload
    before, after = thousands(payload.tokens_before), thousands(payload.tokens_after)
    text = f"compacted ~{before} -> ~{after} tokens  ({payload.why})"
    state = replace(close_streams(state, now), context_used=payload.tokens_after)
    row = _compaction_row(state)
    if row is not None:
        return put(state, row.changed(source=clean(text), state="completed"))
    return note(state, text, "completed", event.scope.task_id, event.at)


def _loop_noticed(state: State, event: Any, now: float) -> State:
    payload = event.payload
    text = f"The agent repeats itself ({payload.times} times): {payload.summary}. It was told so once."
    return note(state, text, "waiting", event.scope.task_id, event.at)


def _cancel_requested(state: State, event: Any, now: float) -> State:
    return replace(close_streams(state, now), requests=())


def _interrupted(state: State, event: Any, now: float) -> State:
    return note(state, f"Interrupted: {event.payload.why}", "blocked", event.scope.task_id, event.at)


def _warning(state: State, event: Any, now: float) -> State:
    return note(state, f"{event.payload.message}  [{event.payload.code}]", "waiting", event.scope.task_id, event.at)


EVENTS: Mapping[str, Reducer] = {
    "SessionCreated": _session_created,
    "YoloChanged": _yolo_changed,
    "TaskCreated": _task_created,
    "TaskStateChanged": _task_state,
    "AttemptStarted": _attempt_started,
    "BaselineCaptured": _baseline,
    "TurnStarted": _turn_started,
    "MessageRecorded": _message_recorded,
    "OperationRequested": _operation_requested,
    "OperationDecided": _operation_decided,
    "PermissionRequested": _permission_requested,
    "PermissionAnswered": _permission_answered,
    "QuestionAsked": _question_asked,
    "QuestionAnswered": _question_answered,
    "OperationIntended": _operation_intended,
    "OperationEnded": _operation_ended,
    "OperationRefused": _operation_refused,
    "OperationMarkedUnknown": _operation_unknown,
    "UsageSettled": _usage_settled,
    "BudgetExhausted": _budget_exhausted,
    "LimitsExtended": _limits_changed,
    "VerificationStarted": _verification_started,
    "VerificationEnded": _verification_ended,
    "VerificationWaived": _verification_waived,
    "PlanUpdated": _plan_updated,
    "InterventionQueued": _intervention_queued,
    "InterventionConsumed": _intervention_consumed,
    "InterventionWithdrawn": _intervention_withdrawn,
    "ContextCompacted": _compacted,
    "LoopNoticed": _loop_noticed,
    "CancelRequested": _cancel_requested,
    "AttemptInterrupted": _interrupted,
    "WarningRaised": _warning,
}
