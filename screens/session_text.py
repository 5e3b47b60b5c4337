"""A session in words: its row in the list and what is known of it before it is opened. Pure."""

from collections.abc import Mapping
from typing import Any

from fluzo.core.outcome import count

from .rows import thousands
from .sheet import column, safe
from .task_text import STYLES, VERDICTS, state_word
from .text import Line, shorten, shorten_path

_MUTED, _PLAIN, _STRONG = "class:text.muted", "class:text.primary", "class:text.strong"
_BRANCH, _SHORT_BRANCH = 20, 9
_BESIDES = 37
"""Columns of a row that are neither the title's nor the branch's."""
_NARROW = 66
"""Below it a row has no room for the branch, which the preview shows then."""
_WIDE = 90
_WORDS = 160
"""Columns of the first and the last words."""
RECOVERED = "recovered"


def session_state(item: Mapping[str, Any]) -> str:
    """The state of its newest task; a session that was cut off is one that was recovered."""
    if not item.get("state"):
        return "empty"
    word = state_word(item)
    return RECOVERED if word == "interrupted" else word


def words_of(item: Mapping[str, Any]) -> str:
    """What a search looks through: title, first and last words, branch, changed files, state, another folder."""
    paths = " ".join(map(str, item.get("paths") or ()))
    keys = ("title", "first", "last", "branch", "id", "place", "problem")
    texts = (str(item.get(key) or "") for key in keys)
    return " ".join((*texts, paths, session_state(item)))


def _branch_room(width: int) -> int:
    return 0 if width < _NARROW else _SHORT_BRANCH if width < _WIDE else _BRANCH


def _branch(text: str, width: int) -> str:
    room = _branch_room(width)
    return f" {column(text, room)}" if room else ""


def _title(text: str, width: int) -> str:
    room = _branch_room(width)
    return column(text, width - _BESIDES - (room + 1 if room else 0))


def session_columns(width: int, *, folders: bool = False) -> Line:
    """The names over the rows of the list; with `folders` the folder stands in place of the branch."""
    branch = "folder" if folders else "branch"
    return [
        (
            _MUTED,
            f"{'state':<11} {_title('title', width)}{_branch(branch, width)} {'last used (UTC)':<16}{'turns':>7}",
        )
    ]


def session_row(item: Mapping[str, Any], width: int, *, here: bool, folders: bool = False) -> Line:
    """One session: state, title, branch or folder, when it was last used, its turns. The one on the screen has a
    star."""
    if "problem" in item:
        return [("class:warn.fg", column("not read", 11)), (_PLAIN, f" {safe(item['title'])}")]
    state = session_state(item)
    style = "class:state.recovered" if state == RECOVERED else STYLES.get(str(item.get("state")), _MUTED)
    title = f"{'* ' if here else ''}{safe(item['title']) or '(no title)'}"
    used = column(moment_text(item["updated_at"]), 16)
    return [
        (style, column(state, 11)),
        (_PLAIN, f" {_title(title, width)}"),
        (_MUTED, f"{_branch(_where(item, width, folders=folders), width)} {used}{item.get('turns') or 0:>7}"),
    ]


def _where(item: Mapping[str, Any], width: int, *, folders: bool) -> str:
    if not folders:
        return safe(item.get("branch"))
    return shorten_path(str(item.get("place") or "(here)"), _branch_room(width))


def about_session(item: Mapping[str, Any]) -> list[Line]:
    """What is known of a session before it is opened, at most eight rows."""
    if "problem" in item:
        told = (safe(item["problem"]), safe(item.get("hint")))
        return [[(_STRONG, safe(item["title"]))], *([("class:warn.fg", text)] for text in told if text)]
    created = safe(str(item["created_at"])[:10])
    tokens = thousands(float(item.get("tokens") or 0))
    figures = f"{count(int(item.get('turns') or 0), 'turn', 'turns')}, {tokens} tokens"
    rows: list[Line] = [
        [(_STRONG, safe(item["title"]))],
        [(_MUTED, f"created {created}, {figures}")],
        [(_MUTED, "state: "), (_PLAIN, _state_text(item))],
    ]
    branch, place = safe(item.get("branch")), str(item.get("place") or "")
    if branch or place:
        folder: Line = [(_MUTED, "folder: "), (_PLAIN, f"{place}  ")] if place else []
        rows.append([*folder, *([(_MUTED, "branch: "), (_PLAIN, branch)] if branch else [])])
    for name, key in (("first: ", "first"), ("last:  ", "last")):
        if text := safe(item.get(key)):
            rows.append([(_MUTED, name), (_PLAIN, f'"{shorten(text, _WORDS)}"')])
    if paths := item.get("paths") or ():
        # Of a session that was cut off the files are known, and not how many lines.
        figures = f"+{item['added']} -{item['removed']}  " if item["added"] or item["removed"] else ""
        files = f"changed {count(len(paths), 'file', 'files')}  {figures}"
        rows.append([(_MUTED, files), (_PLAIN, safe(", ".join(map(str, paths))))])
    if verdict := VERDICTS.get(str(item.get("verdict") or "")):
        rows.append([(_MUTED, "checks of the last task: "), (_PLAIN, "passed" if verdict == "checked" else verdict)])
    return rows


def _state_text(item: Mapping[str, Any]) -> str:
    """`blocked: budget exhausted`, and of a recovered one that nothing of it is run again by itself."""
    state, reason = session_state(item), safe(item.get("reason")).replace("_", " ")
    if state == RECOVERED:
        return (
            "recovered; it goes on in its folder (R says how)"
            if item.get("place")
            else "recovered; R goes on with it (asks)"
        )
    return f"{state}: {reason}" if reason else state


def moment_text(at: object) -> str:
    """Date and minute of a recorded instant (UTC)."""
    return safe(str(at)[:16].replace("T", " "))
