"""The list of sessions. Opening one is reading: no model is called, nothing is retried, and YOLO is off after it."""

from functools import partial
from typing import TYPE_CHECKING

from fluzo.core.outcome import count
from fluzo.core.port import SessionList

from .listing import ListPage, Record
from .resuming import ask_resume
from .session_text import about_session, session_columns, session_row, words_of
from .sheet import hint_line
from .state import YoloChosen
from .text import Line

if TYPE_CHECKING:
    from .app import Screen


class Sessions(ListPage):
    """A page view over the sessions of this folder; the stores of other folders are not this runtime's to read."""

    name = "Sessions"
    nothing = "There are no sessions in this folder yet."

    def __init__(self, screen: "Screen") -> None:
        super().__init__(screen, "sessions", SessionList, lambda record: str(record["updated_at"]))
        self.sheet.entered("list.open", self._open)
        self.sheet.act("list.resume", self._resume)
        self.sheet.act("list.rename", self._rename)

    def hints(self) -> str:
        return hint_line(
            self._screen,
            ("list.open", "look (runs nothing)"),
            ("list.resume", "resume (asks)"),
            ("list.rename", "rename"),
            ("list.find", "find"),
            ("escape", "back"),
        )

    def words_of(self, record: Record) -> str:
        return words_of(record)

    def columns(self, width: int) -> Line:
        return session_columns(width)

    def row_of(self, record: Record, width: int) -> Line:
        return session_row(record, width, here=record["id"] == self._screen.state.session_id)

    def about(self, record: Record, detail: Record | None) -> list[Line]:
        return about_session(record)

    def standing(self) -> str:
        number = count(self.records.count, "session", "sessions") + (" or more" if self.records.more else "")
        if self.records.wanted:
            number = f"{len(self.records.shown)} of {number}"
        return f"this folder   {number}   sort: last used"

    def _open(self) -> None:
        if self.lit is not None and open_session(self._screen, str(self.lit["id"])):
            self._screen.say("Opened to read; nothing runs before you send something")

    def _resume(self) -> None:
        """Open it, which is reading, then ask whether its blocked task goes on."""
        lit = self.lit
        if lit is not None and open_session(self._screen, str(lit["id"])):
            ask_resume(self._screen, str(lit["id"]))

    def _rename(self) -> None:
        screen, lit, link = self._screen, self.lit, self._screen.link
        if lit is None or link is None:
            return
        session_id = str(lit["id"])

        def done(text: str) -> None:
            self.entry.close()
            self.records.search("")
            if text.split():
                link.rename(session_id, text, partial(screen.intake.on_loop, self.records.read))

        self.entry.ask("title", str(lit["title"]), done, lambda: self.records.search(""))


def open_session(screen: "Screen", session_id: str) -> bool:
    """Show a session to read; False while a task runs, which is not left for another conversation."""
    if screen.link is None:
        return False
    if screen.state.running:
        screen.say("A task is running; cancel it or let it end first")
        return False
    screen.views.close_all()
    if screen.state.yolo:
        screen.apply(YoloChosen(False))
    screen.link.read_page(session_id)
    return True
