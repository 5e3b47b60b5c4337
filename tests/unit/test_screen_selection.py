import random
import re

import pytest

from fluzo.screens.blocks import Block, Blocks, Tool
from fluzo.screens.render import BlockRenderer, source_of
from fluzo.screens.selection import (
    Place,
    Selection,
    line_around,
    ordered,
    place_after,
    place_before,
    selected_characters,
    shown_rows,
    text_of,
    word_around,
)
from fluzo.screens.text import SourceRow
from fluzo.screens.theme import UNICODE

PROSE = """# A heading of it

A paragraph with **bold words**, *some* `inline code`, a [link](http://127.0.0.1/deep/path) and a line that wraps,
over two lines of the source. \u6e2c\u8a66 and \U0001f469\u200d\U0001f469\u200d\U0001f467 stand here & <there>.

- first item
- second item that is much longer than the width of the narrowest screen on which it is shown
  1. nested and numbered
  1. again

> A quotation
> of two lines, with `code` in it

```python
def f(x):
\treturn x + 1  # a comment that is too long for one row of the narrow screen, so that it is wrapped

print(f(1))
```

| name | value |
| --- | ---: |
| a long cell that has to be wrapped in a narrow column | 1 |
| b | 22 |

The end.
"""
PLAIN = """Totals are off by one cent.

  Fix it and  add a test, please; this line is long enough to wrap twice over.
End
"""


def everything(block: Block, width: int) -> list[tuple[int, int]]:
    """Every character of the drawn rows, as row and number."""
    rows = BlockRenderer(UNICODE).rows(block, None, width, 0.0)
    return [(number, at) for number, row in enumerate(rows) for at in range(sum(len(part) for _, part in row))]


def select(block: Block, width: int, one: tuple[int, int], other: tuple[int, int]) -> Selection | None:
    """What a drag from one cell to another selects."""
    rows = BlockRenderer(UNICODE).rows(block, None, width, 0.0)
    source = source_of(block)
    shown = shown_rows(rows, source)
    ends = []
    for number, at in (one, other):
        row = shown[number]
        if row is None:
            return None
        start, end = place_before(row, at), place_after(row, at, source)
        ends.append(Selection(Place(block.key, min(start, end)), Place(block.key, max(start, end))))
    return ordered(*ends)


def blocks_of(*blocks: Block) -> Blocks:
    found = Blocks()
    for block in blocks:
        found = found.append(block)
    return found


def letters(text: str) -> str:
    return re.sub(r"[^a-zA-Z]", "", text)


@pytest.mark.parametrize("width", [24, 40, 80, 120])
@pytest.mark.parametrize(("kind", "source"), [("user", PLAIN), ("text", PROSE), ("note", PLAIN), ("thought", PLAIN)])
def test_what_is_copied_is_the_source_between_the_two_ends(width: int, kind: str, source: str) -> None:
    dice = random.Random(width)
    block = Block(0, kind, source=source, state="completed", open=True)  # type: ignore[arg-type]
    rows = BlockRenderer(UNICODE).rows(block, None, width, 0.0)
    cells = [place for place in everything(block, width) if isinstance(rows[place[0]], SourceRow)]
    for _ in range(300):
        one, other = sorted((dice.choice(cells), dice.choice(cells)))
        selection = select(block, width, one, other)
        assert selection is not None
        copied = text_of(blocks_of(block), selection)
        assert copied == source[selection.start.offset : selection.end.offset]
        for number in range(one[0], other[0] + 1):
            row = rows[number]
            if not isinstance(row, SourceRow) or row.lead < 0:
                continue
            text = "".join(part for _, part in row)
            first = max(one[1] if number == one[0] else 0, row.lead)
            stop = other[1] + 1 if number == other[0] else len(text)
            drawn = letters(text[first:stop].removesuffix("\\"))
            assert drawn in letters(copied), (text, copied)


