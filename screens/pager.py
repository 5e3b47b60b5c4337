"""The pager: one long text in full, to read, search and copy. Looking changes nothing."""

from typing import TYPE_CHECKING, Literal

from prompt_toolkit.layout import AnyContainer

from .entry import with_find
from .keys import Registry
from .sheet import FRAME_ROWS, Sheet, framed, headed, hint_line, sheet_window
from .text import Line, drawable, shorten

if TYPE_CHECKING:
    from .app import Screen


_CONTEXTS = {
    "global": "Everywhere",
    "composer": "In the composer",
    "transcript": "In the conversation (Tab)",
    "card": "On the permission card",
    "palette": "In the list of commands (Ctrl+P)",
    "history": "In the search through what you sent (Ctrl+R)",
    "queue": "In the queued messages (`/queue`)",
    "settings": "In the settings (F6)",
    "demo": "In the scenes of the demo (only in `fluzo demo --interactive`)",
    "menu": "In the developer menu (only with `--dev-menu`, F12)",
    "theme": "In the theme picker (/theme)",
    "list": "In the lists of sessions and tasks",
    "diff": "In the changes",
    "pager": "In a text in full",
}


class Pager:
    """A page view over one text, already sanitized. `copies` is what copying takes instead of it, and its name."""

    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen", name: str, text: str, copies: tuple[str, str] | None = None) -> None:
        self._name = name
        self._text = text
        self._screen = screen
        self._lines: list[Line] = [[("", drawable(line))] for line in text.split("\n")]
        self._sheet = sheet = Sheet(screen, lambda: self._lines)
        self.focus = sheet_window(sheet)
        taken, what = copies or (text, "the text")
        sheet.act("pager.copy", lambda: screen.copy(taken, what))
        self._find = with_find(screen, self, sheet)
        self.container: AnyContainer = framed(screen, self._head, self._find, self.focus)

    def hints(self) -> str:
        keys = hint_line(self._screen, ("pager.find", "find"), ("pager.copy", "copy"), ("escape", "back"))
        return f"Up/Down PgUp/PgDn Left/Right scroll  {keys}"

    def refresh(self) -> None:
        """The text is what it was when it was opened."""

    def _head(self) -> Line:
        # Drawn before the text below it, which has another height after a resize and beside what is found.
        height = self._screen.layout.rows - FRAME_ROWS - self._find.filter()
        rows = len(self._lines)
        top = max(0, min(self._sheet.top, rows - height))
        where = f"rows {top + 1} to {min(top + height, rows)} of {rows}"
        return headed(shorten(drawable(self._name), 60), "", where, self._screen.layout.columns)


def keys_document(registry: Registry) -> str:
    """`docs/keys.md`: the registry as a Markdown document."""
    rows = [
        "# Keys",
        "",
        "Generated from the screen's registry; `tests/unit/test_screen_layout.py` checks that it is current.",
        "",
    ]
    rows += ["Approving has no name here: it is two acts inside a focused card.", ""]
    for context in dict.fromkeys(action.context for action in registry.actions.values()):
        rows += [
            f"## {_CONTEXTS.get(context, f'In {context}')}",
            "",
            "| key | command | action |",
            "| --- | --- | --- |",
        ]
        rows += [
            f"| {', '.join(f'`{key}`' for key in action.keys)} | {f'`{action.usage}`' if action.slash else ''} "
            f"| {action.title} |"
            for action in registry.actions.values()
            if action.context == context
        ]
        rows.append("")
    return "\n".join(rows)


def help_text(registry: Registry) -> str:
    """Every action with its keys, by context."""
    rows: list[str] = []
    for context in dict.fromkeys(action.context for action in registry.actions.values()):
        rows += ["", _CONTEXTS.get(context, f"In {context}"), ""]
        for action in registry.actions.values():
            if action.context == context:
                rows.append(f"  {'  '.join(action.keys):<20} {action.usage:<18} {action.title}")
    return "\n".join(rows[1:])
