import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.project import Project, call, make_project, say, scripted

from fluzo.simulator.server import Simulator


@pytest.fixture
def done(tmp_path: Path) -> tuple[Project, list[dict[str, Any]]]:
    """A workspace in which three tasks have ended, whose server is gone."""
    steps = [
        call("read_file", {"path": "README.md"}),
        say("It counts sheep."),
        call("write_file", {"path": "new.txt", "content": "x\n"}, "call_2"),
        say("Written."),
        call("run", {"argv": ["make", "deploy"]}, "call_3"),
    ]
    with Simulator(scripted(*steps)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        first = project.json("run", "What is this?")
        second = project.json("run", "--session", "last", "Write a file.")
        third = project.json("run", "Deploy.", status=4)
    return project, [first, second, third]


def test_tasks_are_listed_newest_first_and_page_by_page(done: tuple[Project, list[dict[str, Any]]]) -> None:
    project, results = done
    ids = [result["task_id"] for result in results]
    assert [task["id"] for task in project.json("tasks", "list")["tasks"]] == ids[::-1]
    page = project.json("tasks", "list", "--limit", "2")["tasks"]
    assert [task["id"] for task in page] == [ids[2], ids[1]]
    rest = project.json("tasks", "list", "--before", ids[1][:-1])["tasks"]
    assert [task["id"] for task in rest] == [ids[0]]
    text = project.fluzo("tasks", "list", "--limit", "2").stdout.decode()
    assert "blocked [permission_required]" in text
    assert f"older ones: fluzo tasks list --before {ids[1]}" in text


def test_a_task_is_shown_in_full(done: tuple[Project, list[dict[str, Any]]]) -> None:
    project, results = done
    detail = project.json("tasks", "show", results[1]["task_id"])
    assert detail["task"]["result"] == results[1]
    assert [item["tool"] for item in detail["operations"]] == ["model", "write_file", "model"]
    text = project.fluzo("task", "show", results[1]["task_id"]).stdout.decode()
    for said in (
        "Write a file.",
        "✓ write   new.txt",
        "by policy",
        "+x",
        "Written.",
        results[1]["trace_id"],
        "fluzo replay",
    ):
        assert said in text


def test_a_replay_tells_the_story_in_order_without_a_server(done: tuple[Project, list[dict[str, Any]]]) -> None:
    project, results = done
    text = project.fluzo("replay", results[2]["task_id"]).stdout.decode()
    order = ["asked: Deploy.", "attempt 1 began", "requested run make deploy", "permission_required", "attempt blocked"]
    places = [text.index(said) for said in order]
    assert places == sorted(places)
    assert project.fluzo("replay", results[2]["task_id"]).stdout.decode() == text
    stream = project.fluzo("replay", "last", "--output", "stream-json").stdout.split(b"\n")[:-1]
    events = [json.loads(line) for line in stream]
    assert {event["task_id"] for event in events} == {results[2]["task_id"]}
    assert project.json("replay", "last")["events"] == events
    page = project.json("replay", "last", "--after", str(events[1]["seq"]), "--limit", "2")["events"]
    assert page == events[2:4]


def test_a_conversation_is_read_with_all_its_tasks(done: tuple[Project, list[dict[str, Any]]]) -> None:
    project, results = done
    assert len(project.json("sessions", "list")["sessions"]) == 2
    detail = project.json("sessions", "open", results[0]["session_id"])
    texts = [message["text"] for message in detail["messages"]]
    assert any("What is this?" in text for text in texts)
    assert any("Write a file." in text for text in texts)
    assert [message["role"] for message in detail["messages"]].count("assistant") == 4
    text = project.fluzo("session", "open", results[0]["session_id"][:-2]).stdout.decode()
    assert "It counts sheep." in text
    assert "fluzo run --session" in text
    last = project.json("sessions", "open", results[0]["session_id"], "--limit", "2")["messages"]
    assert last == detail["messages"][-2:]
    before = str(last[0]["position"])
    earlier = project.json("sessions", "open", results[0]["session_id"], "--limit", "2", "--before", before)
    assert earlier["messages"] == detail["messages"][-4:-2]


def test_the_history_says_what_is_kept_and_how_large_it_is(done: tuple[Project, list[dict[str, Any]]]) -> None:
    project, _ = done
    history = project.json("history", "list")
    assert len(history["sessions"]) == 2
    assert history["usage"]["tasks"] == 3
    assert history["usage"]["database_bytes"] > 0
    assert "KiB" in project.fluzo("history", "list").stdout.decode()


@pytest.mark.parametrize("command", [("tasks", "show", "t_nope"), ("sessions", "open", "s_nope"), ("replay", "t_nope")])
def test_what_is_not_there_is_not_found(done: tuple[Project, list[dict[str, Any]]], command: tuple[str, ...]) -> None:
    project, _ = done
    assert project.json(*command, status=2)["error"]["code"] == "not_found"


def test_an_ambiguous_beginning_is_told_to_be_one(done: tuple[Project, list[dict[str, Any]]]) -> None:
    project, _ = done
    answer = project.json("tasks", "show", "t_", status=2)
    assert answer["error"]["code"] == "not_found"
    assert "beginning of" in answer["error"]["message"]


def test_looking_into_a_fresh_repository_finds_nothing_and_creates_nothing(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    project = Project(tmp_path)
    assert project.json("tasks", "list")["tasks"] == []
    assert project.json("sessions", "list")["sessions"] == []
    assert project.json("history", "list")["sessions"] == []
    assert project.json("tasks", "show", "last", status=2)["error"]["code"] == "not_found"
    assert project.json("doctor", status=1)["ok"] is False
    assert [path.name for path in tmp_path.iterdir()] == [".git"]


def test_the_doctor_passes_a_workspace_that_is_ready(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", "http://127.0.0.1:9/v1", verify=[["true"]])
    answer = project.json("doctor")
    assert answer["ok"] is True
    assert {check["name"] for check in answer["checks"]} >= {"python", "git", "confinement", "model", "consent"}
    project.fluzo("config", "trust", "--revoke", "--yes")
    answer = project.json("doctor", status=1)
    assert [check["code"] for check in answer["checks"] if check["status"] == "fail"] == ["consent_required"]


def test_the_doctor_contacts_the_server_only_when_it_is_told_to(tmp_path: Path) -> None:
    with Simulator(scripted({**say("x"), "optional": True}, models=["scripted"])) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        project.json("doctor")
        assert simulator.requests == []


@pytest.mark.parametrize(
    ("group", "looks"),
    [("tasks", "list"), ("task", "list"), ("sessions", "list"), ("history", "list"), ("config", "show")],
)
def test_a_group_that_is_told_nothing_more_looks(
    done: tuple[Project, list[dict[str, Any]]], group: str, looks: str
) -> None:
    project, _ = done
    alone, named = project.fluzo(group), project.fluzo(group, looks)
    assert alone.returncode == 0, alone.stderr.decode()
    assert alone.stdout == named.stdout != b""
    assert json.loads(project.fluzo(group, "-o", "json").stdout) == project.json(group, looks)
    helped = project.fluzo(group, "--help").stdout.decode()
    assert f"fluzo {group} [COMMAND]" in helped
    assert f"Without a command: {looks}." in helped


def test_a_wrong_subcommand_or_option_of_a_group_is_refused(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", "http://127.0.0.1:9/v1")
    for arguments, told in ((("tasks", "lst"), "list"), (("sessions", "--bogus"), "--bogus")):
        refused = project.fluzo(*arguments)
        assert refused.returncode == 2
        assert b"[usage]" in refused.stderr and told.encode() in refused.stderr
        assert refused.stdout == b""
