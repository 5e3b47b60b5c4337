import asyncio
import re

import pytest
from prompt_toolkit.output import ColorDepth
from support.records import until
from support.screen import SIZES
from support.screen_inside import ScriptedScreen, ask, begin_task, feed, inside, request
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.events import TextDelta
from fluzo.core.port import AnswerPermission, CancelTask, EventPage, Lagged, QueueIntervention, SessionDetail
from fluzo.screens.actions import HANDLERS
from fluzo.screens.bindings import bindings
from fluzo.screens.blocks import Block, Tool
from fluzo.screens.keys import Registry
from fluzo.screens.offers import ALIASES, idle_reason
from fluzo.screens.options import Options
from fluzo.screens.state import PageRead, ResultRead, State, YoloChosen
from fluzo.screens.views import VIEWS

ALLOWED_ESCAPES = re.compile("\x1b(?:\\[[0-9;?>]*[A-Za-z]|\\[[0-9;]* q|[78]|\\(B|\\[>4;1m|\\[>4m)")
HOSTILE = "A\x1b]52;c;ZXZpbA==\x07B\x1b[2J\x1b[?1049lC\x9b31mD\x1bP1$q\x1b\\E\x00\x07\x08\u202eF"


def finish(shown: ScriptedScreen, state: str = "completed", **result: object) -> None:
    shown.screen.apply(event(90, events.TaskStateChanged("running", state)))
    detail = {"task": {"result": {"status": state, "changes": [], "verification": {}, "budget": {}, **result}}}
    shown.screen.apply(ResultRead("t_1", detail))


def test_every_action_has_a_handler_or_a_view() -> None:
    async def look(shown: ScriptedScreen) -> None:
        bindings(shown.screen)
        called = ("global", "composer", "transcript")  # The card and the pages have their own keys.
        actions = shown.screen.registry.actions.values()
        assert {action.id for action in actions if action.context in called} <= set(HANDLERS) | set(VIEWS)

    inside(look)


@pytest.mark.parametrize(
    "where", ["text", "thought", "tool", "user", "note", "title", "notice", "card", "pager", "queue"]
)
def test_no_control_byte_of_others_reaches_the_terminal(where: str) -> None:
    async def attack(shown: ScriptedScreen) -> None:
        begin_task(shown, HOSTILE if where in ("user", "title", "notice") else "go")
        screen = shown.screen
        if where in ("text", "thought"):
            feed(shown, [TextDelta("t_1", 1, 0, HOSTILE, where == "thought")])
        elif where in ("tool", "pager"):
            feed(
                shown,
                [
                    event(3, events.OperationRequested("run", "execute", HOSTILE, "f", 1, "c1"), "o_1"),
                    event(4, events.OperationEnded(False, HOSTILE, HOSTILE, {"exit_status": 1}), "o_1"),
                ],
            )
        elif where == "note":
            feed(shown, [event(3, events.WarningRaised(HOSTILE, HOSTILE))])
        elif where == "title":
            feed(shown, [event(3, events.SessionCreated(HOSTILE))])
        elif where == "notice":
            screen.transcript.follow = False
            feed(shown, [event(3, events.TaskStateChanged("running", "failed", HOSTILE))])
        elif where == "card":
            scope = {**request()["scope"], "argv": ["sh", HOSTILE], "cwd": HOSTILE}
            ask(shown, request(scope=scope, text=HOSTILE, preview=f"+{HOSTILE}"))
        elif where == "queue":
            feed(shown, [event(3, events.InterventionQueued("i_1", HOSTILE))])
        shown.draw()
        if where == "pager":
            screen.body.focus_transcript()
            screen.run_action("transcript.pager")
            shown.draw()
        left = ALLOWED_ESCAPES.sub("", shown.written)
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", left), left[:400]
        assert "ZXZpbA" not in left or where in ("card", "tool", "pager", "notice", "note", "title")
        assert "]52;" not in left.replace("<U+001B>]52;", "")

    inside(attack, columns=120, rows=40)


