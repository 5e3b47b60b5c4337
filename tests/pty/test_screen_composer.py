import asyncio
import json
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.records import until
from support.screen_inside import ScriptedScreen, ask, begin_task, inside, request
from support.scripted_port import event

from fluzo.core import events
from fluzo.core.port import Ack, QueueIntervention, StartTask, WithdrawIntervention
from fluzo.screens import drafts
from fluzo.screens.chips import MAX_SENT_BYTES, Chip, Chips, from_plain, label, sent, to_plain
from fluzo.screens.completion import FileIndex, Found, path_of
from fluzo.screens.key_stream import KeyStream, is_burst
from fluzo.screens.options import Options
from fluzo.screens.state import PageRead, Refused, SessionLeft

LONG = "\n".join(f"line {number} of it" for number in range(40))
Work = Callable[[ScriptedScreen], Awaitable[None]]


def at_drive(work: Work, drive: Path, *, session: str = "", home: Path | None = None) -> None:
    """Run the screen over a workspace whose private folder is this one."""
    environ = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "XDG_STATE_HOME": str(home or drive / "state")}
    drive.mkdir(exist_ok=True)

    async def run(shown: ScriptedScreen) -> None:
        await written(shown)
        await work(shown)
        if shown.screen.drafts is not None:
            thread = shown.screen.drafts.files._thread
            shown.screen.drafts.close()
            if thread is not None:
                thread.join()  # Closing itself waits for a slow disk only so long.

    inside(
        run,
        options=Options("~/w", environ=environ, session=session),
        facts={"model": "m", "endpoint": "http://127.0.0.1:1/v1", "drive": str(drive)},
    )


async def written(shown: ScriptedScreen) -> None:
    """Until everything that was handed to the thread of files is done, and told to the screen."""
    keeper = shown.screen.drafts
    assert keeper is not None
    done, loop = asyncio.Event(), asyncio.get_running_loop()
    for _ in range(2):  # What was read first may have something written.
        done.clear()
        keeper.files.do(lambda: loop.call_soon_threadsafe(done.set))
        await done.wait()
        await asyncio.sleep(0)


