"""The thread that writes: what it is given runs one after the other, in the order of the calls.

Both hand-overs are part of every intent and outcome, so they are made of little: a pipe on the way there, and the
task's own wake-up on the way back. An executor's cost three times as much.
"""

import asyncio
import io
import os
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import Context
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Job(Generic[T]):
    """Work that one task awaits, and what came of it.

    To the task it is a future (https://docs.python.org/3/library/asyncio-future.html#asyncio.isfuture) that cannot be
    cancelled, so that a cancellation reaches the task after the work, whole. Asyncio says how to wake the task once the
    task stands still. The work is handed over then, and never before: its end wakes the task itself, without a further
    round of the loop.
    """

    _asyncio_future_blocking = False

    def __init__(self, work: Callable[[], T], hand_over: Callable[["_Job[Any]"], None]) -> None:
        self._work = work
        self._hand_over = hand_over
        self._loop = asyncio.get_running_loop()
        self._error: BaseException | None = None

    def __await__(self) -> Generator["_Job[T]", None, T]:
        self._asyncio_future_blocking = True
        yield self
        return self.result()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, wake: Callable[["_Job[T]"], object], *, context: Context) -> None:
        self._wake, self._context = wake, context
        self._hand_over(self)

    def cancel(self, msg: object = None) -> bool:
        return False

    def result(self) -> T:
        if self._error is None:
            return self._value
        error, self._error = self._error, None
        try:
            raise error
        finally:
            del error  # Its traceback leads here; a cycle would live until the next collection.

    def run(self) -> None:
        """Do the work, in the thread that writes, and wake the task in its own."""
        try:
            self._value = self._work()
        except BaseException as exc:
            self._error = exc
        # A closed loop has nobody left who waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake, self, context=self._context)


class WriterThread:
    """Runs blocking work for event loops. A process that ends without `stop` cuts it off, as a crash would."""

    def __init__(self, name: str) -> None:
        """Raises OSError when there is no descriptor left for its pipe."""
        self._jobs: deque[_Job[Any] | None] = deque()
        # Whoever is woken by a pipe runs where the other thread is about to wait. A lock wakes another processor, which
        # takes as long as a write to the disk where it has to be woken itself.
        reading, writing = os.pipe()
        self._bell, self._ring = io.FileIO(reading, "rb"), io.FileIO(writing, "wb")
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work, when everything before it is done.

        A cancellation goes on only after the work has ended as a whole, so that what it did can be looked up.
        """
        if not self._thread.is_alive():
            raise RuntimeError("the writer has been stopped")
        return await _Job(work, self._put)

    def stop(self) -> None:
        """Finish what was submitted and end the thread; blocks until then. A second call does nothing."""
        if self._ring.closed:
            return
        self._put(None)
        self._thread.join()
        self._ring.close()
        self._bell.close()

    def _put(self, job: _Job[Any] | None) -> None:
        self._jobs.append(job)
        self._ring.write(b"\0")

    def _run(self) -> None:
        while self._bell.read(1) and (job := self._jobs.popleft()) is not None:
            job.run()
            del job
