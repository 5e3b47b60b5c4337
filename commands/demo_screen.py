"""`fluzo demo --interactive`: the full screen over the real runtime on a disposable repository.

Invariant: whatever ends it, a signal included, the runtime and the scripted server are closed before the directory
is removed, and the removal is not cut short by a second signal. As in `chat`, only the screen is loaded up to the
first frame; the repository is made and the runtime opened behind it.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from fluzo.core.errors import Cancelled
from fluzo.screens.demo import Scene, Script
from fluzo.screens.program import run_screen
from fluzo.simulator import library
from fluzo.simulator.scenario import Scenario, load_scenario

from .chat import screen_options
from .demo_place import directory, isolated
from .options import GlobalOptions

if TYPE_CHECKING:
    from fluzo.screens.link import Runtime

FOLDER = "interval"
PACE_SECONDS = 0.025
"""Between two words of an answer: fast enough not to bore, slow enough to be seen."""

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def show(options: GlobalOptions, *, keep: bool, pace_seconds: float = PACE_SECONDS) -> int:
    """Show the demo until the person leaves; the exit status. Nothing of it remains unless it is to be kept."""
    scenarios = [load_scenario(path) for path in library.scene_paths()]
    with _signals_end(), directory(keep=keep) as base, isolated(base):
        backstage = Backstage(base, scenarios, [f"{key}={value}" for key, value in options.sets.items()], pace_seconds)
        script = Script(listed(scenarios), backstage.prepare)
        screen = screen_options(base / FOLDER, {}, options)
        try:
            return run_screen(screen._replace(demo=script), lambda: backstage.open)
        finally:
            backstage.close()


def listed(scenarios: Sequence[Scenario]) -> tuple[Scene, ...]:
    """The scenes that a person can choose, in the order of their numbers."""
    scenes = [
        Scene(scenario.title, scenario.scene.look, scenario.prompt, scenario.scene.opens)
        for scenario in sorted(scenarios, key=lambda scenario: scenario.scene.number if scenario.scene else 0)
        if scenario.scene is not None
    ]
    return tuple(scenes)


class Backstage:
    """What stands behind the screen. `open`, `prepare` and `close` are called from different threads."""

    def __init__(self, base: Path, scenarios: Sequence[Scenario], sets: Sequence[str], pace_seconds: float) -> None:
        self._base = base
        self._scenarios = scenarios
        self._sets = tuple(sets)
        self._pace_seconds = pace_seconds
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._prepare: Callable[[str], None] | None = None
        self._closed = False

    def open(self) -> "Runtime":
        """Make the repository and open the runtime in it. Raises what a host raises, and Cancelled at the end."""
        from .demo_scenes import raise_curtain

        with self._lock:
            if self._closed:
                raise Cancelled("The demo has ended.")
            self._stack.close()  # What an earlier try has left.
            runtime, self._prepare = raise_curtain(
                self._stack, self._base / FOLDER, self._scenarios, self._sets, self._pace_seconds
            )
            return runtime._replace(close=self.close)

    def prepare(self, prompt: str) -> None:
        """Put the repository into the state that the scene with this prompt begins on."""
        with self._lock:
            if self._prepare is not None and not self._closed:
                self._prepare(prompt)

    def close(self) -> None:
        """Close the runtime, then the server; again it does nothing. From here on no signal ends the process."""
        _ignore_signals()
        with self._lock:
            self._closed = True
            self._stack.close()


@contextmanager
def _signals_end() -> Iterator[None]:
    """Have a signal end the process by way of everything that has to be cleaned up."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        _ignore_signals()
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (*_ENDING, signal.SIGINT)}
    for number in _ENDING:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore_signals() -> None:
    """While the directory is removed; the screen's loop, while it ran, has put its own handlers in place of ours."""
    if threading.current_thread() is threading.main_thread():
        for number in (*_ENDING, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
