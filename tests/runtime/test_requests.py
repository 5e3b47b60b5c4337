"""What really goes over the wire, on the recorded bytes of whole tasks."""

import itertools
import json
import os
from pathlib import Path
from typing import Any

from support.hosted import played, start, workspace
from support.project import call, say, scripted, shipped

from fluzo.host import HostOptions, open_host
from fluzo.simulator.scenario import Scenario
from fluzo.simulator.server import Simulator

MAX_FIRST_REQUEST_BYTES = 6 * 1024
STEPS = (
    call("read_file", {"path": "README.md"}, "c1"),
    call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"}, "c2"),
    call("list_files", {}, "c3"),
    say("done"),
)


def recorded(root: Path, scenario: Scenario, **more: Any) -> list[bytes]:
    _, _, simulator = played(root, scenario, **more)
    assert simulator.finish() == []
    return [request.raw for request in simulator.requests if request.method == "POST"]


def test_instructions_and_tool_schemas_stay_small(tmp_path: Path) -> None:
    request = json.loads(recorded(tmp_path, scripted(say("done")))[0])
    overhead = {**request, "messages": [request["messages"][0]]}
    size = len(json.dumps(overhead, ensure_ascii=False, separators=(",", ":")).encode())
    assert request["messages"][0]["role"] == "system"
    assert size <= MAX_FIRST_REQUEST_BYTES, size


def test_consecutive_requests_share_their_whole_prefix_byte_for_byte(tmp_path: Path) -> None:
    bodies = recorded(tmp_path, scripted(*STEPS))
    assert len(bodies) == len(STEPS)
    for before, after in itertools.pairwise(bodies):
        shared = before[: before.rindex(b"]")]
        assert after.startswith(shared)
        assert len(after) > len(before)


def test_the_first_request_holds_request_workspace_and_agents_file_and_nothing_else(tmp_path: Path) -> None:
    files = {"README.md": "SECRET README", "AGENTS.md": "Use tabs.", "sub/AGENTS.md": "Not this.", ".env": "KEY=abc"}
    body = recorded(tmp_path, scripted(say("ok")), files=files)[0].decode()
    assert "Use tabs." in body and "do it" in body and "working tree clean" in body
    assert "SECRET README" not in body and "Not this." not in body and "KEY=abc" not in body


def test_a_follow_up_task_extends_the_conversation_of_its_session(tmp_path: Path) -> None:
    with Simulator(scripted(say("one"), {"expect": {"extends": True}, **_text("two")})) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            first = start(host, "first")
            first.finish()
            start(host, "second", session_id=first.ack.session_id).finish()
        assert simulator.finish() == []


def test_reasoning_alone_is_no_answer_and_never_reaches_the_next_request(tmp_path: Path) -> None:
    only_thinking = {"respond": {"parts": [{"reasoning": "hmm"}]}}
    with Simulator(scripted(only_thinking, {"expect": {"any_lacks": ["hmm"]}, **_text("ok")})) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            first = start(host, "first")
            assert first.finish()["task"]["reason"] == "provider_empty"
            second = start(host, "again", session_id=first.ack.session_id)
            assert second.finish()["task"]["state"] == "completed"
        assert simulator.finish() == []


def test_names_that_are_no_text_survive_from_the_disk_to_the_wire_and_the_store(tmp_path: Path) -> None:
    steps = (call("list_files", {}, "c1"), say("done"))
    with Simulator(scripted(*steps)) as simulator:
        workspace(tmp_path, simulator.base_url)
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("x")
        with open_host(HostOptions(tmp_path)) as host:
            detail = start(host).finish()
        assert detail["task"]["state"] == "completed"
        assert simulator.finish() == []
        assert "caf" in simulator.requests[-1].raw.decode("utf-8")


def test_a_provider_key_is_sent_and_is_nowhere_else(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MY_KEY", "very-secret-value-123")
    more = 'auth = "env"\napi_key_env = "MY_KEY"\n'
    leak = call("run", {"shell": True, "script": "env; cat /proc/self/environ"}, "c1")
    echo = say("the key is very-secret-value-123", headers={"Authorization": "Bearer very-secret-value-123"})
    detail, _, simulator = played(tmp_path, scripted(leak, echo), more=more, yolo=True)
    assert simulator.finish() == []
    assert "very-secret" not in json.dumps(detail)
    assert b"very-secret" not in b"".join(request.raw for request in simulator.requests)
    for path in (tmp_path / ".fluzodrive").rglob("*"):
        assert not path.is_file() or b"very-secret" not in path.read_bytes(), path


def test_the_scripted_python_repair_keeps_to_the_prefix_rule_too(tmp_path: Path) -> None:
    bodies = recorded(tmp_path, shipped("two-turn"))
    assert bodies[1].startswith(bodies[0][: bodies[0].rindex(b"]")])


def _text(text: str) -> dict[str, Any]:
    return {"respond": {"parts": [{"text": text}]}}
