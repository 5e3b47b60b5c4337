"""`fluzo replay`: the recorded timeline of a task. It only reads: no provider, no tool, nothing resumed (PRD 24)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import typer

from fluzo.core.port import EventPage, Port, TaskDetail
from fluzo.core.redact import printable

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
        task_json = host.port.query(TaskDetail(task)).result().data["task"]
        told = tell(recorded(host.port, task_json["id"], after, limit), task_json, whole=not limit and not after)
        if form == "json":
            records = [record for record, _ in told]
            events = [record for record in records if record["type"] != GAP]
            gaps = [record for record in records if record["type"] == GAP]
            emit_json({"schema_version": 1, "type": "replay", "task": task_json, "events": events, "gaps": gaps})
            return
        for record, lines in told:
            if form == "stream-json":
                emit_json(record)
            else:
                emit_lines(lines)
        if form == "text" and task_json["state"] in _LIVE:
            emit_lines([_note("the task is still running")])


GAP = "gap"
"""Type of a record that stands for what is missing: `missing` numbers, from `first` to `last`, and a `text`."""


def recorded(port: Port, task_id: str, after: int, limit: int) -> Iterator[dict[str, Any]]:
    """The task's events in order, read page by page, and a gap wherever the store has lost numbers between two.

    A `limit` of 0 is no limit; gaps do not count.
    """
    left, last = limit, 0
    while True:
        wanted = min(_PAGE, left) if limit else _PAGE
        page = port.query(EventPage(task_id, after, wanted)).result().data["events"]
        for event in page:
            if last and event["seq"] > last + 1:
                yield from _missing(port, last, event["seq"])
            last = event["seq"]
            yield event
        left -= len(page)
        if len(page) < wanted or (limit and left <= 0):
            return
        after = last


def _missing(port: Port, after: int, before: int) -> Iterator[dict[str, Any]]:
    """One gap for each run of numbers between the two that no event of the whole store has."""
    expected = after + 1
    while expected < before:
        limit = min(_PAGE, before - expected)
        page = port.query(EventPage("", expected - 1, limit)).result().data["events"]
        numbers = [event["seq"] for event in page if event["seq"] < before] or [before]
        for number in numbers:
            if number > expected:
                text = f"events {expected} to {number - 1} are not in the store: deleted, or lost"
                yield _gap(text, first=expected, last=number - 1, missing=number - expected)
            expected = number + 1


def _gap(text: str, **numbers: int) -> dict[str, Any]:
    return {"schema_version": 1, "type": GAP, **numbers, "text": text}


def tell(
    records: Iterable[dict[str, Any]], task: Mapping[str, Any], *, whole: bool
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Each record with its lines for people, and after the whole of them a gap for each thing that they leave open."""
    timeline = Timeline()
    types: set[str] = set()
    state = ""
    for record in records:
        types.add(record["type"])
        if record["type"] == GAP:
            yield record, [_note(record["text"])]
            continue
        if record["type"] == "TaskStateChanged":
            state = str(record["data"].get("new", ""))
        yield record, [moment.line() for moment in timeline.moments(record)]
    if whole:
        for text in _open(timeline, types, state, task):
            yield _gap(text), [_note(text)]


def _open(timeline: Timeline, types: set[str], state: str, task: Mapping[str, Any]) -> list[str]:
    live = task["state"] in _LIVE
    found = [] if live else timeline.gaps(live=False)
    if "TaskCreated" not in types:
        found.append("the beginning of the task is not in the store: deleted, or lost")
    if not (live or found) and state != task["state"]:
        found.append(f"no event says how the task became {task['state']}")
    return found


def _note(text: str) -> str:
    return f"{'':<33}  {printable(text, keep_newlines=False)}"


_LIVE = ("pending", "ready", "running", "waiting", "stopping")
