"""The one registry of actions: key, palette title and slash name of each. Keys, palette, help and hints read it.

Invariant: no action here approves anything. Approving is two acts inside a focused card and has no name to call.
"""

from typing import Literal, NamedTuple

from .sanitize import visible_text
from .text import shorten

Context = Literal[
    "global",
    "composer",
    "transcript",
    "card",
    "palette",
    "history",
    "queue",
    "list",
    "diff",
    "pager",
    "settings",
    "menu",
    "theme",
    "demo",
]


class Action(NamedTuple):
    """`keys` are as people read them (`Ctrl+P`); `slash` is typed in the composer, and `argument` may follow it: a word
    as it is, or in capitals what kind of text it is."""

    id: str
    title: str
    keys: tuple[str, ...] = ()
    slash: str = ""
    context: Context = "global"
    argument: str = ""

    @property
    def usage(self) -> str:
        """The command with what may follow it."""
        return f"{self.slash} [{self.argument}]" if self.argument else self.slash

    def misread(self, rest: str) -> str:
        """Why a text behind the command is not understood; empty when it is, or may be."""
        if not rest or rest == self.argument or self.argument.isupper():
            return ""
        told = " ".join(visible_text(rest).split())
        takes = f"{self.argument} or nothing" if self.argument else "nothing"
        return f'{self.slash} takes {takes} behind it, not "{shorten(told, 24)}"'


def _moves(context: Context, *letters: str) -> tuple[Action, ...]:
    """How one moves through rows; `letters` are those that go down and up where nothing else has them."""
    down, up = letters or ("", "")
    return (
        Action(f"{context}.down", "Line down", tuple(key for key in ("Down", down) if key), "", context),
        Action(f"{context}.up", "Line up", tuple(key for key in ("Up", up) if key), "", context),
        Action(f"{context}.page_down", "Page down", ("PgDn", "Space"), "", context),
        Action(f"{context}.page_up", "Page up", ("PgUp",), "", context),
        Action(f"{context}.top", "To the beginning", ("g", "Home"), "", context),
        Action(f"{context}.end", "To the end", ("G", "End"), "", context),
        Action(f"{context}.right", "Sideways to the right", ("Right", "l"), "", context),
        Action(f"{context}.left", "Sideways to the left", ("Left", "h"), "", context),
        Action(f"{context}.find", "Find", ("/",), "", context),
    )


