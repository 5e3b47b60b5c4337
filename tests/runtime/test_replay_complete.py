"""Replay and the stream of a run account for every committed event, in order, and show what is missing."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import evidence
from support.project import Project, call, make_project, say, scripted

from fluzo.simulator.scenario import Scenario
from fluzo.simulator.server import Simulator

EDIT = call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"}, "e1")
RUN = call("run", {"argv": ["touch", "made"]}, "c1")


def recorded(project: Project, task_id: str) -> list[dict[str, Any]]:
    return evidence.events(project.root / ".fluzodrive", task_id)


def as_told(record: dict[str, Any]) -> dict[str, Any]:
    """A row of the table in the form that an event has outside."""
    names = ("session_id", "task_id", "attempt_id", "operation_id", "trace_id", "causation_id")
    scope = {name: record[name] for name in names if record[name]}
    return {**{name: record[name] for name in ("seq", "type", "schema_version", "at", "data")}, **scope}


def stream(done: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.split(b"\n")[:-1]]


def without_id(told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in record.items() if key != "id"} for record in told]


def mixed() -> Scenario:
    """Two tasks in turn, the first of them in two attempts: edits, a refusal, a resume and checks."""
    return scripted(EDIT, RUN, say("another task"), {**RUN, "expect": {}}, say("done"))


@pytest.fixture
def story(tmp_path: Path) -> tuple[Project, str, list[dict[str, Any]]]:
    """The project, the id of the task that was resumed, and what its two runs streamed."""
    with Simulator(mixed()) as simulator:
        project = make_project(tmp_path, simulator.base_url, verify=[["test", "-e", "README.md"]])
        first = project.fluzo("run", "--output", "stream-json", "first")
        task_id = stream(first.stdout)[-1]["task_id"]
        assert project.fluzo("run", "second").returncode == 0
        second = project.fluzo(
            *("sessions", "resume", stream(first.stdout)[-1]["session_id"], "--yes"),
            *("--allow", "touch made", "--extend", "max_turns=40", "--output", "stream-json"),
        )
        assert second.returncode == 0, second.stderr.decode()
        assert simulator.finish() == []
    return project, task_id, stream(first.stdout) + stream(second.stdout)


def test_the_streams_of_its_runs_hold_every_event_of_a_task_once_and_in_order(
    story: tuple[Project, str, list[dict[str, Any]]],
) -> None:
    project, task_id, streamed = story
    told = [record for record in streamed if "seq" in record]
    assert without_id(told) == [as_told(record) for record in recorded(project, task_id)]


def test_a_replay_holds_every_event_once_and_in_order_in_every_form(
    story: tuple[Project, str, list[dict[str, Any]]],
) -> None:
    project, task_id, _ = story
    wanted = [as_told(record) for record in recorded(project, task_id)]
    whole = project.json("replay", task_id)
    assert without_id(whole["events"]) == wanted
    assert whole["gaps"] == []
    assert without_id(stream(project.fluzo("replay", task_id, "--output", "stream-json").stdout)) == wanted
    paged, after = [], 0
    while page := project.json("replay", task_id, "--after", str(after), "--limit", "7")["events"]:
        paged += page
        after = page[-1]["seq"]
    assert paged == whole["events"]


def test_what_another_task_did_in_between_is_no_gap(story: tuple[Project, str, list[dict[str, Any]]]) -> None:
    project, task_id, _ = story
    numbers = [record["seq"] for record in recorded(project, task_id)]
    assert numbers != list(range(numbers[0], numbers[0] + len(numbers))), "another task was in between"
    assert project.json("replay", task_id)["gaps"] == []


def delete(project: Project, *numbers: int) -> None:
    connection = sqlite3.connect(project.root / ".fluzodrive" / "state.sqlite3", isolation_level=None)
    connection.executemany("DELETE FROM events WHERE seq = ?", [(number,) for number in numbers])
    connection.close()


def test_deleted_events_are_shown_as_a_gap_where_they_were(story: tuple[Project, str, list[dict[str, Any]]]) -> None:
    project, task_id, _ = story
    numbers = [record["seq"] for record in recorded(project, task_id)]
    lost = numbers[5:8] + numbers[12:13]
    delete(project, *lost)
    whole = project.json("replay", task_id)
    assert [(gap["first"], gap["last"], gap["missing"]) for gap in whole["gaps"]] == [
        (lost[0], lost[2], 3),
        (lost[3], lost[3], 1),
    ]
    told = stream(project.fluzo("replay", task_id, "--output", "stream-json").stdout)
    assert [record["type"] for record in told].index("gap") == 5
    assert [record["seq"] for record in told if "seq" in record] == [n for n in numbers if n not in lost]
    words = project.fluzo("replay", task_id).stdout.decode()
    assert f"events {lost[0]} to {lost[2]} are not in the store" in words


def test_a_lost_beginning_and_a_lost_end_are_said(story: tuple[Project, str, list[dict[str, Any]]]) -> None:
    project, task_id, _ = story
    events = recorded(project, task_id)
    created = [record["seq"] for record in events if record["type"] == "TaskCreated"]
    ended = [record["seq"] for record in events if record["type"] == "AttemptEnded"][-1:]
    delete(project, *created, *ended)
    texts = " ".join(gap["text"] for gap in project.json("replay", task_id)["gaps"])
    assert "the beginning of the task is not in the store" in texts
    assert "no end of attempt" in texts


def test_the_replay_itself_contacts_nobody_and_changes_nothing(
    story: tuple[Project, str, list[dict[str, Any]]],
) -> None:
    project, task_id, _ = story  # The server is gone by now.
    before = evidence.events(project.root / ".fluzodrive")
    assert project.fluzo("replay", task_id).returncode == 0
    assert evidence.events(project.root / ".fluzodrive") == before
