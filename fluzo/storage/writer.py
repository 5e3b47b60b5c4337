"""The thread that writes: what it is given runs one after the other, in the order of the calls.

A plain queue instead of an executor, because the hand-over is part of every intent and outcome and an executor's
costs twice as much.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class _Job:
    """Work, and the loop that waits for it. `ended` and `late` belong to that loop alone."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.result: asyncio.Future[Any] = self.loop.create_future()
        self.late: asyncio.Future[None] | None = None
        self.ended = False

    def finish(self, value: Any, error: BaseException | None) -> None:
        self.ended = True
        if self.late is not None:
            self.late.set_result(None)
        elif self.result.cancelled():
            pass
        elif error is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(value)


class WriterThread:
    """Runs blocking work for event loops. A process that ends without `stop` cuts it off, as a crash would."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work, when everything before it is done.

        A cancellation goes on only after the work has ended as a whole, so that what it did can be looked up.
        """
        if not self._thread.is_alive():
            raise RuntimeError("the writer has been stopped")
        job = _Job(work)
        self._jobs.put(job)
        try:
            result: T = await job.result
        except asyncio.CancelledError:
            if not job.ended:
                job.late = job.loop.create_future()
                await job.late
            raise
        return result

    def stop(self) -> None:
        """Finish what was submitted and end the thread; blocks until then. A second call does nothing."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            value, error = None, None
            try:
                value = job.work()
            except BaseException as exc:
                error = exc
            # A closed loop has nobody left who waits.
            with suppress(RuntimeError):
                job.loop.call_soon_threadsafe(job.finish, value, error)
            del job, value, error
