import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pexpect
import pytest
from support.project import DEADLINE_SECONDS, FLUZO, Project, call, make_project, say, scripted

from fluzo.simulator.scenario import Scenario
from fluzo.simulator.server import Simulator

PROMPT = "once [o]  this task [t]  deny [d] > "
COMMAND = ["python3", "-c", "open('ran', 'a').write('x')"]


def spawn(project: Project, *arguments: str, env: Mapping[str, str] | None = None) -> "pexpect.spawn[str]":
    return pexpect.spawn(
        FLUZO,
        list(arguments),
        cwd=str(project.root),
        env={**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", **(env or {})},
        encoding="utf-8",
        timeout=DEADLINE_SECONDS,
        dimensions=(24, 100),
    )


def end(terminal: "pexpect.spawn[str]") -> tuple[int | None, str]:
    terminal.expect(pexpect.EOF)
    terminal.wait()
    terminal.close()
    return terminal.exitstatus, str(terminal.before)


def commands(*argvs: Sequence[str]) -> Scenario:
    steps = [call("run", {"argv": list(argv)}, f"call_{number}") for number, argv in enumerate(argvs, 1)]
    return scripted(*steps, say("All done."))


def test_a_command_is_asked_for_and_runs_once(tmp_path: Path) -> None:
    with Simulator(commands(COMMAND, COMMAND)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        terminal = spawn(project, "run", "Go.")
        terminal.expect_exact("UNSANDBOXED")
        terminal.expect_exact(PROMPT)
        terminal.sendline("")
        terminal.expect_exact(PROMPT)
        assert not (project.root / "ran").exists()
        terminal.sendline("o")
        terminal.expect_exact(PROMPT)
        assert (project.root / "ran").read_text() == "x"
        terminal.sendline("d")
        status, _ = end(terminal)
        assert simulator.finish() == []
        assert "denied" in simulator.requests[2].body["messages"][-1]["content"]
    assert status == 0
    assert (project.root / "ran").read_text() == "x"


def test_an_answer_for_the_task_covers_exactly_the_same_command(tmp_path: Path) -> None:
    with Simulator(commands(COMMAND, COMMAND, [*COMMAND, "more"])) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        terminal = spawn(project, "run", "Go.")
        terminal.expect_exact(PROMPT)
        terminal.sendline("t")
        terminal.expect_exact("more")
        terminal.expect_exact(PROMPT)
        assert (project.root / "ran").read_text() == "xx"
        terminal.sendline("d")
        assert end(terminal)[0] == 0


def test_an_edit_is_asked_for_with_its_diff_where_the_policy_says_so(tmp_path: Path) -> None:
    steps = scripted(call("write_file", {"path": "new.txt", "content": "one\ntwo\n"}), say("Written."))
    with Simulator(steps) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more='[policy]\nedit = "ask"\n')
        terminal = spawn(project, "run", "Go.", env={"NO_COLOR": "1"})
        terminal.expect_exact("+++ b/new.txt")
        terminal.expect_exact("+one")
        terminal.expect_exact("+two")
        terminal.expect_exact(PROMPT)
        terminal.sendline("once")
        assert end(terminal)[0] == 0
    assert (project.root / "new.txt").read_text() == "one\ntwo\n"


def test_a_question_of_the_agent_is_answered(tmp_path: Path) -> None:
    steps = scripted(call("ask_user", {"question": "Which colour?", "choices": ["red", "blue"]}), say("Thanks."))
    with Simulator(steps) as simulator:
        terminal = spawn(make_project(tmp_path / "p", simulator.base_url), "run", "Go.")
        terminal.expect_exact("Which colour?")
        terminal.expect_exact("answer > ")
        terminal.sendline("2")
        assert end(terminal)[0] == 0
        assert "blue" in simulator.requests[1].body["messages"][-1]["content"]


@pytest.mark.parametrize(("key", "status"), [("\x03", 130), ("\x04", 4)])
def test_leaving_a_question_grants_nothing(tmp_path: Path, key: str, status: int) -> None:
    with Simulator(commands(COMMAND)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        terminal = spawn(project, "run", "Go.")
        terminal.expect_exact(PROMPT)
        terminal.send(key)
        assert end(terminal)[0] == status
    assert not (project.root / "ran").exists()


def test_a_dead_question_is_not_answered_by_a_prompt_on_stdin(tmp_path: Path) -> None:
    with Simulator(commands(COMMAND)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        terminal = pexpect.spawn(
            "sh",
            ["-c", f'echo "Go. o" | "{FLUZO}" run -'],
            cwd=str(project.root),
            encoding="utf-8",
            timeout=DEADLINE_SECONDS,
        )
        terminal.expect_exact(PROMPT)
        terminal.sendline("d")
        end(terminal)
    assert not (project.root / "ran").exists()


def test_the_answer_streams_once_and_is_not_repeated(tmp_path: Path) -> None:
    with Simulator(scripted(say("A unique answer."))) as simulator:
        _, seen = end(spawn(make_project(tmp_path / "p", simulator.base_url), "run", "Go."))
    assert seen.count("A unique answer.") == 1
    assert "completed, unverified" in seen


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_an_unstyled_terminal_gets_the_same_words_without_an_escape(tmp_path: Path, env: dict[str, str]) -> None:
    with Simulator(scripted(call("read_file", {"path": "README.md"}), say("A unique answer."))) as simulator:
        _, seen = end(spawn(make_project(tmp_path / "p", simulator.base_url), "run", "Go.", env=env))
    assert "\x1b" not in seen
    assert "README.md" in seen
    assert seen.count("A unique answer.") == 1


def test_json_on_a_terminal_still_asks_on_stderr(tmp_path: Path) -> None:
    with Simulator(commands(COMMAND)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        out = project.root.parent / "out.json"
        terminal = pexpect.spawn(
            "sh",
            ["-c", f'"{FLUZO}" run --output json Go. > "{out}"'],
            cwd=str(project.root),
            encoding="utf-8",
            timeout=DEADLINE_SECONDS,
        )
        terminal.expect_exact(PROMPT)
        terminal.sendline("o")
        assert end(terminal)[0] == 0
    result: dict[str, Any] = json.loads(out.read_text())
    assert result["status"] == "completed"
