import pytest

from fluzo.context import compact
from fluzo.context.assemble import estimate_request, first_user_message, system_message
from fluzo.context.window import Window, WindowRules
from fluzo.core.records import Fragment, Message, ToolCall, Usage


def exchange(number: int, size: int = 400) -> list[Message]:
    calls = (ToolCall(f"a{number}", "read_file", "{}"), ToolCall(f"b{number}", "read_file", "{}"))
    return [
        Message("assistant", f"step {number}", tool_calls=calls),
        Message("tool", "x" * size, tool_call_id=f"a{number}"),
        Message("tool", "y" * size, tool_call_id=f"b{number}"),
    ]


SUMMARY = "\n".join(f"{heading}\nsomething" for heading in compact.HEADINGS)


def test_available_input_is_the_window_without_reply_and_the_greater_reserve() -> None:
    assert Window(WindowRules(32768, 4096)).available == 32768 - 4096 - 1638
    assert Window(WindowRules(8192, 1024)).available == 8192 - 1024 - 1024
    assert Window(WindowRules(8192, 1024)).threshold == int(0.8 * 6144)
    assert Window(WindowRules(1024, 4096)).available == 0


def test_estimates_follow_what_the_server_reports() -> None:
    window = Window(WindowRules(32768, 4096))
    messages = (Message("user", "word " * 1000),)
    raw = estimate_request(messages, ())
    window.observe(raw, Usage(raw * 2, 5))
    assert window.estimate(messages, ()) == pytest.approx(raw * 2, abs=1)
    window.observe(raw, Usage(raw, 5))
    assert window.estimate(messages, ()) == pytest.approx(raw * 1.5, abs=1)


def test_an_absurd_report_moves_the_estimate_only_so_far() -> None:
    window = Window(WindowRules(32768, 4096))
    window.observe(100, Usage(1_000_000, 5))
    assert window.factor == 2.5


@pytest.mark.parametrize("usage", [None, Usage(0, 0), Usage(50, 5, estimated=True)])
def test_no_report_and_zeros_leave_the_own_estimate_in_charge(usage: Usage | None) -> None:
    window = Window(WindowRules(32768, 4096))
    assert window.observe(100, usage) == 0
    assert window.factor == 1.0


def test_a_server_that_cuts_prompts_off_is_found_out_once() -> None:
    window = Window(WindowRules(32768, 1024))
    assert window.observe(3000, Usage(2900, 100)) == 0
    assert window.observe(5000, Usage(3996, 100)) == 0
    assert window.observe(6000, Usage(3996, 100)) == 4096
    assert window.size == 4096
    assert window.observe(7000, Usage(3996, 100)) == 0, "it is told once"


def test_the_same_total_for_the_same_prompt_is_nothing_special() -> None:
    window = Window(WindowRules(32768, 1024))
    window.observe(3000, Usage(2900, 100))
    assert window.observe(3000, Usage(2900, 100)) == 0
    assert window.size == 32768


def test_a_cut_never_parts_a_call_from_its_results() -> None:
    messages = [Message("user", "go"), *(message for number in range(6) for message in exchange(number))]
    for tail_tokens in range(0, 2000, 37):
        cut = compact.cut(messages, tail_tokens)
        assert (*cut.middle, *cut.tail) == tuple(messages)
        assert cut.middle, "something is left to summarize"
        for part in (cut.middle, cut.tail):
            asked = {call.id for message in part for call in message.tool_calls}
            assert asked == {message.tool_call_id for message in part if message.role == "tool"}
        assert not cut.tail or cut.tail[0].role == "assistant"


def test_a_second_cut_after_a_compaction_keeps_pairs_whole_too() -> None:
    messages = [Message("user", "go"), *(message for number in range(6) for message in exchange(number))]
    first = compact.cut(messages, 300)
    again = [*compact.compacted("go", SUMMARY, "", first.tail), *exchange(9), *exchange(10)]
    second = compact.cut(again, 300)
    assert second.tail and second.tail[0].role == "assistant"
    assert {m.tool_call_id for m in second.tail if m.role == "tool"} == {
        call.id for m in second.tail for call in m.tool_calls
    }


def test_one_huge_result_is_cut_into_parts_that_hold_all_of_it() -> None:
    text = "".join(f"line {number} é測\n" for number in range(20_000))
    parts = compact.segments([Message("tool", text, tool_call_id="a")], 2000)
    assert len(parts) > 10
    assert text in "".join(parts)
    assert all(len(part.encode()) <= 2000 * 3.5 + 8 for part in parts)


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        ("", "## Goal"),
        ("just some text", "## Goal"),
        (SUMMARY.replace("## Files\nsomething", ""), "## Files"),
        (SUMMARY.replace("## Open work\nsomething", "## Open work\n\n"), "empty"),
        (SUMMARY + "x" * 20_000, "longer"),
    ],
)
def test_a_summary_that_will_not_do_is_named_for_what_is_wrong(summary: str, why: str) -> None:
    assert why in compact.problem(summary, 2048)


def test_a_summary_with_all_sections_will_do() -> None:
    assert compact.problem(SUMMARY, 2048) == ""


def test_the_compacted_conversation_keeps_the_request_word_for_word() -> None:
    (first, *tail) = compact.compacted("fix  the test\nplease", SUMMARY, "files changed: a", tuple(exchange(1)))
    assert first.role == "user" and first.text.startswith("fix  the test\nplease\n")
    assert "files changed: a" in first.text
    assert tail == exchange(1)


def test_instructions_of_the_repository_and_skills_join_the_system_message_and_facts_the_request() -> None:
    fragments = (
        Fragment("workspace", "git status", "clean"),
        Fragment("instructions:AGENTS.md", "AGENTS.md", "Use tabs.", truncated=True),
        Fragment("skill:review.md", "review.md", "Be strict."),
    )
    system = system_message("You are.", fragments).text
    assert "Project notes from AGENTS.md (cut: the file is longer):\nUse tabs." in system
    assert "Skill chosen by the user, review.md:\nBe strict." in system
    assert "clean" not in system
    assert first_user_message("fix", fragments).text == "fix\n\n<context>\nclean\n</context>"
