"""Reading real repositories: hostile configuration, odd names, no commits, no Git."""

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.workspaces import execute, git, make_repository, opened, with_backend

from fluzo.core.contracts import GitRequest
from fluzo.core.errors import FluzoError, StorageError, ToolError, WorkspaceError
from fluzo.core.records import ProcessResult
from fluzo.workspace import baseline
from fluzo.workspace.git import check_store
from fluzo.workspace.identity import resolve_root, workspace_identity
from fluzo.workspace.local import LocalBackend

ODD_NAMES = (
    "测试.txt",
    "a b.txt",
    'q"t.txt',
    "n\nl.txt",
    "caf\udce9.txt",
    " lead",
    "tab\t",
    "-dash",
    "*star",
    "back\\slash",
)


def write(path: Path, data: bytes = b"x\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def inspect(root: Path, subcommand: Any, *options: str, paths: tuple[str, ...] = ()) -> ProcessResult:
    request = GitRequest(subcommand, options, paths)
    return with_backend(root, lambda backend, _: backend.git(request))


# --- the root (C05) -------------------------------------------------------------------------------------------


def test_the_root_is_found_from_a_subdirectory_and_through_a_link(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws\nodd", {"src/a": "a"})
    (tmp_path / "link").symlink_to(root / "src")
    for start in (root, root / "src", tmp_path / "link"):
        found = resolve_root(start)
        assert (found.path, found.git_dir) == (root, root / ".git")
        assert found.identity == workspace_identity(root)
    status = root.stat()
    assert resolve_root(root).identity == f"{status.st_dev}:{status.st_ino}:{root}"


def test_an_empty_repository_and_a_detached_head_work(tmp_path: Path) -> None:
    empty = make_repository(tmp_path / "empty")
    write(empty / "new.txt")
    with opened(empty) as ws:
        status = ws.git.status()
        assert (status.head, status.branch, [e.path for e in status.entries]) == ("", "main", ["new.txt"])
        assert ws.git.cat_head("new.txt") is None
        assert baseline.capture(ws.git, ws.jail).user_changed == {"new.txt"}
    detached = make_repository(tmp_path / "detached", {"a": "a"})
    git(detached, "checkout", "-q", "--detach")
    with opened(detached) as ws:
        status = ws.git.status()
        assert status.branch == ""
        assert status.head == git(detached, "rev-parse", "HEAD").decode().strip()


def refusal(start: Path, environ: Mapping[str, str] = os.environ) -> WorkspaceError:
    with pytest.raises(WorkspaceError) as caught:
        resolve_root(start, environ)
    assert caught.value.code == "workspace_unusable"
    return caught.value


def test_a_directory_without_a_repository_says_how_to_make_one(tmp_path: Path) -> None:
    error = refusal(tmp_path)
    assert "not in a Git repository" in error.message
    assert "git init" in error.hint


def test_a_bare_repository_and_the_inside_of_a_git_directory_are_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")
    assert "bare" in refusal(tmp_path / "bare").message
    root = make_repository(tmp_path / "ws", {"a": "a"})
    assert "outside the working tree" in refusal(root / ".git").message


def test_a_working_tree_that_is_configured_elsewhere_is_refused(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {"a": "a"})
    git(root, "config", "core.worktree", "/usr")
    refusal(root)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "gone") in refusal(tmp_path / "gone").message


def test_a_missing_git_is_said_to_be_missing(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {"a": "a"})
    (tmp_path / "bin").mkdir()
    error = refusal(root, {**os.environ, "PATH": str(tmp_path / "bin")})
    assert "not installed" in error.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a repository of another user")
def test_a_foreign_repository_is_refused_unless_the_user_trusts_it(tmp_path: Path, isolation: Path) -> None:
    root = make_repository(tmp_path / "ws", {"a": "a"})
    for path in (root, root / ".git"):
        os.chown(path, 12345, 12345)
    error = refusal(root)
    assert "another user" in error.message
    git(tmp_path, "config", "--global", "--add", "safe.directory", str(root))
    with opened(root) as ws:
        assert ws.git.status().entries == ()


def test_variables_of_the_caller_do_not_lead_to_another_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_repository(tmp_path / "ws", {"a": "a"})
    other = make_repository(tmp_path / "other", {"b": "b"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    with opened(root) as ws:
        assert ws.path == root
        assert ws.git.ls_files() == ["a"]


def test_a_linked_worktree_is_its_own_workspace(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {"a": "a"})
    git(root, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "side")
    found = resolve_root(tmp_path / "linked")
    assert (found.path, found.common_dir) == (tmp_path / "linked", root / ".git")
    with opened(tmp_path / "linked") as ws:
        assert ws.git.status().branch == "side"


# --- hostile configuration (S08) ------------------------------------------------------------------------------


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[Path, Path]:
    """A repository in which every known hook into reading is set to leave a trace."""
    root = make_repository(tmp_path / "ws", {"f.txt": "one\n", "lfs.bin": "two\n", "dir/g.txt": "three\n"})
    traces = tmp_path / "traces"
    traces.mkdir()
    script = tmp_path / "evil"
    script.write_text(f'#!/bin/sh\ntouch {traces}/"$(basename $0)-$1"\ncat\n')
    script.chmod(0o755)
    run = str(script)
    sign(root)
    inner = make_repository(root / "inner", {"s.txt": "s\n", ".gitattributes": "s.txt filter=z\n"})
    git(inner, "config", "filter.z.clean", f"{run} inner-clean")
    git(inner, "config", "core.fsmonitor", f"{run} inner-fsmonitor")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{head(inner)},inner")
    for key in ("core.fsmonitor", "diff.external", "core.pager", "pager.status", "pager.diff", "core.editor"):
        git(root, "config", key, f"{run} {key}")
    for key in ("core.sshCommand", "credential.helper", "core.askPass", "gpg.program", "gpg.ssh.program"):
        git(root, "config", key, f"{run} {key}")
    for name in ("x", "we ird.name"):
        for kind in ("clean", "smudge", "process"):
            git(root, "config", f"filter.{name}.{kind}", f"{run} filter-{kind}")
        git(root, "config", f"filter.{name}.required", "true")
    git(root, "config", "diff.y.textconv", f"{run} textconv")
    git(root, "config", "diff.y.command", f"{run} diffcommand")
    git(root, "config", "format.pretty", "%H %G? %s")
    git(root, "config", "log.showSignature", "true")
    git(root, "config", "submodule.recurse", "true")
    git(root, "config", "alias.status", f"!{run} alias")
    hooks = root / ".git/hooks"
    for hook in ("post-index-change", "post-checkout", "reference-transaction", "pre-auto-gc"):
        shutil.copy(script, hooks / hook)
    write(root / ".gitattributes", b"f.txt diff=y\nlfs.bin filter=x\ndir/* filter=we\\ ird.name diff=y\n")
    write(root / ".git/info/attributes", b"dir/g.txt filter=x diff=y\n")
    for name in ("f.txt", "lfs.bin", "dir/g.txt"):
        write(root / name, b"changed\n")
    write(inner / "s.txt", b"t\n")  # Of the same size, so that only a filter could tell.
    return root, traces


def sign(root: Path) -> None:
    """Give the last commit something that looks like a signature, for `%G?` to check."""
    tree, message = git(root, "cat-file", "commit", "HEAD").split(b"\n\n", 1)
    armor = b"-----BEGIN PGP SIGNATURE-----\n \n none\n -----END PGP SIGNATURE-----"
    (root.parent / "commit").write_bytes(tree + b"\ngpgsig " + armor + b"\n\n" + message)
    signed = git(root, "hash-object", "-t", "commit", "-w", str(root.parent / "commit")).decode().strip()
    git(root, "reset", "-q", "--soft", signed)


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").decode().strip()


def test_the_hostile_repository_really_is_one(hostile: tuple[Path, Path]) -> None:
    root, traces = hostile
    git(root, "status")
    assert list(traces.iterdir())


@pytest.mark.parametrize(
    ("subcommand", "options", "paths"),
    [
        ("status", (), ()),
        ("status", ("--porcelain=v1", "-z", "--branch", "--untracked-files=all"), ()),
        ("diff", (), ()),
        ("diff", ("--staged",), ()),
        ("diff", ("HEAD", "--stat"), ("f.txt",)),
        ("log", ("-p",), ()),
        ("log", ("--format=%G?",), ()),
        ("show", ("HEAD",), ()),
        ("show", ("HEAD:f.txt",), ()),
        ("blame", (), ("f.txt",)),
        ("branch", ("--all", "--verbose"), ()),
    ],
)
def test_no_inspection_runs_anything_the_repository_configures(
    hostile: tuple[Path, Path], subcommand: str, options: tuple[str, ...], paths: tuple[str, ...]
) -> None:
    root, traces = hostile
    result = inspect(root, subcommand, *options, paths=paths)
    assert result.exit_status == 0, result.output
    assert [path.name for path in traces.iterdir()] == []


def test_no_work_of_the_runtime_itself_runs_anything_the_repository_configures(hostile: tuple[Path, Path]) -> None:
    root, traces = hostile
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        assert {"f.txt", "lfs.bin", "dir/g.txt"} <= start.user_changed
        write(root / "new.txt")
        git(root, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "reset", "-q", "--", "f.txt")
        for trace in traces.iterdir():
            trace.unlink()
        baseline.changes(start, ws.git, ws.jail)
        baseline.revision(ws.git, ws.jail)
        ws.git.ls_files()
        ws.git.cat_head("lfs.bin")
        write(root / ".gitignore", b".fluzodrive/\n")
        ws.git.check_store(root / ".fluzodrive")
    with_backend(root, lambda backend, _: backend.search("changed", ".", regex=True, glob="", max_hits=10))
    with_backend(root, lambda backend, _: backend.list_files(".", 100, 3))
    assert [path.name for path in traces.iterdir()] == []


def test_a_filter_that_appears_during_the_task_is_switched_off_too(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {"f.txt": "one\n", ".gitattributes": "f.txt filter=late\n"})
    write(tmp_path / "extra", b'[filter "late"]\n\tclean = touch %b/PWNED; cat\n' % os.fsencode(tmp_path))
    with opened(root) as ws:
        ws.git.status()
        git(root, "config", "include.path", str(tmp_path / "extra"))
        write(root / "f.txt", b"two\n")
        ws.git.status()
        assert not (tmp_path / "PWNED").exists()
        write(tmp_path / "extra", (tmp_path / "extra").read_bytes().replace(b"late", b"later"))
        write(root / ".gitattributes", b"f.txt filter=later\n")
        ws.git.status()
    assert not (tmp_path / "PWNED").exists()


def test_a_filter_that_cannot_be_switched_off_stops_everything(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {"f.txt": "one\n", ".gitattributes": "f.txt filter=a=b\n"})
    with (root / ".git/config").open("a") as file:
        file.write(f'[filter "a=b"]\n\tclean = touch {tmp_path}/PWNED; cat\n')
    write(root / "f.txt", b"two\n")
    with opened(root) as ws, pytest.raises(WorkspaceError) as caught:
        ws.git.status()
    assert caught.value.code == "workspace_unusable"
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize(
    ("subcommand", "options"),
    [
        ("diff", ("--ext-diff",)),
        ("diff", ("--ext",)),
        ("diff", ("--textconv",)),
        ("diff", ("--output=x",)),
        ("diff", ("--no-index",)),
        ("diff", ("--ignore-submodules=none",)),
        ("diff", ("--submodule=diff",)),
        ("log", ("--show-signature",)),
        ("blame", ("--contents=/etc/passwd",)),
        ("branch", ("-D", "main")),
        ("branch", ("new-branch",)),
        ("branch", ("--edit-description",)),
    ],
)
def test_options_that_could_run_write_or_read_elsewhere_are_refused(
    tmp_path: Path, subcommand: str, options: tuple[str, ...]
) -> None:
    root = make_repository(tmp_path / "ws", {"f.txt": "one\n"})
    with pytest.raises(ToolError) as caught:
        inspect(root, subcommand, *options)
    assert caught.value.code == "tool_arguments"


@pytest.mark.parametrize(
    "paths", [("/etc/passwd", "/dev/null"), ("../x", "f.txt"), (":(top)f.txt",), (".fluzo",), (".git/config",)]
)
def test_paths_elsewhere_and_protected_ones_are_refused(tmp_path: Path, paths: tuple[str, ...]) -> None:
    root = make_repository(tmp_path / "ws", {"f.txt": "one\n"})
    with pytest.raises(WorkspaceError) as caught:
        inspect(root, "diff", paths=paths)
    assert caught.value.code == "path_refused"


def test_settings_that_were_committed_are_not_shown(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {"f.txt": "one\n", ".fluzo": "marker-in-settings\n"})
    write(root / ".fluzo", b"marker-in-settings-two\n")
    for subcommand, options in (("diff", ()), ("show", ()), ("log", ("-p",)), ("status", ("--short",))):
        output = inspect(root, subcommand, *options).output
        assert b"marker-in-settings" not in output
        assert b".fluzo" not in output
    with pytest.raises(WorkspaceError):
        inspect(root, "show", "HEAD:.fluzo")


# --- odd names (C07) and line endings -------------------------------------------------------------------------


def test_odd_names_are_real_names_in_status_listing_and_changes(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {"x": "x"})
    with opened(root) as ws:
        start = baseline.capture(ws.git, ws.jail)
        for name in ODD_NAMES:
            write(Path(os.fsdecode(os.fsencode(root) + b"/" + name.encode("utf-8", "surrogateescape"))))
        assert {entry.path for entry in ws.git.status().entries} == set(ODD_NAMES)
        assert set(ws.git.ls_files()) == {"x", *ODD_NAMES}
        found = baseline.changes(start, ws.git, ws.jail)
        assert {change.path for change in found.files} == set(ODD_NAMES)
        git(root, "add", "-A")
        git(root, "commit", "-qm", "odd")
        start = baseline.capture(ws.git, ws.jail)
        for name in ODD_NAMES:
            write(Path(os.fsdecode(os.fsencode(root) + b"/" + name.encode("utf-8", "surrogateescape"))), b"y\n")
        found = baseline.changes(start, ws.git, ws.jail)
        assert {change.path for change in found.files} == set(ODD_NAMES)
        assert all("-x\n+y\n" in change.diff for change in found.files)
        assert ws.git.cat_head("caf\udce9.txt") == b"x\n"


def test_the_status_of_the_user_is_the_status_here(tmp_path: Path, isolation: Path) -> None:
    root = make_repository(tmp_path / "ws", {"crlf.txt": b"a\nb\n"})
    git(root, "config", "--global", "core.autocrlf", "true")
    write(isolation / "ignore", b"*.mine\n")
    git(root, "config", "--global", "core.excludesFile", "~/ignore")
    write(root / "x.mine")
    (root / "crlf.txt").unlink()
    git(root, "checkout", "-q", "crlf.txt")
    write(root / "crlf.txt", (root / "crlf.txt").read_bytes())  # Git has to look at the content again.
    with opened(root) as ws:
        assert ws.git.status().entries == ()
        assert ws.git.cat_head("crlf.txt") == b"a\r\nb\r\n"


# --- the store ------------------------------------------------------------------------------------------------


def store_error(root: Path) -> StorageError:
    with pytest.raises(StorageError) as caught:
        check_store(resolve_root(root), root / ".fluzodrive")
    assert caught.value.code == "storage_unprotected"
    return caught.value


def test_a_store_that_is_not_ignored_is_refused_with_the_repair_and_the_repair_works(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {"a": "a"})
    error = store_error(root)
    command = error.hint.removeprefix("Run: ")
    assert command == 'echo .fluzodrive/ >> "$(git rev-parse --git-path info/exclude)"'
    assert execute(root, "sh", "-c", command).exit_status == 0
    check_store(resolve_root(root), root / ".fluzodrive")


def test_a_store_with_a_tracked_file_is_refused(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {".fluzodrive/state.sqlite3": "data", ".fluzodrive/other": "x"})
    assert "state.sqlite3" in store_error(root).message
    write(root / ".gitignore", b".fluzodrive/\n")
    error = store_error(root)
    assert "git rm -r --cached" in error.hint
    shutil.rmtree(root / ".fluzodrive")
    store_error(root)


def test_a_store_that_is_partly_ignored_is_refused(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {".gitignore": ".fluzodrive/*\n!.fluzodrive/artifacts\n"})
    store_error(root)


def test_a_store_that_is_a_link_is_refused(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {".gitignore": ".fluzodrive\n"})
    (tmp_path / "elsewhere").mkdir()
    (root / ".fluzodrive").symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in store_error(root).message


def test_a_broken_repository_is_an_error_with_gits_own_words(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {"a": "a"})
    with opened(root) as ws:
        (root / ".git/index").write_bytes(b"garbage")
        with pytest.raises(FluzoError) as caught:
            ws.git.status()
    assert caught.value.code == "workspace_unusable"
    assert "index" in caught.value.message


def test_a_cancelled_inspection_is_a_result(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {"a": "a"})

    async def work(backend: LocalBackend, cancel: asyncio.Event) -> ProcessResult:
        cancel.set()
        return await backend.git(GitRequest("status"))

    assert with_backend(root, work).cancelled
