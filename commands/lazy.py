"""The root group of the command line: it knows commands by name, and loads nothing that the line does not ask for.

Two costs are kept away from every invocation: the modules of the commands that were not named, and pydantic, which
Typer loads to convert the first parameter it meets, even one that was not given.
"""

import difflib
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer
from typer._click.shell_completion import CompletionItem
from typer.core import TyperArgument, TyperGroup, TyperOption

from fluzo.core.errors import Cancelled, UsageError

if TYPE_CHECKING:
    # Typer carries its own Click and does not export the types that its methods name; overriding them needs these.
    from typer._click.core import Command, Context
    from typer._click.formatting import HelpFormatter


class LazyGroup(TyperGroup):
    """A group whose commands are the modules `fluzo.commands.NAME`, each imported only to be used.

    `lines` maps each shown name to its line of help, `aliases` a name that is not shown to one that is.
    """

    lines: Mapping[str, str] = {}
    aliases: Mapping[str, str] = {}

    def get_params(self, ctx: "Context") -> list[Any]:
        return [_lean(param) for param in super().get_params(ctx)]

    def list_commands(self, ctx: "Context") -> list[str]:
        return list(self.lines)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        name = self.aliases.get(cmd_name, cmd_name)
        if name not in self.lines:
            return None
        command = typer.main.get_command(importlib.import_module(f"fluzo.commands.{name}").app)
        command.name = name
        _make_lean(command, ctx)
        return command

    def resolve_command(self, ctx: "Context", args: list[str]) -> "tuple[str | None, Command | None, list[str]]":
        command = self.get_command(ctx, args[0])
        if command is None and not ctx.resilient_parsing:
            raise self._unknown(args[0])
        return args[0], command, args[1:]

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.lines.items()))

    def shell_complete(self, ctx: "Context", incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        # Typer's own answer would import every command that matches, for its line of help.
        return [CompletionItem(name, help=line) for name, line in self.lines.items() if name.startswith(incomplete)]

    def invoke(self, ctx: "Context") -> object:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, typer.Abort) as exc:
            # Typer would turn the first into a bare status; the JSON outputs owe their reader an object.
            raise Cancelled("Interrupted.") from exc

    def _unknown(self, name: str) -> UsageError:
        if len(name.split()) > 1:
            return UsageError("A prompt is not a command.", hint='Try: fluzo run "YOUR PROMPT"')
        near = difflib.get_close_matches(name, [*self.lines, *self.aliases], n=1)
        guess = f"; did you mean {near[0]}?" if near else "."
        return UsageError(f"{name!r} is not a command{guess}", hint="Try: fluzo --help")


class LookingGroup(TyperGroup):
    """A group that looks when it is told nothing more: without a subcommand it is `looks`, options and all."""

    looks = "list"

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        named = bool(args) and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or ctx.resilient_parsing else [self.looks, *args])

    def collect_usage_pieces(self, ctx: "Context") -> list[str]:
        return ["[COMMAND]", "[ARGS]..."]

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        super().format_commands(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(f"Without a command: {self.looks}.")


class _LeanOption(TyperOption):
    def process_value(self, ctx: "Context", value: Any) -> Any:
        return _ready(self, ctx, value) if _is_ready(self, value) else super().process_value(ctx, value)


class _LeanArgument(TyperArgument):
    def process_value(self, ctx: "Context", value: Any) -> Any:
        return _ready(self, ctx, value) if _is_ready(self, value) else super().process_value(ctx, value)


def _is_ready(param: TyperOption | TyperArgument, value: object) -> bool:
    """True for what a conversion would return unchanged: nothing, text for text, a default of its own type."""
    wanted = param.type_descriptor.annotation
    if param.type_descriptor.parameter_info.parser is not None:
        return False
    if value is None:
        return not param.required
    return type(value) is wanted or wanted == list[str]


def _ready(param: TyperOption | TyperArgument, ctx: "Context", value: object) -> object:
    return value if param.callback is None else param.callback(ctx, param, value)


def _lean(param: object) -> object:
    if type(param) is TyperOption:
        param.__class__ = _LeanOption
    elif type(param) is TyperArgument:
        param.__class__ = _LeanArgument
    return param


def _make_lean(command: "Command", ctx: "Context") -> None:
    # Typer makes the help option when it is first wanted and keeps it, so it can be wanted now.
    for param in (*command.params, command.get_help_option(ctx)):
        _lean(param)
    for child in getattr(command, "commands", {}).values():
        _make_lean(child, ctx)
