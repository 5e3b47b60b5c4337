"""The workspace jail on real links, devices and races."""

import errno
import os
import random
import socket
import threading
from pathlib import Path

import pytest
from support.seccomp import run_without_call
from support.workspaces import git, make_repository, opened

from fluzo.core.errors import FluzoError, ToolError, WorkspaceError
from fluzo.core.records import ABSENT, FileVersion
from fluzo.workspace import files
from fluzo.workspace.jail import Jail
from fluzo.workspace.syscalls import rename_exchange


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "ws", {"src/a.py": "a\n", "b.txt": "b\n"})


def read(root: Path, path: str) -> bytes:
    with opened(root) as ws:
        return files.read(ws.jail, path, 1000).data


def refusal(root: Path, path: str) -> FluzoError:
    with opened(root) as ws, pytest.raises(FluzoError) as caught:
        files.read(ws.jail, path, 1000)
    return caught.value


@pytest.mark.parametrize("path", ["../outside.txt", "src/../../outside.txt", "/etc/passwd", "src/../../ws2/x"])
def test_a_path_that_leaves_the_root_is_refused(root: Path, path: str) -> None:
    (root.parent / "outside.txt").write_text("secret")
    error = refusal(root, path)
    assert isinstance(error, WorkspaceError)
    assert error.code == "path_refused"


def test_a_sibling_that_begins_with_the_name_of_the_root_is_outside(root: Path) -> None:
    make_repository(root.parent / "ws-other", {"x": "x"})
    assert refusal(root, str(root.parent / "ws-other/x")).code == "path_refused"


@pytest.mark.parametrize("path", ["b.txt", "./b.txt", ".//b.txt", "src/../b.txt", "{root}/b.txt"])
def test_a_path_that_stays_inside_is_read(root: Path, path: str) -> None:
    assert read(root, path.format(root=root)) == b"b\n"


def test_a_link_inside_is_followed_to_its_target(root: Path) -> None:
    (root / "link").symlink_to("src/a.py")
    (root / "dir").symlink_to("src")
    assert read(root, "link") == b"a\n"
    assert read(root, "dir/a.py") == b"a\n"


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside.txt", "/proc/self/root/etc/passwd", "/proc/self/cwd/x"])
def test_a_link_that_leads_outside_is_refused(root: Path, target: str) -> None:
    (root.parent / "outside.txt").write_text("secret")
    (root / "link").symlink_to(target)
    error = refusal(root, "link")
    assert (error.code, error.message) == ("path_refused", "link leads outside the workspace")


def test_a_directory_link_that_leads_outside_is_refused_for_writing_too(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "dir").symlink_to(outside)
    with opened(root) as ws:
        for path in ("dir/new.txt", "dir/deep/new.txt"):
            with pytest.raises(WorkspaceError) as caught:
                files.write(ws.jail, path, b"x", ABSENT)
            assert caught.value.code == "path_refused"
    assert list(outside.iterdir()) == []


def test_a_link_loop_is_refused(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    assert refusal(root, "one").code == "path_refused"


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git",
        ".GIT/config",
        "src/.git/config",
        ".fluzo",
        ".Fluzo",
        ".fluzodrive/state.sqlite3",
        "./src/../.git/config",
        ".g\u200cit/config",
        "alias/config",
        "deep/alias",
        "link-to-settings",
        "settings-hard-link",
    ],
)
def test_protected_objects_are_refused_under_every_name(root: Path, path: str) -> None:
    (root / ".fluzo").write_text("[tui]\n")
    (root / "alias").symlink_to(".git")
    (root / "deep").mkdir()
    (root / "deep/alias").symlink_to("../.git/config")
    (root / "link-to-settings").symlink_to(".fluzo")
    os.link(root / ".fluzo", root / "settings-hard-link")
    with opened(root) as ws:
        for attempt in (
            lambda: files.read(ws.jail, path, 10),
            lambda: files.write(ws.jail, path, b"x", ABSENT),
            lambda: files.version(ws.jail, path),
        ):
            with pytest.raises(WorkspaceError) as caught:
                attempt()
            assert caught.value.code == "path_refused"
    assert (root / ".fluzo").read_text() == "[tui]\n"


