"""PRD 45.1: the failing test of a fixture repository is reproduced, repaired and verified through the HTTP boundary."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.project import Project, configure, copy_of_fixture, shipped
from support.toolchains import require_cargo
from support.workspaces import git

from fluzo.simulator import library
from fluzo.simulator.server import Simulator

MAX_FIRST_REQUEST_BYTES = 6 * 1024


@pytest.fixture(params=["python-interval", "rust-interval"])
def spec(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param.startswith("rust"):
        require_cargo()
    value: dict[str, Any] = json.loads(library.spec_path(request.param).read_text())
    return value


def suite(spec: dict[str, Any], root: Path) -> "subprocess.CompletedProcess[bytes]":
    """The test suite, run by the test and not by the runtime."""
    return subprocess.run(spec["test_command"], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def limits(spec: dict[str, Any]) -> list[str]:
    return [word for name, value in spec["budgets"].items() for word in ("--set", f"harness.{name}={value}")]


def play(root: Path, spec: dict[str, Any]) -> tuple[Project, dict[str, Any], Simulator]:
    copy_of_fixture(root, spec["fixture"]["path"])
    toolchain = json.dumps([name for name in ("RUSTUP_HOME", "CARGO_HOME") if name in os.environ])
    with Simulator(shipped(spec["name"])) as simulator:
        project = configure(
            root,
            simulator.base_url,
            verify=spec["permissions"]["verification"],
            more=f"[tools.shell]\ninherit_env = {toolchain}\n",
        )
        done = project.fluzo(*limits(spec), "run", "--output", "json", spec["prompt"])
        assert simulator.finish() == []
    assert done.returncode == 0, done.stderr.decode()
    return project, json.loads(done.stdout), simulator


def test_a_failing_test_is_reproduced_repaired_and_verified(spec: dict[str, Any], tmp_path: Path) -> None:
    root = tmp_path / "copy"
    project, result, simulator = play(root, spec)

    reproduced = simulator.requests[1].body["messages"][-1]["content"]
    assert spec["before"]["failing_test"] in reproduced
    assert spec["before"]["assertion"] in reproduced
    assert f"exit {spec['before']['exit_status']}" in reproduced

    assert (result["status"], result["reason"]) == ("completed", "")
    assert result["verification"]["verdict"] == "passed"
    assert result["verification"]["current"] is True
    assert [change["path"] for change in result["changes"]] == spec["may_change"]
    assert (result["changes"][0]["added"], result["changes"][0]["removed"]) == (1, 1)

    assert suite(spec, root).returncode == spec["after"]["exit_status"]
    original = library.fixture_path(spec["fixture"]["path"])
    for name in spec["must_not_change"]:
        assert (root / name).read_bytes() == (original / name).read_bytes(), name
    changed = git(root, "status", "--porcelain", "--untracked-files=all").decode().split("\n")[:-1]
    assert changed == [f" M {name}" for name in spec["may_change"]]
    assert git(root, "rev-list", "--count", "--all").strip() == b"1"
    assert project.json("tasks", "show", "last")["task"]["result"] == result


def test_the_order_of_the_record_is_failure_edit_success(spec: dict[str, Any], tmp_path: Path) -> None:
    project, result, _ = play(tmp_path / "copy", spec)
    events = project.json("replay", result["task_id"])["events"]
    ended = [
        (event["data"]["summary"], event["data"]["ok"])
        for event in events
        if event["type"] == "OperationEnded" and "finish" not in event["data"]["result"]
    ]
    command = " ".join(spec["test_command"])
    (path,) = spec["may_change"]
    assert ended == [(command, False), (path, True), (f"{path}  +1 -1", True), (command, True), (command, True)]
    assert {event["trace_id"] for event in events} == {result["trace_id"]}
    sequence = [event["seq"] for event in events]
    assert sequence == sorted(set(sequence))
    intended = {event["operation_id"] for event in events if event["type"] == "OperationIntended"}
    assert {event["operation_id"] for event in events if event["type"] == "OperationEnded"} == intended


def test_requests_of_a_task_only_grow(spec: dict[str, Any], tmp_path: Path) -> None:
    _, _, simulator = play(tmp_path / "copy", spec)
    raws = [request.raw for request in simulator.requests]
    for request, earlier, later in zip(simulator.requests, raws, raws[1:], strict=False):
        last = json.dumps(request.body["messages"][-1]["content"], ensure_ascii=False).encode()
        end = earlier.rindex(last) + len(last)
        assert later[:end] == earlier[:end]


def test_the_first_request_is_lean(tmp_path: Path) -> None:
    copy_of_fixture(tmp_path / "copy", "python-interval")
    (tmp_path / "copy" / "AGENTS.md").unlink()
    git(tmp_path / "copy", "commit", "-qam", "No instructions")
    with Simulator(shipped("two-turn")) as simulator:
        project = configure(tmp_path / "copy", simulator.base_url)
        assert project.fluzo("run", "?").returncode == 0
    assert len(simulator.requests[0].raw) <= MAX_FIRST_REQUEST_BYTES
