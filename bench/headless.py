"""The rows of a headless run: two turns with the simulator in this process, in a repository used before."""

import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from measure import WARM_UP, Row, Setting, interleave

from fluzo.core.settings import render
from fluzo.simulator.library import scenario_path
from fluzo.simulator.scenario import Scenario, load_scenario
from fluzo.simulator.server import RecordedRequest, Simulator

IMPORTS = "import httpx, pydantic, peewee"


def run(setting: Setting) -> Row:
    whole, _, reference = _measure(setting)
    return Row("headless run, two turns", f'python -c "{IMPORTS}"', 2.2, whole, reference)


def last_answer_to_exit(setting: Setting) -> Row:
    """What a run still does when it has the whole last answer, as a share of that run."""
    whole, rest, _ = _measure(setting)
    return Row("last answer to exit", "the whole run", 0.1, rest, whole)


class TimedSimulator(Simulator):
    """Knows when the last byte of its last answer was handed to the socket."""

    last_byte_at = 0.0

    def answered(self, request: RecordedRequest, outcome: str) -> None:
        self.last_byte_at = time.perf_counter()
        super().answered(request, outcome)


def _measure(setting: Setting) -> tuple[list[float], list[float], list[float]]:
    """Seconds of whole runs, of their ends after the last answer, and of the reference process."""
    scenario = _repeated(load_scenario(scenario_path("two-turn")), setting.samples + WARM_UP)
    rest: list[float] = []
    with TimedSimulator(scenario) as simulator:
        folder = Path(tempfile.mkdtemp(dir=setting.home))
        fluzo = setting.python.with_name("fluzo")
        set_up(folder, simulator.base_url)
        setting.process(fluzo, "-C", folder, "config", "trust", "--yes")()
        process = setting.process(fluzo, "-C", folder, "run", scenario.prompt)

        def subject() -> None:
            process()
            rest.append(time.perf_counter() - simulator.last_byte_at)

        reference = setting.process(setting.python, "-c", IMPORTS)
        whole, reference_samples = interleave(subject, reference, setting.samples)
        problems = simulator.finish()
    if problems:
        raise SystemExit("\n".join(problems))
    return whole, rest[WARM_UP:], reference_samples


def _repeated(scenario: Scenario, times: int) -> Scenario:
    steps = [replace(step, id=f"{step.id}-{number}") for number in range(times) for step in scenario.steps]
    return replace(scenario, steps=tuple(steps))


def set_up(folder: Path, base_url: str) -> None:
    def git(*argv: str) -> None:
        identity = ("-c", "user.name=Bench", "-c", "user.email=bench@localhost")
        subprocess.run(["git", "-C", folder, *identity, *argv], check=True)

    (folder / "README.md").write_text("# Interval\n\nReads and merges intervals of time.\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "Begin")
    with (folder / ".git" / "info" / "exclude").open("a") as exclude:
        exclude.write("/.fluzo\n/.fluzodrive/\n")
    (folder / ".fluzo").write_text(
        'schema_version = 1\n[agent]\nmodel = "main"\n[models.main]\nprovider = "openai_compatible"\n'
        f'base_url = {render(base_url)}\nmodel = "scripted"\n'
    )
