import signal
from pathlib import Path

import pytest
from support.fake_backend import FakeBackend, ended
from support.tool_bench import ToolBench

from fluzo.core.contracts import ProcessRequest
from fluzo.tools.process import process_result
from fluzo.tools.shared import ToolLimits

CASES = Path(__file__).parents[2] / "fixtures" / "cases"


@pytest.fixture
def bench(tmp_path):
    return ToolBench(FakeBackend(tmp_path), ToolLimits(context_bytes=4_096), root="/home/me/repo")


def test_an_argument_vector_runs_as_it_is(bench):
    operation = bench.describe("run", argv=["echo", "a b", "$HOME", "*"], cwd="./sub/", timeout_seconds=5)
    assert operation.summary == "echo 'a b' '$HOME' '*'"
    assert (operation.action, operation.effect, operation.script) == ("execute", "execute", "")
    bench.execute(operation, argv=["echo", "a b", "$HOME", "*"])
    assert bench.backend.asked == [
        ProcessRequest(("echo", "a b", "$HOME", "*"), "sub", (("FX", "1"),), timeout_seconds=5, capture_bytes=2 * 2**20)
    ]


def test_a_script_runs_in_sh_and_is_shown_by_its_first_line(bench):
    operation = bench.describe("run", shell=True, script="cd src && ls\nmake")
    assert operation.summary == "cd src && ls ..."
    assert (operation.argv, operation.script) == ((), "cd src && ls\nmake")
    bench.execute(operation, shell=True, script="cd src && ls\nmake")
    assert bench.backend.asked[0].argv == ("sh", "-c", "cd src && ls\nmake")


def test_verification_may_describe_a_bare_argument_vector(bench):
    run = bench.registry.tool("run")
    describe = run.describe({"argv": ["cargo", "test"]}, bench.backend)
    with pytest.raises(StopIteration) as done:
        describe.send(None)
    assert done.value.value == bench.describe("run", argv=["cargo", "test"])


@pytest.mark.parametrize(("wanted", "given"), [(None, 120), (30, 30), (9999, 120)])
def test_a_timeout_can_be_shorter_than_the_limit_never_longer(bench, wanted, given):
    assert bench.describe("run", argv=["a"], timeout_seconds=wanted).timeout_seconds == given


def test_a_directory_below_the_root_may_be_absolute(bench):
    assert bench.describe("run", argv=["a"], cwd="/home/me/repo/src").cwd == "src"
    assert bench.describe("run", argv=["a"], cwd="/home/me/repo").cwd == "."
    assert bench.describe("run", argv=["a"], cwd="/home/me/repository").cwd == "/home/me/repository"


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"argv": []},
        {"script": "ls"},
        {"shell": True},
        {"shell": True, "argv": ["ls"]},
        {"shell": True, "script": " \n"},
        {"argv": ["ls"], "script": "ls"},
        {"argv": ["ls", "a\0b"]},
        {"argv": [" "]},
        {"shell": True, "script": "a\0b"},
    ],
)
def test_a_command_that_is_neither_one_nor_the_other_is_refused(bench, args):
    error = bench.error("run", **args)
    assert error.code == "tool_arguments"
    assert bench.backend.asked == []


@pytest.mark.parametrize(
    ("result", "first", "ok", "code"),
    [
        (ended(b"x"), "exit 0 after 1.8 s", True, ""),
        (ended(b"x", 101), "exit 101 after 1.8 s", False, "command_failed"),
        (ended(b"x", None, signal=signal.SIGSEGV), "ended by signal SIGSEGV after 1.8 s", False, "command_failed"),
        (
            ended(b"x", None, timed_out=True, termination="killed", signal=9),
            "timed out after 1.8 s; it was killed",
            False,
            "timed_out",
        ),
        (
            ended(b"x", 0, timed_out=True, termination="terminated"),
            "timed out after 1.8 s; it was terminated",
            False,
            "timed_out",
        ),
        (
            ended(b"x", None, cancelled=True, termination="uncertain"),
            "cancelled after 1.8 s; whether it has ended is not known",
            False,
            "cancelled",
        ),
    ],
)
def test_the_result_begins_with_how_it_ended(result, first, ok, code):
    outcome = process_result(result, ToolLimits())
    assert outcome.text == f"{first}\nx"
    assert (outcome.ok, outcome.code) == (ok, code)
    assert outcome.detail["termination"] == result.termination


def test_processes_left_running_are_named():
    text = process_result(ended(b"done\n", still_running=(12, 34)), ToolLimits()).text
    assert text == "exit 0 after 1.8 s\nstill running in the background: pids 12, 34\ndone"


def test_silence_is_said():
    assert process_result(ended(), ToolLimits()).text == "exit 0 after 1.8 s\n(no output)"


def test_output_is_cleaned():
    raw = (CASES / "s12-binary-output.bin").read_bytes()
    outcome = process_result(ended(raw), ToolLimits())
    assert outcome.text.endswith("red link 100%\nend without newline")
    assert outcome.artifact is None


def test_long_output_keeps_both_ends_and_all_of_it_as_an_artifact():
    raw = b"first line\n" + b"middle\n" * 50_000 + b"last line\n"
    outcome = process_result(ended(raw), ToolLimits(context_bytes=4_096))
    assert len(outcome.text.encode()) <= 4_096
    assert "\nfirst line\n" in outcome.text
    assert outcome.text.endswith("\nlast line")
    assert " bytes omitted ..." in outcome.text
    assert outcome.artifact == raw


def test_bytes_that_the_capture_lost_are_part_of_what_is_said():
    short = process_result(ended(b"a\nb\n", output_bytes=1_000_004, truncated=True), ToolLimits())
    assert "1000000 bytes in the middle of the output were not kept" in short.text
    assert short.artifact == b"a\nb\n"
    long = process_result(ended(b"x" * 10_000, output_bytes=1_010_000, truncated=True), ToolLimits(context_bytes=2_000))
    assert int(long.text.split("... ")[1].split()[0]) > 1_000_000
