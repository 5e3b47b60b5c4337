import json
from pathlib import Path
from typing import Any

from support.hosted import played, start, workspace
from support.project import call, say, scripted

from fluzo.context.compact import HEADINGS
from fluzo.core.events import Event
from fluzo.core.port import SessionDetail
from fluzo.host import HostOptions, open_host
from fluzo.simulator.server import Simulator

SMALL = "context_window = 8192\nmax_output_tokens = 1024\n[context]\ncompaction_max_output_tokens = 512\n"
SUMMARY = "\n".join(f"{heading}\nkept {heading[3:].lower()}" for heading in HEADINGS)
BIG = {"README.md": "readme\n", **{f"big{number}.txt": f"{number} " + "word " * 1200 for number in range(12)}}


def reads(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [call("read_file", {"path": f"big{n}.txt"}, f"r{n}") for n in range(first, first + count)]


def summarize(**expect: Any) -> dict[str, Any]:
    return {
        "expect": {"absent": ["tools"], "last_contains": ["<conversation>"], **expect},
        "respond": {"parts": [{"text": SUMMARY}]},
    }


def compactions(events: list[Event]) -> list[dict[str, Any]]:
    return [event.payload._asdict() for event in events if event.type == "ContextCompacted"]


def test_a_conversation_that_reaches_the_threshold_is_summarized_and_goes_on(tmp_path: Path) -> None:
    steps = [*reads(3), summarize(), *reads(1, 3), {"expect": {"any_contains": ["kept decisions"]}, **_text("done")}]
    detail, events, simulator = played(tmp_path, scripted(*steps), files=BIG, more=SMALL)
    assert simulator.finish() == []
    assert detail["task"]["state"] == "completed"
    (done,) = compactions(events)
    assert done["tokens_after"] < done["tokens_before"] and done["why"] == "threshold"
    assert done["artifact_id"] and done["through_position"] > 0


def test_the_originals_stay_in_the_store_and_a_later_task_begins_from_the_summary(tmp_path: Path) -> None:
    steps = [
        *reads(3),
        summarize(),
        say("one"),
        {"expect": {"any_contains": ["kept goal", "word word"]}, **_text("two")},
    ]
    with Simulator(scripted(*steps)) as simulator:
        workspace(tmp_path, simulator.base_url, files=BIG, more=SMALL)
        with open_host(HostOptions(tmp_path)) as host:
            first = start(host, "first")
            assert first.finish()["task"]["state"] == "completed"
            start(host, "second", session_id=first.ack.session_id).finish()

            stored = host.port.query(SessionDetail(first.ack.session_id)).result(60).data["messages"]
        problems = simulator.finish()
    assert [message["role"] for message in stored].count("tool") == 3
    last = json.loads(simulator.requests[-1].raw)
    assert "kept goal" in last["messages"][1]["content"], problems
    assert len(last["messages"]) < len(stored)


def test_an_invalid_summary_is_asked_for_once_more_and_then_the_task_blocks(tmp_path: Path) -> None:
    bad = {**summarize(), "respond": {"parts": [{"text": "I would rather not."}]}}
    steps = [*reads(3), bad, {**bad, "expect": {**bad["expect"], "repeat": True}}]
    detail, events, simulator = played(tmp_path, scripted(*steps), files=BIG, more=SMALL)
    assert simulator.finish() == []
    assert (detail["task"]["state"], detail["task"]["reason"]) == ("blocked", "compaction_failed")
    assert compactions(events) == []
    assert detail["task"]["consumption"]["turns"] == 4, "a compaction is no turn"


def test_a_server_that_says_overflow_gets_one_smaller_request(tmp_path: Path) -> None:
    overflow = {
        "respond": {
            "status": 400,
            "content_type": "application/json",
            "text": '{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size '
            '(8192 tokens), try increasing it","type":"exceed_context_size_error"}}',
        }
    }
    steps = [*reads(1), overflow, summarize(), say("done")]
    detail, events, simulator = played(tmp_path, scripted(*steps), files=BIG)
    assert simulator.finish() == []
    assert detail["task"]["state"] == "completed"
    assert [item["why"] for item in compactions(events)] == ["overflow"]


def test_a_window_too_small_for_what_must_stay_is_a_reason_of_its_own_and_ends(tmp_path: Path) -> None:
    tiny = "context_window = 4096\nmax_output_tokens = 512\n[context]\ncompaction_max_output_tokens = 256\n"
    files = {**BIG, "AGENTS.md": "Rule. " * 2500}
    detail, _, simulator = played(tmp_path, scripted(summarize(), summarize()), files=files, more=tiny)
    assert detail["task"]["reason"] == "compaction_failed"
    assert len(simulator.requests) <= 2


def test_one_tool_result_never_fills_more_than_a_quarter_of_the_window(tmp_path: Path) -> None:
    files = {"README.md": "x", "huge.txt": "word " * 60_000}
    steps = [call("read_file", {"path": "huge.txt"}, "r"), say("done")]
    _, _, simulator = played(tmp_path, scripted(*steps), files=files, more=SMALL)
    assert simulator.finish() == []
    result = next(m for m in json.loads(simulator.requests[-1].raw)["messages"] if m["role"] == "tool")
    assert len(result["content"].encode()) <= 6144 * 3.5 / 4 + 600


def test_instructions_of_a_folder_come_before_the_first_change_beneath_it(tmp_path: Path) -> None:
    files = {"README.md": "x", "sub/AGENTS.md": "Use tabs here.", "sub/deep/a.txt": "one\n", "b.txt": "two\n"}
    edit = {"path": "sub/deep/a.txt", "old_text": "one", "new_text": "three"}
    steps = [
        call("edit_file", {"path": "b.txt", "old_text": "two", "new_text": "2"}, "e0"),
        call("edit_file", edit, "e1"),
        {
            "expect": {"tool_results": [{"call": "e1", "contains": ["Use tabs here.", "nothing was changed yet"]}]},
            **_call("edit_file", edit, "e2"),
        },
        say("done"),
    ]
    _, events, simulator = played(tmp_path, scripted(*steps), files=files)
    assert simulator.finish() == []
    assert (tmp_path / "sub/deep/a.txt").read_text() == "three\n"
    ledgers = [event.payload._asdict()["fragments"] for event in events if event.type == "ContextAssembled"]
    assert [item["source"] for ledger in ledgers for item in ledger] == ["git status", "sub/AGENTS.md"]


def test_a_skill_is_loaded_when_it_is_named_and_a_missing_one_is_said(tmp_path: Path) -> None:
    files = {"README.md": "x", "skills/review.md": "Be strict."}
    steps = scripted(say("ok"))
    _, _, simulator = played(tmp_path / "one", steps, files=files, skills=("skills/review.md",))
    assert "Be strict." in simulator.requests[0].raw.decode()
    detail, _, simulator = played(tmp_path / "two", steps, files=files, skills=("skills/none.md",))
    assert detail["task"]["reason"] == "usage" and simulator.requests == []


def test_an_agent_that_repeats_itself_is_told_once_and_then_blocked(tmp_path: Path) -> None:
    same = [call("read_file", {"path": "README.md"}, f"c{n}") for n in range(6)]
    same[3] = {**same[3], "expect": {"last_contains": ["same call 3 times"]}}
    detail, events, simulator = played(tmp_path, scripted(*same))
    assert simulator.finish() == []
    assert (detail["task"]["state"], detail["task"]["reason"]) == ("blocked", "loop_detected")
    assert [event.type for event in events].count("LoopNoticed") == 1


def test_money_is_a_limit_when_there_are_prices(tmp_path: Path) -> None:
    more = (
        'price_currency = "EUR"\ninput_price_microunits = 1000000\noutput_price_microunits = 2000000\n'
        '[harness]\nmax_cost_microunits = 12000\ncurrency = "EUR"\n'
    )
    first = call("read_file", {"path": "README.md"}, "c1")
    first["respond"]["usage"] = {"prompt_tokens": 5000, "completion_tokens": 100}
    detail, _, simulator = played(tmp_path, scripted(first), more=more)
    assert simulator.finish() == []
    result = detail["task"]["result"]
    assert result["reason"] == "budget_exhausted"
    assert result["budget"]["cost_microunits"] == {"used": 5200, "allowed": 12000, "provenance": "reported"}


def test_a_server_window_smaller_than_configured_is_warned_of_once(tmp_path: Path) -> None:
    steps = reads(4)
    for step in steps:
        step["respond"]["usage"] = {"prompt_tokens": 4000, "completion_tokens": 96}
    steps += [summarize(), say("done")]
    detail, events, _ = played(tmp_path, scripted(*steps), files=BIG)
    warnings = [event.payload._asdict()["code"] for event in events if event.type == "WarningRaised"]
    assert warnings == ["window_smaller"]
    assert any("4096" in line for line in detail["task"]["result"]["warnings"])


def _text(text: str) -> dict[str, Any]:
    return {"respond": {"parts": [{"text": text}]}}


def _call(name: str, arguments: dict[str, Any], call_id: str) -> dict[str, Any]:
    return {"respond": {"parts": [{"tool_call": {"id": call_id, "name": name, "arguments": arguments}}]}}
