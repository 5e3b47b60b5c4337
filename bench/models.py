"""The rows of a turn of the agent: what a reply costs this side, and what a search of a large tree does."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import Row, Setting

DELTAS = 2000
FILES = 100_000
FOLDERS = 1000
NEEDLE = "overlapping_interval"
LINE = "def merge(first, second):  # two intervals that touch are one\n    return sorted([*first, *second])\n"


def turn(setting: Setting) -> Row:
    """Building the request of a 32k-token conversation, reading 2,000 deltas and two commits to the journal, against an
    httpx loop that reads the same bytes.
    """
    with tempfile.TemporaryDirectory(dir=setting.home) as place, _stream_server() as url:
        samples, reference_samples = _measured(setting, "model_turns.py", place, url, str(setting.samples))
    return Row("a turn, 2,000 deltas", "an httpx loop", 3.5, samples, reference_samples)


def search(setting: Setting) -> Row:
    """A text in 100 of 100,000 files, against ripgrep, or against grep where there is none."""
    ripgrep = shutil.which("rg")
    tool = [ripgrep, "-nF", NEEDLE] if ripgrep else ["grep", "-rnIF", "--exclude-dir=.git", NEEDLE, "."]
    with tempfile.TemporaryDirectory(dir=setting.home) as place:
        _plant(Path(place))
        runs = max(3, setting.samples // 4)  # Each takes as long as many of the others.
        samples, reference_samples = _measured(setting, "search_runs.py", place, NEEDLE, str(runs), *tool)
    return Row(
        "search, 100,000 files", "ripgrep" if ripgrep else "grep -r", 2 if ripgrep else 10, samples, reference_samples
    )


def _measured(setting: Setting, script: str, *arguments: str) -> tuple[list[float], list[float]]:
    argv: list[str | Path] = [setting.python, Path(__file__).with_name(script), *arguments]
    taken = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout
    samples, reference_samples = json.loads(taken)
    return samples, reference_samples


@contextmanager
def _stream_server() -> Iterator[str]:
    argv = [sys.executable, str(Path(__file__).with_name("stream_server.py")), str(DELTAS)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.terminate()


def _plant(root: Path) -> None:
    """A repository whose every thousandth file holds the text that is looked for."""
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    for number in range(FILES):
        folder = root / f"part{number % FOLDERS:03}"
        if number < FOLDERS:
            folder.mkdir()
        needle = f"# {NEEDLE}\n" if number % (FILES // 100) == 0 else ""
        (folder / f"module{number}.py").write_text(f"{LINE * 5}{needle}{LINE * 5}")
    subprocess.run(["git", "add", "."], cwd=root, check=True)
