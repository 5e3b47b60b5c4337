"""The sessions of the other folders that this user has worked in, to be listed and read from here.

Invariant: other stores are only read. Nothing in them is created, migrated or repaired, one of another schema or one
that cannot be read is told as such, and no folder is looked at but those that the user once consented to work in. How
many folders, sessions and seconds it takes is bounded, and it never holds up what the runtime does.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from fluzo.core.errors import FluzoError, StorageError, UsageError, WorkspaceError
from fluzo.core.named import NamedTuple
from fluzo.runtime import views
from fluzo.storage import consent, queries
from fluzo.storage.database import open_reader, translated
from fluzo.workspace.identity import Root, is_owned, workspace_identity

T = TypeVar("T")

DRIVE_NAME = ".fluzodrive"
MAX_FOLDERS = 50
MAX_SESSIONS = 50
"""Of each folder, the newest."""
MAX_MESSAGES = 1000
READ_SECONDS = 3.0
"""After this no further folder is begun."""
PATIENCE_SECONDS = 12.0
"""After this a disk that does not answer is given up on; the thread that waits for it is nobody's concern."""


class _Folder(NamedTuple):
    identity: str
    path: str

    @property
    def place(self) -> Path:
        return Path(os.fsdecode(self.path.encode("utf-8", "surrogateescape")))


class Elsewhere:
    """The other folders, seen from the workspace of this identity; one look at a time."""

    def __init__(self, identity: str) -> None:
        self._own = _path_of(identity)
        self._turn = asyncio.Lock()
        self._looking = False

    async def sessions(self, limit: int) -> Mapping[str, Any]:
        """The newest sessions of each other folder, and the folders that could not be read with the reason.

        `left_out` folders were not looked at. Raises StorageError.
        """
        return await self._look(lambda: _sessions(self._others(), min(limit, MAX_SESSIONS)))

    async def session(self, folder: str, session_id: str, limit: int) -> Mapping[str, Any]:
        """The last messages of one of them, as `SessionDetail` tells of one here. Raises UsageError or StorageError."""

        def read() -> Mapping[str, Any]:
            known = next((item for item in self._others() if item.path == folder), None)
            if known is None:
                raise UsageError("That is no folder that you have worked in.", code="not_found")
            return _session(known, session_id, min(limit, MAX_MESSAGES))

        return await self._look(read)

    def _others(self) -> list[_Folder]:
        """Each other folder once, by its newest consent."""
        found: dict[str, _Folder] = {}
        for identity in consent.workspaces():
            path = _path_of(identity)
            if path != self._own and path.startswith("/"):
                found.setdefault(path, _Folder(identity, path))
        return list(found.values())

    async def _look(self, work: Callable[[], T]) -> T:
        async with self._turn:
            if self._looking:
                raise _too_slow()
            loop = asyncio.get_running_loop()
            done: asyncio.Future[T] = loop.create_future()
            self._looking = True

            def run() -> None:
                try:
                    settle: Callable[[], None] = _result(done, work())
                except Exception as error:  # Whoever asked gets it.
                    settle = _failure(done, error)
                self._looking = False
                with suppress(RuntimeError):  # The runtime has closed meanwhile.
                    loop.call_soon_threadsafe(settle)

            threading.Thread(target=run, name="fluzo-elsewhere", daemon=True).start()
            try:
                return await asyncio.wait_for(done, PATIENCE_SECONDS)
            except TimeoutError:
                raise _too_slow() from None


def _result(done: "asyncio.Future[T]", value: T) -> Callable[[], None]:
    return lambda: None if done.done() else done.set_result(value)


def _failure(done: "asyncio.Future[T]", error: Exception) -> Callable[[], None]:
    return lambda: None if done.done() else done.set_exception(error)


def _too_slow() -> StorageError:
    return StorageError(
        "The disk of another folder does not answer; its sessions cannot be shown now.",
        code="storage_busy",
        hint="Check what is mounted there, then look again.",
        retry="safe",
    )


def _path_of(identity: str) -> str:
    return identity.split(":", 2)[-1]


def _sessions(folders: list[_Folder], limit: int) -> dict[str, Any]:
    until = time.monotonic() + READ_SECONDS
    rows: list[dict[str, Any]] = []
    problems: list[dict[str, str]] = []
    looked = 0
    for folder in folders[:MAX_FOLDERS]:
        if time.monotonic() > until:
            break
        looked += 1
        try:
            rows += _folder_rows(folder, limit)
        except FluzoError as error:
            told = {"folder": folder.path, "code": error.code, "problem": error.message, "hint": error.hint}
            problems.append({key: str(value or "") for key, value in told.items()})
    return {"sessions": rows, "folders": problems, "left_out": len(folders) - looked}


def _folder_rows(folder: _Folder, limit: int) -> list[dict[str, Any]]:
    if not _is_there(folder):
        return []
    live = _is_live(folder)
    with translated(), closing(open_reader(folder.place / DRIVE_NAME, as_found=True)) as db:
        found = queries.page_sessions(db, limit=limit)
        summaries = [queries.summary(db, session.id) for session in found]
    rows = (views.session_row(item, summary, live=live) for item, summary in zip(found, summaries, strict=True))
    return [{**row, "folder": folder.path} for row in rows]


def _session(folder: _Folder, session_id: str, limit: int) -> dict[str, Any]:
    there, live = _is_there(folder), _is_live(folder)
    with translated(), closing(open_reader(folder.place / DRIVE_NAME, as_found=True)) as db:
        session = queries.session(db, session_id) if there else None
        if session is None:
            raise UsageError("That session is not there any more.", code="not_found")
        messages = queries.message_page(db, session_id, limit=limit)
        tasks = queries.page_tasks(db, limit=limit, session_id=session_id)
    return {
        "session": {**views.session_json(session), "folder": folder.path},
        "tasks": [views.task_row(task, live=live) for task in tasks],
        "messages": [views.message_json(message) for message in messages],
    }


def _is_there(folder: _Folder) -> bool:
    """Whether the folder is still the one that was consented to; one that was removed is no failure.

    Raises WorkspaceError when another one has taken its place.
    """
    try:
        now = workspace_identity(folder.place)
    except WorkspaceError:
        return False
    if now != folder.identity:
        raise WorkspaceError(
            f"{folder.place} is another folder than the one you worked in.",
            code="workspace_changed",
            hint="Open Fluzo there once, then its sessions are listed again.",
        )
    return True


def _is_live(folder: _Folder) -> bool:
    """Whether a process owns the folder, as far as can be told; if not, its tasks are not called interrupted."""
    try:
        return is_owned(Root(folder.place, folder.identity, folder.place / ".git"))
    except WorkspaceError:
        return True
