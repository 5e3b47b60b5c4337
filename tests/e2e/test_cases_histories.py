import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

from support.project import DEADLINE_SECONDS, call, make_project, say, scripted

from fluzo.simulator.server import Simulator


def well_formed(body: dict[str, Any]) -> None:
    """The invariants of every request that `fixtures/cases/m-histories.json` lists and that need no profile."""
    json.dumps(body, ensure_ascii=False).encode("utf-8")
    assert "\0" not in json.dumps(body, ensure_ascii=False)
    open_calls: list[str] = []
    before = ""
    for message in body["messages"]:
        role, last, before = message["role"], before, message["role"]
        if role == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
            continue
        assert open_calls == [], "every call is answered before anything else is said"
        assert role != last, "nobody speaks twice in a row"
        if role == "assistant":
            assert message.get("content") or message.get("tool_calls")
            open_calls = [item["id"] for item in message.get("tool_calls", ())]
            for item in message.get("tool_calls", ()):
                assert isinstance(json.loads(item["function"]["arguments"]), dict)
    assert open_calls == []


def test_an_interrupt_between_two_calls_leaves_a_conversation_that_goes_on(tmp_path: Path) -> None:
    wait = {"argv": ["sh", "-c", "echo ready > pipe; sleep 300"]}
    two = {
        "respond": {
            "parts": [
                {"tool_call": {"id": "c1", "name": "read_file", "arguments": {"path": "README.md"}}},
                {"tool_call": {"id": "c2", "name": "run", "arguments": wait}},
            ]
        }
    }
    expected = {
        "tool_results": [{"call": "c1", "contains": ["sheep"]}, {"call": "c2"}],
        "any_contains": ["Begin.", "Go on."],
    }
    with Simulator(scripted(two, {**say("continued"), "expect": expected})) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        os.mkfifo(project.root / "pipe")
        process = project.start("run", "--yolo", "Begin.", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert (project.root / "pipe").read_text() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_SECONDS) == 130
        (project.root / "pipe").unlink()
        assert project.fluzo("run", "--session", "last", "Go on.").returncode == 0
        assert simulator.finish() == []
        for request in simulator.requests:
            well_formed(request.body)


def test_reasoning_alone_does_not_block_the_session(tmp_path: Path) -> None:
    thinking = {"respond": {"parts": [{"reasoning": "hmm"}]}}
    with Simulator(scripted(thinking, {**say("ok"), "expect": {"any_lacks": ["hmm"]}})) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        first = project.json("run", "Begin.", status=8)
        assert first["reason"] == "provider_empty"
        second = project.json("run", "--session", "last", "Again.")
        assert simulator.finish() == []
        well_formed(simulator.requests[-1].body)
    assert second["session_id"] == first["session_id"]


def test_names_that_are_no_text_reach_the_wire_the_store_and_the_screen_as_text(tmp_path: Path) -> None:
    steps = [call("list_files", {}, "c1"), call("search", {"pattern": "needle"}, "c2"), say("done")]
    with Simulator(scripted(*steps)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        name = os.fsencode(project.root) + b"/caf\xe9-\xed\xa0\xb5.txt"
        Path(os.fsdecode(name)).write_text("needle\n")
        done = project.fluzo("run", "--output", "stream-json", "Go.")
        assert done.returncode == 0, done.stderr
        assert simulator.finish() == []
        for request in simulator.requests:
            well_formed(request.body)
            request.raw.decode("utf-8")
    for line in done.stdout.split(b"\n")[:-1]:
        json.loads(line)
    done.stderr.decode("utf-8")
    for command in (("tasks", "show", "last"), ("replay", "last"), ("sessions", "open", "last")):
        shown = project.fluzo(*command)
        assert shown.returncode == 0, shown.stderr
        shown.stdout.decode("utf-8")
    with sqlite3.connect(f"file:{project.root}/.fluzodrive/state.sqlite3?mode=ro", uri=True) as store:
        (result,) = store.execute("PRAGMA integrity_check").fetchone()
    store.close()
    assert result == "ok"
