"""Reading and changing files through the jail: whole-file versions, atomic replacement, nothing half-written.

Invariant: a change is published in one rename, and only over the version it was prepared for. The old file is
swapped out, looked at, and put back if it was not the expected one; bytes nobody has read are never lost.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator

from fluzo.core.contracts import FileContent
from fluzo.core.errors import ToolError
from fluzo.core.records import ABSENT, FileVersion
from fluzo.workspace.jail import Handle, Jail, refused, reopen, require_regular
from fluzo.workspace.leftovers import temporary_name
from fluzo.workspace.syscalls import rename_exchange, rename_noreplace

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Larger files are neither read nor written whole: every version is a digest of all bytes."""

_CHUNK_BYTES = 1024 * 1024
_STEADY_ATTEMPTS = 3

_DISK_MESSAGES = {
    errno.ENOSPC: ("the disk is full", "disk_full"),
    errno.EDQUOT: ("the disk quota is used up", "disk_full"),
    errno.EFBIG: ("the file would be larger than the system allows", "disk_full"),
    errno.EROFS: ("the file system is read-only", "read_only"),
    errno.EACCES: ("permission denied", "permission_denied_by_system"),
    errno.EPERM: ("the system does not permit it", "permission_denied_by_system"),
    errno.EXDEV: ("source and target are on different file systems", "tool_failed"),
    errno.ENAMETOOLONG: ("the name is too long", "tool_arguments"),
}


# --- reading --------------------------------------------------------------------------------------------------


def read(jail: Jail, path: str, max_bytes: int) -> FileContent:
    """The first `max_bytes` of a regular file and the version of all of it.

    Raises ToolError: `no_such_file`, `is_directory`, `not_regular_file`, `file_too_large`; WorkspaceError.
    """
    try:
        with jail.open_regular(path) as (fd, handle):
            data, version = _steady(fd, path, max_bytes)
            mode = stat.S_IMODE(handle.stat.st_mode)
            return FileContent(jail.normalize(path), data, version, version.size_bytes, mode)
    except FileNotFoundError as exc:
        raise _missing(path) from exc


def version(jail: Jail, path: str) -> FileVersion:
    """The version of a regular file, ABSENT when there is none. Raises as `read` does otherwise."""
    try:
        with jail.open_regular(path) as (fd, _):
            return _steady(fd, path, 0)[1]
    except FileNotFoundError:
        return ABSENT


def _steady(fd: int, path: str, max_bytes: int) -> tuple[bytes, FileVersion]:
    """Head and version of a file that did not change while it was read."""
    for _ in range(_STEADY_ATTEMPTS):
        before = os.fstat(fd)
        if before.st_size > MAX_FILE_BYTES:
            raise _too_large(path, before.st_size)
        head, digest, size = _digest(fd, max_bytes)
        after = os.fstat(fd)
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns) and size == after.st_size:
            return head, FileVersion(digest, size, after.st_dev, after.st_ino)
    raise ToolError(f"{path} is being written to by another program; try again", code="file_busy")


def _digest(fd: int, keep: int) -> tuple[bytes, str, int]:
    digest, head, size = hashlib.sha256(), bytearray(), 0
    os.lseek(fd, 0, os.SEEK_SET)
    while size <= MAX_FILE_BYTES and (chunk := os.read(fd, _CHUNK_BYTES)):
        digest.update(chunk)
        size += len(chunk)
        if len(head) < keep:
            head += chunk[: keep - len(head)]
    return bytes(head), digest.hexdigest(), size


# --- writing --------------------------------------------------------------------------------------------------


def write(jail: Jail, path: str, data: bytes, expected: FileVersion) -> FileVersion:
    """Create (`expected` ABSENT) or replace a regular file; a link stays and its target inside is replaced.

    Mode, owner where permitted, and ACLs are kept. Raises ToolError `stale_file` when the file is not the expected
    version, `disk_full`, `read_only`, `is_directory`, `not_regular_file`, `file_too_large`; WorkspaceError. After
    an error the file is as it was.
    """
    if len(data) > MAX_FILE_BYTES:
        raise _too_large(path, len(data))
    with _disk_errors(path):
        try:
            with jail.open(path) as handle:
                require_regular(handle.stat, path)
                return _replace(jail, handle, path, data, expected)
        except FileNotFoundError as exc:
            if not expected.absent:
                raise _stale(path, "it is no longer there") from exc
        return _create(jail, path, data)