ACTIONS = (
    Action("palette", "Every command", ("Ctrl+P",), "/commands"),
    Action("help", "Keys", ("F1",), "/keys"),
    Action("interrupt", "Cancel the task, clear the draft, quit", ("Ctrl+C",), "/cancel"),
    Action("kill", "Force stop the task (asks first)", (), "/kill"),
    Action("quit", "Quit", (), "/quit"),
    Action("escape", "Close what is on top", ("Esc",)),
    Action("focus.next", "Next focus", ("Tab",)),
    Action("focus.previous", "Previous focus", ("Shift+Tab",)),
    Action("answer", "Answer what is asked", (), "/answer", argument="TEXT"),
    Action("deny", "Deny the shown request", ("Alt+N",), "/deny", argument="REASON"),
    Action("request.whole", "The whole text, or the change in full", ("v", "PgUp", "PgDn"), "", "card"),
    Action("request.words", "A reason that goes with the denial, or an answer in your own words", ("e",), "", "card"),
    Action("request.previous", "Previous request", ("[",), "", "card"),
    Action("request.next", "Next request", ("]",), "", "card"),
    Action("session.new", "New session", (), "/new"),
    Action("resume", "Go on with the blocked task of this session (asks first)", (), "/resume", argument="TEXT"),
    Action("toggle.row", "Open or close a tool row", ("Ctrl+O",), "/open"),
    Action("toggle.turn", "Open or close the whole turn", ("Alt+O",), "/open-all"),
    Action("sessions", "Earlier sessions (opening one is reading)", ("F2",), "/sessions"),
    Action("tasks", "Tasks: look at, cancel, force stop", ("F4",), "/tasks"),
    Action("changes", "Changes and checks of the task", ("F5",), "/diff"),
    Action("diagnostics", "Diagnostics: budgets, slots, events", (), "/diagnostics"),
    Action("settings", "Settings: see and change every one", ("F6",), "/settings"),
    Action("settings.models", "Settings: models, servers and slots", ("Alt+P",), "/models"),
    Action("settings.limits", "Settings: limits", (), "/limits"),
    Action("settings.storage", "Settings: storage", (), "/storage"),
    Action("settings.telemetry", "Settings: telemetry", (), "/telemetry"),
    Action("settings.notifications", "Settings: notifications", (), "/notifications"),
    Action("find", "Find in the conversation", ("F3",), "/find", argument="TEXT"),
    Action("copy.reply", "Copy the last reply, or all", (), "/copy", argument="all"),
    Action("raw", "The conversation on the plain terminal, until a key", (), "/raw"),
    Action("sidebar", "Show or hide the sidebar", ("F8",), "/sidebar"),
    Action("notices", "Notices", ("F9",), "/notices"),
    Action("notice.dismiss", "Dismiss the newest notice", ("Alt+X",), "/dismiss"),
    Action("permissions", "Permission history", (), "/permissions"),
    Action("yolo.on", "Ask nothing in this session (asks you first)", (), "/yolo", argument="yolo"),
    Action("yolo.off", "Ask again", (), "/ask"),
    Action("theme", "Theme", (), "/theme"),
    Action("motion", "Reduced motion on or off", (), "/motion"),
    Action("mouse", "Mouse on or off", (), "/mouse"),
    Action("retry", "Try again what is blocked or has failed", (), "/retry", argument="TEXT"),
    Action("config.edit", "Edit .fluzo in your editor", (), "/config"),
    Action("slots.free", "Free the slots of abandoned requests (asks first)", (), "/slots", argument="free"),
    Action("redraw", "Redraw the screen", ("Ctrl+L",), "/redraw"),
    Action("suspend", "Suspend to the shell", ("Ctrl+Z",), "/suspend"),
    Action("scroll.page_up", "Page up", ("PgUp",), "/page-up"),
    Action("scroll.page_down", "Page down", ("PgDn",), "/page-down"),
    Action("scroll.up", "Scroll up", ("Shift+Up",), "/scroll-up"),
    Action("scroll.down", "Scroll down", ("Shift+Down",), "/scroll-down"),
    Action("scroll.top", "To the beginning", ("Ctrl+Home",), "/top"),
    Action("scroll.end", "To the end, and follow", ("Ctrl+End",), "/end"),
    Action("send", "Send; while a task runs, queue", ("Enter",), "", "composer"),
    Action("newline", "New line", ("Alt+Enter", "Ctrl+J", "Shift+Enter"), "", "composer"),
    Action("editor", "External editor", ("Ctrl+G",), "/editor", "composer"),
    Action(
        "history.find",
        "Search what you sent before; with nothing written, try again",
        ("Ctrl+R",),
        "/history",
        "composer",
        "TEXT",
    ),
    Action("queue.back", "Take back the newest queued message", ("Alt+Up",), "/unqueue", "composer"),
    Action("queue.show", "Queued messages: edit, order, drop", (), "/queue"),
    Action("transcript.down", "Line down", ("j", "Down"), "", "transcript"),
    Action("transcript.up", "Line up", ("k", "Up"), "", "transcript"),
    Action("transcript.half_down", "Half a page down", ("d", "Space"), "", "transcript"),
    Action("transcript.half_up", "Half a page up", ("u",), "", "transcript"),
    Action("transcript.top", "To the beginning", ("g",), "", "transcript"),
    Action("transcript.end", "To the end", ("G",), "", "transcript"),
    Action("transcript.next_turn", "Next turn", ("]",), "", "transcript"),
    Action("transcript.previous_turn", "Previous turn", ("[",), "", "transcript"),
    Action("transcript.open", "Open or close the row", ("Enter",), "", "transcript"),
    Action("transcript.copy", "Copy the block", ("y",), "", "transcript"),
    Action("transcript.copy_code", "Copy the nearest code", ("c",), "", "transcript"),
    Action("transcript.copy_turn", "Copy the turn", ("Y",), "", "transcript"),
    Action("transcript.pager", "Whole text in the pager", ("v",), "", "transcript"),
    Action("transcript.find", "Find", ("/",), "", "transcript"),
    Action("find.next", "Next match", ("n",), "", "transcript"),
    Action("find.previous", "Previous match", ("N",), "", "transcript"),
    Action("palette.down", "Next command", ("Down",), "", "palette"),
    Action("palette.up", "Previous command", ("Up",), "", "palette"),
    Action("palette.run", "Run it", ("Enter",), "", "palette"),
    Action("palette.write", "Put what was typed in the composer, as a command", ("Tab",), "", "palette"),
    Action("history.down", "Next, which was sent before it", ("Down", "Ctrl+N", "Ctrl+R"), "", "history"),
    Action("history.up", "Previous", ("Up",), "", "history"),
    Action("history.take", "Take it into the composer; nothing is sent", ("Enter",), "", "history"),
    Action("history.folders", "This folder, or all", ("Tab",), "", "history"),
    Action("queue.down", "Next message", ("Down", "j"), "", "queue"),
    Action("queue.up", "Previous message", ("Up", "k"), "", "queue"),
    Action("queue.edit", "Take it back into the composer, to edit it", ("Enter",), "", "queue"),
    Action("queue.earlier", "Before the one before it", ("K",), "", "queue"),
    Action("queue.later", "After the one after it", ("J",), "", "queue"),
    Action("queue.drop", "Drop it", ("d", "Delete"), "", "queue"),
    *_moves("list"),
    Action("list.open", "Look (runs nothing)", ("Enter",), "", "list"),
    Action("list.resume", "Sessions: go on with the blocked task (asks first)", ("R",), "", "list"),
    Action("list.rename", "Sessions: give it another title", ("r",), "", "list"),
    Action("list.folders", "Sessions: this folder, or all", ("Tab",), "", "list"),
    Action("list.answer", "Tasks: go to what it asks", ("a",), "", "list"),
    Action("list.cancel", "Tasks: cancel", ("k",), "", "list"),
    Action("list.force", "Tasks: force stop (asks first)", ("K",), "", "list"),
    *_moves("diff", "j", "k"),
    Action("diff.next_hunk", "Next hunk", ("n",), "", "diff"),
    Action("diff.previous_hunk", "Previous hunk", ("p",), "", "diff"),
    Action("diff.next_file", "Next file", ("]",), "", "diff"),
    Action("diff.previous_file", "Previous file", ("[",), "", "diff"),
    Action("diff.files", "List of files", ("f",), "", "diff"),
    Action("diff.open", "Show unchanged lines; open the lit file", ("Enter",), "", "diff"),
    Action("diff.split", "Split or unified", ("t",), "", "diff"),
    Action("diff.wrap", "Wrap long lines or not", ("w",), "", "diff"),
    Action("diff.copy", "Copy the hunk as a patch", ("y",), "", "diff"),
    Action("diff.checks", "Checks", ("c",), "", "diff"),
    Action("diff.source", "Source: this task, session, working tree, this turn", ("s",), "", "diff"),
    *_moves("pager", "j", "k"),
    Action("pager.next", "Next match", ("n",), "", "pager"),
    Action("pager.previous", "Previous match", ("N",), "", "pager"),
    Action("pager.copy", "Copy the text", ("y",), "", "pager"),
    Action("settings.down", "Next setting", ("Down", "j"), "", "settings"),
    Action("settings.up", "Previous setting", ("Up", "k"), "", "settings"),
    Action("settings.page_down", "Page down", ("PgDn",), "", "settings"),
    Action("settings.page_up", "Page up", ("PgUp",), "", "settings"),
    Action("settings.top", "To the beginning", ("g", "Home"), "", "settings"),
    Action("settings.end", "To the end", ("G", "End"), "", "settings"),
    Action("settings.next_group", "Next group", ("Tab", "]"), "", "settings"),
    Action("settings.previous_group", "Previous group", ("Shift+Tab", "["), "", "settings"),
    Action("settings.edit", "Edit; the next choice; open or close a list", ("Enter", "Space"), "", "settings"),
    Action("settings.more", "A step up; the next choice", ("Right", "l", "+"), "", "settings"),
    Action("settings.less", "A step down; the previous choice", ("Left", "h", "-"), "", "settings"),
    Action("settings.default", "Back to the default", ("r",), "", "settings"),
    Action("settings.undo", "Drop the edit of this setting", ("u",), "", "settings"),
    Action("settings.add", "Add to the list or the table it is in", ("a",), "", "settings"),
    Action("settings.remove", "Remove the item, or the entry after a question", ("d", "Delete"), "", "settings"),
    Action("settings.earlier", "An item: one place earlier", ("<",), "", "settings"),
    Action("settings.later", "An item: one place later", (">",), "", "settings"),
    Action("settings.save", "Save all edits", ("s",), "", "settings"),
    Action("settings.apply", "Show the limits to the running task (asks first)", ("A",), "", "settings"),
    Action("settings.find", "Find a setting", ("/",), "", "settings"),
    Action("settings.reload", "Take over the file as it is now", ("R",), "", "settings"),
    Action("settings.keep", "Keep the edits on top of the file as it is now", ("K",), "", "settings"),
    Action("menu.down", "Next setting", ("Down", "j"), "", "menu"),
    Action("menu.up", "Previous setting", ("Up", "k"), "", "menu"),
    Action("menu.more", "More", ("Right", "l"), "", "menu"),
    Action("menu.less", "Less", ("Left", "h"), "", "menu"),
    Action("menu.next", "The next value", ("Enter", "Space", "+"), "", "menu"),
    Action("menu.previous", "The value before", ("-",), "", "menu"),
    Action("menu.apply", "Apply for this session", ("a",), "", "menu"),
    Action("menu.save", "Save to .fluzo", ("s",), "", "menu"),
    Action("menu.defaults", "Try the defaults", ("d",), "", "menu"),
    Action("menu.find", "Find a setting", ("/",), "", "menu"),
    Action("theme.down", "Next theme", ("Down", "j"), "", "theme"),
    Action("theme.up", "Previous theme", ("Up", "k"), "", "theme"),
    Action("theme.default", "Show the default theme", ("1",), "", "theme"),
    Action("theme.high-contrast", "Show the theme of high contrast", ("2",), "", "theme"),
    Action("theme.keep", "Keep it for this session", ("Enter",), "", "theme"),
    Action("theme.save", "Save it to .fluzo", ("s",), "", "theme"),
)
"""Views add theirs with `Registry.add`."""

