"""Owned processes: an argument vector in its own session, with bounded output, a deadline and a known end.

Invariants: a child has no terminal, no input and no descriptor of ours; its output is drained as long as anyone
writes to it, whatever is kept; a signal goes only to what `descendants` has proven to come from the command.
Children may outlive the command that started them. They stay listed and are ended by `stop`.
"""

import asyncio
import contextlib
import os
import secrets
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
from fluzo.workspace import descendants
from fluzo.workspace.capture import Capture
from fluzo.workspace.descendants import Family, has_ended
from fluzo.workspace.environment import clean_path
from fluzo.workspace.syscalls import become_subreaper

READ_BYTES = 256 * 1024
QUIET_SECONDS = 0.05
"""After the command ended, output of its children counts until the pipe has been quiet for this long ..."""
LINGER_SECONDS = 0.25
"""... or this much has passed: a child that never stops writing must not hold the result back."""
KILL_SECONDS = 5.0
"""How long the kernel may take to end a killed process before it is reported as uncertain."""
FIRST_LOOK_SECONDS = 0.05
"""While a command runs its descendants are looked for, more and more rarely ..."""
LONGEST_LOOK_SECONDS = 1.0
"""... but this often: one that means to slip away is known before it loses its parent."""

Termination = Literal["exited", "terminated", "killed", "uncertain"]


