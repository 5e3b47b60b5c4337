"""What a task changed, told from what the user had changed, in real repositories."""

import json
import os
from pathlib import Path

import pytest
from support.workspaces import Opened, git, make_repository, opened

from fluzo.core.records import ABSENT
from fluzo.workspace import baseline, files
from fluzo.workspace.baseline import Changes, FileChange


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
