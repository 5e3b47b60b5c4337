import os
import subprocess
from pathlib import Path

import pytest
from support.project import say, scripted
from support.screen import SIZES, user_at

from fluzo.simulator.server import Simulator


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    subprocess.run(["git", "init", "--quiet", root], check=True)
    subprocess.run(["git", "-C", root, "commit", "--quiet", "--allow-empty", "-m", "begin"], check=True)
    return root


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_fluzo_alone_welcomes_sets_up_and_opens_the_session(repo: Path, columns: int, rows: int) -> None:
    with Simulator(scripted(say("Ready to work."))) as simulator:
        env = {**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1"}
        with user_at(cwd=repo, env=env, columns=columns, rows=rows) as user:
            user.sees("a coding agent that runs on your machine")
            user.sees("▄▀▀▀▄")
            assert user.style("▄▀▀▀▄").fg == "brightmagenta"
            user.sees("Where is your model?")
            user.presses("enter")
            user.sees("Address of the server:")
            user.types(f"\x05\x15{simulator.base_url}\r")
            user.sees("Does the server want a key?")
            user.presses("enter")
            user.sees("Ask the server for its list")
            user.presses("down", "enter")
            user.sees("The name as the server lists it")
            user.types("\x05\x15scripted\r")
            for question in (
                "Test the model now?",
                "Context window in tokens:",
                "Longest reply in tokens:",
                "Requests at the same time:",
                "Another command",
                "Look at the advanced settings?",
            ):
                user.sees(question)
                user.presses("enter")
            user.sees("Write it?")
            assert not (repo / ".fluzo").exists()
            assert simulator.requests == []
            user.presses("enter")
            user.sees("Have Git ignore it in this clone")
            user.presses("enter")
            user.sees("Type a task")
            user.sees("scripted")
            user.types("hello\r")
            user.sees("Ready to work.")
        assert simulator.finish() == []


def test_leaving_the_welcome_writes_nothing(repo: Path) -> None:
    with user_at(cwd=repo, env={**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1"}, columns=110, rows=40) as user:
        user.sees("Where is your model?")
        user.presses("ctrl-c")
        assert user.leaves() == 130
    assert not (repo / ".fluzo").exists()
