"""`make soak`: many runs of the real runtime, each by a scenario drawn from a seed, each with a known right ending.

The same seed draws the same scenario. A run is right when the task ends with the state and the reason that its scenario
means, the scripted server saw exactly what it should, and nothing was logged as a defect; one that is not makes the
exit status 1 and is named with its seed.
"""

import argparse
import logging
import multiprocessing
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fluzo import setup_services as setup
from fluzo.core.events import Event, OperationProgress
from fluzo.core.port import (
    Ack,
    AnswerPermission,
    CancelTask,
    ForceStopTask,
    PendingRequests,
    ResumePlan,
    ResumeTask,
    StartTask,
    TaskDetail,
    Update,
)
from fluzo.core.settings import render
from fluzo.host import Host, HostOptions, open_host
from fluzo.simulator.scenario import parse_scenario
from fluzo.simulator.server import Simulator

WORKERS = 2
DEADLINE_SECONDS = 60.0
"""A run takes a fraction of a second; one that takes this long hangs, and counts as wrong."""
FILES = {"README.md": "# A small project\n", "sheep.py": "COUNT = 1\n", "notes/todo.txt": "feed them\n"}
Step = Mapping[str, Any]


# --- scenarios ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """A scenario and its right ending. `whole` says that every step must have been played."""

    kind: str
    steps: Sequence[Step]
    ending: str
    settings: str = ""
    command: Mapping[str, Any] = field(default_factory=dict)
    act: str = ""
    whole: bool = True


class Draw:
    """Pieces of scenarios from one source of randomness; every call of the model gets an id of its own."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._calls = 0

    def call(self, name: str, arguments: Mapping[str, Any]) -> Step:
        self._calls += 1
        part = {"tool_call": {"id": f"c{self._calls}", "name": name, "arguments": dict(arguments)}}
        text = [{"text": "let me see"}] if self.random.random() < 0.3 else []
        return {"respond": {"parts": [*text, part]}}

    def harmless(self, most: int) -> list[Step]:
        """Some calls that need nobody's permission."""
        offered: Sequence[tuple[str, Mapping[str, Any]]] = (
            ("read_file", {"path": "README.md"}),
            ("list_files", {}),
            ("search", {"pattern": "COUNT"}),
            ("git", {"subcommand": "status"}),
            ("write_file", {"path": f"new{self.random.randrange(3)}.txt", "content": "x\n"}),
            ("update_plan", {"steps": [{"step": "look", "status": "completed"}]}),
            ("read_file", {"path": "no/such/file"}),
        )
        return [self.call(*self.random.choice(offered)) for _ in range(self.random.randint(0, most))]


def say(text: str) -> Step:
    return {"respond": {"parts": [{"text": text}]}}


def success(draw: Draw) -> Plan:
    edit = draw.call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"})
    check = ("sh", "-c", "grep -q 'COUNT = 2' sheep.py")
    return Plan("success", [*draw.harmless(3), edit, say("done")], "completed", command={"verify": (check,)})


def unverified(draw: Draw) -> Plan:
    return Plan("unverified", [*draw.harmless(4), say("done")], "completed")


def allowed(draw: Draw) -> Plan:
    run = draw.call("run", {"argv": ["touch", "made"]})
    return Plan("allowed", [run, *draw.harmless(1), say("ok")], "completed", command={"allow": (("touch", "made"),)})


def unasked(draw: Draw) -> Plan:
    run = draw.call("run", {"argv": ["touch", "made", "more"]})
    allow = {"allow": (("touch", "made"),)}
    return Plan("nobody to ask", [*draw.harmless(2), run], "blocked permission_required", command=allow)


def denied(draw: Draw) -> Plan:
    run = draw.call("run", {"argv": ["touch", "made"]})
    return Plan("denied by the user", [run, *draw.harmless(2), say("then not")], "completed", act="deny")


def forbidden(draw: Draw) -> Plan:
    run = draw.call("run", {"shell": True, "script": "touch made"})
    rule = '[policy]\nshell = "deny"\n'
    return Plan("denied by a rule", [*draw.harmless(2), run], "blocked permission_denied", rule, {"yolo": True})


def question(draw: Draw) -> Plan:
    return Plan("question", [draw.call("ask_user", {"question": "Which?"})], "blocked input_required")


def cancelled(draw: Draw) -> Plan:
    held = {"respond": {"parts": [{"text": "half an ans"}, {"hold": "gate"}, {"text": "wer"}]}}
    return Plan("cancel", [*draw.harmless(2), held], "cancelled cancelled", act="cancel", whole=False)


def killed(draw: Draw) -> Plan:
    script = draw.random.choice(("sleep 600", "trap '' TERM; sleep 600", "sleep 600 & sleep 600; wait"))
    run = draw.call("run", {"shell": True, "script": script})
    return Plan("kill", [*draw.harmless(1), run], "cancelled cancelled", command={"yolo": True}, act="kill")


