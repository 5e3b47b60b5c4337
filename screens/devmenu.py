"""The developer menu: looks of the screen as a preview that ends with the menu unless it is applied or saved.

Invariant: only the settings named here can be touched, typed and bounded as their registry says; what the command line,
reduced motion or the terminal fixes is shown as fixed. Drafts, scroll and the running task are not touched.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import AnyContainer, ConditionalContainer, HSplit, Window
from prompt_toolkit.output import ColorDepth

from fluzo.core.port import Ack

from .announce import can_notify
from .clicking import Clicks
from .controls import RowsList, acting_keys, joined, row, text_control
from .entry import Entry
from .overlay import figures_text
from .preferences import FIELDS, Trial, value_of
from .render import wrapped
from .settings_file import Row, SettingsFile
from .sheet import column, framed, headed, hint_line, safe
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

GROUPS = (
    ("setting", ("tui.animation_fps", "tui.reduced_motion", "tui.theme", "tui.notifications.desktop_enabled")),
    ("flag", ("tui.flags.render_diagnostics",)),
    ("observer", ("decision.enabled",)),
)
_KEYS = tuple(key for _, keys in GROUPS for key in keys)
_BIG_STEP = 5
_HEADS = {"saved": (14, 76), "preview": (16, 0), "default": (14, 100), "from": (10, 0), "applies": (8, 0)}
"""Columns of the table: how wide each is, and the width of the terminal from which it is shown."""
_KEY_COLUMNS = 40
_ABOUT_ROWS = 6
_OTHER_ROWS = 4
"""Head, rule, search and status row."""


class DeveloperMenu:
    """A page view over a Trial."""

    kind: Literal["page", "float"] = "page"
    name = "Developer menu"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._trial = Trial(screen, self)
        self._file = SettingsFile(screen)
        self._lit = _KEYS[0]
        self._saving = False
        self._entry = Entry(self._focused, self._searched)
        self._keys_at: list[str] = []
        """The setting in each row of the picture; nothing where it has none."""
        clicks = Clicks(self._number_at, self._number, self._move, lambda: self._step(1))
        control = RowsList(self._rows, clicks, self._bindings())
        self.focus = Window(control, always_hide_cursor=True)
        sought = row(lambda: [("class:text.faint", f" / {self._entry.text or 'finds a setting'}")])
        hint = ConditionalContainer(sought, Condition(lambda: not self._entry.shown))
        about = Window(text_control(lambda: joined(self._about())), height=_ABOUT_ROWS, always_hide_cursor=True)
        figures = ConditionalContainer(
            row(lambda: [("class:text.muted", f"   {figures_text(screen)}")]),
            Condition(lambda: screen.preferences.render_diagnostics),
        )
        self.container: AnyContainer = framed(
            screen, self._head, HSplit([hint, self._entry.container, self.focus, about, figures])
        )
        self._file.read()

    # --- what it is asked

    def hints(self) -> str:
        return hint_line(
            self._screen, ("menu.apply", "apply for session"), ("menu.save", "save"), ("menu.defaults", "defaults")
        ) + ("  Esc reverts" if self._tried() else "  Esc back")

    def refresh(self) -> None:
        """The runtime may be there now."""
        if not self._file.rows:
            self._file.read()

    # --- rows

    def _head(self) -> Line:
        state = "saving" if self._saving else "preview, not applied" if self._tried() else ""
        return headed(self.name, "", state, self._screen.layout.columns)

    def _tried(self) -> list[str]:
        return [key for key in FIELDS if self._trial.differs(key)]

    def _shown(self) -> list[str]:
        words = self._entry.text.lower().split()
        rows = self._file.rows
        return [
            key for key in _KEYS if key in rows and all(word in f"{key} {rows[key]['help']}".lower() for word in words)
        ]

    def _rows(self) -> list[Line]:
        if not self._file.rows:
            return [[], [("class:text.muted", f"   {safe(self._file.problem) or 'Reading the settings.'}")]]
        shown = self._shown()
        rows: list[Line] = []
        keys_at: list[str] = []
        lit = 0
        for name, keys in GROUPS:
            found = [key for key in keys if key in shown]
            if found:
                heads = {} if rows else {head: head for head in _HEADS}
                rows += [[], [("class:accent.primary", f"   {self._columns(name, heads)}")]]
                lit = len(rows) + found.index(self._lit) if self._lit in found else lit
                rows += [self._row(key) for key in found]
                keys_at += ["", "", *found]
        first = max(lit + 1 - self._room(), 0)
        self._keys_at = keys_at[first:]
        return rows[first:] or [[], [("class:text.muted", "   Nothing here has these words.")]]

    def _room(self) -> int:
        """Rows that the table has on the screen."""
        figures = self._screen.preferences.render_diagnostics
        return self._screen.layout.rows - _OTHER_ROWS - _ABOUT_ROWS - figures

    def _columns(self, first: str, texts: Mapping[str, str]) -> str:
        """A row of the table; the last text may be as long as the room that is left."""
        columns = self._screen.layout.columns
        heads = {head: width for head, (width, least) in _HEADS.items() if columns >= least}
        text = column(first, min(_KEY_COLUMNS, columns - 5 - sum(heads.values()))) + " "
        last = [head for head in heads if texts.get(head)][-1:]
        for head, width in heads.items():
            text += texts[head] if [head] == last else column(texts.get(head, ""), width)
        return text.rstrip()

    def _row(self, key: str) -> Line:
        item, lit = self._file.rows[key], key == self._lit
        if key in FIELDS:
            locked = self._locked(key)
            value = _word(value_of(self._screen.preferences, key))
            value = f"[{value}]" if lit and not locked else value
            origin, applies = self._origin(key), "locked" if locked else str(item["applies"])
        else:
            value, origin, applies = "locked", self._observer_reason(), ""
        texts = {
            "saved": _word(item["saved"]),
            "preview": value,
            "default": _word(item["default"]),
            "from": origin,
            "applies": applies,
        }
        tried = key in FIELDS and self._trial.differs(key)
        style = "class:bg.select class:text.on_select" if lit else "class:accent.primary" if tried else ""
        return [(style, f" {'>' if lit else ' '} {self._columns(key, texts)} ")]

    def _origin(self, key: str) -> str:
        item = self._file.rows[key]
        if key in self._screen.options.locks:
            return "flag"
        return "session" if value_of(self._trial.base, key) != item["effective"] else str(item["source"])

    # --- what is fixed

    def _locked(self, key: str) -> bool:
        return key not in FIELDS or key in self._screen.options.locks

    def _observer_reason(self) -> str:
        return "see settings" if self._file.rows["decision.enabled"]["effective"] else "consent not given"

    def _limit(self, key: str) -> str:
        """What holds a setting back although it may be changed here, or fixes it."""
        screen = self._screen
        if key in screen.options.locks:
            return f"Fixed for this run by {screen.options.locks[key]}."
        if key == "decision.enabled":
            return "The observer is set up and consented to in the settings, never here."
        if key == "tui.animation_fps" and screen.preferences.reduced_motion:
            return "Nothing moves now: tui.reduced_motion is on, whatever the rate."
        if key == "tui.animation_fps" and screen.depth in (ColorDepth.DEPTH_1_BIT, ColorDepth.DEPTH_4_BIT):
            return "Nothing moves now: this terminal has too few colours for it."
        if key == "tui.notifications.desktop_enabled" and not can_notify(screen.options.environ):
            return "This terminal is not known to show them; notices stay in the screen."
        return ""

    def _about(self) -> list[Line]:
        item = self._file.rows.get(self._lit)
        if item is None:
            return []
        width = max(self._screen.layout.columns - 6, 20)
        kind = str(item["type"])
        takes = (
            ", ".join(_word(choice) for choice in item["choices"]) or f"{item['low']} to {item['high']} {item['unit']}"
        )
        facts = f"{kind}: {safe(takes)}; default {_word(item['default'])}; in force {self._effective(item)}"
        lines = [
            *wrapped(f"{safe(item['help'])}.", width, "class:text.primary"),
            *wrapped(facts, width, "class:text.muted"),
        ]
        limit = self._limit(self._lit)
        if limit:
            lines += wrapped(limit, width, "class:warn.fg")
        return [[], *([("", "   "), *line] for line in lines[: _ABOUT_ROWS - 1])]

    def _effective(self, item: Row) -> str:
        key = str(item["key"])
        now = value_of(self._screen.preferences, key) if key in FIELDS else item["effective"]
        applies = item["applies"]
        return f"{_word(now)} ({'applies at once' if applies == 'live' else f'applies from the {applies}'})"

    # --- acts

    def _bindings(self) -> KeyBindings:
        acts: dict[str, Callable[[], None]] = {
            "menu.down": lambda: self._move(1),
            "menu.up": lambda: self._move(-1),
            "menu.more": lambda: self._step(_BIG_STEP),
            "menu.less": lambda: self._step(-_BIG_STEP),
            "menu.next": lambda: self._step(1),
            "menu.previous": lambda: self._step(-1),
            "menu.apply": self._apply,
            "menu.save": self._save,
            "menu.defaults": self._defaults,
            "menu.find": lambda: self._entry.ask("/", self._entry.text, lambda text: None),
        }
        return acting_keys(self._screen, acts)

    def _focused(self, window: Window | None) -> None:
        self._entry.shown = window is not None
        self._screen.body.focus_on(window or self.focus)

    def _searched(self) -> None:
        shown = self._shown()
        if shown and self._lit not in shown:
            self._lit = shown[0]

    def _move(self, step: int) -> None:
        shown = self._shown()
        if self._lit in shown:
            self._lit = shown[max(0, min(shown.index(self._lit) + step, len(shown) - 1))]

    def _number(self) -> int:
        shown = self._shown()
        return shown.index(self._lit) if self._lit in shown else -1

    def _number_at(self, y: int) -> int | None:
        key, shown = self._keys_at[y] if y < len(self._keys_at) else "", self._shown()
        return shown.index(key) if key in shown else None

    def _step(self, step: int) -> None:
        """Another value of the lit setting: a step within its range, or the next of its choices."""
        item = self._file.rows.get(self._lit)
        if item is None or self._lit not in self._shown():
            return
        if self._locked(self._lit):
            self._screen.say(self._limit(self._lit))
            return
        now = value_of(self._screen.preferences, self._lit)
        wanted = _stepped(item, now, step)
        if wanted == now:
            self._screen.say(f"{self._lit} goes from {item['low']} to {item['high']}")
        self._trial.try_out(self._lit, wanted)

    def _defaults(self) -> None:
        for key in FIELDS:
            if key in self._file.rows and not self._locked(key):
                self._trial.try_out(key, self._file.rows[key]["default"])

    def _apply(self) -> None:
        tried = self._tried()
        self._trial.keep(tried)
        self._screen.say("Applied for this session; .fluzo is as it was" if tried else "Nothing has changed here")

    def _save(self) -> None:
        """Save what differs from the file, and no other key; it counts as saved when the runtime says so."""
        values: dict[str, Any] = {}
        for key in FIELDS:
            item = self._file.rows.get(key)
            now = value_of(self._screen.preferences, key)
            if item is not None and not self._locked(key) and now != item["saved"]:
                values[key] = None if now == item["default"] else now
        if not values or self._saving:
            self._screen.say("Saving already" if self._saving else "The file has these values already")
            return
        self._saving = True

        def done(ack: Ack) -> None:
            self._saving = False
            if ack.accepted:
                self._trial.keep(values)
            what = next(iter(values)) if len(values) == 1 else f"{len(values)} settings"
            self._screen.say(f"Saved {what} to .fluzo" if ack.accepted else safe(ack.message))

        self._file.save(values, done)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "-" if value is None else str(value)


def _stepped(item: Row, now: Any, step: int) -> Any:
    choices = list(item["choices"])
    if choices:
        at = choices.index(now) if now in choices else 0
        return choices[(at + (1 if step > 0 else -1)) % len(choices)]
    return max(int(item["low"]), min(int(now) + step, int(item["high"])))
