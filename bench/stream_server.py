"""The server of the turn's row, a process of its own: `stream_server.py DELTAS` prints its port and serves for ever.

Whatever it is asked, it answers with the same Chat Completions stream, an HTTP chunk for every delta, as fast as the
socket takes them.
"""

import asyncio
import json
import sys

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(choices: list[object], **more: object) -> bytes:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench", "choices": choices}
    data = b"data: " + json.dumps({**chunk, **more}).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def reply(deltas: int) -> list[bytes]:
    parts = [event([{"index": 0, "delta": {"content": f" word{number}"}}]) for number in range(deltas)]
    parts.append(event([{"index": 0, "delta": {}, "finish_reason": "stop"}]))
    parts.append(event([], usage={"prompt_tokens": 32000, "completion_tokens": deltas, "total_tokens": 32000 + deltas}))
    return [HEAD, *parts, b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"]


async def serve(deltas: int) -> None:
    parts = reply(deltas)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return writer.close()
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
            for part in parts:
                writer.write(part)
            await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
