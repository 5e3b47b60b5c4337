"""A change that waits for permission, in full: what the card can show of it only in part.

Invariant: looking decides nothing; there is no key here that answers. Esc goes back to the card, with nothing chosen.
"""

from typing import TYPE_CHECKING, Literal

from prompt_toolkit.layout import AnyContainer, HSplit, Window

from .card import diff_rows, own_paths, title_of
from .controls import row
from .sanitize import visible_text
from .sheet import Sheet, safe
from .state import Request
from .text import Line

if TYPE_CHECKING:
    from .app import Screen

_UNCUT = 1 << 20


class Preview:
    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen", request: Request) -> None:
        self._request = request
        rows: list[Line] = []
        for path in own_paths(request.data.get("scope") or {}):
            text = f"! {visible_text(path)} holds changes of your own, made before this task"
            rows.append([("class:warn.fg", text)])
        rows += diff_rows(str(request.data.get("preview") or ""), _UNCUT)
        self.focus = Window(Sheet(screen, lambda: rows), always_hide_cursor=True, style="class:bg.base")
        rule = Window(char=screen.glyphs.rule, height=1, style="class:border.idle")
        self.container: AnyContainer = HSplit([row(self._head), rule, self.focus])

    def hints(self) -> str:
        return "Arrows PgUp/PgDn scroll  Esc back to the card"

    def refresh(self) -> None:
        """The request is what it was when it was opened; the card says when it is settled."""

    def _head(self) -> Line:
        summary = safe(self._request.data.get("summary"))
        return [
            ("", " "),
            ("class:text.strong", title_of(self._request)),
            ("class:text.primary", f"  {summary}"),
            ("class:state.waiting", "  not done; waits for your answer"),
        ]
