"""What a turn, a task or a session changed, or the working tree has, and what the checks say of it.

Invariant: looking stages, reverts, commits and accepts nothing; what the runtime does not tell is not shown as told.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.filters import Condition
from prompt_toolkit.layout import AnyContainer, ConditionalContainer, DynamicContainer, HSplit, VSplit, Window

from .controls import joined, row, text_control
from .diff_about import checks_line, checks_rows, file_rows, side_rows, warnings_of
from .diff_rows import Look, Rows, fits_split, lay
from .diff_source import Sources, figures
from .diff_text import File, Hunk, hunks_of, patch
from .entry import Finder
from .sheet import Sheet, framed, headed, hint_line, moment, rule_window, sheet_window
from .text import Line
from .unchanged import unchanged_lines

if TYPE_CHECKING:
    from .app import Screen

LIST_FIRST = 20_000
"""Lines of a diff from which the list of files comes first."""
SIDE_COLUMNS = 30
WIDE_COLUMNS = 150
HINTS_COLUMNS = 100

Mode = Literal["diff", "files", "checks"]


class Changes:
    """A page view over one file at a time of the source that is looked at; at first, what the shown task changed."""

    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._mode: Mode = "diff"
        self._files: list[File] = []
        self._at = 0
        self._chosen = False
        self._hunks: list[Hunk] = []
        self._marked = False
        self._unfolded: dict[int, Sequence[str]] = {}
        self._split: bool | None = None
        self._wrap = False
        self._made: tuple[object, Rows] | None = None
        self._sources = Sources(screen, self._build)
        self._sheet = Sheet(screen, self._rows, context="diff", shifts=False)
        self._list = Sheet(screen, lambda: file_rows(self._files), context="diff", picks=True)
        self._windows = {"diff": sheet_window(self._sheet), "files": sheet_window(self._list)}
        self._windows["checks"] = self._windows["diff"]
        self.focus = self._windows["diff"]
        self._finder = Finder(self._sheet, "diff", self._focused)
        self._bind()
        self.container: AnyContainer = self._contained()
        self._moment = moment(screen.state)
        self._build()
        self._sources.read()

    def _bind(self) -> None:
        for sheet in (self._sheet, self._list):
            sheet.act("diff.next_file", lambda: self._open(self._at + 1))
            sheet.act("diff.previous_file", lambda: self._open(self._at - 1))
            sheet.act("diff.files", lambda: self._show("diff" if self._mode == "files" else "files"))
            sheet.act("diff.checks", lambda: self._show("diff" if self._mode == "checks" else "checks"))
            sheet.act("diff.source", self._other_source)
        self._sheet.act("diff.next_hunk", lambda: self._step(1))
        self._sheet.act("diff.previous_hunk", lambda: self._step(-1))
        self._sheet.act("diff.open", self._unfold)
        self._sheet.act("diff.split", self._other_form)
        self._sheet.act("diff.wrap", self._other_wrap)
        self._sheet.act("diff.copy", self._copy)
        self._list.entered("diff.open", lambda: self._open(self._list.lit))

    def hints(self) -> str:
        source = ("diff.source", "source")
        keys: tuple[tuple[str, str], ...]
        if self._mode == "files":
            keys = (("diff.open", "look"), ("diff.files", "diff"), ("diff.checks", "checks"), source)
        elif self._mode == "checks":
            keys = (("diff.checks", "diff"), ("diff.files", "files"), source)
        else:
            keys = (
                ("diff.split", "unified" if self._is_split else "split"),
                ("diff.wrap", "wrap"),
                ("diff.copy", "copy"),
                ("diff.files", "files"),
                ("diff.checks", "checks"),
                # A narrow row has no room for one more; /help names them all.
                *((source,) if self._screen.layout.columns >= HINTS_COLUMNS else ()),
            )
        moves = "n/p hunk  [/] file  " if self._mode == "diff" else ""
        return f"{moves}{hint_line(self._screen, *keys, ('escape', 'back'))}"

    def refresh(self) -> None:
        now = moment(self._screen.state)
        if now != self._moment:
            self._moment = now
            self._build()
            self._sources.read()

    # --- what it is about

    def _build(self) -> None:
        """The files of the source that is looked at; the one that was open stays open."""
        was = self._file.path if self._file is not None and self._chosen else ""
        self._files = self._sources.files()
        first = not self._chosen and sum(len(file.lines) for file in self._files) > LIST_FIRST
        self._at = next((n for n, file in enumerate(self._files) if file.path == was), 0)
        self._load()
        if first:
            self._show("files")

    @property
    def _file(self) -> File | None:
        return self._files[self._at] if self._files else None

    def _load(self) -> None:
        """Make the rows of the open file; those of the others are not made."""
        file = self._file
        self._hunks = hunks_of(file.lines) if file is not None else []
        self._marked = file is not None and any(file.is_own(row) for hunk in self._hunks for row in hunk.rows)
        self._unfolded = {}
        self._made = None

    # --- keys

    def _show(self, mode: Mode) -> None:
        self._mode = mode
        self._sheet.top = 0
        self._focused(None)

    def _focused(self, window: Window | None) -> None:
        self.focus = window or self._windows[self._mode]
        if self._screen.views and self._screen.views[-1] is self:
            self._screen.body.focus_on(self.focus)

    def _open(self, number: int) -> None:
        if not 0 <= number < len(self._files):
            self._screen.say("There is no other file in that direction")
            return
        self._at = self._list.lit = number
        self._chosen = True
        self._sheet.left = 0
        self._load()
        self._show("diff")

    def _other_source(self) -> None:
        self._sheet.top = 0
        self._sources.next()

    def _other_form(self) -> None:
        self._split = not self._is_split

    def _other_wrap(self) -> None:
        self._wrap = not self._wrap
        self._sheet.left = 0

    def _lit_hunk(self, rows: Rows) -> int:
        """The hunk that keys act on: the chosen one while it is on the screen, else the first one below its top."""
        top, bottom = self._sheet.top, self._sheet.top + self._sheet.height
        places = rows.hunks
        if rows.lit < len(places) and top <= places[rows.lit] < bottom:
            return rows.lit
        return next((n for n, place in enumerate(places) if place >= top), max(len(places) - 1, 0))

    def _step(self, step: int) -> None:
        rows = self._laid()
        wanted = self._lit_hunk(rows) + step
        if self._mode != "diff" or not 0 <= wanted < len(rows.hunks):
            if self._mode == "diff" and 0 <= self._at + step < len(self._files):
                self._open(self._at + step)
            return
        rows.lit = wanted
        self._sheet.show(rows.hunks[wanted])

    def _unfold(self) -> None:
        """Show the unchanged lines before the lit hunk, where the file still has them."""
        rows, file = self._laid(), self._file
        number = self._lit_hunk(rows)
        if self._mode != "diff" or file is None or number >= len(self._hunks):
            return
        if number in self._unfolded:
            del self._unfolded[number]
            self._lay_again(number)
            return
        screen, hunks = self._screen, list(self._hunks)
        if screen.loop is not None:
            reading = screen.loop.run_in_executor(None, unchanged_lines, screen.state.root, file.path, hunks)
            reading.add_done_callback(lambda done: self._unfolded_read(file, number, done.result()))

    def _unfolded_read(self, file: File, number: int, found: list[str] | str) -> None:
        if isinstance(found, str):
            self._screen.say(found)
        elif self._file is file:
            start = self._hunks[number - 1].end if number else 1
            self._unfolded[number] = found[start - 1 : self._hunks[number].start - 1]
            self._lay_again(number)
            self._screen.changed()

    def _lay_again(self, number: int) -> None:
        """With more or fewer lines before a hunk, which itself stays where it is on the screen."""
        before = self._laid().hunks[number]
        self._made = None
        rows = self._laid()
        rows.lit = number
        self._sheet.top = max(self._sheet.top + rows.hunks[number] - before, 0)

    def _copy(self) -> None:
        file, number = self._file, self._lit_hunk(self._laid())
        if file is None or self._mode != "diff" or number >= len(self._hunks):
            self._screen.say("There is no hunk to copy here")
        else:
            what = f"hunk {number + 1} of {file.name}"
            self._screen.copy(patch(file, self._hunks[number]), what)

    # --- drawing

    @property
    def _wide(self) -> bool:
        return self._screen.layout.columns >= WIDE_COLUMNS and self._mode != "files"

    @property
    def _width(self) -> int:
        return self._screen.layout.columns - (SIDE_COLUMNS if self._wide else 0) - 2

    @property
    def _is_split(self) -> bool:
        return fits_split(self._width) if self._split is None else self._split

    def _contained(self) -> AnyContainer:
        screen = self._screen
        side = VSplit(
            [
                Window(text_control(self._side), width=SIDE_COLUMNS - 1, always_hide_cursor=True),
                Window(char=screen.glyphs.bar, width=1, style="class:border.idle"),
            ]
        )
        main = DynamicContainer(lambda: self._windows[self._mode])
        foot = HSplit([rule_window(screen), row(self._foot)])
        return framed(
            screen,
            self._head,
            self._finder.entry.container,
            VSplit([ConditionalContainer(side, Condition(lambda: self._wide)), main]),
            ConditionalContainer(foot, Condition(lambda: not self._wide)),
        )

    def _laid(self) -> Rows:
        """The rows as they are laid out now; made again only when something of it is other than before."""
        file = self._file
        glyphs = self._screen.glyphs
        own = file if self._marked else None
        look = Look(self._width, self._is_split, self._wrap, self._sheet.left, glyphs.bar, own)
        notes = file.notes if file is not None else (self._sources.nothing(),)
        if self._made is None or self._made[0] != (look, notes):
            lit = self._made[1].lit if self._made is not None else 0
            warnings = warnings_of(file, marked=self._marked) if file is not None else []
            rows = lay(self._hunks, notes, warnings, self._unfolded, look)
            rows.lit = lit
            self._made = ((look, notes), rows)
        return self._made[1]

    def _rows(self) -> Sequence[Line]:
        if self._mode == "checks":
            return checks_rows(self._screen.state, self._sources.task, self._screen.layout.columns)
        rows = self._laid()
        rows.lit = self._lit_hunk(rows)
        return rows

    def _head(self) -> Line:
        file = self._file
        view = "" if self._mode != "diff" else "split" if self._is_split else "unified"
        right = f"{self._sources.since()}   view: {view or self._mode}"
        if file is None:
            return headed("Changes", "", right, self._screen.layout.columns)
        if self._mode != "diff":
            left = figures(self._files)
        else:
            left = f"{file.name}  {self._at + 1}/{len(self._files)}  +{file.added} -{file.removed}"
        return headed("Changes", left, right, self._screen.layout.columns)

    def _side(self) -> Line:
        return joined(side_rows(self._files, self._at, self._screen.state, self._sources.detail, SIDE_COLUMNS - 1))

    def _foot(self) -> Line:
        return checks_line(self._screen.state, self._sources.task, self._screen.layout.columns)