@pytest.mark.parametrize("inner", [".git/config", ".git/hooks/deep/post-commit", ".fluzodrive/artifacts/ab/1"])
def test_a_hard_link_to_a_file_below_a_protected_directory_is_not_read_or_changed(root: Path, inner: str) -> None:
    (root / inner).parent.mkdir(parents=True, exist_ok=True)
    with (root / inner).open("ab"):
        pass
    os.link(root / inner, root / "innocent")
    before = (root / inner).read_bytes()
    some = FileVersion("0" * 64, 1, 1, 1)
    with opened(root) as ws:
        for attempt in (
            lambda: files.read(ws.jail, "innocent", 10),
            lambda: files.version(ws.jail, "innocent"),
            lambda: files.write(ws.jail, "innocent", b"x", some),
            lambda: files.move(ws.jail, "innocent", "other", some),
        ):
            with pytest.raises(WorkspaceError) as caught:
                attempt()
            assert caught.value.code == "path_refused"
            assert "protected" in caught.value.message
    assert (root / inner).read_bytes() == before


def test_a_hard_link_to_a_credential_file_outside_is_not_read(root: Path) -> None:
    private = root.parent / "private"
    private.mkdir()
    (private / "credentials.toml").write_text("key = 1")
    os.link(private / "credentials.toml", root / "innocent")
    with opened(root, private) as ws, pytest.raises(WorkspaceError):
        files.read(ws.jail, "innocent", 10)


def test_other_files_with_several_names_are_read(root: Path) -> None:
    os.link(root / "b.txt", root / "second")
    assert read(root, "second") == b"b\n"


