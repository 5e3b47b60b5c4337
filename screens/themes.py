"""The theme picker: a float that shows the screen in the lit theme while one chooses.

Invariant: moving only tries out. Enter keeps the theme for the session, saving waits for the runtime's word, and Esc
gives back what was there before.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import AnyContainer, HSplit, VSplit, Window
from prompt_toolkit.layout.controls import FormattedTextControl

from fluzo.core.port import Ack

from .clicking import Clicks
from .controls import RowsList, acting_keys
from .preferences import Trial
from .settings_file import SettingsFile
from .sheet import column, hint_line, safe
from .text import Line, cells
from .theme import THEMES

if TYPE_CHECKING:
    from .app import Screen

KEY = "tui.theme"
WIDTH = 54
_ABOUT = {"default": "dark, the colours of the mark", "high-contrast": "black, contrast of 7 and more"}


class ThemePicker:
    """A float over the conversation."""

    kind: Literal["page", "float"] = "float"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._trial = Trial(screen, self)
        self._file = SettingsFile(screen)
        self._lit = max(THEMES.index(screen.theme) if screen.theme in THEMES else 0, 0)
        clicks = Clicks(
            lambda y: y if y < len(THEMES) else None,
            lambda: self._lit,
            lambda step: self._light(self._lit + step),
            self._apply,
        )
        control = RowsList(self._rows, clicks, self._bindings())
        self.focus = Window(control, height=len(THEMES) + 2, always_hide_cursor=True, style="class:bg.overlay")
        edge = "class:border.focus class:bg.overlay"

        def side() -> Window:
            return Window(char=screen.glyphs.bar, width=1, style=edge)

        self.container: AnyContainer = HSplit(
            [
                Window(FormattedTextControl([(edge, self._frame(" Theme ", top=True))]), height=1),
                VSplit([side(), self.focus, side()]),
                Window(FormattedTextControl([(edge, self._frame("", top=False))]), height=1),
            ],
            width=WIDTH,
            height=len(THEMES) + 4,
            style="class:bg.overlay",
        )
        self._file.read()

    def hints(self) -> str:
        return hint_line(self._screen, ("theme.keep", "for this session"), ("theme.save", "save")) + "  Esc as before"

    def refresh(self) -> None:
        """The runtime may be there now."""
        if not self._file.rows:
            self._file.read()

    def _frame(self, name: str, *, top: bool) -> str:
        glyphs = self._screen.glyphs
        left, right = tuple(glyphs.corners[:2] if top else glyphs.corners[2:])
        line = f"{left}{glyphs.rule}{name}"
        return line + glyphs.rule * (WIDTH - 1 - cells(line)) + right

    def _rows(self) -> list[Line]:
        rows: list[Line] = []
        for number, theme in enumerate(THEMES):
            lit = number == self._lit
            style = "class:bg.select class:text.on_select" if lit else "class:text.primary"
            key = self._screen.registry.key(f"theme.{theme}")
            text = f"{'>' if lit else ' '} {key}  {theme:<15}{_ABOUT[theme]}"
            rows.append([(style, column(text, WIDTH - 2))])
        fixed, keep = self._fixed(), self._screen.registry.key("theme.keep")
        tail = f"Fixed for this run by {fixed}." if fixed else f"Moving shows it; nothing is kept before {keep}."
        return [*rows, [], [("class:text.muted", column(f"  {tail}", WIDTH - 2))]]

    def _fixed(self) -> str:
        return self._screen.options.locks.get(KEY, "")

    def _light(self, number: int) -> None:
        if 0 <= number < len(THEMES) and not self._fixed():
            self._lit = number
            self._trial.try_out(KEY, THEMES[number])

    def _bindings(self) -> KeyBindings:
        acts: dict[str, Callable[[], object]] = {
            "theme.down": lambda: self._light(self._lit + 1),
            "theme.up": lambda: self._light(self._lit - 1),
            "theme.keep": self._apply,
            "theme.save": self._save,
            **{f"theme.{name}": partial(self._light, number) for number, name in enumerate(THEMES)},
        }
        return acting_keys(self._screen, acts)

    def _apply(self) -> None:
        screen = self._screen
        if not self._fixed():
            self._trial.keep([KEY])
        screen.views.close()
        screen.say(f"Theme of this session: {screen.theme}")

    def _save(self) -> None:
        screen, theme = self._screen, self._screen.theme
        if self._fixed():
            screen.say(f"{KEY} is fixed for this run by {self._fixed()}")
            return
        screen.say("Saving")

        def done(ack: Ack) -> None:
            if ack.accepted:
                self._trial.keep([KEY])
                screen.say(f"Saved {KEY} = {theme} to .fluzo")
            else:
                screen.say(safe(ack.message))

        self._file.save({KEY: theme}, done)
