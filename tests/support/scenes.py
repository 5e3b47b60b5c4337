"""The states of the mock-ups as updates of the runtime: one invented task on an invented repository."""

from collections.abc import Mapping
from typing import Any

from support.screen_inside import ScriptedScreen, ask, feed, request
from support.scripted_port import event

from fluzo.core import events
from fluzo.screens.state import Accepted, MessagesRead, ResultRead, Submitted

PROMPT = "Totals are off by one cent when I split an invoice. Fix it and add a test."
ANSWER = (
    "The remainder cent was dropped because each share was rounded on its own. I now round the running total and give "
    "the last share the difference"
)
AT = "2026-01-01T14:02:00.000000Z"
FACTS = {
    "model": "qwen3-coder:30b",
    "endpoint": "http://127.0.0.1:11434/v1",
    "context_window": 32768,
    "verification": [["pytest", "-q"], ["ruff", "check"]],
}
OUTPUT = "\n".join(
    [*(f"line {number}" for number in range(30)), "F.", 'E  assert Decimal("33.33") == Decimal("33.34")']
)
TASK: Mapping[str, Any] = {
    "id": "t_1",
    "session_id": "s_1",
    "title": "Invoice rounding",
    "text": PROMPT,
    "state": "running",
    "reason": "",
    "created_at": "2026-01-01T14:02:00Z",
    "updated_at": "2026-01-01T14:04:00Z",
    "model": "qwen3-coder:30b",
    "branch": "main",
}


def _operation(number: int, tool: str, action: str, summary: str, result: Mapping[str, object], ms: int) -> list[Any]:
    asked = events.OperationRequested(tool, action, summary, f"f{number}", 1, f"c{number}")
    begun = event(15 + number, events.OperationIntended(tool, summary), f"o_{number}")
    ended = event(20 + number, events.OperationEnded(True, "", summary, result), f"o_{number}")
    return [event(10 + number, asked, f"o_{number}"), begun, ended._replace(at=f"2026-01-01T00:00:00.{ms:03}000Z")]


def start(shown: ScriptedScreen) -> None:
    """The task has begun; the agent has thought, read and edited."""
    limits = {"max_turns": 30, "max_tool_calls": 100, "max_active_seconds": 1200.0, "max_total_tokens": 200_000}
    feed(
        shown,
        [
            Submitted("r_1", PROMPT, AT),
            Accepted("r_1", "t_1", "s_1"),
            event(1, events.TaskCreated(PROMPT, limits, (("pytest", "-q"), ("ruff", "check")))),
            event(2, events.SessionCreated("Invoice rounding")),
            event(3, events.BaselineCaptured("4bf92f3", "main", ("notes.txt",))),
            event(4, events.TaskStateChanged("pending", "running")),
            event(5, events.AttemptStarted(1, "qwen3-coder:30b")),
            event(6, events.TurnStarted(1)),
            events.TextDelta("t_1", 1, 0, "Shares are rounded one by one.", True),
        ],
    )
    shown.clock.time += 6
    steps = (
        ("find the rounding bug", "completed"),
        ("fix ledger/round.py", "in_progress"),
        ("add a regression test", "pending"),
    )
    feed(
        shown,
        [
            event(7, events.UsageSettled(4100, 300, 0, 40, estimated=False)),
            event(8, events.PlanUpdated(tuple({"step": step, "text": step, "status": state} for step, state in steps))),
            *_operation(1, "read_file", "read", "ledger/round.py", {"lines": 86}, 4),
            *_operation(2, "search", "search", '"quantize" in ledger/', {"hits": 7}, 31),
            *_operation(3, "edit_file", "edit", "ledger/round.py", {"lines_added": 4, "lines_removed": 2}, 9),
        ],
    )


def work(shown: ScriptedScreen) -> None:
    """A check has failed, another runs, and the answer streams."""
    start(shown)
    asked = events.OperationRequested("run", "execute", "pytest -q tests/test_round.py", "f4", 1, "c4")
    failed = events.OperationEnded(
        False, "exit_status", "pytest -q tests/test_round.py", {"exit_status": 1, "elapsed_seconds": 1.8}
    )
    again = events.OperationRequested("run", "execute", "pytest -q", "f5", 1, "c5")
    feed(
        shown,
        [
            event(14, asked, "o_4"),
            event(24, failed, "o_4"),
            MessagesRead(({"role": "tool", "tool_call_id": "c4", "text": OUTPUT, "turn": 1, "task_id": "t_1"},)),
            event(25, again, "o_5"),
            event(26, events.OperationIntended("run", "pytest -q"), "o_5"),
        ],
    )
    shown.clock.time += 9
    feed(shown, [event(30, events.TurnStarted(2)), events.TextDelta("t_1", 2, 0, ANSWER)])


def permission(shown: ScriptedScreen) -> None:
    """The agent asks for a command while the person types."""
    start(shown)
    argv = ["uv", "run", "alembic", "upgrade", "head"]
    scope = {"tool": "run", "action": "execute", "workspace": "w", "backend": "local", "argv": argv, "cwd": "."}
    feed(shown, [event(40, events.OperationRequested("run", "execute", " ".join(argv), "f1", 1, "c9"), "o_1")])
    feed(shown, [event(41, events.PermissionRequested("run", " ".join(argv), scope, "policy_shell"), "o_1")])
    ask(
        shown,
        request(summary=" ".join(argv), scope={**scope, "env": {"PGHOST": "db.local"}}, env={"PGHOST": "db.local"}),
    )
    shown.keys("and please keep the old API")


def end(shown: ScriptedScreen, status: str, reason: str = "", message: str = "", hint: str = "") -> None:
    """The task ends with this status and result, 2 minutes and 31 seconds after it began."""
    shown.clock.time += 145
    passed = [{"argv": argv, "ok": status == "completed"} for argv in (["pytest", "-q"], ["ruff", "check"])]
    result = {
        "status": status,
        "reason": reason,
        "changes": [
            {"path": "ledger/round.py", "status": "modified", "added": 4, "removed": 2},
            {"path": "tests/test_round.py", "status": "added", "added": 18, "removed": 0},
        ],
        "budget": {"active_seconds": {"used": 151.0, "allowed": 1200.0}},
        "verification": {"verdict": "passed" if status == "completed" else "", "current": True, "commands": passed},
        "error": {"message": message, "hint": hint} if message else None,
    }
    ended = events.OperationEnded(status == "completed", "", "pytest -q", {"exit_status": 0, "elapsed_seconds": 9.5})
    if any(block.tool and block.tool.operation_id == "o_5" for block in shown.screen.state.blocks.reversed()):
        feed(shown, [event(80, ended, "o_5")])
    feed(shown, [event(90, events.TaskStateChanged("running", status, reason))])
    feed(
        shown,
        [
            ResultRead(
                "t_1", {"task": {**TASK, "state": status, "reason": reason, "active_seconds": 151.0, "result": result}}
            )
        ],
    )
