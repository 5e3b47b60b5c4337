"""How a command opens the workspace that the invocation names, to act in it or only to look back at it."""

from pathlib import Path

import typer

from fluzo.host import Host, HostOptions, open_host

from .options import global_options


def open_to_act(ctx: typer.Context) -> Host:
    """Open the workspace as its owner. Raises ConfigError, WorkspaceError and StorageError before anything begins."""
    options = global_options(ctx)
    sets = tuple(f"{key}={value}" for key, value in options.sets.items())
    return open_host(HostOptions(options.workspace or Path.cwd(), options.config, sets))


def open_to_look(ctx: typer.Context) -> Host:
    """Open the workspace for reading: no provider, no tool, nothing created; what is not there lists as nothing."""
    options = global_options(ctx)
    return open_host(HostOptions(options.workspace or Path.cwd(), options.config, read_only=True))
