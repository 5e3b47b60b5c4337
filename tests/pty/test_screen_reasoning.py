"""What a server sends apart, or what stops in the middle, as the person sees it and as the next request tells it."""

import os
from pathlib import Path

import pytest
from support.project import make_project, say, scripted
from support.screen import user_at
from support.wire_server import CASES, case

from fluzo.simulator.server import Simulator

WAIT = {"argv": ["sh", "-c", "echo ready > pipe; sleep 300"]}


@pytest.mark.parametrize(
    "name", ["p50-reasoning-content", "p52-think-tags-split", "p53-think-close-only", "p55-content-parts"]
)
def test_reasoning_is_a_row_of_its_own_and_no_part_of_the_answer(tmp_path: Path, name: str) -> None:
    expect = case(name)["expect"]
    recorded = {"status": 200, "content_type": "text/event-stream", "text": (CASES / f"{name}.sse").read_text()}
    with Simulator(scripted({"respond": recorded})) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ) as user:
            user.sees("Type a task")
            user.types("think")
            user.presses("enter")
            user.sees("done in")
            user.shows(lambda: any(row.strip("┃ ") == expect["text"] for row in user.rows))
            user.shows(lambda: user.row("thought").startswith("┃ ▸ thought"))
            assert expect["reasoning"] not in user.screen
            assert "think>" not in user.screen
            user.presses("ctrl-o")
            user.sees(expect["reasoning"].strip())


def test_ctrl_c_between_two_calls_shows_both_and_the_next_message_goes_on(tmp_path: Path) -> None:
    two = {
        "respond": {
            "parts": [
                {"tool_call": {"id": "c1", "name": "read_file", "arguments": {"path": "README.md"}}},
                {"tool_call": {"id": "c2", "name": "run", "arguments": WAIT}},
            ]
        }
    }
    told = {"tool_results": [{"call": "c1", "contains": ["sheep"]}, {"call": "c2"}], "any_contains": ["Go on."]}
    with Simulator(scripted(two, {**say("continued"), "expect": told})) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        os.mkfifo(project.root / "pipe")
        with user_at("--yolo", cwd=project.root, env=os.environ) as user:
            user.sees("Type a task")
            user.types("Begin.")
            user.presses("enter")
            assert (project.root / "pipe").read_text() == "ready\n"
            user.sees_match(r"run +sh -c.* running")
            user.presses("ctrl-c")
            user.sees("Cancelled by you")
            user.sees_match("- run .*cancelled  ended after SIGTERM")
            user.sees("✓ read   README.md")
            (project.root / "pipe").unlink()
            user.types("Go on.")
            user.presses("enter")
            user.sees("continued")
            user.sees("done in")
        assert simulator.finish() == []
