"""What a store really holds, read without any code of the product: plain SQLite on a copy of the files."""

import json
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

STORE = "state.sqlite3"


def rows(drive: Path, query: str, *values: object) -> list[dict[str, Any]]:
    """The answer to a query. On a copy, because closing the last connection would tidy up what a crash left."""
    with TemporaryDirectory() as place:
        for path in drive.glob(f"{STORE}*"):
            if path.suffix != ".new" and path.is_file():
                shutil.copy(path, place)
        if not (Path(place) / STORE).exists():
            return []
        connection = sqlite3.connect(Path(place) / STORE)
        try:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, values)]
        finally:
            connection.close()


def events(drive: Path, task_id: str = "") -> list[dict[str, Any]]:
    """Every committed event by number, its payload under `data`; of one task, or of all."""
    where = "WHERE task_id = ?" if task_id else ""
    found = rows(drive, f"SELECT * FROM events {where} ORDER BY seq", *([task_id] if task_id else []))
    return [{**event, "data": json.loads(event["data"])} for event in found]


def operations(drive: Path) -> list[dict[str, Any]]:
    return rows(drive, "SELECT * FROM operations ORDER BY row")


def intended(drive: Path, tool: str) -> int:
    """How many operations of a tool have a durable intent."""
    wanted = [event for event in events(drive) if event["type"] == "OperationIntended"]
    return sum(1 for event in wanted if event["data"]["tool"] == tool)


def assert_gapless(drive: Path) -> list[int]:
    """The sequence numbers of a store, which begin at 1 and miss none."""
    numbers = [event["seq"] for event in events(drive)]
    assert numbers == list(range(1, len(numbers) + 1))
    return numbers


def assert_nowhere(secret: str, places: Iterable[Path]) -> None:
    """No file in these places holds the secret, in its name or its bytes."""
    for place in places:
        for path in [place, *place.rglob("*")]:
            assert secret not in str(path)
            assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def ran(root: Path) -> int:
    """How often the command of these tests did its work: it appends a line to `ran`."""
    path = root / "ran"
    return path.read_text().count("run\n") if path.exists() else 0


def edited(root: Path) -> bool:
    return (root / "sheep.py").read_text() == "COUNT = 2\n"


def assert_sound(root: Path, requests: int, acknowledged: Iterable[int] = (), drive: Path | None = None) -> None:
    """No effect without a durable intent, no acknowledged event lost, no number missing, no grant used twice."""
    drive = drive or root / ".fluzodrive"
    assert set(acknowledged) <= set(assert_gapless(drive))
    assert intended(drive, "model") >= requests
    assert intended(drive, "run") >= ran(root)
    assert intended(drive, "edit_file") >= edited(root)
    used = [item["grant_id"] for item in operations(drive) if item["grant_id"]]
    for grant in rows(drive, "SELECT * FROM permission_grants WHERE kind = 'once'"):
        assert used.count(grant["id"]) == (1 if grant["consumed_at"] else 0)
