from pathlib import Path

import pytest
from support.records import until
from support.screen_inside import ScriptedScreen, ask, begin_task, feed, inside, request

from fluzo.core.events import TextDelta
from fluzo.screens import actions
from fluzo.screens.options import Options
from fluzo.screens.state import OpeningFailed, SessionLeft


def test_finding_on_says_that_nothing_more_comes_and_not_that_nothing_is_there() -> None:
    async def find(shown: ScriptedScreen) -> None:
        begin_task(shown, "look for the needle")
        feed(shown, [TextDelta("t_1", 1, 0, "One needle here.")])
        shown.draw()
        shown.keys("/find needle\r")
        shown.keys("n")
        assert '"needle" is not found further down' in shown.draw()[-1]
        shown.keys("N")
        assert '"needle"  n next' in shown.draw()[-1]
        shown.keys("N")
        assert '"needle" is not found further up' in shown.draw()[-1]
        shown.keys("\x1b")
        shown.keys("\x1b")
        shown.screen.composer.set("/find thread")
        shown.keys("\r")
        assert shown.draw()[-1].endswith('"thread" is not found')

    inside(find)


@pytest.mark.parametrize(
    ("editor", "told"),
    [
        ("true", ".fluzo is as it was"),
        ("cp other", ".fluzo has changed for the next start; F6 then R takes it over now"),
    ],
)
def test_the_editor_is_believed_only_as_far_as_the_file_says(tmp_path: Path, editor: str, told: str) -> None:
    (tmp_path / ".fluzo").write_text("schema_version = 1\n")
    (tmp_path / "other").write_text("schema_version = 1\n# more\n")
    command = editor.replace("other", str(tmp_path / "other"))
    environ = {"TERM": "xterm-256color", "VISUAL": command}

    async def edit(shown: ScriptedScreen) -> None:
        shown.screen.state = shown.screen.state._replace(root=str(tmp_path))
        actions.edit_config(shown.screen)
        await until(lambda: shown.screen.flash != "")
        assert shown.screen.flash == told

    inside(edit, options=Options("~/w", environ=environ))


def test_what_is_run_stands_once_in_the_whole_text_of_a_request() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        ask(shown, request())
        shown.draw()
        shown.keys("\t")
        shown.clock.time += 1
        shown.keys("v")
        assert sum("rm -rf build" in row for row in shown.draw()) == 1

    inside(look)


def test_on_the_smallest_screen_a_card_is_read_whole_and_a_reason_is_seen_while_it_is_written() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        scope = {**request()["scope"], "script": "rm -rf build\nmkdir build\n: > build/x\ntrue"}
        del scope["argv"]
        ask(shown, request(scope=scope))
        plain = "\n".join(shown.draw())
        assert "same scope, until it ends " in plain and "Typing goes to the composer. " in plain
        shown.keys("\t")
        shown.clock.time += 1
        shown.keys("1")
        assert "1-3 change.  Esc back " in "\n".join(shown.draw())
        shown.clock.time += 1
        shown.keys("e")
        for letter in "no":
            shown.clock.time += 1
            shown.keys(letter)
        assert "reason    no" in "\n".join(shown.draw())
        assert "Enter denies with it" in shown.draw()[-1]

    inside(look, columns=60, rows=16)


def test_a_list_says_why_it_cannot_be_read_and_lights_no_row_of_it() -> None:
    async def look(shown: ScriptedScreen) -> None:
        link, shown.screen.link = shown.screen.link, None
        shown.screen.state = shown.screen.state._replace(phase="failed")
        for key, name in (("\x1bOQ", "Sessions"), ("\x1bOS", "Tasks")):
            shown.keys(key)
            rows = shown.draw()
            assert name in rows[0]
            assert rows[3].startswith(" Nothing can be read, for Fluzo cannot begin here yet.")
            shown.keys("\x1b")
        shown.screen.link = link
        shown.screen.state = shown.screen.state._replace(phase="ready")
        shown.keys("\x1bOQ")
        await until(lambda: "No session" in shown.draw()[3] or "no session" in shown.draw()[3])

    inside(look)


def test_why_it_cannot_begin_stays_on_the_screen_whatever_else_is_said_there() -> None:
    failed = OpeningFailed("No model is set up in this workspace.", "configuration_required", "Run: fluzo init")

    async def look(shown: ScriptedScreen) -> None:
        shown.screen.apply(failed)
        assert "No model is set up" in "\n".join(shown.draw())
        shown.keys("/yolo\r")
        rows = "\n".join(shown.draw())
        assert "No model is set up" in rows and "Run: fluzo init" in rows and "nothing asks" in rows
        shown.screen.apply(SessionLeft())
        shown.screen.state = shown.screen.state._replace(phase="opening", failure=None)
        shown.screen.submit("sent before it was open")
        shown.screen.apply(failed)
        assert "No model is set up" in "\n".join(shown.draw())

    inside(look)


def test_a_message_that_comes_back_waits_with_the_draft_while_something_else_is_written() -> None:
    async def write(shown: ScriptedScreen) -> None:
        composer = shown.screen.composer
        shown.keys("a draft")
        shown.keys("\x1bOR")
        composer.give_back("not taken")
        shown.keys("needle")
        assert composer.text == "/find needle"
        assert composer.draft == ["a draft\n\nnot taken"], "it would outlive a crash"
        shown.keys("\r")
        assert composer.text == "a draft\n\nnot taken"
        shown.keys("\x1b[A" * 3 + "x")
        assert composer.swap(["another"]) == ["a draft\n\nnot taken"]
        shown.keys("\x15")
        assert composer.draft == []

    inside(write)
