"""What `fluzo` alone does: the welcome and the wizard where there are no settings yet, then the full screen.

Invariant: a settings file that exists, valid or not, is never met with a wizard; a broken one gets its diagnosis.
"""

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fluzo.core.errors import ConfigError, UsageError

from .options import GlobalOptions, global_options

if TYPE_CHECKING:
    import typer

FILE_NAME = ".fluzo"
_INSTEAD = 'Without one use: fluzo run "fix the failing test", or see: fluzo --help'


def front_door(ctx: "typer.Context") -> int:
    """Set the workspace up if it has no settings, then show the full screen; the exit status.

    Raises ConfigError `configuration_required` without settings and somebody to ask for them, UsageError
    `terminal_required` where there is no terminal for the screen.
    """
    options = global_options(ctx)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    there = has_settings(options.workspace, options.config)
    if not terminal and not there:
        raise ConfigError(
            "This folder has no .fluzo yet, and there is no terminal to ask on; nothing was written.",
            code="configuration_required",
            hint="Run fluzo in a terminal, or give the answers as flags: fluzo init --help",
        )
    if not can_show_screen():
        raise UsageError(
            "fluzo alone opens the full screen, which needs a terminal that can move its cursor.",
            code="terminal_required",
            hint=_INSTEAD,
        )
    if not there:
        from .init import init

        init(ctx)
    return _show(options)


def at_once() -> int | None:
    """`fluzo` without a word more, where there is nothing to ask or to refuse: the full screen, without the library
    that reads command lines, a quarter of the time to the first frame. None where there is more to do than that.
    """
    return _show(GlobalOptions()) if can_show_screen() and has_settings(None, None) else None


def _show(options: GlobalOptions) -> int:
    # Nothing made on the way to the first frame is garbage; the screen switches collection on again behind it.
    gc.disable()
    from .chat import chat

    return chat(options)


def can_show_screen() -> bool:
    """Whether this process has a terminal that can move its cursor."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def find_root(start: Path) -> Path:
    """Where `.fluzo` is looked for before the runtime has asked Git: the nearest folder above with a `.git`."""
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return folder
    return start


def has_settings(workspace: Path | None, config: Path | None) -> bool:
    """Whether there is a settings file at all."""
    path = config if config is not None else find_root((workspace or Path.cwd()).absolute()) / FILE_NAME
    return os.path.lexists(path)
