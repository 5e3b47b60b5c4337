"""A damaged store: found by looking at every page, and set aside under another name when the user says so.

Nothing is ever deleted, repaired in place or replaced here; artifacts stay where they are. The next run begins a new
store, and what was set aside can still be opened with SQLite's own tools.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

from fluzo.core.errors import StorageError
from fluzo.storage import database, queries
from fluzo.storage.database import DATABASE

_LOGS = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database (https://www.sqlite.org/tempfiles.html)."""


def examine(drive: Path) -> StorageError | None:
    """Why the store cannot be used, after reading all of it; None for a sound one and for none at all."""
    try:
        reader = database.open_reader(drive)
        try:
            with database.translated():
                problems = queries.problems(reader)
        finally:
            reader.close()
    except StorageError as error:
        return error
    return database.damaged(f"SQLite reports: {problems[0]}") if problems else None


def set_aside(drive: Path) -> Path:
    """Rename the database and its logs to `state.sqlite3.damaged-TIME`, and return that name.

    To be called under ownership of the workspace. Raises StorageError; what was renamed by then keeps its new name.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    target = drive / f"{DATABASE}.damaged-{stamp}"
    with database.translated():
        database.check_private(drive, drive.name, directory=True)
        # The logs first: one that stayed behind would be taken for the log of the store that comes next.
        for suffix in (*_LOGS, ""):
            source = drive / f"{DATABASE}{suffix}"
            if os.path.lexists(source):
                source.rename(f"{target}{suffix}")
        database.sync_directory(drive)
    return target
