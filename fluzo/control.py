"""The control socket: what other processes of the same user may see and stop of what the owner of a workspace runs.

Another client of the same port, never a second engine (ARCH 5.2). Both ends check that the other is the same user, and
the client that it speaks with the owner whom the lock names; a PID decides nothing and nobody is ever signalled.
A client that leaves, or is thrown out, changes nothing: what runs goes on.

Lines of JSON, one greeting by the owner, then one answer for each request:

    {"control": 1, "instance": "..."}
    {"control": 1, "id": "...", "request": {"protocol": 1, "type": "CancelTask", ...}}
    {"control": 1, "id": "...", "answer": {"protocol": 1, "type": "Ack", ...}}    or    {..., "error": {"code": ...}}
"""

import asyncio
import json
import logging
import os
import socket
import struct
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fluzo.core.errors import FluzoError, UsageError, WorkspaceError
from fluzo.core.events import dumps
from fluzo.core.port import (
    PROTOCOL_VERSION,
    Ack,
    CancelTask,
    CapacityStatus,
    EventPage,
    ForceStopTask,
    PendingRequests,
    Port,
    ResetCapacity,
    Snapshot,
    TaskDetail,
    TaskList,
    from_wire,
    to_wire,
)

CONTROL_VERSION = 1
BY = "another process"
"""Who is recorded for what comes through here; the client has no say in it."""

MAX_REQUEST_BYTES = 16 * 1024
MAX_ANSWER_BYTES = 32 * 1024 * 1024
MAX_CLIENTS = 32
MAX_TEXT_CHARACTERS = 128
REMEMBERED_COMMANDS = 256
"""Acknowledgements that are kept to be given again to whoever repeats a request."""
IDLE_SECONDS = 30.0
"""A client that sends no whole request, or reads no answer, for this long is thrown out."""
ACCEPT_AGAIN_SECONDS = 0.5
FINISH_SECONDS = 1.0
"""How long an answer under way may take when the owner closes."""

_MAX_SOCKET_PATH_BYTES = 107  # unix(7): sun_path is 108 bytes with the final NUL.
_COMMANDS = (CancelTask, ForceStopTask, ResetCapacity)
_PERMITTED: Mapping[str, type] = {
    cls.__name__: cls for cls in (*_COMMANDS, TaskList, TaskDetail, EventPage, PendingRequests, CapacityStatus)
}

_log = logging.getLogger(__name__)

Control = CancelTask | ForceStopTask | ResetCapacity
Look = TaskList | TaskDetail | EventPage | PendingRequests | CapacityStatus


class _Malformed(UsageError):
    """After this the connection is closed: what follows on it cannot be trusted to begin where a request begins."""

    code = "control_malformed"


# --- the owner's end ------------------------------------------------------------------------------------------


