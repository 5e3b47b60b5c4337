"""Two hundred turns with large results in a small window: the whole program, as a process, over real HTTP."""

import json
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

from support.project import call, make_project, say, scripted

from fluzo.context.compact import HEADINGS
from fluzo.simulator.server import Simulator

TURNS = 200
RESULT_BYTES = 100_000
MAX_GROWTH_KIB = 24 * 1024
WINDOW = 32768
SUMMARY = "\n".join(f"{heading}\nkept {heading[3:].lower()}" for heading in HEADINGS)
MORE = (
    "[harness]\nmax_turns = 1000\nmax_tool_calls = 1000\nmax_total_tokens = 1000000000\nmax_active_seconds = 100000\n"
)


def scenario() -> Any:
    steps: list[dict[str, Any]] = []
    for number in range(TURNS):
        script = f"yes 'line {number} of a long output' | head -c {RESULT_BYTES}"
        step = call("run", {"shell": True, "script": script}, f"c{number}")
        if number in (TURNS // 2, TURNS - 1):
            step["respond"]["parts"].insert(0, {"hold": f"at {number}"})
        step["expect"] = {"tools": ["run"]}
        summary = {"optional": True, "expect": {"absent": ["tools"]}, "respond": {"parts": [{"text": SUMMARY}]}}
        steps += [step, summary, summary, summary]
    return scripted(*steps, say("all done", tools=["run"]))


def resident_kib(process: "subprocess.Popen[bytes]") -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def test_two_hundred_turns_of_large_results_fit_a_32k_window(tmp_path: Path) -> None:
    with Simulator(scenario()) as simulator:
        project = make_project(tmp_path, simulator.base_url, more=MORE)
        process = project.start(
            "run", "--yolo", "--output", "json", "work", stdin=-3, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        sizes = []
        for number in (TURNS // 2, TURNS - 1):
            assert simulator.wait_until_held(f"at {number}", 600)
            sizes.append(resident_kib(process))
            simulator.release(f"at {number}")
        output, _ = process.communicate(timeout=600)
        assert simulator.finish() == [], "every request was valid"
    result = json.loads(output)
    assert (result["status"], result["message"]) == ("completed", "all done")
    assert result["budget"]["turns"]["used"] == TURNS + 1
    assert sizes[1] - sizes[0] < MAX_GROWTH_KIB, sizes
    requests = [json.loads(request.raw) for request in simulator.requests]
    assert all(len(request.raw) < WINDOW * 3.5 for request in simulator.requests)
    compactions = [request for request in requests if "tools" not in request]
    assert len(compactions) > 5
    _history_is_complete(tmp_path, len(compactions))


def _history_is_complete(root: Path, compactions: int) -> None:
    db = sqlite3.connect(f"file:{root}/.fluzodrive/state.sqlite3?mode=ro", uri=True)
    try:
        (results,) = db.execute("SELECT count(*) FROM messages WHERE role = 'tool'").fetchone()
        (compacted,) = db.execute("SELECT count(*) FROM events WHERE type = 'ContextCompacted'").fetchone()
        (first, last, number) = db.execute("SELECT min(seq), max(seq), count(*) FROM events").fetchone()
    finally:
        db.close()
    assert results == TURNS
    assert 5 < compacted <= compactions
    assert last - first + 1 == number, "no gap"
