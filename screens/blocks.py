"""The transcript as data: blocks in an immutable sequence that is cheap to append to, to replace in and to prepend to.

Invariant: a block's key never changes; keys are consecutive, those of older pages count down. `revision` grows with
every change of what a block shows, so that (key, revision) names a rendering for ever.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from .sanitize import START, Carry
from .text import Fragment

CHUNK = 64

Kind = Literal["user", "text", "thought", "tool", "note", "rule", "end"]


class Tool(NamedTuple):
    """A tool row: the operation as the runtime tells of it. Nothing a model writes becomes one of these."""

    operation_id: str
    call_id: str
    tool: str
    verb: str
    subject: str
    facts: str = ""
    tag: str = ""
    output: str = ""
    diff: str = ""
    started: float = 0.0
    intended_at: str = ""
    """When its effect was about to begin, by the clock of the runtime."""
    live: tuple[tuple[Fragment, ...], ...] = ()
    """The last lines that a running command has printed."""
    cut: str = ""
    """What of the output is not in `output`, and why."""


class Block(NamedTuple):
    """`state` is a state word of the design; `open` is None until the person opened or closed it."""

    key: int
    kind: Kind
    task_id: str = ""
    source: str = ""
    state: str = ""
    open: bool | None = None
    revision: int = 0
    at: str = ""
    tool: Tool | None = None
    turn: int = 0
    started: float = 0.0
    carry: Carry = START
    message_id: str = ""
    heard: float = 0.0
    """When a streaming text last grew."""
    touched: bool = False
    """Of the end of a task: it has changed files."""

    def changed(self, **fields: Any) -> "Block":
        return self._replace(revision=self.revision + 1, **fields)


class Blocks:
    """An immutable sequence of blocks by key. Replacing one copies a chunk, not the conversation."""

    __slots__ = ("_chunks", "first", "next")

    def __init__(self, first: int = 0, following: int = 0, chunks: tuple[tuple[Block, ...], ...] = ()) -> None:
        self.first = first
        self.next = following
        self._chunks = chunks

    def __len__(self) -> int:
        return self.next - self.first

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and self.first <= key < self.next

    def __getitem__(self, key: int) -> Block:
        number, at = self._place(key)
        return self._chunks[number][at]

    def get(self, key: int) -> Block | None:
        """The block of a key, or None."""
        return self[key] if self.first <= key < self.next else None

    def __iter__(self) -> Iterator[Block]:
        for chunk in self._chunks:
            yield from chunk

    def reversed(self) -> Iterator[Block]:
        for chunk in reversed(self._chunks):
            yield from reversed(chunk)

    def _place(self, key: int) -> tuple[int, int]:
        if key not in self:
            raise IndexError(key)
        number = key // CHUNK - self.first // CHUNK
        begin = self.first if number == 0 else key // CHUNK * CHUNK
        return number, key - begin

    def append(self, block: Block) -> "Blocks":
        """With the block at the end; its key is set to the next one."""
        block = block._replace(key=self.next)
        fits = self._chunks and self.next % CHUNK
        chunks = (*self._chunks[:-1], (*self._chunks[-1], block)) if fits else (*self._chunks, (block,))
        return Blocks(self.first, self.next + 1, chunks)

    def replace(self, block: Block) -> "Blocks":
        number, at = self._place(block.key)
        chunk = self._chunks[number]
        changed = (*chunk[:at], block, *chunk[at + 1 :])
        return Blocks(self.first, self.next, (*self._chunks[:number], changed, *self._chunks[number + 1 :]))

    def prepend(self, older: Sequence[Block]) -> "Blocks":
        """With older blocks before the first; their keys are set."""
        first = self.first - len(older)
        head = [block._replace(key=first + number) for number, block in enumerate(older)]
        if self._chunks and self.first % CHUNK:
            head += self._chunks[0]
            rest = self._chunks[1:]
        else:
            rest = self._chunks
        chunks: list[tuple[Block, ...]] = []
        begin = first
        end = head[-1].key + 1 if head else first
        while begin < end:
            stop = min((begin // CHUNK + 1) * CHUNK, end)
            chunks.append(tuple(head[begin - first : stop - first]))
            begin = stop
        return Blocks(first, self.next, (*chunks, *rest))


def blocks_of_page(messages: Sequence[Mapping[str, Any]], tasks: Mapping[str, str]) -> list[Block]:
    """Blocks of stored messages. `tasks` gives the text of each task: its first message also carries the context.

    A tool row of history is made from the recorded call and the recorded result, which the runtime wrote.
    """
    from .rows import history_row

    results = {item["tool_call_id"]: item for item in messages if item["role"] == "tool"}
    found: list[Block] = []
    opened: set[str] = set()
    for item in messages:
        task_id, at = str(item["task_id"]), str(item["at"])
        base = Block(0, "text", task_id, at=at, turn=int(item["turn"]), message_id=str(item["id"]))
        if item["role"] == "user":
            first = task_id not in opened and task_id in tasks and tasks[task_id] in item["text"]
            opened.add(task_id)
            found.append(base._replace(kind="user", source=tasks[task_id] if first else str(item["text"])))
        elif item["role"] == "assistant":
            opened.add(task_id)
            if item.get("reasoning"):
                found.append(base._replace(kind="thought", source=str(item["reasoning"])))
            if item.get("text"):
                found.append(base._replace(source=str(item["text"])))
            for call in item.get("tool_calls") or ():
                state, tool = history_row(call, results.get(call["id"]))
                found.append(base._replace(kind="tool", state=state, tool=tool))
    return found
