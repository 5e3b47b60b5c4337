"""Records as the port answers with them, and looking at the screen in this process until it shows something."""

import asyncio
from collections.abc import Callable
from typing import Any

from support.screen_inside import ScriptedScreen


async def until(there: Callable[[], bool]) -> None:
    """Let the screen's loop run until the answers of the port are taken."""
    async with asyncio.timeout(120):  # No test waits for this; it only keeps a hang from lasting for ever.
        while not there():
            await asyncio.sleep(0.001)


def picture(shown: ScriptedScreen) -> str:
    return "\n".join(shown.draw())


def message(position: int, role: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"m_{position}",
        "task_id": "t_7",
        "turn": 1,
        "position": position,
        "at": "2026-01-01T10:00:00Z",
        "role": role,
        "text": text,
        "reasoning": "",
        "tool_calls": [],
        "tool_call_id": "",
        "incomplete": False,
        **more,
    }


def task_row(**more: Any) -> dict[str, Any]:
    return {
        "id": "t_7",
        "session_id": "s_7",
        "text": "fix it please",
        "state": "completed",
        "reason": "",
        "created_at": "2026-01-01T10:00:00Z",
        "updated_at": "2026-01-01T10:05:00Z",
        "turns": 3,
        "active_seconds": 61.0,
        "tokens": 4000,
        **more,
    }


def session_row(**more: Any) -> dict[str, Any]:
    return {
        "id": "s_7",
        "title": "Fix it",
        "created_at": "2026-01-01T10:00:00Z",
        "updated_at": "2026-01-02T11:12:13Z",
        "yolo": False,
        "state": "completed",
        "reason": "",
        "tasks": 1,
        "turns": 3,
        "tokens": 4000,
        "branch": "main",
        "first": "fix it please",
        "last": "It is fixed.",
        "paths": ["a.py"],
        "added": 2,
        "removed": 1,
        "verdict": "passed",
        **more,
    }


def detail_of(row: dict[str, Any], **more: Any) -> dict[str, Any]:
    operation = {
        "id": "o_1",
        "turn": 1,
        "tool": "run",
        "action": "execute",
        "summary": "pytest -q",
        "state": "dispatched",
        "ok": None,
        "code": "",
        "authorized_by": "once",
        "result": {},
    }
    task = {
        **row,
        "limits": {"max_turns": 30, "max_total_tokens": 200_000, "max_tool_calls": 90, "max_active_seconds": 600},
        "consumption": {
            "turns": 3,
            "tool_calls": 2,
            "active_seconds": 61.0,
            "queue_seconds": 0.0,
            "input_tokens": 3000,
            "output_tokens": 1000,
            "estimated_tokens": 0,
            "cost_microunits": 0,
        },
        "verification": [["pytest", "-q"]],
        "verification_waived": False,
        "final_message": "",
        "result": None,
    }
    return {
        "task": task,
        "attempts": [
            {
                "id": "a_1",
                "number": 1,
                "trace_id": "4bf92f35",
                "state": "running",
                "reason": "",
                "started_at": "2026-01-01T10:00:00Z",
                "ended_at": "",
                "baseline": {},
            }
        ],
        "operations": [operation],
        "pending": [],
        "grants": [],
        "interventions": {"i_1": "also the docs"},
        "processes": [{"pid": 4242, "command": "pytest -q"}],
        "failure": None,
        **more,
    }
