"""A scripted HTTP server on a loopback socket: every byte, cut, barrier and close of an answer is the test's.

Unlike the scenario simulator it knows nothing of Chat Completions, so that it can also send what no honest server
would. It runs on the test's own event loop; requests are recorded as they came.
"""

import asyncio
import contextlib
import itertools
import json
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
EVENT_STREAM = (("Content-Type", "text/event-stream"),)
JSON = (("Content-Type", "application/json"),)

Part = bytes | asyncio.Event | Callable[[], None]
"""A piece of the body, a barrier that the test opens, or something to do once the client has what came before."""

SETTLING_ROUNDS = 50
"""Turns of the loop after which a client on it has read what a loopback socket already holds."""


@dataclass(frozen=True)
class WireRequest:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """`close`: `clean` ends the body, `reset` kills the connection, `hold` waits until the client has gone."""

    parts: tuple[Part, ...] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = EVENT_STREAM
    close: Literal["clean", "reset", "hold"] = "clean"


Script = Sequence[Answer] | Callable[[WireRequest], Answer]


@dataclass
class ScriptedWireServer:
    """Use as `async with`. A sequence is played one answer a request; more requests than answers get a 599."""

    script: Script
    requests: list[WireRequest] = field(default_factory=list)
    connections: int = 0
    in_flight: int = 0
    overlap: int = 0
    clients_gone: int = 0

    async def __aenter__(self) -> "ScriptedWireServer":
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()
        self._handlers: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in list(self._handlers):
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        self.connections += 1
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The server is being closed; asyncio reports a cancelled handler as an error of its own.
        finally:
            self._handlers.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _read_request(reader)
        if request is None:
            return False
        number = len(self.requests)
        self.requests.append(request)
        self.arrived.set()
        self.in_flight += 1
        self.overlap = max(self.overlap, self.in_flight)
        try:
            if callable(self.script):
                return await self._answer(self.script(request), reader, writer)
            unexpected = Answer((b"unexpected request",), 599, ())
            answer = self.script[number] if number < len(self.script) else unexpected
            return await self._answer(answer, reader, writer)
        finally:
            self.in_flight -= 1

    async def _answer(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{name}: {value}" for name, value in answer.headers)]
        writer.write("\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode())
        for part in answer.parts:
            if isinstance(part, asyncio.Event):
                await part.wait()
            elif callable(part):
                for _ in range(SETTLING_ROUNDS):
                    await asyncio.sleep(0)
                part()
            elif part:
                writer.write(b"%x\r\n%s\r\n" % (len(part), part))
                await writer.drain()
                await asyncio.sleep(0)  # Lets the client on the same loop see this cut.
        if answer.close == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return False
        if answer.close == "hold":
            with contextlib.suppress(ConnectionError):
                await reader.read()
            self.clients_gone += 1
            self.left.set()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def _read_request(reader: asyncio.StreamReader) -> WireRequest | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return WireRequest(method, target, headers, body)


def chunk(delta: dict[str, object] | None = None, **choice: object) -> bytes:
    """One `data:` event with a choice, as most servers send it."""
    body = {"id": "c1", "model": "fx", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": None, **choice}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def says(text: str) -> Answer:
    """A whole streamed answer."""
    return Answer((chunk({"role": "assistant", "content": text}), chunk(finish_reason="stop"), DONE))


def refuses(status: int, body: object, headers: Iterable[tuple[str, str]] = JSON) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer((raw,), status, tuple(headers))


def case(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def case_names() -> list[str]:
    """The wire cases with one body."""
    return sorted(path.stem for path in CASES.glob("p*.sse"))


def case_cuts(fixture: dict[str, Any]) -> tuple[bytes, ...]:
    """The body of a case, cut into packets as its `delivery` says."""
    raw = (CASES / fixture["body_file"]).read_bytes()
    delivery = fixture["delivery"]
    if delivery["mode"] == "bytes":
        size = delivery["size"]
        return tuple(raw[at : at + size] for at in range(0, len(raw), size))
    marks = [0, *delivery.get("at", []), len(raw)]
    return tuple(raw[start:end] for start, end in itertools.pairwise(marks))
