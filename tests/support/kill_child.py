"""Processes that die by SIGKILL at a chosen write to their journal, and what they had acknowledged until then.

As a program it is the nursery: it loads the product once, and for each order on stdin forks a process that runs the
real runtime or the real command line. Forked before any thread exists, such a process is like a new one, only warm.

    {"root": ..., "fail_at": N, "when": "before" | "after"}      run a task, die at the N-th write to the store
    {"root": ..., "argv": [...], "fail_at": N, "when": ...}      run `fluzo ARGV` there, N 0 for a process that lives

The answer names how the process ended, its writes, every acknowledged sequence number, and its output.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.hosted import start

from fluzo.core.events import Event
from fluzo.host import HostOptions, open_host
from fluzo.storage.journal import Journal

# A read changes nothing: a process that dies at one has left what the write before it left.
_WRITES = frozenset({"commit", "commit_intent", "commit_outcome", "store_artifact"})
NO_KILL = 0


class LethalStorage:
    """Passes calls on and reports the writes; the process dies before or after the n-th of them."""

    def __init__(self, inner: Journal, fail_at: int, when: str, report: Callable[[object], None]) -> None:
        self._inner = inner
        self._fail_at = fail_at
        self._when = when
        self._report = report
        self._calls = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        return self._reported(name, method) if name in _WRITES else method

    def _reported(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self._calls += 1
            self._report({"call": name})
            last = self._calls == self._fail_at
            if last and self._when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = await method(*args, **kwargs)
            for event in result if isinstance(result, tuple) else ():
                if isinstance(event, Event):
                    self._report({"acknowledged": event.seq})
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call


def _live(order: Mapping[str, Any], report: Callable[[object], None]) -> int:
    """The life of a forked process; returns its exit status."""
    real = Journal.open

    async def opened(*args: Any, **more: Any) -> Any:
        journal = await real(*args, **more)
        return LethalStorage(journal, order["fail_at"], order["when"], report)

    Journal.open = opened  # type: ignore[method-assign]  # This process is made for nothing else.
    os.chdir(order["root"])
    if "argv" in order:
        from fluzo.__main__ import main

        return main(order["argv"])
    with open_host(HostOptions(Path(order["root"]))) as host:
        start(host, **{"allow": tuple(tuple(argv) for argv in order.get("allow", ()))}).finish()
    return 0


def _fork(order: Mapping[str, Any], out: Path, err: Path) -> tuple[int, list[dict[str, Any]]]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT, 0o600), 1)
        os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT, 0o600), 2)
        status = 99
        try:
            status = _live(order, lambda value: os.write(writing, json.dumps(value).encode() + b"\n") and None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        reports = [json.loads(line) for line in pipe]
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), reports


def main() -> None:
    import fluzo.commands.cli
    import fluzo.commands.resume
    import fluzo.models.gateway
    import fluzo.runtime.tasks  # noqa: F401 - all of these only to be warm before the first fork.

    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")
        for line in sys.stdin:
            order = {"fail_at": NO_KILL, "when": "before", **json.loads(line)}
            status, reports = _fork(order, out, err)
            answer = {
                "status": status,
                "calls": [item["call"] for item in reports if "call" in item],
                "acknowledged": [item["acknowledged"] for item in reports if "acknowledged" in item],
                "out": out.read_text(),
                "err": err.read_text(),
            }
            out.unlink()
            err.unlink()
            print(json.dumps(answer), flush=True)


@dataclass(frozen=True)
class Ended:
    """`status` is the exit status, or minus the signal that ended the process."""

    status: int
    calls: Sequence[str]
    acknowledged: Sequence[int]
    out: str
    err: str

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL


class Nursery:
    """The test's side of the program above."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def order(self, root: Path, **more: Any) -> Ended:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"root": str(root), **more}) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))


if __name__ == "__main__":
    main()
