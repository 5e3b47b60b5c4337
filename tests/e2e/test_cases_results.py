import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.project import DEADLINE_SECONDS, Project, call, make_project, say, scripted, shipped
from support.workspaces import git

from fluzo.simulator.scenario import Scenario
from fluzo.simulator.server import Simulator

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "result.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
EDIT = call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"})
RUN = call("run", {"argv": ["python3", "-c", "pass"]})
READ = call("read_file", {"path": "README.md"})
FAILS = ["python3", "-c", "raise SystemExit(3)"]

OUTCOMES: dict[str, tuple[Scenario, tuple[str, ...], str, tuple[str, str, int]]] = {
    "unverified": (scripted(EDIT, say("done")), (), "", ("completed", "", 0)),
    "verified": (scripted(EDIT, say("done")), ("--verify", "python3 -c pass"), "", ("completed", "", 0)),
    "waived": (scripted(say("done")), ("--no-verify",), "", ("completed", "", 0)),
    "yolo": (scripted(RUN, say("done")), ("--yolo",), "", ("completed", "", 0)),
    "check fails": (
        scripted(say("a"), say("b"), say("c")),
        ("--verify", "python3 -c 'raise SystemExit(3)'"),
        "",
        ("failed", "verification_failed", 1),
    ),
    "permission": (scripted(RUN), (), "", ("blocked", "permission_required", 4)),
    "question": (scripted(call("ask_user", {"question": "?"})), (), "", ("blocked", "input_required", 4)),
    "forbidden": (scripted(RUN), (), '[policy]\nshell = "deny"\n', ("blocked", "permission_denied", 5)),
    "turns": (scripted(READ), (), "[harness]\nmax_turns = 1\n", ("blocked", "budget_exhausted", 6)),
    "401": (shipped("error-401"), (), "", ("blocked", "provider_auth", 8)),
    "empty": (shipped("empty"), (), "", ("blocked", "provider_empty", 8)),
    "hostile": (shipped("hostile-text"), (), "", ("completed", "", 0)),
}


def check(result: dict[str, Any]) -> None:
    problems = [f"{list(error.absolute_path)}: {error.message}" for error in VALIDATOR.iter_errors(result)]
    assert problems == []


FORMS = [(name, "json") for name in OUTCOMES] + [(name, "stream-json") for name in ("verified", "permission", "401")]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_the_result_of_every_outcome_is_what_the_schema_says(tmp_path: Path, name: str, form: str) -> None:
    scenario, arguments, more, expected = OUTCOMES[name]
    with Simulator(scenario) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=more)
        done = project.fluzo("run", *arguments, "--output", form, "Go.")
    lines = [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]
    assert len(lines) == 1 or form == "stream-json"
    result = lines[-1]
    check(result)
    assert (result["status"], result["reason"], done.returncode) == expected
    assert (result["error"] is None) == (expected[2] == 0)
    assert project.json("tasks", "show", "last")["task"]["result"] == result


def test_a_cancelled_task_has_a_whole_result_too(tmp_path: Path) -> None:
    hold = {"respond": {"parts": [{"text": "Thinking"}, {"hold": "open"}]}}
    with Simulator(scripted(EDIT, hold)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        process = project.start("run", "--output", "json", "Go.", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert simulator.wait_until_held("open", DEADLINE_SECONDS)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=DEADLINE_SECONDS)
    result = json.loads(out)
    check(result)
    assert (result["status"], result["reason"], process.returncode) == ("cancelled", "cancelled", 130)
    assert [change["path"] for change in result["changes"]] == ["sheep.py"]


def test_changes_to_the_users_own_work_and_odd_names_fit_the_schema(tmp_path: Path) -> None:
    steps = [
        call("delete_file", {"path": "README.md"}, "c1"),
        call("write_file", {"path": "\u4f60 \u00e9\n.txt", "content": "x\n"}, "c2"),
        call(
            "run",
            {
                "shell": True,
                "script": "git add -A && printf '\\377\\0' > raw.bin && printf x > \"$(printf 'caf\\351')\"",
            },
        ),
        say("done"),
    ]
    with Simulator(scripted(*steps)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        (project.root / "sheep.py").write_text("COUNT = 7\n")
        git(project.root, "rm", "-q", "--cached", "sheep.py")
        result = project.json("run", "--yolo", "Go.")
    check(result)
    assert result["git"]["staged"] is True
    assert {change["status"] for change in result["changes"]} >= {"added", "deleted"}


def test_the_schema_refuses_what_is_no_result() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert not VALIDATOR.is_valid({"type": "result", "schema_version": 1})


def test_the_demo_adds_its_facts_to_the_same_object(tmp_path: Path) -> None:
    result = Project(tmp_path).json("demo", "two-turn")
    facts = result.pop("demo")
    check(result)
    assert facts["model"] == "scripted"
