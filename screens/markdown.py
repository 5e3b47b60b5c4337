"""Markdown to styled rows: CommonMark with tables and strikethrough, on markdown-it. Pure.

Invariant: the source is already sanitized; every row fits the width. HTML and images are shown as text.
"""

import re
from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from fluzo.core.outcome import count

from .code import highlight
from .text import Fragment, Line, SourceRow, around, cells, cut_line, drawable, shorten, wrap_line
from .theme import Glyphs

PROSE_COLUMNS = 100
MIN_COLUMN = 8

_parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def codes(source: str) -> list[tuple[int, str]]:
    """The code blocks of a text: the line of the source on which each begins, and the code without its fence."""
    found = (token for token in _parser.parse(source) if token.type in ("fence", "code_block"))
    return [((token.map or (0, 0))[0], token.content.removesuffix("\n")) for token in found]


def settled(source: str, start: int = 0) -> int:
    """Where the part of a streaming text ends that later text can no longer change: after the last blank line at
    which no fence, list, table, quote or paragraph is open. 0 or `start` when there is none."""
    found, fence = start, ""
    at = start
    for row in source[start:].splitlines(keepends=True):
        stripped = row.strip()
        at += len(row)
        if fence:
            if stripped.startswith(fence) and not stripped.strip("`~"):
                fence = ""
            continue
        if stripped.startswith(("```", "~~~")):
            fence = stripped[:3]
            continue
        if not stripped and row.endswith("\n"):
            rest = source[at:].split("\n", 1)[0]
            if rest and not rest[0].isspace() and not rest[0].isdigit() and rest[0] not in "-*+>|":
                found = at
    return found


def render(source: str, width: int, glyphs: Glyphs, *, colors: bool = True, base: int = 0) -> list[Line]:
    """The rows of a text; blocks are set apart by one blank row. Each row knows its part of the source, of which this
    text begins at `base`."""
    starts = [base, *(base + match.end() for match in re.finditer("\n", source)), base + len(source) + 1]
    rows: list[Line] = []
    for row in _blocks(_parser.parse(source), width, glyphs, colors):
        if isinstance(row, SourceRow):
            row.start, row.end = starts[row.start], max(starts[min(row.end, len(starts) - 1)] - 1, starts[row.start])
        rows.append(row)
    return rows


def _placed(rows: list[Line], token: Token, *, lead: int = 0) -> list[Line]:
    """The rows of a block with the lines of the source that it stands on, which `render` makes positions of."""
    begin, end = token.map or (0, 0)
    return [SourceRow(row, begin, end, lead) for row in rows]


def _moved(rows: list[Line], lines: int) -> list[Line]:
    """Rows of code, whose lines are counted from its first, placed in the text around it."""
    for row in rows:
        if isinstance(row, SourceRow):
            row.start, row.end = row.start + lines, row.end + lines
    return rows


def _blocks(tokens: Sequence[Token], width: int, glyphs: Glyphs, colors: bool) -> list[Line]:
    rows: list[Line] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        end = _matching(tokens, at)
        inner = tokens[at + 1 : end]
        block: list[Line]
        if token.type == "heading_open":
            block = _placed(_inline_rows(inner, min(width, PROSE_COLUMNS), "class:md.heading", colors), token)
        elif token.type == "paragraph_open":
            block = _placed(_inline_rows(inner, min(width, PROSE_COLUMNS), "", colors), token)
        elif token.type in ("fence", "code_block"):
            name = token.info.split()[0] if token.info.split() else ""
            block = code_rows(token.content.rstrip("\n"), name, width)
            _moved(block, (token.map or (0, 0))[0] + (token.type == "fence"))
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            block = _list(token, inner, width, glyphs, colors)
        elif token.type == "blockquote_open":
            quoted = _blocks(inner, max(width - 2, 4), glyphs, colors)
            block = [around([("class:md.quote", f"{glyphs.bar} ")], _dimmed(row)) for row in quoted]
        elif token.type == "table_open":
            block = _table_block(inner, width, glyphs, colors)
        elif token.type == "hr":
            block = _placed([[("class:border.idle", glyphs.rule * min(width, PROSE_COLUMNS))]], token, lead=-1)
        else:
            block = _placed(_plain_rows(token.content, width) if token.content else [], token)
        if rows and block:
            rows.append([])
        rows += block
        at = end + 1
    return rows


def _matching(tokens: Sequence[Token], at: int) -> int:
    depth = 0
    for number in range(at, len(tokens)):
        depth += tokens[number].nesting
        if depth == 0:
            return number
    return len(tokens)


