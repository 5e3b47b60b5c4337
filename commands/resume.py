"""`fluzo sessions resume`: the one way to go on with a task that was blocked or interrupted.

Everything that differs since the task last looked is shown first, and what is unknown is called unknown. Nothing
runs before the user has said yes to exactly that, and nothing unknown is done again unless it was named.
"""

import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from fluzo.core.errors import Cancelled, UsageError
from fluzo.core.port import Port, ResumePlan, ResumeTask, SessionDetail
from fluzo.core.redact import printable

from .asking import END_OF_INPUT, Terminal, asking_terminal
from .opening import WaitOption, open_to_act
from .options import global_options
from .output import OutputOption, check_form
from .run import parse_command, perform
from .view import View

EPILOG = """\b
Examples:
  fluzo sessions resume last
  fluzo sessions resume s_41c0 --yes --extend max_turns=60 "go on, but leave the tests alone"
  fluzo sessions resume last --retry o_9c22d1
"""
_TICK_SECONDS = 0.05


def resume(  # noqa: PLR0913 - one parameter per option of the command line.
    ctx: typer.Context,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session id, the beginning of one, or last.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to tell the agent besides.")] = "",
    *,
    task: Annotated[str, typer.Option("--task", metavar="ID", help="The task to go on with; else the newest.")] = "",
    extend: Annotated[
        list[str] | None,
        typer.Option("--extend", metavar="LIMIT=N", help="Raise a limit of the task. May be repeated."),
    ] = None,
    retry: Annotated[
        list[str] | None,
        typer.Option("--retry", metavar="OPERATION", help="Let this unknown operation be done again. May be repeated."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="COMMAND", help="Let the agent run exactly this command. May be repeated."),
    ] = None,
    yolo: Annotated[
        bool, typer.Option("--yolo", help="Ask for no permission; denials and limits stay. No sandbox.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Go on from the differences that are shown.")] = False,
    wait: WaitOption = 0.0,
    output: OutputOption = "text",
) -> int:
    """Go on with the blocked task of a session, after showing what has changed and what is unknown."""
    form = check_form(output, streams=True)
    limits = dict(parse_limit(item) for item in extend or ())
    commands = tuple(parse_command(item, "--allow") for item in allow or ())
    with open_to_act(ctx, wait) as host, asking_terminal() as terminal:
        plan = host.port.query(ResumePlan(_task_id(host.port, session, task))).result().data
        View(sys.stderr).plain(plan_lines(plan))
        if not yes:
            confirm(plan, terminal)
        command = ResumeTask(
            request_id=secrets.token_hex(16),
            task_id=str(plan["task_id"]),
            reconciled=str(plan["reconciled"]),
            text=text,
            allow=commands,
            extend=limits,
            retry=tuple(retry or ()),
            yolo=yolo or global_options(ctx).yolo,
        )
        return perform(host, command, form, terminal)


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """What a person is shown before a task goes on. Pure."""
    lines = [f"resume  task {plan['task_id']}, attempt {int(plan['attempt_number']) + 1}"]
    differences: Sequence[Mapping[str, Any]] = plan["differences"]
    lines += [f"differs {_shown(item['text'])}" for item in differences] or ["differs nothing that was recorded"]
    for item in plan["unknown"]:
        lines.append(f"UNKNOWN {_shown(item['text'])}")
        if item["risk"]:
            lines.append(f"        {item['risk']}; to allow that: --retry {item['operation_id']}")
    if limit := plan["limit"]:
        used, allowed = f"{limit['used']:g}", f"{limit['allowed']:g}"
        lines.append(f"limit   {limit['limit']}: {used} of {allowed} used; it blocks again at once unless it is raised")
        lines.append(f"        to raise it: --extend {limit['limit']}={limit['raised']:.0f}")
    lines.append("dropped earlier permissions, checks and YOLO; what was used up stays used up")
    return lines


def confirm(plan: Mapping[str, Any], terminal: Terminal | None) -> None:
    """Have the user say yes to the plan. Raises UsageError `confirmation_required`, or Cancelled."""
    if terminal is None:
        raise UsageError(
            "Going on needs your confirmation.",
            code="confirmation_required",
            hint="Read the differences, then repeat the command with --yes.",
            detail=dict(plan),
        )
    terminal.forget_typed()
    print("go on? yes [y]  no [n] > ", end="", file=sys.stderr, flush=True)
    while True:
        line = terminal.read_line()
        if line is None:
            time.sleep(_TICK_SECONDS)
        elif line.strip().lower() in ("y", "yes"):
            return
        elif line == END_OF_INPUT or line.strip().lower() in ("n", "no"):
            raise Cancelled("Nothing was started.")
        else:
            print("yes [y]  no [n] > ", end="", file=sys.stderr, flush=True)


def parse_limit(text: str) -> tuple[str, float]:
    """`max_turns=60` as name and figure. Raises UsageError."""
    name, equals, figure = text.partition("=")
    try:
        value = float(figure)
    except ValueError:
        equals = ""
        value = 0.0
    if not equals or value <= 0:
        raise UsageError(f"--extend {printable(text)}: write LIMIT=NUMBER.", hint="For example: --extend max_turns=60")
    return name.removeprefix("harness.").strip(), value


def _task_id(port: Port, session: str, task: str) -> str:
    """The task that is meant: the named one, or the newest blocked one of the session."""
    if task:
        return task
    tasks = port.query(SessionDetail(session, limit=1)).result().data["tasks"]
    blocked = [item["id"] for item in tasks if item["state"] == "blocked"]
    if blocked:
        return str(blocked[0])
    raise UsageError(
        "No task of that session is blocked; there is nothing to go on with.",
        code="not_found",
        hint='To add a task to its conversation: fluzo run --session ID "..."',
    )


def _shown(text: object) -> str:
    return printable(str(text), keep_newlines=False)
