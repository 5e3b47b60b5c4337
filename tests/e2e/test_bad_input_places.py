import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.complaints import Done, complaint, error_object, fluzo_in
from support.project import FLUZO, configure, make_project, say, scripted, shipped
from support.workspaces import git, make_repository

from fluzo.simulator.server import Simulator

SETUP = ("init", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--yes")
UNUSABLE = ("workspace_unusable", 11)


def checks(done: Done) -> dict[str, str]:
    """The doctor's findings, name -> status; a name that is not there was left out."""
    lines = [line for line in done.stdout.decode().split("\n") if line and not line.startswith(" ")]
    return {line.split()[1]: line.split()[0] for line in lines}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def path_without_git(folder: Path) -> Mapping[str, str]:
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(sys.executable)
    return {"PATH": str(folder / "bin")}


# --- no Git, no repository --------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("run", "Go."), ("tasks", "list"), ("replay", "last"), ("history", "list")])
def test_outside_a_repository_the_way_to_one_is_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    words = complaint(fluzo_in(tmp_path, *command), *UNUSABLE)
    assert words == f"{tmp_path} is not in a Git repository.\n  To make it one, run: git init"
    assert error_object(fluzo_in(tmp_path, *command, "--output", "json"), *UNUSABLE) == words
    assert names(tmp_path) == []


def test_outside_a_repository_setup_works_and_says_what_comes_first(tmp_path: Path) -> None:
    done = fluzo_in(tmp_path, *SETUP)
    assert done.returncode == 0
    assert b"not in a Git repository" in done.stdout
    assert done.stdout.endswith(b'Next: git init, then fluzo run "fix the failing test"\n')


def test_outside_a_repository_the_doctor_says_it_once(tmp_path: Path) -> None:
    done = fluzo_in(tmp_path, "doctor")
    assert done.returncode == 1
    assert done.stdout.count(b"git init") == 1
    assert checks(done)["workspace"] == "fail"
    assert "exclude" not in checks(done)


@pytest.mark.parametrize("command", [("run", "Go."), ("tasks", "list"), SETUP, ("config", "show"), ("demo",)])
def test_a_machine_without_git_is_told_to_install_it(tmp_path: Path, command: tuple[str, ...]) -> None:
    repository = make_repository(tmp_path / "r", {"a.txt": "a\n"})
    (repository / "src").mkdir()
    without_git = path_without_git(tmp_path)
    words = complaint(fluzo_in(repository / "src", *command, env=without_git), *UNUSABLE)
    assert words.startswith("Git is not installed, or not in PATH.\n")
    assert "apt install git" in words
    # Without Git nobody knows where the root is, so the folder must not get settings of its own.
    assert names(repository / "src") == []


def test_a_machine_without_git_does_not_stop_the_doctor(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r", {"a.txt": "a\n"})
    done = fluzo_in(repository, "doctor", env=path_without_git(tmp_path))
    assert done.returncode == 1
    assert checks(done) == {"python": "ok", "sqlite": "ok", "git": "fail", "confinement": "ok", "workspace": "fail"}


@pytest.mark.parametrize("command", [("run", "Go."), ("tasks", "list"), SETUP, ("config", "show")])
def test_a_bare_repository_has_no_files_to_work_on(tmp_path: Path, command: tuple[str, ...]) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "b")], check=True)
    before = names(tmp_path / "b")
    words = complaint(fluzo_in(tmp_path / "b", *command), *UNUSABLE)
    assert "is a bare Git repository; there are no files to work on." in words
    assert "clone with a working tree" in words
    assert names(tmp_path / "b") == before


def test_the_inside_of_a_git_directory_gets_no_settings(tmp_path: Path) -> None:
    inside = make_repository(tmp_path / "r", {"a.txt": "a\n"}) / ".git"
    before = names(inside)
    for command in (("run", "Go."), SETUP):
        assert "outside the working tree" in complaint(fluzo_in(inside, *command), *UNUSABLE)
    assert names(inside) == before


