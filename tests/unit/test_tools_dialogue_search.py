import pytest
from support.fake_backend import FakeBackend, hits, listing
from support.tool_bench import ToolBench, is_plain

from fluzo.tools.dialogue import answered
from fluzo.tools.shared import ToolLimits


@pytest.fixture
def bench(tmp_path):
    return ToolBench(FakeBackend(tmp_path), ToolLimits(context_bytes=4_096))


def test_a_question_is_an_operation_that_only_the_user_can_answer(bench):
    operation = bench.describe("ask_user", question="Which one?\nA or B", choices=["A", "B"])
    assert (operation.action, operation.effect) == ("ask", "user")
    assert operation.argv == ("Which one?\nA or B", "A", "B")
    assert operation.summary == "Which one? ..."
    assert bench.error("ask_user", question="Which one?").code == "tool_failed"
    assert bench.error("ask_user", question=" ").code == "tool_arguments"


def test_an_answer_is_told_as_the_users_words():
    assert answered(" the second \ud835").text == "The user answers: the second \\ud835"
    assert "empty answer" in answered(" ").text
    assert answered("", ['a, "b"', "ü"]).text == 'The user chooses ["a, \\"b\\"", "ü"]'
    assert answered(" soon ", ["a"]).text == 'The user chooses ["a"] and adds: soon'


def test_a_plan_comes_back_as_plain_steps(bench):
    steps = [
        {"step": " look ", "status": "completed"},
        {"step": "", "status": "pending"},
        {"step": "fix \ud835", "status": "in_progress"},
    ]
    operation = bench.describe("update_plan", steps=steps)
    assert (operation.action, operation.effect, operation.summary) == ("plan", "none", "1 of 2 completed")
    result = bench.execute(operation, steps=steps)
    assert result.text == "plan updated"
    assert result.detail == {
        "steps": [{"step": "look", "status": "completed"}, {"step": "fix \\ud835", "status": "in_progress"}]
    }
    assert bench.error("update_plan", steps=[]).code == "tool_arguments"


def test_a_listing_marks_folders_and_quotes_misleading_names(bench):
    bench.backend.listing = listing("src/", "测试.txt", "a b.txt", 'q"t.txt', "n\nl.txt", "caf\udce9")
    result = bench.call("list_files")
    assert result.text.split("\n") == ["src/", "测试.txt", "a b.txt", 'q"t.txt', '"n\\nl.txt"', '"caf\\udce9"']
    assert is_plain(result.text)


def test_an_empty_listing_says_why_it_may_be(bench):
    assert "ignored by Git" in bench.call("list_files").text


def test_matches_are_shown_with_place_and_cut_to_size(bench):
    bench.backend.found = hits(("a.py", 3, "x = 1\r\n"), ("caf\udce9", 1, "y" * 1000 + "\ud835\0"))
    first, second = bench.call("search", pattern="x").text.split("\n")
    assert first == "a.py:3: x = 1"
    assert second == '"caf\\udce9":1: ' + "y" * 300 + " [...]"
    bench.backend.found = hits()
    assert bench.call("search", pattern="x").text == "[no match]"


def test_a_search_is_described_by_pattern_and_place(bench):
    assert bench.describe("search", pattern="x\ny", path="src/").summary == "x ... in src"
    assert bench.describe("search", pattern="x").paths == (".",)


@pytest.mark.parametrize("path", ["", " ", "a\0b", "a\ud835b"])
def test_what_cannot_be_a_path_is_refused(bench, path):
    assert bench.error("list_files", path=path).code == "tool_arguments"


def test_one_file_has_one_spelling(bench):
    assert bench.describe("read_file", path=".//src/./a.py").paths == ("src/a.py",)
    assert bench.describe("read_file", path="../a.py").paths == ("../a.py",)
    assert bench.describe("read_file", path="/etc/passwd").paths == ("/etc/passwd",)
