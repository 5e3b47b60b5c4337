import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.project import call, make_project, scripted
from support.screen import user_at
from support.screen_inside import ScriptedScreen, ask, begin_task, inside, request
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.events import TextDelta
from fluzo.core.port import (
    CancelTask,
    CapacityStatus,
    EventPage,
    ForceStopTask,
    SessionDetail,
    SessionList,
    TaskDetail,
    TaskList,
)
from fluzo.screens.app import Options
from fluzo.simulator.server import Simulator

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


# --- tasks ----------------------------------------------------------------------------------------------------


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


RUNNING = task_row(id="t_1", session_id="s_1", state="running", text="repair\x1b[2J it")
TASKS = {
    TaskList: {"tasks": [RUNNING, task_row(state="blocked", reason="budget_exhausted")]},
    TaskDetail: detail_of(RUNNING),
}


def test_the_tasks_say_what_runs_and_since_when_and_open_in_full() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.clock.time += 134
        shown.keys(F4)
        await until(lambda: "now: run pytest -q" in picture(shown))
        rows = picture(shown)
        assert "repair<U+001B>[2J it" in rows
        assert "02:14" in rows
        assert "budget exhausted" in rows
        assert "3 of 30 turns  4k of 200k tokens" in rows
        assert "trace: 4bf92f35  1 queued to it" in rows
        shown.keys("\r")
        await until(lambda: "also the docs" in picture(shown))
        rows = picture(shown)
        assert "asked 2026-01-01 10:00:00, last change 2026-01-01 10:05:00 UTC" in rows
        assert "4242  pytest -q" in rows
        assert "not run  pytest -q" in rows
        assert "trace 4bf92f35" in rows
        assert shown.port.commands[1:] == []

    inside(look, columns=120, rows=40, answers=TASKS)


def test_a_change_of_the_task_is_read_again_and_streamed_text_is_not() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys(F4)
        await until(lambda: "now: run pytest -q" in picture(shown))
        before = len(shown.port.queries)
        shown.screen.apply(TextDelta("t_1", 1, 0, "words", False))
        assert len(shown.port.queries) == before
        shown.screen.apply(event(60, events.TaskStateChanged("running", "stopping")))
        assert TaskList() in shown.port.queries[before:]

    inside(look, answers=TASKS)


def test_a_task_is_cancelled_from_the_list_and_an_ended_one_is_not() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys(F4)
        await until(lambda: "now: run pytest -q" in picture(shown))
        shown.keys("c")
        assert shown.port.commands[1:] == [CancelTask("t_1")]
        shown.keys("j")
        shown.keys("c")
        assert "over" in picture(shown)
        shown.keys("K")
        assert shown.port.commands[1:] == [CancelTask("t_1")]

    inside(look, answers=TASKS)


def test_a_force_stop_wants_the_typed_word() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys(F4)
        await until(lambda: "now: run pytest -q" in picture(shown))
        shown.keys("K")
        await until(lambda: "4242  pytest -q" in picture(shown))
        assert "repair<U+001B>[2J it" in picture(shown)
        for typed in ("\r", "K\r", "y\r"):
            shown.keys(typed)
        assert "Nothing is stopped" in picture(shown)
        shown.keys("\x1b")
        assert "Force stop?" not in picture(shown)
        shown.keys("K")
        shown.keys("kill")
        assert ForceStopTask("t_1") not in shown.port.commands
        shown.keys("\r")
        assert shown.port.commands[-1] == ForceStopTask("t_1")

    inside(look, columns=120, rows=40, answers=TASKS)


def test_from_the_list_one_goes_to_the_card_with_nothing_chosen() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys(F4)
        await until(lambda: "now: run pytest -q" in picture(shown))
        shown.keys("a")
        assert "Nothing is asked" in picture(shown)
        ask(shown, request())
        picture(shown)
        shown.keys("a")
        rows = picture(shown)
        assert shown.screen.body.focus == "card"
        assert "you answer here" in rows
        assert "Nothing is asked" not in rows
        assert shown.screen.card.choice == 0
        assert shown.approvals() == []

    inside(look, columns=120, rows=40, answers=TASKS)


