"""Owned processes: an argument vector in its own session, with bounded output, a deadline and a known end.

Invariants: a child has no terminal, no input and no descriptor of ours; its output is drained as long as anyone
writes to it, whatever is kept; a signal goes to a process group only while one of its members is certainly ours.
Children may outlive the command that started them. They stay listed and are ended by `stop`.
"""

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fluzo.core.errors import ToolError
from fluzo.core.records import ProcessResult
from fluzo.workspace.capture import Capture
from fluzo.workspace.environment import clean_path

READ_BYTES = 256 * 1024
QUIET_SECONDS = 0.05
"""After the command ended, output of its children counts until the pipe has been quiet for this long ..."""
LINGER_SECONDS = 0.25
"""... or this much has passed: a child that never stops writing must not hold the result back."""
KILL_SECONDS = 2.0
"""How long the kernel may take to end a killed process before it is reported as uncertain."""

Termination = Literal["exited", "terminated", "killed", "uncertain"]


@dataclass(slots=True)
class _Group:
    """One started command and what it left behind. `members` are pidfds: they can never mean another process."""

    process: subprocess.Popen[bytes]
    pidfd: int
    pipe: int
    sink: Callable[[bytes], None]
    eof: asyncio.Event = field(default_factory=asyncio.Event)
    activity: asyncio.Event = field(default_factory=asyncio.Event)
    members: dict[int, int] = field(default_factory=dict)
    reaped: bool = False
    killed: bool = False
    """`kill` met the command while it was running."""
    followed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nobody waits for the result any more."""

    @property
    def id(self) -> int:
        return self.process.pid


class Processes:
    """Every process started for one task."""

    def __init__(self, grace_seconds: float, executor: Executor | None = None) -> None:
        self._grace_seconds = grace_seconds
        self._executor = executor
        self._groups: list[_Group] = []
        self._launches: set[asyncio.Task[_Group]] = set()
        self._stopped = False
        self._killing = asyncio.Event()

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: int | Path,
        env: Mapping[str, str],
        timeout_seconds: float,
        capture_bytes: int,
        cancel: asyncio.Event,
    ) -> ProcessResult:
        """Run one command to its end. `cwd` is a directory, or a descriptor of one that the child changes into.

        Raises ToolError when it could not be started; a deadline, a cancellation and a bad exit are results.
        """
        if cancel.is_set() or self._stopped:
            return ProcessResult(None, b"", 0, False, 0.0, cancelled=True)
        capture = Capture(capture_bytes)
        begun = time.monotonic()
        group = await self._start(argv, cwd, env, capture.add)
        try:
            return await self._follow(group, capture, begun, timeout_seconds, cancel)
        finally:
            group.followed.set()

    async def _follow(
        self, group: _Group, capture: Capture, begun: float, timeout_seconds: float, cancel: asyncio.Event
    ) -> ProcessResult:
        try:
            ended = await self._wait(group, timeout_seconds, cancel)
            termination: Termination = "exited" if ended == "exited" else await self._end(group)
            await self._settle(group)
        except asyncio.CancelledError:
            await asyncio.shield(self._end(group))
            raise
        finally:
            # Nobody collects the output of background children, but they must never block on a full pipe.
            group.sink = _discard
        status = self._reap(group) if _has_ended(group.pidfd) else None
        self._adopt(group, certain=True)  # Reaped a moment ago: its number has not gone round.
        still_running = tuple(sorted(group.members))
        self._drop_if_over(group)
        return ProcessResult(
            exit_status=status if status is not None and status >= 0 else None,
            output=capture.text(),
            output_bytes=capture.total,
            truncated=capture.truncated,
            elapsed_seconds=time.monotonic() - begun,
            timed_out=ended == "timed_out",
            cancelled=ended == "cancelled",
            termination=termination,
            still_running=still_running,
            signal=-status if status is not None and status < 0 else 0,
        )

    async def stop(self) -> list[int]:
        """End every owned process: TERM, the grace period, KILL; none is started from now on.

        Returns the pids that could not be ended, or of which it is not certain that they are ours to end.
        """
        self._stopped = True
        await asyncio.gather(*self._launches, return_exceptions=True)
        groups = [group for group in self._groups if not self._drop_if_over(group)]
        survivors = await asyncio.gather(*(self._stop_group(group) for group in groups))
        return sorted(pid for pids in survivors for pid in pids)

    def kill(self) -> None:
        """Kill every owned process now, without any grace; none is started from now on. Call it on the loop.

        A `run` under way returns with `cancelled` and the termination `killed`. `stop` still has to be awaited: it
        says what could not be ended.
        """
        self._stopped = True
        self._killing.set()
        for group in self._groups:
            self._kill(group)

    def _kill(self, group: _Group) -> None:
        group.killed = group.killed or not _has_ended(group.pidfd)
        self._signal(group, signal.SIGKILL)

    async def _stop_group(self, group: _Group) -> list[int]:
        if await self._end(group) == "uncertain":
            return _scan(group.id)
        await group.followed.wait()  # Whoever waits for the command's result still uses the descriptors.
        self._reap(group)
        left = _scan(group.id)
        self._forget(group)
        return left

    # --- start and end ----------------------------------------------------------------------------------------

    async def _start(
        self, argv: Sequence[str], cwd: int | Path, env: Mapping[str, str], sink: Callable[[bytes], None]
    ) -> _Group:
        # A task of its own: the exec may take long on a slow disk, and once begun it is seen through, whatever
        # happens to us, so that no child is ever running without being listed.
        launch = asyncio.create_task(self._launch(list(argv), cwd, dict(env), sink))
        self._launches.add(launch)
        launch.add_done_callback(self._launches.discard)
        try:
            return await asyncio.shield(launch)
        except asyncio.CancelledError:
            with contextlib.suppress(ToolError):
                group = await launch
                await asyncio.shield(self._end(group))
                group.followed.set()
            raise

    async def _launch(
        self, argv: list[str], cwd: int | Path, env: dict[str, str], sink: Callable[[bytes], None]
    ) -> _Group:
        loop = asyncio.get_running_loop()
        process, pipe = await loop.run_in_executor(self._executor, _spawn, argv, cwd, env)
        group = _Group(process, os.pidfd_open(process.pid), pipe, sink)
        self._groups.append(group)
        loop.add_reader(pipe, _read, group)
        if self._killing.is_set():  # It was starting when the order came.
            self._kill(group)
        return group

    async def _wait(
        self, group: _Group, timeout_seconds: float, cancel: asyncio.Event
    ) -> Literal["exited", "timed_out", "cancelled"]:
        exited = asyncio.ensure_future(_ended(group.pidfd))
        cancelled = asyncio.ensure_future(cancel.wait())
        try:
            await asyncio.wait({exited, cancelled}, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
            if exited.done():
                return "cancelled" if group.killed else "exited"
            return "cancelled" if cancelled.done() else "timed_out"
        finally:
            exited.cancel()
            cancelled.cancel()
            await asyncio.gather(exited, cancelled, return_exceptions=True)

    async def _end(self, group: _Group) -> Termination:
        """TERM to the group, the grace period, then KILL; says which of them it took."""
        if not self._killing.is_set():
            self._signal(group, signal.SIGTERM)
            if await self._all_ended(group, self._grace_seconds):
                return "killed" if group.killed else "terminated"
        self._signal(group, signal.SIGKILL)
        return "killed" if await self._all_ended(group, KILL_SECONDS) else "uncertain"

    def _signal(self, group: _Group, number: int) -> None:
        # As long as one member that we hold is not gone, the kernel cannot give the group's number to others.
        if not group.reaped or any(not _has_ended(fd) for fd in group.members.values()):
            with contextlib.suppress(ProcessLookupError, PermissionError):  # Set-user-id children are not ours.
                os.killpg(group.id, number)

    async def _all_ended(self, group: _Group, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if not group.reaped:
                    await _ended(group.pidfd)
                while True:
                    self._adopt(group)
                    if not group.members:
                        return True
                    for fd in list(group.members.values()):
                        await _ended(fd)
        self._adopt(group)
        return not group.members and (group.reaped or _has_ended(group.pidfd))

    async def _settle(self, group: _Group) -> None:
        """Wait for the last output: to the end of the pipe, or until children that keep it open are quiet."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + LINGER_SECONDS
        _read(group)  # What the command itself wrote before it ended is in the pipe by now.
        with contextlib.suppress(TimeoutError):
            while not group.eof.is_set() and (left := deadline - clock()) > 0:
                group.activity.clear()
                async with asyncio.timeout(min(QUIET_SECONDS, left)):
                    await group.activity.wait()

    # --- bookkeeping ------------------------------------------------------------------------------------------

    def _reap(self, group: _Group) -> int:
        group.reaped = True
        return group.process.wait()

    def _adopt(self, group: _Group, *, certain: bool = False) -> None:
        """Bring `members` up to date: living processes of the group other than the command itself.

        A newcomer counts as ours only when the group cannot have been another one's while we looked: the command
        was not reaped, a known member still lives, or the caller is `certain`.
        """
        for pid, fd in list(group.members.items()):
            if _has_ended(fd):
                os.close(group.members.pop(pid))
        if group.reaped and not _group_exists(group.id):
            return
        found: dict[int, int] = {}
        for pid in _scan(group.id):
            if pid != group.id and pid not in group.members:
                with contextlib.suppress(ProcessLookupError):
                    found[pid] = os.pidfd_open(pid)
        if certain or not group.reaped or any(not _has_ended(fd) for fd in group.members.values()):
            group.members |= found
        else:
            for fd in found.values():
                os.close(fd)

    def _drop_if_over(self, group: _Group) -> bool:
        if group.reaped:
            self._adopt(group)
        over = group.reaped and not group.members and (group.eof.is_set() or not _group_exists(group.id))
        if over:
            self._forget(group)
        return over

    def _forget(self, group: _Group) -> None:
        if group in self._groups:
            self._groups.remove(group)
            _close_pipe(group)
            for fd in (group.pidfd, *group.members.values()):
                os.close(fd)
            group.members.clear()