@dataclass(slots=True)
class _Command:
    """One started command, what came from it, and the pipe that they write to."""

    process: subprocess.Popen[bytes]
    argv: list[str]
    family: Family
    pipe: int
    sink: Callable[[bytes], None]
    eof: asyncio.Event = field(default_factory=asyncio.Event)
    activity: asyncio.Event = field(default_factory=asyncio.Event)
    killed: bool = False
    """`kill` met the command while it was running."""
    followed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nobody waits for the result any more."""


class Processes:
    """Every process started for one task."""

    def __init__(self, grace_seconds: float, executor: Executor | None = None) -> None:
        become_subreaper()
        self._grace_seconds = grace_seconds
        self._executor = executor
        self._commands: list[_Command] = []
        self._launches: set[asyncio.Task[_Command]] = set()
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
        watch: Callable[[bytes], None] | None = None,
    ) -> ProcessResult:
        """Run one command to its end. `cwd` is a directory, or a descriptor of one that the child changes into.
        `watch` is given the output as it comes, until the result is made.

        Raises ToolError when it could not be started; a deadline, a cancellation and a bad exit are results.
        """
        if cancel.is_set() or self._stopped:
            return ProcessResult(None, b"", 0, False, 0.0, cancelled=True)
        capture = Capture(capture_bytes)
        begun = time.monotonic()

        def take(chunk: bytes) -> None:
            capture.add(chunk)
            if watch is not None:
                watch(chunk)

        command = await self._start(argv, cwd, env, take)
        try:
            return await self._follow(command, capture, begun, timeout_seconds, cancel)
        finally:
            command.followed.set()

    async def _follow(
        self, command: _Command, capture: Capture, begun: float, timeout_seconds: float, cancel: asyncio.Event
    ) -> ProcessResult:
        try:
            ended = await self._wait(command, timeout_seconds, cancel)
            termination: Termination = "exited" if ended == "exited" else await self._end(command)
            await self._settle(command)
        except asyncio.CancelledError:
            await asyncio.shield(self._end(command))
            raise
        finally:
            # Nobody collects the output of background children, but they must never block on a full pipe.
            command.sink = _discard
        for _ in range(2):  # The lists of the kernel may lack one: see descendants.below.
            self._look()  # Before the command is reaped: as long as it is not, its number is proof.
        status = _reap(command) if has_ended(command.family.pidfd) else None
        still_running = tuple(command.family.living())
        self._drop_if_over(command)
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

    def running(self) -> list[tuple[int, list[str]]]:
        """Every owned process that has not ended, with the argument vector of the command that it belongs to."""
        self._look()
        found = []
        for command in self._commands:
            own = [] if has_ended(command.family.pidfd) else [command.family.leader]
            found += [(pid, command.argv) for pid in (*own, *command.family.living())]
        return found

    async def stop(self) -> list[int]:
        """End every owned process: TERM, the grace period, KILL; none is started from now on.

        Returns the pids that could not be ended.
        """
        self._stopped = True
        await asyncio.gather(*self._launches, return_exceptions=True)
        self._look()
        commands = [command for command in self._commands if not self._drop_if_over(command)]
        survivors = await asyncio.gather(*(self._stop_command(command) for command in commands))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                while self._look():
                    await asyncio.sleep(descendants.LOOK_AGAIN_SECONDS)
        return sorted(pid for pids in survivors for pid in pids)

    async def _stop_command(self, command: _Command) -> list[int]:
        family = command.family
        if await self._end(command) == "uncertain":
            return [*([] if has_ended(family.pidfd) else [family.leader]), *family.living()]
        await command.followed.wait()  # Whoever waits for the command's result still uses the descriptors.
        _reap(command)
        self._look()  # What ended last was left to us by a parent that ended after it.
        left = family.living()
        self._forget(command)
        return left

    def kill(self) -> None:
        """Kill every owned process now, without any grace; none is started from now on. Call it on the loop.

        A `run` under way returns with `cancelled` and the termination `killed`. `stop` still has to be awaited: it
        ends what was started at that very moment in another session, and says what could not be ended.
        """
        self._stopped = True
        self._killing.set()
        for command in self._commands:
            command.killed = command.killed or not has_ended(command.family.pidfd)
        self._look()
        for command in self._commands:
            descendants.tell(command.family, signal.SIGKILL, set())

    # --- start and end ----------------------------------------------------------------------------------------

    async def _start(
        self, argv: Sequence[str], cwd: int | Path, env: Mapping[str, str], sink: Callable[[bytes], None]
    ) -> _Command:
        # A task of its own: the exec may take long on a slow disk, and once begun it is seen through, whatever
        # happens to us, so that no child is ever running without being listed.
        launch = asyncio.create_task(self._launch(list(argv), cwd, dict(env), sink))
        self._launches.add(launch)
        launch.add_done_callback(self._launches.discard)
        try:
            return await asyncio.shield(launch)
        except asyncio.CancelledError:
            with contextlib.suppress(ToolError):
                command = await launch
                await asyncio.shield(self._end(command))
                command.followed.set()
            raise

    async def _launch(
        self, argv: list[str], cwd: int | Path, env: dict[str, str], sink: Callable[[bytes], None]
    ) -> _Command:
        loop = asyncio.get_running_loop()
        mark = secrets.token_hex(16)
        env[descendants.MARK] = mark
        process, pipe = await loop.run_in_executor(self._executor, _spawn, argv, cwd, env)
        try:
            family = Family.of(process.pid, mark, pipe)
        except OSError as exc:  # No descriptor is left; what cannot be held must not run.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(pipe)
            raise _not_started(argv[0], exc) from exc
        command = _Command(process, argv, family, pipe, sink)
        self._commands.append(command)
        loop.add_reader(pipe, _read, command)
        if self._killing.is_set():  # It was starting when the order came.
            self.kill()
        return command

    async def _wait(
        self, command: _Command, timeout_seconds: float, cancel: asyncio.Event
    ) -> Literal["exited", "timed_out", "cancelled"]:
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_seconds
        exited = asyncio.ensure_future(_ended(command.family.pidfd))
        cancelled = asyncio.ensure_future(cancel.wait())
        pause = FIRST_LOOK_SECONDS
        try:
            while (left := deadline - clock()) > 0:
                await asyncio.wait({exited, cancelled}, timeout=min(pause, left), return_when=asyncio.FIRST_COMPLETED)
                if exited.done():
                    return "cancelled" if command.killed else "exited"
                if cancelled.done():
                    return "cancelled"
                self._look()
                pause = min(2 * pause, LONGEST_LOOK_SECONDS)
            return "timed_out"
        finally:
            exited.cancel()
            cancelled.cancel()
            await asyncio.gather(exited, cancelled, return_exceptions=True)

    async def _end(self, command: _Command) -> Termination:
        """TERM, the grace period, then KILL; says which of them it took."""
        if not self._killing.is_set() and await self._all_ended(command, signal.SIGTERM, self._grace_seconds):
            return "killed" if command.killed else "terminated"
        return "killed" if await self._all_ended(command, signal.SIGKILL, KILL_SECONDS) else "uncertain"

    async def _all_ended(self, command: _Command, number: signal.Signals, seconds: float) -> bool:
        """Send a signal to the command and all that came from it, those found later too, and wait for their end."""
        family, told = command.family, set[int]()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                looks_left = 2  # The lists of the kernel may lack one: see descendants.below.
                while looks_left:
                    self._look()
                    descendants.tell(family, number, told)
                    looks_left = 2 if family.members else looks_left - 1
                    # One at a time: whoever looks next closes the descriptors of all that have ended.
                    for fd in (*([] if family.reaped else [family.pidfd]), *family.members.values()):
                        if not has_ended(fd):
                            await _ended(fd)
                            break
                return family.reaped or has_ended(family.pidfd)
        return not family.living() and (family.reaped or has_ended(family.pidfd))

    async def _settle(self, command: _Command) -> None:
        """Wait for the last output: to the end of the pipe, or until children that keep it open are quiet."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + LINGER_SECONDS
        _read(command)  # What the command itself wrote before it ended is in the pipe by now.
        with contextlib.suppress(TimeoutError):
            while not command.eof.is_set() and (left := deadline - clock()) > 0:
                command.activity.clear()
                async with asyncio.timeout(min(QUIET_SECONDS, left)):
                    await command.activity.wait()

    # --- bookkeeping ------------------------------------------------------------------------------------------

    def _look(self) -> bool:
        return descendants.update([command.family for command in self._commands])

    def _drop_if_over(self, command: _Command) -> bool:
        over = command.family.reaped and not command.family.members and command.eof.is_set()
        if over:
            self._forget(command)
        return over

    def _forget(self, command: _Command) -> None:
        if command in self._commands:
            self._commands.remove(command)
            _close_pipe(command)
            command.family.close()


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
    try:
        reader, writer = os.pipe()
    except OSError as exc:
        raise _not_started(name, exc) from exc
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


def _reap(command: _Command) -> int:
    command.family.reaped = True
    return command.process.wait()


def _discard(chunk: bytes) -> None:
    """Output after the result was given: read so that the writer goes on, and not kept."""


def _read(command: _Command) -> None:
    if command.eof.is_set():
        return
    try:
        chunk = os.read(command.pipe, READ_BYTES)
    except BlockingIOError:
        return
    command.activity.set()
    if chunk:
        command.sink(chunk)
    else:
        _close_pipe(command)


def _close_pipe(command: _Command) -> None:
    if not command.eof.is_set():
        command.eof.set()
        asyncio.get_running_loop().remove_reader(command.pipe)
        os.close(command.pipe)


async def _ended(pidfd: int) -> None:
    """Wait for the end of a process: its pidfd becomes readable, also before anyone has reaped it."""
    if has_ended(pidfd):
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
