"""Which workspace this is, and who may write in it: the resolved Git root and its one owner.

Invariant: at most one owner per workspace on this host and user, decided by the kernel's flock(2) on files that are
never unlinked: one by the workspace's name in the user's private state, where who has no store yet looks too, and one
in the store, for another HOME or state directory and for a name that was removed. The record in them names the owner
for people; a PID in a file never decides anything.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from fluzo.core.errors import WorkspaceError
from fluzo.core.named import NamedTuple
from fluzo.workspace import gitrun


class Root(NamedTuple):
    """A Git working tree: its resolved root, its identity as `<st_dev>:<st_ino>:<path>`, its Git directory."""

    path: Path
    identity: str
    git_dir: Path

    @property
    def common_dir(self) -> Path:
        """Where configuration, objects and `info/exclude` are: another place only in a linked worktree."""
        try:
            text = os.fsdecode((self.git_dir / "commondir").read_bytes()).rstrip("\n")
        except OSError:
            return self.git_dir
        return Path(os.path.normpath(self.git_dir / text))


def workspace_identity(root: Path) -> str:
    """`<st_dev>:<st_ino>:<path>` of a directory; raises WorkspaceError when it is not there."""
    try:
        found = root.stat()
    except OSError as exc:
        raise _unusable(
            f"{root} cannot be opened: {exc.strerror}.", "Choose another directory with --workspace."
        ) from exc
    # Spelt alike whatever the language of the session makes of the bytes, because consent is bound to it.
    return f"{found.st_dev}:{found.st_ino}:{os.fsencode(root).decode('utf-8', 'surrogateescape')}"


def resolve_root(start: Path, environ: Mapping[str, str] = os.environ) -> Root:
    """The working tree that contains `start`; runs one Git process and nothing the repository configures.

    Raises WorkspaceError `workspace_unusable` with the next step: no Git, no repository, a bare one, a directory
    that is gone or cannot be read, a repository that belongs to someone else.
    """
    try:
        start = start.resolve(strict=True)
        (start / ".").stat()
    except OSError as exc:
        raise _not_there(start, exc) from exc
    answer = gitrun.locate(start, environ)
    if answer.bare or not answer.inside:
        what = "is a bare Git repository" if answer.bare else "is outside the working tree of its Git repository"
        raise _unusable(f"{start} {what}; there are no files to work on.", "Run Fluzo in a clone with a working tree.")
    path = Path(os.path.normpath(start / answer.up))
    return Root(path, workspace_identity(path), answer.git_dir)


def _not_there(start: Path, exc: OSError) -> WorkspaceError:
    if start == Path():
        return _unusable(
            "The current directory no longer exists.", "Change to a directory that exists and start again."
        )
    return _unusable(f"The directory {start} cannot be opened: {exc.strerror}.", "Name a directory that exists.")


def _unusable(message: str, hint: str) -> WorkspaceError:
    return WorkspaceError(message, code="workspace_unusable", hint=hint)


# --- ownership ------------------------------------------------------------------------------------------------


STORE_LOCK = "owner.lock"
LOOKERS_TRIES = 2000
"""How often a lock is tried that somebody only looks at, ..."""
LOOKERS_SECONDS = 0.005
"""... and the pause between. Looking takes microseconds; this is for a looker that was stopped half-way."""


class Ownership:
    """The lock of one workspace, held by an open descriptor until `release` or the end of this process.

    `control` is where this owner's control socket belongs, `instance` what tells this owner from any other.
    """

    def __init__(self, fds: Sequence[int], control: Path, record: Mapping[str, str]) -> None:
        self._fds = list(fds)
        self._record = dict(record)
        self.control = control
        self.instance = self._record["instance"]
        for fd in self._fds:
            os.ftruncate(fd, 0)
        self._write()

    def describe(self, task_id: str) -> None:
        """Say in the record which task runs; empty when none does."""
        self._record["task_id"] = task_id
        self._write()

    def release(self) -> None:
        """Give the workspace up; a second call does nothing. Call it only when no owned process can write."""
        while self._fds:  # The one in the store first: who then finds the other taken waits for this process.
            fd = self._fds.pop()
            os.ftruncate(fd, 0)
            os.close(fd)

    def _write(self) -> None:
        # One write, never shorter than what was there: a reader must not see half of one record and half of another.
        data = json.dumps(self._record).encode("ascii")
        for fd in self._fds:
            os.pwrite(fd, data.ljust(os.fstat(fd).st_size), 0)


def acquire(
    root: Root, owner: Mapping[str, str], environ: Mapping[str, str] = os.environ, store: Path | None = None
) -> Ownership:
    """Become the one writer of a workspace; `owner`, with a `task_id` if there is one, is shown to who comes second.

    With `store`, checked to be one that Git ignores, its lock is taken too, and the directory is made if need be.
    Raises WorkspaceError: `workspace_owned` with the owner's record in `detail`, `workspace_unusable` when there is
    no private place for a lock.
    """
    fds: list[int] = []
    try:
        control = control_path(root, environ)
        fds.append(_own(root, _lock_path(root, environ)))
        if store is not None:
            fds += _own_store(root, store)
    except BaseException as exc:
        for fd in fds:
            os.close(fd)
        if isinstance(exc, OSError):
            raise _no_lock(exc) from exc
        raise
    record = {
        **owner,
        "pid": str(os.getpid()),
        "started": _start_time(os.getpid()),
        "since": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "workspace": str(root.path),
        "instance": secrets.token_hex(16),
        "control": str(control),
    }
    return Ownership(fds, control, record)


def is_owned(root: Root, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether some process, this one included, owns the workspace right now. Creates nothing that stays locked."""
    try:
        # A shared lock, so that who wants to become the owner can tell a look from an owner.
        fd = _try_lock(_lock_path(root, environ), fcntl.LOCK_SH)
    except OSError as exc:
        raise _no_lock(exc) from exc
    if fd is None:
        return True
    os.close(fd)
    return False


