"""Writing, deleting and moving real files through the jail."""

import contextlib
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.seccomp import run_without_call
from support.workspaces import Opened, make_repository, opened

from fluzo.core.errors import FluzoError, ToolError, WorkspaceError
from fluzo.core.records import ABSENT, FileVersion
from fluzo.workspace import files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "ws", {"f.txt": "one\n", "real.md": "text\n"})


def error_of(root: Path, work: Callable[[Opened], object]) -> FluzoError:
    with opened(root) as ws, pytest.raises(FluzoError) as caught:
        work(ws)
    return caught.value


def leftovers(root: Path) -> list[Path]:
    return list(root.rglob(".fluzo-tmp-*"))


# --- versions -------------------------------------------------------------------------------------------------


def test_a_version_is_of_the_whole_file_and_the_data_only_its_head(root: Path) -> None:
    (root / "big").write_bytes(b"x" * 5000)
    with opened(root) as ws:
        content = files.read(ws.jail, "big", 100)
        assert content.data == b"x" * 100
        assert content.size_bytes == content.version.size_bytes == 5000
        assert content.version == files.version(ws.jail, "big")


def test_a_missing_file_is_absent_for_a_version_and_an_error_for_a_read(root: Path) -> None:
    with opened(root) as ws:
        assert files.version(ws.jail, "nothing/here") == ABSENT
    assert error_of(root, lambda ws: files.read(ws.jail, "nothing", 10)).code == "no_such_file"


