from typing import Any

import pytest

from fluzo.commands.presenter import outcome_text
from fluzo.core.outcome import outcome_words, verb_of
from fluzo.screens.rows import facts_of

RESULTS = [
    ({"exit_status": 101, "elapsed_seconds": 1.8}, ["exit 101", "1.8 s"]),
    ({"exit_status": None, "timed_out": True, "elapsed_seconds": 60.0}, ["timed out", "60.0 s"]),
    ({"exit_status": None, "signal": "SIGSEGV"}, ["signal SIGSEGV"]),
    ({"exit_status": None, "cancelled": True, "termination": "killed"}, ["cancelled", "killed"]),
    ({"exit_status": 0, "still_running": [7, 8]}, ["exit 0", "still running: 7, 8"]),
    ({"lines_added": 4, "lines_removed": 2}, ["+4 -2"]),
    ({"lines": 1}, ["1 line"]),
    ({"hits": 2, "truncated": True}, ["2 hits, more exist"]),
    ({"message": "it is not there"}, ["it is not there"]),
    ({"message": 3}, []),
    ({}, []),
]


@pytest.mark.parametrize(("result", "words"), RESULTS)
def test_a_result_has_the_same_words_in_every_front_end(result: dict[str, Any], words: list[str]) -> None:
    assert outcome_words(result, lambda seconds: f"{seconds:.1f} s") == words
    assert outcome_text(result) == "   ".join(words)
    if result.get("elapsed_seconds") != 60.0:  # The screen gives minutes as a clock.
        assert facts_of(result) == "  ".join(words)


def test_what_a_tool_wrote_is_made_printable_by_who_shows_it() -> None:
    result = {"message": "a\x1b[2J\u202eb"}
    assert "\x1b" not in outcome_text(result) and "\u202e" not in outcome_text(result)
    assert facts_of(result) == "a<U+001B>[2J<U+202E>b"


@pytest.mark.parametrize(
    ("tool", "action", "verb"),
    [
        ("run", "execute", "run"),
        ("git", "git_push", "git"),
        ("read_file", "", "read"),
        ("list_files", "invalid", "list"),
        ("edit_file", "plan", "edit"),
        ("update_plan", "plan", "plan"),
        ("search", "", "search"),
        ("a_tool_of_tomorrow", "", "a_tool_of_tomorrow"),
        ("", "", "operation"),
    ],
)
def test_an_operation_has_a_verb(tool: str, action: str, verb: str) -> None:
    assert verb_of(tool, action) == verb
