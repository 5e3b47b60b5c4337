"""What a task changed, told from what the user had changed, in real repositories."""

import contextlib
import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from support.workspaces import Opened, git, make_repository, opened

from fluzo.core.records import ABSENT
from fluzo.workspace import baseline, files
from fluzo.workspace.baseline import Changes, FileChange
from fluzo.workspace.working_tree import MAX_TREE_FILES, against_head


@pytest.fixture
def root(tmp_path: Path) -> Path:
    content: dict[str, bytes | str] = {
        "clean.py": "a = 1\nb = 2\n",
        "mine.py": "x\n",
        "gone.py": "g\n",
        "crlf.txt": b"one\r\ntwo\r\n",
    }
    return make_repository(tmp_path / "ws", content)


def change(ws: Opened, before: baseline.Baseline) -> Changes:
    return baseline.changes(before, ws.git, ws.jail)


def by_path(changes: Changes) -> dict[str, FileChange]:
    return {found.path: found for found in changes.files}


def test_the_baseline_names_what_the_user_had_changed(root: Path) -> None:
    (root / "mine.py").write_text("y\n")
    (root / "staged.py").write_text("s\n")
    git(root, "add", "staged.py")
    (root / "new.txt").write_text("n\n")
    (root / "gone.py").unlink()
    (root / ".gitignore").write_text("*.log\n.fluzodrive/\n")
    (root / "x.log").write_text("ignored")
    (root / ".fluzodrive").mkdir()
    (root / ".fluzodrive/state.sqlite3").write_text("private")
    (root / ".fluzo").write_text("[tui]\n")
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        assert start.user_changed == {"mine.py", "staged.py", "new.txt", "gone.py", ".gitignore"}
        assert start.before["mine.py"].version == files.version(ws.jail, "mine.py")
        assert start.before["gone.py"].version == ABSENT
        summary = json.loads(json.dumps(start.to_json()))
        assert (summary["head"], summary["branch"]) == (start.head, "main")
        assert summary["staged"] == ["staged.py"]
        assert summary["unstaged"] == ["gone.py", "mine.py"]
        assert summary["untracked"] == [".gitignore", "new.txt"]
        assert change(ws, start).files == ()


def test_changes_tell_added_modified_and_deleted_with_their_lines(root: Path) -> None:
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        (root / "clean.py").write_text("a = 1\nb = 3\nc = 4\n")
        (root / "new.txt").write_text("one\ntwo")
        (root / "gone.py").unlink()
        found = change(ws, start)
    files_ = by_path(found)
    assert [(c.path, c.status, c.lines_added, c.lines_removed, c.preexisting) for c in found.files] == [
        ("clean.py", "modified", 2, 1, False),
        ("gone.py", "deleted", 0, 1, False),
        ("new.txt", "added", 2, 0, False),
    ]
    assert files_["clean.py"].diff == (
        "diff --git a/clean.py b/clean.py\n--- a/clean.py\n+++ b/clean.py\n"
        "@@ -1,2 +1,3 @@\n a = 1\n-b = 2\n+b = 3\n+c = 4\n"
    )
    assert files_["new.txt"].diff.endswith("@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n")
    assert found.diff == "".join(c.diff for c in found.files)
    assert (found.head_moved, found.index_changed, found.diff_truncated) == (False, False, False)
    json.dumps(found.to_json())


def test_the_diff_is_one_that_git_can_apply(root: Path) -> None:
    lines = [f"line {n}\n" for n in range(100)]
    (root / "long.txt").write_text("".join(lines))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "long")
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        lines[5:7], lines[60:60], lines[99:] = ["changed\n"], ["more\n", "and more\n"], ["last without newline"]
        (root / "long.txt").write_text("".join(lines))
        (root / "crlf.txt").write_bytes(b"one\r\nTWO \xe9\r\n")
        (root / "gone.py").unlink()
        (root / "fresh").write_text("f\n")
        found = change(ws, start)
    wanted = {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}
    git(root, "add", "-A")
    git(root, "reset", "-q", "--hard")
    (root.parent / "patch").write_bytes(found.diff.encode("utf-8", "surrogateescape"))
    git(root, "apply", str(root.parent / "patch"))
    assert {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()} == wanted


