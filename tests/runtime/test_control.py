"""The control socket at both of its ends: real sockets, a scripted port where no task has to run."""

import asyncio
import json
import os
import select
import shlex
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.gateway_bench import advance, run
from support.hosted import start, workspace
from support.project import call, say, scripted
from support.scripted_port import ScriptedPort
from support.wire_server import SETTLING_ROUNDS
from support.workspaces import make_repository

from fluzo import control
from fluzo.control import ControlServer
from fluzo.control_client import ControlClient
from fluzo.core.errors import FluzoError, StorageError, UsageError, WorkspaceError
from fluzo.core.port import (
    Ack,
    AnswerPermission,
    ApplyConfigToActiveWork,
    CancelTask,
    Command,
    ConfigDetail,
    EventPage,
    ForceStopTask,
    HistoryUsage,
    PendingRequests,
    Port,
    RenameSession,
    ResumeTask,
    RevokeGrant,
    SaveConfig,
    SessionList,
    SetYolo,
    Snapshot,
    StartTask,
    TaskDetail,
    TaskList,
    to_wire,
)
from fluzo.core.records import Task
from fluzo.host import HostOptions, RuntimeThread, open_host, open_keeper
from fluzo.runtime.queries import Queries
from fluzo.simulator.server import Simulator
from fluzo.storage.journal import Journal
from fluzo.workspace import identity

INSTANCE = "the-owner"
ANSWERS = {TaskDetail: {"task": {"id": "t_1", "text": "a\u2028\ud800"}}, TaskList: {"tasks": []}}
ANSWERS |= {EventPage: {"events": []}, PendingRequests: {"pending": []}}
DEADLINE_SECONDS = 60


class FakePort(ScriptedPort):
    """Answers a command when the test says so, with what the test says."""

    def __init__(self) -> None:
        super().__init__([], ANSWERS)
        self.futures: list[Future[Ack]] = []
        self.asked = threading.Semaphore(0)

    def dispatch(self, command: Command) -> "Future[Ack]":
        self.commands.append(command)
        self.futures.append(Future())
        self.asked.release()
        return self.futures[-1]


@contextmanager
def served(path: Path, port: Port, **more: Any) -> Iterator[Path]:
    thread = RuntimeThread()
    try:
        server = thread.call(ControlServer.start(port, path, INSTANCE, **more))
        try:
            yield path
        finally:
            thread.call(server.close())
    finally:
        thread.close()


@contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    """A client that keeps to no rule; the owner's greeting is read already."""
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(DEADLINE_SECONDS)
        with control.address_of(path) as address:
            raw.connect(address)
        assert json.loads(line_from(raw)) == {"control": 1, "instance": INSTANCE}
        yield raw


def line_from(raw: socket.socket) -> bytes:
    """The next line, or what there was of it when the other end hung up."""
    data = b""
    while not data.endswith(b"\n"):
        try:
            byte = raw.recv(1)
        except ConnectionResetError:
            break
        if not byte:
            break
        data += byte
    return data


def request(value: Any, request_id: str = "r1") -> bytes:
    data = value if isinstance(value, dict) else to_wire(value)
    return json.dumps({"control": 1, "id": request_id, "request": data}).encode() + b"\n"


def refused(code: str) -> "pytest.RaisesExc[FluzoError]":
    return pytest.raises(FluzoError, check=lambda error: error.code == code)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "owners").mkdir(mode=0o700)
    return tmp_path / "owners" / "c.sock"


# --- what is served -------------------------------------------------------------------------------------------


