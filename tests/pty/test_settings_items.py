"""Lists, tables and their entries on the settings page: opened in place, added to, changed, moved and removed."""

import pytest
from support.screen_inside import ScriptedScreen
from support.settings_page import (
    CLEAR,
    DOWN,
    ENTER,
    ESC,
    FILE,
    LEFT,
    RIGHT,
    UP,
    ScriptedFile,
    at,
    at_settings,
    has,
    press,
    row_of,
    saves,
)

MORE = {
    **FILE,
    "verification": {"commands": [["pytest", "-q"], ["ruff", "check", "a b"]]},
    "policy": {"grants": [{"argv": ["make", "lint"], "cwd": "sub"}]},
    "tools": {"shell": {"env": {"A": "1"}}},
}


def with_more() -> ScriptedFile:
    file = ScriptedFile()
    file.file = file.in_force = MORE
    return file


async def opened(shown: ScriptedScreen, key: str) -> list[str]:
    """Open a list in place."""
    await at(shown, key)
    return await press(shown, ESC, ENTER)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (160, 50)])
def test_a_list_opens_in_place_and_its_items_are_changed_moved_and_removed(columns: int, rows: int) -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await opened(shown, "verification.commands")
        picture = await press(shown, DOWN, DOWN)
        assert has(picture, "1 pytest -q") and has(picture, "> 2 ruff check 'a b'")
        assert has(picture, "verification.commands[1]") and has(picture, "saving is no consent: fluzo config trust")
        picture = await press(shown, ENTER, CLEAR, "mypy 'open", ENTER)
        assert has(picture, "verification.commands[1] is a command line, and a quote or")
        picture = await press(shown, CLEAR, "mypy 'a  b'", ENTER)
        assert row_of(picture, "mypy 'a  b'").split()[-1] == "edited" and has(picture, "1 change not saved")
        picture = await press(shown, "<", "<")
        assert has(picture, "> 1 mypy") and has(picture, "It cannot go further.")
        picture = await press(shown, DOWN, "d", "s")
        assert saves(shown)[0].values == {"verification.commands": [["mypy", "a  b"]]}
        picture = await press(shown, LEFT)
        assert not has(picture, "1 mypy") and has(picture, ">▸ checks")

    at_settings(work, with_more(), columns=columns, rows=rows)


def test_an_item_is_added_at_the_end_and_undo_takes_the_whole_list_back() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await opened(shown, "instruction_files")
        picture = await press(shown, "a", ENTER)
        assert has(picture, "An item cannot be empty.")
        picture = await press(shown, "CLAUDE.md", ENTER)
        assert has(picture, "> 2 CLAUDE.md") and has(picture, "+ add one")
        await press(shown, DOWN, ENTER, "sk-abcdefghijklmnopqrstuvwx", ENTER)
        assert has(await press(shown), "looks like a literal secret")
        await press(shown, ESC, UP, UP, ">", "s")
        assert saves(shown)[0].values == {"context.instruction_files": ["CLAUDE.md", "AGENTS.md"]}
        picture = await press(shown, "a", "third", ENTER, "u")
        assert has(picture, ".fluzo saved") and not has(picture, "third")

    at_settings(work)


def test_a_table_of_texts_takes_names_and_values() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await opened(shown, "tools.shell.env")
        assert has(await press(shown, "a", "A", ENTER), "tools.shell.env has an entry A already.")
        picture = await press(shown, CLEAR, "B", ENTER, "2 3", ENTER)
        assert has(picture, "> B 2 3")
        await press(shown, UP, ENTER, CLEAR, "7", ENTER, "s")
        assert saves(shown)[0].values == {"tools.shell.env": {"A": "7", "B": "2 3"}}
        assert has(await press(shown, "a", "LD_PRELOAD", ENTER, "x", ENTER), "LD_PRELOAD is reserved")
        await press(shown, "d", "s")
        assert len(saves(shown)) == 1

    at_settings(work, with_more())


def test_a_grant_is_added_changed_field_by_field_and_removed_after_a_question() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await opened(shown, "policy.grants")
        picture = await press(shown, DOWN, RIGHT)
        assert has(picture, "argv make lint") and has(picture, "script none") and has(picture, "cwd sub")
        picture = await press(shown, "a", "cargo test", ENTER)
        assert has(picture, "▾ 2 cargo test")
        picture = await press(shown, DOWN, DOWN, DOWN, ENTER, CLEAR, "../out", ENTER)
        assert has(picture, "policy.grants[1].cwd must be a folder inside the workspace")
        assert has(await press(shown, "s"), "must be a folder inside") and saves(shown) == []
        picture = await press(shown, "r", "s")
        grants = [{"argv": ["make", "lint"], "cwd": "sub"}, {"argv": ["cargo", "test"]}]
        assert saves(shown)[0].values == {"policy.grants": grants}
        picture = await press(shown, "d")
        assert has(picture, "All of it goes when you save. d again removes it; u takes it back.")
        assert has(await press(shown, UP, DOWN, "d"), "d again removes it")
        await press(shown, "d", "s")
        assert saves(shown)[1].values == {"policy.grants": grants[:1]}

    at_settings(work, with_more())


