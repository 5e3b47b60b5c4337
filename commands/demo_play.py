"""The demo that plays one scenario as `fluzo run` would, and compares what is reported with what really is."""

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluzo.core.errors import WorkspaceError, exit_status
from fluzo.core.port import StartTask
from fluzo.core.redact import printable
from fluzo.host import HostOptions, open_host
from fluzo.simulator.scenario import Demo, Scenario
from fluzo.simulator.server import Simulator

from .demo_repository import make_repository, settings_text
from .follow import Ended, run_task
from .output import emit_json, emit_lines
from .presenter import command_text, summary_lines
from .view import View

_TEST_TIMEOUT_SECONDS = 300


@dataclass(frozen=True, slots=True)
class TestRun:
    """One independent run of the declared checks, outside the runtime: what really is, whatever was reported."""

    passed: bool
    exit_status: int
    last_line: str


def play(base: Path, scenario: Scenario, played: Demo, form: str) -> int:
    """Play the scenario below `base`; the exit status, 1 when it went otherwise than the scenario promises."""
    view = View(sys.stderr)
    with Simulator(scenario) as simulator:
        root = base / played.fixture
        settings = settings_text(played.fixture, scenario.model, simulator.base_url, played.verify)
        make_repository(root, played.fixture, settings)
        view.plain(_opening_lines(scenario, root))
        before = _run_checks(root, played, view, "before")
        with open_host(HostOptions(root)) as host:
            command = StartTask(secrets.token_hex(16), scenario.prompt)
            ended = run_task(host.port, command, view, terminal=None, streams=form == "stream-json")
        after = _run_checks(root, played, view, "after")
        problems = [*simulator.finish(), *_surprises(ended.result, played, after)]
    view.details(_diff_lines(ended.result))
    view.plain(summary_lines(ended.result)[:-1])
    view.plain(["the model was scripted, and so are its token figures"])
    view.plain(f"problem: {problem}" for problem in problems)
    _write(ended, form, _facts(scenario, before, after, problems))
    if ended.result["reason"] == "cancelled":
        return exit_status("cancelled")
    return 1 if problems else 0


def _opening_lines(scenario: Scenario, root: Path) -> list[str]:
    return [
        f"demo {scenario.name}: {scenario.title}",
        "The model is SCRIPTED: a recorded conversation stands in for it. The runtime is real: it asks policy,",
        "writes its journal, runs the commands and edits the files of a copy that nobody else uses.",
        f"copy    {root}",
        f"asked   {scenario.prompt}",
    ]


def _run_checks(root: Path, played: Demo, view: View, when: str) -> list[TestRun]:
    """Run the declared checks apart from the runtime, so that its report can be compared with what is."""
    runs = []
    for argv in played.verify:
        done = _run_check(root, argv)
        runs.append(done)
        view.plain([f"{when:<6}  {command_text(argv)}: exit {done.exit_status}, {done.last_line}"])
    return runs


def _run_check(root: Path, argv: Sequence[str]) -> TestRun:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "CARGO_TERM_COLOR": "never"}
    try:
        done = subprocess.run(
            argv,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TEST_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError as exc:
        raise WorkspaceError(
            f"{argv[0]} is not installed, and this demo needs it.",
            code="workspace_unusable",
            hint="Install it, or play another one: fluzo demo --list",
        ) from exc
    lines = done.stdout.decode("utf-8", "backslashreplace").strip().split("\n")
    # Cargo ends with a result for each test binary, most of them empty.
    telling = [
        line for line in lines if line.startswith(("test result:", "FAILED", "OK")) and " 0 passed; 0" not in line
    ]
    return TestRun(done.returncode == 0, done.returncode, printable((telling or lines)[-1], keep_newlines=False))


def _surprises(result: Mapping[str, Any], played: Demo, after: Sequence[TestRun]) -> list[str]:
    """What is not as the scenario promises: a demo that went wrong must not look like one that went well."""
    found = []
    if result["reason"] != played.reason:
        error = result.get("error") or {}
        found.append(
            f"the task ended with {result['reason'] or 'completed'!r}, not {played.reason or 'completed'!r}: "
            f"{error.get('message', '')}"
        )
    if not played.reason and not all(run.passed for run in after):
        found.append("the checks do not pass when they are run apart from the runtime")
    git = result.get("git") or {}
    if git.get("staged") or git.get("committed"):
        found.append("the Git index or head was changed")
    return found


def _diff_lines(result: Mapping[str, Any]) -> list[str]:
    diff = printable(str(result.get("diff") or "")).rstrip("\n")
    return diff.split("\n") if diff else []


def _facts(
    scenario: Scenario, before: Sequence[TestRun], after: Sequence[TestRun], problems: Sequence[str]
) -> dict[str, object]:
    return {
        "scenario": scenario.name,
        "model": "scripted",
        "before": [{"passed": run.passed, "exit_status": run.exit_status} for run in before],
        "after": [{"passed": run.passed, "exit_status": run.exit_status} for run in after],
        "problems": list(problems),
    }


def _write(ended: Ended, form: str, facts: Mapping[str, object]) -> None:
    if form != "text":
        emit_json({**ended.result, "demo": facts})
    elif message := printable(str(ended.result.get("message") or "")).rstrip("\n"):
        emit_lines([message])