def _replace(jail: Jail, handle: Handle, path: str, data: bytes, expected: FileVersion) -> FileVersion:
    if handle.stat.st_nlink > 1:
        raise refused(path, "has more than one hard link; a write could change a file outside the workspace")
    if expected.absent:
        raise _stale(path, "a file is there now")
    if not os.access(f"/proc/self/fd/{handle.fd}", os.W_OK):
        raise ToolError(f"{path} is not writable (mode {stat.S_IMODE(handle.stat.st_mode):04o})", code="read_only")
    with jail.open_real_parent(handle) as (directory, name):
        fd = reopen(handle.fd, path)
        try:
            _require(_steady(fd, path, 0)[1], expected, path)
            temporary, written = _stage(directory, data, fd)
        finally:
            os.close(fd)
        _swap_in(directory, temporary, name, written, expected, path)
        _sync(directory)
        return written


def _create(jail: Jail, path: str, data: bytes) -> FileVersion:
    created = jail.make_parents(path)
    try:
        with jail.open_parent(path) as (directory, name):
            temporary, written = _stage(directory, data, None)
            try:
                rename_noreplace(directory, temporary, directory, name)
            except FileExistsError as exc:
                dangling = stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
                if dangling:
                    raise ToolError(f"{path} is a link to a file that does not exist", code="dangling_link") from exc
                raise _stale(path, "a file is there now") from exc
            finally:
                _remove(directory, temporary)
            _sync(directory)
            return written
    except BaseException:
        for name_ in reversed(created):
            with jail.open_parent(name_) as (directory, name), contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=directory)
        raise


def _stage(directory: int, data: bytes, like: int | None) -> tuple[bytes, FileVersion]:
    """A complete, synced file under a random name, with the attributes of `like`; removed again on any error."""
    name = temporary_name()
    mode = 0o666 if like is None else 0o600
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=directory)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if like is not None:
            _copy_attributes(like, fd)
        os.fsync(fd)
        found = os.fstat(fd)
        return name, FileVersion(hashlib.sha256(data).hexdigest(), len(data), found.st_dev, found.st_ino)
    except BaseException:
        _remove(directory, name)
        raise
    finally:
        os.close(fd)


def _copy_attributes(source: int, target: int) -> None:
    old, new = os.fstat(source), os.fstat(target)
    mode = stat.S_IMODE(old.st_mode)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.fchown(target, old.st_uid, old.st_gid)
        except PermissionError:
            # Not ours to give away. A set-id bit would now mean another user, so it goes with the owner.
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
    os.fchmod(target, mode)
    with contextlib.suppress(OSError):  # A file system without extended attributes has none to lose.
        for name in os.listxattr(source):
            if name.startswith(("user.", "system.posix_acl_")):
                os.setxattr(target, name, os.getxattr(source, name))


def _swap_in(directory: int, temporary: bytes, name: bytes, new: FileVersion, expected: FileVersion, path: str) -> None:
    """Put the staged file in the place of the expected one, or leave everything as it was."""
    try:
        rename_exchange(directory, temporary, name)
    except OSError as exc:
        try:
            if exc.errno not in (errno.EINVAL, errno.ENOSYS):
                raise
            # No exchange here: what remains is to look once more and rename at once.
            _require(_entry_version(directory, name), expected, path)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except FileNotFoundError as gone:
            raise _stale(path, "it is no longer there") from gone
        finally:
            _remove(directory, temporary)
        return
    swapped_out = _entry_version(directory, temporary)
    if swapped_out == expected:
        _remove(directory, temporary)
        return
    _put_back(directory, temporary, name, new, path)
    _require(swapped_out, expected, path)


def _put_back(directory: int, temporary: bytes, name: bytes, ours: FileVersion, path: str) -> None:
    """Undo a swap that met someone else's file; the newest version by someone else ends under the name."""
    try:
        rename_exchange(directory, temporary, name)
        if os.stat(temporary, dir_fd=directory, follow_symlinks=False).st_ino != ours.inode:
            rename_exchange(directory, temporary, name)
        _remove(directory, temporary)
    except FileNotFoundError:
        # They removed what they found under the name; what they wrote before that was not ours to drop.
        with contextlib.suppress(FileExistsError):
            rename_noreplace(directory, temporary, directory, name)


