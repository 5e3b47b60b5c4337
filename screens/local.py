"""How the screen's own updates change the state: what the person did, and what was read from the runtime. Pure."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .blocks import Block, Blocks, Tool
from .changes import (
    add,
    by_call,
    end_text,
    fill_output,
    note,
    on_tool,
    past,
    put,
    settle_text,
    verdicts,
)
from .live import LIVE
from .rows import call_diff, command_text
from .sanitize import clean, visible_text
from .state import OpeningFailed, Queued, Request, State, replace, with_task

Reducer = Callable[[State, Any, float], State]


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
        compacts_at=int(facts.get("compacts_at", 0)),
        health=tuple((str(name), str(word)) for name, word in facts.get("health", ())),
        grace_seconds=float(facts.get("grace_seconds", state.grace_seconds)),
        checks=tuple((command_text(argv), "not run") for argv in facts.get("verification", ())),
    )


def _opening_failed(state: State, update: OpeningFailed, now: float) -> State:
    state = replace(state, phase="failed", failure=update)
    return _failure_told(state, update) if len(state.blocks) else state


def _failure_told(state: State, failure: OpeningFailed) -> State:
    """An empty conversation shows the failure in its own place; in another one it must stand too."""
    text = f"Fluzo cannot begin here: {failure.message}  [{failure.code}]"
    return note(state, f"{text}\n{failure.hint}" if failure.hint else text, "blocked")


def _submitted(state: State, update: Any, now: float) -> State:
    block = Block(0, "user", "", clean(update.text), "sending", at=update.at, message_id=update.request_id)
    return add(replace(past(state), waiting_submit=update, changes=(), read_only=""), block)


def _accepted(state: State, update: Any, now: float) -> State:
    state = replace(state, waiting_submit=None, task_id=update.task_id, session_id=update.session_id)
    for block in state.blocks.reversed():
        if block.message_id == update.request_id:
            state = put(state, block.changed(task_id=update.task_id, state=""))
            break
    known = state.tasks.get(update.task_id)
    return state if known and known.state else with_task(state, update.task_id, state="pending", since=now)


def _refused(state: State, update: Any, now: float) -> State:
    state = replace(state, waiting_submit=None)
    for block in state.blocks.reversed():
        if update.request_id and block.message_id == update.request_id:
            state = put(state, block.changed(state="refused"))
            break
    text = f"{update.message}  [{update.code}]" + (f"\n{update.hint}" if update.hint else "")
    return note(state, text, "blocked")


def _pending_read(state: State, update: Any, now: float) -> State:
    known = {(request.operation_id, request.fingerprint): request for request in state.requests}
    requests = tuple(
        known.get((item["operation_id"], item["fingerprint"]))
        or Request(item["operation_id"], update.task_id, item["kind"], item["fingerprint"], dict(item), now)
        for item in update.requests
    )
    state = replace(state, requests=requests)
    for request in requests:
        preview = request.data.get("preview")
        if isinstance(preview, str) and preview:
            state = on_tool(state, request.operation_id, partial(_with_diff, diff=clean(preview)))
    return state


def _with_diff(tool: Tool, diff: str) -> dict[str, Any]:
    return {"tool": tool._replace(diff=tool.diff or diff)}


def _messages_read(state: State, update: Any, now: float) -> State:
    for message in update.messages:
        if message["role"] == "tool":
            state = fill_output(state, str(message["tool_call_id"]), str(message["text"]))
        elif message["role"] == "assistant":
            state = settle_text(state, message)
            for call in message.get("tool_calls") or ():
                diff = call_diff(call)
                if diff:
                    state = by_call(state, str(call["id"]), partial(_filled, diff=diff))
    return state


def _filled(tool: Tool, diff: str) -> Tool:
    return tool._replace(diff=tool.diff or diff)


def _page_read(state: State, update: Any, now: float) -> State:
    state = replace(state, older=update.oldest_position, more=update.more)
    if not update.newest:
        return replace(state, blocks=state.blocks.prepend(update.blocks))
    blocks = Blocks()
    for block in _with_rule(update):
        blocks = blocks.append(block)
    state = replace(state, blocks=blocks, session_id=update.session_id, title=clean(update.title), task_id="")
    state = replace(state, plan=(), changes=(), requests=(), operations={}, read_only="", context_used=0)
    # What the checks said was said of another task.
    state = replace(state, checks=tuple((name, "") for name, _ in state.checks))
    if update.interrupted:
        state = replace(state, read_only=update.interrupted)
    elif update.blocked:
        text = f"blocked: {visible_text(update.blocked)}. /resume goes on with it, and asks first."
        state = note(state, text, "blocked")
    return state


def _with_rule(update: Any) -> list[Block]:
    """The blocks of a page, with a rule after the last one of the task that was cut off."""
    blocks = list(update.blocks)
    if update.interrupted:
        last = next((n for n in reversed(range(len(blocks))) if blocks[n].task_id == update.lost_task), len(blocks) - 1)
        blocks.insert(last + 1, Block(0, "rule", source=clean(update.interrupted), state="recovered"))
    return blocks


def _resumed(state: State, update: Any, now: float) -> State:
    state = note(past(state), f"Going on with: {clean(update.text)}", "running", update.task_id)
    state = replace(state, task_id=update.task_id, session_id=update.session_id, read_only="", changes=(), plan=())
    known = {"text": clean(update.text), "limits": update.limits, "since": now, "result": None, "turns": 0, "tokens": 0}
    return with_task(state, update.task_id, state="pending", **known)


def _titled(state: State, update: Any, now: float) -> State:
    return replace(state, title=clean(update.title)) if update.session_id == state.session_id else state


def _result_read(state: State, update: Any, now: float) -> State:
    task = update.detail.get("task") or {}
    result = task.get("result")
    state = with_task(state, update.task_id, result=result)
    if not result:
        failure = update.detail.get("failure") or {}
        return note(state, str(failure.get("message") or "The end of the task is not known."), "failed", update.task_id)
    verification = result.get("verification") or {}
    changes = tuple(result.get("changes") or ())
    view = state.tasks[update.task_id]
    elapsed = float(((result.get("budget") or {}).get("active_seconds") or {}).get("used") or 0)
    state = replace(state, changes=changes, checks=verdicts(verification) or state.checks)
    text = end_text(result, elapsed, view, _ended_tools(state, update.task_id))
    return add(state, Block(0, "end", update.task_id, text, str(result.get("status")), True, touched=bool(changes)))


def _ended_tools(state: State, task_id: str) -> list[Tool]:
    """The commands of the last rows that ended because the task was cancelled."""
    found = []
    for block in state.blocks.reversed():
        if block.kind == "user" or block.task_id != task_id:
            break
        if block.tool is not None and block.state == "cancelled" and block.tool.verb in ("run", "check"):
            found.append(block.tool)
    return found[::-1]


def _toggled(state: State, update: Any, now: float) -> State:
    if update.key not in state.blocks:
        return state
    return put(state, state.blocks[update.key].changed(open=update.open))


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
    if state.failure is not None and not len(state.blocks):
        state = _failure_told(state, state.failure)
    return note(state, update.text, update.tone)


def _settings_read(state: State, update: Any, now: float) -> State:
    facts = {name: value for name, value in update.facts.items() if value is not None}
    if all(getattr(state, name) == value for name, value in facts.items()):
        return state
    return replace(state, coming=facts) if state.running else replace(state, **facts)


def _folder_read(state: State, update: Any, now: float) -> State:
    state = replace(state, instructions=update.instructions)
    if state.running:
        return state  # Its baseline tells what was there before it; by now there may be more.
    return replace(state, branch=clean(update.branch), own_changes=update.changed)


def _earlier_read(state: State, update: Any, now: float) -> State:
    return replace(state, earlier=update.earlier)


def _session_left(state: State, update: Any, now: float) -> State:
    return State(
        phase=state.phase,
        failure=state.failure,
        root=state.root,
        folder=state.folder,
        branch=state.branch,
        own_changes=state.own_changes,
        instructions=state.instructions,
        earlier=state.earlier,
        model=state.model,
        endpoint=state.endpoint,
        context_window=state.context_window,
        compacts_at=state.compacts_at,
        health=state.health,
        grace_seconds=state.grace_seconds,
        yolo=state.yolo,
        checks=tuple((name, "not run") for name, _ in state.checks),
        history=state.history,
    )


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
    "SettingsRead": _settings_read,
    "FolderRead": _folder_read,
    "EarlierRead": _earlier_read,
    "SessionLeft": _session_left,
    "Resumed": _resumed,
    "Titled": _titled,
    **LIVE,
}
