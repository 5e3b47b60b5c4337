"""The model of the screen's rows, a process of its own: `screen_server.py` prints its port and serves for ever.

It answers every request with a stream of 60 deltas on a fixed schedule, and ends each reply with calls of a tool that
read a few lines of a file; with the turn's own time that makes at least 50 deltas and 10 events of the runtime a
second. A request that says "please-hold" gets one delta and then nothing while the connection stays.

A line on standard input changes what the next request gets: `ask` ends the reply with the call of a command, which
needs permission; `fail` refuses it once with a fault that passes, `full` because the context is too long, which makes
the runtime compact. A request for that summary gets one.
"""

import asyncio
import json
import sys
from typing import Any

from stream_server import HEAD, event

PER_SECOND = 78
DELTAS = 60
TEXT = "the interval ends where the next begins and both are kept apart by a strict comparison of their ends"
WORDS = TEXT.split()
HOLD = "please-hold"
COMMAND = ["touch", "approved"]
"""What is asked for; the file would show that it ran."""
SUMMARY = "".join(
    f"## {heading}\nThe intervals are merged; {heading.lower()} as before.\n"
    for heading in ("Goal", "Constraints", "Decisions", "Files", "Checks and failures", "Open work")
)
REFUSALS = {
    "fail": ("503 Service Unavailable", b'{"error": {"message": "the worker restarts", "type": "server_error"}}'),
    "full": ("400 Bad Request", b'{"error": {"message": "too long", "type": "exceed_context_size_error"}}'),
}


def words(number: int) -> str:
    """One delta: Markdown with paragraphs, now and then a list or a piece of code."""
    place = (number - 1) % (3 * DELTAS)
    special = {0: "The ", 60: "- **first** point, ", 80: "\n- `second` point, ", 120: "```python\n", 141: "```\n\nSo "}
    if place in special:
        return special[place]
    if 120 < place < 141:
        return (f"value_{number} ", "= merge(", "low, high", ")\n")[(place - 121) % 4]
    return f"{WORDS[number % len(WORDS)]} "


def call(index: int, number: int, name: str, **arguments: object) -> bytes:
    wanted = {"index": index, "id": f"call_{number}_{index}", "type": "function"}
    function = {"name": name, "arguments": json.dumps(arguments)}
    return event([{"index": 0, "delta": {"tool_calls": [{**wanted, "function": function}]}}])


def ending(tokens: int, reason: str) -> bytes:
    """The end of a reply to a request of so many tokens."""
    usage = {"prompt_tokens": tokens, "completion_tokens": DELTAS, "total_tokens": tokens + DELTAS}
    last = event([{"index": 0, "delta": {}, "finish_reason": reason}])
    return last + event([], usage=usage) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Server:
    def __init__(self) -> None:
        self._delta = 0
        self._turn = 0
        self._wanted: set[str] = set()
        self._never = asyncio.Event()
        """What a held answer waits for: one of its own would be collected, and the answer with it."""

    def listen(self) -> None:
        """Take one line of standard input."""
        line = sys.stdin.readline()
        self._wanted.add(line.strip())
        if not line:
            asyncio.get_running_loop().remove_reader(sys.stdin)

    def _once(self, word: str) -> bool:
        wanted = word in self._wanted
        self._wanted.discard(word)
        return wanted

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                body = await reader.readexactly(int(length.split(b":")[1]))
                await self._answer(writer, json.loads(body), len(body) // 4)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, asked: dict[str, Any], tokens: int) -> None:
        tools = asked.get("tools")
        for word, (status, told) in REFUSALS.items():
            if tools and self._once(word):
                head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(told)}\r\n\r\n"
                writer.write(head.encode() + told)
                return await writer.drain()
        writer.write(HEAD)
        if HOLD in asked["messages"][-1]["content"]:
            writer.write(event([{"index": 0, "delta": {"content": "Thinking about it."}}]))
            await self._never.wait()
        if not tools:
            writer.write(event([{"index": 0, "delta": {"content": SUMMARY}}]) + ending(tokens, "stop"))
            return await writer.drain()
        await self._reply(writer, tokens)

    async def _reply(self, writer: asyncio.StreamWriter, tokens: int) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for number in range(DELTAS):
            await asyncio.sleep(max(begun + number / PER_SECOND - loop.time(), 0))
            self._delta += 1
            writer.write(event([{"index": 0, "delta": {"content": words(self._delta)}}]))
            await writer.drain()
        self._turn += 1
        writer.write(call(0, self._turn, "read_file", path="README.md", offset=self._turn + 1, limit=3))
        if self._once("ask"):
            writer.write(call(1, self._turn, "run", argv=COMMAND))
        writer.write(ending(tokens, "tool_calls"))
        await writer.drain()


async def serve() -> None:
    served = Server()
    asyncio.get_running_loop().add_reader(sys.stdin, served.listen)
    server = await asyncio.start_server(served.answer, "127.0.0.1", 0, limit=1 << 26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
