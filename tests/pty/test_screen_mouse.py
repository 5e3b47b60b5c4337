import asyncio
import base64
import random
import re

import pytest
from support.mouse import click, drag, find, press, release
from support.screen_inside import ScriptedScreen, ask, begin_task, feed, inside, request
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.events import TextDelta
from fluzo.core.port import CancelTask
from fluzo.screens import clipboard
from fluzo.screens.blocks import Block, Blocks, Tool
from fluzo.screens.plain import plain_text
from fluzo.screens.state import MessagesRead, PageRead, Toggled

REPLY = "The remainder was **dropped** because each share was rounded on its own.\n\n```python\ntotal = 1\n```\n"


def thumb(rows: list[str]) -> bool:
    return any(row[79:80] == "┃" for row in rows)


def replied(shown: ScriptedScreen) -> list[str]:
    begin_task(shown)
    feed(shown, [TextDelta("t_1", 1, 0, REPLY)])
    shown.screen.mouse = True
    return shown.draw()


async def copied(shown: ScriptedScreen) -> str:
    """What went to the terminal's clipboard, once it did; no clipboard tool is there in a test."""
    while "]52;c;" not in shown.terminal.getvalue():
        await asyncio.sleep(0)
    match = re.search("\x1b\\]52;c;([^\x07]*)\x07", shown.terminal.getvalue())
    assert match is not None
    return base64.b64decode(match[1]).decode()


def test_the_mouse_is_off_until_it_is_asked_for() -> None:
    async def look(shown: ScriptedScreen) -> None:
        shown.draw()
        assert "\x1b[?1002h" not in shown.written
        shown.keys("/mouse\r")
        shown.draw()
        assert "\x1b[?1002h\x1b[?1006h" in shown.written
        assert "1003h" not in shown.written
        shown.keys("/mouse\r")
        shown.draw()
        assert shown.written.rindex("\x1b[?1002l") > shown.written.rindex("\x1b[?1002h")

    inside(look)


def test_a_drag_selects_source_text_and_control_c_copies_it_and_cancels_nothing() -> None:
    async def select(shown: ScriptedScreen) -> None:
        rows = replied(shown)
        shown.keys("draft")
        x, y = find(rows, "remainder")
        press(shown, x, y)
        end, below = find(rows, "because")
        drag(shown, end + len("because") - 1, below)
        release(shown, end + len("because") - 1, below)
        shown.draw()
        assert shown._picture.buffer[y][x].bg == "2b3a5c"
        assert shown._picture.buffer[y][x - 2].bg != "2b3a5c"
        assert shown.screen.body.focus == "composer"
        assert "]52;" not in shown.written
        shown.keys("\x03")
        assert await copied(shown) == "remainder was **dropped** because"
        assert shown.screen.composer.text == "draft"
        assert shown.screen.transcript.pointer.selection is None
        shown.keys("\x03")
        assert CancelTask("t_1") in shown.port.commands

    inside(select)


def test_a_selection_stays_on_its_text_while_more_arrives_and_escape_clears_it() -> None:
    async def stream(shown: ScriptedScreen) -> None:
        rows = replied(shown)
        x, y = find(rows, "remainder")
        press(shown, x, y)
        drag(shown, x + 8, y)
        release(shown, x + 8, y)
        for number in range(30):
            feed(shown, [TextDelta("t_1", 1, len(REPLY) + 12 * number, f"\nMore {number:02}.\n\n")])
            shown.draw()
        pointer = shown.screen.transcript.pointer
        assert pointer.text == "remainder"
        shown.keys("\x1b")
        assert pointer.selection is None
        assert shown.screen.state.task is not None and shown.screen.state.task.state == "running"

    inside(stream)


def test_two_clicks_take_a_word_and_three_a_line() -> None:
    async def select(shown: ScriptedScreen) -> None:
        rows = replied(shown)
        pointer = shown.screen.transcript.pointer
        x, y = find(rows, "dropped")
        click(shown, x, y)
        assert pointer.text == ""
        click(shown, x, y)
        assert pointer.text == "dropped"
        click(shown, x, y)
        assert pointer.text == REPLY.partition("\n")[0]
        shown.clock.time += 1
        click(shown, x, y)
        assert pointer.text == ""

    inside(select)


