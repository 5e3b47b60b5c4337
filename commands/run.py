"""`fluzo run`: one task, without the full screen, for people and for scripts (docs/headless.md).

stdout carries the final message, or in the JSON forms JSON and nothing else; all progress is on stderr. The exit
status is that of the result's reason.
"""

import os
import secrets
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from fluzo.core.errors import UsageError, exit_status
from fluzo.core.port import Port, ResumeTask, SessionDetail, StartTask
from fluzo.core.redact import printable
from fluzo.host import Host

from .asking import Terminal, asking_terminal
from .follow import Ended, run_task
from .opening import WaitOption, open_to_act
from .options import global_options
from .output import OutputOption, check_form, emit_json, emit_lines
from .presenter import summary_lines
from .view import View

MAX_PROMPT_BYTES = 1024 * 1024
"""Longest request of a user; what is longer belongs into a file that the agent reads."""

_GRACE_ALLOWANCE_SECONDS = 15.0
"""On top of the commands' own grace period, for the kill, the last commit and a slow disk."""

_EPILOG = """\b
Examples:
  fluzo run "fix the failing test"
  fluzo run --allow "make test" --verify "make test" "make the tests pass"
  git diff | fluzo run --output json -
  fluzo run --session last "now add a test for it"
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(epilog=_EPILOG)
def run(  # noqa: PLR0913 - one parameter per option of the command line.
    ctx: typer.Context,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="What to do; - or no prompt at all reads stdin.")
    ] = None,
    *,
    prompt_file: Annotated[
        str | None, typer.Option("--prompt-file", metavar="FILE", help="Read the prompt from this file.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="COMMAND", help="Let the agent run exactly this command. May be repeated."),
    ] = None,
    verify: Annotated[
        list[str] | None,
        typer.Option("--verify", metavar="COMMAND", help="A check that must pass at the end. May be repeated."),
    ] = None,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Waive the declared checks; the result says so.")
    ] = False,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Go on in this conversation: an id, or last.")
    ] = None,
    skill: Annotated[
        list[str] | None,
        typer.Option("--skill", metavar="FILE", help="Give the agent this file of the workspace. May be repeated."),
    ] = None,
    yolo: Annotated[
        bool, typer.Option("--yolo", help="Ask for no permission; denials and limits stay. No sandbox.")
    ] = False,
    wait: WaitOption = 0.0,
    output: OutputOption = "text",
) -> int:
    """Give the agent a task and see it through, without the full screen."""
    form = check_form(output, streams=True)
    if verify and no_verify:
        raise UsageError("--verify and --no-verify contradict each other.", hint="Leave one of them out.")
    command = StartTask(
        request_id=secrets.token_hex(16),
        text=read_prompt(prompt, prompt_file),
        allow=tuple(parse_command(text, "--allow") for text in allow or ()),
        verify=tuple(parse_command(text, "--verify") for text in verify or ()),
        waive_verification=no_verify,
        skills=tuple(skill or ()),
        yolo=yolo or global_options(ctx).yolo,
    )
    with open_to_act(ctx, wait) as host, asking_terminal() as terminal:
        return perform(host, command._replace(session_id=_session_id(host.port, session or "")), form, terminal)


def perform(host: Host, command: StartTask | ResumeTask, form: str, terminal: Terminal | None) -> int:
    """Run the task in the open workspace, write its result, and return the exit status."""
    view = View(sys.stderr)
    ended = run_task(
        host.port,
        command._replace(interactive=terminal is not None),
        view,
        terminal=terminal,
        streams=form == "stream-json",
        patience_seconds=_patience_seconds(host),
    )
    view.plain(summary_lines(ended.result))
    _write_result(ended, form)
    return exit_status(str(ended.result["reason"]))


def _write_result(ended: Ended, form: str) -> None:
    if form != "text":
        emit_json(ended.result)
        return
    message = printable(str(ended.result.get("message") or "")).rstrip("\n")
    # On a terminal the last answer was streamed already; twice would read like two answers.
    if message and not (ended.message_was_shown and sys.stdout.isatty()):
        emit_lines([message])


def _session_id(port: Port, wanted: str) -> str:
    """The whole id of a session named by prefix or `last`. Raises UsageError `not_found`."""
    if not wanted:
        return ""
    return str(port.query(SessionDetail(wanted, limit=1)).result().data["session"]["id"])


def _patience_seconds(host: Host) -> float:
    grace = host.settings.tools.shell.termination_grace_seconds if host.settings else 0.0
    return grace + _GRACE_ALLOWANCE_SECONDS


# --- the prompt and the commands --------------------------------------------------------------------------------


def read_prompt(prompt: str | None, prompt_file: str | None) -> str:
    """The user's request, from the argument, a file or stdin. Stdin is read only when it is the prompt.

    Raises UsageError when there is none, when there are two, or when it is not text.
    """
    if prompt_file is not None:
        if prompt is not None:
            raise UsageError("There is a prompt and a --prompt-file.", hint="Leave one of them out.")
        return _checked(_file_bytes(prompt_file), prompt_file)
    if prompt not in (None, "-"):
        return _checked(os.fsencode(prompt), "the prompt")
    if prompt is None and sys.stdin.isatty():
        raise UsageError("There is no prompt.", hint='Try: fluzo run "fix the failing test"')
    return _checked(sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1), "stdin")


def _file_bytes(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return file.read(MAX_PROMPT_BYTES + 1)
    except OSError as exc:
        shown = printable(name, keep_newlines=False)
        raise UsageError(f"{shown} cannot be read: {exc.strerror}.", hint="Name a text file.") from exc


def _checked(data: bytes, source: str) -> str:
    shown = printable(source, keep_newlines=False)
    if len(data) > MAX_PROMPT_BYTES:
        raise UsageError(f"The prompt is longer than {MAX_PROMPT_BYTES} bytes.", hint="Put it into a file and name it.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise UsageError(f"The prompt is not UTF-8 text ({shown}, byte {exc.start}).") from exc
    if "\0" in text:
        raise UsageError(f"The prompt holds a NUL character ({shown}).")
    if not text.strip():
        raise UsageError("The prompt is empty.", hint='Try: fluzo run "fix the failing test"')
    return text


def parse_command(text: str, option: str) -> tuple[str, ...]:
    """The exact argument vector that a command line means; nothing in it is expanded. Raises UsageError."""
    try:
        argv = tuple(shlex.split(text))
    except ValueError as exc:
        raise UsageError(f"{option}: the command line is not complete: {exc}.") from exc
    if not argv or not argv[0].strip():
        raise UsageError(f"{option} names no command.", hint=f'Write it like this: {option} "cargo test"')
    return argv
