"""One task's view of the working tree: the backend it acts through, and the baseline that changes are told by."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from fluzo.core.errors import ToolError, WorkspaceError
from fluzo.core.named import NamedTuple
from fluzo.workspace import baseline as baselines
from fluzo.workspace import discovery, files
from fluzo.workspace.baseline import Baseline, Changes
from fluzo.workspace.git import Git
from fluzo.workspace.identity import Root
from fluzo.workspace.jail import Jail
from fluzo.workspace.local import LocalBackend
from fluzo.workspace.working_tree import against_head

T = TypeVar("T")


class Observed(NamedTuple):
    """The working tree as it is now: what recovery compares records with. Digests are empty for absent files."""

    head: str
    branch: str
    digests: Mapping[str, str]


async def observe(root: Root, paths: Iterable[str]) -> Observed:
    """Look at HEAD, branch and the named files; changes nothing. Raises WorkspaceError."""
    wanted = tuple(sorted(set(paths)))

    def look() -> Observed:
        jail = Jail(root)
        try:
            status = Git(root).status()
            return Observed(status.head, status.branch, {path: _digest(jail, path) for path in wanted})
        finally:
            jail.close()

    return await asyncio.to_thread(look)


async def folder_facts(root: Root, instructions: Sequence[str]) -> Mapping[str, object]:
    """Branch, changed files and the sizes of these files at the root, as plain values. Raises WorkspaceError."""

    def look() -> Mapping[str, object]:
        jail = Jail(root)
        try:
            status = Git(root).status()
            sizes = [(name, _size(jail, name)) for name in instructions]
        finally:
            jail.close()
        told = [{"name": name, "size_bytes": size} for name, size in sizes if size]
        return {"branch": status.branch, "changed": len(status.entries), "instructions": told}

    return await asyncio.to_thread(look)


async def working_tree(root: Root) -> Mapping[str, object]:
    """The working tree against HEAD, as plain values. Raises WorkspaceError."""

    def look() -> Mapping[str, object]:
        jail = Jail(root)
        try:
            return against_head(Git(root), jail).to_json()
        finally:
            jail.close()

    return await asyncio.to_thread(look)


async def file_names(root: Root, limit: int) -> list[str]:
    """Names for a front end to complete. Raises WorkspaceError."""
    return await asyncio.to_thread(lambda: discovery.file_names(Git(root), limit))


def _size(jail: Jail, path: str) -> int:
    """Bytes of a regular file; 0 for one that is not there or may not be read."""
    try:
        with jail.open_regular(path) as (_, handle):
            return handle.stat.st_size
    except (FileNotFoundError, ToolError, WorkspaceError):
        return 0


def _digest(jail: Jail, path: str) -> str:
    try:
        return files.version(jail, path).digest
    except (ToolError, WorkspaceError):
        return "unreadable"


class TaskWorkspace:
    """Opened when an attempt begins and closed with it. Ownership of the workspace is the host's."""

    def __init__(self, root: Root, backend: LocalBackend, baseline: Baseline) -> None:
        self.root = root
        self.backend = backend
        self.baseline = baseline

    @classmethod
    async def open(
        cls,
        root: Root,
        *,
        protected: Iterable[Path],
        env: Mapping[str, str],
        grace_seconds: float,
        cancel: asyncio.Event,
        resolve: Callable[[Mapping[str, str]], Mapping[str, str]] = dict,
        repository: Git | None = None,
    ) -> "TaskWorkspace":
        """Capture the baseline. Raises WorkspaceError when the tree cannot be confined or Git cannot look."""
        backend = await asyncio.to_thread(
            lambda: LocalBackend(
                root,
                protected=protected,
                env=env,
                grace_seconds=grace_seconds,
                cancel=cancel,
                resolve=resolve,
                repository=repository,
            )
        )
        try:
            baseline = await asyncio.to_thread(baselines.capture, backend.repository, backend.jail)
        except BaseException:
            backend.close()
            raise
        return cls(root, backend, baseline)

    async def revision(self) -> str:
        """What a verdict is bound to: one digest of HEAD, status and changed files as they are now."""
        return await self._look(lambda: baselines.revision(self.backend.repository, self.backend.jail))

    async def changes(self) -> Changes:
        return await self._look(lambda: baselines.changes(self.baseline, self.backend.repository, self.backend.jail))

    async def stop(self) -> Sequence[int]:
        """End every owned process within the grace period; what comes back are pids that could not be ended."""
        return await self.backend.stop()

    def running(self) -> Sequence[tuple[int, Sequence[str]]]:
        """Process ids and arguments of the commands that were started and have not ended."""
        return self.backend.running()

    def kill(self) -> None:
        """Kill every owned process now, and give none any more time."""
        self.backend.kill()

    async def close(self) -> None:
        await asyncio.to_thread(self.backend.close)

    async def _look(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)