# --- starting -------------------------------------------------------------------------------------------------


def find_executable(name: str, path: str) -> str | None:
    """The absolute path of a command in a search path; only absolute entries count, so never the workspace."""
    for directory in clean_path(path).split(":"):
        candidate = f"{directory}/{name}"
        with contextlib.suppress(OSError):  # A directory of the path that we may not enter has nothing for us.
            if Path(candidate).is_file() and os.access(candidate, os.X_OK):
                return candidate
    return None


def _spawn(argv: list[str], cwd: int | Path, env: dict[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    name = argv[0] if argv else ""
    executable = name if "/" in name else find_executable(name, env.get("PATH", ""))
    if not name or executable is None:
        raise ToolError(f"{name or 'the empty command'}: no such command in PATH", code="command_not_found")
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            [word.encode("utf-8", "surrogateescape") for word in argv],
            executable=executable,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.STDOUT,
            # The child still has the descriptor when it changes directory; it is gone at the exec.
            cwd=f"/proc/self/fd/{cwd}" if isinstance(cwd, int) else cwd,
            env=env,
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        os.close(reader)
        raise _not_started(name, exc) from exc
    finally:
        os.close(writer)
    os.set_blocking(reader, False)
    return process, reader


def _not_started(name: str, exc: OSError | ValueError) -> ToolError:
    if isinstance(exc, FileNotFoundError):
        return ToolError(f"{name}: no such file, or the interpreter it names is missing", code="command_not_found")
    if isinstance(exc, PermissionError):
        return ToolError(f"{name}: not executable", code="not_executable")
    reason = exc.strerror if isinstance(exc, OSError) else str(exc)
    return ToolError(f"{name} could not be started: {reason}", code="not_started")


# --- watching -------------------------------------------------------------------------------------------------


def _discard(chunk: bytes) -> None:
    """Output after the result was given: read so that the writer goes on, and not kept."""


def _read(group: _Group) -> None:
    if group.eof.is_set():
        return
    try:
        chunk = os.read(group.pipe, READ_BYTES)
    except BlockingIOError:
        return
    group.activity.set()
    if chunk:
        group.sink(chunk)
    else:
        _close_pipe(group)


def _close_pipe(group: _Group) -> None:
    if not group.eof.is_set():
        group.eof.set()
        asyncio.get_running_loop().remove_reader(group.pipe)
        os.close(group.pipe)


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


async def _ended(pidfd: int) -> None:
    """Wait for the end of a process: its pidfd becomes readable, also before anyone has reaped it."""
    if _has_ended(pidfd):
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    watched = os.dup(pidfd)  # A loop has one reader per descriptor, and two may wait for one process.
    loop.add_reader(watched, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(watched)
        os.close(watched)


def _group_exists(group_id: int) -> bool:
    try:
        os.killpg(group_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _scan(group_id: int) -> list[int]:
    """Living processes of a group in the session we made for it (proc(5): state, ppid, pgrp, session)."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group_id == int(fields[3]) and fields[0] not in (b"Z", b"X"):
            found.append(int(entry.name))
    return found
