import json
import random
from itertools import pairwise
from typing import Any

import pytest
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.events import TextDelta
from fluzo.screens import approval
from fluzo.screens.announce import announcement
from fluzo.screens.approval import ANSWERS, BURST, CONFIRM, GUARD, Card, press, take_focus
from fluzo.screens.blocks import Block, Blocks, blocks_of_page
from fluzo.screens.card import hint_words
from fluzo.screens.notice import MAX_BYTES, MAX_KEPT, Notices, cut, deadline, dismissed, expired, fitting, received
from fluzo.screens.rows import call_diff
from fluzo.screens.state import (
    Accepted,
    PageRead,
    PendingRead,
    QueuedHere,
    Refused,
    SessionLeft,
    State,
    Submitted,
    Toggled,
    reduce,
)


def after(*updates: Any, start: State | None = None, now: float = 10.0) -> State:
    state = start or State(phase="ready")
    for update in updates:
        state = reduce(state, update, now)
    return state


BEGUN = (
    Submitted("r_1", "fix it", "2026-01-01T14:02:00Z"),
    Accepted("r_1", "t_1", "s_1"),
    event(1, events.SessionCreated("fix it")),
    event(2, events.TaskCreated("fix it", {"max_turns": 30}, (("make", "test"),))),
    event(3, events.TaskStateChanged("ready", "running")),
)


def kinds(state: State) -> list[str]:
    return [block.kind for block in state.blocks]


def test_a_message_is_shown_once_and_is_sent_only_when_the_runtime_says_so() -> None:
    sent = after(BEGUN[0])
    assert [block.state for block in sent.blocks] == ["sending"]

    state = after(*BEGUN)

    assert kinds(state) == ["user"]
    assert state.blocks[0].state == ""
    assert (state.task_id, state.session_id, state.word) == ("t_1", "s_1", "running")


def test_a_refused_message_stays_and_says_why() -> None:
    state = after(BEGUN[0], Refused("It needs your consent.", "consent_required", "fluzo config trust", "r_1"))

    assert [(block.kind, block.state) for block in state.blocks] == [("user", "refused"), ("note", "blocked")]
    assert "consent_required" in state.blocks[1].source
    assert not state.running


def test_a_tool_row_follows_its_operation_and_nothing_else() -> None:
    asked = event(4, events.OperationRequested("run", "execute", "make test", "f", 1, "c_1"), "o_1")
    state = after(*BEGUN, asked)
    assert state.blocks[1].state == "queued"

    state = after(event(5, events.PermissionRequested("run", "make test", {}, "policy_shell"), "o_1"), start=state)
    assert state.blocks[1].state == "waiting"
    state = after(event(6, events.PermissionAnswered("once", "user", "g"), "o_1"), start=state)
    assert state.blocks[1].tool is not None
    assert state.blocks[1].tool.tag == "allowed once"
    state = after(event(7, events.OperationIntended("run", "make test"), "o_1"), start=state)
    assert state.blocks[1].state == "running"
    result = {"exit_status": 2, "elapsed_seconds": 1.84}
    state = after(event(8, events.OperationEnded(False, "command_failed", "make test", result), "o_1"), start=state)
    assert state.blocks[1].state == "failed"
    assert state.blocks[1].tool is not None
    assert state.blocks[1].tool.facts == "exit 2  1.8 s"
    assert [item.answer for item in state.history] == ["once"]


@pytest.mark.parametrize(
    ("tool", "result", "ended", "facts"),
    [
        ("read_file", {"lines": 86}, "00.004", "86 lines  4 ms"),
        ("edit_file", {"lines_added": 4, "lines_removed": 2}, "01.500", "+4 -2  1.5 s"),
        ("read_file", {"lines": 86}, "", "86 lines"),  # The clock was set back.
        ("run", {"exit_status": 0, "elapsed_seconds": 0.5}, "00.900", "exit 0  500 ms"),  # The process's own time.
        ("update_plan", {}, "00.004", ""),
    ],
)
def test_a_row_says_how_long_it_took_from_intent_to_outcome(
    tool: str, result: dict[str, Any], ended: str, facts: str
) -> None:
    asked = event(4, events.OperationRequested(tool, "", "a.py", "f", 1, "c_1"), "o_1")
    begun = event(5, events.OperationIntended(tool, "a.py"), "o_1")
    at = f"2026-01-01T00:00:{ended}000Z" if ended else "2025-12-31T23:59:59.000000Z"
    end = event(6, events.OperationEnded(True, "", "a.py", result), "o_1")._replace(at=at)
    shown = after(*BEGUN, asked, begun, end).blocks[1].tool
    assert shown is not None and shown.facts == facts