def test_an_idle_screen_writes_nothing() -> None:
    async def idle(shown: ScriptedScreen) -> None:
        shown.draw()
        quiet = 0
        while quiet < 3:  # Until what the opening and this draw have set going is over.
            await asyncio.sleep(0.02)
            quiet = 0 if shown.terminal.taken() else quiet + 1
        frames = shown.screen.frames.drawn
        for _ in range(50):
            await asyncio.sleep(0)
        assert shown.terminal.taken() == ""
        assert shown.screen.frames.drawn == frames
        assert not shown.screen.motion.moving

    inside(idle, columns=120, rows=40)


@pytest.mark.parametrize(("fps", "reduced"), [(0, False), (60, True)])
def test_without_motion_a_running_mark_stands_still(fps: int, reduced: bool) -> None:
    from fluzo.screens.options import Options

    async def still(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.draw()
        assert not shown.screen.motion.moving
        assert shown.screen.state.word == "running"

    environ = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    options = Options("~/w", animation_fps=fps, reduced_motion=reduced, environ=environ)
    inside(still, columns=120, rows=40, options=options)


def test_a_moving_mark_paints_its_cells_and_leaves_the_cursor() -> None:
    async def run(shown: ScriptedScreen) -> None:
        begin_task(shown)
        before = shown.draw()
        cursor = (shown._picture.cursor.x, shown._picture.cursor.y)
        shown.clock.time += 0.4
        shown.screen.motion._paint()
        painted = shown.terminal.taken()
        assert painted.startswith("\x1b7")
        assert painted.endswith("\x1b8")
        shown._stream.feed(painted)
        assert [row.rstrip() for row in shown._picture.display] == before
        assert (shown._picture.cursor.x, shown._picture.cursor.y) == cursor
        shown.screen.motion._paint()
        assert shown.terminal.taken() == "", "a frame equal to the last one is not written"

    inside(run, columns=120, rows=40)


def long_session(count: int) -> PageRead:
    blocks = tuple(
        Block(0, "user" if number % 5 == 0 else "text", "t_0", f"Message {number}. " + "word " * 40)
        for number in range(count)
    )
    return PageRead("s_9", "Long", blocks, 9000, True, True)


def test_opening_ten_thousand_messages_renders_one_screen() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.apply(long_session(10_000))
        renderer = shown.screen.renderer
        renderer.rendered = 0
        rows = shown.draw()
        assert "Message 9999." in "\n".join(rows)
        assert renderer.rendered <= 20
        renderer.rendered = 0
        shown.keys("\x1b[5~")
        shown.draw()
        assert renderer.rendered <= 20
        renderer.rendered = 0
        shown.keys("x")
        shown.draw()
        assert renderer.rendered == 0, "a typed key renders nothing of the conversation"

    inside(look)


def test_reaching_the_oldest_message_fetches_the_page_before_it_and_stays_in_place() -> None:
    older = {
        "session": {"id": "s_9", "title": "Long"},
        "tasks": [],
        "messages": [
            {
                "id": "m",
                "task_id": "t",
                "turn": 1,
                "position": 8999,
                "at": "",
                "role": "user",
                "text": "Older one",
                "reasoning": "",
                "tool_calls": [],
                "tool_call_id": "",
                "incomplete": False,
            }
        ],
    }

    async def look(shown: ScriptedScreen) -> None:
        shown.screen.apply(long_session(40))
        shown.draw()
        shown.keys("\x1b[1;5H")
        before = shown.draw()
        assert "Message 0." in before[1] + before[2]
        while not any(isinstance(query, SessionDetail) for query in shown.port.queries):
            shown.draw()
        assert SessionDetail("s_9", 200, 9000) in shown.port.queries
        await until(lambda: shown.screen.state.blocks.first == -1)
        after = shown.draw()
        assert [row for row in after if "Message 0." in row]

    inside(look, answers={SessionDetail: older})


def test_a_streaming_text_renders_its_tail_only() -> None:
    async def stream(shown: ScriptedScreen) -> None:
        begin_task(shown)
        offset = 0
        for number in range(60):
            text = f"Paragraph {number} with some words.\n\n"
            feed(shown, [TextDelta("t_1", 1, offset, text)])
            offset += len(text)
            shown.draw()
        (streaming,) = shown.screen.renderer._streams.values()
        assert streaming.characters >= offset - 2 * len(text)
        rows = shown.draw()
        assert "Paragraph 59 with some words." in "\n".join(rows)

    inside(stream)


def test_a_lost_delta_is_repaired_from_the_recorded_message() -> None:
    from fluzo.screens.state import MessagesRead

    async def stream(shown: ScriptedScreen) -> None:
        begin_task(shown)
        feed(shown, [TextDelta("t_1", 1, 0, "The beg"), TextDelta("t_1", 1, 30, "end.")])
        recorded = {
            "role": "assistant",
            "turn": 1,
            "task_id": "t_1",
            "text": "The beginning and the end.",
            "reasoning": "",
        }
        feed(shown, [MessagesRead((recorded,))])
        assert "The beginning and the end." in "\n".join(shown.draw())

    inside(stream)


def test_what_was_missed_is_read_from_the_store_and_counts_once() -> None:
    missed = (
        event(3, events.OperationRequested("read_file", "read", "a.py", "f", 1, "c1"), "o_1"),
        event(4, events.UsageSettled(900, 100, 0, 0, False), "o_1"),
    )
    page = {"events": [events.event_to_json(item) for item in missed]}

    async def lag(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.port.script[:] = [Lagged(2), *missed, event(5, events.WarningRaised("w", "and then this"))]
        assert shown.screen.link is not None
        shown.screen.link.follow("t_1", 2)
        await until(lambda: "and then this" in "".join(shown.draw()))
        state = shown.screen.state
        assert [block.tool.subject for block in state.blocks if block.tool] == ["a.py"]
        assert state.task is not None and state.task.tokens == 1000

    inside(lag, answers={EventPage: page})


def test_thinking_is_shown_apart_and_collapsed() -> None:
    async def stream(shown: ScriptedScreen) -> None:
        begin_task(shown)
        feed(shown, [TextDelta("t_1", 1, 0, "Let me see.\nmore\nlast thought", True)])
        rows = "\n".join(shown.draw())
        assert "thinking" in rows
        assert "last thought" in rows
        shown.clock.time += 6
        feed(shown, [TextDelta("t_1", 1, 0, "The answer.")])
        rows = "\n".join(shown.draw())
        assert "thought for 6 s" in rows
        assert "last thought" not in rows
        assert "The answer." in rows

    inside(stream)


def test_a_model_that_was_asked_and_is_silent_is_told_of_until_its_first_sign() -> None:
    async def wait(shown: ScriptedScreen) -> None:
        begin_task(shown)
        feed(shown, [event(3, events.TurnStarted(1))])
        shown.clock.time += 4
        assert "no tokens yet" not in "\n".join(shown.draw())
        shown.clock.time += 8
        assert "asked scripted, no tokens yet for 12 s" in "\n".join(shown.draw())
        feed(shown, [TextDelta("t_1", 1, 0, "Now.")])
        assert "no tokens yet" not in "\n".join(shown.draw())
        feed(shown, [event(4, events.TurnStarted(2))])
        shown.clock.time += 9
        assert "no tokens yet for 9 s" in "\n".join(shown.draw())
        asked = events.OperationRequested("read_file", "read", "a.py", "f", 2, "c1")
        feed(shown, [event(5, asked, "o_1")])
        assert "no tokens yet" not in "\n".join(shown.draw())
        feed(shown, [event(6, events.TurnStarted(3)), event(7, events.TaskStateChanged("running", "cancelled"))])
        shown.clock.time += 9
        assert "no tokens yet" not in "\n".join(shown.draw())

    inside(wait)


def test_a_tool_row_opens_in_place_and_its_header_stays() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        for number in range(12):
            feed(
                shown,
                [
                    event(
                        3,
                        events.OperationRequested("search", "search", f"file{number}.py", "f", 1, f"c{number}"),
                        f"o_{number}",
                    ),
                    event(4, events.OperationEnded(True, "", f"file{number}.py", {"lines": 3}), f"o_{number}"),
                ],
            )
        from fluzo.screens.state import MessagesRead

        output = "\n".join(f"line {n}" for n in range(6))
        message = {"role": "tool", "tool_call_id": "c11", "text": output, "turn": 1, "task_id": "t_1"}
        feed(shown, [MessagesRead((message,))])
        before = shown.draw()
        at = next(n for n, row in enumerate(before) if "file11.py" in row)
        shown.keys("\x0f")
        after = shown.draw()
        assert "file11.py" in after[at]
        assert "line 2" in "\n".join(after)
        shown.keys("\x0f")
        assert shown.draw()[at] == before[at]

    inside(look)


@pytest.mark.parametrize("width", [60, 80, 111, 160])
def test_no_row_is_wider_than_the_screen(width: int) -> None:
    text = (
        "# Title 測試\n\n| a | b |\n|---|---|\n| "
        + "漢字" * 60
        + " | x |\n\n```python\n"
        + "x = 1 " * 60
        + "\n```\n\n> quote "
        + "é" * 200
    )

    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        feed(shown, [TextDelta("t_1", 1, 0, text)])
        shown.draw()
        for visible in shown.screen.transcript.shown:
            from fluzo.screens.text import cells

            assert sum(cells(part) for _, part in visible.line) <= width - 4 + 2, visible.line

    inside(look, columns=width, rows=50)


# --- the composer ---------------------------------------------------------------------------------------------


def test_the_mixed_line_is_edited_by_characters_as_people_see_them() -> None:
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"

    async def edit(shown: ScriptedScreen) -> None:
        buffer = shown.screen.composer.buffer
        shown.keys("測試abc\uff0cé" + family + "漢字")
        rows = shown.draw()
        assert "測 試 abc\uff0c é" in rows[-2] or "測試abc" in rows[-2].replace(" ", "")
        shown.keys("\x1b[D\x1b[D\x1b[D")
        assert buffer.document.text_after_cursor == family + "漢字"
        shown.draw()
        assert shown._picture.cursor.x == 2 + 4 + 3 + 2 + 1
        shown.keys("\x1b[C\x7f")
        assert buffer.text == "測試abc\uff0cé漢字"

    inside(edit)


def test_newlines_are_typed_by_every_documented_key_and_none_sends() -> None:
    async def edit(shown: ScriptedScreen) -> None:
        shown.keys("a")
        for key in ("\x1b\r", "\n", "\x1b[27;2;13~", "\x1b[13;2u"):
            shown.keys(key)
        shown.keys("b\\")
        shown.keys("\r")
        assert shown.screen.composer.text == "a\n\n\n\nb\n"
        shown.keys("c\\\\")
        shown.keys("\r")
        assert shown.screen.composer.text == ""
        assert shown.screen.state.waiting_submit is not None
        assert shown.screen.state.waiting_submit.text.endswith("c\\")

    inside(edit)


def test_an_unknown_command_is_not_sent_and_stays() -> None:
    async def edit(shown: ScriptedScreen) -> None:
        shown.keys("/nonsense now")
        shown.keys("\r")
        assert shown.screen.composer.text == "/nonsense now"
        assert shown.port.commands == []
        assert "There is no command /nonsense" in "\n".join(shown.draw())

    inside(edit)


def test_history_keeps_the_draft_at_its_end() -> None:
    async def edit(shown: ScriptedScreen) -> None:
        shown.screen.composer.load_history([["first"], ["second"]])
        shown.keys("draft")
        shown.keys("\x1b[A")
        assert shown.screen.composer.text == "second"
        shown.keys("\x1b[A")
        assert shown.screen.composer.text == "first"
        shown.keys("\x1b[B")
        shown.keys("\x1b[B")
        assert shown.screen.composer.text == "draft"

    inside(edit)


def test_a_chip_opens_in_place_and_a_private_character_is_no_chip() -> None:
    pasted = "\n".join(f"line {n}" for n in range(30))

    async def edit(shown: ScriptedScreen) -> None:
        shown.keys(f"\x1b[200~{pasted}\x1b[201~")
        assert "[paste 1: 30 lines" in "\n".join(shown.draw())
        shown.keys("\x1b[200~\U00100000\ue0b0\x1b[201~")
        assert shown.screen.composer.text == pasted + "\ufffd\ue0b0"
        shown.keys("\x1b[D\x1b[D\x0f")
        assert shown.screen.composer.buffer.text == pasted + "\ufffd\ue0b0"

    inside(edit)


def test_control_c_is_a_ladder() -> None:
    async def press(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys("draft\x03")
        assert [item for item in shown.port.commands if isinstance(item, CancelTask)] == [CancelTask("t_1")]
        assert shown.screen.composer.text == "draft"
        finish(shown, "cancelled")
        shown.clock.time += 5
        shown.keys("\x03")
        assert shown.screen.composer.text == ""
        shown.keys("\x03")
        assert shown.screen.app.is_running, "a press right after clearing does not count towards quitting"
        shown.clock.time += 2
        shown.keys("\x03")
        assert "again to quit" in shown.screen.flash
        assert not shown.screen.app.is_done

    inside(press)


def test_control_c_over_a_view_leaves_the_hidden_draft_alone() -> None:
    async def press(shown: ScriptedScreen) -> None:
        shown.keys("draft\x1bOP")
        shown.keys("\x03")
        assert shown.screen.composer.text == "draft"
        assert "Ctrl+C again to quit; the draft is kept" in shown.draw()[-1]
        assert not shown.screen.app.is_done
        shown.keys("\x1b")
        shown.keys("\x03")
        assert shown.screen.composer.text == ""

    inside(press)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("/copy nope", '/copy takes all or nothing behind it, not "nope"'),
        ("/mouse x y", '/mouse takes nothing behind it, not "x y"'),
        ("/yolo yes", '/yolo takes yolo or nothing behind it, not "yes"'),
        ("/new\nthing", '/new takes nothing behind it, not "thing"'),
        ("/quit \u202e" + "z" * 99, '/quit takes nothing behind it, not "<U+202E>zzzzzzzzzzzzzzz…"'),
    ],
)
def test_what_a_command_does_not_understand_is_said_and_stays_written(typed: str, told: str) -> None:
    async def send(shown: ScriptedScreen) -> None:
        shown.screen.composer.set(typed)
        shown.keys("\r")
        assert told in shown.draw()[-1]
        assert shown.screen.composer.text == typed
        assert not shown.screen.mouse and not shown.screen.state.yolo and not shown.screen.app.is_done

    inside(send, columns=120, rows=40)


def test_every_command_says_what_may_stand_behind_it() -> None:
    for action in Registry().commands():
        if action.argument.isupper():
            assert action.misread("anything") == ""
            continue
        assert action.misread("") == "" and action.misread(action.argument) == ""
        assert action.slash in action.misread("nonsense") and '"nonsense"' in action.misread("nonsense")


def test_a_denial_takes_its_reason_along_from_the_composer() -> None:
    async def deny(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request())
        shown.keys("/answer yes\r")
        assert "answered on its card" in shown.draw()[-1]
        shown.screen.composer.set("/deny use make instead")
        shown.keys("\r")
        (answer,) = [item for item in shown.port.commands if isinstance(item, AnswerPermission)]
        assert (answer.answer, answer.reason) == ("deny", "use make instead")

    inside(deny)


def test_a_key_that_means_nothing_in_the_conversation_says_how_one_writes() -> None:
    async def type_blindly(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.draw()
        shown.keys("\tx")
        assert "x does nothing here; Esc goes back to the composer" in shown.draw()[-1]
        shown.keys("k")
        assert "does nothing" not in shown.draw()[-1]

    inside(type_blindly)


def test_a_page_says_how_to_leave_it_where_its_hints_have_no_room() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.apply(YoloChosen(True))
        shown.keys("\x1bOQ")
        for columns in (80, 60):
            shown.resizes(columns, 24)
            row = shown.draw()[-1]
            assert "YOLO" in row and "Enter look" in row and row.endswith("Esc back"), row

    inside(look)


def test_completions_cover_neither_the_card_nor_the_status_row() -> None:
    async def offer(shown: ScriptedScreen) -> None:
        for asked in (False, True):
            if asked:
                begin_task(shown)
                ask(shown, request())
            plain = shown.draw()
            for typed in ("/unq", "/s"):
                shown.screen.composer.set("")
                shown.keys(typed)
                await offered(shown)
                rows = shown.draw()
                layout = shown.screen.layout
                assert any("unqueue" in row or "/settings" in row for row in rows[: layout.card.y])
                assert rows[layout.card.y : layout.rule.y + 1] == plain[layout.card.y : layout.rule.y + 1]
                assert "~/w" in rows[-1] and f"> {typed}" in rows[-2]

    inside(offer)


def test_what_is_said_of_a_cancel_goes_with_the_task() -> None:
    async def press(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.draw()
        shown.keys("\x0f")
        assert "No row on the screen opens" in shown.draw()[-1]
        shown.keys("\x03")
        assert "Cancelling the task" in shown.draw()[-1]
        feed(shown, [event(9, events.TaskStateChanged("running", "cancelled", "cancelled"))])
        assert "Cancelling" not in shown.draw()[-1] and "Ctrl+P" in shown.draw()[-1]
        shown.keys("x")
        assert "Enter send" in shown.draw()[-1]

    inside(press)


def test_escape_never_cancels_a_running_task() -> None:
    async def press(shown: ScriptedScreen) -> None:
        begin_task(shown)
        for _ in range(5):
            shown.keys("\x1b")
        assert not [item for item in shown.port.commands if isinstance(item, CancelTask)]

    inside(press)


def test_enter_while_a_task_runs_queues_for_it() -> None:
    async def press(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys("one more thing")
        shown.keys("\r")
        assert QueueIntervention("t_1", "one more thing") in shown.port.commands
        rows = "\n".join(shown.draw())
        assert "1 queued" in rows

    inside(press)


def test_yolo_takes_a_typed_word_and_is_seen_everywhere() -> None:
    async def press(shown: ScriptedScreen) -> None:
        shown.keys("/yolo")
        shown.keys("\r")
        assert not shown.screen.state.yolo
        assert "UNSANDBOXED" in "\n".join(shown.draw())
        shown.keys("/yolo yolo")
        shown.keys("\r")
        rows = shown.draw()
        assert "YOLO: nothing asks" in "\n".join(rows)
        assert rows[-1].startswith(" YOLO ")
        shown.keys("/ask")
        shown.keys("\r")
        assert not shown.screen.state.yolo

    inside(press)


def test_the_palette_finds_by_letters_and_runs_the_lit_row() -> None:
    async def press(shown: ScriptedScreen) -> None:
        shown.keys("kept")
        shown.keys("\x10")
        shown.keys("sideb")
        rows = "\n".join(shown.draw())
        assert "Sidebar: shown" in rows
        shown.keys("\r")
        assert shown.screen.sidebar_hidden
        assert shown.screen.composer.text == "kept"
        shown.keys("\x10")
        shown.keys("zzzz")
        shown.keys("\r")
        assert shown.screen.views
        shown.keys("\x1b")
        assert not shown.screen.views

    inside(press, columns=120, rows=40)


def test_the_palette_has_what_was_run_last_under_a_heading_but_runs_only_what_is_lit() -> None:
    async def press(shown: ScriptedScreen) -> None:
        for command in ("/sidebar\r", "/sidebar\r", "/motion\r", "\x1b[5~" * 30):
            shown.keys(command)
        shown.keys("\x10")
        rows = [(row.split("│") * 2)[1].strip() for row in shown.draw()]
        at = rows.index("recent")
        assert rows[at + 1].startswith("> Reduced motion: on") and rows[at + 2].startswith("Sidebar")
        assert not rows[at + 3] and rows[at + 4]
        shown.keys("mous")
        rows = [(row.split("│") * 2)[1].strip() for row in shown.draw()]
        assert rows[at].startswith("> Mouse")
        assert "recent" in rows and rows.index("recent") > at + 1 and not rows[rows.index("recent") - 1]
        shown.keys("\x1b[B" * 20)
        assert any("> Sidebar" in row for row in shown.draw()), "the last row, past the heading"
        shown.keys("\x15zzzz\r")
        assert "recent" not in "\n".join(shown.draw()) and shown.screen.motion.reduced

    inside(press, columns=120, rows=40)


def test_a_new_request_inherits_neither_focus_nor_choice() -> None:
    async def press(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request(1))
        shown.lay_out()
        shown.keys("\t")
        shown.clock.time += 1
        shown.keys("2")
        assert shown.screen.card.choice == 2
        ask(shown, request(2))
        assert (shown.screen.card.choice, shown.screen.card.focused) == (0, False)
        assert shown.screen.body.focus == "composer"
        shown.clock.time += 1
        shown.keys("\r")
        assert not shown.approvals()

    inside(press)


@pytest.mark.parametrize(("columns", "rows"), [(60, 16), (80, 24), (120, 40), (160, 50)])
def test_the_reach_the_scope_and_the_choices_are_never_cut(columns: int, rows: int) -> None:
    scope = {**request()["scope"], "argv": ["run"] + [f"argument-{n}" for n in range(200)]}

    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown, "a task with a long title " * 5)
        ask(shown, request(scope=scope, preview="\n".join(f"+line {n}" for n in range(50))))
        picture = "\n".join(shown.draw())
        for wanted in (
            "UNSANDBOXED",
            "these 201 arguments exactly",
            "1  Deny",
            "2  Allow once",
            "3  Allow for this",
            "v whole text",
        ):
            assert wanted in picture, picture

    inside(look, columns=columns, rows=rows)


@pytest.mark.parametrize("size", [(60, 16), (60, 17), (60, 19), (80, 16), (80, 18), (80, 24)])
def test_a_card_that_can_be_answered_shows_where_its_command_and_its_change_begin(size: tuple[int, int]) -> None:
    scope = {**request()["scope"], "argv": ["sh", "-c", "x" * 900]}
    names = [f"file_{number}.py" for number in range(9)]
    preview = "\n".join(f"+line {number}" for number in range(9))

    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request(scope=scope))
        assert "run       sh -c" in "\n".join(shown.draw())
        for own in range(4):
            paths = {"tool": "edit_file", "paths": names, "versions": dict.fromkeys(names[:own], "1")}
            ask(shown, request(own + 2, tool="edit_file", action="edit", scope=paths, preview=preview))
            rows = "\n".join(shown.draw())
            assert "little room" in rows or ("file_0.py" in rows and "+line 0" in rows), rows
            assert own or "little room" not in rows

    inside(look, columns=size[0], rows=size[1])


def test_without_colour_and_unicode_everything_is_said_in_words() -> None:
    from fluzo.screens.options import Options

    environ = {"TERM": "linux", "NO_COLOR": "1"}

    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request())
        picture = "\n".join(shown.draw())
        assert picture.isascii(), picture
        assert "waiting" in picture
        assert not re.search("\x1b\\[[0-9;]*(?:3[0-7]|4[0-7]|38|48|9[0-7])m", shown.written)

    inside(look, options=Options("~/w", environ=environ), depth=ColorDepth.DEPTH_1_BIT)


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_without_unicode_no_character_of_the_screen_is_any(columns: int, rows: int) -> None:
    environ = {"TERM": "linux", "COLORTERM": "truecolor"}

    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown, "a task that is much too long for one row " * 5)
        ask(shown, request())
        picture = "\n".join(shown.draw())
        assert "~" in picture, "what is cut says so"
        assert "FLUZO" in picture
        assert shown.written.isascii()

    inside(look, options=Options("~/w", environ=environ), columns=columns, rows=rows)


