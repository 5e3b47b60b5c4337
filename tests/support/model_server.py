"""A small OpenAI-compatible server for setup: lists models, refuses chosen parameters, records what it was sent."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Reply = tuple[int, str, bytes]
"""Status, content type, body."""


@dataclass
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class ScriptedModelServer:
    url: str = ""
    received: list[Received] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.received]


def models(*entries: object) -> Reply:
    return 200, "application/json", json.dumps({"object": "list", "data": entries}).encode()


def answer(text: str = "ready") -> dict[str, object]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}


def chat(refused: Iterable[str] = ()) -> Callable[[Received], Reply]:
    """Answers chat requests, with a 400 for those that carry one of the refused parameters."""

    def reply(request: Received) -> Reply:
        for name in refused:
            if request.body.get(name):
                message = f"Unrecognized request argument supplied: {name}\x1b[31m"
                return 400, "application/json", json.dumps({"error": {"message": message, "param": name}}).encode()
        if request.body.get("stream"):
            chunk = {"choices": [{"index": 0, "delta": {"content": "ready"}, "finish_reason": "stop"}]}
            return 200, "text/event-stream", b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"
        return 200, "application/json", json.dumps(answer()).encode()

    return reply


@contextmanager
def scripted_model_server(
    get: Callable[[Received], Reply] | None = None, post: Callable[[Received], Reply] | None = None
) -> Iterator[ScriptedModelServer]:
    """Serve on an ephemeral loopback port; a method without a script answers 404."""
    server = ScriptedModelServer()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self, script: Callable[[Received], Reply] | None) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Received(self.command, self.path, dict(self.headers), json.loads(body) if body else None)
            server.received.append(request)
            status, kind, content = script(request) if script else (404, "text/plain", b"not found")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if 300 <= status < 400:
                self.send_header("Location", content.decode())
                content = b""
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self._serve(get)

        def do_POST(self) -> None:
            self._serve(post)

        def log_message(self, format: str, *args: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(ConnectionError):  # The client did not wait for the answer.
                super().handle()

        def finish(self) -> None:
            with suppress(ConnectionError):
                super().finish()

    class Server(ThreadingHTTPServer):
        daemon_threads = False  # None outlives the test, whose output it would be taken for.

    with Server(("127.0.0.1", 0), Handler) as http:
        server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
