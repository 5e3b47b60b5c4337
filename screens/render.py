"""Blocks to rows, cached: what a block looks like at a width, in a theme, opened or closed.

Invariant: a cached rendering is found by everything it depends on, and never changed; a streaming text keeps the rows
of its settled part and renders its tail alone. Counters say how much work was done, for tests and diagnostics.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fluzo.core.outcome import CHANGES, count

from .blocks import Block, Tool
from .card import diff_rows
from .rows import clock, size
from .text import Fragment, Line, SourceRow, around, cells, cut_line, drawable, justify, rows_of, shorten
from .theme import Glyphs

CACHE_CELLS = 4_000_000
"""Bound of the cache in characters kept; about 32 MB of rows."""
FAILED_ROWS = 10
DIFF_ROWS = 12
OPEN_ROWS = 200
LIVE_THOUGHT_ROWS = 2
SILENT_SECONDS = 5
"""A text that streams and has not grown for so long says so."""
_VERB = 7

RAIL = {
    "completed": "class:state.completed",
    "failed": "class:state.failed",
    "cancelled": "class:state.cancelled",
    "blocked": "class:state.blocked",
    "waiting": "class:state.waiting",
    "stopping": "class:state.blocked",
    "running": "class:state.running",
}


FOLDED_ROWS, OPEN_ROWS = 12, 8
"""A message of the person with more rows than the first shows the second, until it is opened."""


@dataclass(slots=True)
class Streaming:
    """The settled beginning of a text that still grows."""

    width: int = 0
    characters: int = 0
    rows: tuple[Line, ...] = ()
    source: str = ""


class BlockRenderer:
    def __init__(self, glyphs: Glyphs) -> None:
        self.glyphs = glyphs
        self.colors = True
        self.keys = {"open": "Ctrl+O"}
        self.hints: Mapping[tuple[str, bool], str] = {}
        """What can be done about a task that ended in a state, with the keys for it."""
        self.rendered = 0
        self.hits = 0
        self._cache: OrderedDict[tuple[object, ...], list[Line]] = OrderedDict()
        self._kept = 0
        self._streams: dict[int, Streaming] = {}

    def clear(self) -> None:
        """Forget everything; only another conversation needs it."""
        self._cache.clear()
        self._streams.clear()
        self._kept = 0

    def rows(self, block: Block, previous: Block | None, width: int, now: float) -> list[Line]:
        """The rows of a block without its rail, at most `width` cells; a gap before it counts as its first row."""
        gap = has_gap(block, previous)
        if block.heard and block.state == "running" and now - block.heard >= SILENT_SECONDS:
            still = f"no tokens for {now - block.heard:.0f} s"
            quiet = self.rows(block._replace(heard=0.0), previous, width, now)
            return [*quiet, [("class:text.faint", still)]]
        live = block.tool is not None and block.state in ("running", "stopping")
        key = (block.key, block.revision, block.kind, width, gap, self.colors, self.glyphs.done)
        if not live and (found := self._cache.get(key)) is not None:
            self._cache.move_to_end(key)
            self.hits += 1
            return found
        self.rendered += 1
        rows = [*([[]] if gap else []), *self._render(block, width, now)]
        if not live:
            self._keep(key, rows)
        return rows

    def estimate(self, block: Block, width: int) -> int:
        """Rows a block will take, without rendering it."""
        if block.kind == "tool" or (block.kind == "thought" and not block.open):
            return 1
        rows = 1 + block.source.count("\n") + len(block.source) // max(width, 1)
        return min(rows, FOLDED_ROWS) if block.kind == "user" and not block.open else rows

    def _keep(self, key: tuple[object, ...], rows: list[Line]) -> None:
        self._cache[key] = rows
        self._kept += _weight(rows)
        while self._kept > CACHE_CELLS and len(self._cache) > 1:
            _, dropped = self._cache.popitem(last=False)
            self._kept -= _weight(dropped)

    def _render(self, block: Block, width: int, now: float) -> list[Line]:
        match block.kind:
            case "user":
                return self._user(block, width)
            case "text":
                return self._text(block, width)
            case "thought":
                return self._thought(block, width)
            case "tool":
                return self._tool(block, width, now)
            case "rule":
                return [self._rule(block, width + 2)]  # No rail stands before it.
            case _:
                return self._told(block, width)

    # --- kinds

    def _user(self, block: Block, width: int) -> list[Line]:
        shown = block.at[11:16] if len(block.at) > 16 else ""
        word = {"sending": "sending", "refused": "not accepted"}.get(block.state, shown)
        if not self.colors:
            word = f"you  {word}".rstrip()  # The rail alone says it by its colour, and in ASCII by nothing.
        rows = wrapped(block.source, min(width, 100), "class:text.primary")
        if len(rows) > FOLDED_ROWS and not block.open:
            told = f"{len(rows) - OPEN_ROWS} more rows  (Tab, then Enter shows them, v pager)"
            rows = [*rows[:OPEN_ROWS], [("class:text.faint", shorten(told, width))]]
        if word:
            last = "".join(part for _, part in rows[-1])
            if cells(last) + cells(word) + 2 <= width:
                gap = " " * (width - cells(last) - cells(word))
                rows[-1] = around([], rows[-1], [("", gap), ("class:text.faint", word)])
            else:
                rows.append([("class:text.faint", " " * (width - cells(word)) + word)])
        return rows

    def _text(self, block: Block, width: int) -> list[Line]:
        from .markdown import render, settled

        if block.state != "running":
            self._streams.pop(block.key, None)
            return render(block.source, width, self.glyphs, colors=self.colors)
        stream = self._streams.setdefault(block.key, Streaming())
        if stream.width != width or not block.source.startswith(stream.source):
            stream.width, stream.characters, stream.rows, stream.source = width, 0, (), ""
        end = settled(block.source, stream.characters)
        if end > stream.characters:
            settled_now, base = block.source[stream.characters : end], stream.characters
            piece = render(settled_now, width, self.glyphs, colors=self.colors, base=base)
            stream.rows = (*stream.rows, *([[]] if stream.rows and piece else []), *piece)
            stream.characters, stream.source = end, block.source[:end]
        rest, base = block.source[stream.characters :], stream.characters
        tail = render(rest, width, self.glyphs, colors=self.colors, base=base)
        rows = [*stream.rows, *([[]] if stream.rows and tail else []), *tail]
        if rows and sum(cells(part) for _, part in rows[-1]) < width:
            rows[-1] = around([], rows[-1], [("class:text.muted", self.glyphs.caret)])
        return rows

    def _thought(self, block: Block, width: int) -> list[Line]:
        running = block.state == "running"
        glyph = self.glyphs.opened if block.open else self.glyphs.closed
        took = f"thought for {_whole(block.started)}" if block.started >= 1 else "thought"
        head: Line = [("class:role.thought", f"{glyph} {'thinking' if running else took}")]
        if not block.open and not running:
            return [head]
        text = block.source.lstrip("\n")
        cut = len(block.source) - len(text)
        body = wrapped(text.rstrip("\n"), max(min(width - 2, 98), 8), "class:role.thought", cut)
        if not block.open:
            body = body[-LIVE_THOUGHT_ROWS:]
        return [head, *(around([("", "  ")], row) for row in body)]

    def _tool(self, block: Block, width: int, now: float) -> list[Line]:
        tool, glyphs = block.tool, self.glyphs
        if tool is None:
            return []
        opened = is_open(block)
        glyph = {
            "completed": glyphs.done,
            "failed": glyphs.failed,
            "waiting": glyphs.waiting,
            "queued": glyphs.waiting,
            "cancelled": glyphs.cancelled,
            "unknown": "?",
        }.get(block.state, glyphs.closed)
        if opened and (tool.output or tool.diff or tool.live):
            glyph = glyphs.opened
        facts = f"running  {clock(now - tool.started)}" if block.state == "running" else tool.facts
        facts = "waiting" if block.state == "waiting" else facts
        right = "  ".join(part for part in (tool.tag, facts) if part)
        style = RAIL.get(block.state, "class:state.idle")
        left_room = width - 2 - _VERB - (cells(right) + 2 if right else 0)
        right = right if left_room >= 12 else shorten(right, max(width - 2 - _VERB - 12, 0), glyphs.more)
        row = justify(shorten(drawable(tool.subject), max(left_room, 8), glyphs.more), right, width - 2 - _VERB)
        cut = len(row) - len(right)
        head: Line = [
            (style, f"{glyph} "),
            ("class:role.tool", f"{tool.verb:<{_VERB - 1}.{_VERB - 1}} "),
            ("class:text.primary", row[:cut]),
            ("class:text.muted", row[cut:]),
        ]
        details = self._live(tool, width) if block.state == "running" else self._details(block, width)
        first = SourceRow([part for part in head if part[1]], 0, len(tool_head(tool)), len(glyph) + 1)
        return [first, *(details if opened else [])]

    def _live(self, tool: Tool, width: int) -> list[Line]:
        """The last lines of a running command, each in one row."""
        edge = ("class:border.idle", f"  {self.glyphs.bar} ")
        room = max(width - 4, 8)
        return [[edge, *_one_row(line, room, self.glyphs.more, colors=self.colors)] for line in tool.live]

    def _details(self, block: Block, width: int) -> list[Line]:
        tool = block.tool
        if tool is None:
            return []
        room = max(width - 4, 8)
        edge = ("class:border.idle", f"  {self.glyphs.bar} ")
        base = len(tool_head(tool)) + 1
        if tool.diff:
            limit = OPEN_ROWS if block.open else DIFF_ROWS
            rows = _placed(diff_rows(tool.diff, room), tool.diff, base)
            shown, rest = rows[:limit], len(rows) - limit
        else:
            rows = wrapped(tool.output, room, "class:text.muted", base) if tool.output else []
            limit = OPEN_ROWS if block.open else FAILED_ROWS
            shown = rows[:limit] if block.open else rows[-limit:]
            rest = len(rows) - len(shown)
        lines: list[Line] = [around([edge], row) for row in shown]
        if rest > 0:
            hidden = rows[limit:] if tool.diff or block.open else rows[:rest]
            missing = size(sum(len(part.encode("utf-8", "replace")) for row in hidden for _, part in row))
            how = "Tab, then v pager, y copy" if block.open else f"{self.keys['open']} all, v pager, y copy"
            told = f"{count(rest, 'more line', 'more lines')}, {missing}  (view limit; {how})"
            lines.append([edge, ("class:text.faint", shorten(told, room))])
        if tool.cut and not tool.diff:
            lines.append([edge, ("class:warn.fg", shorten(tool.cut, room))])
        return lines

    def _rule(self, block: Block, width: int) -> Line:
        text = shorten(drawable(block.source), width - 6)
        style = "class:state.recovered"
        line = f"{self.glyphs.rule * 2} {text} "
        return [(style, line + self.glyphs.rule * max(width - cells(line), 0))]

    def _told(self, block: Block, width: int) -> list[Line]:
        glyphs = self.glyphs
        glyph = {"completed": glyphs.done, "failed": glyphs.failed, "cancelled": glyphs.cancelled}.get(block.state, "!")
        style = RAIL.get(block.state, "class:text.muted")
        rows: list[Line] = []
        for number, row in enumerate(wrapped(block.source, max(width - 2, 8), style if block.kind == "note" else "")):
            rows.append(around([(style, f"{glyph} " if number == 0 else "  ")], row))
        if block.kind == "end" and block.open and (words := self.hints.get((block.state, block.touched))):
            rows.append([("class:text.muted", shorten(f"  {words}", width))])
        return rows


def is_open(block: Block) -> bool:
    """Whether a row shows its details: as the person chose, else failures and changes."""
    if block.open is not None:
        return block.open
    if block.tool is None:
        return False
    if block.state == "running" and block.tool.live:
        return True
    return bool(block.tool.output and block.state == "failed") or bool(
        block.tool.diff and block.tool.verb in CHANGES and block.state != "waiting"
    )


def _one_row(line: Sequence[Fragment], width: int, more: str, *, colors: bool) -> Line:
    """A styled line cut to one row."""
    drawn: Line = [(style if colors else "class:text.muted", drawable(part)) for style, part in line]
    flat = "".join(part for _, part in drawn)
    cut = shorten(flat, width, more)
    return drawn if cut == flat else [*cut_line(drawn, 0, len(cut) - len(more)), ("class:text.faint", more)]


def _whole(value: float) -> str:
    """A time in whole seconds below a minute: what a thought took is no measurement."""
    return f"{value:.0f} s" if value < 60 else clock(value)


def has_gap(block: Block, previous: Block | None) -> bool:
    """Whether an empty row stands before a block."""
    if previous is None:
        return True
    rows = ("tool", "thought", "note")
    return not (block.kind in rows and previous.kind in rows)


def tool_head(tool: Tool) -> str:
    """The source of a tool row's first line."""
    return f"{tool.verb} {tool.subject}"


def source_of(block: Block) -> str:
    """What a block says as source text, which its rows count their places in."""
    tool = block.tool
    if tool is None:
        return block.source
    return "\n".join(part for part in (tool_head(tool), tool.diff, tool.output) if part)


def _placed(rows: list[Line], text: str, base: int) -> list[Line]:
    """Rows that show one line of a text each, with the places of those lines."""
    placed: list[Line] = []
    for row, line in zip(rows, text.split("\n"), strict=False):
        placed.append(SourceRow(row, base, base + len(line)))
        base += len(line) + 1
    return placed


def wrapped(text: str, width: int, style: str, base: int = 0) -> list[Line]:
    """The rows of plain text, drawable; `base` is where the text begins in its block's source."""
    rows: list[Line] = []
    for part in text.split("\n"):
        shown = drawable(part)
        for start, end in rows_of(shown, width):
            # Where drawing changes nothing each row has its own piece; else those of a line share the line.
            place = (base + start, base + end) if shown == part else (base, base + len(part))
            rows.append(SourceRow([(style, shown[start:end])] if end > start else [], *place))
        base += len(part) + 1
    return rows


def _weight(rows: list[Line]) -> int:
    return sum(len(part) + 16 for row in rows for _, part in row) + 64