def test_what_is_permitted_reaches_the_port_and_comes_back_whole(path: Path) -> None:
    port = ScriptedPort([], ANSWERS, Ack(True, "t_1", "s_1", 7))
    with served(path, port), ControlClient(path, INSTANCE) as client:
        assert client.dispatch(CancelTask("t_1")) == Ack(True, "t_1", "s_1", 7)
        assert client.dispatch(ForceStopTask("t_1")) == Ack(True, "t_1", "s_1", 7)
        looks = (TaskList(3, "t_9"), TaskDetail("last"), EventPage("t_1", 5, 10), PendingRequests("t_1"))
        for look in looks:
            assert client.query(look) == Snapshot(0, ANSWERS[type(look)])
    assert port.commands == [CancelTask("t_1", control.BY), ForceStopTask("t_1", control.BY)]
    assert port.queries == list(looks)


def test_who_asked_is_not_for_the_client_to_say(path: Path) -> None:
    port = ScriptedPort([], ANSWERS)
    with served(path, port), ControlClient(path, INSTANCE) as client:
        client.dispatch(CancelTask("t_1", "no_answer"))
    assert port.commands == [CancelTask("t_1", control.BY)]


@pytest.mark.parametrize(
    "value",
    [
        StartTask("r", "do it"),
        ResumeTask("r", "t_1", "digest"),
        AnswerPermission("t_1", "o_1", "print", "once"),
        RevokeGrant("t_1", "g_1"),
        RenameSession("s_1", "better"),
        SetYolo("s_1", True),
        SessionList(),
        HistoryUsage(),
        ConfigDetail(),
        SaveConfig({"harness.max_turns": 9}, "f"),
        ApplyConfigToActiveWork("t_1", {"max_turns": 9}),
        {"protocol": 1, "type": "Shutdown"},
        {"protocol": 1, "type": "Ack", "accepted": True},
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else type(value).__name__,
)
def test_everything_else_is_refused_and_reaches_nothing(path: Path, value: Any) -> None:
    port = ScriptedPort([], ANSWERS)
    with served(path, port), connected(path) as raw:
        raw.sendall(request(value))
        answer = json.loads(line_from(raw))
        assert (answer["id"], answer["error"]["code"]) == ("r1", "not_permitted")
        assert "answer" not in answer
        raw.sendall(request(TaskList(), "r2"))
        assert json.loads(line_from(raw))["id"] == "r2", "the connection is still good"
    assert port.commands == []
    assert port.queries == [TaskList()]


GOOD = to_wire(CancelTask("t_1"))


@pytest.mark.parametrize(
    "line",
    [
        b"{\n",
        b"\n",
        b"\xff\n",
        b"[]\n",
        b"[" * 9000 + b"\n",
        b"1" * 9000 + b"\n",
        b'"text"\n',
        json.dumps({"control": 2, "id": "r", "request": GOOD}).encode() + b"\n",
        json.dumps({"id": "r", "request": GOOD}).encode() + b"\n",
        json.dumps({"control": 1, "request": GOOD}).encode() + b"\n",
        request(GOOD, ""),
        request(GOOD, "r" * 129),
        request(GOOD, "r\x1b[2J"),
        json.dumps({"control": 1, "id": 5, "request": GOOD}).encode() + b"\n",
        json.dumps({"control": 1, "id": "r"}).encode() + b"\n",
        json.dumps({"control": 1, "id": "r", "request": [GOOD]}).encode() + b"\n",
        request({**GOOD, "protocol": 2}),
        request({**to_wire(SetYolo("s_1", True)), "protocol": 2}),
        request({**GOOD, "type": ["CancelTask"]}),
        request({"protocol": 1, "type": "CancelTask"}),
        request({**GOOD, "task_id": 5}),
        request({**GOOD, "task_id": None}),
        request({**GOOD, "task_id": "t\x00"}),
        request({**GOOD, "task_id": "\ud800"}),
        request({**GOOD, "task_id": "t" * 129}),
        request({"protocol": 1, "type": "TaskList", "limit": -1}),
        request({"protocol": 1, "type": "TaskList", "limit": True}),
        request({"protocol": 1, "type": "EventPage", "after": 2**64}),
        b"x" * (control.MAX_REQUEST_BYTES + 1),
    ],
    ids=range(29),
)
def test_what_is_no_request_is_told_so_and_thrown_out(path: Path, line: bytes) -> None:
    port = ScriptedPort([], ANSWERS)
    with served(path, port):
        with connected(path) as raw:
            raw.sendall(line)
            answer = json.loads(line_from(raw))
            assert answer["error"]["code"] == "control_malformed"
            assert line_from(raw) == b""
        assert port.commands == port.queries == []
        with ControlClient(path, INSTANCE) as client:
            assert client.query(TaskList()).data == {"tasks": []}, "others are served as before"


def test_half_a_request_is_none(path: Path) -> None:
    port = ScriptedPort([], ANSWERS)
    with served(path, port):
        with connected(path) as raw:
            raw.sendall(request(CancelTask("t_1")).rstrip(b"\n"))
            raw.shutdown(socket.SHUT_WR)
            assert line_from(raw) == b""
        assert port.commands == []


def test_an_error_of_the_port_is_the_clients_error(path: Path) -> None:
    port = FakePort()
    with served(path, port), ControlClient(path, INSTANCE) as client:
        failing = threading.Thread(
            target=lambda: port.asked.acquire() and port.futures[0].set_exception(StorageError("full", hint="free it"))
        )
        failing.start()
        with pytest.raises(StorageError) as caught:
            client.dispatch(CancelTask("t_1"))
        failing.join()
        assert (caught.value.message, caught.value.hint) == ("full", "free it")


def test_a_defect_is_told_to_the_client_and_ends_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    port = ScriptedPort([], {TaskList: ANSWERS[TaskList]})
    with served(path, port), ControlClient(path, INSTANCE) as client:
        with refused("internal_error"):
            client.query(TaskDetail("t_1"))
        assert client.query(TaskList()).data == {"tasks": []}
    assert "KeyError" in caplog.text


# --- once, however often it is asked --------------------------------------------------------------------------


def test_the_same_request_again_is_answered_again_and_done_once(path: Path) -> None:
    port = ScriptedPort([], ANSWERS, Ack(True, "t_1", cursor=3))
    with served(path, port):
        for _ in range(3):
            with ControlClient(path, INSTANCE) as client:
                assert client.dispatch(CancelTask("t_1"), "one") == Ack(True, "t_1", cursor=3)
        with ControlClient(path, INSTANCE) as client:
            with refused("control_malformed"):
                client.dispatch(CancelTask("t_2"), "one")
            client.dispatch(CancelTask("t_1"), "two")
    assert port.commands == [CancelTask("t_1", control.BY)] * 2


def test_a_repetition_while_the_first_is_under_way_waits_for_the_same_end(path: Path) -> None:
    port = FakePort()
    with served(path, port), connected(path) as first, connected(path) as second:
        first.sendall(request(CancelTask("t_1")))
        assert port.asked.acquire(timeout=DEADLINE_SECONDS)
        second.sendall(request(CancelTask("t_1")) + b"\n")
        port.futures[0].set_result(Ack(True, "t_1"))
        assert line_from(first) == line_from(second)
    assert len(port.commands) == 1


def test_a_command_that_failed_may_be_tried_again(path: Path) -> None:
    port = FakePort()
    with served(path, port), connected(path) as raw:
        for outcome in (StorageError("full"), None):
            raw.sendall(request(CancelTask("t_1")))
            assert port.asked.acquire(timeout=DEADLINE_SECONDS)
            if outcome:
                port.futures[-1].set_exception(outcome)
            else:
                port.futures[-1].set_result(Ack(True, "t_1"))
            assert ("error" in json.loads(line_from(raw))) == bool(outcome)
    assert len(port.commands) == 2


def test_old_acknowledgements_are_forgotten_in_the_end(path: Path) -> None:
    port = ScriptedPort([], ANSWERS)
    with served(path, port), ControlClient(path, INSTANCE) as client:
        for number in range(control.REMEMBERED_COMMANDS + 1):
            client.dispatch(CancelTask("t_1"), f"r{number}")
        client.dispatch(CancelTask("t_1"), f"r{number}")
        assert len(port.commands) == number + 1
        client.dispatch(CancelTask("t_1"), "r0")
        assert len(port.commands) == number + 2


def test_a_client_that_leaves_takes_nothing_with_it(path: Path) -> None:
    port = FakePort()
    with served(path, port):
        with connected(path) as raw:
            raw.sendall(request(CancelTask("t_1")))
            assert port.asked.acquire(timeout=DEADLINE_SECONDS)
        port.futures[0].set_result(Ack(True, "t_1"))
        with ControlClient(path, INSTANCE) as client:
            assert client.dispatch(CancelTask("t_1"), "r1") == Ack(True, "t_1")
    assert not port.futures[0].cancelled()
    assert len(port.commands) == 1


# --- clients that are no use ----------------------------------------------------------------------------------


def received_after(path: Path, said: bytes, port: ScriptedPort, there: Callable[[], bool]) -> int:
    """How much comes to a client that says this and reads nothing for the time it is given, after it was greeted."""
    received = 0

    async def scenario() -> None:
        nonlocal received
        server = await ControlServer.start(port, path, INSTANCE)
        loop = asyncio.get_running_loop()
        with await greeted(path) as raw:
            await loop.sock_sendall(raw, said)
            while not there():
                await asyncio.sleep(0)
            for _ in range(SETTLING_ROUNDS):
                await asyncio.sleep(0)
            advance(control.IDLE_SECONDS - 1)
            for _ in range(SETTLING_ROUNDS):
                await asyncio.sleep(0)
            assert server._clients, "its time is not over"
            advance(2)
            while server._clients:
                await asyncio.sleep(0)
            with suppress(ConnectionResetError):
                while chunk := await loop.sock_recv(raw, 65536):
                    received += len(chunk)
        await server.close()

    run(scenario)
    return received


def test_a_client_that_says_nothing_is_thrown_out(path: Path) -> None:
    assert received_after(path, b'{"control"', ScriptedPort([], ANSWERS), lambda: True) == 0


def test_a_client_that_does_not_listen_is_thrown_out(path: Path) -> None:
    port = ScriptedPort([], {TaskDetail: {"task": "x" * 4_000_000}})
    received = received_after(path, request(TaskDetail("t_1")), port, lambda: bool(port.queries))
    assert 0 < received < 4_000_000


def test_a_long_answer_arrives_whole_also_after_the_last_request(path: Path) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.setblocking(False)
        fits = left.send(b"x" * 4_000_000)
    text = "x" * (fits + 30_000)  # A little more than the kernel takes, and so little that nobody would wait for it.
    port = ScriptedPort([], {TaskDetail: {"task": text}})
    with served(path, port), connected(path) as raw:
        raw.sendall(request(TaskDetail("t_1")))
        raw.shutdown(socket.SHUT_WR)
        hung_up = select.poll()
        hung_up.register(raw, select.POLLRDHUP)
        assert not hung_up.poll(100), "it waits until the rest has been taken"
        received = b""
        while chunk := raw.recv(4096):
            received += chunk
    assert json.loads(received)["answer"]["data"] == {"task": text}


def test_an_answer_that_is_too_large_is_an_error(path: Path) -> None:
    port = ScriptedPort([], {TaskDetail: {"x": "x" * control.MAX_ANSWER_BYTES}})
    with served(path, port), ControlClient(path, INSTANCE) as client, refused("usage"):
        client.query(TaskDetail("t_1"))


def test_there_is_room_for_so_many_clients_and_then_again(path: Path) -> None:
    with served(path, ScriptedPort([], ANSWERS)):
        clients = [ControlClient(path, INSTANCE) for _ in range(control.MAX_CLIENTS)]
        with refused("owner_unreachable"):
            ControlClient(path, INSTANCE)
        assert clients[0].query(TaskList()).data == {"tasks": []}
        with connected_later(clients.pop()):
            pass
        for client in clients:
            client.close()


@contextmanager
def connected_later(leaving: ControlClient) -> Iterator[ControlClient]:
    """A client that gets the place of the one that leaves, once the owner has noticed."""
    leaving.close()
    while True:
        try:
            client = ControlClient(leaving._path, INSTANCE)
        except WorkspaceError:
            continue
        with client:
            yield client
        return


async def greeted(path: Path) -> socket.socket:
    raw = socket.socket(socket.AF_UNIX)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, str(path))
    await next_line(raw)
    return raw