def test_a_repository_that_git_cannot_read_is_shown_in_gits_words(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r", {"a.txt": "a\n"})
    (repository / ".git" / "config").write_text("[core\n")
    for command in (("run", "Go."), SETUP):
        assert "bad config line 1" in complaint(fluzo_in(repository, *command), *UNUSABLE)
    assert names(repository) == [".git", "a.txt"]


# --- odd repositories that work ---------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [False, True], ids=["without a commit", "detached"])
def test_a_run_works_without_a_branch_to_stand_on(tmp_path: Path, commits: bool) -> None:
    root = tmp_path / "r"
    if commits:
        make_repository(root, {"a.txt": "a\n"})
        git(root, "checkout", "-q", "--detach")
    else:
        root.mkdir()
        git(root, "init", "-q")
        (root / "a.txt").write_text("a\n")
    write = {
        "respond": {
            "parts": [{"tool_call": {"id": "c", "name": "write_file", "arguments": {"path": "b", "content": ""}}}]
        }
    }
    with Simulator(scripted(write, say("done"))) as simulator:
        result = configure(root, simulator.base_url).json("run", "Go.")
        assert simulator.finish() == []
    assert [(change["path"], change["status"]) for change in result["changes"]] == [("b", "added")]
    assert fluzo_in(root, "doctor").returncode == 0


# --- directories ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["run Go.", "run -o json Go.", "tasks list", "config show", " ".join(SETUP), "doctor", "config path"]
)
def test_a_working_directory_that_is_gone_is_said_to_be_gone(tmp_path: Path, command: str) -> None:
    script = f'mkdir gone && cd gone && rmdir ../gone && exec "{FLUZO}" {command}'
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=False)
    if command == "doctor":
        assert done.returncode == 1
        assert checks(done)["workspace"] == "fail"
        assert b"The current directory no longer exists.  [workspace_unusable]" in done.stdout
    else:
        read = error_object if "json" in command else complaint
        assert read(done, *UNUSABLE).startswith("The current directory no longer exists.\n")
    assert names(tmp_path) == []


@pytest.mark.parametrize(("name", "cause"), [("nowhere", "No such file"), ("file.txt", "Not a directory")])
def test_a_workspace_that_is_no_directory_is_named(tmp_path: Path, name: str, cause: str) -> None:
    (tmp_path / "file.txt").write_text("")
    for command in (("run", "Go."), ("tasks", "list"), SETUP):
        words = complaint(fluzo_in(tmp_path, "-C", name, *command), *UNUSABLE)
        assert name in words
        assert cause in words


def test_a_workspace_that_somebody_else_works_in_names_them(tmp_path: Path) -> None:
    hold = {"respond": {"parts": [{"hold": "open"}]}}
    with Simulator(scripted(hold)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        first = project.start("run", "Go.", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert simulator.wait_until_held("open", 60)
            words = error_object(project.fluzo("run", "--output", "json", "Go."), "workspace_owned", 11)
            assert f"process {first.pid}" in words
            assert project.fluzo("tasks", "list").returncode == 0
        finally:
            first.terminate()
            assert first.wait(60) == 130


# --- homes and languages ----------------------------------------------------------------------------------------

_HOMES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_without_a_home_there_is_no_consent_and_nothing_is_contacted(tmp_path: Path, home: str | None) -> None:
    with Simulator(shipped("text-only")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        # The lock goes here, instead of into a directory of /tmp that other tests share.
        env = {"XDG_RUNTIME_DIR": str(tmp_path)} | ({} if home is None else {"HOME": home})
        without = [name for name in _HOMES if name not in env]
        for command in (("run", "Go."), ("config", "trust", "--yes"), (*SETUP, "--force")):
            done = fluzo_in(project.root, *command, env=env, without=without)
            words = complaint(done, "storage_failed", 10)
            assert "HOME is not set" in words
            assert "XDG_CONFIG_HOME" in words
        assert simulator.requests == []
        assert not (project.root / "relative").exists()
        for command in (("tasks", "list"), ("config", "show")):
            assert fluzo_in(project.root, *command, env=env, without=without).returncode == 0


def test_without_a_home_the_demo_still_plays(tmp_path: Path) -> None:
    done = fluzo_in(tmp_path, "demo", "two-turn", without=_HOMES)
    assert (done.returncode, names(tmp_path)) == (0, [])


@pytest.mark.parametrize(
    "env",
    [
        {"LANG": "C"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"LC_ALL": "de_XX.nowhere"},
        {"PYTHONIOENCODING": "ascii"},
    ],
)
def test_names_that_the_language_lacks_are_written_as_escapes(tmp_path: Path, env: dict[str, str]) -> None:
    root = make_repository(tmp_path / "caf\u00e9", {"s\u00fc\u00df.txt": "\u4f60\n"})
    assert fluzo_in(root, *SETUP, env=env).returncode == 0
    for command in (("doctor",), ("config", "show"), ("config", "path"), ("tasks", "list"), ("demo", "--list")):
        done = fluzo_in(root, *command, env=env)
        assert done.returncode == 0, (command, done.stderr)
        assert b"Error" not in done.stderr
    with Simulator(shipped("hostile-text")) as simulator:
        again = fluzo_in(
            root, "init", "--base-url", simulator.base_url, "--model", "scripted", "--yes", "--force", env=env
        )
        assert again.returncode == 0, again.stderr
        done = fluzo_in(root, "run", "--output", "json", "Say h\u00e9llo.", env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


def test_the_environment_of_a_test_is_not_the_users(isolation: Path) -> None:
    assert os.environ["HOME"] == str(isolation)
