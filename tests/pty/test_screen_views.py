import os
import re
from pathlib import Path
from typing import Any

import pytest
from support.project import call, make_project, scripted
from support.records import detail_of, message, picture, session_row, task_row, until
from support.screen import user_at
from support.screen_inside import ScriptedScreen, begin_task, inside
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.port import (
    CapacityStatus,
    EventPage,
    SessionDetail,
    SessionList,
    TaskDetail,
    TaskList,
)
from fluzo.simulator.server import Simulator

F2 = "\x1bOQ"
F4 = "\x1bOS"
F5 = "\x1b[15~"
SESSIONS = {
    SessionList: {"sessions": [session_row()]},
    SessionDetail: {"session": session_row(), "tasks": [task_row()], "messages": [message(1, "user", "fix it please")]},
}

RUNNING = task_row(id="t_1", session_id="s_1", state="running", text="repair\x1b[2J it")
TASKS = {
    TaskList: {"tasks": [RUNNING, task_row(state="blocked", reason="budget_exhausted")]},
    TaskDetail: detail_of(RUNNING),
}


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
        assert "a.py  1/1  +1 -1" in rows
        assert "since: this task   view: split" in rows
        assert "you had changed this file before the task" in rows
        assert "1 + new<U+001B>[2J" in rows
        shown.keys("c")
        assert "checks, when the task ended" in picture(shown)
        shown.keys("c")
        shown.keys("t")
        assert "view: unified" in picture(shown)
        shown.keys("\x1b")
        assert "Changes" not in picture(shown)
        assert len(shown.port.commands) == 1

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


def test_diagnostics_begin_with_what_went_wrong_and_say_that_an_observer_only_observes() -> None:
    failed = detail_of(task_row(id="t_1", state="blocked", reason="provider_unavailable"))
    failed["task"]["result"] = {"error": {"code": "provider_unavailable", "message": "No answer\x1b[2J."}}
    facts = {"model": "m", "endpoint": "e", "health": [("telemetry", "exported"), ("observer", "shadow")]}

    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.screen.run_action("diagnostics")
        await until(lambda: "No answer" in picture(shown))
        rows = picture(shown)
        assert rows.index("[provider_unavailable]") < rows.index("budgets")
        assert "exported" in rows
        assert "observations only" in rows

    answers = {TaskDetail: failed, CapacityStatus: {"slots": []}, EventPage: {"events": []}}
    inside(look, columns=120, rows=40, answers=answers, facts=facts)


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
            user.sees_no("Enter look")
            user.sees("operations")
            user.presses("esc")
            user.sees("Enter look")
            user.presses("esc")
            user.sees_no("Enter look")
            user.types(F5)
            user.sees("so far; the task is running")
            user.sees("+ hello")
            user.presses("esc")
            user.sees_no("so far; the task is running")
            user.types("/diagnostics\r")
            user.sees("occupied")
            user.sees_match("trace +[0-9a-f]{32}")
            user.presses("esc")
            user.sees_no("occupied")
            simulator.release("gate")
            user.sees("done in")
            user.types(F5)
            user.sees("1 + hello")
            user.sees("unverified: no checks are declared")
            user.presses("esc")
            user.sees_no("1 + hello")
            user.types(F2)
            user.sees('last:  "Half and half."')
            user.types("\r")
            user.sees_no("Enter look")
            user.sees("Half and half.")
            user.quits()
            assert user.leaves() == 0


def test_the_head_of_a_text_says_which_rows_are_shown_also_after_a_resize_and_beside_what_is_found() -> None:
    def told(rows: list[str]) -> tuple[int, int]:
        found = re.search(r"rows (\d+) to (\d+) of", rows[0])
        assert found is not None
        return int(found[1]), int(found[2])

    async def look(shown: ScriptedScreen) -> None:
        shown.keys("\x1bOP")
        assert told(shown.draw()) == (1, 21)
        shown.resizes(100, 40)
        assert told(shown.draw()) == (1, 37)
        shown.keys("/")
        assert told(shown.draw()) == (1, 36)
        shown.keys("\x1b")
        shown.keys("\x1b[F")
        first, last = told(shown.draw())
        assert last - first == 36
        shown.resizes(80, 24)
        first, last = told(shown.draw())
        assert last - first == 20

    inside(look)
