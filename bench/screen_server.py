"""The model of the screen's rows, a process of its own: `screen_server.py` prints its port and serves for ever.

It answers every request with a stream of 60 deltas in a second, on a fixed schedule, and ends each reply with the call
of a tool that reads a few lines of a file; with the turn's own time that makes at least 50 deltas and 10 events of the
runtime a second. A request that says "please-hold" gets one delta and then nothing while the connection stays.
"""

import asyncio
import json

from stream_server import HEAD, event

PER_SECOND = 60
TEXT = "the interval ends where the next begins and both are kept apart by a strict comparison of their ends"
WORDS = TEXT.split()
HOLD = "please-hold"


def words(number: int) -> str:
    """One delta: Markdown with paragraphs, now and then a list or a piece of code."""
    place = (number - 1) % (3 * PER_SECOND)
    special = {0: "The ", 60: "- **first** point, ", 80: "\n- `second` point, ", 120: "```python\n", 141: "```\n\nSo "}
    if place in special:
        return special[place]
    if 120 < place < 141:
        return (f"value_{number} ", "= merge(", "low, high", ")\n")[(place - 121) % 4]
    return f"{WORDS[number % len(WORDS)]} "


def call(number: int) -> bytes:
    arguments = json.dumps({"path": "README.md", "offset": number + 1, "limit": 3})
    wanted = {"index": 0, "id": f"call_{number}", "type": "function"}
    function = {"name": "read_file", "arguments": arguments}
    return event([{"index": 0, "delta": {"tool_calls": [{**wanted, "function": function}]}}])


def ending(asked: int) -> bytes:
    """The end of a reply to a request of so many bytes."""
    usage = {"prompt_tokens": asked // 4, "completion_tokens": PER_SECOND, "total_tokens": asked // 4 + PER_SECOND}
    last = event([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])
    return last + event([], usage=usage) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Server:
    def __init__(self) -> None:
        self._delta = 0
        self._turn = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                body = await reader.readexactly(int(length.split(b":")[1]))
                writer.write(HEAD)
                if HOLD in json.loads(body)["messages"][-1]["content"]:
                    writer.write(event([{"index": 0, "delta": {"content": "Thinking about it."}}]))
                    await asyncio.Event().wait()
                await self._reply(writer, len(body))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _reply(self, writer: asyncio.StreamWriter, asked: int) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for number in range(PER_SECOND):
            await asyncio.sleep(max(begun + number / PER_SECOND - loop.time(), 0))
            self._delta += 1
            writer.write(event([{"index": 0, "delta": {"content": words(self._delta)}}]))
            await writer.drain()
        self._turn += 1
        writer.write(call(self._turn) + ending(asked))
        await writer.drain()


async def serve() -> None:
    server = await asyncio.start_server(Server().answer, "127.0.0.1", 0, limit=1 << 26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
