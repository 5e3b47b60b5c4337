"""`fluzo tasks`: what was asked for in this workspace and how it ended; `cancel` and `kill` end one."""

import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from fluzo.core.events import OperationEnded
from fluzo.core.port import TaskDetail, TaskList
from fluzo.core.redact import printable

from .lazy import LookingGroup
from .opening import open_to_look
from .output import LimitOption, PlainOutputOption, check_form, emit_json, emit_lines, has_unicode, table, text_of
from .presenter import Line, check_line, result_line, summary_lines
from .stopping import CANCEL_EPILOG, KILL_EPILOG, TaskArgument, cancel, kill, live_detail

_TITLE_CHARACTERS = 72

_EPILOG = """\b
Examples:
  fluzo tasks list
  fluzo tasks show last
  fluzo tasks cancel t_8f2c
"""

app = typer.Typer(
    cls=LookingGroup,
    help="List tasks, show one in full, cancel or kill one.",
    epilog=_EPILOG,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command("list", epilog="\b\nExample:\n  fluzo tasks list --limit 10\n")
def list_tasks(
    ctx: typer.Context,
    *,
    limit: LimitOption = 20,
    before: Annotated[
        str, typer.Option("--before", metavar="ID", help="Only tasks older than this one, for the next page.")
    ] = "",
    output: PlainOutputOption = "text",
) -> None:
    """List tasks, the newest first."""
    form = check_form(output)
    with open_to_look(ctx) as host:
        before_id = host.port.query(TaskDetail(before)).result().data["task"]["id"] if before else ""
        tasks = host.port.query(TaskList(limit, before_id)).result().data["tasks"]
    if form == "json":
        emit_json({"schema_version": 1, "type": "tasks", "tasks": tasks})
    elif not tasks:
        emit_lines(["No tasks are recorded in this workspace." if not before else "There are no older tasks."])
    else:
        emit_lines(table([_row(task) for task in tasks]))
        if len(tasks) == limit:
            emit_lines([f"older ones: fluzo tasks list --before {tasks[-1]['id']}"])


@app.command("show", epilog="\b\nExample:\n  fluzo tasks show t_8f2c --output json\n")
def show_task(
    ctx: typer.Context,
    task: TaskArgument,
    *,
    output: PlainOutputOption = "text",
) -> None:
    """Show one task: request, operations, checks, changes, result."""
    form = check_form(output)
    with open_to_look(ctx) as host:
        detail = live_detail(host, task)
    if form == "json":
        emit_json({"schema_version": 1, "type": "task", **detail})
    else:
        emit_lines(detail_lines(detail))


app.command("cancel", epilog=CANCEL_EPILOG)(cancel)
app.command("kill", epilog=KILL_EPILOG)(kill)


def _row(task: Mapping[str, Any]) -> list[str]:
    state = f"{task['state']} [{task['reason']}]" if task.get("reason") else str(task["state"])
    when = str(task["created_at"])[:16].replace("T", " ")
    title = " ".join(str(task["text"]).split())
    short = title if len(title) <= _TITLE_CHARACTERS else f"{title[: _TITLE_CHARACTERS - 3]}..."
    return [str(task["id"]), when, state, short]


def detail_lines(detail: Mapping[str, Any]) -> Iterator[str]:
    """Everything about one task that a person looks for, in the order in which they look."""
    task: Mapping[str, Any] = detail["task"]
    state = f"{task['state']}  [{task['reason']}]" if task.get("reason") else str(task["state"])
    yield f"task {text_of(task, 'id')}   session {text_of(task, 'session_id')}   {state}"
    yield f"asked {text_of(task, 'created_at')}, last change {text_of(task, 'updated_at')} (UTC)"
    yield from _block("request", str(task["text"]))
    unicode = has_unicode(sys.stdout)
    yield from _operations(detail.get("operations") or (), unicode)
    yield from _processes(detail.get("processes") or ())
    yield from _pending(detail.get("pending") or ())
    result: Mapping[str, Any] = task.get("result") or {}
    checks = (result.get("verification") or {}).get("commands") or ()
    if checks:
        yield ""
        current = bool((result.get("verification") or {}).get("current"))
        yield from (check_line(check, current=current).text(unicode=unicode) for check in checks)
    yield from _block("answer", str(task.get("final_message") or ""))
    yield from _block("changes", str(result.get("diff") or ""))
    if result:
        yield ""
        yield from summary_lines(result)[:-1]
    yield ""
    for attempt in detail.get("attempts") or ():
        yield f"attempt {text_of(attempt, 'id')}   trace {text_of(attempt, 'trace_id')}   {text_of(attempt, 'state')}"
    yield f"timeline: fluzo replay {text_of(task, 'id')}"


def _operations(operations: Any, unicode: bool) -> Iterator[str]:
    shown = [item for item in operations if item["action"] != "infer"]
    if shown:
        yield ""
        yield from (_operation_line(item).text(unicode=unicode) for item in shown)


def _operation_line(item: Mapping[str, Any]) -> Line:
    tool, action, code = str(item["tool"]), str(item["action"]), str(item["code"])
    ended = OperationEnded(bool(item["ok"]), code, str(item["summary"]), item["result"])
    line = result_line(tool, action, ended)
    if item["state"] == "unknown":
        return line._replace(tone="bad", outcome="OUTCOME UNKNOWN; it is not run again")
    if item["state"] != "known_result":
        return line._replace(tone="bad", outcome=f"{item['state']}  [{code}]" if code else str(item["state"]))
    return line._replace(outcome=f"{line.outcome or 'done'}   by {item['authorized_by']}")


def _processes(processes: Any) -> Iterator[str]:
    for item in processes:
        yield f"  runs now, process {item['pid']}: {printable(str(item['command']), keep_newlines=False)}"


def _pending(pending: Any) -> Iterator[str]:
    for item in pending:
        what = item.get("question") or f"{item.get('tool', '')} {item.get('summary', '')}"
        yield f"? waits for you: {printable(str(what), keep_newlines=False)}"


def _block(title: str, text: str) -> Iterator[str]:
    if text.strip():
        yield ""
        yield title
        yield from (f"  {line}" for line in printable(text).rstrip("\n").split("\n"))
