"""The command line: every command's name, its one line of help, and the options that stand before it.

`fluzo --help` imports Typer and nothing of a command: the names and lines are the strings of `COMMANDS`, and a
command's module is imported when it is invoked, or when its own `--help` is asked for.

To add a command NAME, write `commands/NAME.py`, add a line to `COMMANDS`, and define in the module

    app = typer.Typer(help="...", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

With exactly one `@app.command()` and no `@app.callback()` the command is `fluzo NAME`; with several it is
`fluzo NAME SUBCOMMAND`. A command function may take `ctx: typer.Context` and read `options.global_options(ctx)`. It
returns None (exit 0) or its exit status, and raises a FluzoError, which `fluzo.__main__` reports.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import fluzo
from fluzo.core.errors import UsageError

from .lazy import LazyGroup
from .options import GlobalOptions

COMMANDS = {
    "run": "Give the agent a task and see it through, without the full screen.",
    "init": "Set up this workspace: endpoint, model, size, checks.",
    "tasks": "List tasks, show one in full, cancel or kill one.",
    "sessions": "List conversations, read one, or go on with a blocked one.",
    "replay": "Show again what happened in a task. Nothing runs.",
    "history": "List what is stored for this workspace.",
    "config": "Show and change the settings, and consent to them.",
    "doctor": "Check this machine and workspace, and say what to repair.",
    "demo": "Watch the real runtime repair a small repository.",
}
ALIASES = {"task": "tasks", "session": "sessions"}
"""Names that work and are not shown."""

MAX_FPS = 60

EPILOG = """\b
Examples:
  fluzo init
  fluzo run "fix the failing test"
  fluzo -C ../service run --allow "make test" "make the tests pass"
  fluzo demo
"""


class RootGroup(LazyGroup):
    lines = COMMANDS
    aliases = ALIASES


app = typer.Typer(
    cls=RootGroup,
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"fluzo {fluzo.__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    *,
    workspace: Annotated[
        str | None, typer.Option("--workspace", "-C", metavar="PATH", help="Work in this directory instead of here.")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="PATH", help="Read this file instead of the workspace's .fluzo.")
    ] = None,
    yolo: Annotated[
        bool, typer.Option("--yolo", help="Ask for no permission; denials and limits stay. No sandbox.")
    ] = False,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Use this setting for this invocation. May be repeated."),
    ] = None,
    animation_fps: Annotated[
        str | None,
        typer.Option("--animation-fps", metavar="N", help="Frames per second of the logo, 0 to 60; 0 is still."),
    ] = None,
    dev_menu: Annotated[
        bool | None,
        typer.Option("--dev-menu/--no-dev-menu", help="Offer the developer menu of the full screen (F12), or not."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> int | None:
    """A local-first agentic coding runtime: authorized, journaled, verified."""
    ctx.obj = GlobalOptions(
        workspace=None if workspace is None else Path(workspace),
        config=None if config is None else Path(config),
        yolo=yolo,
        sets=_parse_sets(sets or ()),
        animation_fps=_parse_fps(animation_fps),
        dev_menu=dev_menu,
    )
    return _front_door(ctx) if ctx.invoked_subcommand is None else None


def _parse_sets(items: Sequence[str]) -> dict[str, str]:
    sets: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            hint = "Write it as key=value, for example: --set harness.max_turns=20"
            # The item may hold a secret in the wrong form, so it is not repeated.
            raise UsageError("--set needs a key and a value.", hint=hint)
        sets[key.strip()] = value
    return sets


def _parse_fps(text: str | None) -> int | None:
    """A rate from 0 to 60, read here because a typed option would cost every start the conversion library."""
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) <= MAX_FPS):
        raise UsageError(f"--animation-fps is a whole number from 0 to {MAX_FPS}.", hint="Try: --animation-fps 30")
    return int(text)


def _front_door(ctx: typer.Context) -> int:
    """What `fluzo` alone does."""
    from .front_door import front_door

    return front_door(ctx)


def main(argv: Sequence[str]) -> int:
    """Run one command line and return its exit status.

    Raises UsageError for a line that cannot be understood, and whatever FluzoError the command raises.
    """
    command = typer.main.get_command(app)
    try:
        status = command.main(args=list(argv), prog_name="fluzo", standalone_mode=False)
    except typer.TyperException as exc:
        context = getattr(exc, "ctx", None)
        path = context.command_path if context is not None else "fluzo"
        raise UsageError(exc.format_message(), hint=f"Try: {path} --help") from exc
    return status if isinstance(status, int) else 0