async def next_line(raw: socket.socket) -> bytes:
    """As `line_from`, for a client on the server's own loop."""
    data = b""
    while not data.endswith(b"\n"):
        try:
            byte = await asyncio.get_running_loop().sock_recv(raw, 1)
        except ConnectionResetError:
            break
        if not byte:
            break
        data += byte
    return data


@pytest.mark.parametrize("answered", [True, False])
def test_closing_hangs_up_on_who_waits_and_waits_a_while_for_what_is_under_way(path: Path, answered: bool) -> None:
    port = FakePort()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server = await ControlServer.start(port, path, INSTANCE)
        asking, waiting = await greeted(path), await greeted(path)
        with asking, waiting:
            await loop.sock_sendall(asking, request(CancelTask("t_1")))
            while not port.futures:
                await asyncio.sleep(0)
            closing = asyncio.create_task(server.close())
            assert await next_line(waiting) == b""
            for _ in range(SETTLING_ROUNDS):
                await asyncio.sleep(0)
            assert not closing.done()
            if answered:
                port.futures[0].set_result(Ack(True, "t_1"))
                assert json.loads(await next_line(asking))["answer"]["task_id"] == "t_1"
            else:
                advance(control.FINISH_SECONDS + 1)
            assert await next_line(asking) == b""
            await closing

    run(scenario)
    assert not path.exists()
    assert not port.futures[0].cancelled(), "no command is taken back"