def _dimmed(row: Line) -> Line:
    dimmed: Line = [(style or "class:md.quote", part) for style, part in row]
    return SourceRow(dimmed, row.start, row.end, row.lead) if isinstance(row, SourceRow) else dimmed


def _plain_rows(text: str, width: int) -> list[Line]:
    rows: list[Line] = []
    for part in text.rstrip("\n").split("\n"):
        rows += wrap_line([("", drawable(part))], width)
    return rows


def _inline_rows(tokens: Sequence[Token], width: int, style: str, colors: bool) -> list[Line]:
    rows: list[Line] = []
    for token in tokens:
        if token.type == "inline":
            for line in _lines(token.children or [], style, colors):
                rows += wrap_line(line, width)
    return rows


def _lines(children: Sequence[Token], base: str, colors: bool) -> list[Line]:
    lines: list[Line] = [[]]
    styles = [base]
    link = ""
    for token in children:
        style = " ".join(part for part in styles if part)
        if token.type == "hardbreak":
            lines.append([])
        elif token.type == "link_close":
            styles.pop()
            shown = "".join(part for _, part in lines[-1])
            if link and not shown.endswith(drawable(link)):
                lines[-1].append(("class:text.faint", drawable(f" ({link})")))
        elif token.nesting == 1:
            link = str(token.attrGet("href") or "") if token.type == "link_open" else link
            styles.append(_SPANS.get(token.type, ""))
        elif token.nesting == -1:
            styles.pop()
        else:
            lines[-1] += _span(token, style, colors)
    return lines


_SPANS = {"link_open": "class:text.link", "strong_open": "bold", "em_open": "italic", "s_open": "strike"}


def _span(token: Token, style: str, colors: bool) -> Line:
    if token.type == "code_inline":
        text = drawable(token.content)
        return [(f"{style} class:md.code".strip(), text if colors else f"`{text}`")]
    if token.type == "softbreak":
        return [(style, " ")]
    if token.type == "image":
        return [(style, drawable(f"[{token.content}]({token.attrGet('src')})"))]
    return [(style, drawable(token.content))] if token.content else []


def _list(token: Token, items: Sequence[Token], width: int, glyphs: Glyphs, colors: bool) -> list[Line]:
    rows: list[Line] = []
    number = int(token.attrGet("start") or 1)
    at = 0
    loose = any(item.type == "paragraph_open" and not item.hidden and item.level == token.level + 2 for item in items)
    while at < len(items):
        end = _matching(items, at)
        mark = f"{number}. " if token.type == "ordered_list_open" else f"{items[at].markup or '-'} "
        body = _blocks(items[at + 1 : end], max(width - len(mark), 4), glyphs, colors)
        if not loose:
            body = [row for row in body if row or len(body) == 1] if _tight(items[at + 1 : end]) else body
        if rows and loose:
            rows.append([])
        for offset, row in enumerate(body or [[]]):
            hang = [("class:text.muted", " " * len(mark) if offset else mark)]
            rows.append(around(hang, row) if row or not offset else [])
        number += 1
        at = end + 1
    return rows


def _tight(tokens: Sequence[Token]) -> bool:
    return not any(token.type in ("fence", "code_block") for token in tokens)


# --- code -----------------------------------------------------------------------------------------------------


def code_rows(text: str, language: str, width: int) -> list[Line]:
    """Code on its own ground under a faint label; long lines wrap with a mark in the last column. The rows' places are
    those of their lines in the code."""
    lines = highlight(text, language)
    name = drawable(language)[:20] or "text"
    label = f"{name}  {count(len(lines), 'line', 'lines')}  c copy"
    rows: list[Line] = [[("class:text.faint", shorten(label, width))]]
    for number, line in enumerate(lines):
        rows += [SourceRow(row, number, number + 1, 1) for row in _code_line(line, width)]
    return rows


def _code_line(line: Line, width: int) -> list[Line]:
    flat = "".join(part for _, part in line)
    room = max(width - 3, 4)
    if cells(flat) <= room:
        pad = " " * (width - 1 - cells(flat))
        return [[("class:bg.code", " "), *_on_code(line), ("class:bg.code", pad)]]
    rows: list[Line] = []
    start = 0
    while start < len(flat):
        end = start + len(_take(flat[start:], room))
        piece = cut_line(line, start, end)
        more = end < len(flat)
        pad = " " * (width - 2 - cells(flat[start:end]))
        mark: Fragment = ("class:text.faint class:bg.code", "\\" if more else " ")
        rows.append([("class:bg.code", " "), *_on_code(piece), ("class:bg.code", pad), mark])
        start = end
    return rows