@pytest.mark.parametrize("width", [24, 40, 100])
def test_everything_selected_is_the_whole_source_of_plain_text(width: int) -> None:
    block = Block(0, "user", source=PLAIN)
    cells = everything(block, width)
    selection = select(block, width, cells[0], cells[-1])
    assert selection is not None
    assert text_of(blocks_of(block), selection) == PLAIN.removesuffix("\n")


@pytest.mark.parametrize("width", [24, 60])
def test_rows_of_code_are_copied_without_label_wraps_and_padding(width: int) -> None:
    block = Block(0, "text", source=PROSE, state="completed")
    rows = BlockRenderer(UNICODE).rows(block, None, width, 0.0)
    code = [number for number, row in enumerate(rows) if any("bg.code" in style for style, _ in row)]
    begin, end = next(n for n in code if isinstance(rows[n], SourceRow)), code[-1]
    selection = select(block, width, (begin, 0), (end, width - 1))
    assert selection is not None
    copied = text_of(blocks_of(block), selection)
    assert copied == PROSE.partition("```python\n")[2].partition("\n```")[0]


def test_a_table_row_is_copied_as_its_line() -> None:
    block = Block(0, "text", source=PROSE, state="completed")
    rows = BlockRenderer(UNICODE).rows(block, None, 30, 0.0)
    number = next(n for n, row in enumerate(rows) if "in a narrow" in "".join(part for _, part in row))
    selection = select(block, 30, (number, 3), (number, 3))
    assert selection is not None
    assert text_of(blocks_of(block), selection) == ("| a long cell that has to be wrapped in a narrow column | 1 |")


def test_a_cluster_that_is_drawn_as_one_character_is_copied_whole() -> None:
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
    block = Block(0, "user", source=f"x {family} y")
    selection = select(block, 40, (0 + 1, 2), (0 + 1, 2))
    assert selection is not None
    assert text_of(blocks_of(block), selection) == family


def test_a_selection_over_rows_of_tools_copies_their_lines() -> None:
    first = Block(0, "tool", tool=Tool("o", "c", "run", "run", "make test", "exit 1", output="one\ntwo"), open=True)
    second = Block(1, "tool", tool=Tool("o", "c", "read_file", "read", "a.py", "3 lines"))
    blocks = blocks_of(first, second)
    shown = shown_rows(BlockRenderer(UNICODE).rows(first, None, 60, 0.0), source_of(first))
    row = next(item for item in shown if item is not None and item.first and item.start == 0)
    start = Place(0, place_before(row, 0))
    assert text_of(blocks, Selection(start, Place(1, len(source_of(second))))) == "run make test\none\ntwo\nread a.py"


def test_only_the_characters_of_the_selected_source_are_marked() -> None:
    block = Block(0, "text", source="one **two** three", state="completed")
    rows = BlockRenderer(UNICODE).rows(block, None, 40, 0.0)
    shown = next(item for item in shown_rows(rows, block.source) if item is not None)
    chosen = Selection(Place(0, 6), Place(0, 9))
    assert selected_characters(shown, 0, chosen) == (4, 7)
    assert selected_characters(shown, 1, chosen) == (0, 0)


def test_words_are_names_and_paths_and_lines_are_those_of_the_source() -> None:
    source = "see src/deep/round.py:12\nthen run"
    assert word_around(source, 0, 8) == Selection(Place(0, 4), Place(0, 21))
    assert line_around(source, 0, 27) == Selection(Place(0, 25), Place(0, 33))


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_selection_grows_with_what_is_dragged_over(width: int) -> None:
    dice = random.Random(7)
    block = Block(0, "text", source=PROSE, state="completed")
    rows = BlockRenderer(UNICODE).rows(block, None, width, 0.0)
    cells = [place for place in everything(block, width) if isinstance(rows[place[0]], SourceRow)]
    for _ in range(200):
        one, middle, other = sorted(dice.sample(cells, 3))
        short, long = select(block, width, one, middle), select(block, width, one, other)
        assert short is not None and long is not None
        assert long.start <= short.start and short.end <= long.end
