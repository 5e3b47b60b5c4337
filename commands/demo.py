"""`fluzo demo`: the real runtime at work on a disposable repository, with a scripted model in place of a server.

Everything lives in one temporary directory: repository, home, settings, consent, history. The user's own are neither
read nor written, no network is used, and at the end the directory is gone. What a demo needs is imported when it is
known which one is wanted: the full screen comes before the runtime.
"""

from typing import Annotated

import typer

from fluzo.core.errors import UsageError
from fluzo.core.redact import printable
from fluzo.simulator import library
from fluzo.simulator.scenario import Demo, Scenario, load_scenario

from .demo_place import directory, isolated
from .front_door import can_show_screen
from .options import global_options
from .output import OutputOption, check_form, emit_json, emit_lines, table

DEFAULT = "python-interval"
_EPILOG = """\b
Examples:
  fluzo demo
  fluzo demo --interactive
  fluzo demo --list
  fluzo demo denied
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(epilog=_EPILOG)
def demo(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to play; see --list.")] = DEFAULT,
    *,
    list_all: Annotated[bool, typer.Option("--list", help="Show what can be played.")] = False,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Open the full screen, and choose from its scenes.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the temporary directory behind and say where.")] = False,
    output: OutputOption = "text",
) -> int:
    """Watch the real runtime repair a small repository. The model is scripted; nothing of yours is touched."""
    form = check_form(output, streams=True)
    if list_all:
        _list(form)
        return 0
    if interactive:
        return _show(ctx, name, form, keep=keep)
    from .demo_play import play

    scenario, played = find(name)
    with directory(keep=keep) as base, isolated(base):
        return play(base, scenario, played, form)


def _show(ctx: typer.Context, name: str, form: str, *, keep: bool) -> int:
    """The full screen; raises UsageError where there is nobody to look at it."""
    if form != "text" or name != DEFAULT:
        raise UsageError(
            "fluzo demo --interactive opens the full screen: it takes no NAME and no --output.",
            hint="Choose in it with /demo, or play one here: fluzo demo --list",
        )
    if not can_show_screen():
        raise UsageError(
            "fluzo demo --interactive opens the full screen, which needs a terminal that can move its cursor.",
            code="terminal_required",
            hint="Without one use: fluzo demo",
        )
    from .demo_screen import show

    return show(global_options(ctx), keep=keep)


def find(name: str) -> tuple[Scenario, Demo]:
    """The scenario of that name, which must be one for demonstrations. Raises UsageError `not_found`."""
    found = {scenario.name: scenario for scenario in playable()}
    scenario = found.get(name)
    if scenario is None or scenario.demo is None:
        shown = printable(name, keep_newlines=False)
        raise UsageError(f"There is no demo called {shown!r}.", code="not_found", hint="See: fluzo demo --list")
    return scenario, scenario.demo


def playable() -> list[Scenario]:
    """Every scenario that can be shown to a person."""
    scenarios = [load_scenario(library.scenario_path(name)) for name in library.scenario_names()]
    return [scenario for scenario in scenarios if scenario.demo is not None]


def _list(form: str) -> None:
    if form == "text":
        emit_lines(table([(scenario.name, scenario.title) for scenario in playable()]))
        return
    demos = [{"name": scenario.name, "title": scenario.title} for scenario in playable()]
    emit_json({"schema_version": 1, "type": "demos", "demos": demos})