def test_a_task_that_changes_what_the_user_had_changed_shows_only_its_own_part(root: Path) -> None:
    (root / "mine.py").write_text("user\n")
    (root / "draft.txt").write_text("draft\n")
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        (root / "mine.py").write_text("user\ntask\n")
        (root / "draft.txt").unlink()
        found = by_path(change(ws, start))
    assert {path: c.preexisting for path, c in found.items()} == {"mine.py": True, "draft.txt": True}
    assert "-x\n" not in found["mine.py"].diff
    assert (found["mine.py"].lines_added, found["mine.py"].lines_removed) == (1, 0)
    assert (found["draft.txt"].status, found["draft.txt"].lines_removed) == ("deleted", 1)


def test_undoing_the_users_change_is_a_change_of_the_task(root: Path) -> None:
    (root / "mine.py").write_text("user\n")
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        git(root, "checkout", "-q", "mine.py")
        found = by_path(change(ws, start))
    assert found["mine.py"].preexisting
    assert "-user\n+x\n" in found["mine.py"].diff


def test_staging_and_committing_are_noticed_and_their_files_still_shown(root: Path) -> None:
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        (root / "clean.py").write_text("a = 2\n")
        git(root, "add", "clean.py")
        staged = change(ws, start)
        assert (staged.head_moved, staged.index_changed) == (False, True)
        git(root, "commit", "-qm", "theirs")
        (root / "later.txt").write_text("later\n")
        committed = change(ws, start)
    assert committed.head_moved
    assert {c.path: (c.status, c.lines_added, c.lines_removed) for c in committed.files} == {
        "clean.py": ("modified", 1, 2),
        "later.txt": ("added", 1, 0),
    }


def test_a_first_commit_and_another_branch_are_a_moved_head(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws")
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        assert (start.head, start.branch) == ("", "main")
        (root / "a").write_text("a\n")
        git(root, "add", "a")
        git(root, "commit", "-qm", "first")
        first = change(ws, start)
        assert first.head_moved
        assert [(c.path, c.status) for c in first.files] == [("a", "added")]
        start = baseline.capture(ws.git, ws.jail)
        git(root, "checkout", "-qb", "side")
        assert change(ws, start).head_moved


def test_a_rename_is_a_removal_and_an_addition(root: Path) -> None:
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        git(root, "mv", "gone.py", "moved.py")
        found = change(ws, start)
    assert [(c.path, c.status) for c in found.files] == [("gone.py", "deleted"), ("moved.py", "added")]


def test_modes_links_and_binary_files_are_one_line_notes(root: Path) -> None:
    (root / "data.bin").write_bytes(b"\0\1\2")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "binary")
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        (root / "clean.py").chmod(0o755)
        (root / "data.bin").write_bytes(b"\0\1\3")
        (root / "link").symlink_to("/etc/passwd")
        found = by_path(change(ws, start))
    assert found["clean.py"].diff.endswith("old mode 100644\nnew mode 100755\n")
    assert found["data.bin"].diff.endswith("Binary file data.bin differs\n")
    assert "new file mode 120000" in found["link"].diff
    assert "+/etc/passwd" in found["link"].diff


