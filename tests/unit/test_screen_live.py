from typing import Any

import pytest
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.events import OutputProgress, RetryProgress, TextDelta
from fluzo.screens.announce import context_notice
from fluzo.screens.blocks import Block
from fluzo.screens.changes import end_text
from fluzo.screens.chrome import context_style, end_hints, hint_text, sidebar, status
from fluzo.screens.keys import Registry
from fluzo.screens.render import BlockRenderer
from fluzo.screens.sanitize import last_lines
from fluzo.screens.state import Accepted, MessagesRead, Opened, ResultRead, State, Submitted, TaskView, reduce
from fluzo.screens.theme import UNICODE

FACTS = {
    "model": "m",
    "endpoint": "http://127.0.0.1:1/v1",
    "context_window": 1000,
    "compacts_at": 700,
    "health": [("telemetry", "off")],
}
BEGUN = (
    Opened("/w", FACTS),
    Submitted("r_1", "fix it", "2026-01-01T14:02:00Z"),
    Accepted("r_1", "t_1", "s_1"),
    event(1, events.TaskCreated("fix it", {"max_turns": 30})),
    event(2, events.TaskStateChanged("ready", "running")),
)


def after(*updates: Any, start: State | None = None, now: float = 10.0) -> State:
    state = start or State()
    for update in updates:
        state = reduce(state, update, now)
    return state


def running(tool: str, action: str, summary: str, number: int = 1) -> tuple[Any, ...]:
    asked = event(10 + number, events.OperationRequested(tool, action, summary, "f", 1, f"c_{number}"), f"o_{number}")
    return asked, event(20 + number, events.OperationIntended(tool, summary), f"o_{number}")


def drawn(state: State, key: int, now: float = 10.0, width: int = 76) -> list[str]:
    rows = BlockRenderer(UNICODE).rows(state.blocks[key], state.blocks.get(key - 1), width, now)
    return ["".join(part for _, part in row) for row in rows]


def side(state: State, width: int = 30) -> list[str]:
    return ["".join(part for _, part in row) for row in sidebar(state, width, 40, 12.0, UNICODE)]


# --- live output ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("one\ntwo\nthree\nfour\n", ["two", "three", "four"]),
        ("10%\r50%\r90%", ["90%"]),
        ("10%\r50%\r\n", ["50%"]),
        ("a\x1b[1G\x1b[Kb", ["b"]),
        ("\x1b]0;owned\x07x\x1b[2Jy\x00z\n", ["xyz"]),
        ("\n\n\n", []),
        ("bad \udcff byte", ["bad \\xff byte"]),
    ],
)
def test_the_last_lines_of_output_are_their_last_state_and_nothing_else(printed: str, shown: list[str]) -> None:
    assert ["".join(part for _, part in line) for line in last_lines(printed, 3)] == shown


def test_colours_of_output_are_tokens_and_last_over_lines() -> None:
    (first, second) = last_lines("\x1b[31mred\n still\x1b[0m plain\x1b[38;5;9m\n", 3)

    assert first == (("fg:ansired", "red"),)
    assert second == (("fg:ansired", " still"), ("", " plain"))


def test_a_running_row_shows_its_last_three_lines_until_it_ends() -> None:
    state = after(*BEGUN, *running("run", "execute", "make"))
    state = after(OutputProgress("t_1", "o_1", "1\n2\n3\n4\n", 8), start=state)
    assert drawn(state, 1)[2:] == ["  │ 2", "  │ 3", "  │ 4"]

    done = event(31, events.OperationEnded(True, "", "make", {"exit_status": 0}), "o_1")
    state = after(done, OutputProgress("t_1", "o_1", "late\n", 9), start=state)
    assert state.blocks[1].tool is not None
    assert state.blocks[1].tool.live == ()
    assert len(drawn(state, 1)) == 2


def test_a_line_that_is_too_long_is_cut_to_one_row() -> None:
    state = after(*BEGUN, *running("run", "execute", "make"), OutputProgress("t_1", "o_1", "x" * 500, 500))

    assert [len(row) for row in drawn(state, 1)[2:]] == [76]


