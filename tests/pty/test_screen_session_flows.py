import os
import re
import signal
from pathlib import Path

import pytest
from support.project import Project, call, make_project, say, scripted
from support.screen import SIZES, ScriptedUser, user_at

from fluzo.simulator.server import Simulator

F2, F4, F5 = "\x1bOQ", "\x1bOS", "\x1b[15~"
SCRIPT = "echo run >> ran; echo ready > pipe; sleep 60"
RUN = call("run", {"shell": True, "script": SCRIPT}, "c1")
STUBBORN = "trap '' TERM; echo $$ > pid; echo ready > pipe; while :; do sleep 1; done"


def cut_off(root: Path, base_url: str) -> Project:
    """A run that is killed while its command runs."""
    project = make_project(root, base_url)
    os.mkfifo(root / "pipe")
    process = project.start("run", "--yolo", "do it", stdin=-3, stdout=-3, stderr=-3)
    assert (root / "pipe").read_text() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    return project


def presses_enter_without_a_choice(user: ScriptedUser) -> None:
    """Wait for its effect, the tone of the line that asks: a digit at its heels would be taken for typing."""
    user.rests()
    before = user.style("Nothing is chosen")
    user.types("\r")
    user.waits_for(lambda: user.style("Nothing is chosen") != before)


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_a_session_that_was_cut_off_is_opened_to_read_then_resumed_by_a_question(
    tmp_path: Path, columns: int, rows: int
) -> None:
    with Simulator(scripted(RUN, say("I have looked and it is done."))) as simulator:
        project = cut_off(tmp_path / "p", simulator.base_url)
        requests = len(simulator.requests)
        with user_at(cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            user.types(F2)
            user.sees(">recovered")
            user.types("\r")
            user.sees("recovered: Fluzo stopped here on")
            user.sees("not run again")
            assert len(simulator.requests) == requests, "opening is reading"
            user.types("/resume\r")
            user.sees("UNKNOWN")
            user.sees("Nothing is chosen")
            user.sees("state  interrupted")
            assert len(simulator.requests) == requests, "asking is looking"
            presses_enter_without_a_choice(user)
            user.picks_on_page(2)
            user.types("\r")
            user.sees("I have looked and it is done.")
            user.sees("done in")
            assert (project.root / "ran").read_text() == "run\n", "nothing unknown was done again"
            user.quits()
            assert user.leaves() == 0
        assert simulator.finish() == []


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_a_stubborn_task_is_cancelled_then_stopped_by_the_question(tmp_path: Path, columns: int, rows: int) -> None:
    stubborn = call("run", {"shell": True, "script": STUBBORN}, "c1")
    with Simulator(scripted(stubborn)) as simulator:
        project = make_project(
            tmp_path / "p", simulator.base_url, more="[tools.shell]\ntermination_grace_seconds = 600\n"
        )
        os.mkfifo(project.root / "pipe")
        with user_at("--yolo", cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            user.types("do it\r")
            assert (project.root / "pipe").read_text() == "ready\n"
            pid = int((project.root / "pid").read_text())
            user.presses("ctrl-c")
            user.sees("stopping")
            user.presses("ctrl-c")
            user.sees("Force stop?")
            user.sees_match(rf"{pid} ")
            user.presses("ctrl-c")
            presses_enter_without_a_choice(user)
            assert Path(f"/proc/{pid}").exists(), "the question is not the act"
            user.picks_on_page(2)
            user.types("\r")
            user.sees("Cancelled by you")
            assert not Path(f"/proc/{pid}").exists()
            user.quits()
            assert user.leaves() == 0


@pytest.mark.parametrize(("columns", "rows"), [(120, 40), (160, 50)])
def test_what_a_task_changed_is_seen_split_and_with_its_files_at_the_left(
    tmp_path: Path, columns: int, rows: int
) -> None:
    edit = call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"}, "e1")
    write = call("write_file", {"path": "new.txt", "content": "hello\n"}, "w1")
    with Simulator(scripted(edit, write, say("Counted."))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, verify=[["true"]])
        (project.root / "README.md").write_text("my own words\n")
        with user_at("--yolo", cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            user.types("count them\r")
            user.sees("done in")
            user.types(F5)
            user.sees("view: split")
            user.sees("new.txt  1/2")  # Until the changes are read, those that the conversation tells stand there.
            user.types("]")
            user.sees("sheep.py  2/2  +1 -1")
            user.sees_match(r"1 - COUNT = 1 +│ +1 \+ COUNT = 2")
            assert user.style("2").bg is not None
            if columns == 160:
                left = "\n".join(row[:29] for row in user.rows)
                assert "> sheep.py" in left and "new.txt" in left
                assert "yours before the task" in left and "README.md" in left
                assert re.search(r"true +passed", left)
            else:
                user.sees("true passed (current)")
            user.types(F5)
            user.sees("Counted.")
            user.quits()
            assert user.leaves() == 0
