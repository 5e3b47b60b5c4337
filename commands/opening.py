"""How a command opens the workspace that the invocation names, to act in it or only to look back at it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fluzo.core.errors import UsageError, WorkspaceError
from fluzo.core.redact import printable
from fluzo.host import Host, HostOptions, open_host, open_keeper

from .options import global_options

MAX_WAIT_SECONDS = 7 * 24 * 3600.0

WaitOption = Annotated[
    float,
    typer.Option("--wait", metavar="SECONDS", help="Wait this long when another Fluzo works in this workspace."),
]


def open_to_act(ctx: typer.Context, wait_seconds: float = 0.0) -> Host:
    """Open the workspace as its owner, after waiting for another one for `wait_seconds` at most.

    Raises ConfigError, WorkspaceError and StorageError before anything begins, UsageError for a wait without an end.
    """
    if not 0 <= wait_seconds <= MAX_WAIT_SECONDS:
        raise UsageError(f"--wait takes 0 to {MAX_WAIT_SECONDS:.0f} seconds.")
    options = global_options(ctx)
    sets = tuple(f"{key}={value}" for key, value in options.sets.items())
    return open_host(
        HostOptions(_workspace(ctx), options.config, sets, wait_seconds=wait_seconds, waiting=_say_waiting)
    )


def open_to_look(ctx: typer.Context) -> Host:
    """Open the workspace for reading: no provider, no tool, nothing created; what is not there lists as nothing."""
    return open_host(HostOptions(_workspace(ctx), global_options(ctx).config, read_only=True))


def open_to_keep(ctx: typer.Context) -> Host:
    """Open the workspace as its owner with nothing that can run. Raises WorkspaceError and StorageError."""
    return open_keeper(HostOptions(_workspace(ctx)))


def _workspace(ctx: typer.Context) -> Path:
    return global_options(ctx).workspace or Path.cwd()


def _say_waiting(refused: WorkspaceError) -> None:
    print(f"{printable(refused.message, keep_newlines=False)}\n  waiting for it; Ctrl+C ends that", file=sys.stderr)
    sys.stderr.flush()
