"""A `.fluzo` as blocks: each a header with the comment lines right above it and the lines below it.

Invariant: a block is moved, added or dropped whole, with its own comments and with nothing of its neighbours. What is
not laid out in blocks, such as an inline table, is left as it is: the caller edits it another way.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import tomlkit

from fluzo.core.named import NamedTuple

Path = tuple[str, ...]

_END: Path = ("",)
"""In place of the path of what stands at the end of a file and is of no table."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""As TOML parts lines; what else Unicode has for it may stand in a text or a comment."""
_HEADER = re.compile(r"\s*\[.*\]\s*(?:#.*)?$")


class _Block(NamedTuple):
    """The first block of a file has neither a header nor a path, and what stands at its end no header. `listed` is an
    entry of an array of tables.
    """

    path: Path
    listed: bool
    text: str


def around(text: str, path: Path) -> tuple[str, str, str]:
    """What stands before the block that a key is in or would be in, that block, and what stands after it.

    It is the whole text where no block alone is concerned.
    """
    blocks = _blocks(text)
    own = [block for block in blocks if block.path[: len(path)] == path]
    wanted = path if own else path[:-1]
    holding = [number for number, block in enumerate(blocks) if block.path == wanted and not block.listed]
    if len(holding) != 1 or len(own) > 1:
        return "", text, ""
    at = holding[0]
    return _joined(blocks[:at]), blocks[at].text, _joined(blocks[at + 1 :])


def without_table(text: str, path: Path) -> str:
    """Without the blocks of a table and of those within it."""
    return _joined([block for block in _blocks(text) if block.path[: len(path)] != path])


def with_table(text: str, path: Path) -> str:
    """With an empty block for a table that is not there, behind those of its family."""
    if not path or _value(text, path) is not None:
        return text
    found = _inserted(_blocks(text), _Block(path, False, f"[{'.'.join(path)}]\n"))
    return found if _readable(found) else text


def with_entries(text: str, path: Path, values: Sequence[Mapping[str, object]]) -> str:
    """With exactly these entries in an array of tables. An entry that stays keeps its comments, wherever it goes."""
    blocks = _blocks(text)
    old = [block for block in blocks if block.path == path and block.listed]
    before = _value(text, path) or []
    if not isinstance(before, list) or len(before) != len(old):
        return text
    places = _places(before, values)
    new = [
        old[places[n]]
        if n in places and before[places[n]] == value
        else _entry(old[places[n]] if n in places else None, path, value)
        for n, value in enumerate(values)
    ]
    spaced = old and old[-1].text.endswith("\n\n")
    new = [
        block._replace(text=f"{block.text}\n") if spaced and n not in places else block for n, block in enumerate(new)
    ]
    if not old:
        return _with_first(text, path, new)
    at = blocks.index(old[0])
    rest = [block for block in blocks if block.path != path or not block.listed]
    return _joined([*rest[:at], *new, *rest[at:]])


def _places(before: Sequence[object], values: Sequence[object]) -> dict[int, int]:
    """Which of the entries before each value is: an equal one wherever it stands, else the one in its place."""
    places: dict[int, int] = {}
    free = dict.fromkeys(range(len(before)))
    for number, value in enumerate(values):
        place = next((place for place in free if before[place] == value), None)
        if place is not None:
            places[number] = place
            del free[place]
    for number in range(min(len(values), len(before))):
        if number not in places and number in free:
            places[number] = number
    return places


def _with_first(text: str, path: Path, new: Sequence[_Block]) -> str:
    """With the first entries of an array of tables, which may stand there as an empty list."""
    before, block, after = around(text, path)
    document: Any = tomlkit.parse(block)
    table = document
    for part in path[:-1]:
        table = table.get(part, {})
    if new and table.get(path[-1]) == []:
        table.remove(path[-1])
        text = before + tomlkit.dumps(document) + after
    found = text
    for entry in new:
        found = _inserted(_blocks(found), entry)
    return found if _readable(found) else text


def _entry(old: _Block | None, path: Path, value: Mapping[str, object]) -> _Block:
    document: Any = tomlkit.parse(old.text if old is not None else f"[[{'.'.join(path)}]]\n")
    table = document
    for part in path:
        table = table[part]
    (entry,) = table
    for name in [name for name in entry if name not in value]:
        entry.remove(name)
    for name, item in value.items():
        if entry.get(name) != item:
            entry[name] = item
    return _Block(path, True, tomlkit.dumps(document))


def _inserted(blocks: list[_Block], new: _Block) -> str:
    """Behind the last block of the nearest family, with one empty line before it."""
    for length in range(len(new.path) - 1, -1, -1):
        family = [
            n for n, block in enumerate(blocks) if block.path[:length] == new.path[:length] and block.path != _END
        ]
        if family:
            break
    last = blocks[family[-1]]
    body = last.text.rstrip("\n \t")
    rest = last.text[len(body) :].lstrip(" \t").removeprefix("\n")
    joined = last._replace(text=f"{body}\n\n" if body else "")
    after = new._replace(text=f"{new.text}{rest}")
    return _joined([*blocks[: family[-1]], joined, after, *blocks[family[-1] + 1 :]])


def _blocks(text: str) -> list[_Block]:
    lines = _LINE.findall(text)
    starts: list[tuple[int, Path, bool]] = []
    whole = 0
    for number, line in enumerate(lines):
        # A line within a text or a list of several lines only looks like a header: from the last one, which can be
        # read by itself, to there nothing is whole.
        if _HEADER.match(line) and _readable("".join(lines[whole:number])):
            whole = number
            first = number
            while first and lines[first - 1].lstrip().startswith("#"):
                first -= 1
            starts.append((first, *_named(line)))
    found = [_Block((), False, "".join(lines[: starts[0][0] if starts else len(lines)]))]
    for (first, path, listed), following in pairwise([*starts, (len(lines), (), False)]):
        found.append(_Block(path, listed, "".join(lines[first : following[0]])))
    own, end = _parted(found[-1].text)
    return [*found[:-1], found[-1]._replace(text=own), _Block(_END, False, end)] if end else found


def _parted(text: str) -> tuple[str, str]:
    """The last block, and the comments at the end of the file that an empty line parts from it."""
    lines = _LINE.findall(text)
    first = len(lines)
    while first and lines[first - 1].strip()[:1] in ("", "#"):
        first -= 1
    blank = next((number for number in range(first, len(lines)) if not lines[number].strip()), len(lines))
    parting = next((number for number in range(blank, len(lines)) if lines[number].strip()), len(lines))
    return "".join(lines[:parting]), "".join(lines[parting:])


def _named(header: str) -> tuple[Path, bool]:
    """The path of a header, and whether it is an entry of an array of tables."""
    path, place = list[str](), tomllib.loads(header)
    inner: object = place
    while isinstance(inner, dict) and inner:
        (name,) = inner
        path.append(name)
        inner = inner[name]
    return tuple(path), isinstance(inner, list)


def _value(text: str, path: Path) -> object:
    value: object = tomllib.loads(text)
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _readable(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _joined(blocks: Sequence[_Block]) -> str:
    return "".join(block.text for block in blocks)