def test_a_git_directory_under_another_name_is_protected(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    (root / "meta").mkdir(parents=True)
    git(root, "init", "-q", "--separate-git-dir", str(root / "meta/store"))
    with opened(root) as ws:
        with pytest.raises(WorkspaceError):
            files.read(ws.jail, "meta/store/config", 10)
        with pytest.raises(WorkspaceError):
            files.write(ws.jail, "meta/store/hooks/post-commit", b"x", ABSENT)
        assert not files.write(ws.jail, "meta/other", b"x", ABSENT).absent


def test_a_nested_repository_and_a_linked_worktree_keep_their_git(root: Path, tmp_path: Path) -> None:
    make_repository(root / "vendor/lib", {"x": "x"})
    assert refusal(root, "vendor/lib/.git/config").code == "path_refused"
    git(root, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert refusal(tmp_path / "linked", ".git").code == "path_refused"
    assert read(tmp_path / "linked", "b.txt") == b"b\n"


def test_a_named_credential_file_is_protected_and_so_is_a_link_to_it(root: Path) -> None:
    (root / "auth.toml").write_text("key = 1")
    (root / "link").symlink_to("auth.toml")
    with opened(root, root / "auth.toml") as ws:
        for path in ("auth.toml", "link"):
            with pytest.raises(WorkspaceError):
                files.read(ws.jail, path, 10)


def test_special_files_are_told_apart_and_never_opened(root: Path) -> None:
    os.mkfifo(root / "pipe")
    server = socket.socket(socket.AF_UNIX)
    with server:
        server.bind(str(root / "sock"))
        for path, word in (("pipe", "named pipe"), ("sock", "socket"), ("src", "directory")):
            error = refusal(root, path)
            assert isinstance(error, ToolError)
            assert word in error.message
            with opened(root) as ws, pytest.raises(ToolError) as caught:
                files.write(ws.jail, path, b"x", ABSENT)
            assert word in caught.value.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device node")
def test_a_device_node_is_refused(root: Path) -> None:
    os.mknod(root / "null", 0o20666, os.makedev(1, 3))
    assert "character device" in refusal(root, "null").message


@pytest.mark.parametrize("path", ["", "a\0b", "half \ud835"])
def test_what_cannot_be_a_file_name_is_an_argument_error(root: Path, path: str) -> None:
    assert refusal(root, path).code == "tool_arguments"


def test_a_name_with_an_undecodable_byte_is_read_and_written(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.txt")).write_bytes(b"old")
    with opened(root) as ws:
        content = files.read(ws.jail, "caf\udce9.txt", 10)
        assert (content.data, content.path) == (b"old", "caf\udce9.txt")
        files.write(ws.jail, "caf\udce9.txt", b"new", content.version)
    assert Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.txt")).read_bytes() == b"new"


def test_a_root_that_was_replaced_is_noticed(root: Path) -> None:
    with opened(root) as ws:
        resolved = ws.jail.root
    root.rename(root.parent / "moved")
    make_repository(root, {"b.txt": "other"})
    with pytest.raises(WorkspaceError) as caught:
        Jail(resolved)
    assert caught.value.code == "workspace_changed"


def test_a_directory_swapped_for_a_link_never_lets_a_read_or_a_write_out(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "f.txt").write_text("outside")
    (root / "spot").mkdir()
    (root / "spot/f.txt").write_text("inside")
    (root / "other").symlink_to(outside)
    done = threading.Event()

    def swap() -> None:
        directory = os.open(root, os.O_RDONLY)
        uneven = random.Random(1)
        while not done.is_set():
            rename_exchange(directory, b"spot", b"other")
            for _ in range(uneven.randrange(2000)):  # Out of step with the reader, or one side may never be met.
                pass
        os.close(directory)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: dict[str, int] = {}
    both = {"inside", "path_refused"}
    try:
        with opened(root) as ws:
            for number in range(40_000):
                if number >= 800 and both <= set(seen):
                    break  # Which side is met when is up to the scheduler; enough rounds meet both.
                try:
                    if number % 2:
                        seen[files.read(ws.jail, "spot/f.txt", 100).data.decode()[:6]] = number
                    else:
                        files.write(ws.jail, f"spot/new-{number}", b"inside", ABSENT)
                except FluzoError as exc:
                    seen[exc.code] = number
    finally:
        done.set()
        swapper.join()
    assert "outsid" not in seen
    assert [path.name for path in outside.iterdir()] == ["f.txt"]
    assert both <= set(seen), "the race was not met from both sides"


def test_a_file_swapped_for_a_link_never_lets_a_write_out(root: Path) -> None:
    outside = root.parent / "outside.txt"
    outside.write_bytes(b"outside")
    done = threading.Event()

    def swap() -> None:
        count = 0
        while not done.is_set():
            count += 1
            (root / "tmp").symlink_to(outside)
            (root / "tmp").rename(root / "spot")
            (root / "tmp").write_bytes(b"theirs")
            (root / "tmp").rename(root / "spot")

    swapper = threading.Thread(target=swap)
    swapper.start()
    codes = set()
    try:
        with opened(root) as ws:
            for _ in range(600):
                try:
                    files.write(ws.jail, "spot", b"ours", files.version(ws.jail, "spot"))
                    codes.add("written")
                except FluzoError as exc:
                    codes.add(exc.code)
    finally:
        done.set()
        swapper.join()
    assert outside.read_bytes() == b"outside"
    assert not outside.is_symlink()
    assert not list(root.glob(".fluzo-tmp-*"))
    assert codes & {"stale_file", "path_refused"}, codes


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_a_kernel_that_cannot_confine_is_refused_without_a_second_way(root: Path, error: int) -> None:
    result = run_without_call(
        437,
        error,
        """
import sys
from pathlib import Path
from support.workspaces import opened
from fluzo.core.errors import FluzoError
from fluzo.core.records import ABSENT
from fluzo.workspace import files
with opened(Path(sys.argv[1])) as ws:
    for attempt in (lambda: files.read(ws.jail, "b.txt", 10), lambda: files.write(ws.jail, "new", b"x", ABSENT)):
        try:
            attempt()
            print("done")
        except FluzoError as exc:
            print(exc.code, exc.message)
""",
        str(root),
    )
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "path_refused b.txt cannot be confined on this kernel",
        "path_refused new cannot be confined on this kernel",
    ]
    assert not (root / "new").exists()
