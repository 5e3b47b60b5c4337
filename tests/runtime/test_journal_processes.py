import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.store import created, journal_at, seed

from fluzo.core.errors import StorageError
from fluzo.core.records import OperationState

CHILD = Path(__file__).resolve().parents[1] / "support" / "journal_child.py"


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    return tmp_path / ".fluzodrive"


@contextmanager
def child(drive: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, CHILD, drive, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: subprocess.Popen[str]) -> list[str]:
    """Kill -9, and whatever it had said by then."""
    process.send_signal(signal.SIGKILL)
    said, _ = process.communicate()
    # A line that was cut off was not said.
    return said[: said.rfind("\n") + 1].splitlines()


def test_what_was_acknowledged_survives_kill_9_and_nothing_is_half_there(drive: Path) -> None:
    acknowledged: dict[str, str] = {}

    async def check() -> None:
        async with journal_at(drive) as journal:
            assert await journal.problems() == ()
            events = await journal.events_after(0, limit=100_000)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            stored = {record.id: record.state for record in await journal.operations("t_1")}
            said = {name: {event.scope.operation_id for event in events if event.type == name} for name in KINDS}
            # State and event are one commit: there is never one without the other.
            assert said["OperationIntended"] == set(stored)
            known = {name for name, state in stored.items() if state is OperationState.KNOWN_RESULT}
            assert said["OperationEnded"] == known
            for name, step in acknowledged.items():
                assert stored[name] is OperationState.KNOWN_RESULT if step == "outcome" else name in stored
            _, between = await journal.unfinished()
            assert {record.id for record in between} == set(stored) - known

    for after_lines in (1, 2, 7, 40, 150):
        with child(drive, "pairs") as process:
            lines = [line(process) for _ in range(after_lines)] + kill(process)
        for said in lines:
            step, name = said.split()
            acknowledged[name] = step
        asyncio.run(check())
    assert len(acknowledged) >= 100


KINDS = ("OperationIntended", "OperationEnded")


@pytest.mark.parametrize(
    ("barrier", "state", "consumed", "effect"),
    [
        ("before intent", None, False, False),
        ("after intent", OperationState.INTENT_COMMITTED, True, False),
        ("after effect", OperationState.INTENT_COMMITTED, True, True),
        ("after outcome", OperationState.KNOWN_RESULT, True, True),
    ],
)
def test_a_process_killed_at_a_point_leaves_exactly_what_it_committed(
    drive: Path, barrier: str, state: OperationState | None, consumed: bool, effect: bool
) -> None:
    with child(drive, barrier) as process:
        assert line(process) == barrier
        kill(process)

    async def check(read_only: bool) -> None:
        async with journal_at(drive, read_only=read_only) as journal:
            assert [record.state for record in await journal.operations("t_1")] == ([state] if state else [])
            (grant,) = await journal.grants("t_1")
            assert grant.usable is not consumed
            _, between = await journal.unfinished()
            assert [record.id for record in between] == (["o_1"] if state is OperationState.INTENT_COMMITTED else [])

    asyncio.run(check(read_only=True))
    asyncio.run(check(read_only=False))
    assert (drive.parent / "effect").exists() is effect


def test_a_full_disk_is_said_and_loses_nothing_that_was_acknowledged(drive: Path) -> None:
    async def prepare() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)

    asyncio.run(prepare())
    with child(drive, "starved") as process:
        said = process.communicate()[0].splitlines()
        assert process.returncode == 0
    acknowledged = said.count("acknowledged")
    assert acknowledged > 10
    assert said[acknowledged:] == ["refused storage_failed", "artifact storage_failed", "recovered"]

    async def check() -> None:
        async with journal_at(drive) as journal:
            assert await journal.last_seq() == acknowledged + 1
            assert await journal.problems() == ()
            assert await journal.sweep() == ()

    asyncio.run(check())
    assert list((drive / "artifacts").iterdir()) == []


def test_a_reader_beside_a_writing_process_is_never_locked_out(drive: Path) -> None:
    async def read() -> int:
        last = rounds = 0
        while rounds < 60 or not last:  # However long the other one takes for its first commit.
            rounds += 1
            async with journal_at(drive, read_only=True) as journal:
                events, found = await asyncio.gather(journal.events_after(last), journal.last_seq())
                seqs = [event.seq for event in events]
                assert seqs == list(range(last + 1, last + 1 + len(seqs)))
                assert len(await journal.page_tasks(limit=5)) == 1
                last = max(last, seqs[-1] if seqs else last)
                assert found >= 0
        return last

    with child(drive, "owner") as process:
        assert line(process) == "ready"
        seen = asyncio.run(read())
        written, _ = process.communicate("stop\n")
        assert process.returncode == 0
    assert 0 < seen <= int(written)


def test_a_second_writer_waits_for_the_first_and_then_goes_on(drive: Path) -> None:
    async def prepare() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)

    async def compete(process: subprocess.Popen[str]) -> None:
        async with journal_at(drive) as journal:
            commit = asyncio.create_task(journal.commit(events=[created()]))
            assert await journal.last_seq() == 0  # A reader does not wait.
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            assert [event.seq for event in await commit] == [1]

    asyncio.run(prepare())
    with child(drive, "locker") as process:
        assert line(process) == "locked"
        asyncio.run(compete(process))


def test_a_lock_that_is_not_released_is_reported_as_busy(drive: Path) -> None:
    async def prepare() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)

    async def compete() -> None:
        async with journal_at(drive) as journal:
            # Not to wait for the five seconds here; that they are set is a test of the database.
            await journal._writer.run(lambda: journal._connection.execute("PRAGMA busy_timeout = 1"))
            with pytest.raises(StorageError) as refused:
                await journal.commit(events=[created()])
            assert (refused.value.code, refused.value.retry) == ("storage_busy", "safe")
            assert await journal.last_seq() == 0

    asyncio.run(prepare())
    with child(drive, "locker") as process:
        assert line(process) == "locked"
        asyncio.run(compete())
