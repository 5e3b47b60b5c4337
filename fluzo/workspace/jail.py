"""The workspace jail: root-relative handles, so that no file operation leaves the root or reaches what is protected.

Invariant: a descriptor handed out here was resolved by openat2(2) beneath the root descriptor, is of the wanted kind,
and is neither beneath nor the same object as `.git`, `.fluzo`, `.fluzodrive` or a file named at construction; nor is
it another hard link to a file beneath one of them, Git's objects and the `.git` of nested repositories not looked at.
Links are followed as long as every step stays inside. There is no second way: a kernel without openat2 is refused.
The jail confines Fluzo's own file tools, not programs that an approved command starts.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from fluzo.core.errors import FluzoError, ToolError, WorkspaceError
from fluzo.core.named import NamedTuple
from fluzo.core.paths import PROTECTED_NAMES, is_protected_path
from fluzo.workspace.identity import Root, workspace_identity
from fluzo.workspace.syscalls import RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, openat2

ATTEMPTS = 16
"""openat2 gives EAGAIN when a rename elsewhere races with `..`; every retry starts from the root again."""

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class Handle(NamedTuple):
    """An O_PATH descriptor of one object, what it is, and its path from the root with every link resolved."""

    fd: int
    stat: os.stat_result
    real: str


def encode(path: str) -> bytes:
    """The bytes of a name; lone surrogates of undecodable bytes go back to what they were (PEP 383)."""
    return path.encode("utf-8", "surrogateescape")


def decode(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


class Jail:
    """Opens objects of one workspace. Close it when the task is over."""

    def __init__(self, root: Root, protected: Iterable[Path] = ()) -> None:
        self._root = root
        self._path = str(root.path)
        if workspace_identity(root.path) != root.identity:
            raise WorkspaceError(
                f"{root.path} is not the directory it was", code="workspace_changed", hint="Start again from there."
            )
        self._fd = os.open(root.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        named = [root.path / name for name in PROTECTED_NAMES]
        self._guarded = [*named, root.git_dir, root.common_dir, *protected]
        # A Git directory may be anywhere inside, under any name, when `.git` is a file that points to it.
        self._guarded_paths = [
            str(path.resolve().relative_to(root.path)) for path in self._guarded if self._holds(path.resolve())
        ]

    @property
    def root(self) -> Root:
        return self._root

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _holds(self, path: Path) -> bool:
        return path != self._root.path and path.is_relative_to(self._root.path)

    # --- names ------------------------------------------------------------------------------------------------

    def normalize(self, path: str) -> str:
        """The root-relative form of a path: no leading `./`, no doubled or final slash; `.` is the root.

        Raises WorkspaceError `path_refused` for an absolute path elsewhere and for a protected name, ToolError
        `tool_arguments` for what cannot be a file name.
        """
        try:
            unusable = b"\0" in encode(path)
        except UnicodeEncodeError:
            unusable = True
        if unusable or not path:
            raise ToolError("the path is empty or has a character no file name can have", code="tool_arguments")
        if path.startswith("/"):
            prefix = self._path.rstrip("/") + "/"
            if not (path.rstrip("/") + "/").startswith(prefix):
                raise refused(path, "is outside the workspace", "Use a path relative to the workspace root.")
            path = path[len(prefix) :]
        name = "/".join(part for part in path.split("/") if part not in ("", ".")) or "."
        if is_protected_path(name):
            raise _protected(name)
        return name

    # --- handles ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def open(self, path: str, *, follow: bool = True) -> Iterator[Handle]:
        """A handle of what `path` names; without `follow` of a final link itself.

        Raises FileNotFoundError when there is nothing, WorkspaceError and ToolError otherwise.
        """
        name = self.normalize(path)
        fd = self._resolve(name, os.O_PATH | (0 if follow else os.O_NOFOLLOW))
        try:
            found = os.fstat(fd)
            real = self._real(fd, name)
            self._check(real, name, found)
            yield Handle(fd, found, real)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def open_regular(self, path: str) -> Iterator[tuple[int, Handle]]:
        """A readable descriptor of a regular file; devices and pipes are told apart before anything is opened."""
        with self.open(path) as handle:
            require_regular(handle.stat, path)
            fd = reopen(handle.fd, path)
            try:
                yield fd, handle
            finally:
                os.close(fd)

    @contextlib.contextmanager
    def open_directory(self, path: str) -> Iterator[Handle]:
        """A handle of a directory. Raises FileNotFoundError when it is missing, ToolError when it is something else."""
        with self.open(path) as handle:
            if not stat.S_ISDIR(handle.stat.st_mode):
                raise ToolError(f"{path} is not a directory", code="not_directory")
            yield handle

    @contextlib.contextmanager
    def open_parent(self, path: str) -> Iterator[tuple[int, bytes]]:
        """The directory that holds `path` and the last name: for creating, renaming and removing an entry.

        The entry itself is not looked at, but its full name is checked. Raises FileNotFoundError when the
        directory is not there.
        """
        name = self.normalize(path)
        parent, _, last = name.rpartition("/")
        if last in (".", ".."):
            raise ToolError(f"{path} does not name a file", code="tool_arguments")
        with self.open_directory(parent or ".") as handle:
            self._check_name(last if handle.real == "." else f"{handle.real}/{last}", path)
            yield handle.fd, encode(last)

    @contextlib.contextmanager
    def open_real_parent(self, handle: Handle) -> Iterator[tuple[int, bytes]]:
        """The directory of a resolved object, reached without any link, and the object's own name in it.

        Raises FileNotFoundError when the name no longer leads to that object.
        """
        parent, _, last = handle.real.rpartition("/")
        fd = self._resolve(parent or ".", os.O_PATH | os.O_DIRECTORY, RESOLVE_NO_SYMLINKS)
        try:
            name = encode(last)
            if not os.path.samestat(os.stat(name, dir_fd=fd, follow_symlinks=False), handle.stat):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            yield fd, name
        finally:
            os.close(fd)

    def make_parents(self, path: str) -> list[str]:
        """Create the missing directories above `path`, outermost first; returns those it created."""
        created: list[str] = []
        missing: list[str] = []
        parent = self.normalize(path).rpartition("/")[0]
        while parent:
            try:
                with self.open_directory(parent):
                    break
            except FileNotFoundError:
                missing.append(parent)
                parent = parent.rpartition("/")[0]
        for directory in reversed(missing):
            with self.open_parent(directory) as (fd, name), contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=fd)
                created.append(directory)
        return created

    # --- resolution -------------------------------------------------------------------------------------------

    def _resolve(self, name: str, flags: int, extra: int = 0) -> int:
        for _ in range(ATTEMPTS):
            try:
                return openat2(self._fd, encode(name), flags, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | extra)
            except BlockingIOError:
                continue
            except FileNotFoundError:
                raise
            except OSError as exc:
                raise _translated(exc, name) from exc
        raise refused(name, "could not be resolved because directories are being moved", "Try again.")

    def _real(self, fd: int, name: str) -> str:
        try:
            root = _opened_path(self._fd)
            found = _opened_path(fd)
        except OSError as exc:
            raise refused(name, "cannot be confined without /proc") from exc
        if found == root:
            return "."
        inside = root.rstrip(b"/") + b"/"
        if not found.startswith(inside):
            raise refused(name, "was moved out of the workspace meanwhile")
        return decode(found[len(inside) :])

    def _check(self, real: str, name: str, found: os.stat_result) -> None:
        self._check_name(real, name)
        for path in self._guarded:
            with contextlib.suppress(OSError):
                if os.path.samestat(path.stat(), found) or os.path.samestat(path.lstat(), found):
                    raise _protected(name)
        # Installed packages are often hard links, so those are read all the time; what they share is compared.
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1 and self._is_linked_from_guarded(found):
            raise _protected(name)

    def _is_linked_from_guarded(self, found: os.stat_result) -> bool:
        for guarded in dict.fromkeys(self._guarded):
            for directory, below, names in os.walk(guarded):
                if "objects" in below:
                    below.remove("objects")  # Very many, and only Git can read them.
                for name in names:
                    with contextlib.suppress(OSError):
                        if os.path.samestat(Path(directory, name).lstat(), found):
                            return True
        return False

    def _check_name(self, real: str, name: str) -> None:
        inside = any(real == path or real.startswith(path + "/") for path in self._guarded_paths)
        if inside or is_protected_path(real):
            raise _protected(name)


def _opened_path(fd: int) -> bytes:
    return os.fsencode(Path(f"/proc/self/fd/{fd}").readlink())


def reopen(fd: int, path: str) -> int:
    """A readable descriptor of the regular file behind an O_PATH one: the same object, whatever its name leads to."""
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as exc:
        raise _translated(exc, path) from exc


def require_regular(found: os.stat_result, path: str) -> None:
    """Raise ToolError unless it is a regular file, saying what it is."""
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "a link")
        code = "is_directory" if stat.S_ISDIR(found.st_mode) else "not_regular_file"
        more = "; use list_files" if code == "is_directory" else "; only regular files can be read or changed"
        raise ToolError(f"{path} is {kind}{more}", code=code)


def refused(path: str, why: str, hint: str = "") -> WorkspaceError:
    return WorkspaceError(f"{path} {why}", code="path_refused", hint=hint, detail={"path": path})


def _protected(path: str) -> WorkspaceError:
    return refused(path, "is protected: Git's and Fluzo's own files are not open to file tools")


def _translated(exc: OSError, path: str) -> FluzoError:
    match exc.errno:
        case errno.EXDEV:
            return refused(path, "leads outside the workspace", "Use a path inside the workspace.")
        case errno.ELOOP:
            return refused(path, "goes through links that lead nowhere safe")
        case errno.ENOSYS | errno.EPERM | errno.E2BIG | errno.EINVAL:
            return refused(
                path,
                "cannot be confined on this kernel",
                "Fluzo needs openat2(2): Linux 5.6 or newer, not blocked by a container's seccomp profile.",
            )
        case errno.ENOTDIR:
            return ToolError(f"a part of {path} is not a directory", code="not_directory")
        case errno.EACCES:
            return ToolError(f"{path}: permission denied", code="permission_denied_by_system")
        case _:
            return ToolError(f"{path}: {exc.strerror}", code="tool_failed")