def test_a_click_opens_a_tool_row_and_the_keyboard_stays_in_the_composer() -> None:
    async def open_row(shown: ScriptedScreen) -> None:
        begin_task(shown)
        asked = events.OperationRequested("read_file", "read", "a.py", "f", 1, "c1")
        ended = events.OperationEnded(True, "", "a.py", {"lines": 3})
        message = {"role": "tool", "tool_call_id": "c1", "text": "the content", "turn": 1, "task_id": "t_1"}
        feed(shown, [event(3, asked, "o_1"), event(4, ended, "o_1"), MessagesRead((message,))])
        shown.screen.mouse = True
        rows = shown.draw()
        assert "the content" not in "\n".join(rows)
        click(shown, *find(rows, "a.py"))
        rows = shown.draw()
        assert "the content" in "\n".join(rows)
        assert shown.screen.body.focus == "composer"
        shown.clock.time += 1
        click(shown, *find(rows, "a.py"))
        assert "the content" not in "\n".join(shown.draw())

    inside(open_row)


def test_a_click_in_the_composer_brings_the_keyboard_and_the_cursor() -> None:
    async def point(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys("one two")
        shown.screen.mouse = True
        shown.draw()
        shown.screen.body.focus_transcript()
        x, y = find(shown.draw(), "two")
        click(shown, x, y)
        assert shown.screen.body.focus == "composer"
        shown.keys("X")
        assert shown.screen.composer.text == "one Xtwo"
        press(shown, 2, y)
        drag(shown, 6, y)
        release(shown, 6, y)
        assert shown.screen.composer.buffer.selection_state is None

    inside(point)


def test_turns_of_the_wheel_are_one_scroll_a_frame() -> None:
    async def roll(shown: ScriptedScreen) -> None:
        blocks = tuple(Block(0, "text", source=f"Message {number}.") for number in range(80))
        shown.screen.apply(PageRead("s_9", "Long", blocks, 1, False, True))
        shown.screen.mouse = True
        shown.draw()
        end = shown.screen.transcript._end_anchor()
        for _ in range(5):
            shown.keys("\x1b[<64;10;10M")
        assert shown.screen.transcript.follow
        shown.draw()
        assert shown.screen.transcript.anchor == shown.screen.transcript._moved(end, -15)
        assert shown.screen.body.focus == "composer"

    inside(roll)


# --- the card -------------------------------------------------------------------------------------------------


def asking(shown: ScriptedScreen) -> list[str]:
    begin_task(shown)
    shown.screen.mouse = True
    shown.draw()
    ask(shown, request())
    return shown.draw()


def quiet(shown: ScriptedScreen, seconds: float = 1.0) -> list[str]:
    shown.clock.time += seconds
    return shown.draw()


def test_a_card_is_answered_by_three_clicks_and_the_last_is_on_confirm() -> None:
    async def answer(shown: ScriptedScreen) -> None:
        asking(shown)
        rows = quiet(shown)
        click(shown, *find(rows, "Permission 1 of 1"))
        assert shown.screen.body.focus == "card"
        rows = quiet(shown)
        click(shown, *find(rows, "Allow once"))
        assert shown.screen.card.choice == 2
        rows = quiet(shown, 0.05)
        click(shown, *find(rows, "Enter confirms 2."))
        assert not shown.approvals(), "not a moment after the choice"
        rows = quiet(shown)
        click(shown, *find(rows, "Enter confirms 2."))
        assert [item.answer for item in shown.approvals()] == ["once"]

    inside(answer)


def test_no_click_acts_on_the_frame_that_the_card_appeared_in_or_soon_after_focus() -> None:
    async def answer(shown: ScriptedScreen) -> None:
        rows = asking(shown)
        click(shown, *find(rows, "Allow once"))
        assert shown.screen.body.focus == "composer"
        rows = shown.draw()
        click(shown, *find(rows, "Allow once"))
        assert shown.screen.body.focus == "card"
        rows = shown.draw()
        click(shown, *find(rows, "Allow once"))
        assert shown.screen.card.choice == 0

    inside(answer)


def test_press_and_release_must_be_on_the_same_thing_of_the_same_card() -> None:
    async def answer(shown: ScriptedScreen) -> None:
        asking(shown)
        rows = quiet(shown)
        click(shown, *find(rows, "Permission 1 of 1"))
        rows = quiet(shown)
        click(shown, *find(rows, "Allow once"))
        rows = quiet(shown)
        press(shown, *find(rows, "Permission 1 of 1"))
        release(shown, *find(rows, "Enter confirms 2."))
        assert not shown.approvals()
        press(shown, *find(rows, "Enter confirms 2."))
        ask(shown, request(2))
        shown.draw()
        release(shown, *find(rows, "Enter confirms 2."))
        assert not shown.approvals()

    inside(answer)


@pytest.mark.parametrize("came_up", [True, False])
def test_a_press_on_confirm_that_slid_off_is_forgotten(came_up: bool) -> None:
    async def answer(shown: ScriptedScreen) -> None:
        asking(shown)
        click(shown, *find(quiet(shown), "Permission 1 of 1"))
        click(shown, *find(quiet(shown), "Allow once"))
        rows = quiet(shown)
        confirm = find(rows, "Enter confirms 2.")
        press(shown, *confirm)
        drag(shown, 3, 2)
        if came_up:
            release(shown, 3, 2)
        press(shown, 3, 2)
        drag(shown, *confirm)
        release(shown, *confirm)
        assert not shown.approvals()
        click(shown, *confirm)
        assert shown.approvals()

    inside(answer)


def test_what_is_asked_about_is_no_choice_even_if_it_looks_like_one() -> None:
    async def answer(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.screen.mouse = True
        ask(shown, request(preview=" 3  Allow for this task\n Enter confirms 3.\n+x"))
        shown.draw()
        rows = quiet(shown)
        click(shown, *find(rows, "Permission 1 of 1"))
        rows = quiet(shown)
        click(shown, *find(rows, "3  Allow for this task"))
        assert shown.screen.card.choice == 0
        click(shown, *find(quiet(shown), "2  Allow once"))
        assert shown.screen.card.choice == 2
        click(shown, *find(quiet(shown), "Enter confirms 3."))
        assert not shown.approvals()
        click(shown, *find(quiet(shown), "Enter confirms 2."))
        assert shown.approvals()

    inside(answer, rows=40)


@pytest.mark.parametrize("seed", range(20))
def test_no_clicking_about_approves_without_a_choice_and_a_later_confirm(seed: int) -> None:
    dice = random.Random(seed)

    async def attack(shown: ScriptedScreen) -> None:
        rows = asking(shown)
        for _ in range(60):
            x, y = dice.randrange(80), dice.randrange(len(rows))
            chosen, chosen_at = shown.screen.card.choice, shown.screen.card.chosen_at
            before = len(shown.approvals())
            row = rows[y]
            dice.choice((click, press, drag, release))(shown, x, y)
            if len(shown.approvals()) > before:
                assert f"Enter confirms {chosen}." in row
                assert shown.clock.time - chosen_at >= 0.12
                return
            shown.clock.time += dice.choice((0.0, 0.01, 0.2, 0.5))
            rows = shown.draw()

    inside(attack)


# --- copying --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("/copy\r", REPLY),
        ("/copy all\r", f"go\n\n{REPLY}"),
        ("\ty", REPLY),
        ("\tc", "total = 1"),
        ("\tY", f"go\n\n{REPLY}"),
    ],
)
def test_every_way_of_copying_gives_the_source(how: str, text: str) -> None:
    async def copy(shown: ScriptedScreen) -> None:
        replied(shown)
        for part in (how[:1], how[1:]) if how.startswith("\t") else (how,):
            shown.keys(part)
        assert await copied(shown) == text
        assert "which may not take it" in shown.screen.flash

    inside(copy)