# --- who is at the other end ----------------------------------------------------------------------------------


class FakeOwner:
    """Listens where an owner should and says what the test wants, connection by connection."""

    def __init__(self, path: Path, *scripts: bytes) -> None:
        self.received: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(DEADLINE_SECONDS)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen()
        self._thread = threading.Thread(target=self._play, args=(scripts,))

    def __enter__(self) -> "FakeOwner":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()

    def _play(self, scripts: tuple[bytes, ...]) -> None:
        for script in scripts:
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(DEADLINE_SECONDS)
                greeting, _, answer = script.partition(b"\n")
                connection.sendall(greeting + b"\n" if greeting else b"")
                self.received.append(line_from(connection))
                if answer:
                    connection.sendall(answer)


def greeting(instance: str = INSTANCE) -> bytes:
    return json.dumps({"control": 1, "instance": instance}).encode() + b"\n"


@pytest.mark.parametrize(
    "said", [greeting("somebody else"), b'{"control":2,"instance":"the-owner"}\n', b"{}\n", b"[]\n", b"hello\n"]
)
def test_an_owner_that_is_not_the_one_of_the_lock_is_told_nothing(path: Path, said: bytes) -> None:
    with FakeOwner(path, said) as fake, refused("owner_unverified"):
        ControlClient(path, INSTANCE)
    assert fake.received == [b""]


