"""The list of sessions. Opening one is reading: no model is called, nothing is retried, and YOLO is off after it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from prompt_toolkit.layout import AnyContainer

from fluzo.core.port import Query, SessionDetail, SessionList, Snapshot

from .rows import count
from .sheet import Reader, Records, Sheet, column, framed, moment, safe, sheet_window
from .state import YoloChosen
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

_MESSAGES = 40
"""How many of the last messages are looked through for what was said last."""


class Sessions:
    """A page view."""

    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._details: dict[str, Mapping[str, Any]] = {}
        self._reader = Reader(screen, self._detail_read)
        self._sheet = Sheet(screen, self._rows, picks=True, moved=self._moved)
        self._records = Records(screen, "sessions", SessionList, self._moved, self._sheet)
        self._sheet.on("enter")(self._open)
        self.focus = sheet_window(self._sheet)
        self.container: AnyContainer = framed(screen, self._head, self.focus, self._about)
        self._moment = moment(screen.state)
        self._records.read()

    def hints(self) -> str:
        return "Enter look (runs nothing)  Up/Down choose  Esc back"

    def refresh(self) -> None:
        now = moment(self._screen.state)
        if now != self._moment:
            self._moment = now
            self._details.clear()
            self._records.read()

    def _moved(self) -> None:
        lit = self._records.lit
        if lit is not None and str(lit["id"]) not in self._details:
            self._reader.ask(SessionDetail(str(lit["id"]), _MESSAGES))
        if self._sheet.lit >= len(self._records.items) - 1:
            self._records.read_older()

    def _detail_read(self, query: Query, snapshot: Snapshot) -> None:
        self._details[str(snapshot.data["session"]["id"])] = snapshot.data

    def _open(self) -> None:
        screen, lit = self._screen, self._records.lit
        if lit is None or screen.link is None:
            return
        if screen.state.running:
            screen.say("A task is running; cancel it or let it end first")
            return
        screen.close_view()
        if screen.state.yolo:
            screen.apply(YoloChosen(False))
        screen.link.read_page(str(lit["id"]))
        screen.say("Opened to read; nothing runs before you send something")

    def _head(self) -> Line:
        number = len(self._records.items)
        some = f"{number}{' or more' if self._records.more else ''}"
        return [("", " "), ("class:text.strong", "Sessions"), ("class:text.muted", f"  {some} in this folder")]

    def _rows(self) -> list[Line]:
        items = self._records.items
        if not items:
            text = self._records.empty_text("There are no sessions in this folder yet.")
            return [[("class:text.muted", safe(text))]]
        room = max(self._screen.layout.columns - 32, 20)
        return [session_row(item, room, here=item["id"] == self._screen.state.session_id) for item in items]

    def _about(self) -> list[Line]:
        lit = self._records.lit
        if lit is None:
            return []
        detail = self._details.get(str(lit["id"]))
        return [[("", " "), *line] for line in about_session(lit, detail)]


def session_row(item: Mapping[str, Any], room: int, *, here: bool) -> Line:
    """One session: its title, when it was last used (UTC), and whether it is the one on the screen."""
    used = str(item["updated_at"])[:16].replace("T", " ")
    return [
        ("class:text.primary", column(safe(item["title"]) or "(no title)", room)),
        ("class:text.muted", f"  {column(safe(used), 16)}"),
        ("class:accent.primary", "  open" if here else ""),
    ]


def about_session(item: Mapping[str, Any], detail: Mapping[str, Any] | None) -> list[Line]:
    """What is known of a session before it is opened."""
    created = str(item["created_at"])[:16].replace("T", " ")
    rows: list[Line] = [[("class:text.strong", safe(item["title"]))]]
    if detail is None:
        return [*rows, [("class:text.muted", f"created {safe(created)} UTC")]]
    tasks = detail["tasks"]
    turns = sum(int(task["turns"]) for task in tasks)
    figures = f"created {safe(created)} UTC, {count(len(tasks), 'task', 'tasks')}, {count(turns, 'turn', 'turns')}"
    rows.append([("class:text.muted", figures)])
    if tasks:
        rows.append([("class:text.muted", "state "), ("class:text.primary", state_words(tasks[0]))])
        rows.append([("class:text.muted", "first "), ("class:text.primary", safe(tasks[-1]["text"]))])
    said = [message for message in detail["messages"] if message["role"] == "assistant" and message["text"]]
    if said:
        rows.append([("class:text.muted", "last  "), ("class:text.primary", safe(said[-1]["text"][:400]))])
    return rows


def state_words(task: Mapping[str, Any]) -> str:
    """`blocked: budget exhausted` of a task."""
    reason = safe(task.get("reason")).replace("_", " ")
    return f"{safe(task['state'])}: {reason}" if reason else safe(task["state"])