def test_line_endings_of_the_working_tree_are_no_change(root: Path) -> None:
    (root / ".gitattributes").write_text("*.win text eol=crlf\n")
    (root / "a.win").write_bytes(b"one\r\ntwo\r\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "crlf")
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        (root / "a.win").write_bytes(b"one\r\nTWO\r\n")
        (root / "crlf.txt").write_bytes(b"one\r\nTWO\r\n")
        found = by_path(change(ws, start))
    for path in ("a.win", "crlf.txt"):
        assert (found[path].lines_added, found[path].lines_removed) == (1, 1)
        assert " one\r\n-two\r\n+TWO\r\n" in found[path].diff


def test_large_files_and_a_large_total_are_noted_and_not_shown(root: Path) -> None:
    (root / "before.dat").write_text("line\n" * 300_000)
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        assert start.before["before.dat"].data is None
        with (root / "before.dat").open("a") as file:
            file.write("more\n")
        with (root / "huge.dat").open("wb") as file:
            file.truncate(200 * 1024 * 1024)
        for number in range(4):
            (root / f"part{number}.txt").write_text(f"text {number}\n" * 20_000)
        found = change(ws, start)
    assert found.diff_truncated
    assert len(found.diff) < baseline.MAX_DIFF_BYTES + 2000
    shown = by_path(found)
    assert "too large" in shown["before.dat"].diff
    assert "too large" in shown["huge.dat"].diff
    assert shown["part3.txt"].lines_added == 20_000
    assert "not shown" in shown["part3.txt"].diff


def test_a_nested_repository_and_a_directory_that_became_a_link_outside_are_not_read(root: Path) -> None:
    make_repository(root / "nested", {"n": "n"})
    (root / "dir").mkdir()
    (root / "dir/passwd").write_text("inside\n")
    git(root, "add", "dir")
    git(root, "commit", "-qm", "dir")
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        (root / "dir/passwd").unlink()
        (root / "dir").rmdir()
        (root / "dir").symlink_to("/etc")
        found = change(ws, start)
    assert "root:" not in found.diff
    assert "dir" in by_path(found)


def test_the_revision_follows_content_and_nothing_else(root: Path) -> None:
    (root / "draft.txt").write_text("aaaa\n")
    with opened(root) as ws:
        first = baseline.revision(ws.git, ws.jail)
        assert first == baseline.revision(ws.git, ws.jail) == baseline.capture(ws.git, ws.jail).revision
        stamp = (root / "draft.txt").stat()
        (root / "draft.txt").write_text("bbbb\n")
        os.utime(root / "draft.txt", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        second = baseline.revision(ws.git, ws.jail)
        os.utime(root / "draft.txt")
        os.utime(root / "clean.py")
        assert baseline.revision(ws.git, ws.jail) == second
        (root / "clean.py").chmod(0o755)
        third = baseline.revision(ws.git, ws.jail)
        git(root, "commit", "-qam", "mode")
        fourth = baseline.revision(ws.git, ws.jail)
        start = baseline.capture(ws.git, ws.jail)
        assert baseline.changes(start, ws.git, ws.jail).revision == fourth
    assert len({first, second, third, fourth}) == 4


# --- lines of the user, and the working tree against HEAD ----------------------------------------------------------


def test_the_users_own_lines_are_told_where_the_content_of_head_and_of_the_baseline_is_known(root: Path) -> None:
    (root / "long.txt").write_text("".join(f"{n}\n" for n in range(1, 10)))
    (root / "only-cut.txt").write_text("a\nb\nc\n")
    (root / "data.bin").write_bytes(b"\0a")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "more")
    (root / "long.txt").write_text("1\nmine\n3\n4\n5\n6\n7\nadded\n8\n9\nlast")
    (root / "only-cut.txt").write_text("a\nc\n")
    (root / "new.txt").write_text("n\nm\n")
    (root / "data.bin").write_bytes(b"\0b")
    (root / "mine.py").write_text("not touched by the task\n")
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        (root / "long.txt").write_text("1\ntask\n3\n4\n5\n6\n7\nadded\n8\n9\nlast")
        for name in ("only-cut.txt", "new.txt"):
            (root / name).write_text("z\n")
        (root / "data.bin").write_bytes(b"\0c")
        (root / "clean.py").write_text("task\n")
        git(root, "commit", "-qam", "a commit meanwhile changes nothing of it")
        found = by_path(change(ws, start))
    assert {path: c.own_lines for path, c in found.items()} == {
        "clean.py": None,
        "data.bin": None,
        "long.txt": ((2, 2), (8, 8), (11, 11)),
        "new.txt": ((1, 2),),
        "only-cut.txt": (),
    }


def test_lines_of_a_file_that_is_too_large_or_in_conflict_are_nobodys(root: Path, tmp_path: Path) -> None:
    (root / "big.txt").write_text("x\n" * 600_000)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "big")
    git(root, "checkout", "-qb", "side")
    (root / "mine.py").write_text("side\n")
    git(root, "commit", "-qam", "side")
    git(root, "checkout", "-q", "main")
    (root / "mine.py").write_text("main\n")
    git(root, "commit", "-qam", "main")
    git(root, "config", "merge.conflictStyle", "merge")
    with contextlib.suppress(subprocess.CalledProcessError):
        git(root, "merge", "side")
    (root / "big.txt").write_text("small now\n")
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        for name in ("mine.py", "big.txt"):
            (root / name).write_text("task\n")
        found = by_path(change(ws, start))
    assert {path: (c.preexisting, c.own_lines) for path, c in found.items()} == {
        "mine.py": (True, None),
        "big.txt": (True, None),
    }


