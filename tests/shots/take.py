"""Pictures of the full screen in real terminal programs under a virtual display: `make screenshots`.

Each terminal runs the program itself against the scripted server of this process; keys go to its window as a person's
would. `script` keeps what the program writes, and an emulator reads along only to know when to take the next picture.
Needs Xvfb, xdotool, ImageMagick, and the terminals; one that is missing is said to be `not_run`.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyte

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.project import Project, call, make_project, scripted

from fluzo.simulator.server import Simulator

DISPLAY = ":77"
DEADLINE_SECONDS = 60
REST_SECONDS = 0.6
ROUND = '''from decimal import Decimal


def split_amount(total: Decimal, parts: int) -> list[Decimal]:
    """Shares of a total, each rounded to cents."""
    share = total / parts
    out = []
    for _ in range(parts):
        out.append(share.quantize(Decimal("0.01")))
    return out
'''
TEST = """import unittest
from decimal import Decimal

from ledger.round import split_amount


class SplitAmount(unittest.TestCase):
    def test_the_shares_add_up(self) -> None:
        self.assertEqual(sum(split_amount(Decimal("100.00"), 3)), Decimal("100.00"))
"""
OLD = '    out = []\n    for _ in range(parts):\n        out.append(share.quantize(Decimal("0.01")))\n    return out\n'
NEW = (
    '    out = [share.quantize(Decimal("0.01")) for _ in range(parts - 1)]\n'
    "    out.append(total - sum(out))  # The last share takes the remainder.\n    return out\n"
)
ANSWER = (
    "The remainder cent was dropped because each share was rounded on its own. Now the last share takes "
    "what is left:\n\n"
    "```python\nout.append(total - sum(out))\n```\n\n| total | parts | shares |\n| --- | --- | --- |\n"
    "| 100.00 | 3 | 33.33, 33.33, 33.34 |\n| 0.05 | 2 | 0.03, 0.02 |\n\nThe shares "
)
CHECK = ["python3", "-m", "unittest", "-q"]
RUN = {"argv": ["python3", "-m", "unittest", "tests.test_round"]}


class Look(NamedTuple):
    """One terminal, its size, and how the program is shown in it. `shots` names the states that are kept."""

    terminal: str
    columns: int
    rows: int
    theme: str
    colors: str
    shots: tuple[str, ...]


ALL = ("idle", "working", "permission", "answering", "done", "changes", "tasks", "settings", "palette")
LOOKS = (
    Look("alacritty", 120, 40, "default", "truecolor", ALL),
    Look("alacritty", 120, 40, "high-contrast", "truecolor", ("working", "answering")),
    Look("alacritty", 80, 24, "default", "16", ("working", "answering")),
    Look("xterm", 80, 24, "default", "256", ("working", "changes")),
    Look("xterm", 80, 24, "high-contrast", "16", ("working", "answering")),
    Look("kitty", 160, 50, "default", "truecolor", ("working", "changes")),
)
_ENVIRON = {
    "truecolor": "TERM=xterm-256color COLORTERM=truecolor",
    "256": "TERM=xterm-256color COLORTERM=",
    "16": "TERM=xterm COLORTERM=",
}


def terminal_command(look: Look, inner: str) -> list[str]:
    columns, rows = look.columns, look.rows
    if look.terminal == "alacritty":
        size = ["-o", f"window.dimensions.columns={columns}", "-o", f"window.dimensions.lines={rows}"]
        return ["alacritty", *size, "-o", "font.size=8", "-e", "sh", "-c", inner]
    if look.terminal == "xterm":
        face = ["-fa", "DejaVu Sans Mono", "-fs", "8"]
        return ["xterm", *face, "-geometry", f"{columns}x{rows}", "-e", "sh", "-c", inner]
    size = ["-o", f"initial_window_width={columns}c", "-o", f"initial_window_height={rows}c"]
    plain = ["-o", "remember_window_size=no", "-o", "font_size=8", "-o", "update_check_interval=0"]
    return ["kitty", "--config", "NONE", *size, *plain, "sh", "-c", inner]


class Window:
    """A terminal program's window: `types` and `presses` go to it, `sees` waits for a text on its screen."""

    def __init__(self, look: Look, log: Path, name: str) -> None:
        self._log, self._name = log, name
        self._read = 0
        self._picture = pyte.Screen(look.columns, look.rows)
        self._stream = pyte.ByteStream(self._picture)

    def _take_in(self) -> bool:
        data = self._log.read_bytes()[self._read :] if self._log.exists() else b""
        self._read += len(data)
        self._stream.feed(data)
        return bool(data)

    def sees(self, text: str) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        while text not in "\n".join(self._picture.display):
            if time.monotonic() > end:
                raise SystemExit(f"{self._name}: never saw {text!r}:\n" + "\n".join(self._picture.display))
            self._take_in()
            time.sleep(0.05)

    def focus(self) -> str:
        """Give the window the keyboard, which no window manager does here; its id."""
        found = _x("xdotool", "search", "--onlyvisible", "--class", self._name).split()[-1]
        _x("xdotool", "windowfocus", "--sync", found)
        return found

    def types(self, text: str) -> None:
        _x("xdotool", "type", "--delay", "20", text)

    def presses(self, *keys: str) -> None:
        for key in keys:
            _x("xdotool", "key", key)
            time.sleep(0.1)

    def rests(self) -> None:
        """Wait until what was drawn has reached the window."""
        time.sleep(REST_SECONDS)
        self._take_in()

    def shoot(self, path: Path) -> None:
        self.rests()
        _x("import", "-window", self.focus(), "-colors", "96", "-strip", f"png8:{path}")
        print(path.name)