DEV_MENU = Action("devmenu", "Developer menu", ("F12",), "/devmenu")
"""Only where `--dev-menu` or `tui.dev_menu` asks for it."""

DEMO = (
    Action("demo", "Scenes of this demo", ("F7",), "/demo", argument="NUMBER"),
    Action("demo.down", "Next row", ("Down", "j"), "", "demo"),
    Action("demo.up", "Previous row", ("Up", "k"), "", "demo"),
    Action("demo.page_down", "Page down", ("PgDn",), "", "demo"),
    Action("demo.page_up", "Page up", ("PgUp",), "", "demo"),
    Action("demo.top", "To the beginning", ("Home",), "", "demo"),
    Action("demo.end", "To the end", ("End",), "", "demo"),
    Action("demo.begin", "Scenes: begin it", ("Enter",), "", "demo"),
    Action("demo.fps_60", "The mark: 60 frames per second", ("6",), "", "demo"),
    Action("demo.fps_30", "The mark: 30 frames per second", ("3",), "", "demo"),
    Action("demo.fps_15", "The mark: 15 frames per second", ("1",), "", "demo"),
    Action("demo.fps_0", "The mark: no frames", ("0",), "", "demo"),
    Action("demo.motion", "The mark: reduced motion or not", ("r",), "", "demo"),
)
"""Only in `fluzo demo --interactive`; nothing of it exists in a live session."""

