"""The other end of the control socket: how a command reaches the process that owns a workspace (fluzo.control).

Nothing is sent before it is certain who listens: the same user, at a socket that nobody else can reach, and the very
owner whom the lock of the workspace names.
"""

import json
import os
import secrets
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from fluzo.control import CONTROL_VERSION, MAX_ANSWER_BYTES, Control, Look, address_of, peer_uid
from fluzo.core.errors import WorkspaceError, error_of
from fluzo.core.events import dumps
from fluzo.core.port import Ack, Snapshot, from_wire, to_wire

ANSWER_SECONDS = 15.0
"""How long a client waits for the owner's greeting and for each answer."""


class ControlClient:
    """A connection to the owner of a workspace: the permitted part of its port, answered before a method returns."""

    def __init__(self, path: Path, instance: str) -> None:
        """Connect to the owner `instance` at `path`, and to nobody else.

        Raises WorkspaceError: `owner_unreachable`, or `owner_unverified` when somebody else is there.
        """
        self._path = path
        self._instance = instance
        self._connect()

    def __enter__(self) -> "ControlClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Detach; nothing that runs is touched by it."""
        self._file.close()
        self._socket.close()

    def dispatch(self, command: Control, request_id: str = "") -> Ack:
        """Have the owner carry out a command; a lost answer is asked for once more under the same id.

        Raises the owner's own error, and WorkspaceError `owner_unreachable` when it is not known what came of it.
        """
        answer = self._request(command, request_id or secrets.token_hex(16))
        if not isinstance(answer, Ack):
            raise _nonsense()
        return answer

    def query(self, query: Look) -> Snapshot:
        """Ask the owner. Raises its own error, or WorkspaceError `owner_unreachable`."""
        answer = self._request(query, secrets.token_hex(16))
        if not isinstance(answer, Snapshot):
            raise _nonsense()
        return answer

    def _request(self, value: Control | Look, request_id: str) -> object:
        line = dumps({"control": CONTROL_VERSION, "id": request_id, "request": to_wire(value)}).encode("ascii") + b"\n"
        try:
            message = self._exchange(line)
        except ConnectionError:
            self.close()
            self._connect()
            try:
                message = self._exchange(line)
            except OSError as exc:
                raise _unreachable(exc) from exc
        except OSError as exc:
            raise _unreachable(exc) from exc
        error = message.get("error")
        if isinstance(error, dict):
            raise error_of(
                str(error.get("code") or "internal_error"), str(error.get("message")), str(error.get("hint") or "")
            )
        try:
            return from_wire(message["answer"]) if message.get("id") == request_id else None
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def _exchange(self, line: bytes) -> Mapping[str, Any]:
        self._socket.sendall(line)
        return self._read()

    def _read(self) -> Mapping[str, Any]:
        line = self._file.readline(MAX_ANSWER_BYTES + 1)
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the owner hung up")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise _nonsense()
        return message

    def _connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(ANSWER_SECONDS)
        try:
            found = self._path.lstat()
            if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
                raise _unverified()
            with address_of(self._path) as address:
                connection.connect(address)
            if peer_uid(connection) != os.getuid():
                raise _unverified()
            self._socket, self._file = connection, connection.makefile("rb")
            greeting = self._read()
            if greeting.get("control") != CONTROL_VERSION or greeting.get("instance") != self._instance:
                raise _unverified()
        except OSError as exc:
            connection.close()
            raise _unreachable(exc) from exc
        except BaseException:
            connection.close()
            raise


def _unreachable(exc: OSError) -> WorkspaceError:
    why = "it took too long" if isinstance(exc, TimeoutError) else exc.strerror or str(exc)
    return WorkspaceError(
        f"The Fluzo that works in this workspace cannot be reached ({why}).",
        code="owner_unreachable",
        hint="See what came of it: fluzo tasks show last. Or press Ctrl+C where it runs.",
    )


def _unverified() -> WorkspaceError:
    return WorkspaceError(
        "Who answers at the control socket is not the Fluzo that owns this workspace; nothing was sent.",
        code="owner_unverified",
        hint="Try again, or press Ctrl+C where it runs.",
    )


def _nonsense() -> WorkspaceError:
    return WorkspaceError(
        "The Fluzo that works in this workspace gave an answer that this one does not understand.",
        code="owner_unverified",
        hint="Use the version of Fluzo that runs there.",
    )