def test_a_script_of_several_lines_is_pasted_into_a_grant_and_saved_exactly() -> None:
    script = "set -e\nmake  lint\n\tmake test"

    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await opened(shown, "policy.grants")
        await press(shown, "a", ENTER)
        pasted = script.replace("\n", "\r\n")
        picture = await press(shown, DOWN, DOWN, ENTER, f"\x1b[200~{pasted}\r\n\x1b[201~")
        assert has(picture, "script = set -e<U+000A>make lint<U+000A>")
        picture = await press(shown, ENTER)
        assert has(picture, "script set -e<U+000A>make lint<U+000A>")
        await press(shown, ENTER, ENTER, "s")
        assert saves(shown)[0].values["policy.grants"][1] == {"script": script}
        picture = await press(shown, "/", "\x1b[200~max\nturns\x1b[201~")
        assert has(picture, "/ max turns")

    at_settings(work, with_more())


def test_a_model_is_asked_for_whole_and_saved_as_one() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "models.main.model")
        await press(shown, ESC)
        for name, words in (("a b", "cannot be a name"), ("main", "models has an entry main already.")):
            assert has(await press(shown, "a", name, ENTER), words)
            await press(shown, ESC)
        picture = await press(shown, "a", "gpu", ENTER)
        assert has(picture, "base_url =") and has(picture, "Address of an openai_compatible server")
        assert has(await press(shown, ESC), ".fluzo saved")
        await press(shown, "a", "gpu", ENTER, "http://10.1.2.3/v1", ENTER, "qwen", ENTER)
        picture = await press(shown, "s")
        assert has(picture, "models.gpu.base_url is plain http to another machine") and saves(shown) == []
        await at(shown, "models.gpu.allow_insecure_http")
        await press(shown, RIGHT, ESC)
        await at(shown, "agent.model")
        picture = await press(shown, RIGHT)
        assert has(picture, "agent: model main gpu * edited") and has(picture, "an entry of models")
        await press(shown, "u", RIGHT, RIGHT, RIGHT, "s")
        (sent,) = saves(shown)
        assert sent.values == {
            "models.gpu.provider": "openai_compatible",
            "models.gpu.base_url": "http://10.1.2.3/v1",
            "models.gpu.model": "qwen",
            "models.gpu.allow_insecure_http": True,
        }
        await press(shown, ESC)
        await at(shown, "models.gpu.allow_insecure_http")
        picture = await press(shown)
        assert has(picture, ".fluzo saved") and has(picture, "gpu: plain http on same file")

    at_settings(work)


def test_every_kind_of_entry_can_be_added_from_its_own_row() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "decision service")
        await press(shown, ESC, ENTER, "watch", ENTER, "http://127.0.0.1:9/v1/systemone", ENTER)
        await at(shown, "capacity_pools.<id>")
        await press(shown, ESC, ENTER, "big", ENTER)
        await at(shown, "capacity_pools.big.max_in_flight")
        await press(shown, RIGHT, "s")
        assert {key: value for key, value in saves(shown)[0].values.items() if "local_server" not in key} == {
            "models.watch.provider": "laya_systemone",
            "models.watch.endpoint": "http://127.0.0.1:9/v1/systemone",
            "capacity_pools.big.max_in_flight": 2,
        }
        assert "local_server" in file.file["capacity_pools"]

    at_settings(work)


def test_an_entry_goes_after_a_question_and_what_names_it_is_told_at_once() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await at(shown, "models.main.model")
        await press(shown, ESC)
        picture = await press(shown, "d", "d")
        assert has(picture, "agent.model names main, but there is no [models.main]")
        assert has(picture, "main: model scripted removed *") and has(picture, "1 change not saved")
        assert has(await press(shown, ENTER), "models.main is to be removed; u takes that back.")
        await press(shown, "s")
        assert saves(shown) == []
        picture = await press(shown, "u")
        assert has(picture, ".fluzo saved") and has(picture, "main: model scripted same")
        await press(shown, "d", "d")
        await at(shown, "agent.model")
        await press(shown, ENTER, "s")
        assert saves(shown)[0].values == {"models.main": None, "agent.model": ""}
        assert not has(await press(shown, ESC), "main: model")
        await at(shown, "capacity_pools.local_server")
        assert has(await press(shown, "d", "d"), "capacity_pools.local_server is there by default")

    at_settings(work)


def test_items_from_the_file_cannot_act_on_the_terminal() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        await opened(shown, "verification.commands")
        await press(shown, DOWN, ENTER)
        await press(shown, ESC)
        await opened(shown, "tools.shell.env")
        pasted = "\x1b[200~\u202eX\x1b[201~"
        await press(shown, "a", pasted, ENTER, "r", ENTER)
        assert has(await press(shown, ENTER), "<U+202E>X =")
        await press(shown, ESC, "a", pasted, ENTER)
        assert has(await press(shown), "has an entry <U+202E>X already")
        assert "\x1b[2J" not in shown.written and "\u202e" not in shown.written

    file = ScriptedFile()
    file.file = file.in_force = {**FILE, "verification": {"commands": [["a\x1b[2Jb", "\u202ec"]]}}
    at_settings(work, file)


def test_the_search_finds_the_row_that_adds_an_entry() -> None:
    async def work(shown: ScriptedScreen, file: ScriptedFile) -> None:
        picture = await press(shown, "/", "add a pool", ENTER)
        assert has(picture, "+ add a pool") and not has(picture, "add a model")

    at_settings(work)
