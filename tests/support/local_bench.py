"""The tools over the real backend, in a new Git repository."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.tool_bench import ToolBench

from fluzo.tools.shared import ToolLimits
from fluzo.workspace.environment import child_env
from fluzo.workspace.identity import resolve_root
from fluzo.workspace.local import LocalBackend


def git(root: Path, *argv: str) -> bytes:
    return subprocess.run(["git", *argv], cwd=root, check=True, capture_output=True).stdout


@contextmanager
def local_bench(root: Path, limits: ToolLimits | None = None) -> Iterator[ToolBench]:
    root.mkdir()
    git(root, "init", "-q")
    with asyncio.Runner() as runner:
        env = child_env(os.environ, {}, ())
        backend = LocalBackend(resolve_root(root), env=env, grace_seconds=1, cancel=asyncio.Event())
        try:
            yield ToolBench(backend, limits, str(root.resolve()), runner.run)
        finally:
            runner.run(backend.stop())
            backend.close()