def test_the_lit_task_stays_the_same_one_when_a_newer_one_comes_and_older_pages_are_read() -> None:
    rows = [task_row(id=f"t_{number}", text=f"number {number}", reason="") for number in range(120, 0, -1)]
    known = {TaskList: {"tasks": rows[1:51]}, TaskDetail: detail_of(rows[2])}

    async def look(shown: ScriptedScreen) -> None:
        shown.keys(F4)
        await until(lambda: "50 tasks or more" in picture(shown))
        shown.keys("j")
        assert ">✓ completed number 118" in picture(shown)
        known[TaskList]["tasks"] = rows[0:50]
        begin_task(shown)
        await until(lambda: "number 120" in picture(shown))
        assert ">✓ completed number 118" in picture(shown)
        known[TaskList]["tasks"] = rows[50:90]
        shown.keys("G")
        await until(lambda: TaskList(50, "t_71") in shown.port.queries and "90 tasks" in picture(shown))

    inside(look, columns=120, rows=40, answers=known)


# --- changes --------------------------------------------------------------------------------------------------

RESULT = {
    "status": "completed",
    "changes": [{"path": "a.py", "status": "modified", "added": 1, "removed": 1, "preexisting": True}],
    "diff": "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-old\n+new\x1b[2J\n",
    "verification": {"verdict": "passed", "current": True, "commands": [{"argv": ["pytest"], "ok": True}]},
    "budget": {"tokens": {"used": 4000, "allowed": 200_000, "provenance": "partly estimated"}},
}
ENDED = task_row(id="t_1", session_id="s_1", text="repair it")
ENDED_DETAIL = detail_of(ENDED, interventions={}, processes=[])
ENDED_DETAIL["task"]["result"] = RESULT


def test_the_changes_show_the_diff_whose_lines_were_yours_and_whether_the_checks_are_current() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys(F5)
        assert "so far; the task is running" in picture(shown)
        shown.screen.apply(event(90, events.TaskStateChanged("running", "completed")))
        await until(lambda: "passed (current)" in picture(shown))
        rows = picture(shown)
        assert "1 file +1 -1" in rows
        assert "you had changed this file before the task" in rows
        assert "      1 + new<U+001B>[2J" in rows
        shown.keys("\x1b")
        assert "Changes" not in picture(shown)

    inside(look, columns=120, rows=40, answers={TaskDetail: ENDED_DETAIL})


def test_the_changes_of_a_session_that_is_read_are_those_of_its_newest_task() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.keys(F5)
        assert "No task of this session" in picture(shown)
        assert not [query for query in shown.port.queries if isinstance(query, TaskDetail)]
        shown.keys("\x1b")
        assert shown.screen.link is not None
        shown.screen.link.read_page("s_7")
        await until(lambda: shown.screen.state.session_id == "s_7")
        shown.keys(F5)
        await until(lambda: "passed (current)" in picture(shown))
        assert TaskList(1, "", "s_7") in shown.port.queries

    answers = {**SESSIONS, TaskList: {"tasks": [ENDED]}, TaskDetail: ENDED_DETAIL}
    inside(look, columns=120, rows=40, answers=answers)


# --- diagnostics ----------------------------------------------------------------------------------------------


def test_diagnostics_show_budgets_slots_compactions_the_trace_and_the_last_events() -> None:
    compacted = events.ContextCompacted("x_1", "context is full", 90_000, 20_000, 1, 41, 60, 100_000)
    log = [event(7, events.WarningRaised("w", "odd\x1b[2J")), event(8, compacted)]
    slot = {"kind": "pool", "name": "local", "limit": 2, "occupied": 1, "uncertain": 1, "queued": 0, "shadow": 0}
    answers = {
        TaskDetail: detail_of(RUNNING),
        CapacityStatus: {"slots": [slot]},
        EventPage: {"events": [events.event_to_json(item) for item in log]},
    }

    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.screen.run_action("diagnostics")
        await until(lambda: "WarningRaised" in picture(shown))
        rows = picture(shown)
        assert "4bf92f35" in rows
        assert "reported" in rows
        assert "1 of 2 occupied, 0 queued, 1 uncertain" in rows
        assert "90k to 20k tokens" in rows
        assert "41 messages, context is full" in rows
        assert "odd<U+001B>[2J" in rows
        shown.screen.apply(event(60, events.TaskStateChanged("running", "stopping")))
        await until(lambda: EventPage("t_1", 8, 500) in shown.port.queries)
        assert picture(shown).count("WarningRaised") == 1, "an event is taken once"
        assert shown.port.commands[1:] == []

    inside(look, columns=120, rows=40, answers=answers)


