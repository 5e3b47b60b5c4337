"""The full screen as the rows run it: the installed program on a terminal, in a workspace with or without a past."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import large_history
from headless import set_up
from measure import Setting
from terminal import FRAME_END, Terminal, running

SIZES = ((80, 24), (120, 40), (160, 50))
LIMITS = """[harness]
max_turns = 100000
max_tool_calls = 100000
max_active_seconds = 86400
max_total_tokens = 1000000000
"""
READY = b"Ask"
HOLD = "please-hold"
README_LINES = 400


class ModelServer(NamedTuple):
    url: str
    process: "subprocess.Popen[str]"

    def want(self, word: str) -> None:
        """Change what the next request gets: `ask`, `fail` or `full` (screen_server.py)."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()


@contextmanager
def model_server() -> Iterator[ModelServer]:
    argv = [sys.executable, str(Path(__file__).with_name("screen_server.py"))]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield ModelServer(f"http://127.0.0.1:{int(server.stdout.readline())}/v1", server)
        finally:
            server.terminate()


@contextmanager
def workspace(setting: Setting, base_url: str, *, history: bool = False) -> Iterator[Path]:
    """A repository with settings and consent; with the large history in its store, if wanted.

    The artifacts are links to those of the generated store, which nothing writes to; the database is a copy.
    """
    build = large_history.DEFAULT_PLACE.parent
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build, prefix="screen-") as place:
        folder = Path(place)
        set_up(folder, base_url)
        with (folder / "README.md").open("a") as readme:
            readme.writelines(f"{number}: two intervals that touch are one\n" for number in range(README_LINES))
        with (folder / ".fluzo").open("a") as file:
            file.write(f"context_window = 1000000\n{LIMITS}")
        if history:
            large_history.ensure()
            drive, kept = folder / ".fluzodrive", large_history.DEFAULT_PLACE / ".fluzodrive"
            shutil.copytree(kept, drive, ignore=lambda where, names: names if Path(where).name == "artifacts" else [])
            for path in (kept / "artifacts").iterdir():
                (drive / "artifacts" / path.name).hardlink_to(path)
        setting.process(setting.python.with_name("fluzo"), "-C", folder, "config", "trust", "--yes")()
        yield folder


@contextmanager
def screen(
    setting: Setting, folder: Path, size: tuple[int, int], *arguments: str, timed: bool = False, reduced: bool = False
) -> Iterator[Terminal]:
    """The program, its runtime open and its first frames drawn; `timed` is the one that writes a report."""
    program: list[str | Path] = [setting.python.with_name("fluzo")]
    if timed:
        program = [setting.python, Path(__file__).with_name("screen_child.py"), folder / "report.json"]
    environ = {"HOME": str(setting.home), **({"FLUZO_REDUCED_MOTION": "1"} if reduced else {})}
    with running([*program, *arguments], folder, environ, *size) as terminal:
        terminal.wait_for(FRAME_END)
        terminal.quiet(0.7)
        yield terminal


def report(folder: Path) -> dict[str, Any]:
    """What a timed program wrote at its end."""
    readings: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return readings


def open_newest_session(terminal: Terminal) -> None:
    """The list of sessions, and Enter on its first row."""
    terminal.send("\x1bOQ")
    terminal.quiet(0.5)
    terminal.send("\r")
    terminal.quiet(0.7)
