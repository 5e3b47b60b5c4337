"""`fluzo demo`: the real runtime at work on a disposable repository, with a scripted model in place of a server.

Everything lives in one temporary directory: repository, home, settings, consent, history. The user's own are neither
read nor written, no network is used, and at the end the directory is gone.
"""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fluzo import setup_services as setup
from fluzo.core.errors import UsageError, WorkspaceError, exit_status
from fluzo.core.paths import SETTINGS_NAME
from fluzo.core.port import StartTask
from fluzo.core.redact import printable
from fluzo.core.settings import render
from fluzo.host import HostOptions, open_host
from fluzo.simulator import library
from fluzo.simulator.scenario import Demo, Scenario, load_scenario
from fluzo.simulator.server import Simulator

from .follow import Ended, run_task
from .output import OutputOption, check_form, emit_json, emit_lines, table
from .presenter import command_text, summary_lines
from .view import View

DEFAULT = "python-interval"
_TEST_TIMEOUT_SECONDS = 300
_EPILOG = """\b
Examples:
  fluzo demo
  fluzo demo --list
  fluzo demo denied
"""
_REMOVED_PREFIXES = ("GIT_", "XDG_", "FLUZO_")
_REMOVED_SUFFIXES = ("_PROXY", "_API_KEY", "_TOKEN", "_SECRET")
_TOOLCHAIN_HOMES = {"RUSTUP_HOME": ".rustup", "CARGO_HOME": ".cargo"}
_GIT_CONFIG = "[user]\n\tname = Fluzo demo\n\temail = demo@example.invalid\n[init]\n\tdefaultBranch = main\n"

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class TestRun:
    """One independent run of the declared checks, outside the runtime: what really is, whatever was reported."""

    passed: bool
    exit_status: int
    last_line: str


@app.command(epilog=_EPILOG)
def demo(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to play; see --list.")] = DEFAULT,
    *,
    list_all: Annotated[bool, typer.Option("--list", help="Show what can be played.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the temporary directory behind and say where.")] = False,
    output: OutputOption = "text",
) -> int:
    """Watch the real runtime repair a small repository. The model is scripted; nothing of yours is touched."""
    form = check_form(output, streams=True)
    if list_all:
        _list(form)
        return 0
    scenario, played = find(name)
    with _directory(keep=keep) as base, _isolated(base):
        return _play(base, scenario, played, form)


def find(name: str) -> tuple[Scenario, Demo]:
    """The scenario of that name, which must be one for demonstrations. Raises UsageError `not_found`."""
    found = {scenario.name: scenario for scenario in playable()}
    scenario = found.get(name)
    if scenario is None or scenario.demo is None:
        shown = printable(name, keep_newlines=False)
        raise UsageError(f"There is no demo called {shown!r}.", code="not_found", hint="See: fluzo demo --list")
    return scenario, scenario.demo


def playable() -> list[Scenario]:
    """Every scenario that can be shown to a person."""
    scenarios = [load_scenario(library.scenario_path(name)) for name in library.scenario_names()]
    return [scenario for scenario in scenarios if scenario.demo is not None]


def _list(form: str) -> None:
    if form == "text":
        emit_lines(table([(scenario.name, scenario.title) for scenario in playable()]))
        return
    demos = [{"name": scenario.name, "title": scenario.title} for scenario in playable()]
    emit_json({"schema_version": 1, "type": "demos", "demos": demos})


# --- the stage --------------------------------------------------------------------------------------------------


@contextmanager
def _directory(*, keep: bool) -> Iterator[Path]:
    try:
        base = Path(tempfile.mkdtemp(prefix="fluzo-demo-")).resolve()
    except OSError as exc:
        raise WorkspaceError(
            f"No temporary directory can be made: {exc.strerror or exc}.",
            code="workspace_unusable",
            hint="Make room, or set TMPDIR to a directory that can be written.",
        ) from exc
    try:
        yield base
    finally:
        if keep:
            print(f"kept: {base}", file=sys.stderr)
        else:
            shutil.rmtree(base)


