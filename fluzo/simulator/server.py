"""A strict model server on the loopback interface that plays one scenario (ARCH 15.3).

Each request must be the next step of the scenario, or the scenario has failed: then this request and every later one
is answered with status 400 and the diagnostic, and `finish` reports it. The server only answers; it never reads or
changes a workspace and never runs a tool. Nothing waits on a clock unless it is paced for a person who watches:
streams stop at named barriers that the test releases.
"""

import json
import select
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from fluzo.simulator import check, reply
from fluzo.simulator.scenario import Expectation, Part, RawResponse, Reply, Scenario, Step

_POLL_SECONDS = 0.02
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_MODELS_PATH = "/v1/models"
_PIECES_OF_THOUGHT = 20
"""How long a paced answer lets wait for itself."""


@dataclass(slots=True)
class RecordedRequest:
    """One request as it came. `step` is the id of the step it was, empty for none.

    `outcome` is how its answer ended: sent, cut (by the scenario), or left (the client went away).
    """

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Mapping[str, Any]
    step: str = ""
    problems: list[str] = field(default_factory=list)
    outcome: str = ""


class _Barrier:
    def __init__(self) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()


class Simulator:
    """Plays `scenario` on an ephemeral port of 127.0.0.1 for as long as the context is open."""

    def __init__(self, scenario: Scenario, pace_seconds: float = 0.0) -> None:
        self.scenario = scenario
        self.pace_seconds = pace_seconds
        self.requests: list[RecordedRequest] = []
        self._problems: list[str] = []
        self._next = 0
        self._lock = threading.Lock()
        self._answered = threading.Condition(self._lock)
        self._barriers = {
            part.hold: _Barrier()
            for step in scenario.steps
            if isinstance(step.respond, Reply)
            for part in step.respond.parts
            if part.hold
        }
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name=f"simulator {scenario.name}"
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def failed(self) -> bool:
        return bool(self._problems)

    def finish(self) -> list[str]:
        """Everything that went otherwise than the scenario says, steps that never came included."""
        with self._lock:
            missing = [step for step in self.scenario.steps[self._next :] if not step.optional]
            return self._problems + [
                f"{self.scenario.name}: step {step.id!r} never came: expected {step.expect.method} {step.expect.path}"
                for step in missing
            ]

    def release(self, barrier: str) -> None:
        """Let the stream that holds at `barrier`, now or later, go on."""
        self._barriers[barrier].released.set()

    def wait_until_held(self, barrier: str, timeout_seconds: float = 120.0) -> bool:
        """Block until a stream has reached `barrier`; False when the time is over."""
        return self._barriers[barrier].reached.wait(timeout_seconds)

    def wait_until_answered(self, count: int, timeout_seconds: float = 120.0) -> bool:
        """Block until the answers to the first `count` requests have ended; False when the time is over."""

        def ended() -> bool:
            return len(self.requests) >= count and all(item.outcome for item in self.requests[:count])

        with self._answered:
            return self._answered.wait_for(ended, timeout_seconds)

    def close(self) -> None:
        """Stop listening, let every stream go and wait for the threads. Closing again does nothing."""
        for barrier in self._barriers.values():
            barrier.released.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.hang_up()
        self._server.server_close()

    # --- called from the threads of the connections

    def accept(self, request: RecordedRequest, problems: list[str]) -> Step | None:
        """Record a request and return the step that it is; None when it fails the scenario."""
        with self._lock:
            previous = next((item.body for item in reversed(self.requests) if item.method == "POST"), None)
            self.requests.append(request)
            if self._problems:
                problems = [*problems, "the scenario had already failed"]
            step = None if problems else self._match(request, previous, problems)
            if problems:
                request.problems = problems
                self._problems.append(self._diagnostic(request))
            elif step is not None:
                request.step = step.id
            return step

    def _match(self, request: RecordedRequest, previous: Mapping[str, Any] | None, problems: list[str]) -> Step | None:
        """The next step that fits, past optional ones; what the last one tried did not like goes to `problems`."""
        tried: list[str] = []
        for number in range(self._next, len(self.scenario.steps)):
            step = self.scenario.steps[number]
            found = check.expectation_problems(
                step.expect, request.method, request.path, request.headers, request.body, previous
            )
            if not found:
                self._next = number + 1
                return step
            tried += [f"step {step.id!r}: {problem}" for problem in found]
            if not step.optional:
                break
        problems += tried or ["unexpected: every step of the scenario has been played"]
        return None

    def _diagnostic(self, request: RecordedRequest) -> str:
        number = len(self.requests)
        observed = check.describe(request.method, request.path, request.body)
        return f"{self.scenario.name}: request {number}: {'; '.join(request.problems)} | observed: {observed}"

    def answered(self, request: RecordedRequest, outcome: str) -> None:
        with self._answered:
            request.outcome = outcome
            self._answered.notify_all()

    def last_diagnostic(self) -> str:
        with self._lock:
            return self._problems[-1]

    def hold(self, name: str, connection: socket.socket) -> bool:
        """Wait at a barrier; False when the client left meanwhile."""
        barrier = self._barriers[name]
        barrier.reached.set()
        while not barrier.released.wait(_POLL_SECONDS):
            if _client_left(connection):
                return False
        return True

    def breathe(self, connection: socket.socket, pieces: int = 1) -> bool:
        """Let the time of so many pieces of an answer pass; False when the client left meanwhile."""
        return not self.pace_seconds or not _client_left(connection, pieces * self.pace_seconds)


