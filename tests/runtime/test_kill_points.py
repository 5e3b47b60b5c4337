"""kill -9 before and after every write to the store: what may have happened is on record, and never happens twice."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import evidence
from support.hosted import workspace
from support.interrupted import COMMAND, EDIT, RUN, point_at, second_part
from support.kill_child import Ended, Nursery
from support.project import say, scripted

from fluzo.simulator.scenario import Scenario
from fluzo.simulator.server import Simulator

SECRET = "kept-in-the-environment-4711"
AUTH = 'auth = "env"\napi_key_env = "MY_KEY"\n'
LEAST_WRITES = 16
"""A run makes more writes than that; fewer would mean that the sweep ended early."""


@pytest.fixture
def nursery(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nursery]:
    monkeypatch.setenv("MY_KEY", SECRET)
    with Nursery() as made:
        yield made


def first_run() -> Scenario:
    return scripted(EDIT, RUN, say(f"done, and the key is {SECRET}"))


def assert_invariants(root: Path, ended: Ended, requests: int) -> None:
    evidence.assert_sound(root, requests, ended.acknowledged)
    evidence.assert_nowhere(SECRET, [root / ".fluzodrive"])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_is_killed_at_any_write_goes_on_without_doing_anything_twice(
    tmp_path: Path, nursery: Nursery, when: str
) -> None:
    number, killed, unknown_seen = 1, True, set()
    while killed:
        root = tmp_path / str(number)
        with Simulator(first_run()) as simulator:
            workspace(root, simulator.base_url, more=AUTH)
            ended = nursery.order(root, fail_at=number, when=when, allow=[COMMAND])
            killed = ended.killed
            assert killed or ended.status == 0, ended.err
            assert_invariants(root, ended, len(simulator.requests))
        assert evidence.ran(root) <= 1
        if killed:
            unknown_seen |= assert_resumed(root, nursery)
        number += 1
    assert number > LEAST_WRITES
    assert unknown_seen >= {"model", "run", "edit_file"}, "every kind of effect was cut off somewhere"


def assert_resumed(root: Path, nursery: Nursery) -> set[str]:
    """Resume as a script does, and see that only what is certainly not done, or was allowed anew, is done."""
    before = evidence.ran(root)
    with Simulator(second_part()) as simulator:
        point_at(root, simulator.base_url, AUTH)
        allow = "sh -c 'echo run >> ran'"
        resumed = nursery.order(root, argv=["sessions", "resume", "last", "--yes", "--allow", allow])
        assert_invariants(root, resumed, len(simulator.requests))
    operations = evidence.operations(root / ".fluzodrive")
    unknown = [item for item in operations if item["state"] == "unknown"]
    if resumed.status == 2:
        assert "not_found" in resumed.err
        tasks = evidence.rows(root / ".fluzodrive", "SELECT * FROM tasks")
        assert [task["state"] for task in tasks] in ([], ["completed"]), "there was nothing to go on with"
        assert not simulator.requests and evidence.ran(root) == before
        return set()
    for item in unknown:
        assert f"UNKNOWN {item['tool']}" in resumed.err, resumed.err
    assert_told_as_it_is(root, unknown, resumed.err)
    if any(item["tool"] == "run" for item in unknown):
        assert resumed.status == 4 and "permission_required" in resumed.err
        assert evidence.ran(root) == before <= 1, "a grant for the command does not cover doing it a second time"
    else:
        assert resumed.status == 0, resumed.err
        assert evidence.ran(root) == before + 1
    attempts = evidence.rows(root / ".fluzodrive", "SELECT * FROM attempts ORDER BY number")
    assert len({attempt["trace_id"] for attempt in attempts}) == len(attempts) >= 2
    for old, new in itertools.pairwise(attempts):
        assert (old["state"], new["previous_id"]) == ("interrupted", old["id"])
    return {str(item["tool"]) for item in unknown}


def test_a_resume_that_is_killed_too_is_resumed_again_and_the_unknown_stays_unknown(
    tmp_path: Path, nursery: Nursery
) -> None:
    at_outcome = call_before_the_outcome_of_the_command(tmp_path / "whole", nursery)
    for number in range(1, 8):
        root = tmp_path / str(number)
        with Simulator(first_run()) as simulator:
            workspace(root, simulator.base_url, more=AUTH)
            assert nursery.order(root, fail_at=at_outcome, when="before", allow=[COMMAND]).killed
        with Simulator(second_part()) as simulator:
            point_at(root, simulator.base_url, AUTH)
            again = nursery.order(root, argv=["sessions", "resume", "last", "--yes"], fail_at=number, when="after")
            assert again.killed, again.err
            assert_invariants(root, again, len(simulator.requests))
        assert assert_resumed(root, nursery) >= {"run"}


def call_before_the_outcome_of_the_command(root: Path, nursery: Nursery) -> int:
    with Simulator(first_run()) as simulator:
        workspace(root, simulator.base_url, more=AUTH)
        whole = nursery.order(root, allow=[COMMAND])
    outcomes = [number for number, name in enumerate(whole.calls, 1) if name == "commit_outcome"]
    return outcomes[3]  # Two answers of the model, the edit between them, then the command.


def assert_told_as_it_is(root: Path, unknown: list[dict[str, Any]], told: str) -> None:
    if any(item["tool"] == "edit_file" for item in unknown):
        done, undone = "the file now is what it was meant to become", "the file is as it was before"
        expected = done if evidence.edited(root) else undone
        assert expected in told
