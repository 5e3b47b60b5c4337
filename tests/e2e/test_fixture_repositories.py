import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.toolchains import require_cargo

from fluzo.simulator.library import copy_fixture, fixture_path, spec_path, tree_digest

REPAIRS = {
    "rust-interval": ("next.start < last.end", "next.start <= last.end"),
    "python-interval": ("interval.start < merged[-1].end", "interval.start <= merged[-1].end"),
}
NAMES = list(REPAIRS)


@pytest.fixture(params=NAMES)
def spec(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param.startswith("rust"):
        require_cargo()
    return json.loads(spec_path(request.param).read_text())


def run_tests(spec: dict[str, Any], root: Path) -> tuple[int, int, int, str]:
    """Run the specified command; return exit status, failed and passed tests, and what was printed."""
    done = subprocess.run(
        spec["test_command"], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if spec["toolchain"]["program"] == "cargo":
        counts = re.findall(r"(\d+) passed; (\d+) failed", done.stdout)
        passed, failed = (sum(int(count[side]) for count in counts) for side in (0, 1))
    else:
        total = re.search(r"^Ran (\d+) tests", done.stdout, re.MULTILINE)
        failures = re.search(r"^FAILED \(failures=(\d+)\)$", done.stdout, re.MULTILINE)
        assert total
        failed = int(failures[1]) if failures else 0
        passed = int(total[1]) - failed
    return done.returncode, failed, passed, done.stdout


def test_the_fixture_fails_in_one_assertion_and_nowhere_else(spec: dict[str, Any], tmp_path: Path) -> None:
    copy_fixture(spec["name"], tmp_path)

    status, failed, passed, output = run_tests(spec, tmp_path)

    before = spec["before"]
    assert (status, failed, passed) == (before["exit_status"], before["failed"], before["passed"])
    assert before["failing_test"] in output
    assert before["assertion"] in output
    assert tree_digest(tmp_path) == tree_digest(fixture_path(spec["name"]))


def test_one_comparison_repairs_the_fixture(spec: dict[str, Any], tmp_path: Path) -> None:
    copy_fixture(spec["name"], tmp_path)
    old, new = REPAIRS[spec["name"]]
    source = tmp_path / spec["may_change"][0]
    assert source.read_text().count(old) == 1
    source.write_text(source.read_text().replace(old, new))

    status, failed, passed, _ = run_tests(spec, tmp_path)

    after = spec["after"]
    assert (status, failed, passed) == (after["exit_status"], after["failed"], after["passed"])
