"""Notices: short, bounded, never in the way (PRD 29.3.1). Pure; the clock is an argument.

Invariant: at most `MAX_KEPT` are kept, shown and waiting together; each lives from its receipt, never from when it was
first seen; dropping, dismissing or expiring one decides nothing. What failed or waits stays on its task.
"""

from typing import Literal, NamedTuple

from .text import Line, cells, clusters, drawable, shorten
from .theme import Glyphs

MAX_KEPT = 32
MAX_BYTES = 1024
WIDTH, ROWS = 44, 3
LEVELS = ("info", "done", "warn", "error")
_STYLES = {"info": "class:info.fg", "done": "class:ok.fg", "warn": "class:warn.fg", "error": "class:state.failed"}

Level = Literal["info", "done", "warn", "error"]


class Notice(NamedTuple):
    """`id` names the event: the same one again is the same notice; `expires` is monotonic seconds."""

    id: str
    level: Level
    title: str
    text: str
    expires: float
    times: int = 1


class Notices(NamedTuple):
    """Newest last. `dropped` counts what did not fit, in one number."""

    kept: tuple[Notice, ...] = ()
    dropped: int = 0


def received(notices: Notices, notice_id: str, level: Level, title: str, text: str, expires: float) -> Notices:
    """With one more event. The same event joins the first one and does not lengthen its life."""
    for number, item in enumerate(notices.kept):
        if item.id == notice_id:
            kept = (*notices.kept[:number], item._replace(times=item.times + 1), *notices.kept[number + 1 :])
            return notices._replace(kept=kept)
    new = Notice(notice_id, level, cut(title), cut(text), expires)
    kept = (*notices.kept, new)
    if len(kept) <= MAX_KEPT:
        return notices._replace(kept=kept)
    lowest = min(LEVELS.index(item.level) for item in kept)
    victim = next(item for item in kept if LEVELS.index(item.level) == lowest)
    return Notices(tuple(item for item in kept if item is not victim), notices.dropped + 1)


def expired(notices: Notices, now: float) -> Notices:
    """Without those whose time is over, shown or not."""
    kept = tuple(item for item in notices.kept if item.expires > now)
    return notices if len(kept) == len(notices.kept) else notices._replace(kept=kept)


def dismissed(notices: Notices) -> Notices:
    """Without the newest; nothing else follows from it."""
    return notices._replace(kept=notices.kept[:-1])


def deadline(notices: Notices) -> float | None:
    """When the next one ends."""
    return min((item.expires for item in notices.kept), default=None)


def cut(text: str) -> str:
    """At most `MAX_BYTES` of UTF-8 with the mark of the cut included, ended at a whole character as people see it."""
    text = " ".join(drawable(text.replace("\n", " ")).split())
    if len(text.encode("utf-8", "replace")) <= MAX_BYTES:
        return text
    room, found = MAX_BYTES - 3, ""
    for cluster in clusters(text):
        size = len(cluster.encode("utf-8", "replace"))
        if size > room:
            break
        room -= size
        found += cluster
    return found + "..."


def fitting(rows: int, wanted: int) -> int:
    """How many fit above what must not be covered; possibly none."""
    return max(0, min(wanted, (rows - 2) // ROWS))


def notice_rows(notices: Notices, shown: int, width: int, glyphs: Glyphs) -> list[Line]:
    """The newest notices as framed rows, newest first, and how many more there are."""
    width = min(WIDTH, width)
    rows: list[Line] = []
    visible = notices.kept[::-1][:shown]
    for item in visible:
        rows += _framed(item, width, glyphs)
    more = len(notices.kept) - len(visible) + notices.dropped
    if more and visible:
        text = f"+{more} more: F9"
        rows.append([("class:text.muted", " " * (width - len(text)) + text)])
    return rows


def _framed(item: Notice, width: int, glyphs: Glyphs) -> list[Line]:
    edge = f"{_STYLES[item.level]} class:bg.overlay"
    mark = {"done": glyphs.done, "error": glyphs.failed, "warn": "!"}.get(item.level, "i")
    left, right, low_left, low_right = tuple(glyphs.corners)
    times = f" x{item.times}" if item.times > 1 else ""
    name = shorten(f"{mark} {item.title}{times}", width - 6, glyphs.more)
    text = shorten(item.text, width - 4, glyphs.more)
    pad = " " * (width - 4 - cells(text))
    fill = glyphs.rule * (width - 5 - cells(name))
    return [
        [(edge, f"{left}{glyphs.rule} "), ("class:text.strong class:bg.overlay", name), (edge, f" {fill}{right}")],
        [(edge, f"{glyphs.bar} "), ("class:text.primary class:bg.overlay", text + pad), (edge, f" {glyphs.bar}")],
        [(edge, f"{low_left}{glyphs.rule * (width - 2)}{low_right}")],
    ]
