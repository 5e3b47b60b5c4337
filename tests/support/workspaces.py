"""Real Git repositories for tests, and the parts of a workspace opened on them."""

import asyncio
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from support.stepped import SkippingLoop

from fluzo.core.contracts import ProcessRequest
from fluzo.core.records import ProcessResult
from fluzo.workspace import descendants
from fluzo.workspace.environment import child_env
from fluzo.workspace.git import Git
from fluzo.workspace.identity import resolve_root
from fluzo.workspace.jail import Jail
from fluzo.workspace.local import LocalBackend
from fluzo.workspace.syscalls import become_subreaper

T = TypeVar("T")


def git(cwd: Path, *arguments: str | bytes, **environ: str) -> bytes:
    """The user's own Git, as a person would run it."""
    result = subprocess.run(
        ["git", *arguments], cwd=cwd, env={**os.environ, **environ}, check=True, capture_output=True
    )
    return result.stdout


def make_repository(path: Path, files: Mapping[str, bytes | str] | None = None) -> Path:
    """A repository with one commit of the given files, or without any commit."""
    path.mkdir(parents=True, exist_ok=True)
    git(path, "init", "-q")
    if files is not None:
        for name, content in files.items():
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        git(path, "add", "-A")
        git(path, "commit", "-qm", "begin", "--allow-empty")
    return path


@dataclass
class Opened:
    path: Path
    git: Git
    jail: Jail


@contextmanager
def opened(path: Path, *protected: Path) -> Iterator[Opened]:
    root = resolve_root(path)
    jail = Jail(root, protected)
    try:
        yield Opened(root.path, Git(root), jail)
    finally:
        jail.close()


def with_backend(
    path: Path,
    work: Callable[[LocalBackend, asyncio.Event], Awaitable[T]],
    *,
    grace_seconds: float = 30.0,
    env: Mapping[str, str] | None = None,
    survivors: list[int] | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = SkippingLoop,
) -> T:
    """Run a coroutine with a backend on its own loop; every process is ended afterwards.

    Who obeys is never waited for so long; tests of those who do not give a shorter grace period.
    """

    async def body() -> T:
        cancel = asyncio.Event()
        environment = child_env(os.environ, {}, ()) if env is None else env
        backend = LocalBackend(resolve_root(path), env=environment, grace_seconds=grace_seconds, cancel=cancel)
        try:
            return await work(backend, cancel)
        finally:
            left = await backend.stop()
            if survivors is not None:
                survivors.extend(left)
            backend.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(body())


async def followed(backend: LocalBackend) -> None:
    """Wait until the backend has heard that its command was started, and its deadline counts.

    The command itself may be long at work by then: it is started in another thread.
    """
    while not backend.running():
        await asyncio.sleep(0)
    for _ in range(20):  # Whoever waits for the start is only some turns of the loop away.
        await asyncio.sleep(0)


class Newcomers:
    """What came below this process after this was made, and not from what was there.

    Other tests of this process leave orphans, which end, and start others, at any time.
    """

    def __init__(self) -> None:
        become_subreaper()
        self._begun = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
        before = descendants.below()
        self._pids = {seen.pid for seen in before}
        self._sessions = {seen.session for seen in before} - {os.getsid(0)}

    def below(self) -> list[descendants.Seen]:
        """Those that are there now, ended ones that nobody has reaped included."""
        found = [seen for seen in descendants.below() if seen.started >= self._begun]
        return [seen for seen in found if seen.pid not in self._pids and seen.session not in self._sessions]


def execute(
    path: Path,
    *argv: str,
    cwd: str = ".",
    env: tuple[tuple[str, str], ...] = (),
    timeout_seconds: float = 600.0,
    capture_bytes: int = 1_000_000,
) -> ProcessResult:
    """One command in a workspace."""
    request = ProcessRequest(argv, cwd, env, timeout_seconds, capture_bytes)
    return with_backend(path, lambda backend, _: backend.execute(request))


def shell(
    path: Path, script: str, *, cwd: str = ".", timeout_seconds: float = 600.0, capture_bytes: int = 1_000_000
) -> ProcessResult:
    return execute(path, "bash", "-c", script, cwd=cwd, timeout_seconds=timeout_seconds, capture_bytes=capture_bytes)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"