def _x(*argv: str) -> str:
    environ = {**os.environ, "DISPLAY": DISPLAY}
    return subprocess.run(argv, env=environ, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@contextmanager
def display() -> Iterator[None]:
    """A virtual screen that listens on no network."""
    server = subprocess.Popen(
        ["Xvfb", DISPLAY, "-screen", "0", "1600x1000x24", "-nolisten", "tcp"], stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            if (
                subprocess.run(
                    ["xdotool", "getmouselocation"], env={**os.environ, "DISPLAY": DISPLAY}, capture_output=True
                ).returncode
                == 0
            ):
                break
            time.sleep(0.1)
        yield
    finally:
        server.terminate()
        server.wait()


@contextmanager
def window(look: Look, project: Project, folder: Path) -> Iterator[Window]:
    """The program in its terminal, ended with the block."""
    log = folder / "log"
    # A terminal sets the home of the account and its own TERM and COLORTERM.
    fluzo = f"{sys.executable} -m fluzo --set tui.theme={look.theme}"
    inner = f"echo $$ > {folder}/pid; HOME={folder} {_ENVIRON[look.colors]} exec script -qf -c '{fluzo}' {log}"
    environ = {**os.environ, "DISPLAY": DISPLAY, "LIBGL_ALWAYS_SOFTWARE": "1"}
    program = subprocess.Popen(
        terminal_command(look, inner),
        cwd=project.root,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Window(look, log, look.terminal)
    finally:
        # It outlives its terminal, and the program with it.
        os.kill(int((folder / "pid").read_text()), signal.SIGTERM)
        program.terminate()
        program.wait()


def story(look: Look, keep: Callable[[str], None], win: Window, simulator: Simulator) -> None:
    """One task from the first frame to its end, with a picture at each state."""
    win.sees("Type a task")
    win.sees("scripted")
    win.focus()
    keep("idle")
    win.types("Totals are off by one cent when I split an invoice. Fix it.")
    win.presses("Return")
    win.sees("Permission 1 of 1")
    win.types("and keep the old API")
    win.sees("and keep the old API")
    keep("permission")
    win.presses("Tab")
    win.sees("you answer here")
    time.sleep(1)
    win.presses("2")
    win.sees("Enter confirms 2.")
    keep("answering")
    time.sleep(0.5)
    win.presses("Return")
    win.sees("The shares")
    keep("working")
    simulator.release("gate")
    win.sees("done in")
    keep("done")
    win.presses("F5")
    win.sees("Changes")
    keep("changes")
    win.presses("Escape", "F4")
    win.sees("Tasks")
    keep("tasks")
    win.presses("Escape", "F6")
    win.sees("Settings")
    keep("settings")
    win.presses("Escape", "ctrl+p")
    win.sees("Commands")
    keep("palette")


def take(look: Look, out: Path) -> None:
    reading = [
        {"reasoning": "The shares are rounded one by one, so a cent can get lost. First I read the code."},
        {"tool_call": {"id": "c1", "name": "read_file", "arguments": {"path": "ledger/round.py"}}},
    ]
    edit = {"path": "ledger/round.py", "old_text": OLD, "new_text": NEW}
    steps = (
        {"respond": {"parts": reading}},
        call("edit_file", edit, "c2"),
        call("run", RUN, "c3"),
        {"respond": {"parts": [{"text": ANSWER}, {"hold": "gate"}, {"text": "add up now, and the test passes."}]}},
    )
    files = {
        ".gitignore": "__pycache__/\n",
        "ledger/__init__.py": "",
        "ledger/round.py": ROUND,
        "tests/__init__.py": "",
        "tests/test_round.py": TEST,
    }
    with tempfile.TemporaryDirectory(prefix="fluzo-shots-") as name:
        folder = Path(name)
        os.environ["HOME"] = str(folder)
        (folder / ".gitconfig").write_text("[user]\n\tname = A Person\n\temail = person@example.invalid\n")
        with Simulator(scripted(*steps)) as simulator:
            checks = (CHECK,)
            project = make_project(folder / "invoices", simulator.base_url, files=files, verify=checks)
            with window(look, project, folder) as win:

                def keep(state: str) -> None:
                    if state in look.shots:
                        win.shoot(
                            out / f"{look.terminal}-{look.columns}x{look.rows}-{look.theme}-{look.colors}-{state}.png"
                        )

                story(look, keep, win, simulator)


def main() -> None:
    out = Path(__file__).parents[2] / "docs" / "screens"
    out.mkdir(exist_ok=True)
    with display():
        for look in LOOKS:
            if shutil.which(look.terminal) is None:
                print(f"{look.terminal}: not_run, it is not installed")
                continue
            take(look, out)


if __name__ == "__main__":
    main()