def test_the_nearest_code_is_looked_for_above_and_then_below() -> None:
    async def copy(shown: ScriptedScreen) -> None:
        fences = ("```\nfirst\n```", "no code", "```\nlast\n```")
        blocks = tuple(Block(0, "text", source=source, state="completed") for source in fences)
        shown.screen.apply(PageRead("s_9", "t", blocks, 1, False, True))
        shown.draw()
        shown.screen.body.focus_transcript()
        shown.screen.transcript.selected = 1
        shown.keys("c")
        assert await copied(shown) == "first"

    inside(copy)


def test_of_several_codes_the_last_on_the_screen_is_copied_and_each_is_labelled_with_the_key() -> None:
    async def copy(shown: ScriptedScreen) -> None:
        lines = "\n\n".join(f"line {number}" for number in range(40))
        source = f"- in a list\n\n  ```python\n  first = 1\n  ```\n\n{lines}\n\n```\nnot\nclosed"
        shown.screen.apply(PageRead("s_9", "t", (Block(0, "text", source=source, state="completed"),), 1, False, True))
        assert any(row.endswith("text  2 lines  c copy") for row in shown.draw())
        shown.screen.body.focus_transcript()
        shown.keys("c")
        assert await copied(shown) == "not\nclosed"
        shown.keys("g")
        assert any("python  1 line  c copy" in row for row in shown.draw())
        shown.keys("c")
        assert await copied(shown) == "first = 1"

    inside(copy)


