"""Commands that look like approved ones (case S06): nothing but the exact words was ever approved."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.hosted import start, workspace
from support.interrupted import point_at
from support.project import call, make_project, say, scripted

from fluzo.core.port import AnswerPermission, PendingRequests
from fluzo.host import HostOptions, open_host
from fluzo.simulator.server import Simulator

CASE = json.loads((Path(__file__).resolve().parents[2] / "fixtures/cases/s06-approvals.json").read_text())
APPROVED = tuple(tuple(shlex.split(text)) for text in CASE["approved_prefixes"])
COMMANDS: list[str] = [item["command"] for item in CASE["commands"]]
MORE: list[Mapping[str, Any]] = [
    {"argv": ["git", "status"], "cwd": "sub"},
    {"argv": ["git", "status", ""]},
    {"argv": ["git", "status "]},
    {"argv": ["git status"]},
    {"argv": ["./ls"]},
    {"argv": ["LS"]},
    {"argv": ["/bin/ls"]},
    {"argv": ["env", "ls"]},
    {"argv": ["env", "-S", "ls"]},
    {"argv": ["env", "LD_PRELOAD=./x.so", "ls"]},
    {"argv": ["sh", "-c", "ls"]},
    {"argv": ["nice", "git", "status"]},
    {"argv": ["git", "status", "--", "PWNED"]},
    {"argv": ["ls\u200b"]},
    {"argv": ["1s"]},
    {"shell": True, "script": "ls"},
    {"shell": True, "script": "git status"},
    {"shell": True, "script": " ls"},
]
FILES = {"README.md": "x\n", "sub/README.md": "x\n"}


def variants() -> list[Mapping[str, Any]]:
    """Every command of the case as a script, and as words where it can be split into words, and more besides."""
    found: list[Mapping[str, Any]] = [{"shell": True, "script": text} for text in COMMANDS]
    for text in COMMANDS:
        words = tuple(shlex.split(text))
        if words not in APPROVED:
            found.append({"argv": list(words)})
    return [*found, *MORE]


def tree(*places: Path) -> dict[str, bytes]:
    """Every file that a command could have left or changed; Fluzo's own records and Git's index are not meant."""
    own = (".fluzodrive", ".git", ".fluzo", ".local", ".config")
    files = (path for place in places for path in place.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files if not set(path.parts) & set(own)}


def one_answer(arguments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A step in which the model wants all of these commands."""
    calls = [
        {"tool_call": {"id": f"c{number}", "name": "run", "arguments": dict(wanted)}}
        for number, wanted in enumerate(arguments)
    ]
    return {"respond": {"parts": calls}}


@pytest.fixture
def untouched(tmp_path: Path, isolation: Path) -> Iterator[Path]:
    """A place for a workspace; afterwards neither it nor the home directory holds anything a command made."""
    root = tmp_path / "work"
    workspace(root, "http://127.0.0.1:1/v1", files=FILES)
    before = tree(root, isolation)
    yield root
    assert tree(root, isolation) == before


def test_every_command_that_is_not_exactly_an_approved_one_is_asked_for(untouched: Path) -> None:
    wanted = variants()
    asked = []
    with Simulator(scripted(one_answer(wanted), say("none of them"))) as simulator:
        point_at(untouched, simulator.base_url)
        with open_host(HostOptions(untouched)) as host:
            running = start(host, allow=APPROVED, interactive=True)
            for _ in wanted:
                question = running.pending()
                asked.append(question["scope"].get("script") or question["scope"]["argv"])
                running.tell(
                    AnswerPermission(running.ack.task_id, question["operation_id"], question["fingerprint"], "deny")
                )
            detail = running.finish()
            assert host.port.query(PendingRequests(running.ack.task_id)).result(60).data["pending"] == []
        assert simulator.finish() == []
    assert asked == [item.get("script") or item["argv"] for item in wanted]
    ran = [item for item in detail["operations"] if item["tool"] == "run" and item["state"] != "refused"]
    assert ran == []
    assert len(wanted) > 50


def test_exactly_the_approved_words_run_without_a_question(untouched: Path) -> None:
    approved = [{"argv": list(argv)} for argv in APPROVED if argv[0] in ("git", "ls", "echo")]
    with Simulator(scripted(one_answer(approved), say("done"))) as simulator:
        point_at(untouched, simulator.base_url)
        with open_host(HostOptions(untouched)) as host:
            detail = start(host, allow=APPROVED).finish()
    ran = [item for item in detail["operations"] if item["tool"] == "run"]
    assert [(item["state"], item["authorized_by"]) for item in ran] == [("known_result", "grant")] * len(approved)


@pytest.mark.parametrize("command", [text for text in COMMANDS if "PWNED" in text or "&&" in text][:6])
def test_a_script_gets_nowhere_without_a_person_either(tmp_path: Path, command: str) -> None:
    step = call("run", {"shell": True, "script": command}, "c1")
    allowed = [part for text in CASE["approved_prefixes"] for part in ("--allow", text)]
    with Simulator(scripted(step)) as simulator:
        project = make_project(tmp_path, simulator.base_url, files=FILES)
        before = tree(tmp_path)
        result = project.json("run", *allowed, "do it", status=4)
    assert result["reason"] == "permission_required"
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "command", ["ls $(touch PWNED)", "ls `touch PWNED`", "X=`touch${IFS}PWNED` ls", "ls ; touch PWNED"]
)
def test_what_is_allowed_on_the_command_line_is_words_and_never_a_script(tmp_path: Path, command: str) -> None:
    words = shlex.split(command)
    steps = call("run", {"argv": words}, "c1"), call("run", {"shell": True, "script": command}, "c2")
    with Simulator(scripted(*steps)) as simulator:
        project = make_project(tmp_path, simulator.base_url, files=FILES)
        before = tree(tmp_path)
        result = project.json("run", "--allow", command, "do it", status=4)
    assert [item["scope"]["script"] for item in result["permission_requests"]] == [command]
    assert tree(tmp_path) == before