class ControlServer:
    """Serves the permitted part of a port on the loop that it was started on."""

    def __init__(self, port: Port, path: Path, instance: str, idle_seconds: float) -> None:
        """Use `start`, while the workspace's lock is held: whatever is at `path` was left by somebody who is gone."""
        self._path = path
        self._listener = _listen(path)
        self._accepting = asyncio.create_task(self._accept())
        self._port = port
        self._instance = instance
        self._idle_seconds = idle_seconds
        self._clients: set[asyncio.Task[None]] = set()
        self._waiting: set[asyncio.Task[None]] = set()
        self._closing = False
        self._acknowledged: OrderedDict[str, tuple[Control, asyncio.Future[Ack]]] = OrderedDict()

    @classmethod
    async def start(
        cls, port: Port, path: Path, instance: str, *, idle_seconds: float = IDLE_SECONDS
    ) -> "ControlServer":
        """Listen at `path`. Raises WorkspaceError when no socket can be made there."""
        try:
            return cls(port, path, instance, idle_seconds)
        except OSError as exc:
            raise WorkspaceError(
                f"The control socket cannot be made in {path.parent}: {exc.strerror or exc}.",
                code="workspace_unusable",
                hint="Set XDG_STATE_HOME to a directory on a local disk.",
            ) from exc

    async def close(self) -> None:
        """Stop listening, finish the answers under way and hang up. Call it while the lock is still held."""
        self._closing = True
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        self._listener.close()
        self._path.unlink(missing_ok=True)
        for task in self._waiting:
            task.cancel()
        if self._clients:
            _, late = await asyncio.wait(self._clients, timeout=FINISH_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as exc:
                _log.error("the control socket took no connection: %s", exc)
                await asyncio.sleep(ACCEPT_AGAIN_SECONDS)  # Out of descriptors, most likely.
                continue
            task = asyncio.create_task(self._serve(connection))
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _serve(self, connection: socket.socket) -> None:
        # Not even a greeting: who can connect without our rights came by a door that should not be there.
        if peer_uid(connection) != os.getuid() or len(self._clients) > MAX_CLIENTS:
            connection.close()
            return
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=MAX_REQUEST_BYTES)
        try:
            with suppress(ConnectionError, TimeoutError):
                await self._converse(reader, writer)
        finally:
            writer.transport.abort()  # What was to be sent has been sent, or the client does not read it.
            with suppress(OSError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)  # So that a drained writer has sent everything.
        await self._write(writer, {"control": CONTROL_VERSION, "instance": self._instance})
        while not self._closing:
            request_id = ""
            try:
                line = await self._next_line(reader)
                if line is None:
                    return
                request_id, request = _parse(line)
                answer = await self._perform(request_id, _permitted(request))
            except _Malformed as exc:
                await self._send(writer, request_id, error=exc)
                return
            except FluzoError as exc:
                await self._send(writer, request_id, error=exc)
            except (ConnectionError, TimeoutError):
                raise  # It is the client that fails here.
            except Exception as exc:
                # A defect of ours: who asks is told so, and what the owner runs goes on.
                _log.exception("a request on the control socket failed")
                await self._send(writer, request_id, error=FluzoError(f"The owner failed ({type(exc).__name__})."))
            else:
                await self._send(writer, request_id, answer)

    async def _next_line(self, reader: asyncio.StreamReader) -> bytes | None:
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            async with asyncio.timeout(self._idle_seconds):
                return await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError as exc:
            raise _Malformed(f"A request has at most {MAX_REQUEST_BYTES} bytes.") from exc
        finally:
            self._waiting.discard(task)

    async def _perform(self, request_id: str, value: Control | Look) -> Ack | Snapshot:
        if isinstance(value, _COMMANDS):
            return await self._command(request_id, value._replace(by=BY))
        return await asyncio.wrap_future(self._port.query(value))

    async def _command(self, request_id: str, command: Control) -> Ack:
        """Carry a command out once, however often its request comes; the shield is for clients that leave."""
        known = self._acknowledged.get(request_id)
        if known is not None:
            if known[0] != command:
                raise UsageError("That request id was used for another command.", code="control_malformed")
            return await asyncio.shield(known[1])
        future = asyncio.wrap_future(self._port.dispatch(command))

        def forget_failure(done: "asyncio.Future[Ack]") -> None:
            if done.cancelled() or done.exception() is not None:
                self._acknowledged.pop(request_id, None)  # Nothing was acknowledged: it may be tried again.

        future.add_done_callback(forget_failure)
        self._acknowledged[request_id] = (command, future)
        if len(self._acknowledged) > REMEMBERED_COMMANDS:
            self._acknowledged.popitem(last=False)
        return await asyncio.shield(future)

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        request_id: str,
        answer: Ack | Snapshot | None = None,
        error: FluzoError | None = None,
    ) -> None:
        content = {"answer": to_wire(answer)} if answer is not None else {"error": error.to_json() if error else {}}
        await self._write(writer, {"control": CONTROL_VERSION, "id": request_id, **content})

    async def _write(self, writer: asyncio.StreamWriter, message: Mapping[str, object]) -> None:
        data = dumps(message).encode("ascii")
        if len(data) >= MAX_ANSWER_BYTES:
            too_large = UsageError("That answer is too large for the control socket.", hint="Ask for less at a time.")
            data = dumps({**message, "answer": None, "error": too_large.to_json()}).encode("ascii")
        writer.write(data + b"\n")
        async with asyncio.timeout(self._idle_seconds):
            await writer.drain()


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)  # The lock is ours, so whoever made it is gone.
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        # The file takes its mode from the socket, less the umask; there is no moment in which it is open to others.
        os.fchmod(listener.fileno(), 0o600)
        with address_of(path) as address:
            listener.bind(address)
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def _parse(line: bytes) -> tuple[str, object]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise _Malformed("A request is one line with one JSON object.") from exc
    if not isinstance(message, dict) or message.get("control") != CONTROL_VERSION:
        raise _Malformed(f"This owner speaks version {CONTROL_VERSION} of the control protocol.")
    request_id = message.get("id")
    if not _is_short_text(request_id) or not request_id:
        raise _Malformed(f"A request has an id of 1 to {MAX_TEXT_CHARACTERS} printable ASCII characters.")
    return str(request_id), message.get("request")


def _permitted(request: object) -> Control | Look:
    """The command or query of a request. Raises UsageError `not_permitted`, or _Malformed."""
    name = request.get("type") if isinstance(request, dict) else None
    if not isinstance(request, dict) or not isinstance(name, str):
        raise _Malformed("A request holds a command or a query of the port.")
    if request.get("protocol") != PROTOCOL_VERSION:
        raise _Malformed(f"This owner speaks version {PROTOCOL_VERSION} of the port's protocol.")
    if name not in _PERMITTED:
        raise UsageError(
            "The control socket is for looking, cancelling, killing and freeing slots; this is none of it.",
            code="not_permitted",
        )
    try:
        value: Control | Look = from_wire(request)
    except (KeyError, TypeError, ValueError) as exc:
        raise _Malformed(f"That is no {name}.") from exc
    for field, wanted in _PERMITTED[name].__annotations__.items():
        found = getattr(value, field)
        if not (_is_short_text(found) if wanted is str else type(found) is int and 0 <= found < 2**53):
            raise _Malformed(f"{field} of {name} is not what it has to be.")
    return value


def _is_short_text(value: object) -> bool:
    """Ids and words are; so nothing else needs to be understood of a text that comes from outside."""
    return isinstance(value, str) and len(value) <= MAX_TEXT_CHARACTERS and value.isascii() and value.isprintable()


# --- both -----------------------------------------------------------------------------------------------------


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end, as the kernel recorded it (unix(7), SO_PEERCRED: pid, uid, gid)."""
    uid: int = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
    return uid


@contextmanager
def address_of(path: Path) -> Iterator[str]:
    """The path, or where it is too long for a socket a short one through a descriptor of its directory."""
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH_BYTES:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