def test_cut_output_says_how_much_is_missing_and_why() -> None:
    state = after(*BEGUN, *running("run", "execute", "make"))
    result = {"exit_status": 1, "output_bytes": 3_200_000, "truncated": True}
    state = after(event(31, events.OperationEnded(False, "command_failed", "make", result, "a_1"), "o_1"), start=state)
    tool = state.blocks[1].tool
    assert tool is not None
    block = state.blocks[1].changed(tool=tool._replace(output="\n".join(f"line {number}" for number in range(30))))
    state = state._replace(blocks=state.blocks.replace(block))

    rows = drawn(state, 1)

    assert rows[2:12] == [f"  │ line {number}" for number in range(20, 30)]
    assert rows[12] == "  │ 20 more lines, 130 bytes  (view limit; Ctrl+O all, v pager, y copy)"
    assert rows[13] == "  │ 3.2 MB printed, more than is kept; its middle is lost"


# --- streaming ------------------------------------------------------------------------------------------------


def test_a_text_that_stopped_growing_says_so_after_five_seconds_and_no_longer_when_it_grows() -> None:
    state = after(*BEGUN, TextDelta("t_1", 1, 0, "Hello"), now=10.0)

    assert drawn(state, 1, now=14.9)[1:] == ["Hello█"]
    assert drawn(state, 1, now=15.0)[1:] == ["Hello█", "no tokens for 5 s"]
    state = after(TextDelta("t_1", 1, 5, " you"), start=state, now=16.0)
    assert drawn(state, 1, now=16.0)[1:] == ["Hello you█"]
    state = after(event(9, events.MessageRecorded("m", "assistant", 1, 9)), start=state, now=17.0)
    assert drawn(state, 1, now=99.0)[1:] == ["Hello you"]


def test_a_retry_is_counted_down_in_the_status_row_and_ends_with_the_next_token() -> None:
    state = after(*BEGUN, RetryProgress("t_1", 1, 1, 2, 3.0, "No answer from\x1b[2J http://h"))
    assert state.blocks[1].source == "No answer from<U+001B>[2J http://h\nretry 1 of 2 in 3 s"

    def left(now: float) -> str:
        return "".join(part for _, part in status(state, 80, now, Registry(), "composer", "", UNICODE))

    assert "retry 1 of 2 in 3 s" in left(10.0)
    assert "retry 1 of 2 in 1 s" in left(12.0)
    state = after(TextDelta("t_1", 1, 0, "Here"), start=state)
    assert "retry" not in left(12.0)


# --- how a task ended -----------------------------------------------------------------------------------------

CHECKS = {"commands": [{"argv": ["pytest", "-q"], "ok": True}, {"argv": ["ruff", "check"], "ok": True}]}
CHANGES = [{"path": "a.py", "added": 20, "removed": 2}, {"path": "b.py", "added": 2, "removed": 0}]


def ending(**result: Any) -> str:
    return end_text({"changes": CHANGES, **result}, 151.0, TaskView("t_1"))


def test_a_completed_task_is_one_line_of_facts() -> None:
    passed = {**CHECKS, "verdict": "passed", "current": True}
    assert ending(status="completed", verification=passed) == (
        "done in 02:31   2 files +22 -2   checks passed: pytest -q, ruff check (current)"
    )
    assert ending(status="completed", verification={"verdict": "waived"}) == (
        "done, checks waived by you   02:31   2 files +22 -2"
    )
    assert ending(status="completed", verification={"verdict": "unverified"}).endswith(
        "unverified: no checks are declared"
    )


def test_a_blocked_task_says_its_cause_what_stays_how_often_it_was_tried_and_what_to_do() -> None:
    error = {"code": "x", "message": "No answer.", "hint": "Look there.", "detail": {"attempts": 3}}
    assert ending(status="blocked", reason="x", error=error).split("\n") == [
        "No answer.  [x]",
        "2 files +22 -2 were changed and stay.",
        "2 retries done.",
        "Look there.",
    ]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("terminated", "ended after SIGTERM"),
        ("killed", "was killed"),
        ("uncertain", "may still run"),
    ],
)
def test_a_cancelled_task_names_what_was_stopped_and_what_stays(how: str, told: str) -> None:
    state = after(*BEGUN, *running("run", "execute", "pytest -q"))
    cancelled = {"exit_status": None, "cancelled": True, "termination": how, "elapsed_seconds": 0.2}
    state = after(
        event(31, events.OperationEnded(False, "cancelled", "pytest -q", cancelled), "o_1"),
        event(32, events.TaskStateChanged("stopping", "cancelled", "cancelled")),
        ResultRead("t_1", {"task": {"result": {"status": "cancelled", "changes": []}}}),
        start=state,
    )

    assert state.blocks[2].source.split("\n") == [
        f'Cancelled by you. "pytest -q" {told}, 200 ms.',
        "No file was changed.",
    ]


