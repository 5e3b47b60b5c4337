"""Small changes of the state that several updates share. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fluzo.core.outcome import count

from .blocks import Block, Tool
from .rows import change_facts, clock, command_text
from .sanitize import clean
from .state import State, TaskView, replace

NAMED_CHECKS = 3
LOOK_BACK = 400
"""How many blocks back a result of the running task is looked for; a turn never has more rows."""


def add(state: State, block: Block) -> State:
    return replace(state, blocks=state.blocks.append(block))


def put(state: State, block: Block) -> State:
    return replace(state, blocks=state.blocks.replace(block))


def note(state: State, text: str, tone: str, task_id: str = "", at: str = "") -> State:
    return add(state, Block(0, "note", task_id, clean(text), tone, at=at))


def past(state: State) -> State:
    """Another task begins: the end of the one before it no longer says what can be done about it."""
    for number, block in enumerate(state.blocks.reversed()):
        if block.kind == "end" and block.open:
            return put(state, block.changed(open=False))
        if number > LOOK_BACK:
            break
    return state


def close_streams(state: State, now: float) -> State:
    """End the block that was being streamed; a thought keeps how long it took."""
    last = next(iter(state.blocks.reversed()), None)
    if last is None or last.state != "running" or last.kind not in ("text", "thought"):
        return state
    return put(state, last.changed(state="completed", started=now - last.started if last.started else 0.0))


def on_tool(
    state: State, operation_id: str, change: Callable[[Tool], Mapping[str, Any]], key: int | None = None
) -> State:
    key = state.operations.get(operation_id) if key is None else key
    if key is None or key not in state.blocks:
        return state
    block = state.blocks[key]
    return state if block.tool is None else put(state, block.changed(**{"tool": block.tool, **change(block.tool)}))


def forget(state: State, operation_id: str) -> State:
    return replace(state, operations={name: key for name, key in state.operations.items() if name != operation_id})


def by_call(state: State, call_id: str, change: Callable[[Tool], Tool]) -> State:
    for number, block in enumerate(state.blocks.reversed()):
        if block.tool is not None and block.tool.call_id == call_id and call_id:
            tool = change(block.tool)
            return state if tool == block.tool else put(state, block.changed(tool=tool))
        if number > LOOK_BACK:
            break
    return state


def fill_output(state: State, call_id: str, text: str) -> State:
    def fill(tool: Tool) -> Tool:
        if tool.output:
            return tool
        head, _, rest = text.partition("\n")
        is_status = tool.tool == "run" and not head.startswith("error:")
        return tool._replace(output=clean(rest if is_status else text))

    return by_call(state, call_id, fill)


def settle_text(state: State, message: Mapping[str, Any]) -> State:
    """The recorded message wins over what was streamed: a merged or lost delta is repaired here, and text that turned
    out to be reasoning, because its end alone was marked, is set apart."""
    turn, task_id = int(message["turn"]), str(message["task_id"])
    text, thought = clean(str(message.get("text") or "")), clean(str(message.get("reasoning") or ""))
    known, shown = _of_turn(state, "thought", turn, task_id), _of_turn(state, "text", turn, task_id)
    if thought and known is not None:
        state = _with_source(state, known, thought)
    elif thought and shown is not None and shown.key == state.blocks.next - 1:
        state, shown = put(state, shown.changed(kind="thought", source=thought, started=0.0)), None
    elif thought and task_id == state.task_id:
        state = add(state, Block(0, "thought", task_id, thought, "completed", turn=turn))
    if text and shown is not None:
        state = _with_source(state, shown, text)
    elif text and task_id == state.task_id:
        state = add(state, Block(0, "text", task_id, text, "completed", turn=turn))
    return state


def _of_turn(state: State, kind: str, turn: int, task_id: str) -> Block | None:
    """The newest block of a kind that a turn of a task has on the screen."""
    for number, block in enumerate(state.blocks.reversed()):
        if block.kind == kind and block.turn == turn and block.task_id == task_id:
            return block
        if number > LOOK_BACK:
            break
    return None


def _with_source(state: State, block: Block, source: str) -> State:
    return state if block.source == source else put(state, block.changed(source=source))


def stale(state: State) -> State:
    return replace(state, checks=tuple((name, "stale" if word == "passed" else word) for name, word in state.checks))


def verdicts(verification: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    current = bool(verification.get("current", True))
    found = []
    for check in verification.get("commands") or ():
        if not isinstance(check, Mapping):
            continue
        word = ("passed" if current else "stale") if check.get("ok") else "failed"
        found.append((command_text(check.get("argv") or ()), word))
    return tuple(found)


def end_text(result: Mapping[str, Any], elapsed: float, view: TaskView, ended: Sequence[Tool] = ()) -> str:
    """How a task ended, what it means for the files, and what to do. `ended` are commands that the cancel ended."""
    status, took = str(result.get("status")), clock(elapsed)
    changes = tuple(result.get("changes") or ())
    figures = change_facts(changes)
    if status == "completed":
        return _completed(result.get("verification") or {}, took, figures)
    if status == "cancelled":
        told = " ".join(["Cancelled by you.", *(f'"{tool.subject}" {_stopped(tool.facts)}.' for tool in ended)])
        return f"{told}\n{_kept(changes, figures)}"
    error = result.get("error") or {}
    cause = clean(str(error.get("message") or "It did not end well."))
    lines = [f"{cause}  [{result.get('reason')}]", _kept(changes, figures), _tries(error)]
    lines.append(clean(str(error.get("hint") or "")))
    lines.append("/slots frees them." if result.get("reason") == "capacity_full" else "")
    return "\n".join(line for line in lines if line)


def _stopped(facts: str) -> str:
    """How the cancel ended a command: `ended after SIGTERM, 200 ms`."""
    told = {"killed": "was killed", "whether it ended is not known": "may still run"}
    words = [told.get(word, word) for word in facts.split("  ") if word != "cancelled"]
    return ", ".join(words) or "was not begun"


def _completed(verification: Mapping[str, Any], took: str, figures: str) -> str:
    verdict = str(verification.get("verdict") or "")
    if verdict == "waived":
        return f"done, checks waived by you   {took}   {figures}"
    names = [name for name, _ in verdicts(verification)]
    shown = ", ".join(names[:NAMED_CHECKS]) + (f", +{len(names) - NAMED_CHECKS}" if len(names) > NAMED_CHECKS else "")
    checks = {
        "passed": f"checks passed: {shown} (current)",
        "unverified": "unverified: no checks are declared",
        "stale": f"checks stale: {shown}",
        "failed": f"checks failed: {shown}",
    }.get(verdict, "")
    return "   ".join(part for part in (f"done in {took}", figures, checks) if part)


def _kept(changes: Sequence[Mapping[str, Any]], figures: str) -> str:
    if not changes:
        return "No file was changed."
    return f"{figures} {'was changed and stays' if len(changes) == 1 else 'were changed and stay'}."


def _tries(error: Mapping[str, Any]) -> str:
    """How often a model request was sent again; the hint of one that never is says so."""
    attempts = (error.get("detail") or {}).get("attempts")
    return f"{count(attempts - 1, 'retry', 'retries')} done." if isinstance(attempts, int) and attempts > 1 else ""