class _Server(ThreadingHTTPServer):
    # Threads are joined by server_close, so that no socket outlives the context.
    daemon_threads = False

    def __init__(self, simulator: Simulator) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.simulator = simulator
        self._open: set[socket.socket] = set()
        self._over = False
        self._open_lock = threading.Lock()

    def server_bind(self) -> None:
        # The inherited method would ask the resolver for this host's name.
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        # Without the polite shutdown of the inherited method, which would turn a scripted reset into a plain end.
        self.close_request(request)

    def connected(self, connection: socket.socket) -> None:
        with self._open_lock:
            self._open.add(connection)
            if self._over:  # Its thread is only beginning.
                _end(connection)

    def disconnected(self, connection: socket.socket) -> None:
        with self._open_lock:
            self._open.discard(connection)

    def hang_up(self) -> None:
        """End the connections that a client keeps alive; their threads wait in a read."""
        with self._open_lock:
            self._over = True
            for connection in self._open:
                _end(connection)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.connected(self.connection)

    def finish(self) -> None:
        self.server.disconnected(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr: the record and the diagnostic are the log."""

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        simulator = self.server.simulator
        headers = {name.lower(): value for name, value in self.headers.items()}
        length = headers.get("content-length", "0")
        raw = self.rfile.read(int(length)) if length.isdecimal() else b""
        request = RecordedRequest(self.command, self.path, headers, raw, {})
        if self._is_discovery(request):
            self._send(200, "application/json", reply.models_object(simulator.scenario.models))
            return
        problems = self._read(request)
        step = simulator.accept(request, problems)
        if step is None:
            error = {"message": simulator.last_diagnostic(), "type": "scenario_failed", "code": "scenario_failed"}
            self._send(400, "application/json", json.dumps({"error": error}).encode())
            simulator.answered(request, "sent")
        else:
            simulator.answered(request, self._answer(step, request))

    def _is_discovery(self, request: RecordedRequest) -> bool:
        scenario = self.server.simulator.scenario
        return bool(scenario.models) and (request.method, request.path) == ("GET", _MODELS_PATH)

    def _read(self, request: RecordedRequest) -> list[str]:
        """Parse the body into the record; what is wrong with it by the protocol alone."""
        if request.method != "POST":
            return []
        if "content-length" not in request.headers:
            self.close_connection = True
            return ["the request has no Content-Length"]
        request.body, problems = check.parse_body(request.raw)
        if not request.headers.get("content-type", "").startswith("application/json"):
            problems.append("the content type is not application/json")
        if not problems and request.path == Expectation().path:
            problems += check.protocol_problems(request.body, self.server.simulator.scenario.model)
        return problems

    def _answer(self, step: Step, request: RecordedRequest) -> str:
        try:
            if not self.server.simulator.breathe(self.connection, _PIECES_OF_THOUGHT):
                self.close_connection = True
                return "left"
            if isinstance(step.respond, RawResponse):
                raw = step.respond
                self._send(raw.status, raw.content_type, raw.body, raw.headers)
                return "sent"
            if request.body.get("stream", False):
                return self._stream(step.respond, request)
            return self._whole(step.respond, request)
        except ConnectionError:
            self.close_connection = True
            return "left"

    def _whole(self, scripted: Reply, request: RecordedRequest) -> str:
        for part in scripted.parts:
            if stopped := self._pause(part):
                return stopped
        self._send(200, "application/json", reply.whole_object(scripted, str(request.body.get("model"))))
        return "sent"

    def _stream(self, scripted: Reply, request: RecordedRequest) -> str:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        options = request.body.get("stream_options")
        wanted = bool(options.get("include_usage")) if isinstance(options, dict) else False
        for item in reply.stream_events(scripted, str(request.body.get("model")), include_usage=wanted):
            if isinstance(item, bytes):
                self.wfile.write(f"{len(item):x}\r\n".encode() + item + b"\r\n")
                if not self.server.simulator.breathe(self.connection):
                    self.close_connection = True
                    return "left"
            elif stopped := self._pause(item):
                return stopped
        self.wfile.write(b"0\r\n\r\n")
        return "sent"

    def _pause(self, part: Part) -> str:
        """Wait at a barrier or end the connection; how the answer ended, empty when it goes on."""
        if part.hold:
            if self.server.simulator.hold(part.hold, self.connection):
                return ""
            self.close_connection = True
            return "left"
        if part.disconnect is None:
            return ""
        if part.disconnect == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.close_connection = True
        return "cut"

    def _send(self, status: int, content_type: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _client_left(connection: socket.socket, wait_seconds: float = 0.0) -> bool:
    readable, _, _ = select.select([connection], [], [], wait_seconds)
    if not readable:
        return False
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True
