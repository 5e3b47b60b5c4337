import os
from pathlib import Path

import pytest
from support.project import Project, call, make_project, say, scripted
from support.terminal import ScriptedPerson, person_at
from support.workspaces import make_repository

from fluzo.simulator.scenario import Scenario
from fluzo.simulator.server import Simulator

PROMPT = "once [o]  this task [t]  deny [d] >"
MARK = ["python3", "-c", "open('ran', 'a').write('x')"]
SHOWN = "command    python3 -c 'open('\"'\"'ran'\"'\"', '\"'\"'a'\"'\"').write('\"'\"'x'\"'\"')'"


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "LANG": "C.UTF-8", "TERM": "xterm-256color", **more}


def asking(*argvs: list[str]) -> Scenario:
    steps = [call("run", {"argv": argv}, f"c{number}") for number, argv in enumerate(argvs)]
    return scripted(*steps, say("All done."))


def times_asked(person: ScriptedPerson) -> int:
    return person.screen().count(PROMPT)


def test_the_exact_command_is_shown_and_only_a_named_answer_counts(tmp_path: Path) -> None:
    with Simulator(asking(MARK)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with person_at("run", "Go.", cwd=project.root, env=environment()) as person:
            person.sees(PROMPT)
            assert SHOWN in person.screen()
            assert "directory  ." in person.screen()
            assert "UNSANDBOXED" in person.screen()
            for asked, typed in enumerate(("", "y", "yes", "O K", "\u202eo", "once and for all", "\x1b[A"), 2):
                person.types(typed)
                person.presses("enter")
                person.sees(PROMPT, times=asked)
                assert not (project.root / "ran").exists()
            person.types("o")
            person.presses("enter")
            person.sees("All done.")
            assert person.leaves() == 0
    assert (project.root / "ran").read_text() == "x"


@pytest.mark.parametrize(("answer", "runs", "asked"), [("o", "xx", 2), ("t", "xx", 1), ("d", "", 1)])
def test_once_is_once_and_for_the_task_is_for_the_same_command(
    tmp_path: Path, answer: str, runs: str, asked: int
) -> None:
    with Simulator(asking(MARK, MARK) if answer != "d" else asking(MARK)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with person_at("run", "Go.", cwd=project.root, env=environment()) as person:
            for time in range(1, asked + 1):
                person.sees(PROMPT, times=time)
                person.types(answer)
                person.presses("enter")
            assert person.leaves() == 0
            assert times_asked(person) == asked
    assert (project.root / "ran").exists() == bool(runs)
    assert not runs or (project.root / "ran").read_text() == runs


def test_leaving_twice_by_ctrl_c_ends_everything_and_grants_nothing(tmp_path: Path) -> None:
    stubborn = ["python3", "-c", "import signal\nsignal.signal(15, signal.SIG_IGN)\nopen('on', 'w')\nsignal.pause()"]
    more = "[tools.shell]\ntermination_grace_seconds = 600\n"
    with Simulator(asking(stubborn)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=more)
        os.mkfifo(project.root / "on")
        with person_at("run", "Go.", cwd=project.root, env=environment()) as person:
            person.sees(PROMPT)
            person.types("o")
            person.presses("enter")
            (project.root / "on").open("rb").close()  # Opens when the command has come that far.
            person.presses("ctrl-c")
            person.sees("stopping the task; press Ctrl+C again")
            person.presses("ctrl-c")
            assert person.leaves() == 130
    shown = project.json("tasks", "show", "last")
    assert shown["task"]["state"] in ("cancelled", "blocked")


def test_ctrl_d_blocks_the_task_and_says_how_to_go_on(tmp_path: Path) -> None:
    with Simulator(asking(MARK)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with person_at("run", "Go.", cwd=project.root, env=environment()) as person:
            person.sees(PROMPT)
            person.presses("ctrl-d")
            assert person.leaves() == 4
            assert "[permission_required]" in person.screen()
            assert "Traceback" not in person.screen()
    assert not (project.root / "ran").exists()
    assert project.json("tasks", "show", "last")["task"]["state"] == "blocked"


HOSTILE = ["ls\u202e", "\x1b[2Jrm", "a\nb", "\u200b", "--\x07\x9b31m", "\U000e0041"]


def test_a_command_that_hides_something_is_shown_with_it(tmp_path: Path) -> None:
    with Simulator(asking(HOSTILE)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with person_at("run", "Go.", cwd=project.root, env=environment(), columns=160) as person:
            person.sees(PROMPT)
            screen = person.screen()
            person.types("d")
            person.presses("enter")
            assert person.leaves() == 0
    (line,) = [line for line in screen.split("\n") if line.lstrip().startswith("command")]
    for shown in ("<U+202E>", "<U+001B>[2Jrm", "<U+000A>", "<U+200B>", "<U+0007>", "<U+009B>", "<U+E0041>"):
        assert shown in line, shown
    for raw in ("\u202e", "\x1b[2J", "\x07", "\u200b"):
        assert raw.encode() not in person.raw


@pytest.mark.parametrize("plain", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_without_colours_a_question_sends_no_escape(tmp_path: Path, plain: dict[str, str]) -> None:
    ask = '[policy]\nedit = "ask"\n'
    edit = call("edit_file", {"path": "sheep.py", "old_text": "1", "new_text": "2"}, "c1")
    with Simulator(scripted(edit, say("All done."))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=ask)
        with person_at("run", "Go.", cwd=project.root, env=environment(**plain)) as person:
            person.sees(PROMPT)
            assert "-COUNT = 1" in person.screen()
            assert "+COUNT = 2" in person.screen()
            person.types("o")
            person.presses("enter")
            assert person.leaves() == 0
    assert b"\x1b" not in person.raw
    assert (project.root / "sheep.py").read_text() == "COUNT = 2\n"


def test_the_form_does_not_send_a_person_with_a_broken_file_back_to_itself(tmp_path: Path) -> None:
    project = Project(make_repository(tmp_path / "p", {"a.txt": "a\n"}))
    (project.root / ".fluzo").write_text("schema_version = 1\n[models.main\n")
    with person_at("config", "edit", cwd=project.root, env=environment()) as person:
        assert person.leaves() == 3
        assert ".fluzo, line 2: this is not valid TOML" in person.screen()
        assert "The form opens valid settings only." in person.screen()
        assert "run: fluzo config edit" not in person.screen()
