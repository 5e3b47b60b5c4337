"""The list of sessions. Opening one is reading: no model is called, nothing is retried, and YOLO is off after it."""

from functools import partial
from typing import TYPE_CHECKING

from fluzo.core.outcome import count
from fluzo.core.port import OtherSession, OtherSessions, Query, SessionList, Snapshot

from .listing import PAGE, ListPage, Record
from .other_folders import command_of, is_elsewhere, is_session, reading_page, records_of, resume_text
from .pager import Laid, Pager, laid_out, reading_width
from .resuming import ask_resume
from .session_text import about_session, session_columns, session_row, words_of
from .sheet import Reader, hint_line, safe
from .state import YoloChosen
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

HINTS_COLUMNS = 100
SORT_COLUMNS = 80


class Sessions(ListPage):
    """A page view over the sessions of this folder, or of all; those of another folder are read on a page of text."""

    name = "Sessions"
    nothing = "There are no sessions in this folder yet."

    def __init__(self, screen: "Screen") -> None:
        self._all = False
        self._asked: Record = {}
        self._others = Reader(screen, self._others_read, self._not_read)
        super().__init__(screen, "sessions", SessionList, lambda record: str(record["updated_at"]))
        self.sheet.act("list.folders", self._other_folders)
        self.sheet.entered("list.open", self._open)
        self.sheet.act("list.resume", self._resume)
        self.sheet.act("list.rename", self._rename)

    def hints(self) -> str:
        return hint_line(
            self._screen,
            ("list.open", "look (runs nothing)"),
            ("list.resume", "resume (asks)"),
            # A narrow row has no room for one more; /help names them all.
            *((("list.rename", "rename"),) if self._screen.layout.columns >= HINTS_COLUMNS else ()),
            ("list.find", "find"),
            ("list.folders", "folder/all"),
            ("escape", "back"),
        )

    def words_of(self, record: Record) -> str:
        return words_of(record)

    def columns(self, width: int) -> Line:
        return session_columns(width, folders=self._all)

    def row_of(self, record: Record, width: int) -> Line:
        here = not is_elsewhere(record) and record["id"] == self._screen.state.session_id
        return session_row(record, width, here=here, folders=self._all)

    def about(self, record: Record, detail: Record | None) -> list[Line]:
        return about_session(record)

    def standing(self) -> str:
        known = sum(map(is_session, self.records.known))
        number = count(known, "session", "sessions") + (" or more" if self.records.more else "")
        if self.records.wanted:
            number = f"{sum(map(is_session, self.records.shown))} of {number}"
        if self._all and self._others.busy:
            number = f"{number}, reading"
        folders = "this folder | [all folders]" if self._all else "[this folder] | all folders"
        order = "   sort: last used" if self._screen.layout.columns >= SORT_COLUMNS else ""
        return f"{folders}   {number}{order}"

    # --- other folders

    def _other_folders(self) -> None:
        self._all = not self._all
        self.sheet.lit = 0
        self.records.put_beside([])
        if self._all:
            self._others.ask(OtherSessions(PAGE))

    def _others_read(self, query: Query, snapshot: Snapshot) -> None:
        screen = self._screen
        if isinstance(query, OtherSessions) and self._all:
            self.records.put_beside(records_of(snapshot.data, screen.options.environ.get("HOME", "")))
        elif query == _text_of(self._asked) and screen.loop is not None:
            width = reading_width(screen.layout.columns)
            making = screen.loop.run_in_executor(None, reading_page, self._asked, snapshot.data, width)
            making.add_done_callback(lambda done: self._show_text(query, *done.result()))

    def _show_text(self, query: Query, text: str, laid: Laid) -> None:
        screen = self._screen
        # The person may have gone on meanwhile, to another page or to another session.
        if screen.views and screen.views[-1] is self and query == _text_of(self._asked):
            screen.views.show(Pager(screen, safe(self._asked["title"]), text, laid=laid))
            screen.changed()

    def _not_read(self) -> None:
        self._screen.say(self._others.problem)

    def _elsewhere(self) -> Record | None:
        """The lit record, where it is not one of this folder's own."""
        lit = self.lit
        if lit is None or (is_session(lit) and not is_elsewhere(lit)):
            return None
        return lit

    # --- acts

    def _open(self) -> None:
        other, lit = self._elsewhere(), self.lit
        if other is not None:
            self._read_elsewhere(other)
        elif lit is not None and open_session(self._screen, str(lit["id"])):
            self._screen.say("Opened to read; nothing runs before you send something")

    def _read_elsewhere(self, record: Record) -> None:
        if is_session(record):
            self._asked = record
            self._others.ask(_text_of(record))
        else:
            self._screen.say(safe(f"{record['problem']}  {record['hint']}"))

    def _resume(self) -> None:
        """Open it, which is reading, then ask whether its blocked task goes on; another folder's goes on there."""
        screen, other, lit = self._screen, self._elsewhere(), self.lit
        if other is not None and is_session(other):
            copies = (command_of(other), "the command")
            text = resume_text(other)
            laid = laid_out(text, reading_width(screen.layout.columns))
            screen.views.show(Pager(screen, "It goes on in its own folder", text, copies, laid))
        elif other is not None:
            self._read_elsewhere(other)
        elif lit is not None and open_session(screen, str(lit["id"])):
            ask_resume(screen, str(lit["id"]))

    def _rename(self) -> None:
        screen, lit, link = self._screen, self.lit, self._screen.link
        if lit is None or link is None:
            return
        if self._elsewhere() is not None:
            screen.say("A session is renamed in its own folder")
            return
        session_id = str(lit["id"])

        def done(text: str) -> None:
            self.entry.close()
            self.records.search("")
            if text.split():
                link.rename(session_id, text, partial(screen.intake.on_loop, self.records.read))

        self.entry.ask("title", str(lit["title"]), done, lambda: self.records.search(""))


def _text_of(record: Record) -> OtherSession:
    """The question for the text of a session; a copy of a folder has sessions of the same id."""
    return OtherSession(str(record.get("folder") or ""), str(record.get("id") or ""))


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