def test_a_huge_file_is_refused_with_a_next_step(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    error = error_of(root, lambda ws: files.read(ws.jail, "huge", 100))
    assert error.code == "file_too_large"
    assert "search" in error.message


def test_a_change_of_the_same_size_in_the_same_second_is_stale(root: Path) -> None:
    with opened(root) as ws:
        seen = files.version(ws.jail, "f.txt")
        before = (root / "f.txt").stat()
        (root / "f.txt").write_bytes(b"two\n")
        os.utime(root / "f.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(ToolError) as caught:
            files.write(ws.jail, "f.txt", b"mine\n", seen)
    assert caught.value.code == "stale_file"
    assert "changed since it was read" in caught.value.message
    assert (root / "f.txt").read_bytes() == b"two\n"
    assert not leftovers(root)


def test_a_touch_is_no_change(root: Path) -> None:
    with opened(root) as ws:
        seen = files.version(ws.jail, "f.txt")
        os.utime(root / "f.txt", (1, 1))
        files.write(ws.jail, "f.txt", b"mine\n", seen)
    assert (root / "f.txt").read_bytes() == b"mine\n"


def test_a_file_replaced_by_an_equal_one_is_stale(root: Path) -> None:
    with opened(root) as ws:
        seen = files.version(ws.jail, "f.txt")
        (root / "other").write_bytes(b"one\n")
        (root / "other").rename(root / "f.txt")
        with pytest.raises(ToolError, match="replaced by another file"):
            files.write(ws.jail, "f.txt", b"mine\n", seen)


def test_creating_expects_absence_and_replacing_expects_presence(root: Path) -> None:
    assert error_of(root, lambda ws: files.write(ws.jail, "f.txt", b"x", ABSENT)).code == "stale_file"
    gone = FileVersion("0" * 64, 1, 1, 1)
    assert error_of(root, lambda ws: files.write(ws.jail, "new.txt", b"x", gone)).code == "stale_file"
    assert (root / "f.txt").read_bytes() == b"one\n"
    assert not (root / "new.txt").exists()


def test_the_version_of_a_write_is_the_one_that_is_read_next(root: Path) -> None:
    with opened(root) as ws:
        first = files.write(ws.jail, "deep/er/new.txt", b"\r\nraw\xe9\r\n", ABSENT)
        assert first == files.version(ws.jail, "deep/er/new.txt")
        second = files.write(ws.jail, "deep/er/new.txt", b"", first)
        assert second == files.version(ws.jail, "deep/er/new.txt")
    assert (root / "deep/er/new.txt").read_bytes() == b""


def test_bytes_are_written_as_they_are(root: Path) -> None:
    data = b"\xef\xbb\xbfa\r\nb\rc\n\x00\xe9 no newline"
    with opened(root) as ws:
        files.write(ws.jail, "f.txt", data, files.version(ws.jail, "f.txt"))
    assert (root / "f.txt").read_bytes() == data


# --- attributes and links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o755, 0o640, 0o600, 0o4755])
def test_mode_is_kept_under_any_umask(root: Path, mode: int) -> None:
    (root / "f.txt").chmod(mode)
    old = os.umask(0o077)
    try:
        with opened(root) as ws:
            files.write(ws.jail, "f.txt", b"x", files.version(ws.jail, "f.txt"))
    finally:
        os.umask(old)
    assert (root / "f.txt").stat().st_mode & 0o7777 == mode


def test_new_files_and_directories_follow_the_umask(root: Path) -> None:
    old = os.umask(0o027)
    try:
        with opened(root) as ws:
            files.write(ws.jail, "d/new", b"x", ABSENT)
    finally:
        os.umask(old)
    assert (root / "d").stat().st_mode & 0o777 == 0o750
    assert (root / "d/new").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_owner_and_group_are_kept(root: Path) -> None:
    os.chown(root / "f.txt", 12345, 23456)
    with opened(root) as ws:
        files.write(ws.jail, "f.txt", b"x", files.version(ws.jail, "f.txt"))
    found = (root / "f.txt").stat()
    assert (found.st_uid, found.st_gid) == (12345, 23456)


def test_extended_attributes_are_kept(root: Path) -> None:
    try:
        os.setxattr(root / "f.txt", "user.note", b"kept")
    except OSError as exc:
        pytest.skip(f"this file system has no user attributes: {exc}")
    with opened(root) as ws:
        files.write(ws.jail, "f.txt", b"x", files.version(ws.jail, "f.txt"))
    assert os.getxattr(root / "f.txt", "user.note") == b"kept"


def test_a_link_stays_a_link_and_its_target_is_changed(root: Path) -> None:
    (root / "docs").mkdir()
    (root / "docs/link.md").symlink_to("../real.md")
    with opened(root) as ws:
        files.write(ws.jail, "docs/link.md", b"new\n", files.version(ws.jail, "docs/link.md"))
    assert (root / "docs/link.md").is_symlink()
    assert (root / "real.md").read_bytes() == b"new\n"
    assert not leftovers(root)


def test_a_dangling_link_is_not_created_through(root: Path) -> None:
    (root / "link").symlink_to("missing")
    assert error_of(root, lambda ws: files.write(ws.jail, "link", b"x", ABSENT)).code == "dangling_link"
    assert not (root / "missing").exists()


def test_a_file_with_two_names_is_not_written(root: Path) -> None:
    outside = root.parent / "outside"
    os.link(root / "f.txt", outside)
    error = error_of(root, lambda ws: files.write(ws.jail, "f.txt", b"x", files.version(ws.jail, "f.txt")))
    assert isinstance(error, WorkspaceError)
    assert "hard link" in error.message
    assert outside.read_bytes() == b"one\n"


# --- faults ---------------------------------------------------------------------------------------------------

WRITE = """
import resource, sys
from pathlib import Path
from support.workspaces import opened
from fluzo.core.errors import FluzoError
from fluzo.core.records import ABSENT
from fluzo.workspace import files
with opened(Path(sys.argv[1])) as ws:
    seen = files.version(ws.jail, "f.txt")
    {before}
    for path, expected in (("f.txt", seen), ("a/b/new.txt", ABSENT)):
        try:
            files.write(ws.jail, path, b"y" * 100_000, expected)
            print("written", path)
        except FluzoError as exc:
            print(exc.code, path)
"""


def test_a_full_disk_leaves_the_old_file_and_nothing_else(root: Path) -> None:
    program = WRITE.format(before="resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    result = subprocess.run(
        [sys.executable, "-c", program, str(root)], capture_output=True, text=True, check=False, env=env
    )
    assert result.stderr == ""
    assert result.stdout.splitlines() == ["disk_full f.txt", "disk_full a/b/new.txt"]
    assert (root / "f.txt").read_bytes() == b"one\n"
    assert not (root / "a").exists()
    assert not leftovers(root)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of renameat2 is that of x86_64")
@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOSYS])
def test_a_file_system_without_renameat2_still_creates_and_replaces(root: Path, error: int) -> None:
    result = run_without_call(316, error, WRITE.format(before=""), str(root))
    assert result.stderr == ""
    assert result.stdout.splitlines() == ["written f.txt", "written a/b/new.txt"]
    assert (root / "f.txt").read_bytes() == (root / "a/b/new.txt").read_bytes() == b"y" * 100_000
    assert not leftovers(root)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_a_read_only_file_is_not_written(root: Path) -> None:
    (root / "f.txt").chmod(0o444)
    error = error_of(root, lambda ws: files.write(ws.jail, "f.txt", b"x", files.version(ws.jail, "f.txt")))
    assert error.code == "read_only"


