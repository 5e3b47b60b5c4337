"""How each update changes the state; one small pure function each, found by the name of the update's type."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from .blocks import Block, Blocks, Tool
from .rows import CHANGES, call_diff, change_facts, clock, command_text, facts_of, state_of, subject_of, verb_of
from .sanitize import clean, scan, visible_text
from .state import Decided, OpeningFailed, Queued, Request, State, TaskView, with_task

Reducer = Callable[[State, Any, float], State]

ENDED = ("completed", "failed", "cancelled", "blocked")
MAX_HISTORY = 200
_LOOK_BACK = 400
"""How many blocks back a result of the running task is looked for; a turn never has more rows."""


def _add(state: State, block: Block) -> State:
    return replace(state, blocks=state.blocks.append(block))


def _put(state: State, block: Block) -> State:
    return replace(state, blocks=state.blocks.replace(block))


def _note(state: State, text: str, tone: str, task_id: str = "", at: str = "") -> State:
    return _add(state, Block(0, "note", task_id, clean(text), tone, at=at))


# --- the screen's own updates ---------------------------------------------------------------------------------


def _opened(state: State, update: Any, now: float) -> State:
    facts = update.facts
    return replace(
        state,
        phase="ready",
        failure=None,
        root=update.root,
        model=str(facts.get("model", "")),
        endpoint=str(facts.get("endpoint", "")),
        context_window=int(facts.get("context_window", 0)),
        checks=tuple((command_text(argv), "not run") for argv in facts.get("verification", ())),
    )


def _opening_failed(state: State, update: OpeningFailed, now: float) -> State:
    return replace(state, phase="failed", failure=update)


def _submitted(state: State, update: Any, now: float) -> State:
    block = Block(0, "user", "", clean(update.text), "sending", at=update.at, message_id=update.request_id)
    return _add(replace(state, waiting_submit=update, changes=(), read_only=""), block)


def _accepted(state: State, update: Any, now: float) -> State:
    state = replace(state, waiting_submit=None, task_id=update.task_id, session_id=update.session_id)
    for block in state.blocks.reversed():
        if block.message_id == update.request_id:
            state = _put(state, block.changed(task_id=update.task_id, state=""))
            break
    known = state.tasks.get(update.task_id)
    return state if known and known.state else with_task(state, update.task_id, state="pending", since=now)


def _refused(state: State, update: Any, now: float) -> State:
    state = replace(state, waiting_submit=None)
    for block in state.blocks.reversed():
        if update.request_id and block.message_id == update.request_id:
            state = _put(state, block.changed(state="refused"))
            break
    text = f"{update.message}  [{update.code}]" + (f"\n{update.hint}" if update.hint else "")
    return _note(state, text, "blocked")


def _pending_read(state: State, update: Any, now: float) -> State:
    known = {request.operation_id: request for request in state.requests}
    requests = []
    for item in update.requests:
        old = known.get(item["operation_id"])
        if old is not None and old.fingerprint == item["fingerprint"]:
            requests.append(old)
        else:
            requests.append(
                Request(item["operation_id"], update.task_id, item["kind"], item["fingerprint"], dict(item), now)
            )
    state = replace(state, requests=tuple(requests))
    for request in requests:
        preview = request.data.get("preview")
        if isinstance(preview, str) and preview:
            state = _on_tool(state, request.operation_id, lambda tool: {"tool": tool._replace(diff=clean(preview))})
    return state


def _messages_read(state: State, update: Any, now: float) -> State:
    for message in update.messages:
        if message["role"] == "tool":
            state = _fill_output(state, str(message["tool_call_id"]), str(message["text"]))
        elif message["role"] == "assistant":
            state = _settle_text(state, message)
            for call in message.get("tool_calls") or ():
                diff = call_diff(call)
                if diff:
                    state = _by_call(
                        state, str(call["id"]), lambda tool, diff=diff: tool._replace(diff=tool.diff or diff)
                    )
    return state


def _page_read(state: State, update: Any, now: float) -> State:
    state = replace(state, older=update.oldest_position, more=update.more)
    if not update.newest:
        return replace(state, blocks=state.blocks.prepend(update.blocks))
    blocks = Blocks()
    for block in update.blocks:
        blocks = blocks.append(block)
    state = replace(
        state, blocks=blocks, session_id=update.session_id, title=update.title, task_id="", plan=(), operations={}
    )
    if update.interrupted:
        state = _add(state, Block(0, "rule", source=clean(update.interrupted), state="recovered"))
        state = replace(state, read_only=update.interrupted)
    return state


def _result_read(state: State, update: Any, now: float) -> State:
    task = update.detail.get("task") or {}
    result = task.get("result")
    state = with_task(state, update.task_id, result=result)
    if not result:
        failure = update.detail.get("failure") or {}
        return _note(
            state, str(failure.get("message") or "The end of the task is not known."), "failed", update.task_id
        )
    verification = result.get("verification") or {}
    changes = tuple(result.get("changes") or ())
    view = state.tasks[update.task_id]
    elapsed = float(((result.get("budget") or {}).get("active_seconds") or {}).get("used") or 0)
    state = replace(state, changes=changes, checks=_verdicts(verification) or state.checks)
    return _add(
        state,
        Block(0, "end", update.task_id, _end_text(result, elapsed, view), str(result.get("status")), at=""),
    )


def _toggled(state: State, update: Any, now: float) -> State:
    if update.key not in state.blocks:
        return state
    return _put(state, state.blocks[update.key].changed(open=update.open))


def _command_sent(state: State, update: Any, now: float) -> State:
    return replace(
        state,
        requests=tuple(
            request._replace(sent=update.answer) if request.operation_id == update.operation_id else request
            for request in state.requests
        ),
    )


def _queued_here(state: State, update: Any, now: float) -> State:
    return replace(state, queued=(*state.queued, Queued("", clean(update.text), update.task_id)))


def _queue_returned(state: State, update: Any, now: float) -> State:
    text = clean(update.text)
    for number, item in enumerate(state.queued):
        if not item.id and item.text == text:
            return replace(state, queued=(*state.queued[:number], *state.queued[number + 1 :]))
    return state


def _yolo_chosen(state: State, update: Any, now: float) -> State:
    return replace(state, yolo=update.enabled)


def _noted(state: State, update: Any, now: float) -> State:
    return _note(state, update.text, update.tone)


def _session_left(state: State, update: Any, now: float) -> State:
    return State(
        phase=state.phase,
        failure=state.failure,
        root=state.root,
        folder=state.folder,
        branch=state.branch,
        model=state.model,
        endpoint=state.endpoint,
        context_window=state.context_window,
        yolo=state.yolo,
        checks=state.checks,
        history=state.history,
    )


# --- durable events -------------------------------------------------------------------------------------------


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
    return _add(state, Block(0, "user", task_id, text, at=event.at))


def _task_state(state: State, event: Any, now: float) -> State:
    task_id, new = event.scope.task_id, event.payload.new
    view = state.tasks.get(task_id) or TaskView(task_id)
    since = view.since or now
    state = with_task(state, task_id, state=new, reason=event.payload.reason, since=since)
    if new in ENDED:
        state = replace(_close_streams(state, now), requests=(), operations={})
        left = tuple(item for item in state.queued if item.task_id != task_id)
        state = replace(state, queued=left)
    return state


def _attempt_started(state: State, event: Any, now: float) -> State:
    return replace(with_task(state, event.scope.task_id, since=now), yolo=event.payload.yolo or state.yolo)


def _baseline(state: State, event: Any, now: float) -> State:
    return replace(state, branch=clean(event.payload.branch), own_changes=len(event.payload.changed))


def _turn_started(state: State, event: Any, now: float) -> State:
    return with_task(_close_streams(state, now), event.scope.task_id, turns=event.payload.turn)


def _text_delta(state: State, delta: Any, now: float) -> State:
    kind = "thought" if delta.reasoning else "text"
    last = next(iter(state.blocks.reversed()), None)
    if last is not None and last.kind == kind and last.state == "running" and last.turn == delta.turn:
        runs, carry = scan(delta.text, last.carry)
        added = "".join(part for _, part in runs)
        return _put(state, last.changed(source=last.source + added, carry=carry, started=last.started or now))
    state = _close_streams(state, now)
    runs, carry = scan(delta.text)
    source = "".join(part for _, part in runs)
    return _add(
        state,
        Block(0, kind, delta.task_id, source, "running", turn=delta.turn, started=now, carry=carry),
    )


def _close_streams(state: State, now: float) -> State:
    """End the block that was being streamed; a thought keeps how long it took."""
    last = next(iter(state.blocks.reversed()), None)
    if last is None or last.state != "running" or last.kind not in ("text", "thought"):
        return state
    return _put(state, last.changed(state="completed", started=now - last.started if last.started else 0.0))


def _message_recorded(state: State, event: Any, now: float) -> State:
    return _close_streams(state, now) if event.payload.role == "assistant" else state


def _operation_requested(state: State, event: Any, now: float) -> State:
    asked = event.payload
    if asked.action == "infer":
        return state
    verb = "check" if state.checking and asked.action == "execute" else verb_of(asked.tool, asked.action)
    operation_id = event.scope.operation_id
    tool = Tool(operation_id, asked.call_id, asked.tool, verb, subject_of(asked.summary), started=now)
    state = _close_streams(state, now)
    block = Block(0, "tool", event.scope.task_id, state="queued", at=event.at, tool=tool, turn=asked.turn)
    return replace(_add(state, block), operations={**state.operations, operation_id: state.blocks.next})


def _operation_decided(state: State, event: Any, now: float) -> State:
    tags = {"yolo": "auto", "grant": "granted"}
    tag = tags.get(event.payload.by, "")
    if not tag or event.payload.verdict != "allow":
        return state
    return _on_tool(state, event.scope.operation_id, lambda tool: {"tool": tool._replace(tag=tag)})


def _permission_requested(state: State, event: Any, now: float) -> State:
    return _on_tool(state, event.scope.operation_id, lambda tool: {"state": "waiting"})


def _permission_answered(state: State, event: Any, now: float) -> State:
    operation_id, payload = event.scope.operation_id, event.payload
    words = {"once": "allowed once", "task": "allowed for task", "deny": "denied", "yolo": "auto"}
    key = state.operations.get(operation_id)
    tool = state.blocks[key].tool if key is not None and key in state.blocks else None
    decided = Decided(event.at, payload.answer, payload.by, tool.verb if tool else "", tool.subject if tool else "")
    state = replace(
        state,
        requests=tuple(item for item in state.requests if item.operation_id != operation_id),
        history=(*state.history, decided)[-MAX_HISTORY:],
    )
    tag = words.get(payload.answer, payload.answer)
    after = "failed" if payload.answer == "deny" else "queued"
    return _on_tool(state, operation_id, lambda tool: {"state": after, "tool": tool._replace(tag=tag)})


def _question_asked(state: State, event: Any, now: float) -> State:
    return _on_tool(state, event.scope.operation_id, lambda tool: {"state": "waiting"})


def _question_answered(state: State, event: Any, now: float) -> State:
    operation_id = event.scope.operation_id
    state = replace(state, requests=tuple(item for item in state.requests if item.operation_id != operation_id))
    answer = clean(event.payload.answer)
    return _on_tool(state, operation_id, lambda tool: {"tool": tool._replace(output=answer)})


def _operation_intended(state: State, event: Any, now: float) -> State:
    return _on_tool(
        state, event.scope.operation_id, lambda tool: {"state": "running", "tool": tool._replace(started=now)}
    )


def _operation_ended(state: State, event: Any, now: float) -> State:
    payload = event.payload
    key = state.operations.get(event.scope.operation_id)
    if key is None:
        return state
    facts = facts_of(payload.result) or ("" if payload.ok else payload.code)
    subject = subject_of(payload.summary, facts)
    if payload.ok and state.blocks[key].tool and state.blocks[key].tool.verb in CHANGES:  # type: ignore[union-attr]
        state = _stale(state)
    return _on_tool(
        _forget(state, event.scope.operation_id),
        event.scope.operation_id,
        lambda tool: {
            "state": state_of(payload.ok, payload.result),
            "tool": tool._replace(facts=facts, subject=subject or tool.subject),
        },
        key,
    )


def _operation_refused(state: State, event: Any, now: float) -> State:
    operation_id, payload = event.scope.operation_id, event.payload
    key = state.operations.get(operation_id)
    state = replace(state, requests=tuple(item for item in state.requests if item.operation_id != operation_id))
    if key is None:
        return state
    denied = payload.code == "permission_denied"
    after = "cancelled" if payload.code == "cancelled" else "failed"
    text = clean(payload.message)
    return _on_tool(
        _forget(state, operation_id),
        operation_id,
        lambda tool: {
            "state": after,
            "tool": tool._replace(facts="denied" if denied else payload.code, output=text, tag=""),
        },
        key,
    )


def _operation_unknown(state: State, event: Any, now: float) -> State:
    why = clean(event.payload.why)
    return _on_tool(
        state,
        event.scope.operation_id,
        lambda tool: {"state": "unknown", "tool": tool._replace(facts="outcome unknown", output=why)},
    )


def _usage_settled(state: State, event: Any, now: float) -> State:
    payload, view = event.payload, state.tasks.get(event.scope.task_id) or TaskView(event.scope.task_id)
    tokens = view.tokens + payload.input_tokens + payload.output_tokens
    state = replace(state, context_used=payload.input_tokens + payload.output_tokens)
    return with_task(state, event.scope.task_id, tokens=tokens, estimated=view.estimated or payload.estimated)


def _budget_exhausted(state: State, event: Any, now: float) -> State:
    payload = event.payload
    text = f"Limit reached: {visible_text(payload.limit)}, {payload.used:g} of {payload.allowed:g} used."
    return _note(state, text, "blocked", event.scope.task_id, event.at)


def _verification_started(state: State, event: Any, now: float) -> State:
    checks = tuple((command_text(argv), "running") for argv in event.payload.commands)
    return replace(state, checks=checks, checking=True)


def _verification_ended(state: State, event: Any, now: float) -> State:
    return replace(state, checks=_verdicts({"commands": event.payload.checks, "current": True}), checking=False)


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
        state = _add(_close_streams(state, now), Block(0, "user", item.task_id, item.text, at=event.at))
    return state


def _cancel_requested(state: State, event: Any, now: float) -> State:
    return replace(_close_streams(state, now), requests=())


def _interrupted(state: State, event: Any, now: float) -> State:
    return _note(state, f"Interrupted: {event.payload.why}", "blocked", event.scope.task_id, event.at)


def _warning(state: State, event: Any, now: float) -> State:
    return _note(state, f"{event.payload.message}  [{event.payload.code}]", "waiting", event.scope.task_id, event.at)


# --- pieces ---------------------------------------------------------------------------------------------------


def _on_tool(
    state: State, operation_id: str, change: Callable[[Tool], Mapping[str, Any]], key: int | None = None
) -> State:
    key = state.operations.get(operation_id) if key is None else key
    if key is None or key not in state.blocks:
        return state
    block = state.blocks[key]
    return state if block.tool is None else _put(state, block.changed(**{"tool": block.tool, **change(block.tool)}))


def _forget(state: State, operation_id: str) -> State:
    return replace(state, operations={name: key for name, key in state.operations.items() if name != operation_id})


def _by_call(state: State, call_id: str, change: Callable[[Tool], Tool]) -> State:
    for number, block in enumerate(state.blocks.reversed()):
        if block.tool is not None and block.tool.call_id == call_id and call_id:
            tool = change(block.tool)
            return state if tool == block.tool else _put(state, block.changed(tool=tool))
        if number > _LOOK_BACK:
            break
    return state


def _fill_output(state: State, call_id: str, text: str) -> State:
    def fill(tool: Tool) -> Tool:
        if tool.output:
            return tool
        head, _, rest = text.partition("\n")
        is_status = tool.tool == "run" and not head.startswith("error:")
        return tool._replace(output=clean(rest if is_status else text))

    return _by_call(state, call_id, fill)


def _settle_text(state: State, message: Mapping[str, Any]) -> State:
    """The recorded text wins over what was streamed: a merged or lost delta is repaired here."""
    turn, task_id = int(message["turn"]), str(message["task_id"])
    for kind, key in (("text", "text"), ("thought", "reasoning")):
        recorded = clean(str(message.get(key) or ""))
        for number, block in enumerate(state.blocks.reversed()):
            if block.kind == kind and block.turn == turn and block.task_id == task_id:
                if recorded and block.source != recorded:
                    state = _put(state, block.changed(source=recorded))
                break
            if number > _LOOK_BACK or block.kind == "user":
                if recorded and kind == "text":
                    state = _add(state, Block(0, "text", task_id, recorded, "completed", turn=turn))
                break
    return state


def _stale(state: State) -> State:
    return replace(state, checks=tuple((name, "stale" if word == "passed" else word) for name, word in state.checks))


def _verdicts(verification: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    current = bool(verification.get("current", True))
    found = []
    for check in verification.get("commands") or ():
        if not isinstance(check, Mapping):
            continue
        word = ("passed" if current else "stale") if check.get("ok") else "failed"
        found.append((command_text(check.get("argv") or ()), word))
    return tuple(found)


def _end_text(result: Mapping[str, Any], elapsed: float, view: TaskView) -> str:
    status, took = str(result.get("status")), clock(elapsed)
    verdict = str((result.get("verification") or {}).get("verdict") or "")
    figures = change_facts(tuple(result.get("changes") or ()))
    checks = {
        "passed": "checks passed (current)",
        "waived": "checks waived by you",
        "unverified": "unverified: no checks are declared",
        "stale": "checks stale",
        "failed": "checks failed",
    }.get(verdict, "")
    error = result.get("error") or {}
    if status == "completed":
        return "   ".join(part for part in (f"done in {took}", figures, checks) if part)
    if status == "cancelled":
        return f"Cancelled by you after {took}.   {figures}; edits are kept."
    cause = clean(str(error.get("message") or "It did not end well."))
    hint = clean(str(error.get("hint") or ""))
    lines = [f"{cause}  [{result.get('reason')}]", f"{figures}; what was changed before that stays."]
    return "\n".join(lines + ([hint] if hint else []))


LOCAL: Mapping[str, Reducer] = {
    "Opened": _opened,
    "OpeningFailed": _opening_failed,
    "Submitted": _submitted,
    "Accepted": _accepted,
    "Refused": _refused,
    "PendingRead": _pending_read,
    "MessagesRead": _messages_read,
    "PageRead": _page_read,
    "ResultRead": _result_read,
    "Toggled": _toggled,
    "CommandSent": _command_sent,
    "QueuedHere": _queued_here,
    "QueueReturned": _queue_returned,
    "YoloChosen": _yolo_chosen,
    "Noted": _noted,
    "SessionLeft": _session_left,
    "TextDelta": _text_delta,
}
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
    "VerificationStarted": _verification_started,
    "VerificationEnded": _verification_ended,
    "VerificationWaived": _verification_waived,
    "PlanUpdated": _plan_updated,
    "InterventionQueued": _intervention_queued,
    "InterventionConsumed": _intervention_consumed,
    "CancelRequested": _cancel_requested,
    "AttemptInterrupted": _interrupted,
    "WarningRaised": _warning,
}
