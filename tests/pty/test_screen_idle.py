from typing import Any

from support.records import picture, session_row, until
from support.screen_inside import ScriptedScreen, inside

from fluzo.core.errors import WorkspaceError
from fluzo.core.port import FolderFacts, SessionList

FACTS = {"branch": "main", "changed": 1, "instructions": [{"name": "AGENTS.md", "size_bytes": 2100}]}


def test_names_and_titles_of_others_are_made_visible() -> None:
    hostile = {"name": "a\x1b[2J\u202etxt.md", "size_bytes": 5}
    answers = {
        FolderFacts: {"branch": "x\x1b]0;owned\x07", "changed": 0, "instructions": [hostile]},
        SessionList: {"sessions": [session_row(title="a\x1b[31m\u202eb")]},
    }

    async def look(shown: ScriptedScreen) -> None:
        await until(lambda: "Last here" in picture(shown))
        rows = picture(shown)
        assert "a<U+001B>[2J<U+202E>txt.md 5 B" in rows
        assert '"a<U+001B>[31m<U+202E>b"' in rows
        assert "\x1b[2J\u202e" not in shown.written and "owned\x07" not in shown.written

    inside(look, answers=answers)


def test_a_folder_that_cannot_be_read_leaves_the_page_without_it() -> None:
    def fails() -> Any:
        raise WorkspaceError("The folder is gone.")

    async def look(shown: ScriptedScreen) -> None:
        await until(lambda: "Last here" in picture(shown))
        rows = picture(shown)
        assert "The folder is gone" not in rows and "uncommitted" not in rows
        assert "Try" in rows

    inside(look, answers={FolderFacts: fails, SessionList: {"sessions": [session_row()]}})


def test_a_new_session_tells_what_is_there_by_now() -> None:
    sessions: list[dict[str, Any]] = []
    facts = {**FACTS, "changed": 0}
    answers = {FolderFacts: lambda: facts, SessionList: lambda: {"sessions": sessions}}

    async def look(shown: ScriptedScreen) -> None:
        await until(lambda: "AGENTS.md 2.1 kB" in picture(shown))
        assert "Last here" not in picture(shown)
        sessions.append(session_row(tasks=3))
        facts["changed"] = 1
        shown.keys("/new\r")
        await until(lambda: 'Last here: "Fix it"' in picture(shown))
        rows = picture(shown)
        assert "1 uncommitted change" in rows and "main*1" in rows
        assert "Try" not in rows, "the third task needed no hint any more"

    inside(look, answers=answers)
