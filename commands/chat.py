"""The full screen over this process's own runtime.

Invariant: up to the first frame only the screen and its `[tui]` table are loaded; the runtime is imported and opened
behind it, on another thread, and its errors are told in the screen.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fluzo.screens.options import Options
from fluzo.screens.program import run_screen

from .front_door import FILE_NAME, find_root
from .options import GlobalOptions

if TYPE_CHECKING:
    from fluzo.core.settings import Settings
    from fluzo.host import Host
    from fluzo.screens.link import Opener, Runtime

REDUCED_MOTION = "FLUZO_REDUCED_MOTION"
"""Set and not 0: nothing moves, whatever is saved."""


def chat(given: GlobalOptions) -> int:
    """Show the full screen for a workspace that has settings; the exit status."""
    start = (given.workspace or Path.cwd()).absolute()
    root = find_root(start)
    options = screen_options(root, tui_table(given.config or root / FILE_NAME), given)
    flags = tuple(f"{key}={value}" for key, (value, _) in _flags(given).items())

    def opener() -> "Opener":
        return lambda: _open(start, given.config, flags)

    return run_screen(options, opener)


def screen_options(root: Path, table: Mapping[str, Any], given: GlobalOptions) -> Options:
    """What the screen is told before the runtime is there: from the command line, else the `[tui]` table."""
    flags = _flags(given)
    still = os.environ.get(REDUCED_MOTION, "") not in ("", "0")
    locks = {key: option for key, (_, option) in flags.items()}

    def value(key: str) -> Any:
        if f"tui.{key}" in flags:
            return flags[f"tui.{key}"][0]
        found: Any = table
        for part in key.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return found

    return Options(
        folder=_shown(root),
        root=str(root),
        theme=str(value("theme") or "default"),
        animation_fps=_fps(value("animation_fps")),
        reduced_motion=still or _on(value("reduced_motion")),
        yolo=given.yolo,
        notice_seconds=_bounded(value("notifications.duration_seconds"), 5, 1, 30),
        max_notices=_bounded(value("notifications.max_visible"), 3, 1, 5),
        desktop_notices=_on(value("notifications.desktop_enabled")),
        render_diagnostics=_on(value("flags.render_diagnostics")),
        dev_menu=_on(value("dev_menu")),
        locks={**locks, "tui.reduced_motion": REDUCED_MOTION} if still else locks,
        environ=dict(os.environ),
    )


def _flags(given: GlobalOptions) -> dict[str, tuple[str, str]]:
    """The settings that the command line fixes for this run, each with its value and the option that does."""
    flags = {key: (value, "--set") for key, value in given.sets.items()}
    if given.animation_fps is not None:
        flags["tui.animation_fps"] = (str(given.animation_fps), "--animation-fps")
    if given.dev_menu is not None:
        flags["tui.dev_menu"] = (str(given.dev_menu).lower(), "--dev-menu" if given.dev_menu else "--no-dev-menu")
    return flags


def _open(start: Path, config: Path | None, sets: Sequence[str]) -> "Runtime":
    """Open the workspace; called on the screen's opening thread, after the first frame."""
    from fluzo.host import HostOptions, open_host

    return runtime_of(open_host(HostOptions(start, config, tuple(sets), at_once=False)))


def runtime_of(host: "Host") -> "Runtime":
    """An open host as the screen meets it."""
    from fluzo.core.settings import main_model
    from fluzo.host import DRIVE_NAME, prepare_requests
    from fluzo.screens.link import Runtime

    facts: dict[str, Any] = {"drive": str(host.root / DRIVE_NAME)}
    if host.settings is not None:
        _, model = main_model(host.settings)
        facts |= {
            "model": model.model,
            "endpoint": model.base_url,
            "context_window": model.context_window,
            "grace_seconds": host.settings.tools.shell.termination_grace_seconds,
            "compacts_at": host.compacts_at(),
            "health": _health(host.settings),
            "verification": [list(argv) for argv in host.settings.verification.commands],
        }
    return Runtime(host.port, str(host.root), facts, host.close, host.redact, prepare_requests)


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
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and low <= value <= high else default


def _on(value: object) -> bool:
    """A switch, from the file or as the command line writes it."""
    return value is True or value == "true"


def _shown(root: Path) -> str:
    home = os.environ.get("HOME", "")
    text = str(root)
    return "~" + text.removeprefix(home) if home and (text + "/").startswith(home.rstrip("/") + "/") else text
