"""The containers of the screen, sized by the layout alone; each control draws from the state."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition
from prompt_toolkit.layout import (
    AnyContainer,
    ConditionalContainer,
    Dimension,
    DynamicContainer,
    Float,
    FloatContainer,
    HSplit,
    VSplit,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import AfterInput, ConditionalProcessor

from fluzo.core.outcome import count

from . import chrome
from .canvas import RowsWindow
from .card import card_lines, fits, hint_words
from .card_control import CardControl
from .clicking import Clicks
from .composer import PLACEHOLDER, ComposerControl, Drawn
from .controls import Rows, RowsList, joined, row, text_control
from .dragging import Dragging
from .idle import EXAMPLE, failure_rows, idle_rows
from .layout import MIN_COLUMNS, MIN_ROWS, OFFERS_ROWS, OVERLAY_ROWS, OVERLAY_WIDTH, Rect
from .logo import compact
from .motion import compact_place, pixel_place
from .notice import ROWS as NOTICE_ROWS
from .notice import WIDTH as NOTICE_WIDTH
from .notice import fitting, notice_rows
from .rows import clock
from .text import Line, cells, hints_within
from .theme import ASCII, ROOT_STYLE

if TYPE_CHECKING:
    from .app import Screen
    from .views import Specimen


class Body:
    """The windows by name, and which of them has the keyboard."""

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self.mouse_on = Condition(lambda: screen.mouse)
        self.transcript = RowsWindow(screen.transcript)
        self.card_control = CardControl(screen)
        self.card = Window(self.card_control, always_hide_cursor=True, style="class:bg.raised")
        placeholder = ConditionalProcessor(
            AfterInput(PLACEHOLDER, style="class:text.faint"), Condition(lambda: screen.composer.empty)
        )
        composer_control = ComposerControl(
            screen.composer.buffer,
            input_processors=[Drawn(screen.composer), placeholder],
            include_default_input_processors=False,
        )
        composer_control.clicked = self._composer_clicked
        screen.transcript.pointer.clicked = self._row_clicked
        self.dragging = Dragging(screen)
        self.composer = Window(composer_control, wrap_lines=True, dont_extend_height=True)
        # Kept, not made when asked for: the keys in force are found again for every key while the windows differ.
        self._nothing = Window(width=0, height=0)
        self._wanted: Window | None = None
        self.root = DynamicContainer(self._root)
        self._main = self._conversation()
        self._page_screen = self._paged()
        self._small = Window(text_control(self._too_small), always_hide_cursor=True, style=ROOT_STYLE)
        # The composer stays in the tree, so that what is typed on a small screen is not lost.
        hidden = HSplit([self._small, Window(composer_control, height=0)])
        self._small_screen = hidden

    # --- what is shown

    def _root(self) -> AnyContainer:
        screen = self._screen
        if screen.layout.size == "too small":
            return self._small_screen
        return self._page_screen if any(view.kind == "page" for view in screen.views) else self._main

    def _page(self) -> AnyContainer:
        pages = [view for view in self._screen.views if view.kind == "page"]
        return pages[-1].container if pages else self._nothing

    def _paged(self) -> FloatContainer:
        """A page in place of the conversation, and over it what was opened from it."""
        body = HSplit([DynamicContainer(self._page), row(self._status)], style=ROOT_STYLE)
        return FloatContainer(body, floats=[Float(DynamicContainer(self._float), top=2)])

    def _conversation(self) -> FloatContainer:
        screen = self._screen

        def exact(height: int) -> Dimension:
            return Dimension.exact(height)

        def between() -> Dimension:
            # Between header and status row. Without it the toolkit measures all that is in there, several times.
            return exact(screen.layout.rows - screen.layout.header.height - 1)

        self.transcript.height = lambda: exact(screen.layout.transcript.height)
        self.card.height = lambda: exact(screen.layout.card.height)
        self.composer.height = lambda: exact(screen.layout.composer.height)
        # Exact widths: the toolkit gives a window without one its width in steps of one column.
        self.composer.width = lambda: exact(screen.layout.composer.width - 2)
        prompt = RowsWindow(text_control(self._prompt), width=2)
        column = HSplit(
            [
                DynamicContainer(lambda: self.transcript if len(screen.state.blocks) else self._welcome),
                ConditionalContainer(self.card, Condition(lambda: screen.layout.card.height > 0)),
                row(self._rule),
                VSplit([prompt, self.composer], height=self.composer.height),
            ],
            width=lambda: exact(screen.layout.rule.width),
            height=between,
        )
        self._welcome = RowsWindow(Rows(self._welcome_rows), height=lambda: exact(screen.layout.transcript.height))
        self.side = RowsWindow(
            Rows(self._sidebar),
            width=lambda: exact(screen.layout.sidebar.width),
            height=lambda: exact(screen.layout.sidebar.height),
        )
        self.header = row(self._header)
        body = HSplit(
            [
                ConditionalContainer(
                    self.header,
                    Condition(lambda: screen.layout.header.height > 0),
                ),
                VSplit(
                    [column, ConditionalContainer(self.side, Condition(lambda: screen.layout.sidebar.width > 0))],
                    height=between,
                ),
                row(self._status),
            ],
            style=ROOT_STYLE,
        )
        dismiss = Clicks(lambda y: 0 if y < NOTICE_ROWS else None, lambda: 0, lambda step: None, screen.board.dismiss)
        notices = Window(
            RowsList(self._notices, dismiss),
            height=lambda: exact(len(self._notices())),
            width=NOTICE_WIDTH,
            always_hide_cursor=True,
        )
        self.notice_float = Float(
            ConditionalContainer(notices, Condition(lambda: bool(self._notices()))), top=2, left=0
        )
        figures = Window(text_control(self._figures), height=OVERLAY_ROWS, width=self._figures_width)
        self.figures_float = Float(ConditionalContainer(figures, Condition(lambda: self._figures_shown)), top=0, left=0)
        # Over the conversation alone, so that neither the card nor what is written is ever under it.
        self.offers_float = Float(
            CompletionsMenu(max_height=OFFERS_ROWS, scroll_offset=1), height=self._offers_height, xcursor=True, bottom=0
        )
        below = Window(text_control(self._below), height=1, width=30, always_hide_cursor=True)
        return FloatContainer(
            body,
            floats=[
                self.offers_float,
                Float(
                    ConditionalContainer(below, Condition(lambda: self._below_text() != "")),
                    left=2,
                    bottom=3,
                ),
                self.notice_float,
                self.figures_float,
                Float(
                    DynamicContainer(lambda: self._float()),
                    top=2,
                ),
            ],
        )

    def _float(self) -> AnyContainer:
        views = self._screen.views
        return views[-1].container if views and views[-1].kind == "float" else self._nothing

    # --- texts

    def _header(self) -> Line:
        screen = self._screen
        mark = compact(screen.state.word, screen.theme, screen.depth)
        return chrome.header(screen.state, screen.layout.columns, mark, screen.glyphs, screen.now())

    def _rule(self) -> Line:
        screen = self._screen
        return chrome.rule(screen.state, screen.layout.rule.width, screen.glyphs, focused=self.focus == "composer")

    def _prompt(self) -> Line:
        return [("class:border.focus" if self.focus == "composer" else "class:text.faint", "> ")]

    def _status(self) -> Line:
        screen = self._screen
        # First of all that it is a demo: nothing that comes after can push it off the row.
        badge = self._demo_badge()
        width = screen.layout.columns - sum(cells(part) for _, part in badge)
        state, glyphs = screen.state, screen.glyphs
        hints = screen.views[-1].hints() if screen.views else ""
        flash = screen.flash or hints_within(hints, width - 2 - chrome.YOLO_COLUMNS * state.yolo)
        focus = self.focus
        if focus == "composer" and not screen.composer.empty:
            focus = "draft"
        card = hint_words(screen.card) if focus == "card" else ""
        return [*badge, *chrome.status(state, width, screen.now(), screen.registry, focus, flash, glyphs, card)]

    def _demo_badge(self) -> Line:
        if self._screen.options.demo is None:
            return []
        from .demo import BADGE

        return BADGE

    def _sidebar(self) -> list[Line]:
        screen = self._screen
        area = screen.layout.sidebar
        rows = chrome.sidebar(screen.state, area.width - 3, area.height - 4, screen.now(), screen.glyphs)
        bar = ("class:border.idle", screen.glyphs.bar)
        # The mark is painted over the first rows; the renderer keeps them blank.
        shown: list[Line] = [[bar], [bar], [bar], [bar], *([bar, ("", " "), *row] for row in rows)]
        return [*shown, *([[bar]] * (area.height - len(shown)))]

    def _welcome_rows(self) -> list[Line]:
        screen = self._screen
        failure = screen.state.failure
        scenes = f"{screen.registry.key('demo')} or /demo: the scenes of this demo" if screen.options.demo else ""
        width, now = screen.layout.rule.width - 4, datetime.now(UTC).astimezone()
        example = screen.files.knows(EXAMPLE)
        rows = idle_rows(screen.state, screen.registry, width, now, example=example, demo=scenes)
        if failure is not None:
            rows = [[], *failure_rows(failure.message, failure.code, failure.hint, screen.layout.rule.width - 6)]
        return [[("", "  "), *row] for row in rows]

    def _offers_height(self) -> int:
        offered = self._screen.composer.buffer.complete_state
        count = len(offered.completions) if offered is not None else 0
        return min(count, OFFERS_ROWS, self._screen.layout.transcript.height)

    def _below_text(self) -> str:
        screen = self._screen
        rows = screen.transcript.new_rows
        return f" {count(rows, 'new line', 'new lines')} below  {screen.registry.key('scroll.end')} " if rows else ""

    def _below(self) -> Line:
        return [("class:bg.select class:text.on_select", self._below_text())]

    def _notices(self) -> list[Line]:
        screen = self._screen
        area = screen.layout.transcript
        room = area.height - (OVERLAY_ROWS if self._figures_shown else 0)
        shown = fitting(room, screen.options.max_notices)
        return (
            notice_rows(screen.board.notices, shown, NOTICE_WIDTH, screen.glyphs) if not screen.views and shown else []
        )

    @property
    def _figures_shown(self) -> bool:
        screen = self._screen
        return screen.preferences.render_diagnostics and screen.layout.transcript.height > OVERLAY_ROWS

    def _figures_width(self) -> int:
        return min(OVERLAY_WIDTH, self._screen.layout.transcript.width - 2)

    def _figures(self) -> Line:
        from .overlay import overlay_rows

        return joined(overlay_rows(self._screen))

    def _too_small(self) -> Line:
        screen = self._screen
        columns, rows = screen.layout.columns, screen.layout.rows
        state = screen.state
        since = f" {clock(screen.now() - state.task.since)}" if state.task and state.running else ""
        keeps = f"The task keeps running: {chrome.word(state)}{since}" if state.running else "Nothing is lost."
        lines = [
            "FLUZO DEMO" if screen.options.demo else "FLUZO",
            "",
            f"Too small: {columns}x{rows}. Needs {MIN_COLUMNS}x{MIN_ROWS}.",
            keeps,
            "Ctrl+C cancel   approvals are off here",
        ]
        shown = lines[: max(rows, 1)]
        top = max((rows - len(shown)) // 2, 0)
        text = "\n" * top + "\n".join(line[:columns].center(columns).rstrip() for line in shown)
        return [("class:text.primary", text)]

    def card_lines(self, width: int, height: int) -> list[Line]:
        """The shown request as rows."""
        screen, state = self._screen, self._screen.state
        request = screen.request
        task = state.tasks.get(request.task_id)
        return card_lines(
            request,
            screen.card,
            (screen.request_at + 1, len(state.requests)),
            (task.text if task else "", task.turns if task else 0),
            state.folder,
            width,
            height,
            screen.glyphs,
        )

    def place(self) -> None:
        """Before a frame: what stands relative to the layout is moved to its place."""
        screen = self._screen
        if self._wanted is not None:
            self.focus_on(self._wanted)
        area = screen.layout.transcript
        # At the right of the conversation, never over the mark: covered, it would stand still.
        self.figures_float.top, self.figures_float.left = area.y, max(area.width - self._figures_width() - 1, 0)
        self.notice_float.top = area.y + OVERLAY_ROWS if self._figures_shown else 2
        self.offers_float.bottom = screen.layout.rows - area.y - area.height
        self.notice_float.left = max(screen.layout.rule.width - NOTICE_WIDTH - 2, 0)

    # --- focus

    @property
    def focus(self) -> str:
        """Which part has the keyboard: composer, card, transcript or view."""
        screen = self._screen
        if screen.views:
            return "view"
        current = screen.app.layout.current_window
        return "card" if current is self.card else "transcript" if current is self.transcript else "composer"

    def focus_on(self, window: Window) -> None:
        """Give a window the keyboard: at once, or with the frame that shows it, when it is behind a page or the
        screen is too small for it."""
        layout = self._screen.app.layout
        shown = window in layout.find_all_windows()
        self._wanted = None if shown else window
        if shown:
            layout.focus(window)

    def focus_composer(self) -> None:
        self._screen.transcript.focused = False
        self.focus_on(self.composer)

    def _composer_clicked(self) -> bool:
        from .approval import drop_focus

        screen = self._screen
        if screen.views:
            return False
        screen.card = drop_focus(screen.card)
        self.focus_composer()
        return True

    def _row_clicked(self, key: int) -> None:
        from .browsing import toggle

        if not self._screen.views:
            toggle(self._screen, key)

    def focus_card(self) -> None:
        from .approval import take_focus

        screen = self._screen
        if screen.request is not None and screen.layout.card.height and fits(screen.card_rows):
            screen.transcript.focused = False
            screen.card = take_focus(screen.card, screen.now())
            self.focus_on(self.card)

    def focus_transcript(self) -> None:
        screen = self._screen
        if len(screen.state.blocks):
            transcript = screen.transcript
            transcript.focused = True
            if transcript.selected is None and transcript.shown:
                transcript.selected = transcript.shown[-1].key
            self.focus_on(self.transcript)

    @property
    def specimen(self) -> "Specimen | None":
        """The mark that the page on top shows in place of the session's own; only a page of the demo has one."""
        views = self._screen.views
        return getattr(views[-1], "specimen", None) if views else None

    def mark_places(self) -> tuple[tuple[Window, Rect], ...]:
        """The windows that hold the mark, each with its cells; at most one of them is on screen."""
        layout = self._screen.layout
        specimen = self.specimen
        if specimen is not None:
            return ((specimen.host, specimen.place),)
        blocks = self._screen.glyphs is not ASCII
        return (self.side, pixel_place(layout.sidebar, blocks=blocks)), (self.header, compact_place(layout.header))