def test_a_lost_answer_is_asked_for_once_more_under_the_same_id(path: Path) -> None:
    answer = json.dumps({"control": 1, "id": "one", "answer": to_wire(Ack(True, "t_1"))}).encode() + b"\n"
    with FakeOwner(path, greeting(), greeting() + answer) as fake, ControlClient(path, INSTANCE) as client:
        assert client.dispatch(CancelTask("t_1"), "one") == Ack(True, "t_1")
    assert fake.received[0] == fake.received[1]
    assert json.loads(fake.received[0])["id"] == "one"


OF_ANOTHER = json.dumps({"control": 1, "id": "two", "answer": to_wire(Ack(True, "t_1"))}).encode() + b"\n"


@pytest.mark.parametrize("answer", [b"[]\n", b'{"id":"one"}\n', b'{"id":"one","answer":{}}\n', OF_ANOTHER, b"{\n"])
def test_an_answer_that_means_nothing_is_not_taken_for_one(path: Path, answer: bytes) -> None:
    with FakeOwner(path, greeting() + answer), ControlClient(path, INSTANCE) as client, refused("owner_unverified"):
        client.dispatch(CancelTask("t_1"), "one")


def test_an_owner_that_went_away_is_unreachable(path: Path) -> None:
    with FakeOwner(path, greeting()) as fake, ControlClient(path, INSTANCE) as client, refused("owner_unreachable"):
        path.unlink()
        client.dispatch(CancelTask("t_1"))
    assert len(fake.received) == 1


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o602])
def test_a_socket_that_others_could_reach_is_not_trusted(path: Path, mode: int) -> None:
    with served(path, ScriptedPort([], ANSWERS)), refused("owner_unverified"):
        path.chmod(mode)
        ControlClient(path, INSTANCE)