def test_the_keys_of_a_turn_open_the_selected_one_also_of_a_session_that_is_read() -> None:
    def tool(call: str, output: str) -> Block:
        return Block(0, "tool", "t_9", state="completed", tool=Tool(call, call, "read", "read", call, output=output))

    blocks = (
        Block(0, "user", "t_9", "one"),
        tool("a.py", "alpha"),
        tool("b.py", "beta"),
        Block(0, "user", "t_9", "two"),
        tool("c.py", "gamma"),
    )

    async def press(shown: ScriptedScreen) -> None:
        shown.screen.apply(PageRead("s_9", "read", blocks, 1, False, True))
        shown.draw()
        shown.keys("\x1bo")
        assert ["alpha" in "".join(shown.draw()), "gamma" in "".join(shown.draw())] == [False, True]
        shown.keys("\x1bo")
        assert "gamma" not in "".join(shown.draw())
        shown.keys("\tkkk\x1bo")
        rows = "".join(shown.draw())
        assert "alpha" in rows and "beta" in rows and "gamma" not in rows

    inside(press)


@pytest.mark.parametrize("name", ["models", "limits", "storage", "telemetry", "notifications"])
def test_each_part_of_the_settings_is_found_in_the_palette(name: str) -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.run_action("palette")
        shown.draw()
        shown.keys(name)
        assert any(f"> Settings: {name}" in row and f"/{name}" in row for row in shown.draw())

    inside(look)


