"""`fluzo` alone: the welcome and the wizard where there is no `.fluzo`, then the full screen.

Invariant: up to the first frame only the screen and its `[tui]` table are loaded; the runtime is imported and opened
behind it, on another thread, and its errors are told in the screen.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fluzo.core.errors import UsageError
from fluzo.screens.app import Options, run_screen

from .options import global_options

if TYPE_CHECKING:
    from fluzo.screens.link import Opener, Runtime

FILE_NAME = ".fluzo"


def front_door(ctx: typer.Context) -> int:
    """Set the workspace up if it has no settings yet, then show the full screen; the exit status."""
    options = global_options(ctx)
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise UsageError(
            "The full screen needs a terminal that can move its cursor.",
            code="terminal_required",
            hint='Use: fluzo run "fix the failing test", fluzo tasks list, fluzo replay last',
        )
    if not has_settings(options.workspace, options.config):
        from .init import init

        init(ctx)
    return chat(options.workspace, options.config, options.sets, yolo=options.yolo)


def chat(
    workspace: Path | None, config: Path | None, sets: Mapping[str, str], *, yolo: bool, fps: int | None = None
) -> int:
    """Show the full screen for a workspace that has settings; the exit status."""
    start = (workspace or Path.cwd()).absolute()
    root = find_root(start)
    table = tui_table(config or root / FILE_NAME)
    options = Options(
        folder=_shown(root),
        root=str(root),
        theme=str(sets.get("tui.theme", table.get("theme", "default"))),
        animation_fps=_fps(fps if fps is not None else sets.get("tui.animation_fps", table.get("animation_fps", 60))),
        reduced_motion=bool(os.environ.get("FLUZO_REDUCED_MOTION")) or _flag(sets, table, "reduced_motion"),
        yolo=yolo,
        environ=dict(os.environ),
    )

    def opener() -> "Opener":
        return lambda: _open(start, config, tuple(f"{key}={value}" for key, value in sets.items()))

    return run_screen(options, opener)


def _open(start: Path, config: Path | None, sets: Sequence[str]) -> "Runtime":
    """Open the workspace; called on the screen's opening thread, after the first frame."""
    from fluzo.core.settings import main_model
    from fluzo.host import HostOptions, open_host
    from fluzo.screens.link import Runtime

    host = open_host(HostOptions(start, config, tuple(sets)))
    facts: dict[str, Any] = {}
    if host.settings is not None:
        _, model = main_model(host.settings)
        facts = {
            "model": model.model,
            "endpoint": model.base_url,
            "context_window": model.context_window,
            "verification": [list(argv) for argv in host.settings.verification.commands],
        }
    return Runtime(host.port, str(host.root), facts, host.close)


def find_root(start: Path) -> Path:
    """Where `.fluzo` is looked for before the runtime has asked Git: the nearest folder above with a `.git`."""
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return folder
    return start


def has_settings(workspace: Path | None, config: Path | None) -> bool:
    """Whether there is a settings file at all, valid or not: a broken one gets its diagnosis, never a new wizard."""
    path = config if config is not None else find_root((workspace or Path.cwd()).absolute()) / FILE_NAME
    return os.path.lexists(path)


def tui_table(path: Path) -> Mapping[str, Any]:
    """The `[tui]` table as it stands in the file; empty when it cannot be read, which the runtime will tell about."""
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tui", {})
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}


def _fps(value: object) -> int:
    text = str(value)
    return min(int(text), 60) if text.isdecimal() else 60


def _flag(sets: Mapping[str, str], table: Mapping[str, Any], key: str) -> bool:
    return sets[f"tui.{key}"] == "true" if f"tui.{key}" in sets else table.get(key) is True


def _shown(root: Path) -> str:
    home = os.environ.get("HOME", "")
    text = str(root)
    return "~" + text.removeprefix(home) if home and (text + "/").startswith(home.rstrip("/") + "/") else text
