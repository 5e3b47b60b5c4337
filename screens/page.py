"""A page of a session's history as the screen takes it in. Pure."""

from collections.abc import Mapping
from typing import Any

from .blocks import blocks_of_page
from .state import PageRead


def page_read(data: Mapping[str, Any], size: int, *, newest: bool) -> PageRead:
    """The update of a SessionDetail's data that was asked for `size` messages; `newest` tells its last page."""
    texts = {str(task["id"]): str(task["text"]) for task in data["tasks"]}
    session, messages = data["session"], data["messages"]
    oldest = int(messages[0]["position"]) if messages else 0
    task = data["tasks"][0] if data["tasks"] else {}
    when = str(task.get("updated_at"))[:16].replace("T", " ")
    lost = task.get("reason") == "task_interrupted"
    return PageRead(
        str(session["id"]),
        str(session["title"]),
        tuple(blocks_of_page(messages, texts)),
        oldest,
        len(messages) >= size and oldest > 1,
        newest,
        f"recovered: Fluzo stopped here on {when} UTC" if lost else "",
        lost_task=str(task.get("id", "")),
        blocked=str(task["reason"]).replace("_", " ") if task.get("state") == "blocked" else "",
    )
