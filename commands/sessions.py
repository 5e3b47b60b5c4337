"""`fluzo sessions`: the conversations of this workspace. Opening one is reading; only `resume` goes on."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from fluzo.core.port import Port, SessionDetail, SessionList
from fluzo.core.redact import printable

from .lazy import LookingGroup
from .opening import open_to_look
from .output import LimitOption, PlainOutputOption, check_form, emit_json, emit_lines, table, text_of
from .resume import EPILOG, resume

_EPILOG = """\b
Examples:
  fluzo sessions list
  fluzo sessions open last
  fluzo sessions resume last
"""

app = typer.Typer(
    cls=LookingGroup,
    help="List conversations, read one, or go on with a blocked one.",
    epilog=_EPILOG,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


BeforeOption = Annotated[
    str, typer.Option("--before", metavar="ID", help="Only sessions older than this one, for the next page.")
]


@app.command("list", epilog="\b\nExample:\n  fluzo sessions list --output json\n")
def list_sessions(
    ctx: typer.Context,
    *,
    limit: LimitOption = 20,
    before: BeforeOption = "",
    output: PlainOutputOption = "text",
) -> None:
    """List sessions, the newest first."""
    form = check_form(output)
    with open_to_look(ctx) as host:
        sessions = session_page(host.port, limit, before)
    if form == "json":
        emit_json({"schema_version": 1, "type": "sessions", "sessions": sessions})
    elif not sessions:
        emit_lines(["No sessions are recorded in this workspace." if not before else "There are no older sessions."])
    else:
        emit_lines(table([session_row(session) for session in sessions]))
        if len(sessions) == limit:
            emit_lines([f"older ones: fluzo sessions list --before {sessions[-1]['id']}"])


@app.command("open", epilog="\b\nExample:\n  fluzo sessions open s_41c0 --limit 50\n")
def open_session(
    ctx: typer.Context,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session id, the beginning of one, or last.")],
    *,
    limit: LimitOption = 200,
    before: Annotated[
        int, typer.Option("--before", metavar="POSITION", min=0, help="Only messages before this one.")
    ] = 0,
    output: PlainOutputOption = "text",
) -> None:
    """Read a conversation: the last messages, the oldest of them first."""
    form = check_form(output)
    with open_to_look(ctx) as host:
        detail = host.port.query(SessionDetail(session, limit, before)).result().data
    if form == "json":
        emit_json({"schema_version": 1, "type": "session", **detail})
    else:
        emit_lines(_conversation(detail, limit))


app.command("resume", short_help="Go on with a blocked task, after showing what differs.", epilog=EPILOG)(resume)


def session_page(port: Port, limit: int, before: str) -> list[Mapping[str, Any]]:
    """The newest sessions, or the newest of those older than the one named by its id or a beginning of it."""
    before_id = port.query(SessionDetail(before, limit=1)).result().data["session"]["id"] if before else ""
    sessions: list[Mapping[str, Any]] = port.query(SessionList(limit, before_id)).result().data["sessions"]
    return sessions


def session_row(session: Mapping[str, Any]) -> list[str]:
    """Identity, last use and title of a session, as cells of a table."""
    return [str(session["id"]), str(session["updated_at"])[:16].replace("T", " "), str(session["title"])]


def _conversation(detail: Mapping[str, Any], limit: int) -> Iterator[str]:
    session, messages = detail["session"], detail["messages"]
    yield f"session {text_of(session, 'id')}   {text_of(session, 'title')}"
    yield f"begun {text_of(session, 'created_at')}, last used {text_of(session, 'updated_at')} (UTC)"
    if len(messages) == limit:
        yield f"earlier ones: fluzo sessions open {session['id']} --before {messages[0]['position']}"
    for message in messages:
        yield ""
        yield from _message(message)
    yield ""
    for task in detail["tasks"]:
        reason = f"  [{task['reason']}]" if task.get("reason") else ""
        yield f"task {text_of(task, 'id')}   {text_of(task, 'state')}{reason}"
    yield f'go on: fluzo run --session {session["id"]} "..."'


def _message(message: Mapping[str, Any]) -> Iterator[str]:
    note = "   (cut off)" if message.get("incomplete") else ""
    name = f"result of {message['tool_call_id']}" if message["role"] == "tool" else message["role"]
    yield f"{message['position']}  {printable(str(name), keep_newlines=False)}   {text_of(message, 'at')[:19]}{note}"
    text = printable(str(message.get("text") or "")).rstrip("\n")
    if text:
        yield from (f"  {line}" for line in text.split("\n"))
    for call in message.get("tool_calls") or ():
        yield f"  call {text_of(call, 'id')}: {text_of(call, 'name')} {text_of(call, 'arguments')}"