def owner(root: Root, environ: Mapping[str, str] = os.environ) -> Mapping[str, str] | None:
    """What the owner wrote about itself; None when nobody owns the workspace, empty while it is being written.

    It is a claim, to be verified with who answers at its control socket. Raises WorkspaceError as `is_owned` does.
    """
    return _record(_lock_path(root, environ)) if is_owned(root, environ) else None


def control_path(root: Root, environ: Mapping[str, str] = os.environ) -> Path:
    """Where the owner's control socket is: beside the lock, in a directory of this user alone."""
    return _private_directory(environ) / (_name(root)[:24] + ".sock")


def _lock_path(root: Root, environ: Mapping[str, str]) -> Path:
    return _private_directory(environ) / (_name(root) + ".lock")


def _name(root: Root) -> str:
    return hashlib.sha256(root.identity.encode("utf-8", "surrogateescape")).hexdigest()


def _own(root: Root, path: Path) -> int:
    for _ in range(LOOKERS_TRIES):
        fd = _lock(path)
        if fd is not None:
            return fd
        if record := _record(path):
            raise _owned(root, record)
        time.sleep(LOOKERS_SECONDS)  # The owner is about to say who it is, or to be none any more.
    raise _owned(root, {})


def _own_store(root: Root, store: Path) -> list[int]:
    try:
        with contextlib.suppress(FileExistsError):
            store.mkdir(mode=0o700)
        # Nobody works with a store that is a file, a link or not writable; who opens it next says what is wrong.
        return [_own(root, store / STORE_LOCK)] if stat.S_ISDIR(store.lstat().st_mode) else []
    except OSError as exc:
        if exc.errno in (errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT):
            return []
        raise


def _no_lock(exc: OSError) -> WorkspaceError:
    return _unusable(
        f"The workspace lock cannot be created: {exc.filename}: {exc.strerror}.",
        "Make that directory writable, or set XDG_STATE_HOME to one that is.",
    )


def _lock(path: Path) -> int | None:
    """The exclusive lock, or None when another process has it. Somebody who only looks is waited for."""
    for _ in range(LOOKERS_TRIES):
        fd = _try_lock(path, fcntl.LOCK_EX)
        if fd is not None:
            return fd
        looking = _try_lock(path, fcntl.LOCK_SH)
        if looking is None:
            return None
        os.close(looking)
        time.sleep(LOOKERS_SECONDS)
    return None


def _try_lock(path: Path, kind: int) -> int | None:
    while True:
        # O_NOFOLLOW: a link planted in a shared fallback directory must not make us truncate its target.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError:
            os.close(fd)
            raise
        # Someone may have removed or replaced the file between open and flock; then this lock excludes nobody.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), path.stat(follow_symlinks=False)):
                return fd
        os.close(fd)


def _record(path: Path) -> Mapping[str, str]:
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}  # The owner is between taking the lock and writing its record, or is giving it up.
    return {str(key): str(value) for key, value in record.items()} if isinstance(record, dict) else {}


def _owned(root: Root, record: Mapping[str, str]) -> WorkspaceError:
    task = record.get("task_id", "")
    pid, since = (record.get(key, "unknown") for key in ("pid", "since"))
    who = f"by task {task} (process {pid}" if task else f"by another Fluzo (process {pid}"
    return WorkspaceError(
        f"{root.path} is already being worked on {who}, since {since}).",
        code="workspace_owned",
        hint=f"Wait for it to end (--wait SECONDS), or run: fluzo tasks {f'cancel {task}' if task else 'list'}",
        detail={"owner": record},
    )


def _private_directory(environ: Mapping[str, str]) -> Path:
    state, home = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if state.startswith("/"):  # The XDG specification says to ignore a relative one.
        base = Path(state) / "fluzo"
    elif home.startswith("/"):
        base = Path(home) / ".local/state/fluzo"
    elif runtime.startswith("/"):
        base = Path(runtime) / "fluzo"
    else:
        base = Path(f"/tmp/fluzo-{os.getuid()}")
    base.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for directory in (base, base / "owners"):
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        found = directory.stat(follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise NotADirectoryError(20, "not a directory of this user", str(directory))
        if found.st_mode & 0o077:
            directory.chmod(0o700)
    return base / "owners"


def _start_time(pid: int) -> str:
    """Start time in clock ticks since boot (proc(5), field 22): tells a process from a later one with its PID."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
