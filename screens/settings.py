"""The settings page: groups at the left, rows at the right, and below them what the lit row means (design 6.9).

Invariant: nothing looks saved before the runtime has said so, a broken file is never written, and edits leave only when
the person saves or drops them. A file that moved meanwhile is told before anything is saved: reload, or keep the edits.
Saving and giving a running task other limits are two acts.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from prompt_toolkit.filters import Condition
from prompt_toolkit.layout import AnyContainer, ConditionalContainer, VSplit, Window

from fluzo.core.outcome import count
from fluzo.core.port import Ack, ConfigDetail, Query, SaveConfig, Snapshot

from .controls import joined, text_control
from .entry import Entry
from .preferences import follow_settings
from .render import wrapped
from .settings_editing import Editing
from .settings_form import Form, kept, problems, read
from .settings_items import place_of
from .settings_list import GROUP_COLUMNS, SettingsList, about, group_rows
from .sheet import Reader, framed, headed, hint_line, moment, rule_window, safe
from .state import SettingsRead
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

_LEFT = "The file is left as it is. /config opens it in your editor, /retry tries again."
PANEL_ROWS = 4
BANNER_ROWS = 4
ROOMY_COLUMNS = 72


class Settings:
    """A page view. It is kept with its edits until they are saved or dropped."""

    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self.form = Form()
        self._leaving = self._saving = False
        self._to_save: Mapping[str, Any] = {}
        """Edits that were asked to be saved, while the file is looked at first."""
        self._saved: tuple[Mapping[str, Any], str] | None = None
        """What the runtime has saved, and the word for it, while the file is read again."""
        self.editing = Editing(self)
        self._reader = Reader(screen, self._read, self._not_read)
        self.list = SettingsList(screen, lambda: self.form, self._touched)
        self.focus = Window(self.list, always_hide_cursor=True, style="class:bg.base")
        self.entry = Entry(self._focused, self._typing)
        banner = Window(text_control(self._banner_text), height=self._banner_height, always_hide_cursor=True)
        groups = Window(text_control(self._groups), width=GROUP_COLUMNS, always_hide_cursor=True)
        bar = Window(char=lambda: screen.glyphs.bar, width=1, style="class:border.idle")
        self.container: AnyContainer = framed(
            screen,
            self._head,
            ConditionalContainer(banner, Condition(lambda: bool(self._banner()))),
            VSplit([ConditionalContainer(VSplit([groups, bar]), Condition(self._roomy)), self.focus]),
            rule_window(screen),
            Window(text_control(self._panel), height=PANEL_ROWS, always_hide_cursor=True),
            self.entry.container,
        )
        self._moment = (moment(screen.state), screen.terminal_focused)
        self._bind()
        self.look()

    def _bind(self) -> None:
        acts: dict[str, Callable[[], None]] = {
            **self.editing.acts(),
            "settings.save": self._save,
            "settings.apply": self._apply,
            "settings.find": self._find,
            "settings.reload": self._reload,
            "settings.keep": self._keep,
        }
        self.list.entered("settings.edit", self.editing.edit)
        for action_id, call in acts.items():
            self.list.act(action_id, call)
        self.list.keys.add("escape")(lambda event: self.leave())

    def _touched(self) -> None:
        self._leaving = False
        self.editing.touched()

    def key(self, name: str) -> str:
        """The key of an action of this page."""
        return self._screen.registry.key(f"settings.{name}")

    # --- as a view

    def hints(self) -> str:
        if self.entry.shown:
            return "Enter keep  Esc show all" if self.entry.searching else "Enter take it  Esc leave it as it was"
        lit = self.list.lit
        of_many = lit is not None and place_of(self.form, lit) is not None
        keys = (
            ("edit", "edit"),
            *((("add", "add"), ("remove", "remove")) if of_many else ()),
            ("save", "save"),
            ("default", "default"),
            *(() if of_many else (("apply", "apply to running"),)),
            ("find", "find"),
        )
        return hint_line(self._screen, *((f"settings.{name}", text) for name, text in keys)) + "  Esc back"

    def refresh(self) -> None:
        """Look at the file again when the task went on or the terminal got the focus back; nothing is polled."""
        now = (moment(self._screen.state), self._screen.terminal_focused)
        if now != self._moment:
            self._moment = now
            self.look()

    def look(self) -> None:
        """Read the settings as they are now."""
        self._reader.ask(ConfigDetail())

    def leave(self) -> None:
        """Esc: out of a search, then out of the page; edits that are not saved are asked about once."""
        if self.list.wanted:
            self.entry.close()
            self.list.search("")
        elif self.form.edits and not self._leaving:
            self._leaving = True
            what = count(len(self.form.edits), "change is", "changes are")
            self._screen.say(f"{what} not saved. Esc again drops them; s saves")
        else:
            self._touched()
            self._to_save = {}
            self.form = self.form._replace(edits={}, opened=frozenset())
            self._screen.views.close()

    def _focused(self, window: Window | None) -> None:
        self._screen.body.focus_on(window or self.focus)

    # --- reading

    def _read(self, query: Query, snapshot: Snapshot) -> None:
        before, self.form = self.form, read(self.form, snapshot.data)
        self._settle()
        self.list.rows_changed()
        self._look_like(before)
        self._screen.apply(SettingsRead(_facts(self.form)))
        edits, self._to_save = self._to_save, {}
        if edits:
            self._send(edits)

    def _not_read(self) -> None:
        self._settle()
        if self._to_save:
            self._to_save = {}
            self.editing.message = f"Nothing is saved. {self._reader.problem}"

    def _look_like(self, before: Form) -> None:
        """What a save changed of the screen's own looks counts at once; a flag or a session's choice stays."""
        screen = self._screen
        old = {item["key"]: item["effective"] for item in before.rows}
        new = [item for item in self.form.rows if item["key"] in old and item["effective"] != old[item["key"]]]
        follow_settings(screen, new)
        for item in new:
            if item["key"] == "tui.notifications.duration_seconds":
                screen.options = screen.options._replace(notice_seconds=float(item["effective"]))
            elif item["key"] == "tui.notifications.max_visible":
                screen.options = screen.options._replace(max_notices=int(item["effective"]))

    # --- finding

    def _find(self) -> None:
        self.entry.ask("/", self.list.wanted, lambda text: self.entry.close(), lambda: self.list.search(""))

    def _typing(self) -> None:
        if self.entry.shown and self.entry.searching:
            self.list.search(self.entry.text)

    # --- the file

    def _save(self) -> None:
        if not self.form.edits:
            self._screen.say("There is nothing to save")
        elif self.form.problem:
            self.editing.message = "The file cannot be read as settings, so nothing is written over it."
        elif found := problems(self.form):
            self.editing.message = found[0]
        elif not self._saving:
            # Looked at first, so that what moved meanwhile is told before anything is written.
            self.look()
            self._to_save = self.form.edits if self._reader.busy else {}

    def _send(self, edits: Mapping[str, Any]) -> None:
        if self.form.moved:
            self.editing.message = "Nothing is saved yet: the file was changed meanwhile."
        elif not self.form.problem:
            self._dispatch(SaveConfig(dict(edits), self.form.file), "Saved")

    def _reload(self) -> None:
        """Take the file over as it is now; edits are dropped."""
        if self.form.problem or not self.form.moved:
            self.look()
            return
        self.editing.change(self.form._replace(edits={}))
        self._dispatch(SaveConfig({}, self.form.file), "Taken over")

    def _keep(self) -> None:
        if self.form.moved:
            self.editing.change(kept(self.form))
            self._screen.say("Your changes go on top of the file as it is now when you save")

    def _dispatch(self, command: SaveConfig, done: str) -> None:
        link = self._screen.link
        if link is not None:
            self._saving = True
            answered = partial(self._answered, command, done)
            link.act(command, partial(self._screen.intake.on_loop, answered))

    def _answered(self, command: SaveConfig, done: str, ack: Ack) -> None:
        if ack.accepted:
            self._saved = command.values, done
        else:
            self._saving = False
            self.editing.message = f"{ack.message}  [{ack.code}]"
        self.look()
        self._screen.changed()

    def _settle(self) -> None:
        """A save is told of once the file has been read again, so that no frame says saved above what was before."""
        if self._saved is None:
            return
        values, done = self._saved
        self._saved, self._saving = None, False
        left = {key: value for key, value in self.form.edits.items() if values.get(key, self) != value}
        self.form = self.form._replace(edits=left)
        more = "; the running task keeps what it began with" if self._screen.state.running else ""
        self._screen.say(f"{done}{more}")

    def _apply(self) -> None:
        from .settings_apply import ask_limits

        ask_limits(self._screen, self.form)

    # --- drawing

    def _head(self) -> Line:
        form = self.form
        number = len(form.edits)
        states = (
            (not form.rows, ""),
            (bool(form.problem), "cannot be used"),
            (self._saving, "saving"),
            (bool(number), f"{count(number, 'change', 'changes')} not saved"),
            (form.moved, "changed outside"),
            (True, "saved"),
        )
        state = next(word for holds, word in states if holds)
        name = form.path.rpartition("/")[2] or ".fluzo"
        found = f"/{self.list.wanted}" if self.list.wanted else ""
        return headed("Settings", found, f"{name}  {state}".rstrip(), self._screen.layout.columns)

    def _roomy(self) -> bool:
        """The headings among the rows say the group too."""
        return self._screen.layout.columns >= ROOMY_COLUMNS

    def _groups(self) -> Line:
        return joined(group_rows(self.list))

    def _panel(self) -> Line:
        width = self._screen.layout.columns - 2
        asking = self.editing.asking if self.entry.shown and not self.entry.searching else None
        rows = about(self.form, asking or self.list.lit, width)
        if self.editing.message:
            rows = [*rows[: PANEL_ROWS - 2], *wrapped(safe(self.editing.message), width, "class:warn.fg")[:2]]
        return joined([[("", " "), *line] for line in rows[:PANEL_ROWS]])

    def _banner_height(self) -> int:
        return min(len(self._banner()), BANNER_ROWS)

    def _banner_text(self) -> Line:
        return joined([[("", " "), *line] for line in self._banner()[:BANNER_ROWS]])

    def _banner(self) -> list[Line]:
        """What stands in the way: no runtime, a file that cannot be used or has moved, consent that is missing."""
        form, width = self.form, self._screen.layout.columns - 2
        failure = self._screen.state.failure
        text = ""
        if failure is not None:
            text = f"{failure.message}  [{failure.code}]\n{_LEFT}"
        elif self._reader.problem:
            text = self._reader.problem
        elif form.problem:
            text = f"{form.problem}\nThe file is left as it is; what is in force stays. Repair it, then R looks again."
        elif form.moved:
            number = count(len(form.edits), "change", "changes")
            drop = f" (drops your {number})  K keeps them on top of it" if form.edits else " for the next task"
            text = f"The file was changed outside. R takes it over{drop}"
        elif form.consent:
            names = ", ".join(form.consent)
            text = f"Before the next task your consent is needed: {names}. In a shell: fluzo config trust"
        return [line for part in text.split("\n") if part for line in wrapped(part, width, "class:warn.fg")]


def _facts(form: Form) -> dict[str, Any]:
    """What the screen shows of the model that the next task uses."""
    now = {str(item["key"]): item["effective"] for item in form.rows}
    entry = f"models.{now.get('agent.model')}"
    return {
        "model": now.get(f"{entry}.model"),
        "endpoint": now.get(f"{entry}.base_url"),
        "context_window": now.get(f"{entry}.context_window"),
    }


def open_settings(screen: "Screen", group: str = "") -> None:
    """Open the page, or bring it to the front with its edits, at a group; asked for where it is, it is left."""
    page = screen.settings
    if page is None:
        page = screen.settings = Settings(screen)
    elif page in screen.views:
        if page is screen.views[-1] and not group:
            page.leave()
            return
        del screen.views[screen.views.index(page) :]
    else:
        page.look()
    screen.views.show(page)
    if group:
        page.list.to_group(group)
