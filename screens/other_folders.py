"""Sessions of other folders, to be read from here: their rows, their text, and the command that goes on with one.

Invariant: they are read as text on a page of its own, so nothing that is typed here can reach one of them. Pure.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fluzo.core.outcome import count

from .blocks import Blocks, blocks_of_page
from .pager import Laid, laid_out
from .plain import plain_text
from .sanitize import clean, visible_text
from .text import drawable

MAX_READING = 400_000
"""Characters of a conversation that are shown, from its end."""
Record = Mapping[str, Any]


def folder_text(path: str, home: str) -> str:
    """A folder as it is shown: the home as `~`, nothing in it hidden."""
    inside = home.rstrip("/")
    if inside and (path == inside or path.startswith(f"{inside}/")):
        path = f"~{path[len(inside) :]}"
    return drawable(visible_text(path))


def records_of(found: Record, home: str) -> list[Record]:
    """The sessions with the names of their folders; then what could not be read, each with the reason."""
    rows: list[Record] = [{**row, "place": folder_text(str(row["folder"]), home)} for row in found["sessions"]]
    for item in found["folders"]:
        place = folder_text(str(item["folder"]), home)
        rows.append(_unread(f"folder {item['folder']}", place, str(item["problem"]), str(item["hint"])))
    if left := int(found["left_out"]):
        name = count(left, "more folder was", "more folders were")
        rows.append(_unread("left out", f"{name} not looked at", "", "Open one by itself: fluzo -C FOLDER"))
    return rows


def _unread(record_id: str, title: str, problem: str, hint: str) -> Record:
    """A row in the list for what is no session; it stands at its end."""
    return {"id": record_id, "title": title, "updated_at": "", "problem": problem or title, "hint": hint}


def is_session(record: Record) -> bool:
    return "problem" not in record


def is_elsewhere(record: Record) -> bool:
    return "place" in record


def command_of(record: Record) -> str:
    """What opens Fluzo in the folder of a session, as a shell takes it, without a character that would act."""
    folder = str(record["folder"])
    if visible_text(folder) == folder:
        return f"fluzo -C {shlex.quote(folder)}"
    # As bash and zsh read it: each byte by its number.
    octets = folder.encode("utf-8", "surrogateescape")
    plain = "".join(chr(n) if 32 <= n < 127 and chr(n) not in "\\'" else f"\\{n:03o}" for n in octets)
    return f"fluzo -C $'{plain}'"


def reading_page(record: Record, data: Record, width: int) -> tuple[str, Laid]:
    """The last messages of a session as text, and the same in rows of at most `width` cells.

    Above them stand whose they are and how one goes on with them. It takes a while; call it in a thread.
    """
    text = _reading_text(record, data)
    return text, laid_out(text, width)


def _reading_text(record: Record, data: Record) -> str:
    texts = {str(task["id"]): str(task["text"]) for task in data["tasks"]}
    messages: Sequence[Mapping[str, Any]] = data["messages"]
    said = plain_text(Blocks().prepend(blocks_of_page(messages, texts)))
    head = [f"In {record['place']}, to be read here; nothing goes on with it.", f"To go on: {command_of(record)}"]
    if messages and int(messages[0]["position"]) > 1:
        head.append(
            f"Its last {len(messages)} messages; all of them: {command_of(record)} sessions open {record['id']}"
        )
    if len(said) > MAX_READING:
        said = f"(What was said before is left out.)\n{said[-MAX_READING:]}"
    return "\n".join([*map(clean, head), "", said or "Nothing was said in it."])


def resume_text(record: Record) -> str:
    """Why a session of another folder does not go on from here, and what does it."""
    rows = [
        f"This session belongs to {record['place']}. It goes on there, with the settings, the consent and the "
        "permissions of that folder; from here it is only read.",
        "",
        f"  {command_of(record)}",
        "",
        "There F2 lists it, and R goes on with it (asks). Without the screen:",
        "",
        f"  {command_of(record)} sessions resume {record['id']}",
    ]
    return "\n".join(map(clean, rows))
