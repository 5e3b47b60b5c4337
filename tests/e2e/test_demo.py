import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.project import DEADLINE_SECONDS, FLUZO


def demo(where: Path, *arguments: str, env: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[bytes]":
    temporary = where / "tmp"
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary), **(env or {})}
    return subprocess.run(
        [FLUZO, "demo", *arguments],
        cwd=where,
        env={name: value for name, value in environment.items() if value},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def contents(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_the_demo_repairs_its_repository_and_leaves_nothing_behind(tmp_path: Path, isolation: Path) -> None:
    before = contents(isolation)
    done = demo(tmp_path)
    text = done.stderr.decode()
    assert done.returncode == 0, text
    assert "The model is SCRIPTED" in text
    for said in ("FAILED (failures=1)", "+1 -1", "passed, current", "OK", "<= merged[-1].end", "token figures"):
        assert said in text
    assert b"all 6 pass" in done.stdout
    assert contents(tmp_path) == ["tmp"]
    assert contents(isolation) == before


@pytest.mark.parametrize("env", [{"HOME": ""}, {"HOME": "/nonexistent"}, {"LC_ALL": "C"}, {"GIT_DIR": "/nonexistent"}])
def test_the_demo_needs_nothing_of_the_user(tmp_path: Path, env: dict[str, str]) -> None:
    done = demo(tmp_path, "two-turn", env=env)
    assert done.returncode == 0, done.stderr.decode()
    assert contents(tmp_path) == ["tmp"]


def test_the_demo_says_what_it_can_play(tmp_path: Path) -> None:
    assert b"python-interval  " in demo(tmp_path, "--list").stdout
    listed = json.loads(demo(tmp_path, "--list", "--output", "json").stdout)
    assert {item["name"] for item in listed["demos"]} >= {"python-interval", "rust-interval", "two-turn", "denied"}


def test_a_demo_can_show_how_a_run_is_refused(tmp_path: Path) -> None:
    done = demo(tmp_path, "denied", "--output", "json")
    assert done.returncode == 0, done.stderr.decode()
    result = json.loads(done.stdout)
    assert result["reason"] == "permission_required"
    assert result["demo"]["problems"] == []
    assert result["demo"]["model"] == "scripted"


def test_a_demo_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    done = demo(tmp_path, "nope")
    assert done.returncode == 2
    assert b"[not_found]" in done.stderr


def test_the_demo_can_leave_its_directory_for_a_look(tmp_path: Path) -> None:
    done = demo(tmp_path, "two-turn", "--keep")
    assert done.returncode == 0
    (kept,) = (tmp_path / "tmp").iterdir()
    assert f"kept: {kept.resolve()}" in done.stderr.decode()
    assert (kept / "python-interval" / "interval.py").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--interactive",), "needs a terminal that can move its cursor.  [terminal_required]"),
        (("--interactive", "denied"), "takes no NAME and no --output.  [usage]"),
        (("-i", "--output", "json"), "takes no NAME and no --output.  [usage]"),
    ],
)
def test_the_full_screen_is_refused_where_it_makes_no_sense(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = demo(tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr.decode()
    assert contents(tmp_path) == ["tmp"]
