"""The measured process of the search's row: `search_runs.py ROOT TEXT RUNS COMMAND...` prints both lists of samples as
JSON. One side searches the working tree as the `search` tool does, the other runs the command there.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from fluzo.workspace.environment import child_env
from fluzo.workspace.identity import resolve_root
from fluzo.workspace.local import LocalBackend

WARM_UP = 2
MAX_HITS = 200


async def measure(root: Path, text: str, runs: int, command: list[str]) -> tuple[list[float], list[float]]:
    env = child_env(os.environ, {}, ())
    backend = LocalBackend(resolve_root(root), env=env, grace_seconds=1, cancel=asyncio.Event())
    found: list[int] = []

    async def search() -> None:
        result = await backend.search(text, ".", regex=False, glob="", max_hits=MAX_HITS)
        found.append(len(result.hits))

    async def run_command() -> None:
        done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True)
        found.append(len(done.stdout.splitlines()))

    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(WARM_UP + runs):
        for side in (0, 1) if number % 2 else (1, 0):
            started = time.perf_counter()
            await (search, run_command)[side]()
            taken[side].append(time.perf_counter() - started)
    await backend.stop()
    backend.close()
    if len(set(found)) != 1:
        raise SystemExit(f"the two sides do not find the same: {found}")
    return taken[0][WARM_UP:], taken[1][WARM_UP:]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]))))
