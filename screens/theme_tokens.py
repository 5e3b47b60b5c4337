"""The theme tokens: the only place with colour literals besides the mark (`logo.py`).

Invariant: 256-colour columns are fixed here, never searched for at run time (a nearest-colour search loses the hue of
dark diff backgrounds); text tokens keep a contrast of 4.5 on every surface they use, 7 in high contrast.
"""

from typing import NamedTuple


class Token(NamedTuple):
    """One token in both themes: true colour, palette index of 256, name of 16, and attributes without colour."""

    name: str
    background: bool
    default: str
    default_256: int
    default_16: str
    contrast: str
    contrast_256: int
    contrast_16: str
    plain: str


TOKENS = (
    Token("bg.base", True, "#0d111b", 233, "default", "#000000", 16, "black", ""),
    Token("bg.raised", True, "#151b29", 234, "default", "#000000", 16, "black", ""),
    Token("bg.overlay", True, "#1b2334", 235, "black", "#000000", 16, "black", ""),
    Token("bg.select", True, "#2b3a5c", 24, "blue", "#ffff00", 226, "yellow", "reverse"),
    Token("bg.code", True, "#121827", 234, "default", "#000000", 16, "black", ""),
    Token("text.primary", False, "#e4e9f4", 255, "white", "#ffffff", 231, "brightwhite", ""),
    Token("text.strong", False, "#ffffff", 231, "brightwhite", "#ffffff", 231, "brightwhite", "bold"),
    Token("text.muted", False, "#a3aec6", 146, "white", "#e6e6e6", 254, "white", ""),
    Token("text.faint", False, "#8593b0", 103, "brightblack", "#c8c8c8", 251, "white", "dim"),
    Token("text.on_select", False, "#ffffff", 231, "brightwhite", "#000000", 16, "black", "reverse"),
    Token("text.link", False, "#5cc8ff", 81, "brightcyan", "#66e0ff", 81, "brightcyan", "underline"),
    Token("border.idle", False, "#39455f", 239, "brightblack", "#8c8c8c", 245, "white", ""),
    Token("border.focus", False, "#30e0e0", 80, "brightcyan", "#ffff00", 226, "brightyellow", "bold"),
    Token("accent.primary", False, "#4d97f9", 69, "brightblue", "#ffa500", 214, "brightyellow", "bold"),
    Token("accent.second", False, "#a771f8", 135, "brightmagenta", "#ffd24d", 221, "brightyellow", "bold"),
    Token("role.user", False, "#30e0e0", 80, "brightcyan", "#ffff00", 226, "brightyellow", "bold"),
    Token("role.agent", False, "#a9c7ff", 153, "white", "#ffffff", 231, "brightwhite", ""),
    Token("role.tool", False, "#9db4d6", 146, "white", "#ffffff", 231, "brightwhite", ""),
    Token("role.thought", False, "#8b96b3", 103, "brightblack", "#d0d0d0", 252, "white", "italic"),
    Token("state.idle", False, "#8593b0", 103, "brightblack", "#c8c8c8", 251, "white", ""),
    Token("state.running", False, "#4d97f9", 69, "brightblue", "#ffa500", 214, "brightyellow", ""),
    Token("state.waiting", False, "#f2b84b", 215, "brightyellow", "#ffd24d", 221, "brightyellow", "bold"),
    Token("state.blocked", False, "#f2b84b", 215, "yellow", "#ffd24d", 221, "brightyellow", "bold underline"),
    Token("state.completed", False, "#4fd18b", 78, "brightgreen", "#5dff8f", 84, "brightgreen", ""),
    Token("state.failed", False, "#ff6b6b", 203, "brightred", "#ff7a7a", 210, "brightred", "bold"),
    Token("state.cancelled", False, "#8f98ab", 247, "white", "#c0c0c0", 250, "white", ""),
    Token("state.recovered", False, "#5cc8ff", 81, "brightcyan", "#66e0ff", 81, "brightcyan", ""),
    Token("yolo.fg", False, "#160b00", 232, "black", "#000000", 16, "black", "bold reverse"),
    Token("yolo.bg", True, "#ff8a3d", 209, "brightred", "#ff7a45", 209, "brightred", ""),
    Token("danger.fg", False, "#ff9d9d", 217, "brightred", "#ff9a9a", 210, "brightred", "bold"),
    Token("danger.bg", True, "#3a141b", 52, "default", "#000000", 16, "black", ""),
    Token("warn.fg", False, "#f2b84b", 215, "brightyellow", "#ffd24d", 221, "brightyellow", "bold"),
    Token("ok.fg", False, "#4fd18b", 78, "brightgreen", "#5dff8f", 84, "brightgreen", ""),
    Token("info.fg", False, "#7fb2ff", 111, "brightblue", "#66e0ff", 81, "brightcyan", ""),
    Token("diff.add.fg", False, "#86e5ae", 115, "brightgreen", "#5dff8f", 84, "brightgreen", ""),
    Token("diff.add.bg", True, "#10291c", 234, "default", "#000000", 16, "black", ""),
    Token("diff.add.word", True, "#1d5236", 22, "green", "#00401a", 22, "green", "underline"),
    Token("diff.del.fg", False, "#ff9d9d", 217, "brightred", "#ff9a9a", 210, "brightred", ""),
    Token("diff.del.bg", True, "#33141a", 234, "default", "#000000", 16, "black", ""),
    Token("diff.del.word", True, "#6a2029", 52, "red", "#5a0000", 52, "red", "underline"),
    Token("diff.hunk", False, "#8fb7ff", 111, "brightblue", "#66e0ff", 81, "brightcyan", ""),
    Token("diff.gutter", False, "#8593b0", 103, "brightblack", "#c8c8c8", 251, "white", ""),
    Token("md.heading", False, "#8fd6ff", 117, "brightcyan", "#ffff00", 226, "brightyellow", "bold"),
    Token("md.code", False, "#ffd28a", 222, "brightyellow", "#ffd24d", 221, "brightyellow", ""),
    Token("md.quote", False, "#a3aec6", 146, "white", "#e6e6e6", 254, "white", ""),
    Token("code.keyword", False, "#c79bff", 177, "brightmagenta", "#ffd24d", 221, "brightyellow", "bold"),
    Token("code.string", False, "#a8e08a", 150, "brightgreen", "#5dff8f", 84, "brightgreen", ""),
    Token("code.number", False, "#ffb37a", 216, "brightyellow", "#ffa500", 214, "brightyellow", ""),
    Token("code.comment", False, "#7d8aa6", 103, "brightblack", "#c8c8c8", 251, "white", "dim"),
    Token("code.name", False, "#7fc4ff", 117, "brightcyan", "#66e0ff", 81, "brightcyan", ""),
    Token("code.type", False, "#6fe0d0", 80, "cyan", "#66e0ff", 81, "brightcyan", ""),
    Token("search.match", True, "#5a4a12", 58, "yellow", "#ffff00", 226, "yellow", "reverse"),
    Token("scrollbar.thumb", False, "#5d6b8c", 60, "brightblack", "#ffff00", 226, "brightyellow", ""),
)
