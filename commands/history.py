"""`fluzo history`: what is retained for this workspace and how much room it takes. Listing only reads."""

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from fluzo.core.port import HistoryUsage

from .lazy import LookingGroup
from .opening import open_to_look
from .output import LimitOption, PlainOutputOption, check_form, emit_json, emit_lines, table
from .sessions import BeforeOption, session_page, session_row

_KIBI = 1024

app = typer.Typer(
    cls=LookingGroup,
    help="List what is stored for this workspace.",
    epilog="\b\nExample:\n  fluzo history list\n",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def history() -> None:
    """List what is stored for this workspace."""


@app.command("list", epilog="\b\nExample:\n  fluzo history list --output json\n")
def list_history(
    ctx: typer.Context,
    *,
    limit: LimitOption = 20,
    before: BeforeOption = "",
    output: PlainOutputOption = "text",
) -> None:
    """List the retained sessions and the room that the store takes."""
    form = check_form(output)
    with open_to_look(ctx) as host:
        sessions = session_page(host.port, limit, before)
        usage: Mapping[str, Any] = host.port.query(HistoryUsage()).result().data["usage"]
    if form == "json":
        emit_json({"schema_version": 1, "type": "history", "sessions": sessions, "usage": usage})
    elif not sessions and not before:
        emit_lines(["Nothing is stored for this workspace."])
    else:
        emit_lines(_lines(sessions, usage, limit))


def _lines(sessions: list[Mapping[str, Any]], usage: Mapping[str, Any], limit: int) -> Iterator[str]:
    if sessions:
        yield from table([session_row(session) for session in sessions])
    if len(sessions) == limit:
        yield f"older ones: fluzo history list --before {sessions[-1]['id']}"
    yield ""
    sizes = [
        (name.removesuffix("_bytes"), size_text(value)) for name, value in usage.items() if name.endswith("_bytes")
    ]
    counts = [(name, str(value)) for name, value in usage.items() if not name.endswith("_bytes")]
    yield from table([*counts, *sizes])


def size_text(size_bytes: int) -> str:
    """A size in the largest binary unit that keeps it at least one, for example `1.5 MiB`."""
    size, unit = float(size_bytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < _KIBI:
            break
        size, unit = size / _KIBI, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