def _entry_version(directory: int, name: bytes) -> FileVersion:
    """The version of one directory entry as it is now; ABSENT for what is not a readable regular file."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return ABSENT
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            return ABSENT
        _, digest, size = _digest(fd, 0)
        return FileVersion(digest, size, found.st_dev, found.st_ino)
    finally:
        os.close(fd)


# --- removing and moving --------------------------------------------------------------------------------------


def delete(jail: Jail, path: str, expected: FileVersion) -> None:
    """Remove a file of the expected version, or a link whose target is of that version; the target stays.

    Raises ToolError `stale_file`, `no_such_file`, `is_directory`; WorkspaceError.
    """
    with _disk_errors(path), _entry(jail, path, expected) as (directory, name):
        aside = temporary_name()
        rename_noreplace(directory, name, directory, aside)
        _keep_if_other(directory, aside, directory, name, expected, path)
        os.unlink(aside, dir_fd=directory)
        _sync(directory)


def move(jail: Jail, source: str, target: str, expected: FileVersion) -> FileVersion:
    """Rename a file of the expected version to a name that is free; a link is moved as the link it is.

    Raises ToolError `file_exists`, `stale_file`, `no_such_file`, `is_directory`; WorkspaceError.
    """
    with _disk_errors(source), _entry(jail, source, expected) as (directory, name):
        jail.make_parents(target)
        with jail.open_parent(target) as (target_directory, target_name):
            try:
                rename_noreplace(directory, name, target_directory, target_name)
            except FileExistsError as exc:
                raise ToolError(f"{target} exists already; choose another name", code="file_exists") from exc
            _keep_if_other(target_directory, target_name, directory, name, expected, source)
            _sync(target_directory)
        _sync(directory)
    return expected


@contextlib.contextmanager
def _entry(jail: Jail, path: str, expected: FileVersion) -> Iterator[tuple[int, bytes]]:
    """Directory and name of an entry whose content is the expected version now."""
    if expected.absent:
        raise _missing(path)
    try:
        with jail.open(path) as handle:
            require_regular(handle.stat, path)
            fd = reopen(handle.fd, path)
            try:
                _require(_steady(fd, path, 0)[1], expected, path)
            finally:
                os.close(fd)
        with jail.open_parent(path) as found:
            yield found
    except FileNotFoundError as exc:
        raise _missing(path) from exc


def _keep_if_other(
    directory: int, name: bytes, old_directory: int, old_name: bytes, expected: FileVersion, path: str
) -> None:
    """Move an entry back when, at the last moment, it was not the one that was looked at."""
    if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        return  # A link holds no content of its own; its target was checked and stays.
    found = _entry_version(directory, name)
    if found != expected:
        with contextlib.suppress(FileExistsError):
            rename_noreplace(directory, name, old_directory, old_name)
        _require(found, expected, path)


# --- helpers --------------------------------------------------------------------------------------------------


def _require(found: FileVersion, expected: FileVersion, path: str) -> None:
    if found != expected:
        same = found.digest == expected.digest
        raise _stale(path, "it was replaced by another file" if same else "its content differs")


def _stale(path: str, why: str) -> ToolError:
    return ToolError(f"{path} changed since it was read: {why}; read it again", code="stale_file")


def _missing(path: str) -> ToolError:
    return ToolError(f"there is no file {path}; use list_files or search to find it", code="no_such_file")


def _too_large(path: str, size: int) -> ToolError:
    return ToolError(
        f"{path} has {size} bytes; files above {MAX_FILE_BYTES} bytes are not handled whole. "
        "Use search, or run a command such as head, tail or sed -n",
        code="file_too_large",
    )


def _remove(directory: int, name: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _sync(directory: int) -> None:
    # The jail's handles are O_PATH, which fsync refuses. A directory we may not read cannot be synced.
    with contextlib.suppress(OSError):
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


@contextlib.contextmanager
def _disk_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        message, code = _DISK_MESSAGES.get(exc.errno or 0, (exc.strerror or str(exc), "tool_failed"))
        raise ToolError(f"{path} was not changed: {message}", code=code) from exc
