"""The execution backend on this machine: files through the jail, processes in owned groups, Git hardened.

Files and Git block, so they run in a small pool of threads; processes are watched by the event loop. The jail
confines the file tools. A process that was approved runs with the user's own rights, anywhere.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from typing import TypeVar

from fluzo.core.contracts import FileContent, GitRequest, Listing, ProcessRequest, SearchResult, Watch
from fluzo.core.errors import ToolError
from fluzo.core.records import FileVersion, ProcessResult
from fluzo.core.redact import MIN_SECRET_LENGTH
from fluzo.workspace import discovery, files
from fluzo.workspace.capture import masked
from fluzo.workspace.environment import clean_path
from fluzo.workspace.git import Git
from fluzo.workspace.identity import Root
from fluzo.workspace.jail import Jail
from fluzo.workspace.processes import Processes

T = TypeVar("T")

WORKERS = 4
GIT_TIMEOUT_SECONDS = 60.0
GIT_CAPTURE_BYTES = 2 * 1024 * 1024


class LocalBackend:
    """`fluzo.core.contracts.ExecutionBackend` for one task. `stop` ends it, then `close` frees what it holds.

    `env` is the whole base environment of children, as `child_env` builds it; `resolve` turns references in what a
    request adds to it into values, at the start of each process. When `cancel` is set, a running
    process is ended and its result says so; none is started afterwards. A `repository` that is at hand, of the same
    root, saves reading Git's configuration again.
    """

    def __init__(
        self,
        root: Root,
        *,
        protected: Iterable[Path] = (),
        env: Mapping[str, str],
        grace_seconds: float,
        cancel: asyncio.Event,
        resolve: Callable[[Mapping[str, str]], Mapping[str, str]] = dict,
        repository: Git | None = None,
    ) -> None:
        self.jail = Jail(root, protected)
        self.repository = repository or Git(root)
        self._env = dict(env)
        self._resolve = resolve
        self._cancel = cancel
        self._pool = ThreadPoolExecutor(WORKERS, "fluzo-files")
        self._processes = Processes(grace_seconds, self._pool)
        self._watch: Watch | None = None

    def watched(self, watch: Watch) -> "LocalBackend":
        view = copy(self)
        view._watch = watch
        return view

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def read_file(self, path: str, max_bytes: int) -> FileContent:
        return await self._blocking(lambda: files.read(self.jail, path, max_bytes))

    async def file_version(self, path: str) -> FileVersion:
        return await self._blocking(lambda: files.version(self.jail, path))

    async def write_file(self, path: str, data: bytes, expected: FileVersion) -> FileVersion:
        return await self._blocking(lambda: files.write(self.jail, path, data, expected))

    async def delete_file(self, path: str, expected: FileVersion) -> None:
        await self._blocking(lambda: files.delete(self.jail, path, expected))

    async def move_file(self, source: str, target: str, expected: FileVersion) -> FileVersion:
        return await self._blocking(lambda: files.move(self.jail, source, target, expected))

    async def list_files(self, path: str, max_entries: int, depth: int) -> Listing:
        return await self._blocking(lambda: discovery.list_files(self.repository, self.jail, path, max_entries, depth))

    async def search(self, pattern: str, path: str, *, regex: bool, glob: str, max_hits: int) -> SearchResult:
        return await self._blocking(
            lambda: discovery.search(
                self.repository, self.jail, pattern, path, regex=regex, glob=glob, max_hits=max_hits
            )
        )

    async def execute(self, request: ProcessRequest) -> ProcessResult:
        given = dict(request.env)
        added = await self._blocking(lambda: self._resolve(given))
        secrets = [value.encode() for name, value in added.items() if value != given.get(name)]
        env = {**self._env, **added}
        env["PATH"] = clean_path(env.get("PATH", ""))
        # The redactor leaves a shorter value alone; such a one can be masked in the whole output only.
        watchable = all(len(secret) >= MIN_SECRET_LENGTH for secret in secrets)
        try:
            with self.jail.open_directory(request.cwd) as handle:
                result = await self._processes.run(
                    request.argv,
                    cwd=handle.fd,
                    env=env,
                    timeout_seconds=request.timeout_seconds,
                    capture_bytes=request.capture_bytes,
                    cancel=self._cancel,
                    watch=self._watch if watchable else None,
                )
        except FileNotFoundError as exc:
            raise ToolError(f"there is no directory {request.cwd} to run in", code="no_such_file") from exc
        # Here and not only where results are kept: whoever shortens the output later must not cut a secret in two.
        if not secrets:
            return result
        limit = request.capture_bytes if result.truncated else 0
        return result._replace(output=masked(result.output, secrets, limit))

    async def git(self, request: GitRequest) -> ProcessResult:
        argv = await self._blocking(lambda: self.repository.command(request))
        return await self._processes.run(
            argv,
            cwd=self.jail.root.path,
            env=self.repository.environment(),
            timeout_seconds=GIT_TIMEOUT_SECONDS,
            capture_bytes=GIT_CAPTURE_BYTES,
            cancel=self._cancel,
        )

    async def stop(self) -> list[int]:
        """End every process of this task within the grace period; returns the pids that could not be ended."""
        return await self._processes.stop()

    def running(self) -> list[tuple[int, list[str]]]:
        """Process ids of this task that have not ended, each with its command's arguments."""
        return self._processes.running()

    def kill(self) -> None:
        """Kill every process of this task now, without any grace. Call it on the loop; `stop` still has to follow."""
        self._processes.kill()

    def close(self) -> None:
        """Free threads and descriptors, after `stop`. File work under way is finished first."""
        self._pool.shutdown(wait=True)
        self.jail.close()
