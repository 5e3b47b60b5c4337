import asyncio
from collections.abc import Callable
from typing import Any

from support.screen_inside import ScriptedScreen, begin_task, inside

from fluzo.core.port import SessionDetail, SessionList
from fluzo.screens.app import Options

F2 = "\x1bOQ"
F4 = "\x1bOS"
F5 = "\x1b[15~"
ENVIRON = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
SESSION = {"id": "s_7", "title": "Fix it", "created_at": "2026-01-01T10:00:00Z", "updated_at": "2026-01-02T11:12:13Z"}


async def until(there: Callable[[], bool]) -> None:
    """Let the screen's loop run until the answers of the port are taken."""
    async with asyncio.timeout(20):  # No test waits for this; it only keeps a hang from lasting for ever.
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


SESSIONS = {
    SessionList: {"sessions": [SESSION, {**SESSION, "id": "s_6", "title": "Older work"}]},
    SessionDetail: {
        "session": SESSION,
        "tasks": [task_row()],
        "messages": [message(1, "user", "fix it please"), message(2, "assistant", "It is fixed.")],
    },
}


def test_opening_a_session_reads_it_and_starts_nothing() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.composer.set("my draft")
        shown.keys(F2)
        await until(lambda: "last  It is fixed." in picture(shown))
        assert "Older work" in picture(shown)
        shown.keys("\r")
        await until(lambda: shown.screen.state.session_id == "s_7")
        rows = picture(shown)
        assert "It is fixed." in rows
        assert "my draft" in rows
        assert not shown.screen.views
        assert shown.port.commands == []
        assert not shown.screen.state.yolo

    inside(look, answers=SESSIONS, options=Options("~/w", environ=ENVIRON, yolo=True))


def test_no_session_is_opened_over_a_running_task() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys(F2)
        await until(lambda: "Older work" in picture(shown))
        shown.keys("\r")
        assert "A task is running" in picture(shown)
        assert shown.screen.state.session_id == "s_1"
        shown.keys("\x1b")
        assert not shown.screen.views

    inside(look, answers=SESSIONS)
