"""The options that stand before the command name, as one value that every command can read.

`cli.py` fills `GlobalOptions` once for an invocation; nothing changes it afterwards. Paths are as typed:
whoever opens them says what is wrong with them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fluzo.core.named import NamedTuple

if TYPE_CHECKING:
    import typer


class GlobalOptions(NamedTuple):
    """`fluzo [--workspace] [--config] [--yolo] [--set key=value]... COMMAND`.

    `workspace`, `config`, `animation_fps` and `dev_menu` are None when they were not given; `sets` keeps the order of
    the command line, and of a key that was given twice the last value.
    """

    workspace: Path | None = None
    config: Path | None = None
    yolo: bool = False
    sets: Mapping[str, str] = {}
    animation_fps: int | None = None
    dev_menu: bool | None = None


def global_options(ctx: "typer.Context") -> GlobalOptions:
    """Return the options of this invocation; the defaults when a command is invoked on its own."""
    options = ctx.find_root().obj
    return options if isinstance(options, GlobalOptions) else GlobalOptions()