# --- all of them ----------------------------------------------------------------------------------------------

ALLOWED_ESCAPES = re.compile("\x1b(?:\\[[0-9;?>]*[A-Za-z]|\\[[0-9;]* q|[78]|\\(B|\\[>4;1m|\\[>4m)")
HOSTILE = "A\x1b]52;c;ZXZpbA==\x07B\x1b[2J\x1b[?1049lC\x9b31mD\x1bP1$q\x1b\\E\x00\x07\x08\u202eF\r\nG"


def poisoned(value: Any) -> Any:
    """The same value with every text in it but names of states and times made hostile."""
    if isinstance(value, dict):
        kept = ("id", "session_id", "type", "at", "verdict")
        return {key: item if key in kept else poisoned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    return value + HOSTILE if isinstance(value, str) else value


@pytest.mark.parametrize("name", ["sessions", "tasks", "task", "force stop", "changes", "diagnostics"])
def test_no_control_byte_of_a_record_reaches_the_terminal(name: str) -> None:
    slot = {"kind": "pool", "name": "local", "limit": 2, "occupied": 1, "uncertain": 1, "queued": 0, "shadow": 0}
    warned = event(7, events.WarningRaised("w", "odd"))
    error = {"code": "task_failed", "message": "it broke", "hint": "try again"}
    pending = [{"question": "which one?"}, {"tool": "run", "summary": "rm"}]
    detail = poisoned({**ENDED_DETAIL, "pending": pending, "processes": [{"pid": 1, "command": "sh"}]})
    detail["task"]["result"] |= {"error": poisoned(error)}
    answers = {
        **poisoned(SESSIONS),
        TaskList: poisoned({"tasks": [RUNNING]}),
        TaskDetail: detail,
        CapacityStatus: {"slots": [poisoned(slot)]},
        EventPage: {"events": [poisoned(events.event_to_json(warned))]},
    }
    answers[SessionDetail] = poisoned(SESSIONS[SessionDetail])
    answers[TaskList]["tasks"][0]["state"] = "running"
    opening = {"task": ("tasks", "\r"), "force stop": ("tasks", "K")}

    async def attack(shown: ScriptedScreen) -> None:
        begin_task(shown)
        if name == "changes":
            shown.screen.apply(event(90, events.TaskStateChanged("running", "completed")))
        action, key = opening.get(name, (name, ""))
        shown.screen.run_action(action)
        await until(lambda: "<U+" in picture(shown))
        if key:
            shown.keys(key)
            await until(lambda: "Tasks" not in picture(shown) and "<U+" in picture(shown))
        left = ALLOWED_ESCAPES.sub("", shown.written)
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", left), left[:400]
        assert "]52;" not in left.replace("<U+001B>]52;", "")

    inside(attack, columns=120, rows=40, answers=answers)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_the_views_over_a_real_task(tmp_path: Path, columns: int, rows: int) -> None:
    held = {"respond": {"parts": [{"text": "Half"}, {"hold": "gate"}, {"text": " and half."}]}}
    write = call("write_file", {"path": "new.txt", "content": "hello\n"})
    with Simulator(scripted(write, held)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            user.types("write it\r")
            user.sees("Half")
            user.types(F4)
            user.sees("last: write new.txt")
            user.types("\r")
            user.sees("operations")
            user.presses("esc", "esc")
            user.types(F5)
            user.sees("so far; the task is running")
            user.sees("+hello")
            user.presses("esc")
            user.types("/diagnostics\r")
            user.sees("occupied")
            user.sees_match("trace +[0-9a-f]{32}")
            user.presses("esc")
            simulator.release("gate")
            user.sees("done in")
            user.types(F5)
            user.sees("1 + hello")
            assert "unverified: no checks are declared" in user.screen
            user.presses("esc")
            user.types(F2)
            user.sees("last  Half and half.")
            user.types("\r")
            user.sees_no("Enter look")
            user.sees("Half and half.")
            user.presses("ctrl-c", "ctrl-c")
            assert user.leaves() == 0
