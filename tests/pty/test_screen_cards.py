import os
from pathlib import Path

import pytest
from support.project import call, make_project, say, scripted
from support.screen import SIZES, user_at
from support.screen_inside import ScriptedScreen, ask, begin_task, feed, inside, request
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.port import AnswerPermission, AnswerQuestion, ResumePlan, SessionList
from fluzo.screens.approval import GUARD
from fluzo.simulator.server import Simulator

EDIT_SCOPE = {"tool": "edit_file", "action": "edit", "paths": ["a.py"], "versions": {"a.py": "digest"}}
PREVIEW = "@@ -1,20 +1,20 @@\n" + "\n".join(f"-old {number}\n+new {number}" for number in range(10))
DOWN, RIGHT = "\x1b[B", "\x1b[C"
WAITS = "printf 'first line\\n\\033[32m10%%\\r\\033[32m90%% done\\n'; read line < gate; echo over"


def edit_request(number: int = 1) -> dict[str, object]:
    return request(number, tool="edit_file", action="edit", summary="a.py", scope=EDIT_SCOPE, preview=PREVIEW)


def on_card(shown: ScriptedScreen) -> None:
    """Give the card the keyboard and let its guard pass."""
    shown.draw()
    shown.keys("\t")
    rest(shown)


def rest(shown: ScriptedScreen) -> None:
    shown.clock.time += GUARD + 0.1


def typed(shown: ScriptedScreen, *keys: str, pause: float = 0.2) -> None:
    for key in keys:
        shown.clock.time += pause
        shown.keys(key)


def denials(shown: ScriptedScreen) -> list[tuple[str, str]]:
    return [(item.answer, item.reason) for item in shown.port.commands if isinstance(item, AnswerPermission)]


