"""The full screen over this process's own runtime.

Invariant: up to the first frame only the screen and its `[tui]` table are loaded; the runtime is imported and opened
behind it, on another thread, and its errors are told in the screen.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fluzo.screens.app import Options, run_screen

from .front_door import FILE_NAME, find_root

if TYPE_CHECKING:
    from fluzo.core.settings import Settings
    from fluzo.host import Host
    from fluzo.screens.link import Opener, Runtime


def chat(
    workspace: Path | None, config: Path | None, sets: Mapping[str, str], *, yolo: bool, fps: int | None = None
) -> int:
    """Show the full screen for a workspace that has settings; the exit status."""
    start = (workspace or Path.cwd()).absolute()
    root = find_root(start)
    options = screen_options(root, tui_table(config or root / FILE_NAME), sets, yolo=yolo, fps=fps)
    flags = {**sets, **({"tui.animation_fps": str(fps)} if fps is not None else {})}

    def opener() -> "Opener":
        return lambda: _open(start, config, tuple(f"{key}={value}" for key, value in flags.items()))

    return run_screen(options, opener)


def screen_options(
    root: Path, table: Mapping[str, Any], sets: Mapping[str, str], *, yolo: bool, fps: int | None
) -> Options:
    """What the screen is told before the runtime is there: from the command line, else the `[tui]` table."""
    stored = table.get("notifications")
    notices: Mapping[str, Any] = stored if isinstance(stored, dict) else {}
    return Options(
        folder=_shown(root),
        root=str(root),
        theme=str(sets.get("tui.theme", table.get("theme", "default"))),
        animation_fps=_fps(fps if fps is not None else sets.get("tui.animation_fps", table.get("animation_fps", 60))),
        reduced_motion=bool(os.environ.get("FLUZO_REDUCED_MOTION")) or _flag(sets, table, "reduced_motion"),
        yolo=yolo,
        notice_seconds=_bounded(notices.get("duration_seconds"), 5, 1, 30),
        max_notices=_bounded(notices.get("max_visible"), 3, 1, 5),
        desktop_notices=notices.get("desktop_enabled") is True,
        environ=dict(os.environ),
    )


def _open(start: Path, config: Path | None, sets: Sequence[str]) -> "Runtime":
    """Open the workspace; called on the screen's opening thread, after the first frame."""
    from fluzo.host import HostOptions, open_host

    return runtime_of(open_host(HostOptions(start, config, tuple(sets))))


def runtime_of(host: "Host") -> "Runtime":
    """An open host as the screen meets it."""
    from fluzo.core.settings import main_model
    from fluzo.host import DRIVE_NAME
    from fluzo.screens.link import Runtime

    facts: dict[str, Any] = {"drive": str(host.root / DRIVE_NAME)}
    if host.settings is not None:
        _, model = main_model(host.settings)
        facts |= {
            "model": model.model,
            "endpoint": model.base_url,
            "context_window": model.context_window,
            "compacts_at": host.compacts_at(),
            "health": _health(host.settings),
            "verification": [list(argv) for argv in host.settings.verification.commands],
        }
    return Runtime(host.port, str(host.root), facts, host.close)


def _health(settings: "Settings") -> list[tuple[str, str]]:
    """What else is on, in words: where telemetry goes, and whether an observer is asked."""
    telemetry, observer = settings.telemetry, settings.decision
    where = "off"
    if telemetry.export_enabled:
        local = any(part in telemetry.otlp_endpoint for part in ("//127.", "//localhost", "//[::1]"))
        where = "local" if local else "exported"
    return [("telemetry", where), ("observer", observer.mode if observer.enabled else "off")]


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


def _bounded(value: object, default: int, low: int, high: int) -> int:
    """A number in its range, else the default: the runtime tells about a wrong one."""
    return value if isinstance(value, int) and low <= value <= high else default


def _flag(sets: Mapping[str, str], table: Mapping[str, Any], key: str) -> bool:
    return sets[f"tui.{key}"] == "true" if f"tui.{key}" in sets else table.get(key) is True


def _shown(root: Path) -> str:
    home = os.environ.get("HOME", "")
    text = str(root)
    return "~" + text.removeprefix(home) if home and (text + "/").startswith(home.rstrip("/") + "/") else text
