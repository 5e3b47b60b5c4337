import os
from pathlib import Path

import pytest
from support.project import Project, call, make_project, say, scripted
from support.screen import SIZES, ScriptedUser, user_at

from fluzo.simulator.server import Simulator

F6 = "\x1b[17~"
CTRL_U = "\x15"
MORE = "# limits of mine\n[harness]\nmax_turns = 5  # few\n"
at_every_size = pytest.mark.parametrize(("columns", "rows"), SIZES)


def settings_text(project: Project) -> str:
    return (project.root / ".fluzo").read_text()


def open_at(user: ScriptedUser, wanted: str, key: str) -> None:
    """The settings with one row lit, found by a text."""
    user.types(F6)
    user.sees(".fluzo  saved")
    user.types("/")
    user.sees("Esc show all")
    user.types(wanted)
    user.sees(key)
    user.presses("enter")
    user.sees("Enter edit")


def enter(user: ScriptedUser, name: str, text: str) -> None:
    user.presses("enter")
    user.sees_match(rf"{name}.* =")
    user.types(CTRL_U + text)
    user.sees_match(rf"{name}.* = {text}")
    user.presses("enter")


@at_every_size
def test_a_limit_is_changed_on_the_screen_and_seen_in_the_file(tmp_path: Path, columns: int, rows: int) -> None:
    with Simulator(scripted(call("list_files", {"path": "."}), say("not reached"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=MORE)
        before = settings_text(project)
        with user_at(cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            open_at(user, "max_turns", "harness.max_turns")
            assert ("1 to 100000" in user.row("turns per task  ")) == (columns >= 112)
            enter(user, "max_turns", "0")
            user.sees("harness.max_turns must be a whole number from 1 to 100000 (turns).")
            assert settings_text(project) == before
            user.types(CTRL_U + "1\r")
            user.sees("1 change not saved")
            assert settings_text(project) == before
            user.types("s")
            user.sees(".fluzo  saved")
            assert settings_text(project) == before.replace("max_turns = 5", "max_turns = 1")
            user.presses("esc", "esc")
            user.sees("Type a task")
            user.types("go\r")
            user.sees("Limit reached: max_turns, 1 of 1 used")
        assert len(simulator.requests) == 1


@at_every_size
@pytest.mark.parametrize("choice", ["K", "R"])
def test_a_file_that_changed_meanwhile_is_told_and_then_kept_or_taken_over(
    tmp_path: Path, columns: int, rows: int, choice: str
) -> None:
    with Simulator(scripted(say("unused"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=MORE)
        with user_at(cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            open_at(user, "max_turns", "harness.max_turns")
            enter(user, "max_turns", "9")
            user.sees("1 change not saved")
            outside = settings_text(project) + "max_tool_calls = 50  # from elsewhere\n"
            (project.root / ".fluzo").write_text(outside)
            user.types("s")
            user.sees("The file was changed outside.")
            assert settings_text(project) == outside
            user.types(choice)
            if choice == "K":
                user.sees_no("The file was changed outside.")
                user.types("s")
            user.sees(".fluzo  saved")
            user.sees_no("The file was changed outside.")
            wanted = outside.replace("max_turns = 5", "max_turns = 9") if choice == "K" else outside
            assert settings_text(project) == wanted
            user.sees_match(rf"turns per task +{'9' if choice == 'K' else '5'} +same")


def test_a_running_task_gets_another_limit_only_when_it_is_given_to_it(tmp_path: Path) -> None:
    with Simulator(scripted(call("run", {"argv": ["true"]}), say("all done"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more="[harness]\nmax_turns = 1\n")
        with user_at(cwd=project.root, env=os.environ, columns=120, rows=40) as user:
            user.sees("Type a task")
            user.types("go\r")
            user.sees("Permission 1 of 1")
            open_at(user, "max_turns", "harness.max_turns")
            enter(user, "max_turns", "3")
            user.types("s")
            user.sees("Saved; the running task keeps what it began with")
            user.types("A")
            user.sees("Limits of the running task")
            user.shows(lambda: user.row("turns per task").split()[3:6] == ["1", "3", "1"])
            user.picks(2)
            user.presses("enter")
            user.sees("The running task has the new limits")
            user.presses("esc", "esc")
            user.sees("max_turns 1 -> 3")
            user.presses("alt-n")
            user.sees("all done")


def test_a_file_that_breaks_is_diagnosed_and_left_as_it_is(tmp_path: Path) -> None:
    with Simulator(scripted(say("unused"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=MORE)
        broken = settings_text(project).replace("max_turns = 5", "max_turn = 5")
        with user_at(cwd=project.root, env=os.environ, columns=80, rows=24) as user:
            user.sees("Type a task")
            open_at(user, "max_turns", "harness.max_turns")
            user.types("l")
            user.sees("1 change not saved")
            (project.root / ".fluzo").write_text(broken)
            user.types("s")
            user.sees_match(r"line \d+: harness.max_turn is not a setting")
            user.types("s")
            user.sees("nothing is written over it")
            assert settings_text(project) == broken


def test_a_file_that_is_broken_from_the_start_shows_its_diagnosis_in_the_settings_too(tmp_path: Path) -> None:
    with Simulator(scripted(say("unused"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=MORE)
        broken = settings_text(project).replace("max_turns = 5", "max_turns = 0")
        (project.root / ".fluzo").write_text(broken)
        with user_at(cwd=project.root, env=os.environ, columns=80, rows=24) as user:
            user.sees("Fluzo cannot begin here")
            user.types(F6)
            user.sees("There is nothing to show yet")
            user.sees_match(r"harness.max_turns\s+must\s+be\s+a\s+whole\s+number\s+from\s+1\s+to\s+100000")
            user.types("sAr")
            user.presses("esc")
            user.sees("Fluzo cannot begin here")
        assert settings_text(project) == broken
