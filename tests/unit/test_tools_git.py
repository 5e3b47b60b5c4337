import pytest
from support.fake_backend import FakeBackend, ended
from support.tool_bench import ToolBench, is_plain

from fluzo.core.contracts import GitRequest
from fluzo.tools.shared import ToolLimits


@pytest.fixture
def bench(tmp_path):
    return ToolBench(FakeBackend(tmp_path), ToolLimits(context_bytes=4_096))


@pytest.mark.parametrize(
    ("args", "request_", "summary"),
    [
        ({"subcommand": "diff"}, GitRequest("diff"), "git diff"),
        (
            {"subcommand": "diff", "staged": True, "rev": "HEAD~1", "paths": ["./a.py"]},
            GitRequest("diff", ("--staged", "HEAD~1"), ("a.py",)),
            "git diff --staged HEAD~1 a.py",
        ),
        ({"subcommand": "show"}, GitRequest("show", ("HEAD",)), "git show"),
        ({"subcommand": "show", "rev": "v1:a.py"}, GitRequest("show", ("v1:a.py",)), "git show v1:a.py"),
        (
            {"subcommand": "blame", "paths": ["a b.py"]},
            GitRequest("blame", ("--date=short",), ("a b.py",)),
            "git blame a b.py",
        ),
        ({"subcommand": "branch"}, GitRequest("branch", ("--list", "--all", "--verbose")), "git branch"),
    ],
)
def test_each_inspection_asks_for_exactly_this(bench, args, request_, summary):
    operation = bench.describe("git", **args)
    assert (operation.summary, operation.action, operation.effect) == (summary, "git_read", "read")
    bench.execute(operation, **args)
    assert bench.backend.asked == [request_]


def test_a_log_is_bounded_without_being_told(bench):
    bench.call("git", subcommand="log", rev="main..HEAD", paths=["src"])
    (request,) = bench.backend.asked
    assert "--max-count=20" in request.options
    assert request.options[-1] == "main..HEAD"
    assert request.paths == ("src",)


@pytest.mark.parametrize(
    "args",
    [
        {"subcommand": "diff", "rev": "--output=PWNED"},
        {"subcommand": "log", "rev": "-1"},
        {"subcommand": "show", "rev": "HEAD --ext-diff"},
        {"subcommand": "show", "rev": "HEAD\n--textconv"},
        {"subcommand": "diff", "paths": ["--output=x"]},
        {"subcommand": "diff", "paths": ["./-x"]},
        {"subcommand": "diff", "paths": ["../other"]},
        {"subcommand": "diff", "paths": ["/etc/passwd"]},
        {"subcommand": "diff", "paths": [":(exclude)a"]},
        {"subcommand": "diff", "paths": [""]},
        {"subcommand": "blame"},
        {"subcommand": "blame", "paths": ["a", "b"]},
        {"subcommand": "branch", "rev": "new-branch"},
        {"subcommand": "status", "staged": True},
        {"subcommand": "diff", "max_count": 3},
    ],
)
def test_nothing_becomes_an_option_or_is_silently_ignored(bench, args):
    assert bench.error("git", **args).code == "tool_arguments"
    assert bench.backend.asked == []


def test_a_file_named_inside_a_revision_is_part_of_the_scope(bench):
    assert bench.describe("git", subcommand="show", rev="HEAD:./.env").paths == (".env",)
    assert bench.describe("git", subcommand="show", rev=":0:.env", paths=["b"]).paths == ("b", ".env")
    assert bench.describe("git", subcommand="show", rev=":/fix").paths == ()


def test_status_shows_real_names(bench):
    bench.backend.result = ended(
        '## main...origin/main [ahead 1]\0 M 测试.txt\0?? a b.txt\0?? q"t.txt\0?? n\nl.txt\0'.encode()
        + b"R  new.py\0old.py\0?? caf\xe9\0"
    )
    result = bench.call("git", subcommand="status")
    assert result.text.split("\n") == [
        "main...origin/main [ahead 1]",
        " M 测试.txt",
        "?? a b.txt",
        '?? q"t.txt',
        '?? "n\\nl.txt"',
        "R  old.py -> new.py",
        '?? "caf\\udce9"',
    ]
    assert is_plain(result.text)


def test_a_clean_status_and_an_empty_diff_say_so(bench):
    bench.backend.result = ended(b"## main\0")
    assert bench.call("git", subcommand="status").text == "main\nnothing has changed"
    bench.backend.result = ended(b"")
    assert bench.call("git", subcommand="diff").text == "no differences"


def test_a_failure_carries_what_git_said(bench):
    bench.backend.result = ended(b"fatal: bad revision 'x'\n", 128)
    result = bench.call("git", subcommand="show", rev="x")
    assert (result.ok, result.code) == (False, "git_failed")
    assert result.text == "git show failed (exit 128): fatal: bad revision 'x'"


def test_a_long_diff_is_cut_and_kept_whole(bench):
    bench.backend.result = ended(b"+line\x1b[0m\n" * 5_000)
    result = bench.call("git", subcommand="diff")
    assert len(result.text.encode()) <= 4_096
    assert "bytes omitted" in result.text
    assert "\x1b" not in result.text
    assert result.artifact == bench.backend.result.output
