"""`fluzo tasks cancel` and `fluzo tasks kill`: end a task, wherever it runs.

What runs in another process is ended by that process, asked through its control socket, or not at all: nobody is
signalled from here. What runs nowhere is a matter of records. Neither undoes anything that was done.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from fluzo.core.errors import Cancelled, FluzoError, OutcomeUnknown, UsageError, WorkspaceError
from fluzo.core.port import Ack, CancelTask, ForceStopTask, TaskDetail
from fluzo.core.redact import printable
from fluzo.host import Host, HostOptions, load_settings

from .asking import END_OF_INPUT, Terminal, asking_terminal
from .follow import refusal
from .opening import open_to_keep, open_to_look
from .options import global_options
from .output import PlainOutputOption, check_form, emit_json, emit_lines
from .view import View

CANCEL_EPILOG = "\b\nExamples:\n  fluzo tasks cancel last\n  fluzo tasks cancel t_8f2c --output json\n"
KILL_EPILOG = "\b\nExamples:\n  fluzo tasks kill last\n  fluzo tasks kill t_8f2c --yes\n"

DEFAULT_GRACE_SECONDS = 5.0
ALLOWANCE_SECONDS = 5.0
"""On top of the grace period: for the kill, the last look at the changes and the commit of the result."""
KILL_PATIENCE_SECONDS = 25.0
"""On top of that when nothing stronger is left to try: a machine under load gets its time."""
POLL_SECONDS = 0.1
TYPED_TICK_SECONDS = 0.05
WORD = "kill"
RISK = "what these commands are doing is cut off half-way; edits made so far stay, nothing is rolled back"

TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="A task id, the beginning of one, or last.")]


def cancel(ctx: typer.Context, task: TaskArgument, *, output: PlainOutputOption = "text") -> int:
    """Cancel a task: nothing new begins, its commands are asked to end. Edits made so far stay."""
    form = check_form(output)
    with open_to_look(ctx) as host:
        found = host.port.query(TaskDetail(task)).result().data["task"]
        return _stop(ctx, host, CancelTask(str(found["id"])), form, _grace_seconds(ctx, host))


def kill(
    ctx: typer.Context,
    task: TaskArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking again.")] = False,
    output: PlainOutputOption = "text",
) -> int:
    """Force a task to stop: its commands are killed at once. Edits made so far stay."""
    form = check_form(output)
    with open_to_look(ctx) as host:
        detail = live_detail(host, task)
        if not yes and detail["task"]["state"] not in ("cancelled", "completed", "failed"):
            with asking_terminal() as terminal:
                confirm(detail, terminal)
        return _stop(ctx, host, ForceStopTask(str(detail["task"]["id"])), form, KILL_PATIENCE_SECONDS)


def live_detail(host: Host, wanted: str) -> Mapping[str, Any]:
    """A task as its owner sees it, with its open questions and commands; as the store has it where nobody answers."""
    detail: Mapping[str, Any] = host.port.query(TaskDetail(wanted)).result().data
    if detail["task"]["state"] not in ("blocked", "cancelled", "completed", "failed"):
        with suppress(FluzoError):
            owner = host.owner()
            if owner is not None:
                with owner:
                    return owner.query(TaskDetail(str(detail["task"]["id"]))).data
    return detail


def kill_lines(detail: Mapping[str, Any]) -> list[str]:
    """What a person is shown before a task is killed. Pure."""
    task: Mapping[str, Any] = detail["task"]
    title = printable(" ".join(str(task["text"]).split()), keep_newlines=False)
    lines = [f"kill    task {task['id']}, {task['state']}: {title}"]
    processes: Sequence[Mapping[str, Any]] = detail.get("processes") or ()
    for process in processes:
        lines.append(f"running process {process['pid']}: {printable(str(process['command']), keep_newlines=False)}")
    return [*(lines if processes else [*lines, "running no command of it that is known"]), f"risk    {RISK}"]


def confirm(detail: Mapping[str, Any], terminal: Terminal | None) -> None:
    """Have the user type that the task is to be killed. Raises UsageError `confirmation_required`, or Cancelled."""
    task_id = str(detail["task"]["id"])
    if terminal is None:
        raise UsageError(
            f"Killing task {task_id} needs your confirmation: {RISK}.",
            code="confirmation_required",
            hint=f"Repeat it with --yes: fluzo tasks kill {task_id} --yes",
            detail={"task_id": task_id, "processes": list(detail.get("processes") or ())},
        )
    View(sys.stderr).plain(kill_lines(detail))
    terminal.forget_typed()
    print(f"type {WORD} to do it, anything else leaves it alone > ", end="", file=sys.stderr, flush=True)
    while (line := terminal.read_line()) is None:
        time.sleep(TYPED_TICK_SECONDS)
    if line == END_OF_INPUT or line.strip().lower() != WORD:
        raise Cancelled(f"Task {task_id} was left alone.")


# --- ending it ------------------------------------------------------------------------------------------------


def _stop(ctx: typer.Context, host: Host, command: CancelTask | ForceStopTask, form: str, grace_seconds: float) -> int:
    already = _already_cancelled(host, command.task_id)
    if not already:
        ack = _deliver(ctx, host, command)
        if not ack.accepted:
            raise refusal(ack)
    task = _wait(host, command.task_id, grace_seconds + ALLOWANCE_SECONDS)
    state, reason = str(task["state"]), str(task["reason"])
    if state == "blocked":
        raise OutcomeUnknown(
            f"Task {command.task_id} is blocked instead; not all of it is known to have ended.",
            code="task_interrupted" if reason == "task_interrupted" else "outcome_unknown",
            hint=f"See what is known of it: fluzo tasks show {command.task_id}",
        )
    if state not in ("cancelled", "completed", "failed"):
        raise OutcomeUnknown(
            f"Task {command.task_id} was told to stop and has not ended yet.",
            code="still_stopping",
            hint=f"Look again: fluzo tasks show {command.task_id}\nEnd it by force: fluzo tasks kill {command.task_id}",
        )
    if form == "json":
        action = "kill" if isinstance(command, ForceStopTask) else "cancel"
        said = {"task_id": command.task_id, "state": state, "reason": reason, "already": already}
        emit_json({"schema_version": 1, "type": "task_stopped", "action": action, **said})
    else:
        emit_lines([_words(command.task_id, state, already=already)])
    return 0


def _already_cancelled(host: Host, task_id: str) -> bool:
    """Raises UsageError `task_ended` for a task with another end: what is over cannot be cancelled."""
    state = _state(host, task_id)
    if state in ("completed", "failed"):
        raise UsageError(
            f"Task {task_id} has ended: it is {state}.",
            code="task_ended",
            hint=f"See how: fluzo tasks show {task_id}",
        )
    return state == "cancelled"


def _words(task_id: str, state: str, *, already: bool) -> str:
    if state != "cancelled":
        return f"task {task_id} was {state} before it could be stopped"
    return f"task {task_id} was cancelled already" if already else f"task {task_id} is cancelled; its edits stay"


def _deliver(ctx: typer.Context, host: Host, command: CancelTask | ForceStopTask) -> Ack:
    """Hand the command to who owns the workspace; where nobody does, do it here."""
    owner = host.owner()
    if owner is None:
        with open_to_keep(ctx) as keeper:
            return keeper.port.dispatch(command).result()
    with owner:
        try:
            return owner.dispatch(command)
        except WorkspaceError:
            # An owner that ends its task and itself may take the answer with it.
            if _state(host, command.task_id) == "cancelled":
                return Ack(True, command.task_id)
            raise


def _state(host: Host, task_id: str) -> str:
    return str(host.port.query(TaskDetail(task_id)).result().data["task"]["state"])


def _wait(host: Host, task_id: str, seconds: float) -> Mapping[str, Any]:
    """The task once it stands still, or as it is when the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        task: Mapping[str, Any] = host.port.query(TaskDetail(task_id)).result().data["task"]
        if task["state"] in ("blocked", "cancelled", "completed", "failed") or time.monotonic() >= deadline:
            return task
        time.sleep(POLL_SECONDS)


def _grace_seconds(ctx: typer.Context, host: Host) -> float:
    """What the settings give commands to end by themselves; an owner may have been started with other ones."""
    options = global_options(ctx)
    with suppress(FluzoError):
        loaded = load_settings(host.root, HostOptions(host.root, options.config))
        return loaded.settings.tools.shell.termination_grace_seconds
    return DEFAULT_GRACE_SECONDS
