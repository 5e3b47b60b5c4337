"""Private files beside the journal: staged, synced, renamed, and only then referenced.

An artifact is found by its opaque id alone, directly beneath the managed directory, and never through a link.
Functions here block; the journal calls them off the event loop.
"""

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Collection
from pathlib import Path

from fluzo.core.errors import StorageError
from fluzo.core.records import Artifact

STAGED = ".staged"
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


def is_artifact_id(text: str) -> bool:
    """Whether this may be an artifact's id, and thus the name of a file here: no dot, no slash."""
    return _ID.fullmatch(text) is not None


def digest_of(data: bytes) -> str:
    """SHA-256 in hex, as in the records."""
    return hashlib.sha256(data).hexdigest()


def store(directory: Path, artifact_id: str, data: bytes) -> None:
    """Make the content durable under its id; the caller commits the record afterwards. Raises OSError."""
    if not is_artifact_id(artifact_id):
        raise ValueError(f"not an artifact id: {artifact_id!r}")
    root = _open_directory(directory)
    try:
        staged = artifact_id + STAGED
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=root)
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                os.fchmod(descriptor, 0o600)
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
                os.fsync(descriptor)
            os.rename(staged, artifact_id, src_dir_fd=root, dst_dir_fd=root)
        except BaseException:
            os.unlink(staged, dir_fd=root)
            raise
        os.fsync(root)
    finally:
        os.close(root)


def load(directory: Path, record: Artifact) -> bytes:
    """The content of a recorded artifact, exactly as it was stored.

    Raises StorageError (`store_damaged`) when the file is missing, is not a regular file or has other content.
    """
    root = _open_directory(directory)
    try:
        # O_NONBLOCK: a FIFO put in the file's place must not hang the reader.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(record.id, flags, dir_fd=root)
    except OSError as exc:
        raise _unlike(record, "cannot be opened") from exc
    finally:
        os.close(root)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != record.size_bytes:
            raise _unlike(record, "does not have the recorded size")
        data = file.read()
    if digest_of(data) != record.digest:
        raise _unlike(record, "does not have the recorded content")
    return data


def sweep(directory: Path, referenced: Collection[str], *, before: float) -> tuple[str, ...]:
    """Remove what a crash left behind: staged files, and complete ones that no record names.

    Only files last changed before the given time (seconds since the epoch) go; newer ones may still be on
    their way to a record. Returns the names removed.
    """
    removed: list[str] = []
    root = _open_directory(directory)
    try:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            if not is_artifact_id(name.removesuffix(STAGED)) or name in referenced:
                continue
            with contextlib.suppress(FileNotFoundError):  # One that was on its way has its own name by now.
                status = os.stat(name, dir_fd=root, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_mtime < before:
                    os.unlink(name, dir_fd=root)
                    removed.append(name)
    finally:
        os.close(root)
    return tuple(removed)


def size_of(directory: Path) -> int:
    """Bytes of all files here, staged ones included; 0 for a directory that is not there."""
    total = 0
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # Gone, or renamed, since it was listed.
                total += entry.stat(follow_symlinks=False).st_size
    return total


def _open_directory(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _unlike(record: Artifact, why: str) -> StorageError:
    return StorageError(
        f"Artifact {record.id} ({record.kind}) is recorded, but its file in .fluzodrive/artifacts {why}.",
        code="store_damaged",
        hint="The rest of the store is not affected. For the whole picture run: fluzo doctor",
        detail={"artifact": record.id},
    )