def budget(draw: Draw) -> Plan:
    turns = draw.random.randint(1, 3)
    steps = [draw.call("read_file", {"path": name}) for name in list(FILES)[:turns]]
    return Plan("budget", steps, "blocked budget_exhausted", f"[harness]\nmax_turns = {turns}\n")


def fault(draw: Draw) -> Plan:
    html = {"status": 200, "content_type": "text/html", "text": "<html>no</html>"}
    choice: tuple[Step, str] = draw.random.choice(
        (
            ({"status": 401, "json": {"error": {"message": "bad key"}}}, "provider_auth"),
            ({"status": 429, "json": {"error": {"message": "slow down"}}}, "rate_limited"),
            ({"status": 302, "text": "", "headers": {"Location": "http://127.0.0.1:1/"}}, "redirect_blocked"),
            (html, "provider_protocol"),
            ({"parts": []}, "provider_empty"),
        )
    )
    return Plan("provider fault", [*draw.harmless(1), {"respond": choice[0]}], f"blocked {choice[1]}")


def malformed(draw: Draw) -> Plan:
    wrong = draw.random.choice((("no_such_tool", {"x": 1}), ("read_file", {"nonsense": True}), ("run", {})))
    return Plan("malformed call", [draw.call(*wrong), *draw.harmless(1), say("sorry")], "completed")


def unrepaired(draw: Draw) -> Plan:
    steps = [say(f"done {number}") for number in range(3)]
    command = {"verify": (("false",),)}
    return Plan("failing check", [*draw.harmless(1), *steps], "failed verification_failed", command=command)


def resumed(draw: Draw) -> Plan:
    first, again = (draw.call("run", {"argv": ["touch", "made"]}) for _ in range(2))
    return Plan("resume", [first, again, say("done")], "completed", act="resume")


KINDS: Sequence[Callable[[Draw], Plan]] = (
    *(success, unverified, allowed, unasked, denied, forbidden, question, cancelled, killed, budget, fault),
    *(malformed, unrepaired, resumed),
)


def plan_of(seed: int) -> Plan:
    draw = Draw(seed)
    return draw.random.choice(KINDS)(draw)


# --- one run --------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """How one run ended; `problems` is empty when that was right."""

    seed: int
    kind: str
    expected: str
    observed: str
    problems: tuple[str, ...]


class Defects(logging.Handler):
    """Keeps what was logged as an error, from any thread of this process."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(f"{record.name}: {record.getMessage()}")


class Player:
    """Plays plans in a workspace of its own, which each of them finds as the one before did."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self._defects = Defects()
        logging.getLogger().addHandler(self._defects)
        threading.excepthook = lambda failed: self._defects.found.append(f"thread: {failed.exc_value!r}")
        self._restore()
        for argv in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "begin")):
            subprocess.run(["git", *argv], cwd=root, check=True)
        (root / ".git" / "info" / "exclude").write_text("/.fluzo\n/.fluzodrive/\n")

    def play(self, seed: int) -> Outcome:
        plan = plan_of(seed)
        self._restore()
        self._defects.found.clear()
        steps = [{"id": f"s{number}", **step} for number, step in enumerate(plan.steps)]
        head = {"schema_version": 1, "name": f"seed {seed}", "title": plan.kind, "model": "scripted"}
        with Simulator(parse_scenario({**head, "steps": steps})) as simulator:
            self._configure(simulator.base_url, plan.settings)
            try:
                with open_host(HostOptions(self.root)) as host:
                    observed = _observe(host, plan, simulator)
            except Exception as error:
                observed = f"raised {type(error).__name__}: {error}"
        problems = [*self._defects.found, *(simulator.finish() if plan.whole else [])]
        if observed != plan.ending:
            problems.append(f"ended as {observed!r}, not {plan.ending!r}")
        return Outcome(seed, plan.kind, plan.ending, observed, tuple(problems))

    def check_store(self) -> list[str]:
        """What is wrong with the record of all runs: numbers missing, something still open, a page damaged."""
        connection = sqlite3.connect(self.root / ".fluzodrive" / "state.sqlite3")
        try:
            count, last = connection.execute("SELECT count(*), max(seq) FROM events").fetchone()
            states = "'intent_committed', 'dispatched', 'requested', 'authorized'"
            still = connection.execute(f"SELECT count(*) FROM operations WHERE state IN ({states})").fetchone()[0]
            sound = connection.execute("PRAGMA quick_check").fetchone()[0]
        finally:
            connection.close()
        found = [] if count == last else [f"{last} events were numbered and {count} are there"]
        found += [f"{still} operations are still open"] if still else []
        return found if sound == "ok" else [*found, f"SQLite reports: {sound}"]

    def _restore(self) -> None:
        for path in self.root.iterdir():
            if path.is_file() and path.name not in FILES and path.name != ".fluzo":
                path.unlink()
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(text)

    def _configure(self, base_url: str, more: str) -> None:
        path = self.root / ".fluzo"
        path.write_text(
            'schema_version = 1\n[agent]\nmodel = "main"\n[models.main]\nprovider = "openai_compatible"\n'
            f'base_url = {render(base_url)}\nmodel = "scripted"\n{more}'
        )
        setup.record_consent(setup.load_settings(path).settings, self.root)