@pytest.mark.parametrize("kind", ["nothing", "file", "link", "stale"])
def test_what_is_no_socket_of_a_living_owner_is_not_talked_to(path: Path, kind: str) -> None:
    with served(path.with_name("real"), ScriptedPort([], ANSWERS)) as real:
        if kind == "file":
            path.touch(0o600)
        elif kind == "link":
            path.symlink_to(real)
        elif kind == "stale":
            leave_behind(path)
        expected = "owner_unreachable" if kind in ("nothing", "stale") else "owner_unverified"
        with refused(expected):
            ControlClient(path, INSTANCE)


def leave_behind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    path.chmod(0o600)


def test_what_a_dead_owner_left_is_replaced(path: Path) -> None:
    leave_behind(path)
    with served(path, ScriptedPort([], ANSWERS)), ControlClient(path, INSTANCE) as client:
        assert client.query(TaskList()).data == {"tasks": []}


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_the_socket_is_private_whatever_the_umask(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with served(path, ScriptedPort([], ANSWERS)):
            found = path.lstat()
    finally:
        os.umask(before)
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600


def test_a_path_that_is_too_long_for_a_socket_works(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir(mode=0o700)
    path = folder / "c.sock"
    with served(path, ScriptedPort([], ANSWERS)):
        for _ in range(2):
            with ControlClient(path, INSTANCE) as client:
                assert client.query(TaskList()).data == {"tasks": []}
    assert list(folder.iterdir()) == []


def test_where_no_socket_can_be_made_the_refusal_says_what_to_do(tmp_path: Path) -> None:
    with refused("workspace_unusable"), served(tmp_path / "missing" / "c.sock", ScriptedPort([], ANSWERS)):
        pass


CONNECT_AS_NOBODY = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as raw:
    raw.settimeout(60)
    try:
        raw.connect(sys.argv[1])
        print(repr(raw.recv(100)))
    except PermissionError:
        print("refused")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user to try it")
def test_another_user_gets_not_even_a_greeting(path: Path) -> None:
    def other() -> str:
        argv = [sys.executable, "-c", CONNECT_AS_NOBODY, f"/proc/self/fd/{folder}/{path.name}"]
        return subprocess.run(argv, pass_fds=[folder], capture_output=True, text=True, check=True).stdout.strip()

    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with served(path, ScriptedPort([], ANSWERS)):
            path.parent.chmod(0o755)
            assert other() == "refused", "by the mode of the socket"
            path.chmod(0o666)
            assert other() == "b''", "by the user that the kernel names"
    finally:
        os.close(folder)


# --- with the real runtime ------------------------------------------------------------------------------------


def record_of(root: Path) -> dict[str, str]:
    found = identity.owner(identity.resolve_root(root))
    assert found is not None
    return dict(found)


def test_an_owner_is_named_with_its_task_for_as_long_as_it_runs(tmp_path: Path) -> None:
    held = {"respond": {"parts": [{"hold": "gate"}, {"text": "done"}]}}
    root = identity.resolve_root(make_repository(tmp_path))
    assert identity.owner(root) is None
    with Simulator(scripted(held)) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            idle = record_of(tmp_path)
            assert not idle.get("task_id")
            running = start(host)
            assert simulator.wait_until_held("gate")
            assert record_of(tmp_path) == {**idle, "task_id": running.ack.task_id}
            with pytest.raises(WorkspaceError) as caught:
                open_host(HostOptions(tmp_path))
            assert f"task {running.ack.task_id}" in caught.value.message
            assert f"fluzo tasks cancel {running.ack.task_id}" in caught.value.hint
            simulator.release("gate")
            running.finish()
            assert record_of(tmp_path) == {**idle, "task_id": ""}
            owned = Path(idle["control"])
            assert stat.S_IMODE(owned.lstat().st_mode) == 0o600
            assert stat.S_IMODE(owned.parent.stat().st_mode) == 0o700
        assert not owned.exists()
    assert identity.owner(root) is None


def test_a_reader_reaches_the_owner_and_sees_what_only_it_knows(tmp_path: Path) -> None:
    script = "echo ready > pipe; sleep 60"
    with Simulator(scripted(call("run", {"shell": True, "script": script}, "c1"))) as simulator:
        workspace(tmp_path, simulator.base_url)
        os.mkfifo(tmp_path / "pipe")
        with open_host(HostOptions(tmp_path)) as host, open_host(HostOptions(tmp_path, read_only=True)) as reader:
            running = start(host, yolo=True)
            assert (tmp_path / "pipe").read_text() == "ready\n"
            owner = reader.owner()
            assert owner is not None
            with owner:
                # The command is at work before the runtime has heard that it was started.
                while not (processes := owner.query(TaskDetail(running.ack.task_id)).data["processes"]):
                    pass
                assert {process["command"] for process in processes} == {shlex.join(["sh", "-c", script])}
                assert all(Path(f"/proc/{item['pid']}/cwd").samefile(tmp_path) for item in processes)
                assert owner.dispatch(ForceStopTask(running.ack.task_id)).accepted
            assert running.finish()["task"]["state"] == "cancelled"
            names = [event.type for event in running.events()]
            by = [event.payload for event in running.events() if event.type == "CancelRequested"]
    assert names.count("CancelRequested") == 1
    assert by[0]._asdict()["by"] == control.BY


def test_an_owner_that_ends_while_it_is_looked_at_is_not_taken_for_a_dead_one(tmp_path: Path) -> None:
    with Simulator(scripted({"respond": {"parts": [{"hold": "gate"}, {"text": "done"}]}})) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host)
            assert simulator.wait_until_held("gate")
            thread, living = RuntimeThread(), [True]
            drive = tmp_path / ".fluzodrive"
            journal = thread.call(Journal.open(drive, new_id=lambda _: "", now=lambda: "", read_only=True))

            class LastLook(Queries):
                """The owner goes as soon as its task has been read."""

                async def _find_task(self, wanted: str) -> Task:
                    found = await super()._find_task(wanted)
                    living.clear()
                    return found

            looking = LastLook(journal, lambda: bool(living))
            seen = thread.call(looking.answer(TaskDetail(running.ack.task_id))).data["task"]
            thread.call(journal.close())
            thread.close()
            simulator.release("gate")
            running.finish()
    assert (seen["state"], living) == ("running", [])


def test_a_workspace_of_nobody_has_no_owner_to_reach(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a": "a"})
    with open_host(HostOptions(tmp_path, read_only=True)) as reader:
        assert reader.owner() is None


def test_the_socket_lies_beside_the_lock_wherever_that_is(tmp_path: Path) -> None:
    root = identity.resolve_root(make_repository(tmp_path / "w"))
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / "run")}
    ownership = identity.acquire(root, {}, environ)
    try:
        assert ownership.control == identity.control_path(root, environ)
        assert ownership.control.parent == tmp_path / "run" / "fluzo" / "owners"
        with served(ownership.control, ScriptedPort([], ANSWERS)):
            assert len(list(ownership.control.parent.iterdir())) == 2
    finally:
        ownership.release()


