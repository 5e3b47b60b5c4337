"""Files of a change that was interrupted by the end of the process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.workspaces import git, make_repository, opened, with_backend

from fluzo.core.records import ABSENT
from fluzo.workspace import baseline, files
from fluzo.workspace.leftovers import is_leftover, temporary_name

NAME = ".fluzo-tmp-0123456789abcdef"

KILLED = """
import resource, signal, sys
from pathlib import Path
from support.workspaces import opened
from fluzo.workspace import files

with opened(Path(sys.argv[1])) as ws:
    seen = files.version(ws.jail, "src/a.txt")
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    files.write(ws.jail, "src/a.txt", b"n" * 200_000, seen)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "ws", {"src/a.txt": "old\n", ".gitignore": ".fluzodrive/\n"})
    (root / ".fluzodrive").mkdir(mode=0o700)
    return root


def put_away(root: Path) -> list[str]:
    with opened(root) as ws:
        baseline.capture(ws.git, ws.jail)
    folder = root / ".fluzodrive/leftovers"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_process_killed_while_it_writes_leaves_a_whole_file_and_nothing_in_the_way(root: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    result = subprocess.run([sys.executable, "-c", KILLED, str(root)], env=env, capture_output=True, check=False)
    assert result.returncode == -signal.SIGXFSZ, result.stderr
    assert (root / "src/a.txt").read_bytes() == b"old\n"
    (left,) = (root / "src").glob(".fluzo-tmp-*")
    assert left.stat().st_size == 100_000
    assert is_leftover(f"src/{left.name}")
    with opened(root) as ws:
        assert left.name not in str(ws.git.status().entries)
        assert left.exists(), "who only looks must leave it"
    assert put_away(root) == [left.name]
    assert b".fluzo-tmp" not in git(root, "status", "--porcelain", "--untracked-files=all")


def test_a_leftover_is_no_change_and_is_neither_listed_nor_found(root: Path) -> None:
    (root / NAME).write_text("needle\n")
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        (root / "src" / NAME).write_text("needle\n")
        assert start.user_changed == frozenset()
        assert baseline.changes(start, ws.git, ws.jail).files == ()
        assert baseline.revision(ws.git, ws.jail) == start.revision
    listing = with_backend(root, lambda backend, _: backend.list_files(".", 100, 9))
    assert [entry.path for entry in listing.entries] == [".gitignore", "src", "src/a.txt"]
    found = with_backend(root, lambda backend, _: backend.search("needle", ".", regex=False, glob="", max_hits=9))
    assert found.hits == ()


@pytest.mark.parametrize(
    "name", [".fluzo-tmp-0123456789abcde", ".fluzo-tmp-0123456789abcdeF", "x.fluzo-tmp-0123456789abcdef", NAME + ".c"]
)
def test_a_name_that_is_only_like_one_is_the_users_own(root: Path, name: str) -> None:
    (root / name).write_text("mine\n")
    assert put_away(root) == []
    with opened(root) as ws:
        assert [entry.path for entry in ws.git.status().entries] == [name]


def test_what_is_no_file_of_this_user_or_is_tracked_stays_where_it_is(root: Path, tmp_path: Path) -> None:
    tracked, link, linked = (f".fluzo-tmp-{number:016x}" for number in range(3))
    (root / tracked).write_text("committed\n")
    git(root, "add", "-f", tracked)
    git(root, "commit", "-qm", "odd")
    (root / tracked).write_text("changed\n")
    (root / link).symlink_to(tmp_path)
    foreign = []
    if os.geteuid() == 0:
        (root / linked).write_text("theirs\n")
        os.chown(root / linked, 12345, 12345)
        foreign = [linked]
    assert put_away(root) == []
    assert all(os.path.lexists(root / name) for name in (tracked, link, *foreign))
    with opened(root) as ws:
        assert [entry.path for entry in ws.git.status().entries] == [tracked]


def test_without_a_store_and_with_a_planted_one_nothing_is_moved(root: Path, tmp_path: Path) -> None:
    (root / NAME).write_text("bytes\n")
    (root / ".fluzodrive").rmdir()
    assert put_away(root) == []
    (tmp_path / "elsewhere").mkdir()
    (root / ".fluzodrive").symlink_to(tmp_path / "elsewhere")
    put_away(root)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert (root / NAME).read_text() == "bytes\n"


def test_the_bytes_are_kept_private(root: Path) -> None:
    (root / "src" / NAME).write_text("the last copy\n")
    assert put_away(root) == [NAME]
    assert (root / ".fluzodrive/leftovers").stat().st_mode & 0o777 == 0o700
    assert (root / ".fluzodrive/leftovers" / NAME).read_text() == "the last copy\n"


def test_every_name_that_is_used_is_known_as_one(root: Path) -> None:
    assert all(is_leftover(f"a/{temporary_name().decode()}") for _ in range(50))
    with opened(root) as ws:
        files.write(ws.jail, "src/b.txt", b"x", ABSENT)
    assert put_away(root) == []