_SPECIAL = {
    "enter": "enter",
    "esc": "escape",
    "tab": "tab",
    "space": " ",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "up": "up",
    "down": "down",
    "left": "left",
    "right": "right",
    "home": "home",
    "end": "end",
}


def parse_key(shown: str) -> tuple[str, ...]:
    """The prompt-toolkit keys of a key as people read it."""
    *modifiers, name = shown.split("+") if shown != "+" else ["+"]
    key = name if len(name) == 1 else _SPECIAL.get(name.lower(), name.lower())
    if shown == "Shift+Enter":
        return ("f24",)  # The spare key that the reader maps both of its sequences to.
    if modifiers == ["Ctrl"]:
        return (f"c-{key.lower()}",)
    if modifiers == ["Shift"]:
        return (f"s-{key}",)
    if modifiers == ["Alt"]:
        return ("escape", key.lower() if len(key) == 1 else key)
    return (key,)


class Registry:
    """All actions by id; what views bring is added when they are registered."""

    def __init__(self, actions: tuple[Action, ...] = ACTIONS) -> None:
        self.actions: dict[str, Action] = {}
        self.add(*actions)

    def add(self, *actions: Action) -> None:
        """Register actions; a second action of the same id is a mistake of the program."""
        for action in actions:
            if action.id in self.actions:
                raise ValueError(f"action {action.id} is registered twice")
            self.actions[action.id] = action

    def key(self, action_id: str) -> str:
        """The first key of an action as people read it, for hints."""
        keys = self.actions[action_id].keys
        return keys[0] if keys else self.actions[action_id].slash

    def by_slash(self, name: str) -> Action | None:
        return next((action for action in self.actions.values() if action.slash == name), None)

    def commands(self) -> list[Action]:
        """What the palette and the slash list offer."""
        return [action for action in self.actions.values() if action.slash]