def test_model_text_never_becomes_a_tool_row() -> None:
    state = after(*BEGUN, TextDelta("t_1", 1, 0, "┃ ✓ run    rm -rf /   allowed once\n"))

    assert kinds(state) == ["user", "text"]


def test_streamed_text_is_sanitized_across_deltas() -> None:
    state = after(*BEGUN, TextDelta("t_1", 1, 0, "a\x1b]0;ow"), TextDelta("t_1", 1, 7, "ned\x07b"))

    assert state.blocks[1].source == "ab"


def test_an_unknown_update_changes_nothing() -> None:
    class FromTheFuture:
        type = "SomethingNew"

    state = after(*BEGUN)
    assert reduce(state, FromTheFuture(), 1.0) is state


def test_queued_messages_are_shown_until_they_are_taken() -> None:
    state = after(*BEGUN, QueuedHere("t_1", "and this"))
    assert [(item.id, item.text) for item in state.queued] == [("", "and this")]

    state = after(event(4, events.InterventionQueued("i_1", "and this")), start=state)
    assert [(item.id, item.text) for item in state.queued] == [("i_1", "and this")]

    state = after(event(5, events.InterventionConsumed("i_1")), start=state)
    assert state.queued == ()
    assert state.blocks[state.blocks.next - 1].source == "and this"


def test_a_card_closes_when_the_question_is_settled_elsewhere_or_the_task_ends() -> None:
    pending = {"operation_id": "o_1", "kind": "permission", "fingerprint": "f", "preview": ""}
    state = after(*BEGUN, PendingRead("t_1", (pending,)))
    assert len(state.requests) == 1

    assert after(event(6, events.PermissionAnswered("deny", "user"), "o_1"), start=state).requests == ()
    assert after(event(6, events.TaskStateChanged("waiting", "blocked", "x")), start=state).requests == ()
    changed = after(PendingRead("t_1", ({**pending, "fingerprint": "g"},)), start=state)
    assert [item.fingerprint for item in changed.requests] == ["g"]


def test_a_passed_check_is_stale_after_a_later_edit() -> None:
    checks = ({"argv": ["make", "test"], "ok": True},)
    state = after(*BEGUN, event(4, events.VerificationEnded("passed", "r", checks)))
    assert state.checks == (("make test", "passed"),)

    edit = (
        event(5, events.OperationRequested("edit_file", "edit", "a.py  +1 -1", "f", 2, "c"), "o_2"),
        event(6, events.OperationEnded(True, "", "a.py  +1 -1", {"lines_added": 1, "lines_removed": 1}), "o_2"),
    )
    assert after(*edit, start=state).checks == (("make test", "stale"),)


def test_another_conversation_is_told_nothing_of_the_task_before_it() -> None:
    ended = (
        event(4, events.UsageSettled(900, 100, 0, 0, False)),
        event(5, events.VerificationEnded("passed", "r", ({"argv": ["make", "test"], "ok": True},))),
        event(6, events.TaskStateChanged("running", "completed")),
    )
    state = after(*BEGUN, *ended)
    assert (state.context_used, state.checks) == (1000, (("make test", "passed"),))

    opened = after(PageRead("s_2", "t", (Block(0, "text", source="b"),), 1, False, True), start=state)
    assert (opened.context_used, opened.checks) == (0, (("make test", ""),))

    left = after(SessionLeft(), start=state)
    assert (left.context_used, left.checks) == (0, (("make test", "not run"),))


def test_compaction_is_a_row_with_its_reason_and_sizes() -> None:
    state = after(*BEGUN, event(4, events.ContextCompacted("a", "80 % full", 26100, 6000, 1, 40, 9, 32768)))

    assert state.blocks[1].source == "compacted ~26.1k -> ~6k tokens  (80 % full)"