def pastes(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


def page(session: str) -> PageRead:
    return PageRead(session, session, (), 0, False, True)


# --- drafts ---------------------------------------------------------------------------------------------------


def test_a_draft_outlives_the_screen_with_its_chips_and_says_so(tmp_path: Path) -> None:
    async def write(shown: ScriptedScreen) -> None:
        shown.keys("see " + pastes(LONG) + " now")

    async def come_back(shown: ScriptedScreen) -> None:
        composer = shown.screen.composer
        assert composer.text == f"see {LONG} now"
        picture = "\n".join(shown.draw())
        assert "see [paste 1: 40 lines, 0.5 kB] now" in picture
        assert "Your unsent draft is back" in picture

    at_drive(write, tmp_path / "d")
    kept = tmp_path / "d" / drafts.DRAFTS
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    at_drive(come_back, tmp_path / "d")


@pytest.mark.parametrize("end", ["\r", "\x03"], ids=["sent", "cleared"])
def test_a_draft_that_was_sent_or_cleared_is_deleted_at_once(tmp_path: Path, end: str) -> None:
    async def write(shown: ScriptedScreen) -> None:
        assert shown.screen.drafts is not None
        shown.keys("some words")
        shown.screen.drafts.keep()
        await written(shown)
        assert (tmp_path / drafts.DRAFTS).exists()
        shown.keys(end)
        await written(shown)
        assert not (tmp_path / drafts.DRAFTS).exists()

    at_drive(write, tmp_path)


def test_no_key_writes_and_the_draft_is_kept_a_second_after_the_last(tmp_path: Path) -> None:
    async def write(shown: ScriptedScreen) -> None:
        keeper = shown.screen.drafts
        assert keeper is not None
        shown.keys("a")
        assert keeper._due is not None
        shown.clock.time += 0.5
        shown.keys("b")
        shown.clock.time += 0.6
        keeper._due.cancel()
        keeper._ripe()
        await written(shown)
        assert not (tmp_path / drafts.DRAFTS).exists(), "half a second after the last key it waits"
        shown.clock.time += 0.5
        keeper._due.cancel()
        keeper._ripe()
        await written(shown)
        assert json.loads((tmp_path / drafts.DRAFTS).read_bytes())["drafts"] == {"": ["ab"]}

    at_drive(write, tmp_path)


def test_each_session_has_a_draft_of_its_own(tmp_path: Path) -> None:
    async def switch(shown: ScriptedScreen) -> None:
        composer = shown.screen.composer
        shown.keys("for a new one")
        shown.screen.apply(page("s_1"))
        assert composer.empty
        shown.keys("for the first")
        shown.screen.apply(page("s_2"))
        shown.keys("for the second")
        shown.screen.apply(page("s_1"))
        assert composer.text == "for the first"
        shown.screen.apply(SessionLeft())
        assert composer.text == "for a new one"

    async def open_first(shown: ScriptedScreen) -> None:
        assert shown.screen.composer.text == "for the first"

    at_drive(switch, tmp_path)
    at_drive(open_first, tmp_path, session="s_1")


def test_a_draft_typed_while_the_screen_opens_is_not_replaced(tmp_path: Path) -> None:
    drafts.write_drafts(tmp_path, {"": ["the old one"]}, "")

    async def look(shown: ScriptedScreen) -> None:
        shown.screen.composer.clear()
        shown.keys("typed first")
        assert shown.screen.drafts is not None
        shown.screen.drafts._read(tmp_path, ({"": ["the old one"]}, ""), [])
        assert shown.screen.composer.text == "typed first"
        assert "in history" in shown.screen.flash
        shown.keys("\x1b[A")
        assert shown.screen.composer.text == "the old one"

    at_drive(look, tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"drafts": 3}', b"\xff\xfe", b'{"drafts": {"": [1, {"text": 2}]}}'])
def test_a_file_of_drafts_that_cannot_be_read_is_no_draft(tmp_path: Path, content: bytes) -> None:
    (tmp_path / drafts.DRAFTS).write_bytes(content)
    (tmp_path / drafts.PROMPTS).write_bytes(content)

    async def look(shown: ScriptedScreen) -> None:
        assert shown.screen.composer.empty

    at_drive(look, tmp_path)


def test_a_paste_over_a_megabyte_is_a_file_of_its_own_and_says_what_is_sent(tmp_path: Path) -> None:
    huge = "0123456789abcde\n" * 70_000
    chip = Chip("paste", huge, 1)
    assert label(chip) == "[paste 1: 70001 lines, 1.1 MB, 64.0 kB of it are sent]"
    assert len(sent(chip)) < 65_000
    assert sent(chip).endswith("[the paste ends here: 64000 of its 1120000 bytes were sent]\n")
    assert len(huge) > MAX_SENT_BYTES

    drafts.write_drafts(tmp_path, {"s": ["x ", chip]}, "s")
    (kept,) = (tmp_path / drafts.PASTES).iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert (tmp_path / drafts.DRAFTS).stat().st_size < 1000
    assert drafts.read_drafts(tmp_path) == ({"s": ["x ", chip]}, "s")
    drafts.write_drafts(tmp_path, {}, "s")
    assert list((tmp_path / drafts.PASTES).iterdir()) == []
    assert not (tmp_path / drafts.DRAFTS).exists()


# --- history --------------------------------------------------------------------------------------------------


def test_history_is_the_folders_own_and_brings_chips_back_whole(tmp_path: Path) -> None:
    async def send(shown: ScriptedScreen) -> None:
        shown.keys("look at " + pastes(LONG) + "\r")
        shown.screen.apply(Refused("no", "x"))
        shown.keys("/ask\r")

    async def recall(shown: ScriptedScreen) -> None:
        shown.keys("\x1b[A")
        assert shown.screen.composer.text == f"look at {LONG}", "a command is not recalled by another run"
        assert "look at [paste 1: 40 lines" in "\n".join(shown.draw())

    at_drive(send, tmp_path)
    assert stat.S_IMODE((tmp_path / drafts.PROMPTS).stat().st_mode) == 0o600
    at_drive(recall, tmp_path)


def test_no_secret_that_the_runtime_knows_is_kept_in_history(tmp_path: Path) -> None:
    async def send(shown: ScriptedScreen) -> None:
        link = shown.screen.link
        assert link is not None and link._runtime is not None
        link._runtime = link._runtime._replace(redact=lambda text: text.replace("hunter22", "[redacted]"))
        shown.keys("log in with hunter22 " + pastes(LONG + " hunter22") + "\r")

    at_drive(send, tmp_path)
    kept = (tmp_path / drafts.PROMPTS).read_text()
    assert "hunter22" not in kept
    assert kept.count("[redacted]") == 2


def test_history_keeps_its_newest_entries(tmp_path: Path) -> None:
    for number in range(drafts.MAX_PROMPTS + 30):
        drafts.append_prompt(tmp_path, [f"prompt {number}"])
    drafts.trim_prompts(tmp_path)
    assert len((tmp_path / drafts.PROMPTS).read_text().splitlines()) == drafts.MAX_PROMPTS
    assert drafts.read_prompts(tmp_path)[0] == ["prompt 30"]


def test_history_is_searched_here_and_then_in_every_folder(tmp_path: Path) -> None:
    home, here, there = tmp_path / "home", tmp_path / "here", tmp_path / "there"
    here.mkdir()
    drafts.append_prompt(here, ["fix the parser"])
    drafts.append_prompt(here, ["add a test for ", Chip("paste", LONG, 1)])

    async def elsewhere(shown: ScriptedScreen) -> None:
        shown.keys("rename the parser\r")

    async def search(shown: ScriptedScreen) -> None:
        shown.keys("\x12")
        picture = "\n".join(shown.draw())
        assert "Sent before: this folder" in picture
        assert picture.index("add a test for [paste 1: 40 lines") < picture.index("fix the parser")
        shown.keys("pars")
        picture = "\n".join(shown.draw())
        assert "fix the parser" in picture
        assert "add a test" not in picture
        assert "rename" not in picture
        shown.keys("\t")
        await written(shown)
        assert "rename the parser" in "\n".join(shown.draw())
        shown.keys("\x1b[B\r")
        assert not shown.screen.views
        assert shown.screen.composer.text == "rename the parser"
        assert shown.port.commands == []

    at_drive(elsewhere, there, home=home)
    at_drive(search, here, home=home)


def test_escape_leaves_the_search_and_the_draft_as_it_was(tmp_path: Path) -> None:
    async def search(shown: ScriptedScreen) -> None:
        shown.screen.composer.load_history([["something else"]])
        shown.keys("draft\x12some")
        assert "something else" in "\n".join(shown.draw())
        shown.keys("\x1b")
        assert shown.screen.composer.text == "draft"

    at_drive(search, tmp_path)


def test_with_nothing_written_control_r_tries_a_failed_task_again() -> None:
    asked: list[str] = []

    async def press(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.screen.apply(event(9, events.TaskStateChanged("running", "failed", "x")))
        run = shown.screen.run_action
        shown.screen.run_action = lambda action, argument="": (  # type: ignore[method-assign]
            asked.append(action) if action == "retry" else run(action, argument)
        )
        shown.keys("\x12")
        assert asked == ["retry"]
        shown.keys("words\x12")
        assert asked == ["retry"]
        assert shown.screen.views

    inside(press)


# --- pastes and chips -----------------------------------------------------------------------------------------


def test_a_lit_chip_opens_by_enter_or_v_and_control_o_folds_it_again() -> None:
    async def edit(shown: ScriptedScreen) -> None:
        composer, buffer = shown.screen.composer, shown.screen.composer.buffer
        for key in ("\r", "v"):
            shown.keys("see " + pastes(LONG))
            shown.keys("\x1b[D")
            shown.draw()
            shown.keys(key)
            assert buffer.text == f"see {LONG}"
            shown.keys("!")
            shown.keys("\x0f")
            assert composer.text == f"see {LONG}!"
            assert len(buffer.text) == 5
            assert "[paste 1: 40 lines" in "\n".join(shown.draw())
            composer.set("")
        assert shown.port.commands == []

    inside(edit)


def test_enter_after_a_chip_sends_and_v_before_one_is_a_letter() -> None:
    async def edit(shown: ScriptedScreen) -> None:
        shown.keys(pastes(LONG))
        shown.keys("\x01v")
        assert shown.screen.composer.text == f"v{LONG}"
        shown.keys("\x05\r")
        await asyncio.sleep(0)
        assert [item.text for item in shown.port.commands if isinstance(item, StartTask)] == [f"v{LONG}"]

    inside(edit)


def test_a_paste_is_one_undo_and_drops_what_controls() -> None:
    async def edit(shown: ScriptedScreen) -> None:
        shown.keys("a")
        shown.keys(pastes("b\r\nc\x00\x1b[31md\r"))
        assert shown.screen.composer.text == "ab\ncd\n"
        assert "left out" in shown.screen.flash
        shown.keys("\x1f")
        assert shown.screen.composer.text == "a"

    inside(edit)


def test_readline_keys_do_what_everybody_knows() -> None:
    async def edit(shown: ScriptedScreen) -> None:
        text = shown.screen.composer
        shown.keys("one two three")
        shown.keys("\x17")
        assert text.text == "one two "
        shown.keys("\x19")
        assert text.text == "one two three"
        shown.keys("\x1bb\x1bb\x1bd")
        assert text.text == "one  three"
        shown.keys("\x01\x0b")
        assert text.text == ""
        shown.keys("\x19\x15")
        assert text.text == ""
        shown.keys("ab\x02X\x06Y\x01Z\x05!")
        assert text.text == "ZaXbY!"

    inside(edit)


@pytest.mark.parametrize(
    ("data", "paste"),
    [
        ("first line of it\rsecond line", True),
        ("a line that is typed ahead\r", False),
        ("two\rthree", False),
        ("words with a sequence\r\x1b[A and more", False),
        ("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n", True),
    ],
)
def test_lines_that_come_faster_than_a_hand_are_a_paste(data: str, paste: bool) -> None:
    assert is_burst(data) is paste
    if paste:
        keys = KeyStream(lambda report: False, lambda: 0.0).paste(data)
        assert [(str(key.key), key.data) for key in keys] == [("Keys.BracketedPaste", data)]


def test_chips_survive_json_and_are_the_same_character_again() -> None:
    chips = Chips()
    parts = ["a ", Chip("paste", LONG, 2), Chip("file", "@x.py:1-2", size=9), " b"]
    text = chips.joined(parts)
    assert chips.parts(text) == parts
    assert chips.joined(from_plain(json.loads(json.dumps(to_plain(parts))))) == text
    assert chips.whole(text) == f"a {LONG}@x.py:1-2 b"


# --- files ----------------------------------------------------------------------------------------------------


def with_files(shown: ScriptedScreen, sizes: dict[str, int], folders: tuple[str, ...] = ()) -> None:
    shown.screen.files._found = Found(sizes, folders)
    shown.screen.files._root = ""


async def completed(shown: ScriptedScreen) -> list[str]:
    """The completions that are offered, once they are."""
    buffer = shown.screen.composer.buffer
    while buffer.complete_state is None or not buffer.complete_state.completions:
        await asyncio.sleep(0)
    return [item.text for item in buffer.complete_state.completions]


def test_a_mention_becomes_a_chip_with_its_size_and_is_sent_as_it_is_shown() -> None:
    async def mention(shown: ScriptedScreen) -> None:
        with_files(shown, {"ledger/round.py": 2100, "big.log": 3_000_000})
        shown.keys("look @rou")
        assert (await completed(shown))[0] == "@ledger/round.py"
        shown.keys("\t")
        shown.keys("and @big:10-40")
        assert (await completed(shown))[0] == "@big.log:10-40"
        shown.keys("\t")
        picture = "\n".join(shown.draw())
        assert "look [@ledger/round.py 2.1 kB] and [@big.log:10-40 3.0 MB, read in parts]" in picture
        assert shown.screen.composer.text == "look @ledger/round.py and @big.log:10-40 "
        shown.keys("\r")
        await asyncio.sleep(0)
        (started,) = [item for item in shown.port.commands if isinstance(item, StartTask)]
        assert started.text == "look @ledger/round.py and @big.log:10-40 "

    inside(mention, columns=120)


def test_a_folder_is_stepped_into() -> None:
    async def mention(shown: ScriptedScreen) -> None:
        with_files(shown, {"src/a.py": 1, "src/deep/b.py": 2}, ("src/", "src/deep/"))
        shown.keys("@sr")
        assert (await completed(shown))[0] == "@src/"
        shown.keys("\t")
        assert shown.screen.composer.text == "@src/"
        assert (await completed(shown))[:2] == ["@src/a.py", "@src/deep/"]

    inside(mention)


def test_changed_and_recent_files_come_first() -> None:
    async def mention(shown: ScriptedScreen) -> None:
        from fluzo.screens.blocks import Block, Tool

        with_files(shown, {"a_mod.py": 1, "b_mod.py": 1, "c_mod.py": 1, "d_mod.py": 1})
        state = shown.screen.state
        tool = Tool("o", "c", "read_file", "read", "c_mod.py")
        blocks = state.blocks.append(Block(0, "tool", tool=tool))
        shown.screen.state = state._replace(changes=({"path": "d_mod.py"},), blocks=blocks)
        shown.keys("@mod")
        assert await completed(shown) == ["@d_mod.py", "@c_mod.py", "@a_mod.py", "@b_mod.py"]

    inside(mention)


def test_the_index_takes_the_names_that_the_runtime_knows_with_their_sizes(tmp_path: Path) -> None:
    for name in ("a.py", "src/deep/b.py", "src/with space.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("12345")
    files = FileIndex()
    files._read(str(tmp_path), ["a.py", "gone.py", "src/deep/b.py", "src/with space.txt", "src"])
    assert files.names == ("a.py", "src/deep/b.py", "src/with space.txt")
    assert files.folders == ("src/", "src/deep/")
    assert files.size("src/deep/b.py") == 5


def test_the_index_asks_again_only_when_the_last_answer_is_there() -> None:
    asked: list[Callable[[str], None]] = []
    files = FileIndex()
    files.ask = lambda taken, failed: asked.append(failed)
    files.refresh("/w")
    files.refresh()
    assert len(asked) == 1
    asked[0]("The folder could not be read.")
    files.refresh()
    assert len(asked) == 2


@pytest.mark.parametrize("form", ["{}", "'{}'", "file://{}", " {}\n"])
def test_a_pasted_path_of_a_file_becomes_a_mention(tmp_path: Path, form: str) -> None:
    (tmp_path / "note.txt").write_text("x" * 300)

    async def paste(shown: ScriptedScreen) -> None:
        files = shown.screen.files
        files._root = str(tmp_path)
        found = asyncio.Event()
        look, loop = files.look, asyncio.get_running_loop()

        def watched(name: str, taken: Callable[[str, int, bool], object]) -> None:
            def told(*answer: object) -> None:
                taken(*answer)  # type: ignore[arg-type]
                loop.call_soon_threadsafe(found.set)

            look(name, told)

        files.look = watched  # type: ignore[method-assign]
        shown.keys("read ")
        shown.keys(pastes(form.format(tmp_path / "note.txt")))
        await found.wait()
        assert "read [@note.txt 0.3 kB]" in "\n".join(shown.draw())
        assert shown.screen.composer.text == "read @note.txt"

    inside(paste)


def test_a_path_outside_the_folder_is_marked(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out.txt").write_text("x")
    found: list[tuple[str, int, bool]] = []
    from fluzo.screens.completion import _look

    _look(str(tmp_path / "in"), str(tmp_path / "out.txt"), lambda *answer: found.append(answer))
    assert found == [(str(tmp_path / "out.txt"), 1, True)]
    assert "outside the folder: the agent cannot read it" in label(Chip("file", "@/x/out.txt", outside=True))


@pytest.mark.parametrize("text", ["two words", "hello", "a/b/", "x\ny.py", "mail@host.org", "'open", ""])
def test_text_that_is_no_single_path_stays_text(text: str) -> None:
    assert path_of(text) == ""


# --- the queue ------------------------------------------------------------------------------------------------


def queued(shown: ScriptedScreen, *texts: str) -> None:
    begin_task(shown)
    for number, text in enumerate(texts):
        shown.screen.apply(event(10 + number, events.InterventionQueued(f"i_{number}", text)))
    shown.keys("/queue\r")


def test_a_queued_message_is_edited_in_the_composer() -> None:
    async def edit(shown: ScriptedScreen) -> None:
        queued(shown, "first", "second")
        assert "1  first" in "\n".join(shown.draw())
        shown.keys("\x1b[B\r")
        await until(lambda: not shown.screen.composer.empty)
        assert WithdrawIntervention("t_1", "i_1") in shown.port.commands
        assert shown.screen.composer.text == "second"
        assert not shown.screen.views

    inside(edit)


def test_queued_messages_change_places_and_all_stay_queued() -> None:
    async def order(shown: ScriptedScreen) -> None:
        queued(shown, "first", "second", "third")
        shown.keys("J")
        asked = [item for item in shown.port.commands if not isinstance(item, StartTask)]
        assert asked == [
            WithdrawIntervention("t_1", "i_1"),
            WithdrawIntervention("t_1", "i_0"),
            WithdrawIntervention("t_1", "i_2"),
            QueueIntervention("t_1", "second"),
            QueueIntervention("t_1", "first"),
            QueueIntervention("t_1", "third"),
        ]

    inside(order)


def test_what_the_agent_took_meanwhile_is_not_queued_again() -> None:
    async def order(shown: ScriptedScreen) -> None:
        queued(shown, "first", "second")
        shown.port._ack = Ack(False, code="not_found", message="It was taken.")
        shown.keys("J")
        assert not [item for item in shown.port.commands if isinstance(item, QueueIntervention)]

    inside(order)


def test_a_dropped_message_stays_in_history() -> None:
    async def drop(shown: ScriptedScreen) -> None:
        queued(shown, "only this")
        shown.keys("d")
        assert shown.port.commands[-1] == WithdrawIntervention("t_1", "i_0")
        shown.keys("\x1b")
        shown.keys("\x1b[A")
        assert shown.screen.composer.text == "only this"

    inside(drop)


def test_a_message_that_is_not_recorded_yet_is_neither_edited_nor_dropped() -> None:
    async def press(shown: ScriptedScreen) -> None:
        from fluzo.screens.state import QueuedHere

        begin_task(shown)
        shown.screen.apply(QueuedHere("t_1", "on its way"))
        shown.keys("/queue\r")
        before = list(shown.port.commands)
        shown.keys("d\rJ")
        assert shown.port.commands == before
        assert "on its way" in shown.screen.flash

    inside(press)


def test_the_rule_names_the_task_when_several_run() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown, "Invoice rounding")
        assert "to:" not in "\n".join(shown.draw())
        state = shown.screen.state
        other = state.tasks["t_1"]._replace(id="t_2", text="another")
        shown.screen.state = state._replace(tasks={**state.tasks, "t_2": other})
        assert "to: Invoice rounding" in "\n".join(shown.draw())

    inside(look)


def test_a_draft_survives_a_card_and_views() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        shown.keys("my draft " + pastes(LONG))
        ask(shown, request())
        shown.draw()
        shown.keys("\t")
        shown.keys("\x1b")
        for key in ("\x10", "\x1bOP", "\x1bOS"):
            shown.keys(key)
            shown.draw()
            shown.keys("\x1b")
        assert shown.screen.composer.text == f"my draft {LONG}"

    inside(look)


def test_up_and_down_go_by_rows_as_they_are_drawn_and_through_history_at_the_first_and_last() -> None:
    async def edit(shown: ScriptedScreen) -> None:
        composer, places = shown.screen.composer, []
        composer.load_history([["sent before"]])
        draft = "測試 " * 20 + "\nshort\nand a last line"
        shown.keys(draft)
        for _ in range(4):
            shown.draw()
            places.append((shown._picture.cursor.x, shown._picture.cursor.y))
            shown.keys("\x1b[A")
        assert [x for x, _ in places] == [17, 7, 17, 17], "the column comes back after a shorter row"
        assert [y for _, y in places] == [22, 21, 20, 19], "a line that wraps is two rows"
        assert composer.text == "sent before"
        shown.keys("\x1b[B")
        assert composer.text == draft

    inside(edit)
