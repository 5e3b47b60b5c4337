"""The settings page over a scripted file: the real rows of the registry, a scripted port, and what is sent to it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from support.screen_inside import ScriptedScreen, begin_task, inside

from fluzo.core.errors import FluzoError
from fluzo.core.port import Ack, ConfigDetail, SaveConfig, TaskDetail
from fluzo.core.settings import parse_settings, parse_value, remove_value, set_value
from fluzo.core.settings_rows import InForce, config_rows, entry_rows

F6, ESC, ENTER, CLEAR = "\x1b[17~", "\x1b", "\r", "\x15"
RIGHT, LEFT, DOWN, UP = "\x1b[C", "\x1b[D", "\x1b[B", "\x1b[A"
FILE: Mapping[str, Any] = {
    "schema_version": 1,
    "agent": {"model": "main"},
    "models": {"main": {"provider": "openai_compatible", "base_url": "http://127.0.0.1:1/v1", "model": "scripted"}},
    "harness": {"max_turns": 30},
}


class ScriptedFile:
    """What the runtime would tell of a file: `file` as it stands, `in_force` as taken over, `flags` over that."""

    def __init__(self, flags: Mapping[str, Any] | None = None) -> None:
        self.file: Mapping[str, Any] = FILE
        self.in_force: Mapping[str, Any] = FILE
        self.flags = flags or {}
        self.problem = ""
        self.failure: FluzoError | None = None
        self.refusal: Ack | None = None

    def changed_outside(self, key: str, text: str) -> None:
        self.file = set_value(self.file, key, parse_value(key, text))

    def save(self, command: SaveConfig) -> Ack:
        if self.refusal is not None:
            return self.refusal
        if command.fingerprint != str(self.file):
            return Ack(False, code="config_changed", message="The file was changed meanwhile.")
        for key, value in command.values.items():
            self.file = remove_value(self.file, key) if value is None else set_value(self.file, key, value)
        self.in_force = self.file
        return Ack(True)

    def told(self) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        merged = self.in_force
        for key, value in self.flags.items():
            merged = set_value(merged, key, value)
        settings = parse_settings(merged)
        held = InForce(settings, self.in_force, self.flags, settings)
        readable = not self.problem
        saved = parse_settings(self.file) if readable else None
        return {
            "path": "/w/.fluzo",
            "fingerprint": str(self.file),
            "in_force": str(self.in_force),
            "problem": self.problem,
            "hint": "",
            "consent": [],
            "rows": config_rows(held, self.file if readable else None, saved),
            "entries": entry_rows(),
        }


Work = Callable[[ScriptedScreen, ScriptedFile], Awaitable[None]]


def at_settings(
    work: Work, file: ScriptedFile | None = None, *, columns: int = 80, rows: int = 24, task: Any = None
) -> None:
    """Open the page over a scripted file."""
    scripted = file or ScriptedFile()

    async def run(shown: ScriptedScreen) -> None:
        shown.port.acts[SaveConfig] = scripted.save
        if task is not None:
            begin_task(shown)
        await press(shown, F6)
        await work(shown, scripted)

    answers = {ConfigDetail: scripted.told, **({TaskDetail: task} if task is not None else {})}
    inside(run, columns=columns, rows=rows, answers=answers)


async def press(shown: ScriptedScreen, *keys: str) -> list[str]:
    """Keys, and everything that follows from them on the screen's loop; the rows after it."""
    for key in keys or ("",):
        shown.keys(key)
        for _ in range(8):
            await asyncio.sleep(0)
    return shown.draw()


async def at(shown: ScriptedScreen, wanted: str) -> None:
    """Light the first row that is found by a text."""
    await press(shown, "/", wanted, ENTER)


def focus_back(shown: ScriptedScreen) -> None:
    """The person was elsewhere and comes back."""
    shown.screen.terminal_focus(False)
    shown.screen.terminal_focus(True)


def saves(shown: ScriptedScreen) -> list[SaveConfig]:
    return [command for command in shown.port.commands if isinstance(command, SaveConfig)]


def row_of(rows: list[str], text: str) -> str:
    return next(row for row in rows if text in row)


def has(rows: list[str], text: str) -> bool:
    return text in " ".join(" ".join(row.split()) for row in rows)