def test_a_request_that_cannot_be_shown_whole_cannot_be_approved() -> None:
    async def press(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request(scope={**request()["scope"], "cwd": "a/" * 300}))
        picture = "\n".join(shown.draw())
        assert "Too little room" in picture
        shown.keys("\t")
        assert shown.screen.body.focus != "card"
        for key in "2\r":
            shown.clock.time += 1
            shown.keys(key)
        assert not shown.approvals()
        shown.keys("\x1bn")
        assert [item for item in shown.port.commands if getattr(item, "answer", "") == "deny"]

    inside(press, columns=60, rows=16)


def test_the_wheel_scrolls_and_moves_no_focus() -> None:
    async def roll(shown: ScriptedScreen) -> None:
        shown.screen.apply(long_session(60))
        shown.screen.mouse = True
        shown.draw()
        shown.keys("\x1b[<64;10;10M")
        shown.draw()
        assert not shown.screen.transcript.follow
        assert shown.screen.body.focus == "composer"
        shown.keys("\x1b[<65;10;10M")
        shown.draw()
        assert shown.screen.transcript.follow

    inside(roll)


def test_the_palette_finds_other_words_and_greys_what_does_nothing_now() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.screen.run_action("palette")
        shown.draw()
        shown.keys("notifications")
        assert any("  Notices  " in row for row in shown.draw())
        shown.keys("\x15force stop")
        row = next(row for row in shown.draw() if "Force stop the task" in row)
        assert "no task runs" in row and "/kill" not in row
        shown.keys("\r")
        assert len(shown.screen.views) == 1 and "no task runs" in shown.draw()[-1]
        begin_task(shown)
        assert any("/kill" in row for row in shown.draw())
        shown.keys("\x1b")
        for names, told in (("/unq", "nothing is queued"), ("/abort", "Cancel the task")):
            shown.screen.composer.set("")
            shown.keys(names)
            await offered(shown)
            assert any(told in row for row in shown.draw()), names

    inside(look)


def test_the_lists_of_commands_say_how_what_switches_stands() -> None:
    async def look(shown: ScriptedScreen) -> None:
        for name, off, on in (
            ("motion", "Reduced motion: off", "Reduced motion: on"),
            ("mouse", "Mouse: off", "Mouse: on"),
        ):
            for title in (off, on):
                shown.keys(f"\x10{name}")
                assert any(f"> {title} " in row for row in shown.draw()), title
                shown.keys("\r")
                shown.draw()
        shown.screen.composer.set("")
        shown.keys("/yol")
        await offered(shown)
        assert any("asks nothing: off" in row for row in shown.draw())
        shown.keys("\x1b[19~")
        assert "needs 112x28" in shown.draw()[-1] and not shown.screen.sidebar_hidden

    inside(look)


async def offered(shown: ScriptedScreen) -> None:
    while shown.screen.composer.buffer.complete_state is None:
        await asyncio.sleep(0)


def test_other_words_and_reasons_belong_to_actions_that_are_listed() -> None:
    listed = {action.id for action in Registry().commands()}
    assert set(ALIASES) <= listed
    assert {action_id for action_id in listed if idle_reason(State(), action_id)} >= {"deny", "kill", "copy.reply"}
