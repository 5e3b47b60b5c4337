"""How live updates change the state: text as it streams, the end of a command's output, a request that is sent again.

Invariant: nothing here is decided on. Live text is replaced by what the runtime records, and live output ends with its
command. Pure.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .blocks import Block, Kind
from .changes import add, close_streams, note, on_tool, put
from .sanitize import last_lines, scan, visible_text
from .state import Retrying, State, heard, replace

Reducer = Callable[[State, Any, float], State]

LIVE_ROWS = 3
"""Lines of a running command's output that are shown."""


def _text_delta(state: State, delta: Any, now: float) -> State:
    kind: Kind = "thought" if delta.reasoning else "text"
    state = heard(replace(state, retrying=None) if state.retrying else state, delta.task_id)
    last = next(iter(state.blocks.reversed()), None)
    if last is not None and last.kind == kind and last.state == "running" and last.turn == delta.turn:
        runs, carry = scan(delta.text, last.carry)
        source = last.source + "".join(part for _, part in runs)
        return put(state, last.changed(source=source, carry=carry, started=last.started or now, heard=now))
    state = close_streams(state, now)
    runs, carry = scan(delta.text)
    source = "".join(part for _, part in runs)
    block = Block(0, kind, delta.task_id, source, "running", turn=delta.turn, started=now, carry=carry, heard=now)
    return add(state, block)


def _output_progress(state: State, update: Any, now: float) -> State:
    lines = last_lines(update.tail, LIVE_ROWS)
    return on_tool(state, update.operation_id, lambda tool: {"tool": tool._replace(live=lines)})


def _retry_progress(state: State, update: Any, now: float) -> State:
    """The request failed in passing; what it had streamed counts for nothing, and the next one begins anew."""
    retrying = Retrying(update.retry, update.retries, now + update.delay_seconds)
    state = heard(replace(close_streams(state, now), retrying=retrying), update.task_id)
    text = f"{visible_text(update.reason)}\nretry {update.retry} of {update.retries} in {update.delay_seconds:.0f} s"
    return note(state, text, "blocked", update.task_id)


LIVE: Mapping[str, Reducer] = {
    "TextDelta": _text_delta,
    "OutputProgress": _output_progress,
    "RetryProgress": _retry_progress,
}