@pytest.mark.parametrize(
    ("state_word", "reason", "left", "keys", "unchanged"),
    [
        ("blocked", "provider_unavailable", "blocked: model endpoint", "Ctrl+R retry", "Ctrl+R retry"),
        (
            "failed",
            "verification_failed",
            "failed after 00:20",
            "Ctrl+R retry  F5 changes",
            "Ctrl+R retry  Ctrl+P comm",
        ),
        ("cancelled", "cancelled", "cancelled after 00:20", "F5 changes  Ctrl+P commands", "Ctrl+P commands  F1 keys"),
        ("completed", "", "main", "F5 changes  Ctrl+P commands", "Ctrl+P commands  F1 keys"),
    ],
)
def test_the_status_row_says_the_state_and_the_keys_for_it(
    state_word: str, reason: str, left: str, keys: str, unchanged: str
) -> None:
    started = event(3, events.AttemptStarted(1, "m"))
    state = after(*BEGUN, started, event(4, events.BaselineCaptured("h", "main", ())), now=10.0)
    state = after(event(5, events.TaskStateChanged("running", state_word, reason)), start=state, now=30.0)
    assert unchanged in hint_text(state, Registry(), "composer")
    state = state._replace(changes=({"path": "a"},))
    row = "".join(part for _, part in status(state, 90, 40.0, Registry(), "composer", "", UNICODE))

    assert left in row
    assert keys in hint_text(state, Registry(), "composer")
    assert hint_text(state, Registry(), "composer") in row


@pytest.mark.parametrize(("state_word", "keys"), [("cancelled", "Enter send  "), ("blocked", "Alt+P model  ")])
def test_the_keys_for_an_end_are_those_that_work_with_what_is_in_the_composer(state_word: str, keys: str) -> None:
    state = after(*BEGUN, event(3, events.TaskStateChanged("running", state_word, "x")))
    assert not hint_text(state, Registry(), "composer").startswith(keys)
    assert hint_text(state, Registry(), "draft").startswith(keys)


def test_what_can_be_done_about_an_end_is_said_until_another_task_begins() -> None:
    result = {"status": "failed", "reason": "x", "error": {"code": "x", "message": "No."}}
    state = after(*BEGUN, ResultRead("t_1", {"task": {"result": result}}))
    assert state.blocks[1].open and not state.blocks[1].touched
    assert "F5" not in end_hints(Registry())["failed", False] and "F5" in end_hints(Registry())["failed", True]

    state = after(Submitted("r_2", "again", ""), start=state)
    assert not state.blocks[1].open


# --- compaction and the context -------------------------------------------------------------------------------


def test_a_compaction_is_one_row_before_it_and_after_it() -> None:
    used = event(3, events.UsageSettled(600, 20, 0, 0, False))
    begins = event(4, events.OperationRequested("model", "infer", "m turn 3 context_compaction", "f", 3), "o_9")
    state = after(*BEGUN, used, begins)
    assert (state.blocks[1].state, state.blocks[1].source[:22]) == ("running", "compacting ~620 tokens")

    again = event(6, events.OperationRequested("model", "infer", "m turn 3 context_compaction", "f", 3), "o_10")
    assert after(again, start=state).blocks.next == 2, "several requests are one compaction"
    stopped = after(event(7, events.TaskStateChanged("running", "cancelled", "cancelled")), start=state)
    assert (stopped.blocks[1].state, stopped.blocks[1].source) == ("cancelled", "compaction not finished")
    ends = event(5, events.ContextCompacted("a", "threshold", 620, 90, 1, 40, 9, 1000))
    state = after(ends, start=state)
    assert len(state.blocks) == 2
    assert (state.blocks[1].state, state.blocks[1].source) == ("completed", "compacted ~620 -> ~90 tokens  (threshold)")


def test_the_context_figure_warns_five_points_before_the_threshold_and_a_notice_says_so_once() -> None:
    begun = after(*BEGUN)
    below = after(event(3, events.UsageSettled(640, 0, 0, 0, False)), start=begun)
    near = after(event(4, events.UsageSettled(650, 0, 0, 0, False)), start=below)
    nearer = after(event(5, events.UsageSettled(660, 0, 0, 0, False)), start=near)

    assert [context_style(state, "plain") for state in (below, near)] == ["plain", "class:warn.fg"]
    assert context_notice(below, near) == ("context at 65%", "compaction starts at 70%")
    assert context_notice(begun, below) is None
    assert context_notice(near, nearer) is None


# --- sidebar --------------------------------------------------------------------------------------------------


