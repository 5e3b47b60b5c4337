import os
import sys
from pathlib import Path

import pytest
from support.local_bench import git, local_bench
from support.tool_bench import is_plain

from fluzo.core.errors import FluzoError
from fluzo.tools.shared import ToolLimits

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
ODD_NAMES = ("测试.txt", "a b.txt", 'q"t.txt', "n\nl.txt")
SHOWN_NAMES = ("测试.txt", "a b.txt", 'q"t.txt', '"n\\nl.txt"')


@pytest.fixture
def root(tmp_path):
    return tmp_path / "work"


@pytest.fixture
def bench(root):
    with local_bench(root, ToolLimits(context_bytes=8_192)) as bench:
        yield bench


def commit(root, **files):
    for name, text in files.items():
        (root / name.replace("_", ".")).write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "-qm", "first")


def refusal(bench, name, **args):
    with pytest.raises(FluzoError) as caught:
        bench.call(name, **args)
    return caught.value


# --- names ----------------------------------------------------------------------------------------------------


def test_odd_names_are_the_same_everywhere_and_can_be_used(root, bench):
    for name in ODD_NAMES:
        (root / name).write_text("needle\n")
    listed = bench.call("list_files").text.split("\n")
    status = bench.call("git", subcommand="status").text.split("\n")
    found = bench.call("search", pattern="needle").text.split("\n")
    for name, shown in zip(ODD_NAMES, SHOWN_NAMES, strict=True):
        assert shown in listed
        assert f"?? {shown}" in status
        assert f"{shown}:1: needle" in found
        assert bench.call("read_file", path=name).text == "1\tneedle"


def test_a_name_that_is_no_unicode_comes_out_as_plain_text(root, bench):
    name = os.fsdecode(b"caf\xe9.txt")
    (root / name).write_bytes(b"needle \xe9\n")
    for result in (
        bench.call("list_files"),
        bench.call("search", pattern="needle"),
        bench.call("git", subcommand="status"),
    ):
        assert '"caf\\udce9.txt"' in result.text
        assert is_plain(result.text)
        assert is_plain(result.detail)


def test_diffs_show_real_names(root, bench):
    git(root, "commit", "-q", "--allow-empty", "-m", "none")
    (root / "测试.txt").write_text("a\n")
    git(root, "add", "--all")
    assert "+++ b/测试.txt" in bench.call("git", subcommand="diff", staged=True).text


# --- git ------------------------------------------------------------------------------------------------------


def test_every_git_inspection_works_on_a_real_repository(root, bench):
    commit(root, a_py="one\ntwo\n")
    (root / "a.py").write_text("one\n2\n")
    call = bench.call
    assert call("git", subcommand="status").text == "main\n M a.py"
    assert "-two\n+2" in call("git", subcommand="diff", paths=["a.py"]).text
    assert call("git", subcommand="diff", staged=True).text == "no differences"
    assert "first" in call("git", subcommand="log", max_count=1).text
    assert "+two" in call("git", subcommand="show").text
    assert call("git", subcommand="show", rev="HEAD:a.py").text == "one\ntwo"
    assert "two" in call("git", subcommand="blame", rev="HEAD", paths=["a.py"]).text
    assert "* main" in call("git", subcommand="branch").text
    failed = call("git", subcommand="show", rev="nowhere")
    assert (failed.ok, failed.code) == (False, "git_failed")
    assert "nowhere" in failed.text


def test_git_in_a_repository_without_a_commit_works_or_says_why(bench):
    assert "No commits yet" in bench.call("git", subcommand="status").text
    assert "does not have any commits yet" in bench.call("git", subcommand="log").text


def test_git_with_a_detached_head_says_so(root, bench):
    commit(root, a_py="one\n")
    git(root, "checkout", "-q", "--detach")
    first = bench.call("git", subcommand="status").text.split("\n")[0]
    assert "detached" in first.lower() or "no branch" in first
    assert "first" in bench.call("git", subcommand="log", max_count=1).text
    assert bench.call("git", subcommand="branch").ok


def test_inspecting_runs_nothing_that_the_repository_configures(root, bench, tmp_path):
    commit(root, a_txt="one\n")
    mark = tmp_path / "PWNED"
    helper = f"touch {mark};"
    for key in ("diff.external", "core.fsmonitor", "core.pager", "diff.evil.textconv", "filter.evil.clean"):
        git(root, "config", key, f"sh -c '{helper}'")
    (root / ".gitattributes").write_text("* diff=evil filter=evil\n")
    (root / "a.txt").write_text("two\n")
    for args in (
        {"subcommand": "status"},
        {"subcommand": "diff"},
        {"subcommand": "log"},
        {"subcommand": "show"},
        {"subcommand": "blame", "paths": ["a.txt"]},
    ):
        bench.call("git", **args)
    assert not mark.exists()


