"""The words of the large history: what people ask, models answer, call and are told. From a seeded source only."""

import random

VERBS = ("Fix", "Explain", "Speed up", "Test", "Simplify", "Document")
THINGS = ("the merge of intervals", "the parser", "the report", "the empty timeline", "the failing test", "the loader")
WHY = ("it fails on touching ends", "nobody understands it", "it is slow on large input", "a reader asked for it")
TEXT = (
    "the interval ends where the next begins and both are kept apart by a strict comparison so a touching pair is"
    " never merged which the test expects therefore the condition has to allow equality and the list must stay sorted"
)
WORDS = tuple(TEXT.split())
CODE = """```python
def merge(intervals):
    merged = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
```"""
TABLE = """| input | before | after |
| --- | --- | --- |
| touching | two | one |
| apart | two | two |
| 重なり | 一 | 一 |"""
LINES = tuple(
    f"{number:4}\t{'    ' * (number % 3)}value_{number} = merge([(0, {number}), ({number}, {number * 2})])"
    for number in range(1, 400)
)


def task_text(source: random.Random, number: int) -> str:
    return f"{source.choice(VERBS)} {source.choice(THINGS)} ({number}): {source.choice(WHY)}."


def sentence(source: random.Random) -> str:
    begin, length = source.randrange(len(WORDS)), source.randint(8, 22)
    words = [WORDS[(begin + at) % len(WORDS)] for at in range(length)]
    return " ".join(words).capitalize() + "."


def answer(source: random.Random, number: int, *, short: bool = False) -> str:
    """Markdown as models write it: paragraphs, a list, code, now and then a table."""
    paragraph = " ".join(sentence(source) for _ in range(source.randint(1, 3)))
    if short:
        return paragraph
    points = "\n".join(f"- **{name}**: {sentence(source)}" for name in ("Cause", "Change", "Check"))
    parts = [f"## Result {number}", paragraph, points, CODE]
    if number % 3 == 0:
        parts.append(TABLE)
    return "\n\n".join(parts)


def thought(source: random.Random) -> str:
    return sentence(source) if source.random() < 0.3 else ""


def listing(source: random.Random) -> str:
    """A piece of a file or of an output."""
    begin = source.randrange(len(LINES) - 60)
    return "\n".join(LINES[begin : begin + source.randint(4, 60)])


def kept_output(source: random.Random, size: int) -> bytes:
    """An output of a command, of exactly this many bytes; no two are equal."""
    head = f"run {source.getrandbits(64):016x}\n"
    text = "\n".join(LINES) + "\n"
    return (head + text * (size // len(text) + 1)).encode()[:size]


def _path(source: random.Random) -> str:
    folders, names = ("src", "src/core", "tests", "docs"), ("interval", "merge", "parser", "report", "timeline")
    return f"{source.choice(folders)}/{source.choice(names)}_{source.randrange(40)}.py"


Call = tuple[str, str, str, str, dict[str, object]]


def _read(source: random.Random) -> Call:
    path = _path(source)
    return "read_file", "read", "read", path, {"path": path}


def _search(source: random.Random) -> Call:
    word = source.choice(("overlap", "boundary", "def merge", "Interval"))
    return "search", "search", "read", word, {"pattern": word}


def _edit(source: random.Random) -> Call:
    path = _path(source)
    return "edit_file", "edit", "write", path, {"path": path, "old_text": "low < high", "new_text": "low <= high"}


def _run(source: random.Random) -> Call:
    argv = ["python3", "-m", "unittest", _path(source)]
    return "run", "execute", "execute", " ".join(argv), {"argv": argv}


CALLS = (_read, _read, _search, _edit, _run, _run)