def _take(text: str, room: int) -> str:
    if text.isascii():
        return text[:room]
    used, index = 0, 0
    for index, char in enumerate(text):
        used += cells(char)
        if used > room:
            return text[: max(index, 1)]
    return text


def _on_code(line: Line) -> Line:
    return [(f"class:bg.code {style}".rstrip(), part) for style, part in line]


# --- tables ---------------------------------------------------------------------------------------------------


def _table_block(tokens: Sequence[Token], width: int, glyphs: Glyphs, colors: bool) -> list[Line]:
    """A table's rows; each stands for the whole line of the source, whose cells it may have wrapped."""
    lines = [(token.map or (0, 0))[0] for token in tokens if token.type == "tr_open"]
    placed: list[Line] = []
    for row, number in table_rows(list(_table(tokens, colors)), width, glyphs):
        placed.append(SourceRow(row, lines[number], lines[number] + 1, -1) if row and number >= 0 else row)
    return placed


def _table(tokens: Sequence[Token], colors: bool) -> Iterator[tuple[list[Line], list[str]]]:
    row: list[Line] = []
    aligns: list[str] = []
    for number, token in enumerate(tokens):
        if token.type == "tr_open":
            row, aligns = [], []
        elif token.type in ("th_open", "td_open"):
            aligns.append(str(token.attrGet("style") or "").rpartition(":")[2])
            inline = tokens[number + 1]
            parts = _lines(inline.children or [], "", colors)
            row.append([fragment for part in parts for fragment in part])
        elif token.type == "tr_close":
            yield row, aligns


def table_rows(table: list[tuple[list[Line], list[str]]], width: int, glyphs: Glyphs) -> list[tuple[Line, int]]:
    """A table sized to its content; too wide ones wrap their widest cells, still too wide ones become records. Beside
    each row which line of the table it shows, -1 for none."""
    if not table:
        return []
    count = max(len(row) for row, _ in table)
    sizes = [max((_size(row[column]) for row, _ in table if column < len(row)), default=1) for column in range(count)]
    spare = width - 2 * (count - 1)
    while sum(sizes) > spare and max(sizes) > MIN_COLUMN:
        sizes[sizes.index(max(sizes))] -= 1
    if sum(sizes) > spare:
        return _records(table, width)
    rows: list[tuple[Line, int]] = []
    for number, (row, aligns) in enumerate(table):
        style = "class:md.heading" if number == 0 else ""
        rows += [(line, number) for line in _table_row(row, aligns, sizes, style)]
        if number == 0:
            rows.append(([("class:border.idle", glyphs.rule * (sum(sizes) + 2 * (count - 1)))], -1))
    return rows


def _size(cell: Line) -> int:
    return sum(cells(part) for _, part in cell)


def _table_row(row: list[Line], aligns: list[str], sizes: list[int], style: str) -> list[Line]:
    wrapped: list[list[Line]] = [
        wrap_line(row[column], sizes[column]) if column < len(row) else [[]] for column in range(len(sizes))
    ]
    rows: list[Line] = []
    for number in range(max(len(cell) for cell in wrapped)):
        line: Line = []
        for column, cell in enumerate(wrapped):
            part = cell[number] if number < len(cell) else []
            pad = sizes[column] - _size(part)
            align = aligns[column] if column < len(aligns) else ""
            left = pad if align == "right" else pad // 2 if align == "center" else 0
            last = column == len(wrapped) - 1
            line += [("", " " * left), *((f"{style} {shown}".strip(), text) for shown, text in part)]
            line.append(("", " " * (pad - left + 2) if not last else ""))
        rows.append([fragment for fragment in line if fragment[1]])
    return rows


def _records(table: list[tuple[list[Line], list[str]]], width: int) -> list[tuple[Line, int]]:
    names = list(table[0][0])
    rows: list[tuple[Line, int]] = []
    for number, (row, _) in enumerate(table[1:], 1):
        if rows:
            rows.append(([], -1))
        for column, cell in enumerate(row):
            name = names[column] if column < len(names) else []
            label = [*((f"class:text.muted {style}".strip(), text) for style, text in name), ("class:text.muted", ": ")]
            rows += [(line, number) for line in wrap_line([*label, *cell], width, [("", "  ")])]
    return rows
