"""What the interactive demo plays on: its repository, its scripted server, and a session that was cut off.

Invariant: the runtime, the policy, the journal and the commands are the real ones; only the model is scripted, and it
is reached at 127.0.0.1. No scene ever answers what is asked of the person.
"""

import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from fluzo.core.errors import WorkspaceError
from fluzo.core.paths import SETTINGS_NAME
from fluzo.core.port import Event, StartTask
from fluzo.host import DRIVE_NAME, Host, HostOptions, open_host
from fluzo.screens.link import Runtime
from fluzo.simulator.scenario import Scenario
from fluzo.simulator.stage import Stage

from .chat import runtime_of
from .demo_place import staging
from .demo_repository import git, make_repository, settings_text

FIXTURE = "python-interval"
VERIFY = (("python3", "-m", "unittest"),)
INTERRUPTED = "recovery"
"""The scene whose beginning is played before the screen opens, and is then cut off."""
UPDATE = ("python3", "update_history.py")

_TABLES = """
[models.scripted.compat]
stops_on_disconnect = true

[harness]
max_turns = 8
"""
_WINDOW = "context_window = 16384\nmax_output_tokens = 2048\n"
_WAIT_SECONDS = 10.0
_REPAIR = ("interval.start < merged[-1].end:", "interval.start <= merged[-1].end:")
_STUBBORN = """\
import signal
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("serving; asking me to end does nothing", flush=True)
time.sleep(110)
"""
_SLOW = """\
import time

print("bringing HISTORY.md up to date", flush=True)
time.sleep(60)
"""
_OWN_LINE = "\nA line of your own, written before any task and not committed.\n"


def raise_curtain(
    stack: ExitStack, root: Path, scenarios: Sequence[Scenario], sets: Sequence[str], pace_seconds: float
) -> tuple[Runtime, Callable[[str], None]]:
    """Open everything; `stack` closes it again. Returns the runtime, and what puts the repository back for a scene.

    Raises WorkspaceError when the repository cannot be made, and what opening a host raises.
    """
    if root.exists():
        shutil.rmtree(root)
    stage = Stage(scenarios)
    stack.enter_context(stage)
    make_demo_repository(root, stage)
    interrupt_a_task(root, next(item for item in scenarios if item.name == INTERRUPTED), sets)
    stage.pace_seconds = pace_seconds
    host = open_host(HostOptions(root, sets=tuple(sets)))
    stack.callback(host.close)
    where = {item.prompt: item.scene.repository for item in scenarios if item.scene is not None}
    return runtime_of(host), lambda prompt: put_back(root, where.get(prompt, "sound"))


# --- the repository -------------------------------------------------------------------------------------------


def make_demo_repository(root: Path, stage: Stage) -> None:
    """The fixture with its bug at the tag `broken` and without it at `sound`, files for the scenes, settings."""
    settings = settings_text("demo", stage.scenario.model, stage.base_url, VERIFY, window=_WINDOW, more=_TABLES)
    make_repository(root, FIXTURE, settings)
    with staging():
        (root / "HISTORY.md").write_text(history(), "utf-8")
        (root / "stubborn.py").write_text(_STUBBORN, "utf-8")
        (root / UPDATE[1]).write_text(_SLOW, "utf-8")
    _commit(root, "broken", "Add the history")
    with staging():
        source = root / "interval.py"
        source.write_text(source.read_text("utf-8").replace(*_REPAIR), "utf-8")
    _commit(root, "sound", "Join touching intervals")
    put_back(root, "sound")


def _commit(root: Path, tag: str, message: str) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)
    git(root, "tag", tag)


def put_back(root: Path, repository: str) -> None:
    """Make the working tree that of a tag again, with one line of the person's own; settings and history stay."""
    git(root, "reset", "--quiet", repository)
    git(root, "checkout", "--quiet", "--", ".", f":(exclude){SETTINGS_NAME}")
    git(root, "clean", "--quiet", "--force", "-d")
    with staging(), (root / "README.md").open("a", encoding="utf-8") as readme:
        readme.write(_OWN_LINE)


def history() -> str:
    """A text that is too long for the demo's window."""
    words = ("sorted", "joined", "split", "measured", "renamed", "documented", "tested")
    lines = [
        f"{2000 + number // 20}-{number % 12 + 1:02}-{number % 28 + 1:02}  change {number:04}: {words[number % 7]} "
        f"what `merge` does with {number % 9 + 2} intervals of {number * 7 % 50 + 1} numbers each, and said so here."
        for number in range(1, 481)
    ]
    return "\n".join(("# History", "", *lines, ""))


# --- the session that was cut off -----------------------------------------------------------------------------


def interrupt_a_task(root: Path, scene: Scenario, sets: Sequence[str]) -> None:
    """Leave a store as a power cut in the middle of a command would leave it.

    The store is copied while the command runs and takes the place of the one that was closed in good order. What a
    copy of the write-ahead log may lack at its end was not committed; SQLite leaves it out, as after a real cut.
    """
    store, cut_off = root / DRIVE_NAME, root.with_name("cut-off")
    with open_host(HostOptions(root, sets=tuple(sets))) as host:
        begin(host, scene.prompt)
        with staging():
            shutil.copytree(store, cut_off, ignore=shutil.ignore_patterns("*-shm"))
    with staging():
        shutil.rmtree(store)
        cut_off.rename(store)


def begin(host: Host, prompt: str) -> None:
    """Start the task that will be cut off, and wait until its command has been dispatched."""
    command = StartTask(secrets.token_hex(16), prompt, allow=(UPDATE,))
    ack = host.port.dispatch(command).result(_WAIT_SECONDS)
    subscription = host.port.subscribe(ack.task_id, ack.cursor)
    executed: set[str] = set()
    while (update := subscription.next(_WAIT_SECONDS)) is not None:
        if not isinstance(update, Event):
            continue
        if update.type == "OperationRequested" and getattr(update.payload, "action", "") == "execute":
            executed.add(update.scope.operation_id)
        if update.type == "OperationIntended" and update.scope.operation_id in executed:
            return
    raise WorkspaceError(
        "The demo could not be prepared: its first task did not come to its command.",
        code="workspace_unusable",
        hint="Check the settings given with --set, or leave them out.",
    )