def test_a_reason_is_written_on_the_card_and_goes_with_the_denial() -> None:
    async def deny(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys("a draft")
        ask(shown, request())
        on_card(shown)
        typed(shown, "e", *"use make", "\x7f", "e")
        picture = "\n".join(shown.draw())
        assert "> 1  Deny" in picture
        assert "reason    use make" in picture
        assert denials(shown) == []
        typed(shown, "\r")
        assert denials(shown) == [("deny", "use make")]
        assert "Sent: deny" in "\n".join(shown.draw())
        assert shown.screen.composer.text == "a draft"

    inside(deny)


def test_escape_leaves_the_field_with_nothing_chosen_and_an_approval_carries_no_reason() -> None:
    async def change(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request())
        on_card(shown)
        typed(shown, "e", *"no", "\x1b", "\r")
        assert denials(shown) == []
        assert shown.screen.body.focus == "card"
        typed(shown, "2", "\r")
        assert denials(shown) == [("once", "")]

    inside(change)


@pytest.mark.parametrize("pasted", ["explain this\r", "e2\r\r", "eee\r"])
def test_a_burst_that_begins_with_the_fields_key_goes_to_the_composer(pasted: str) -> None:
    async def burst(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request())
        on_card(shown)
        typed(shown, *pasted, pause=0.001)
        assert denials(shown) == []
        assert shown.screen.body.focus == "composer"
        # The Enter that ended the burst was the composer's.
        assert [item.text for item in shown.screen.state.queued] == [pasted[: pasted.index("\r")]]

    inside(burst)


def test_a_paste_into_the_field_stays_there_as_one_line_and_its_enter_does_nothing() -> None:
    async def paste(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request())
        on_card(shown)
        typed(shown, "e", "\x1b[200~two\nlines\r\x1b[201~")
        typed(shown, *"x\ry", pause=0.001)
        assert denials(shown) == []
        assert shown.screen.card.words == "two linesxy"

    inside(paste)


def test_enter_counts_in_the_field_only_some_time_after_it_was_opened() -> None:
    async def hurry(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request())
        on_card(shown)
        typed(shown, "e", "n", "\r", pause=0.05)
        assert denials(shown) == []
        typed(shown, "\r", pause=0.05)
        assert denials(shown) == [("deny", "n")]

    inside(hurry)


def test_another_request_inherits_no_reason() -> None:
    async def turn(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request(1), request(2))
        on_card(shown)
        typed(shown, "e", *"no", "\x1b", "]")
        assert shown.screen.request.operation_id == "o_2"
        assert (shown.screen.card.words, shown.screen.card.choice) == ("", 0)
        assert shown.screen.body.focus == "card"
        typed(shown, "2", "\r")
        assert denials(shown) == [], "the guard begins anew on another request"
        rest(shown)
        typed(shown, "[")
        assert shown.screen.request.operation_id == "o_1"

    inside(turn)


def test_a_question_is_answered_in_its_own_field_and_the_draft_stays() -> None:
    async def answer(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys("a draft")
        ask(shown, request(1, "question", question="Which database?", choices=[]))
        picture = "\n".join(shown.draw())
        assert "Which database?" in picture
        assert "Tab to answer" in picture
        on_card(shown)
        typed(shown, "\r")
        assert not [item for item in shown.port.commands if isinstance(item, AnswerQuestion)]
        typed(shown, "e", *"SQLite", "\r")
        assert [item.answer for item in shown.port.commands if isinstance(item, AnswerQuestion)] == ["SQLite"]
        assert shown.screen.composer.text == "a draft"

    inside(answer)


def test_a_question_with_choices_takes_one_of_them_or_words() -> None:
    async def answer(shown: ScriptedScreen) -> None:
        begin_task(shown)
        for keys, sent in ((("2", "\r"), ("", (2,))), (("e", *"both", "\r"), ("both", ()))):
            ask(shown, request(1, "question", question="Which?", choices=["one", "two"]))
            on_card(shown)
            typed(shown, *keys)
            assert said(shown)[-1] == sent
            shown.screen.state = shown.screen.state._replace(requests=())
            shown.screen._requests_changed()

    inside(answer)


def several(shown: ScriptedScreen, number: int = 1) -> None:
    choices = ["red", "green", "blue"]
    ask(shown, request(number, "question", question="Which?", choices=choices, several=True))
    on_card(shown)


def said(shown: ScriptedScreen) -> list[tuple[str, tuple[int, ...]]]:
    return [(item.answer, item.chosen) for item in shown.port.commands if isinstance(item, AnswerQuestion)]


def test_several_choices_are_marked_by_digits_and_space_and_sent_by_a_later_enter() -> None:
    async def answer(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys("a draft")
        several(shown)
        assert "Mark any: 1-3 or Space, then Enter." in "\n".join(shown.draw())
        typed(shown, "\r", " ")
        assert said(shown) == [], "nothing is marked, and Space has nothing to mark"
        typed(shown, "3", "1", "2", "2", DOWN, " ", " ")
        picture = "\n".join(shown.draw())
        assert "  1  [x] red" in picture and "  2  [ ] green" in picture and "> 3  [x] blue" in picture
        assert "Enter confirms 1, 3." in picture
        assert said(shown) == []
        typed(shown, "1", "\r", pause=0.05)
        assert said(shown) == [], "the confirmation came with a mark"
        typed(shown, "\r", pause=0.2)
        assert said(shown) == [("", (3,))]
        assert shown.screen.composer.text == "a draft"

    inside(answer)


def test_words_go_with_what_is_marked_and_esc_or_other_text_drops_the_marks() -> None:
    async def answer(shown: ScriptedScreen) -> None:
        begin_task(shown)
        several(shown)
        typed(shown, "2", "e", *"soon", "\x1b")
        assert "Enter confirms 2 and the answer." in "\n".join(shown.draw())
        typed(shown, "\x1b")
        assert shown.screen.card.marks == ()
        on_card(shown)
        typed(shown, "1", "x")
        assert (shown.screen.composer.text, shown.screen.card.marks) == ("x", ())
        assert shown.screen.body.focus == "composer"
        on_card(shown)
        typed(shown, "1", "3", pause=0.01)
        assert (shown.screen.composer.text, shown.screen.card.marks) == ("x13", ()), "a burst is typing"
        assert said(shown) == []
        on_card(shown)
        typed(shown, "1", "3", "e", "!", "\r")
        assert said(shown) == [("soon!", (1, 3))]

    inside(answer)


def test_the_command_takes_numbers_too_and_tells_what_is_no_choice() -> None:
    async def answer(shown: ScriptedScreen) -> None:
        begin_task(shown)
        several(shown)
        shown.keys("\x1b")
        shown.keys("/answer 1,9\r")
        assert said(shown) == []
        assert "There is no choice 9" in "\n".join(shown.draw())
        shown.screen.composer.clear()
        shown.keys("/answer 1,2\r")
        assert said(shown) == [("", (1, 2))]

    inside(answer, columns=120)


def test_the_whole_text_of_a_question_names_its_choices_in_full() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        long = "word " * 30
        ask(shown, request(1, "question", question="Which?", choices=["short", f"{long}end"], several=True))
        on_card(shown)
        typed(shown, "v")
        picture = "\n".join(shown.draw())
        assert "Which?" in picture and "1  short" in picture
        typed(shown, *[RIGHT] * 12)
        assert "word word end" in "\n".join(shown.draw())

    inside(look)


def test_a_change_is_looked_at_in_full_and_the_card_comes_back_with_nothing_chosen() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, edit_request())
        picture = "\n".join(shown.draw())
        assert "! a.py holds changes of your own" in picture
        assert "v whole text (21 rows)" in picture
        on_card(shown)
        typed(shown, "2", "v")
        picture = "\n".join(shown.draw())
        assert "+new 9" in picture
        assert "not done; waits for your answer" in picture
        typed(shown, "2", "\r", "\x1b")
        assert denials(shown) == []
        assert shown.screen.body.focus == "card"
        assert shown.screen.card.choice == 0
        typed(shown, "2", "\r", pause=0.1)
        assert denials(shown) == [], "the guard begins anew after the view"

    inside(look, rows=30)


def test_a_request_that_was_settled_while_it_was_looked_at_gives_the_keyboard_to_the_composer() -> None:
    async def settle(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, edit_request())
        on_card(shown)
        typed(shown, "v")
        feed(shown, [event(60, events.PermissionAnswered("deny", "user"), "o_1")])
        shown.draw()
        typed(shown, "\x1b")
        assert shown.screen.body.focus == "composer"

    inside(settle)


def test_what_is_hidden_in_a_command_or_a_change_is_spelt_out_in_the_colours_of_danger() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        scope = {**EDIT_SCOPE, "paths": ["a\u202egpj.py"]}
        ask(shown, request(1, tool="edit_file", action="edit", scope=scope, preview="@@ -1 +1 @@\n+x\u200b = 1"))
        shown.lay_out()
        hidden = [(style, text) for row in shown.screen.card_rows for style, text in row if text.startswith("<U+")]
        assert [text for _, text in hidden] == ["<U+202E>", "<U+200B>"]
        assert all("danger" in style for style, _ in hidden)

    inside(look)


def test_a_reason_is_in_the_permission_history() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        asked = events.OperationRequested("run", "execute", "rm -rf build", "f", 1, "c_1")
        denied = events.PermissionAnswered("deny", "user", reason="use make")
        feed(shown, [event(60, asked, "o_1"), event(61, denied, "o_1")])
        shown.screen.run_action("permissions")
        assert "rm -rf build  (you said: use make)" in "\n".join(shown.draw())

    inside(look)


# --- the real program -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "rows"), SIZES[:2])
def test_a_running_command_shows_its_last_lines_before_it_ends(tmp_path: Path, columns: int, rows: int) -> None:
    run = call("run", {"shell": True, "script": WAITS}, "c1")
    with Simulator(scripted(run, say("All done."))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        os.mkfifo(project.root / "gate")
        with user_at("--yolo", cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            user.types("go")
            user.presses("enter")
            user.sees("│ 90% done")
            user.sees("│ first line")
            assert "│ 10%" not in user.screen
            assert user.style("90% done").fg == "green", "a colour of the palette"
            assert "All done." not in user.screen
            (project.root / "gate").write_text("\n")
            user.sees("All done.")
            user.sees_no("│ 90% done")


def test_a_denial_with_its_reason_reaches_the_model(tmp_path: Path) -> None:
    run = call("run", {"argv": ["touch", "made"]}, "c1")
    with Simulator(scripted(run, say("Then not."))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ) as user:
            user.sees("Type a task")
            user.types("go")
            user.presses("enter")
            user.sees("Permission 1 of 1")
            user.opens_field("reason")
            user.types("use make instead")
            user.sees("use make instead")
            user.presses("enter")
            user.sees("Then not.")
        told = simulator.requests[1].raw.decode()
    assert "the user says: use make instead" in told
    assert not (project.root / "made").exists()


# --- after the end --------------------------------------------------------------------------------------------


def test_trying_a_failed_task_again_puts_its_text_back_and_sends_nothing() -> None:
    async def again(shown: ScriptedScreen) -> None:
        begin_task(shown, "repair it")
        feed(shown, [event(60, events.TaskStateChanged("running", "failed", "verification_failed"))])
        before = len(shown.port.commands)
        shown.keys("\x12")
        assert shown.screen.composer.text == "repair it"
        assert len(shown.port.commands) == before
        assert "Enter sends it as a new task" in "\n".join(shown.draw())
        shown.keys("\x15my own words")
        shown.screen.run_action("retry")
        assert shown.screen.composer.text == "my own words"

    inside(again)


def test_trying_a_blocked_task_again_asks_first() -> None:
    async def again(shown: ScriptedScreen) -> None:
        begin_task(shown, "repair it")
        feed(shown, [event(60, events.TaskStateChanged("running", "blocked", "provider_unavailable"))])
        before = len(shown.port.commands)
        shown.keys("\x12")
        assert shown.screen.views, "a question is open"
        assert len(shown.port.commands) == before

    inside(again, answers={SessionList: {"sessions": []}, ResumePlan: {}})


def test_a_question_offers_no_denial_and_what_was_said_goes_with_the_next_key() -> None:
    async def press(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request(kind="question", question="Which?", choices=["this", "that"]))
        assert shown.draw()[-1].endswith("Tab answer  Ctrl+C cancel")
        shown.keys("\x1bn")
        assert "answered by its choices" in shown.draw()[-1]
        shown.keys("\t")
        assert shown.draw()[-1].endswith("1-2 choose, nothing is chosen  Esc back")
        shown.clock.time += 1
        shown.keys("2")
        rows = shown.draw()
        assert rows[-1].endswith("Enter confirms 2  Esc back")
        assert any("e own words  Esc back" in row for row in rows)

    inside(press)