@contextmanager
def _staging() -> Iterator[None]:
    """Say of a failed write that the stage could not be built, which is no fault of the program."""
    try:
        yield
    except OSError as exc:
        raise WorkspaceError(
            f"The demo could not be prepared in {tempfile.gettempdir()}: {exc.strerror or exc}.",
            code="workspace_unusable",
            hint="Make room there, or set TMPDIR to another directory.",
        ) from exc


@contextmanager
def _isolated(base: Path) -> Iterator[None]:
    """Give this process an environment of its own below `base`: no settings, identities or keys of the user."""
    before = dict(os.environ)
    home = base / "home"
    with _staging():
        home.mkdir(mode=0o700)
        (home / ".gitconfig").write_text(_GIT_CONFIG, encoding="utf-8")
        own = _environment(base, home, before)
    try:
        for name in before:
            if name.upper().startswith(_REMOVED_PREFIXES) or name.upper().endswith(_REMOVED_SUFFIXES):
                del os.environ[name]
        os.environ.update(own)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _environment(base: Path, home: Path, before: Mapping[str, str]) -> dict[str, str]:
    folders = {"CONFIG": ".config", "STATE": ".local/state", "DATA": ".local/share", "CACHE": ".cache"}
    own = {f"XDG_{name}_HOME": str(home / folder) for name, folder in folders.items()}
    own |= {"HOME": str(home), "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"), "GIT_CONFIG_NOSYSTEM": "1"}
    for name, folder in _TOOLCHAIN_HOMES.items():
        # A toolchain that is found through the user's home directory must be found from here too.
        path = Path(before.get("HOME", "/"), folder)
        if name not in before and path.is_dir():
            own[name] = str(path)
    if sys.executable and not getattr(sys, "frozen", False):
        # The scripted commands say python3; that is the Python that runs this, whatever PATH has.
        (base / "bin").mkdir()
        (base / "bin" / "python3").symlink_to(sys.executable)
        own["PATH"] = os.pathsep.join((str(base / "bin"), before.get("PATH", os.defpath)))
    return own


def _repository(base: Path, scenario: Scenario, played: Demo, base_url: str) -> Path:
    """A committed copy of the fixture, set up for the simulator, with the consent that a user would give."""
    root = base / played.fixture
    with _staging():
        library.copy_fixture(played.fixture, root)
        (root / SETTINGS_NAME).write_text(_settings_text(scenario, played, base_url), encoding="utf-8")
    for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "Begin")):
        _git(root, *arguments)
    setup.add_exclude(root)
    settings = setup.load_settings(root / SETTINGS_NAME).settings
    setup.record_consent(settings, root)
    return root


def _settings_text(scenario: Scenario, played: Demo, base_url: str) -> str:
    toolchain = [name for name in _TOOLCHAIN_HOMES if name in os.environ]
    return f"""\
schema_version = 1

[project]
name = {render(played.fixture)}

[agent]
model = "scripted"

[models.scripted]
provider = "openai_compatible"
base_url = {render(base_url)}
model = {render(scenario.model)}

[tools.shell]
inherit_env = {render(toolchain)}

[verification]
commands = {render([list(command) for command in played.verify])}
"""


def _git(root: Path, *arguments: str) -> None:
    try:
        subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True)
    except FileNotFoundError as exc:
        raise WorkspaceError(
            "Git is not installed, or not in PATH.",
            code="workspace_unusable",
            hint="Install Git 2.30 or newer, for example: apt install git",
        ) from exc
    except subprocess.CalledProcessError as exc:
        words = exc.stderr.decode("utf-8", "backslashreplace").strip().split("\n")[-1]
        raise WorkspaceError(
            f"The demo could not be prepared: git {arguments[0]} failed: {words}.",
            code="workspace_unusable",
            hint="Check that Git works and that the temporary directory has room.",
        ) from exc


# --- the play ---------------------------------------------------------------------------------------------------


def _play(base: Path, scenario: Scenario, played: Demo, form: str) -> int:
    view = View(sys.stderr)
    with Simulator(scenario) as simulator:
        root = _repository(base, scenario, played, simulator.base_url)
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
