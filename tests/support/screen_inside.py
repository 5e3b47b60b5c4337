"""The full screen in this process: pipe input, output on a string, a scripted port, and a clock that the test moves."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from io import StringIO
from typing import Any

import pyte
from prompt_toolkit.application.current import set_app
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress, _Flush
from prompt_toolkit.output import ColorDepth
from support.screen import Picture
from support.scripted_port import ScriptedPort, event

from fluzo.core import events
from fluzo.core.port import (
    AnswerPermission,
    FileNames,
    FolderFacts,
    PendingRequests,
    SessionDetail,
    SessionList,
    TaskDetail,
    TaskList,
)
from fluzo.screens.app import Screen
from fluzo.screens.key_stream import register_keys
from fluzo.screens.link import Runtime
from fluzo.screens.options import Options
from fluzo.screens.state import Accepted, PendingRead
from fluzo.screens.terminal import ScreenOutput

COMMAND = ["rm", "-rf", "build"]


class FakeClock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


class FakeTerminal(StringIO):
    """A stdout that remembers what was written since it was last asked."""

    encoding = "utf-8"

    def fileno(self) -> int:
        raise OSError("no descriptor")

    def isatty(self) -> bool:
        return True

    def taken(self) -> str:
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


class ScriptedScreen:
    """The real screen without a terminal. `keys` are handled at once, without a frame between them."""

    def __init__(
        self, screen: Screen, terminal: FakeTerminal, port: ScriptedPort, clock: FakeClock, size: list[int]
    ) -> None:
        self.screen = screen
        self._size = size
        self.terminal = terminal
        self.port = port
        self.clock = clock
        self._pressed: list[KeyPress] = []
        self._parser = Vt100Parser(self._pressed.append)
        self._picture = Picture(*size)
        self._stream = pyte.Stream(self._picture)
        self.written = ""

    def keys(self, data: str) -> None:
        """Handle the keys that a terminal would send as these characters."""
        self._parser.feed_and_flush(data)
        pressed = list(self._pressed)
        self._pressed.clear()
        processor = self.screen.app.key_processor
        processor.feed_multiple(pressed)
        processor.process_keys()
        if data == "\x1b":
            processor.feed(_Flush)  # What the toolkit feeds when nothing follows an Escape.
            processor.process_keys()

    def resizes(self, columns: int, rows: int) -> None:
        self._size[:] = columns, rows
        self._picture.resize(rows, columns)
        self.screen.app._on_resize()

    def lay_out(self) -> None:
        """All of a frame but the drawing."""
        self.screen.frames.before(None)
        self.screen.app.output.flush()
        self.terminal.taken()

    def draw(self) -> list[str]:
        """Draw one frame now; the rows that the emulator shows."""
        self.screen.app.invalidate()
        self.screen.app._redraw()
        written = self.terminal.taken()
        self.written += written
        self._stream.feed(written)
        return [row.rstrip() for row in self._picture.display]

    def draw_anew(self) -> list[str]:
        """Draw everything from nothing; the rows that an emulator shows which has seen nothing before."""
        self._picture.reset()
        self.screen.app.renderer.reset()
        return self.draw()

    def approvals(self) -> list[AnswerPermission]:
        return [item for item in self.port.commands if isinstance(item, AnswerPermission) and item.answer != "deny"]


def request(number: int = 1, kind: str = "permission", **more: Any) -> dict[str, Any]:
    scope = {"tool": "run", "action": "execute", "workspace": "w", "backend": "local", "argv": COMMAND, "cwd": "."}
    return {
        "operation_id": f"o_{number}",
        "kind": kind,
        "fingerprint": f"f{number}",
        "tool": "run",
        "action": "execute",
        "effect": "execute",
        "summary": "rm -rf build",
        "scope": {**scope, "env": {}},
        "preview": "",
        "env": {},
        "reason": "policy_shell",
        "text": "",
        **more,
    }


def inside(
    work: Callable[[ScriptedScreen], Awaitable[None]],
    *,
    columns: int = 80,
    rows: int = 24,
    options: Options | None = None,
    depth: ColorDepth = ColorDepth.TRUE_COLOR,
    answers: Mapping[type, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Run the screen, opened over a scripted port, and the test's work beside it."""
    register_keys()
    known = {
        PendingRequests: {"pending": []},
        TaskList: {"tasks": []},
        FileNames: {"names": []},
        FolderFacts: {"branch": "", "changed": 0, "instructions": []},
        SessionList: {"sessions": []},
        SessionDetail: {"session": {"id": "s_1", "title": "t"}, "tasks": [], "messages": []},
        TaskDetail: {"task": {}, "failure": None},
    }
    port = ScriptedPort([], {**known, **(answers or {})})
    clock, terminal, size = FakeClock(), FakeTerminal(), [columns, rows]
    told = facts or {"model": "scripted", "endpoint": "http://127.0.0.1:1/v1"}
    runtime = Runtime(port, "/w", told, lambda: None)
    environ = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}

    async def run() -> None:
        with create_pipe_input() as keyboard:
            output = ScreenOutput(terminal, lambda: Size(rows=size[1], columns=size[0]), term="xterm-256color")
            screen = Screen(
                options or Options("~/w", environ=environ),
                lambda: lambda: runtime,
                keyboard=keyboard,
                output=output,
                clock=clock,
            )
            screen.depth = depth
            shown = ScriptedScreen(screen, terminal, port, clock, size)
            running = asyncio.ensure_future(screen._run())
            while not screen.app.is_running or screen.frames.drawn == 0 or screen.state.phase != "ready":
                await asyncio.sleep(0)
            with set_app(screen.app):
                await work(shown)
            screen.quit()
            await running

    asyncio.run(run())


def begin_task(shown: ScriptedScreen, text: str = "go") -> None:
    """A running task in the state, as the runtime tells of it."""
    shown.screen.submit(text)
    request_id = shown.screen.state.waiting_submit
    assert request_id is not None
    shown.screen.apply(Accepted(request_id.request_id, "t_1", "s_1"))
    for number, payload in enumerate(
        (events.TaskCreated(text, {"max_turns": 30}), events.TaskStateChanged("pending", "running")), 1
    ):
        shown.screen.apply(event(number, payload))


def ask(shown: ScriptedScreen, *requests: Mapping[str, Any]) -> None:
    """The runtime waits for answers to these requests."""
    shown.screen.apply(event(50, events.TaskStateChanged("running", "waiting")))
    shown.screen.apply(PendingRead("t_1", tuple(requests)))


def feed(shown: ScriptedScreen, updates: Sequence[Any]) -> None:
    for update in updates:
        shown.screen.apply(update)