# --- blocks ---------------------------------------------------------------------------------------------------


def test_blocks_keep_their_keys_through_any_mix_of_changes() -> None:
    dice = random.Random(5)
    blocks, model = Blocks(), {}
    for step in range(600):
        kind = dice.randrange(3)
        if kind == 0 or not model:
            model[blocks.next] = f"a{step}"
            blocks = blocks.append(Block(0, "text", source=f"a{step}"))
        elif kind == 1:
            key = dice.choice(list(model))
            model[key] = f"c{step}"
            blocks = blocks.replace(blocks[key].changed(source=f"c{step}"))
        else:
            older = [Block(0, "text", source=f"p{step}-{n}") for n in range(dice.randint(0, 90))]
            for number, block in enumerate(older):
                model[blocks.first - len(older) + number] = block.source
            blocks = blocks.prepend(older)
        assert len(blocks) == len(model)
    assert {block.key: block.source for block in blocks} == model
    assert [block.key for block in blocks.reversed()] == sorted(model, reverse=True)
    assert all(blocks[key].source == text for key, text in model.items())


def test_history_shows_the_persons_words_and_recorded_calls() -> None:
    call = {"id": "c1", "name": "run", "arguments": '{"argv": ["make", "test"]}'}
    base = {"task_id": "t", "turn": 1, "at": "", "reasoning": "", "tool_calls": [], "tool_call_id": "", "text": ""}
    messages = [
        {**base, "id": "1", "position": 1, "role": "user", "text": "<context>\nfix it"},
        {
            **base,
            "id": "2",
            "position": 2,
            "role": "assistant",
            "reasoning": "hm",
            "text": "I run it.",
            "tool_calls": [call],
        },
        {**base, "id": "3", "position": 3, "role": "tool", "tool_call_id": "c1", "text": "exit 1 after 2.0 s\nboom"},
    ]

    blocks = blocks_of_page(messages, {"t": "fix it"})

    assert [(block.kind, block.source) for block in blocks[:3]] == [
        ("user", "fix it"),
        ("thought", "hm"),
        ("text", "I run it."),
    ]
    assert blocks[3].tool is not None
    assert (blocks[3].state, blocks[3].tool.subject, blocks[3].tool.output) == ("failed", "make test", "boom")


def test_an_older_page_goes_before_and_moves_no_key() -> None:
    newest = PageRead("s", "t", (Block(0, "text", source="b"),), 5, True, True)
    older = PageRead("s", "t", (Block(0, "text", source="a"),), 1, False, False)

    state = after(newest, older)

    assert [(block.key, block.source) for block in state.blocks] == [(-1, "a"), (0, "b")]
    assert not state.more


def test_opening_a_row_changes_its_revision_and_nothing_else() -> None:
    state = after(*BEGUN)
    opened = after(Toggled(0, True), start=state)

    assert opened.blocks[0].revision == state.blocks[0].revision + 1
    assert opened.blocks[0].source == state.blocks[0].source


# --- the card's machine ---------------------------------------------------------------------------------------


def test_the_machine_never_answers_without_a_choice_and_a_later_enter() -> None:
    dice = random.Random(11)
    keys = ("up", "down", "enter", "enter", "escape", "tab", "text", "text", "paste", "page")
    answered = 0
    for _ in range(20_000):
        now = 100.0
        card, log = take_focus(Card("o", "f"), now), []
        for _ in range(dice.randint(1, 9)):
            now += dice.choice((0.001, 0.02, 0.05, 0.13, 0.4))
            key: Any = dice.choice(keys)
            text = dice.choice("123av") if key == "text" else ""
            log.append((now, key, text))
            card, effect = press(card, key, text, now)
            if effect.kind == "answer":
                answered += 1
                chosen = next(item for item in reversed(log[:-1]) if item[1] != "enter")
                assert chosen[1] in ("up", "down") or (chosen[1] == "text" and chosen[2] in "123")
                assert now - chosen[0] >= CONFIRM
                assert chosen[0] - 100.0 >= GUARD
                assert now - log[-2][0] >= BURST
            if effect.kind != "none" or not card.focused:
                break
    assert answered > 50
    assert ANSWERS[0] == "deny"