def _observe(host: Host, plan: Plan, simulator: Simulator) -> str:
    """Start the task, act as the plan says, and return its state and reason at the end."""
    command = StartTask(os.urandom(8).hex(), plan.kind, interactive=plan.act == "deny", **plan.command)
    ack = host.port.dispatch(command).result(DEADLINE_SECONDS)
    _follow(host, ack, plan, simulator)
    if plan.act == "resume":
        seen = host.port.query(ResumePlan(ack.task_id)).result(DEADLINE_SECONDS).data["reconciled"]
        again = ResumeTask(os.urandom(8).hex(), ack.task_id, seen, allow=(("touch", "made"),))
        _follow(host, host.port.dispatch(again).result(DEADLINE_SECONDS), plan, simulator)
    task = host.port.query(TaskDetail(ack.task_id)).result(DEADLINE_SECONDS).data["task"]
    return f"{task['state']} {task['reason']}".strip()


def _follow(host: Host, ack: Ack, plan: Plan, simulator: Simulator) -> None:
    subscription = host.port.subscribe(ack.task_id, ack.cursor)
    if plan.act == "cancel":
        if not simulator.wait_until_held("gate", DEADLINE_SECONDS):
            raise TimeoutError("the model was never asked for the answer that is cancelled")
        host.port.dispatch(CancelTask(ack.task_id)).result(DEADLINE_SECONDS)
    while not subscription.ended:
        update = subscription.next(DEADLINE_SECONDS)
        if update is None and not subscription.ended:
            raise TimeoutError("the task neither goes on nor ends")
        _act(host, ack.task_id, plan.act, update)


def _act(host: Host, task_id: str, act: str, update: Update | None) -> None:
    if act == "kill" and isinstance(update, OperationProgress) and update.tool == "run":
        host.port.dispatch(ForceStopTask(task_id)).result(DEADLINE_SECONDS)
    if act == "deny" and isinstance(update, Event) and update.type == "TaskStateChanged":
        for asked in host.port.query(PendingRequests(task_id)).result(DEADLINE_SECONDS).data["pending"]:
            answer = AnswerPermission(task_id, asked["operation_id"], asked["fingerprint"], "deny")
            host.port.dispatch(answer).result(DEADLINE_SECONDS)


# --- many runs ------------------------------------------------------------------------------------------------


def work(seeds: Sequence[int]) -> list[Outcome]:
    """Play the plans of these seeds one after the other, at home in a directory of this process."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place, "home")
        home.mkdir()
        (home / ".gitconfig").write_text("[user]\n\tname = Soak\n\temail = soak@example.invalid\n")
        for name in [name for name in os.environ if name.startswith(("XDG_", "GIT_", "FLUZO_"))]:
            del os.environ[name]
        os.environ["HOME"] = str(home)
        player = Player(Path(place, "work"))
        outcomes = [player.play(seed) for seed in seeds]
        wrong = tuple(player.check_store())
        return [*outcomes, Outcome(seeds[-1], "the store", "sound", "damaged" if wrong else "sound", wrong)]


def report(outcomes: Iterable[Outcome]) -> tuple[list[str], bool]:
    """The table of what was expected and observed, then every wrong run; and whether there is none."""
    rows = list(outcomes)
    line = "{:<20} {:<30} {:<30} {:>6}"
    table = Counter((row.kind, row.expected, row.observed) for row in rows)
    lines = [line.format("scenario", "expected", "observed", "runs")]
    lines += [line.format(*key, count) for key, count in sorted(table.items())]
    wrong = [row for row in rows if row.problems or row.expected != row.observed]
    lines += [f"WRONG seed {row.seed} ({row.kind}): {'; '.join(row.problems)}" for row in wrong]
    return lines, not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Run many drawn scenarios through the real runtime.")
    parser.add_argument("--runs", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed; each run has the next (default: 1)")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    seeds = range(options.seed, options.seed + options.runs)
    shares = [share for share in (seeds[number::WORKERS] for number in range(WORKERS)) if share]
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(len(shares)) as pool:
        outcomes = [outcome for share in pool.map(work, shares) for outcome in share]
    lines, right = report(outcomes)
    print("\n".join(lines))
    runs = [outcome for outcome in outcomes if outcome.kind != "the store"]
    errors = sum(1 for outcome in outcomes if outcome.problems)
    seconds = time.monotonic() - began
    print(
        f"{len(runs)} runs, seeds {seeds[0]} to {seeds[-1]}, {errors} wrong or with unhandled errors, {seconds:.1f} s"
    )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
