"""`fluzo replay`: the recorded timeline of a task. It only reads: no provider, no tool, nothing resumed (PRD 24)."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from fluzo.core.port import EventPage, Port, TaskDetail

from .opening import open_to_look
from .output import OutputOption, check_form, emit_json, emit_lines
from .timeline import Timeline

_PAGE = 500

_EPILOG = """\b
Examples:
  fluzo replay last
  fluzo replay t_8f2c --output stream-json
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(epilog=_EPILOG)
def replay(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task id, the beginning of one, or last.")],
    *,
    after: Annotated[int, typer.Option("--after", metavar="SEQ", min=0, help="Begin after this event.")] = 0,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="At most N events; 0 is all.")] = 0,
    output: OutputOption = "text",
) -> None:
    """Show again what happened in a task. Nothing runs."""
    form = check_form(output, streams=True)
    with open_to_look(ctx) as host:
        detail = host.port.query(TaskDetail(task)).result().data
        records = recorded(host.port, detail["task"]["id"], after, limit)
        if form == "stream-json":
            for record in records:
                emit_json(record)
        elif form == "json":
            emit_json({"schema_version": 1, "type": "replay", "task": detail["task"], "events": list(records)})
        else:
            _show(records, detail["task"], whole=not limit)


def recorded(port: Port, task_id: str, after: int, limit: int) -> Iterator[dict[str, Any]]:
    """The task's events in order, read page by page; a `limit` of 0 is no limit."""
    left = limit
    while True:
        wanted = min(_PAGE, left) if limit else _PAGE
        page = port.query(EventPage(task_id, after, wanted)).result().data["events"]
        yield from page
        left -= len(page)
        if len(page) < wanted or (limit and left <= 0):
            return
        after = page[-1]["seq"]


def _show(records: Iterator[dict[str, Any]], task: dict[str, Any], *, whole: bool) -> None:
    timeline = Timeline()
    for record in records:
        emit_lines(moment.line() for moment in timeline.moments(record))
    if whole:
        emit_lines(f"{'':<33}  {gap}" for gap in timeline.gaps(live=task["state"] in _LIVE))


_LIVE = ("pending", "ready", "running", "waiting", "stopping")
