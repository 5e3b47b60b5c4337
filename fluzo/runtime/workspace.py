"""One task's view of the working tree: the backend it acts through, and the baseline that changes are told by."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from fluzo.workspace import baseline as baselines
from fluzo.workspace.baseline import Baseline, Changes
from fluzo.workspace.identity import Root
from fluzo.workspace.local import LocalBackend

T = TypeVar("T")


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
    ) -> "TaskWorkspace":
        """Capture the baseline. Raises WorkspaceError when the tree cannot be confined or Git cannot look."""
        backend = await asyncio.to_thread(
            lambda: LocalBackend(root, protected=protected, env=env, grace_seconds=grace_seconds, cancel=cancel)
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

    async def close(self) -> None:
        await asyncio.to_thread(self.backend.close)

    async def _look(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)