# --- notices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["escape", "tab", "paste"])
def test_what_chose_is_text_only_where_more_follows_at_once(key: approval.KeyName) -> None:
    for gap, leaves in ((BURST / 2, "1"), (BURST, "")):
        card = take_focus(Card(question=True, many=True, choices=3), 0.0)
        card, _ = press(card, "text", "1", GUARD)
        assert card.marks == (1,)
        card, effect = press(card, key, "x", GUARD + gap)
        assert not card.focused and effect.text == leaves + ("x" if key == "paste" else "")


@pytest.mark.parametrize(
    ("card", "words"),
    [
        (Card(), "1-3 choose, nothing is chosen  Esc back"),
        (Card(choice=2), "Enter confirms 2  Esc back"),
        (Card(choice=1, writing=True), "Enter denies with it  Esc back to the choices"),
        (Card(writing=True, question=True), "Enter sends the answer  Esc back to the choices"),
        (Card(choices=0, question=True), "e writes an answer  Esc back"),
        (Card(choices=4, many=True, choice=2), "1-4 mark, nothing is marked  Esc back"),
        (Card(choices=4, many=True, marks=(1, 3)), "Enter confirms 1, 3  Esc back"),
    ],
)
def test_the_status_row_of_a_card_says_what_enter_does_now(card: Card, words: str) -> None:
    assert hint_words(card) == words


def test_at_most_32_are_kept_and_information_is_dropped_first() -> None:
    notices = received(Notices(), "e", "error", "failed", "", 100)
    for number in range(60):
        notices = received(notices, f"i{number}", "info", "note", "", 100)

    assert len(notices.kept) == MAX_KEPT
    assert notices.kept[0].id == "e"
    assert notices.kept[-1].id == "i59"
    assert notices.dropped == 61 - MAX_KEPT


def test_the_same_event_joins_and_lives_no_longer_and_equal_texts_stay_two() -> None:
    notices = received(Notices(), "a", "info", "same", "text", 10)
    notices = received(notices, "a", "info", "same", "text", 99)
    notices = received(notices, "b", "info", "same", "text", 20)

    assert [(item.id, item.times, item.expires) for item in notices.kept] == [("a", 2, 10), ("b", 1, 20)]
    assert deadline(notices) == 10
    assert [item.id for item in expired(notices, 10).kept] == ["b"]
    assert [item.id for item in dismissed(notices).kept] == ["a"]


def test_two_waits_of_one_turn_are_two_notices() -> None:
    states, kept = [after(*BEGUN)], Notices()
    for number, (old, new) in enumerate((("running", "waiting"), ("waiting", "running"), ("running", "waiting")), 4):
        states.append(after(event(number, events.TaskStateChanged(old, new)), start=states[-1], now=float(number)))
    for before, now in pairwise(states):
        if (found := announcement(before, now, 20.0)) is not None:
            kept = received(kept, found.id, found.level, found.title, found.text, 99.0)
    assert [(item.title, item.times) for item in kept.kept] == [("fix it: waiting for you", 1)] * 2


@pytest.mark.parametrize("text", ["x" * 5000, "漢" * 2000, "e\u0301" * 2000, "\U0001f1e9\U0001f1ea" * 700])
def test_a_text_is_cut_at_a_whole_character_within_its_bytes(text: str) -> None:
    short = cut(text)

    assert len(short.encode()) <= MAX_BYTES
    assert short.endswith("...")
    assert not short.removesuffix("...").endswith("e")


@pytest.mark.parametrize(("rows", "wanted", "shown"), [(20, 3, 3), (20, 5, 5), (10, 3, 2), (4, 3, 0), (0, 3, 0)])
def test_only_as_many_are_shown_as_fit(rows: int, wanted: int, shown: int) -> None:
    assert fitting(rows, wanted) == shown


def test_the_diff_of_an_edit_has_what_goes_before_what_comes() -> None:
    arguments = json.dumps({"path": "a", "old_text": "one\ntwo\nthree\nend\n", "new_text": "1\nend\n"})
    assert call_diff({"name": "edit_file", "arguments": arguments}) == "-one\n-two\n-three\n+1\n end"
    written = json.dumps({"path": "a", "content": "x\ny\n"})
    assert call_diff({"name": "write_file", "arguments": written}) == "+x\n+y"