def test_the_sidebar_names_sections_that_have_something_and_no_others() -> None:
    rows = side(after(*BEGUN))
    assert [
        row for row in rows if row.split("  ")[0] in ("model", "plan", "changed", "limits", "checks", "health")
    ] == [
        "model                    local",
        "limits",
        "health",
    ]
    assert "telemetry                  off" in rows


def test_the_model_says_where_it_runs() -> None:
    facts = {**FACTS, "endpoint": "https://api.example.com/v1"}
    assert "model          api.example.com" in side(after(Opened("/w", facts)))


def test_changed_files_are_counted_while_the_task_runs() -> None:
    state = after(*BEGUN)
    for number in range(7):
        done = events.OperationEnded(True, "", f"f{number % 6}.py  +2 -1", {"lines_added": 2, "lines_removed": 1})
        state = after(
            *running("edit_file", "edit", f"f{number % 6}.py", number),
            event(40 + number, done, f"o_{number}"),
            start=state,
        )
    rows = side(state)
    at = next(number for number, row in enumerate(rows) if row.startswith("changed"))

    assert rows[at].split() == ["changed", "6", "files"]
    assert rows[at + 1].split() == ["f0.py", "+4", "-2"]
    assert rows[at + 5] == "+2"


@pytest.mark.parametrize(
    ("updates", "word"),
    [
        ((event(3, events.UsageSettled(10, 1, 0, 0, False)),), "ok"),
        ((RetryProgress("t_1", 1, 2, 2, 2.0, "no"),), "retry 2 of 2"),
        ((event(3, events.TaskStateChanged("running", "blocked", "rate_limited")),), "rate limited"),
    ],
)
def test_health_says_whether_the_model_answers(updates: tuple[Any, ...], word: str) -> None:
    rows = side(after(*BEGUN, *updates))
    assert f"model{word:>25}" in rows[rows.index("health") :]


def test_a_failed_check_opens_on_the_end_of_what_it_printed() -> None:
    argv = ("make", "test")
    state = after(*BEGUN, event(3, events.VerificationStarted((argv,), "r")), *running("run", "execute", "make test"))
    failed = {"argv": argv, "ok": False, "output_tail": "E  assert 1 == 2\n"}
    done = events.OperationEnded(False, "command_failed", "make test", {"exit_status": 1})
    state = after(event(31, done, "o_1"), event(32, events.VerificationEnded("failed", "r", (failed,))), start=state)

    assert [row.strip() for row in drawn(state, 1)[1:]] == [f"▾ check  make test{'exit 1':>58}", "│ E  assert 1 == 2"]


def message(task_id: str, turn: int, text: str, reasoning: str = "") -> dict[str, Any]:
    return {"role": "assistant", "task_id": task_id, "turn": turn, "text": text, "reasoning": reasoning}


def shown(state: State) -> list[tuple[str, str]]:
    return [(block.kind, block.source) for block in state.blocks][1:]


def test_text_that_turns_out_to_be_reasoning_is_set_apart() -> None:
    state = after(*BEGUN, TextDelta("t_1", 1, 0, "plan</think>Result"))
    read = MessagesRead((message("t_1", 1, "Result", "plan"),))

    assert shown(after(read, start=state)) == [("thought", "plan"), ("text", "Result")]
    late = after(*running("run", "execute", "make"), read, start=state)
    assert shown(late) == [("text", "Result"), ("tool", ""), ("thought", "plan")]
    assert shown(after(read, read, start=late)) == shown(late)


def test_messages_of_earlier_tasks_are_not_told_again() -> None:
    read = MessagesRead((message("t_0", 1, "Long ago", "hmm"), message("t_1", 1, "Now")))

    assert shown(after(*BEGUN, read)) == [("text", "Now")]


def test_a_long_message_of_the_person_shows_its_beginning_until_it_is_opened() -> None:
    renderer = BlockRenderer(UNICODE)
    source = "\n".join(f"line {number}" for number in range(214))
    block = Block(1, "user", "t_1", source, at="2026-01-01T14:02:00")
    texts = ["".join(part for _, part in row) for row in renderer.rows(block, None, 76, 0.0)]
    assert len(texts) == 10 and texts[8] == "line 7"
    assert texts[9].startswith("206 more rows  (Tab, then Enter shows them, v pager)") and texts[9].endswith("14:02")
    assert len(renderer.rows(block.changed(open=True), None, 76, 0.0)) == 1 + 214
    assert len(renderer.rows(block._replace(key=2, source="a\n" * 11), None, 76, 0.0)) == 1 + 12
