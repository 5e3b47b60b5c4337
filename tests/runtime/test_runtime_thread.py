"""The runtime's own thread: what is asked of it while it ends is answered, if only by a cancellation."""

import asyncio
import gc
from pathlib import Path

import pytest
from support.workspaces import make_repository

from fluzo.core.port import TaskList
from fluzo.host import HostOptions, RuntimeThread, open_host


def test_what_is_asked_of_a_runtime_that_is_ending_is_cancelled_and_never_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread, begun = RuntimeThread(), list[str]()

    async def question(name: str) -> None:
        begun.append(name)
        await asyncio.Event().wait()

    asked = [asyncio.run_coroutine_threadsafe(question("early"), thread.loop)]

    def overtaken() -> None:
        monkeypatch.undo()
        asked.append(asyncio.run_coroutine_threadsafe(question("late"), thread.loop))
        thread.loop.stop()

    monkeypatch.setattr(thread.loop, "stop", overtaken)
    thread.close()
    assert begun == ["early", "late"]
    assert all(future.cancelled() for future in asked)


def test_a_question_after_the_end_is_an_error_and_leaves_no_coroutine_that_was_never_awaited(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a": "a"})
    with open_host(HostOptions(tmp_path, read_only=True)) as reader:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        reader.port.query(TaskList())
    gc.collect()