def test_the_working_tree_against_head_names_everything_and_nothing_that_is_ignored(root: Path) -> None:
    (root / ".gitignore").write_text("*.log\n")
    (root / "noise.log").write_text("ignored\n")
    (root / "clean.py").write_text("a = 1\nb = 3\n")
    git(root, "add", "clean.py")
    (root / "clean.py").write_text("a = 1\nb = 4\n")
    (root / "gone.py").unlink()
    (root / "new.txt").write_text("n\n")
    (root / "data.bin").write_bytes(b"\0")
    (root / ".env").write_text("TOKEN=hush\n")
    (root / ".fluzo").write_text("[tui]\n")
    make_repository(root / "inner", {"x": "1\n"})
    git(root, "rm", "-q", "--cached", "mine.py")
    with opened(root) as ws:
        before = ws.git.status()
        found = against_head(ws.git, ws.jail)
        assert ws.git.status() == before
    assert {c.path: (c.status, c.lines_added, c.lines_removed) for c in found.files} == {
        ".env": ("added", 0, 0),
        ".gitignore": ("added", 1, 0),
        "clean.py": ("modified", 1, 1),
        "data.bin": ("added", 0, 0),
        "gone.py": ("deleted", 0, 1),
        "inner/": ("added", 0, 0),
        "new.txt": ("added", 1, 0),
    }
    assert "+b = 4\n" in found.diff and "b = 3" not in found.diff and "hush" not in found.diff
    assert (found.branch, found.left_out, found.diff_truncated) == ("main", 0, False)
    told = json.loads(json.dumps(found.to_json()))
    assert told["files"][2]["digest"] == hashlib.sha256(b"a = 1\nb = 4\n").hexdigest()


def test_a_submodule_at_another_commit_is_one_row_and_is_not_looked_into(root: Path, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other", {"x": "1\n"})
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    git(root, "commit", "-qm", "with a submodule")
    (root / "sub/x").write_text("only dirty\n")
    with opened(root) as ws:
        assert against_head(ws.git, ws.jail).files == ()
        git(root / "sub", "commit", "-qam", "further")
        found = against_head(ws.git, ws.jail)
        assert ws.git.status().entries == ()
    assert [(c.path, c.status) for c in found.files] == [("sub", "modified")]
    assert found.diff == "diff --git a/sub b/sub\n(submodule; it is at another commit)\n"


def test_what_of_the_working_tree_is_beyond_the_bounds_is_named_or_counted(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws")
    for number in range(3):
        with (root / f"Large{number}").open("wb") as file:
            file.truncate(10_000_000)
    for number in range(20):
        (root / f"a{number:02}.dat").write_bytes(b"\0" * 1_000_000)
    for number in range(MAX_TREE_FILES):
        (root / f"b{number:04}").touch()
    with opened(root) as ws:
        found = against_head(ws.git, ws.jail)
    assert (found.head, len(found.files), found.left_out) == ("", MAX_TREE_FILES, 23)
    assert [c.version.digest.startswith("stat:") for c in found.files[:3]] == [False, True, True]
    assert "b/Large2\n(0 -> 10000000 bytes; too large to compare line by line)\n" in found.diff
    assert "Binary file a05.dat differs" in found.diff
    assert "b/b0001\n(not compared; there is too much of it)\n" in found.diff


def test_what_cannot_be_read_is_told_as_that(root: Path) -> None:
    (root / "clean.py").unlink()
    os.mkfifo(root / "clean.py")
    with opened(root) as ws:
        assert against_head(ws.git, ws.jail).diff.endswith("\n(it is no plain file that can be read now)\n")
