"""Linux calls Python does not have: openat2(2), renameat2(2), prctl(2), by ctypes. They raise OSError like `os` does.

Constants and structures are those of the man pages and of linux/openat2.h; openat2 has the number 437 everywhere.
"""

import ctypes
import errno
import os
import platform

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08

_SYS_OPENAT2 = 437
_SYS_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347}.get(platform.machine())
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(dir_fd: int, path: bytes, flags: int, resolve: int) -> int:
    """Open an existing object relative to `dir_fd`; the descriptor is close-on-exec."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    fd: int = _libc.syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_int(dir_fd),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return fd


def rename_noreplace(source_fd: int, source: bytes, target_fd: int, target: bytes) -> None:
    """Rename; FileExistsError when the target is there, whoever made it and when."""
    try:
        _renameat2(source_fd, source, target_fd, target, _RENAME_NOREPLACE)
    except OSError as exc:
        if exc.errno not in (errno.EINVAL, errno.ENOSYS):
            raise
        # Some network and FUSE file systems have no renameat2; a hard link does not replace either.
        os.link(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd, follow_symlinks=False)
        os.unlink(source, dir_fd=source_fd)


def rename_exchange(dir_fd: int, first: bytes, second: bytes) -> None:
    """Swap two names of one directory in one step; EINVAL or ENOSYS where the file system cannot."""
    _renameat2(dir_fd, first, dir_fd, second, _RENAME_EXCHANGE)


def _renameat2(source_fd: int, source: bytes, target_fd: int, target: bytes, flags: int) -> None:
    if _SYS_RENAMEAT2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    result = _libc.syscall(
        ctypes.c_long(_SYS_RENAMEAT2),
        ctypes.c_int(source_fd),
        ctypes.c_char_p(source),
        ctypes.c_int(target_fd),
        ctypes.c_char_p(target),
        ctypes.c_uint(flags),
    )
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def become_subreaper() -> None:
    """From now on whoever below this process loses its parent becomes a child of this one, not of init."""
    if _libc.prctl(ctypes.c_int(_PR_SET_CHILD_SUBREAPER), ctypes.c_ulong(1), *(ctypes.c_ulong(0),) * 3):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
