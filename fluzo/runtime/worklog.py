"""What the agent did so far in this attempt, as far as the runtime itself knows it.

Two uses: facts for a compaction, which a summary must not be trusted with, and noticing that the agent goes round
in circles (PRD 25). Pure bookkeeping on calls and results.
"""

import hashlib
import json
import re
from collections import Counter

from fluzo.core.errors import LoopDetected
from fluzo.core.events import LoopNoticed
from fluzo.core.named import NamedTuple
from fluzo.core.records import ToolCall, ToolResult

MAX_COMMANDS = 10
"""Newest commands that a compaction is told of."""

_NUMBERS = re.compile(r"\d+(?:\.\d+)?")
_CHANGES = ("edit_file", "write_file", "delete_file", "move_file")


class LoopLimits(NamedTuple):
    """How often the same may happen before it is a loop; 0 switches the check off."""

    same_call: int = 3
    same_failure: int = 4


class WorkLog:
    def __init__(self, limits: LoopLimits) -> None:
        self._limits = limits
        self._changed: dict[str, None] = {}
        self._commands: list[str] = []
        self._check = ""
        self._calls: Counter[str] = Counter()
        self._failures: dict[str, tuple[str, int]] = {}
        self._told: set[str] = set()

    def checked(self, verdict: str) -> None:
        """Note the verdict of the declared checks."""
        self._check = verdict

    def observe(self, call: ToolCall, result: ToolResult) -> LoopNoticed | None:
        """Note one call and its result. Returns a notice for the agent the first time it goes round in circles.

        Raises LoopDetected when it goes on like that after it was told.
        """
        command = _canonical(call)
        if call.name in _CHANGES and result.ok:
            # The workspace is another one now: asking the same again makes sense.
            self._calls.clear()
            self._changed.update(dict.fromkeys(_paths(result)))
        if call.name == "run":
            self._commands.append(f"{command} -> {result.text.splitlines()[0] if result.text else result.code}")
            del self._commands[:-MAX_COMMANDS]
        return self._same_call(call, command, result) or self._same_failure(call, command, result)

    def facts(self) -> str:
        """Lines for a compaction; empty when nothing happened yet."""
        lines = []
        if self._changed:
            lines.append("files changed in this attempt: " + ", ".join(self._changed))
        if self._commands:
            lines.append("last commands:")
            lines += [f"  {line}" for line in self._commands]
        if self._check:
            lines.append(f"declared checks, when last run: {self._check}")
        return "\n".join(lines)

    def _same_call(self, call: ToolCall, command: str, result: ToolResult) -> LoopNoticed | None:
        key = f"{call.name} {command} {_digest(result.text)}"
        self._calls[key] += 1
        return self._judge("same_call", key, f"{call.name} {command}"[:200], self._calls[key], self._limits.same_call)

    def _same_failure(self, call: ToolCall, command: str, result: ToolResult) -> LoopNoticed | None:
        if call.name != "run":
            return None
        if result.ok:
            self._failures.pop(command, None)
            return None
        digest = _digest(result.text)
        before, times = self._failures.get(command, ("", 0))
        times = times + 1 if before == digest else 1
        self._failures[command] = (digest, times)
        return self._judge("same_failure", command, command[:200], times, self._limits.same_failure)

    def _judge(self, kind: str, key: str, summary: str, times: int, limit: int) -> LoopNoticed | None:
        if not limit or times < limit or (times - limit) % limit:
            return None
        if f"{kind} {key}" in self._told:
            raise LoopDetected(
                f"The agent repeats itself without getting on, also after it was told: {summary}",
                hint="Give it a hint in a new message, or raise harness.same_call_limit or harness.same_failure_limit.",
                detail={"kind": kind, "summary": summary, "times": times},
            )
        self._told.add(f"{kind} {key}")
        return LoopNoticed(kind, summary, times)


def notice(loop: LoopNoticed) -> str:
    """What the agent is told."""
    if loop.kind == "same_call":
        return f"You made the same call {loop.times} times with the same result: {loop.summary}. Do something else."
    return (
        f"{loop.summary} failed {loop.times} times in the same way, so your changes do not reach the cause. "
        "Read the failure and the code again, then try another way, or finish and say what is missing."
    )


def _canonical(call: ToolCall) -> str:
    try:
        return json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
    except ValueError:
        return call.arguments


def _digest(text: str) -> str:
    """Of a text without its figures: durations, counts and addresses differ from run to run."""
    return hashlib.sha256(_NUMBERS.sub("#", text).encode("utf-8", "replace")).hexdigest()[:16]


def _paths(result: ToolResult) -> list[str]:
    paths = result.detail.get("paths")
    return [str(path) for path in paths] if isinstance(paths, list | tuple) else []
