"""A process of its own with a journal, for tests that kill it, starve it or let it compete.

    journal_child.py DRIVE MODE

It speaks in lines on stdout and waits for a line on stdin where a test must act first.
"""

import asyncio
import os
import resource
import sys
from pathlib import Path

from fluzo.core.errors import StorageError
from fluzo.core.events import OperationEnded
from fluzo.core.records import OperationState

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.store import a_grant, an_intent, an_operation, created, intended, journal_at, seed

NOBODY = 65534


def say(text: object) -> None:
    print(text, flush=True)


def wait() -> None:
    sys.stdin.readline()


async def pairs(drive: Path) -> None:
    """Intent and outcome, over and over; each acknowledged commit is a line."""
    async with journal_at(drive) as journal:
        start = await journal.last_seq()
        if not start:
            await seed(journal)
        for number in range(start, start + 100_000):
            operation = f"o_{number}"
            await journal.commit_intent(an_intent(operation), events=[intended(operation)])
            say(f"intent {operation}")
            done = an_operation(operation, OperationState.KNOWN_RESULT, ok=True)
            await journal.commit_outcome(done, events=[(intended(operation)[0], OperationEnded(True, "", "done"))])
            say(f"outcome {operation}")


async def stop_at(drive: Path, barrier: str) -> None:
    """One operation with a once-grant and an effect, halted at the named point."""

    def reached(name: str) -> None:
        if name == barrier:
            say(name)
            wait()

    async with journal_at(drive) as journal:
        await seed(journal)
        grant = a_grant("g_1")
        await journal.commit(grant)
        reached("before intent")
        await journal.commit_intent(an_intent("o_1", grant_id="g_1"), grant=grant, events=[intended("o_1")])
        reached("after intent")
        (drive.parent / "effect").write_text("happened")
        reached("after effect")
        done = an_operation("o_1", OperationState.KNOWN_RESULT, ok=True, grant_id="g_1")
        await journal.commit_outcome(done, events=[(intended("o_1")[0], OperationEnded(True, "", "done"))])
        reached("after outcome")


async def starved(drive: Path) -> None:
    """Commits until the file size limit of the process refuses more, then tries once with the limit lifted."""
    async with journal_at(drive) as journal:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
        try:
            while True:
                await journal.commit(events=[created(text="x" * 2000)])
                say("acknowledged")
        except StorageError as error:
            say(f"refused {error.code}")
        try:
            await journal.store_artifact("t_1", "output", b"x" * 500_000)
        except StorageError as error:
            say(f"artifact {error.code}")
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await journal.commit(events=[created(text="after")])
        say("recovered")


async def owner(drive: Path) -> None:
    """Commits until it is told to stop, checkpointing often."""
    async with journal_at(drive) as journal:
        await seed(journal)
        stop = asyncio.create_task(asyncio.to_thread(wait))
        say("ready")
        while not stop.done():
            await journal.commit(events=[created(text="y" * 5000), created()])
        say(await journal.last_seq())


async def locker(drive: Path) -> None:
    """Holds the write lock until it is told to let go."""
    async with journal_at(drive) as journal:

        def hold(connection: object) -> None:
            say("locked")
            wait()

        await journal._write(hold)


async def unprivileged(drive: Path) -> None:
    """Reads a store that its user may not write, then tries to write; root gives itself up first."""
    paths = (drive / "state.sqlite3", drive / "artifacts", drive)
    for path, mode in zip(paths, (0o400, 0o500, 0o500), strict=True):
        path.chmod(mode)
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
    Path("/").as_uri()  # The interpreter may be where only root may read: what this loads is loaded before.
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    async with journal_at(drive, read_only=True) as journal:
        for task in await journal.page_tasks(limit=5):
            say(task.id)
    try:
        async with journal_at(drive) as journal:
            await journal.commit(events=[created()])
    except StorageError as error:
        say(error.code)


def main() -> None:
    drive, mode = Path(sys.argv[1]), sys.argv[2]
    modes = {"pairs": pairs, "starved": starved, "owner": owner, "locker": locker, "unprivileged": unprivileged}
    asyncio.run(modes[mode](drive) if mode in modes else stop_at(drive, mode))


if __name__ == "__main__":
    main()