@pytest.mark.parametrize("environ", [{"TMUX": "x"}, {"TERM": "screen-256color"}, {"TERM": "xterm"}])
def test_the_clipboard_sequence_is_wrapped_for_what_it_passes(environ: dict[str, str]) -> None:
    data = b"x" * 5000
    sequence = clipboard.osc52(data, environ)
    if "TMUX" in environ:
        assert sequence.startswith("\x1bPtmux;\x1b\x1b]52;c;") and sequence.endswith("\x07\x1b\\")
        sequence = sequence.removeprefix("\x1bPtmux;").removesuffix("\x1b\\").replace("\x1b\x1b", "\x1b")
    elif environ["TERM"].startswith("screen"):
        pieces = re.findall("\x1bP(.*?)\x1b\\\\", sequence, re.DOTALL)
        assert len(pieces) > 1
        assert all(len(piece) <= 768 for piece in pieces)
        sequence = "".join(pieces)
    assert base64.b64decode(sequence.removeprefix("\x1b]52;c;").removesuffix("\x07")) == data


def test_only_what_a_tool_took_is_called_copied() -> None:
    assert clipboard.sentence("it, 3 bytes", "xclip", "", "", sent=False) == "copied it, 3 bytes, with xclip"
    for kept, sent in (("", True), ("f", True), ("", False), ("f", False)):
        assert "copied" not in clipboard.sentence("it", "", kept, "", sent=sent)


def test_hidden_characters_are_copied_spelt_out_and_shown() -> None:
    text, spelt = clipboard.prepared("run a\u202egpj.exe\x1b[31m\tx\ny")
    assert text == "run a<U+202E>gpj.exe<U+001B>[31m\tx\ny"
    assert spelt == "run a<U+202E>gpj.exe<"
    assert spelt in clipboard.sentence("it", "xclip", "", spelt, sent=False)
    assert clipboard.prepared("漢字\u3000 \U0001f469\u200d\U0001f467")[1] == ""


def test_the_plain_conversation_says_who_spoke_and_holds_no_control() -> None:
    found = Blocks()
    for block in (
        Block(0, "user", source="go\x1b[2J"),
        Block(0, "tool", state="failed", tool=Tool("o", "c", "run", "run", "make", "exit 1", output="out\x07")),
        Block(0, "text", source="Done."),
    ):
        found = found.append(block)
    assert plain_text(found) == "you: go\n\nrun make  (failed  exit 1)\nout\n\nfluzo: Done."


# --- the place that is read -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_what_is_read_stays_where_it_is_whatever_happens_around_it(seed: int) -> None:
    dice = random.Random(seed)

    async def read(shown: ScriptedScreen) -> None:
        blocks = []
        for number in range(60):
            tool = Tool("o", f"c{number}", "read_file", "read", f"f{number}.py", output="line\n" * dice.randrange(6))
            words = f"Message {number}. " + "word " * dice.randrange(60)
            blocks.append(Block(0, "tool", tool=tool) if number % 3 else Block(0, "text", source=words))
        shown.screen.apply(PageRead("s_9", "Long", tuple(blocks), 1, False, True))
        shown.draw()
        transcript = shown.screen.transcript
        transcript.page(-2)
        shown.draw()
        first = transcript.shown[0]
        offset = 1000
        for step in range(40):
            act = dice.choice(("append", "stream", "open", "width", "older"))
            if act == "append":
                shown.screen.apply(event(offset + step, events.WarningRaised("code", f"A warning {step}")))
            elif act == "stream":
                feed(shown, [TextDelta("t_1", 1, 0, "more words " * dice.randrange(40) + "\n\n")])
            elif act == "open":
                key = dice.choice([key for key in range(60) if key != first.key])
                shown.screen.apply(Toggled(key, dice.choice((True, False))))
            elif act == "older":
                older = tuple(Block(0, "text", source=f"Older {step}") for _ in range(3))
                shown.screen.apply(PageRead("s_9", "Long", older, 1, False, False))
            else:
                transcript.visible(dice.choice((60, 80, 100)), dice.choice((10, 20, 30)))
                transcript.visible(80, transcript.height)
            shown.draw()
            top = transcript.shown[0]
            assert top.key == first.key
            assert not transcript.follow
            if act != "width":
                assert top.row == first.row

    inside(read)