# --- commands -------------------------------------------------------------------------------------------------


def test_a_command_gets_its_arguments_as_they_are_and_no_input(root, bench):
    script = "import sys; print(sys.argv[1:], repr(sys.stdin.read()))"
    result = bench.call("run", argv=[sys.executable, "-c", script, "a b", "$HOME", "*"])
    assert result.ok
    assert result.text.endswith("\n['a b', '$HOME', '*'] ''")
    assert result.text.startswith("exit 0 after ")


def test_a_script_runs_in_the_folder_it_names(root, bench):
    (root / "sub").mkdir()
    result = bench.call("run", shell=True, script='echo "$FX" > out && exit 3', cwd="sub")
    assert (result.ok, result.code, result.detail["exit_status"]) == (False, "command_failed", 3)
    assert (root / "sub/out").read_text() == "1\n"


def test_a_program_that_is_not_there_is_an_error_and_nothing_else_runs(root, bench):
    program = root / "no-such-program.py"
    program.write_text("open('ran', 'w')\n")
    assert "no-such-program" in refusal(bench, "run", argv=["no-such-program"]).message
    assert refusal(bench, "run", argv=["./no-such-program.py"])
    assert not (root / "ran").exists()


def test_binary_output_reaches_the_model_as_text(root, bench):
    raw = (CASES / "s12-binary-output.bin").read_bytes()
    (root / "out.bin").write_bytes(raw)
    result = bench.call("run", argv=["cat", "out.bin"])
    assert result.text.endswith("\nstart\n\\xff\\xfe\\x00\\x01 caf\\xe9 red link 100%\nend without newline")
    assert is_plain(result.text)


def test_a_command_over_its_time_is_ended_and_says_so(bench):
    result = bench.call("run", argv=["sleep", "300"], timeout_seconds=0.2)
    assert (result.ok, result.code) == (False, "timed_out")
    assert result.text.startswith("timed out after ")


def test_a_process_left_behind_is_named(bench):
    result = bench.call("run", shell=True, script="sleep 300 & echo done")
    assert result.ok
    (pid,) = result.detail["still_running"]
    assert f"still running in the background: pids {pid}" in result.text
    assert result.text.endswith("\ndone")


def test_endless_output_is_bounded_and_keeps_both_ends(bench):
    script = "print('first'); [print('x' * 99) for _ in range(50_000)]; print('last')"
    result = bench.call("run", argv=[sys.executable, "-c", script])
    assert len(result.text.encode()) <= 8_192
    assert "\nfirst\n" in result.text
    assert result.text.endswith("\nlast")
    assert result.detail["truncated"] is True
    assert len(result.artifact) >= 2 * 1024 * 1024


# --- finding --------------------------------------------------------------------------------------------------


def test_listing_and_searching_leave_out_what_git_ignores(root, bench):
    (root / ".gitignore").write_text("/build\n")
    for name in ("build/out.py", "src/a.py", "src/deep/er/b.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x = f(1)\n")
    assert bench.call("list_files").text.split("\n") == [".gitignore", "src/", "src/a.py", "src/deep/"]
    assert bench.call("list_files", path="src/deep", depth=9).text.split("\n") == ["src/deep/er/", "src/deep/er/b.py"]
    assert bench.call("search", pattern="f(1)").text.split("\n") == [
        "src/a.py:1: x = f(1)",
        "src/deep/er/b.py:1: x = f(1)",
    ]
    assert bench.call("search", pattern=r"f\(\d\)", regex=True, path="src", glob="a*").text == "src/a.py:1: x = f(1)"
    assert refusal(bench, "search", pattern="f(", regex=True).code == "invalid_pattern"


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/passwd", ".git/config", ".fluzo", "leads-out/x"])
def test_what_lies_outside_or_is_protected_is_refused_by_every_tool(root, bench, tmp_path, path):
    (tmp_path / "outside.txt").write_text("x\n")
    (tmp_path / "x").write_text("x\n")
    (root / "leads-out").symlink_to(tmp_path)
    (root / "a.py").write_text("x\n")
    calls = [
        ("read_file", {"path": path}),
        ("edit_file", {"path": path, "old_text": "x", "new_text": "y"}),
        ("write_file", {"path": path, "content": "y"}),
        ("delete_file", {"path": path}),
        ("move_file", {"source": "a.py", "target": path}),
        ("run", {"argv": ["true"], "cwd": path}),
    ]
    for name, args in calls:
        assert refusal(bench, name, **args).code == "path_refused"
    assert (tmp_path / "outside.txt").read_text() == "x\n"
