"""Names that a change needs for a moment, and what is left under them when this process is killed in that moment.

Invariant: such a file is never part of what the working tree is said to hold, and its bytes are never lost. It may be
a new content that nobody needs any more, or the last copy of an old one; so it is put away, not removed.
"""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator

from fluzo.core.errors import FluzoError
from fluzo.core.paths import STORE_NAME
from fluzo.workspace.jail import Jail
from fluzo.workspace.syscalls import rename_noreplace

FOLDER = "leftovers"
"""Inside the store, which Git ignores and only this user may read."""

_NAME = re.compile(r"\.fluzo-tmp-[0-9a-f]{16}")


def temporary_name() -> bytes:
    return b".fluzo-tmp-" + secrets.token_hex(8).encode()


def is_leftover(path: str) -> bool:
    return _NAME.fullmatch(path.rpartition("/")[2]) is not None


def put_away(jail: Jail, paths: Iterable[str]) -> None:
    """Move leftovers of this user into the store, if there is one here; what cannot be moved stays where it is.

    Only for the owner of the workspace: another one's leftover may be the file it is about to publish.
    """
    with contextlib.suppress(OSError), _folder(jail) as folder:
        for path in paths:
            with contextlib.suppress(OSError, FluzoError), jail.open_parent(path) as (directory, name):
                found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
                    rename_noreplace(directory, name, folder, name)


@contextlib.contextmanager
def _folder(jail: Jail) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    store = os.open(jail.root.path / STORE_NAME, flags)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(FOLDER, 0o700, dir_fd=store)
        folder = os.open(FOLDER, flags, dir_fd=store)
    finally:
        os.close(store)
    try:
        yield folder
    finally:
        os.close(folder)