@pytest.mark.parametrize("in_place", [True, False])
def test_what_others_write_between_our_look_and_our_rename_is_kept(root: Path, in_place: bool) -> None:
    spot = root / "spot"
    met = 0
    for number in range(12):
        spot.write_bytes(b"start")
        interfered = threading.Event()

        def interfere(theirs: bytes = b"theirs %d" % number, interfered: threading.Event = interfered) -> None:
            while not leftovers(root):
                pass  # Our new content is being staged: we have looked at the old file, and not renamed yet.
            if in_place:
                spot.write_bytes(theirs)
            else:
                (root / "theirs").write_bytes(theirs)
                (root / "theirs").rename(spot)
            if leftovers(root) and spot.read_bytes() == theirs:
                interfered.set()

        other = threading.Thread(target=interfere)
        with opened(root) as ws:
            seen = files.version(ws.jail, "spot")
            other.start()
            try:
                files.write(ws.jail, "spot", b"o" * 20_000_000, seen)
                stale = False
            except ToolError as exc:
                stale = exc.code == "stale_file"
            other.join()
        if interfered.is_set():
            met += 1
            assert stale
            assert spot.read_bytes() == b"theirs %d" % number
        assert not leftovers(root)
    assert met, "nobody interfered in time"


def test_two_writers_of_one_version_do_not_both_win(root: Path) -> None:
    wins: list[bytes] = []
    with opened(root) as ws:
        for number in range(60):
            seen = files.version(ws.jail, "f.txt")
            start = threading.Barrier(2)
            round_wins: list[bytes] = []

            def write(
                data: bytes,
                seen: FileVersion = seen,
                start: threading.Barrier = start,
                round_wins: list[bytes] = round_wins,
            ) -> None:
                start.wait()
                with contextlib.suppress(ToolError):
                    files.write(ws.jail, "f.txt", data, seen)
                    round_wins.append(data)

            writers = [threading.Thread(target=write, args=(b"%d by %d" % (number, who),)) for who in (1, 2)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            assert len(round_wins) <= 1
            assert not round_wins or (root / "f.txt").read_bytes() == round_wins[0]
            wins += round_wins
    assert wins
    assert not leftovers(root)


# --- deleting and moving --------------------------------------------------------------------------------------


def test_a_file_is_deleted_only_in_the_expected_version(root: Path) -> None:
    with opened(root) as ws:
        seen = files.version(ws.jail, "f.txt")
        (root / "f.txt").write_bytes(b"two\n")
        with pytest.raises(ToolError) as caught:
            files.delete(ws.jail, "f.txt", seen)
        assert caught.value.code == "stale_file"
        assert (root / "f.txt").read_bytes() == b"two\n"
        files.delete(ws.jail, "f.txt", files.version(ws.jail, "f.txt"))
    assert not (root / "f.txt").exists()
    assert not leftovers(root)


def test_deleting_a_link_keeps_its_target(root: Path) -> None:
    (root / "link").symlink_to("real.md")
    with opened(root) as ws:
        files.delete(ws.jail, "link", files.version(ws.jail, "link"))
    assert not (root / "link").is_symlink()
    assert (root / "real.md").exists()


def test_a_directory_and_a_missing_file_are_not_deleted(root: Path) -> None:
    (root / "d").mkdir()
    some = FileVersion("0" * 64, 1, 1, 1)
    assert error_of(root, lambda ws: files.delete(ws.jail, "d", some)).code == "is_directory"
    assert error_of(root, lambda ws: files.delete(ws.jail, "nothing", some)).code == "no_such_file"
    assert error_of(root, lambda ws: files.delete(ws.jail, ".git/config", some)).code == "path_refused"


def test_a_file_is_moved_into_new_directories(root: Path) -> None:
    (root / "f.txt").chmod(0o755)
    with opened(root) as ws:
        version = files.move(ws.jail, "f.txt", "a/b/g.txt", files.version(ws.jail, "f.txt"))
        assert version == files.version(ws.jail, "a/b/g.txt")
    assert not (root / "f.txt").exists()
    assert (root / "a/b/g.txt").stat().st_mode & 0o777 == 0o755


def test_a_move_never_replaces_and_never_leaves(root: Path) -> None:
    def move(target: str) -> Callable[[Opened], object]:
        return lambda ws: files.move(ws.jail, "f.txt", target, files.version(ws.jail, "f.txt"))

    assert error_of(root, move("real.md")).code == "file_exists"
    assert error_of(root, move("../out.txt")).code == "path_refused"
    assert error_of(root, move(".git/hooks/post-commit")).code == "path_refused"
    assert (root / "f.txt").read_bytes() == b"one\n"
    assert (root / "real.md").read_bytes() == b"text\n"


def test_a_move_of_another_version_is_stale(root: Path) -> None:
    with opened(root) as ws:
        seen = files.version(ws.jail, "f.txt")
        (root / "f.txt").write_bytes(b"two\n")
        with pytest.raises(ToolError) as caught:
            files.move(ws.jail, "f.txt", "g.txt", seen)
    assert caught.value.code == "stale_file"
    assert (root / "f.txt").exists()
