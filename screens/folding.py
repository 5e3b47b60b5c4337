"""Several reads one after the other as one row that names the files (design rule S2). Pure.

Invariant: only rows that show nothing but their head are folded, and a folded row names what it stands for: as many
files as there is room for, then how many more.
"""

from .blocks import CHUNK, Block, Blocks
from .render import tool_head
from .text import Line, SourceRow, cells, drawable, shorten
from .theme import Glyphs

FEWEST = 3
"""Fewer reads stay rows of their own."""
_VERB = 7


def foldable(block: Block | None) -> bool:
    """A read that went well and that the person has not opened."""
    tool = block.tool if block is not None else None
    if block is None or tool is None or block.open:
        return False
    return (tool.verb, tool.tag, block.state) == ("read", "", "completed")


def fold_at(blocks: Blocks, key: int) -> tuple[int, int]:
    """The keys of the first and the last read of the fold that a block belongs to; a block on its own is both. No fold
    crosses a multiple of `CHUNK`, so that looking for its ends is cheap in any conversation."""
    if not foldable(blocks.get(key)):
        return key, key
    first = last = key
    while first % CHUNK and foldable(blocks.get(first - 1)):
        first -= 1
    while (last + 1) % CHUNK and foldable(blocks.get(last + 1)):
        last += 1
    return (first, last) if last - first + 1 >= FEWEST else (key, key)


def folded_row(blocks: Blocks, first: int, last: int, width: int, glyphs: Glyphs) -> Line:
    """The one row of a fold; its source is the head of its first read."""
    tools = [tool for key in range(first, last + 1) if (tool := blocks[key].tool) is not None]
    names = [drawable(tool.subject) for tool in tools]
    right = f"{len(names)} files"
    room = width - 2 - _VERB - cells(right) - 2
    shown = len(names)
    while shown > 1 and cells(_listed(names, shown)) > room:
        shown -= 1
    text = shorten(_listed(names, shown), max(room, 8), glyphs.more)
    gap = " " * max(width - 2 - _VERB - cells(text) - cells(right), 1)
    head: Line = [
        ("class:state.completed", f"{glyphs.done} "),
        ("class:role.tool", f"{'read':<{_VERB}}"),
        ("class:text.primary", text),
        ("class:text.muted", f"{gap}{right}"),
    ]
    return SourceRow(head, 0, len(tool_head(tools[0])), -1)


def _listed(names: list[str], shown: int) -> str:
    left = len(names) - shown
    return ", ".join(names[:shown]) + (f", +{left}" if left else "")