def test_rows_that_came_below_are_counted_and_the_thumb_shows_only_then() -> None:
    async def read(shown: ScriptedScreen) -> None:
        blocks = tuple(Block(0, "text", source=f"Message {number}.") for number in range(60))
        shown.screen.apply(PageRead("s_9", "Long", blocks, 1, False, True))
        rows = shown.draw()
        assert not thumb(rows)
        shown.keys("\x1b[5~")
        rows = shown.draw()
        assert thumb(rows)
        assert "new lines below" not in "\n".join(rows)
        shown.screen.apply(event(9, events.WarningRaised("code", "A warning")))
        assert re.search(r"\d new lines? below  Ctrl\+End", "\n".join(shown.draw()))
        shown.keys("\x1b[1;5F")
        rows = shown.draw()
        assert "below" not in "\n".join(rows)
        assert not thumb(rows)

    inside(read)


def test_following_ends_by_scrolling_up_and_begins_at_the_end_or_by_sending() -> None:
    async def read(shown: ScriptedScreen) -> None:
        blocks = tuple(Block(0, "text", source=f"Message {number}.") for number in range(60))
        shown.screen.apply(PageRead("s_9", "Long", blocks, 1, False, True))
        transcript = shown.screen.transcript
        shown.draw()
        for back in ("\x1b[1;5F", "\x1b[6~\x1b[6~\x1b[6~"):
            shown.keys("\x1b[5~")
            shown.draw()
            assert not transcript.follow
            shown.keys(back)
            shown.draw()
            assert transcript.follow
        begin_task(shown)
        shown.keys("\x1b[5~")
        ask(shown, request())
        shown.draw()
        assert not transcript.follow, "a card moves nothing"
        shown.keys("for the queue\r")
        assert transcript.follow

    inside(read)


def test_where_everything_fits_there_is_nothing_to_scroll() -> None:
    async def read(shown: ScriptedScreen) -> None:
        replied(shown)
        shown.keys("\x1b[5~")
        rows = shown.draw()
        assert shown.screen.transcript.follow
        assert not thumb(rows)

    inside(read, rows=40)


LONG = "\n\n".join(f"Paragraph {number:02}." for number in range(60))


@pytest.mark.parametrize(("columns", "rows", "edge"), [(80, 24, 0), (120, 40, 0)])
def test_a_drag_past_an_edge_scrolls_and_selects_until_the_button_comes_up(columns: int, rows: int, edge: int) -> None:
    async def select(shown: ScriptedScreen) -> None:
        begin_task(shown)
        feed(shown, [TextDelta("t_1", 1, 0, LONG)])
        shown.screen.mouse = True
        picture = shown.draw()
        transcript, dragging = shown.screen.transcript, shown.screen.body.dragging
        x, y = find(picture, "Paragraph 59")
        press(shown, x + len("Paragraph 59"), y)
        drag(shown, x, y - 4)
        assert not dragging.scrolling and transcript.follow
        drag(shown, x, edge)
        assert dragging.scrolling and not transcript.follow
        for _ in range(400):
            dragging.tick()
        assert not dragging.scrolling and transcript.anchor.key == shown.screen.state.blocks.first
        release(shown, x, edge)
        assert transcript.pointer.text.endswith(LONG.strip())
        picture = shown.draw()
        x, y = find(picture, "Paragraph 03")
        press(shown, x, y)
        below = shown.screen.layout.composer.y
        drag(shown, x + 40, below)
        top = transcript.anchor
        for _ in range(4):
            dragging.tick()
        assert top < transcript.anchor and dragging.scrolling
        release(shown, x + 40, below)
        here, drawn = transcript.anchor, shown.draw()
        assert not dragging.scrolling
        dragging.tick()
        assert transcript.anchor == here and not dragging.scrolling
        text = transcript.pointer.text
        assert LONG[LONG.index("Paragraph 03") :].startswith(text) and text.split("\n")[-1] in " ".join(drawn)
        assert shown.screen.composer.text == "" and shown.screen.body.focus == "composer"

    inside(select, columns=columns, rows=rows)