def blocked(root: Path) -> str:
    """A workspace with one task that waits for a permission; its server is gone."""
    with Simulator(scripted(call("run", {"argv": ["make"]}, "c1"))) as simulator:
        workspace(root, simulator.base_url)
        with open_host(HostOptions(root)) as host:
            running = start(host)
            assert running.finish()["task"]["reason"] == "permission_required"
            return running.ack.task_id


def test_a_blocked_task_is_cancelled_without_settings_model_or_consent(tmp_path: Path) -> None:
    task_id = blocked(tmp_path)
    (tmp_path / ".fluzo").unlink()
    with open_keeper(HostOptions(tmp_path)) as keeper:
        with pytest.raises(WorkspaceError):
            open_keeper(HostOptions(tmp_path))
        ack = keeper.port.dispatch(CancelTask(task_id)).result(DEADLINE_SECONDS)
        assert ack.accepted
        page = keeper.port.query(EventPage(task_id, ack.cursor)).result(DEADLINE_SECONDS).data["events"]
        task = keeper.port.query(TaskDetail(task_id)).result(DEADLINE_SECONDS).data["task"]
        assert keeper.port.dispatch(CancelTask(task_id)).result(DEADLINE_SECONDS).accepted
        again = keeper.port.query(EventPage(task_id, page[-1]["seq"])).result(DEADLINE_SECONDS).data["events"]
    assert [item["type"] for item in page] == ["CancelRequested", "TaskStateChanged", "TaskStateChanged"]
    assert [item["data"].get("new") for item in page] == [None, "stopping", "cancelled"]
    assert (task["state"], task["reason"]) == ("cancelled", "cancelled")
    assert (task["result"]["status"], task["result"]["error"]["code"]) == ("cancelled", "cancelled")
    assert again == []


