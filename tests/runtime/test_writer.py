"""The thread that writes: order, errors, cancellation, and what is left of it."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fluzo.storage.writer import WriterThread


@pytest.fixture
def writer() -> Iterator[WriterThread]:
    made = WriterThread("test-writer")
    yield made
    made.stop()


def test_work_of_several_tasks_runs_in_the_order_of_the_calls(writer: WriterThread) -> None:
    done: list[int] = []

    async def main() -> list[None]:
        return await asyncio.gather(*(writer.run(lambda n=n: done.append(n)) for n in range(50)))  # type: ignore[misc]

    asyncio.run(main())

    assert done == list(range(50))


def test_work_runs_in_one_thread_and_the_task_goes_on_in_its_own(writer: WriterThread) -> None:
    async def main() -> tuple[int, int, int]:
        return await writer.run(threading.get_ident), await writer.run(threading.get_ident), threading.get_ident()

    first, second, own = asyncio.run(main())

    assert first == second != own == threading.get_ident()


def test_the_error_of_the_work_reaches_the_task_and_leaves_no_cycle(writer: WriterThread) -> None:
    class Failure(Exception):
        pass

    def work() -> None:
        raise Failure("why")

    async def main() -> "weakref.ref[Failure]":
        with pytest.raises(Failure, match="why") as caught:
            await writer.run(work)
        failure = weakref.ref(caught.value)
        del caught
        # The thread that writes lets go of what it did when it turns to the next.
        assert await writer.run(lambda: "goes on") == "goes on"
        return failure

    gc.disable()
    try:
        failure = asyncio.run(main())
        assert failure() is None
    finally:
        gc.enable()


def test_a_task_that_is_cancelled_again_and_again_ends_after_its_work(writer: WriterThread) -> None:
    started, let_go, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        let_go.wait()
        ended.set()

    async def main() -> bool:
        task = asyncio.ensure_future(writer.run(work))
        await asyncio.to_thread(started.wait)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ended.is_set()

    assert asyncio.run(main())


def test_a_loop_that_is_gone_does_not_stop_the_thread(writer: WriterThread) -> None:
    let_go, gone = threading.Event(), asyncio.new_event_loop()
    task = gone.create_task(writer.run(let_go.wait))
    gone.run_until_complete(asyncio.sleep(0))
    gone.close()
    let_go.set()

    async def main() -> str:
        return await writer.run(lambda: "goes on")

    assert asyncio.run(main()) == "goes on"
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # It was left behind on purpose.


def test_a_stopped_writer_has_closed_its_descriptors_and_takes_no_work() -> None:
    def pipes() -> set[str]:
        found = set()
        for entry in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # Closed since it was listed.
                found.add(str(entry.readlink()))
        return found

    before = pipes()
    writer = WriterThread("test-writer")
    opened = {name for name in pipes() - before if name.startswith("pipe:")}
    writer.stop()
    writer.stop()

    async def main() -> None:
        await writer.run(int)

    assert len(opened) == 1
    assert opened.isdisjoint(pipes())
    with pytest.raises(RuntimeError, match="stopped"):
        asyncio.run(main())
