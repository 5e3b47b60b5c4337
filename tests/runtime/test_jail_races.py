"""Names that are exchanged for links to the outside, by another process, while files are read and changed."""

import contextlib
import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.workspaces import make_repository, opened

from fluzo.core.errors import FluzoError
from fluzo.core.records import ABSENT
from fluzo.workspace import files
from fluzo.workspace.jail import Jail

ROUNDS, MOST = 10_000, 20

# One exchange after the other, as fast as it goes: a directory, a file and a directory above, each for a link out.
SWAP = """
import os, sys
from fluzo.workspace.syscalls import rename_exchange
root = os.open(sys.argv[1], os.O_RDONLY)
above = os.open(sys.argv[1] + "/above", os.O_RDONLY)
print("swapping", flush=True)
while True:
    rename_exchange(root, b"directory", b"directory-link")
    rename_exchange(root, b"file", b"file-link")
    rename_exchange(above, b"inner", b"inner-link")
"""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    for name in ("f", "g", "file", "deep/f"):
        (outside / name).write_bytes(b"outside")
    return outside


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    root = make_repository(tmp_path / "ws", {"a": "a"})
    for name in ("directory", "above/inner/deep"):
        (root / name).mkdir(parents=True)
    for name in ("file", "directory/f", "directory/g", "above/inner/deep/f"):
        (root / name).write_bytes(b"inside")
    (root / "directory-link").symlink_to(outside)
    (root / "file-link").symlink_to("../outside/file")
    (root / "above/inner-link").symlink_to("../../outside")
    return root


@contextlib.contextmanager
def swapping(root: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", SWAP, str(root)], stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        try:
            yield
            assert swapper.poll() is None
        finally:
            swapper.kill()


def everything(tree: Path) -> dict[str, tuple[object, ...]]:
    """Every name below with its content and all that a change would touch; access times are no change."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [tree, *tree.rglob("*")]:
        state = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (data, state.st_ino, state.st_mode, state.st_nlink, state.st_mtime_ns, state.st_ctime_ns)
    return found


def read(jail: Jail, path: str) -> None:
    data = files.read(jail, path, 100).data
    assert data != b"outside", f"{path} was read from outside"


def rewrite(jail: Jail, path: str) -> None:
    files.write(jail, path, b"inside", files.version(jail, path))


def delete(jail: Jail, path: str) -> None:
    files.delete(jail, path, files.version(jail, path))


def move(jail: Jail, source: str, target: str) -> None:
    files.move(jail, source, target, files.version(jail, source))


def actions(jail: Jail, number: int) -> list[tuple[str, Callable[[], object]]]:
    new = f"new-{number}"
    return [
        ("read", lambda: read(jail, "directory/f")),
        ("read", lambda: read(jail, "above/inner/deep/f")),
        ("read a file", lambda: read(jail, "file")),
        ("rewrite", lambda: rewrite(jail, "directory/f")),
        ("rewrite a file", lambda: rewrite(jail, "file")),
        ("rewrite below", lambda: rewrite(jail, "above/inner/deep/f")),
        ("create", lambda: files.write(jail, f"directory/{new}", b"inside", ABSENT)),
        ("create with parents", lambda: files.write(jail, f"above/inner/{new}/x", b"inside", ABSENT)),
        ("delete", lambda: delete(jail, f"directory/{new}")),
        ("delete what is outside too", lambda: delete(jail, "directory/g")),
        ("put it back", lambda: files.write(jail, "directory/g", b"inside", ABSENT)),
        ("move out of it", lambda: move(jail, f"above/inner/{new}/x", f"taken-{number}")),
        ("move into it", lambda: move(jail, f"taken-{number}", f"directory/taken-{number}")),
    ]


def test_ten_thousand_rounds_against_exchanged_names_never_reach_the_outside(root: Path, outside: Path) -> None:
    before = everything(outside)
    outcomes: dict[str, Counter[str]] = {}
    done = 0
    with opened(root) as ws, swapping(root):
        for number in itertools.count():
            for name, act in actions(ws.jail, number):
                try:
                    act()
                    outcome = "done"
                except FluzoError as exc:
                    outcome = exc.code
                outcomes.setdefault(name, Counter())[outcome] += 1
                done += 1
            # The two may run in step for a while, so that one side of the race is not met.
            met = all(counted["done"] and counted["path_refused"] for counted in outcomes.values())
            if done >= ROUNDS and (met or done >= ROUNDS * MOST):
                break
    assert everything(outside) == before
    for name, counted in outcomes.items():
        assert counted["done"], f"{name} never succeeded: {counted}"
        assert counted["path_refused"], f"{name} never met a link: {counted}"
    assert not {path.name for path in root.rglob(".fluzo-tmp-*")}