def test_a_keeper_starts_nothing_and_cancels_nothing_that_has_ended(tmp_path: Path) -> None:
    with Simulator(scripted(say("done"))) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host)
            running.finish()
    with open_keeper(HostOptions(tmp_path)) as keeper:
        ended = keeper.port.dispatch(CancelTask(running.ack.task_id)).result(DEADLINE_SECONDS)
        missing = keeper.port.dispatch(CancelTask("t_none")).result(DEADLINE_SECONDS)
        with pytest.raises(UsageError):
            keeper.port.dispatch(StartTask("r", "do it")).result(DEADLINE_SECONDS)
    assert (ended.accepted, ended.code) == (False, "task_ended")
    assert (missing.accepted, missing.code) == (False, "not_found")


def test_an_owner_cancels_the_blocked_task_of_another_time(tmp_path: Path) -> None:
    task_id = blocked(tmp_path)
    with open_host(HostOptions(tmp_path)) as host, open_host(HostOptions(tmp_path, read_only=True)) as reader:
        owner = reader.owner()
        assert owner is not None
        with owner:
            assert owner.dispatch(CancelTask(task_id)).accepted
            assert owner.query(TaskDetail(task_id)).data["task"]["state"] == "cancelled"
        assert host.port.dispatch(ForceStopTask(task_id)).result(DEADLINE_SECONDS).accepted
