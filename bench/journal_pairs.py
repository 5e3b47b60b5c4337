"""The measured process of the journal's row: `journal_pairs.py PLACE PAIRS` prints both lists of samples as JSON."""

import asyncio
import itertools
import json
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fluzo.core.contracts import Draft
from fluzo.core.events import OperationEnded, OperationIntended, Scope
from fluzo.core.records import (
    Attempt,
    AttemptState,
    Limits,
    OperationRecord,
    OperationState,
    Session,
    Task,
    TaskState,
)
from fluzo.storage.journal import Journal
from fluzo.storage.rows import EVENT_SQL, TABLES, event_row

AT = "2026-01-02T03:04:05.000006Z"
WARM_UP = 20
TABLE = TABLES[OperationRecord]

_numbers = itertools.count()


@dataclass(frozen=True)
class Pair:
    intent: OperationRecord
    intended: Draft
    outcome: OperationRecord
    ended: Draft

    def rows(self) -> list[tuple[Sequence[object], Sequence[object]]]:
        """What the two commits write: an operation's row and an event's row each."""
        commits = (self.intent, self.intended), (self.outcome, self.ended)
        return [(TABLE.to_row(operation), event_row(AT, *draft)) for operation, draft in commits]


def new_id(prefix: str) -> str:
    return f"{prefix}_{next(_numbers):032x}"


def new_pair() -> Pair:
    scope = {"argv": ["cargo", "test", "--workspace"], "cwd": ".", "environment": [], "backend": "local", "paths": []}
    intent = OperationRecord(
        new_id("o"),
        "t",
        "a",
        turn=1,
        call_id="call_1",
        tool="run",
        action="execute",
        effect="execute",
        summary="cargo test --workspace",
        scope=scope,
        fingerprint="0" * 64,
        state=OperationState.INTENT_COMMITTED,
        requested_at=AT,
        authorized_by="user",
    )
    result = {"exit": 101, "output": "test result: FAILED. 5 passed; 1 failed", "seconds": 1.8}
    outcome = intent._replace(state=OperationState.KNOWN_RESULT, ok=False, ended_at=AT, result=result)
    where = Scope("s", "t", "a", intent.id, "0" * 32)
    intended = (where, OperationIntended("run", intent.summary))
    return Pair(intent, intended, outcome, (where, OperationEnded(False, "", intent.summary, result)))


async def store(place: Path) -> Journal:
    journal = await Journal.open(place, new_id=new_id, now=lambda: AT)
    session = Session("s", journal.project().id, "title", AT, AT)
    task = Task("t", "s", "r", "text", TaskState.READY, "", AT, AT, "/", "", Limits(1, 1, 1.0, 1))
    await journal.commit(session, task, Attempt("a", "t", "0" * 32, 1, AttemptState.RUNNING, AT))
    return journal


async def measure(place: Path, pairs: int) -> tuple[list[float], list[float]]:
    await (await store(place / "bare")).close()
    bare = sqlite3.connect(place / "bare" / "state.sqlite3", isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        bare.execute(f"PRAGMA {pragma}")
    journal = await store(place / "journal")

    rows: list[tuple[Sequence[object], Sequence[object]]] = []

    async def through_the_journal(pair: Pair) -> None:
        await journal.commit_intent(pair.intent, events=[pair.intended])
        await journal.commit_outcome(pair.outcome, events=[pair.ended])

    async def by_sqlite_alone(pair: Pair) -> None:
        for operation_row, row in rows:
            bare.execute("BEGIN IMMEDIATE")
            bare.execute(TABLE.upsert, operation_row)
            bare.execute(EVENT_SQL, row)
            bare.execute("COMMIT")

    sides: tuple[Callable[[Pair], Awaitable[None]], ...] = (through_the_journal, by_sqlite_alone)
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(WARM_UP + pairs):
        pair = new_pair()
        rows = pair.rows()
        for side in (0, 1) if number % 2 else (1, 0):
            started = time.perf_counter()
            await sides[side](pair)
            taken[side].append(time.perf_counter() - started)
    await journal.close()
    bare.close()
    return taken[0][WARM_UP:], taken[1][WARM_UP:]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(Path(sys.argv[1]), int(sys.argv[2])))))
