import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from support.records import detail_of, message, picture, session_row, task_row, until
from support.screen_inside import ScriptedScreen, inside

from fluzo.core.errors import WorkspaceError
from fluzo.core.port import Command, SessionDetail, TaskDetail, TaskList, WorkingTree
from fluzo.workspace.diff import compare

F5 = "\x1b[15~"
UP = "\x1b[A"
BEFORE = [f"line {number}" for number in range(1, 101)]
AFTER = [*BEFORE[:9], "line ten", *BEFORE[10:59], "line sixty", *BEFORE[60:]]
ONE = compare("a.py", "\n".join(BEFORE).encode(), "\n".join(AFTER).encode()).text
TWO = compare("b.py", None, b"x = 1\ny = 2\n").text
CHANGES = [
    {"path": "a.py", "status": "modified", "added": 2, "removed": 2, "preexisting": True},
    {"path": "b.py", "status": "added", "added": 2, "removed": 0, "preexisting": False},
    {"path": "logo.bin", "status": "modified", "added": 0, "removed": 0, "preexisting": False},
]
TREE = {
    "head": "h1",
    "branch": "main",
    "files": [
        {"path": "README.md", "status": "modified", "added": 1, "removed": 1, "digest": "d"},
        {"path": "a.py", "status": "modified", "added": 2, "removed": 2, "digest": "e"},
        {"path": "sub", "status": "modified", "added": 0, "removed": 0, "digest": ""},
    ],
    "diff": compare("README.md", b"one\ntwo\n", b"one\nTWO\n").text
    + compare("a.py", "\n".join(BEFORE).encode(), "\n".join(AFTER).encode()).text
    + "diff --git a/sub b/sub\n(submodule; it is at another commit)\n",
    "diff_truncated": False,
    "left_out": 7,
}
BINARY = compare("logo.bin", b"\0a", b"\0b").text


def ended(task_id: str = "t_7", diff: str = ONE + TWO + BINARY, changes: Any = CHANGES) -> dict[str, Any]:
    detail = detail_of(task_row(id=task_id), interventions={}, processes=[])
    checks = [{"argv": ["pytest", "-q"], "ok": True}]
    verification = {"verdict": "stale", "current": False, "commands": checks}
    detail["task"]["result"] = {"changes": changes, "diff": diff, "verification": verification, "status": "completed"}
    detail["attempts"][0]["baseline"] = {"head": "h1", "versions": {"README.md": "d", "a.py": "old"}}
    return detail


ANSWERS = {
    SessionDetail: {"session": session_row(), "tasks": [task_row()], "messages": []},
    TaskList: {"tasks": [task_row()]},
    TaskDetail: ended(),
    WorkingTree: TREE,
}
EDIT = '{"path": "a.py", "old_text": "line 10", "new_text": "line ten"}'
WRITE = '{"path": "b.py", "content": "x = 1"}'


async def opened(shown: ScriptedScreen, root: str = "/w") -> None:
    assert shown.screen.link is not None
    shown.screen.state = shown.screen.state._replace(root=root)
    shown.screen.link.read_page("s_7")
    await until(lambda: shown.screen.state.session_id == "s_7")
    shown.keys(F5)
    await until(lambda: "a.py  1/" in picture(shown) or "files" in shown.draw()[0])


def test_hunks_and_files_are_walked_and_the_lit_hunk_is_marked() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        assert "> @@ -7,7 +7,7 @@" in picture(shown)
        shown.keys("n")
        assert "> @@ -57,7 +57,7 @@" in picture(shown)
        shown.keys("n")
        rows = picture(shown)
        assert "b.py  2/3  +2 -0" in rows
        assert "new file, mode 100644" in rows
        shown.keys("]")
        rows = picture(shown)
        assert "logo.bin  3/3" in rows
        assert "binary; its bytes are not shown" in rows
        shown.keys("]")
        assert "no other file" in picture(shown)
        shown.keys("[")
        shown.keys("p")
        assert "a.py  1/3" in picture(shown)

    inside(look, answers=ANSWERS)


def test_the_split_stands_at_120_columns_and_t_chooses_the_other_form() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        rows = picture(shown)
        assert "view: split" in rows
        assert re.search(r"10 - line 10 +│ +10 \+ line ten", rows)
        shown.keys("t")
        rows = picture(shown)
        assert "view: unified" in rows
        assert "   10      - line 10" in rows

    async def narrow(shown: ScriptedScreen) -> None:
        await opened(shown)
        assert "view: unified" in picture(shown)
        shown.keys("t")
        assert re.search(r"10 - line 10 +│ +10 \+ line ten", picture(shown))

    inside(look, columns=120, rows=40, answers=ANSWERS)
    inside(narrow, columns=100, rows=30, answers=ANSWERS)


def test_at_160_columns_files_checks_and_your_own_changes_stand_at_the_left() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        left = "\n".join(row[:29] for row in shown.draw())
        assert re.search(r"> a\.py +you \+2 -2", left)
        assert re.search(r"b\.py +\+2 -0", left)
        assert re.search(r"pytest -q +stale", left)
        assert "yours before the task" in left and "README.md" in left
        shown.keys("]")
        assert re.search(r"> b\.py", "\n".join(row[:29] for row in shown.draw()))
        assert "view: split" in picture(shown)

    inside(look, columns=160, rows=50, answers=ANSWERS)


def test_unchanged_lines_unfold_from_the_file_and_fold_again(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("\n".join(AFTER))

    async def look(shown: ScriptedScreen) -> None:
        await opened(shown, str(tmp_path))
        assert ": 6 unchanged lines  (Enter shows them)" in picture(shown)
        shown.keys("n")
        shown.keys("\r")
        await until(lambda: "line 56" in picture(shown))
        assert "43 unchanged" not in picture(shown)
        for _ in range(60):
            shown.keys(UP)
        rows = picture(shown)
        assert "   14   14   line 14" in rows
        (tmp_path / "a.py").write_text("other")
        shown.keys("\r")
        await until(lambda: "has changed since" in picture(shown))

    inside(look, answers=ANSWERS)


def test_a_search_marks_and_finds_lines_and_esc_leaves_the_search_first() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        shown.keys("/")
        shown.keys("sixty\r")
        assert "line sixty" in picture(shown)
        shown.keys("/")
        shown.keys("\x1b")
        assert shown.screen.views
        shown.keys("\x1b")
        assert not shown.screen.views

    inside(look, answers=ANSWERS)


def test_the_hunk_is_copied_as_a_patch() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        copied: list[tuple[str, str]] = []
        shown.screen.copy = lambda text, what: copied.append((text, what))  # type: ignore[method-assign]
        shown.keys("n")
        shown.keys("y")
        ((text, what),) = copied
        assert what == "hunk 2 of a.py"
        assert text.startswith("diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -57,7 +57,7 @@\n line 57\n")
        assert text.endswith("-line 60\n+line sixty\n line 61\n line 62\n line 63\n")

    inside(look, answers=ANSWERS)


def test_a_large_diff_begins_with_its_files_and_makes_each_when_it_is_opened() -> None:
    big = compare("big.py", None, "".join(f"{n}\n" for n in range(21_000)).encode()).text
    changes = [{"path": "big.py", "status": "added", "added": 21_000}, CHANGES[1]]
    answers = {**ANSWERS, TaskDetail: ended(diff=big + TWO, changes=changes)}

    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        await until(lambda: "view: files" in picture(shown))
        rows = picture(shown)
        assert ">added    big.py" in rows
        shown.keys("\x1b[B")
        shown.keys("\r")
        assert "b.py  2/2" in picture(shown)
        shown.keys("f")
        assert "view: files" in picture(shown)

    inside(look, answers=answers)


def test_the_whole_session_can_be_looked_at() -> None:
    tasks = [task_row(id="t_9", text="the second"), task_row(id="t_8", text="the first")]
    details = {"t_9": ended("t_9", TWO, CHANGES[1:2]), "t_8": ended("t_8", ONE, CHANGES[:1])}
    for name, row in zip(("t_9", "t_8"), tasks, strict=True):
        details[name]["task"]["text"] = row["text"]

    async def look(shown: ScriptedScreen) -> None:
        answered = shown.port.query

        def query(asked: Any) -> Any:
            if isinstance(asked, TaskDetail):
                shown.port._answers = {**answers, TaskDetail: details[asked.task_id]}
            return answered(asked)

        shown.port.query = query  # type: ignore[method-assign]
        assert shown.screen.link is not None
        shown.screen.link.read_page("s_7")
        await until(lambda: shown.screen.state.session_id == "s_7")
        shown.keys(F5)
        await until(lambda: "b.py  1/1" in picture(shown))
        shown.keys("s")
        await until(lambda: "b.py  1/2" in picture(shown))
        assert "since: this session" in picture(shown)
        shown.keys("f")
        rows = picture(shown)
        assert "of: the first" in rows and "of: the second" in rows
        shown.keys("s")
        await until(lambda: "since: HEAD" in picture(shown))
        shown.keys("ss")
        shown.keys("s")
        await until(lambda: shown.port.queries.count(TaskList(50, "", "s_7")) == 2)
        for _ in range(20):  # Whatever else it asks for.
            await asyncio.sleep(0)
        assert "since: this session" in picture(shown)
        assert shown.port.queries.count(TaskDetail("t_8")) == 1, "what it changed is known"
        assert "of: the first" in picture(shown)

    answers = {**ANSWERS, TaskList: {"tasks": tasks}}
    inside(look, columns=120, rows=40, answers=answers)


def test_of_a_long_session_it_is_said_how_far_back_the_changes_are_told() -> None:
    rows = [task_row(id=f"t_{number}") for number in range(50)]

    async def look(shown: ScriptedScreen) -> None:
        def told() -> Any:
            asked = shown.port.queries[-1]
            assert isinstance(asked, TaskDetail)
            return detail_of(task_row(id=asked.task_id))

        answers[TaskDetail] = told
        assert shown.screen.link is not None
        shown.screen.link.read_page("s_7")
        await until(lambda: shown.screen.state.session_id == "s_7")
        shown.keys(F5)
        shown.keys("s")
        await until(lambda: "since: the last 50 tasks" in picture(shown))

    answers: dict[type, Any] = {**ANSWERS, TaskList: {"tasks": rows}}
    inside(look, answers=answers)


def test_the_source_is_the_task_the_session_the_working_tree_or_the_turn() -> None:
    calls = [{"id": "c_1", "name": "edit_file", "arguments": EDIT}]
    later = [{"id": "c_9", "name": "write_file", "arguments": WRITE}, {**calls[0], "id": "c_8"}]
    messages = [
        message(1, "user", "Change it"),
        message(2, "assistant", "", tool_calls=calls),
        message(3, "tool", "edited", tool_call_id="c_1"),
        message(4, "assistant", "", tool_calls=later, turn=3),
        message(5, "tool", "wrote", tool_call_id="c_9", turn=3),
        message(6, "tool", "error: it is not there", tool_call_id="c_8", turn=3),
        message(7, "assistant", "Done.", turn=4),
    ]
    session = {"session": session_row(), "tasks": [task_row()], "messages": messages}

    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        shown.keys("s")
        await until(lambda: "since: this session" in picture(shown))
        shown.keys("s")
        await until(lambda: "README.md  1/3" in picture(shown))
        rows = picture(shown)
        assert "since: HEAD, 7 more files" in rows
        assert "changed by you before the task, and not touched since" in rows
        assert re.search(r"you +2 +- two", rows) and re.search(r"you +2 \+ TWO", rows)
        assert not re.search(r"you +1 +1 +one", rows)
        shown.keys("]")
        rows = picture(shown)
        assert "you had changed this file before the task" in rows and "you  " not in rows
        shown.keys("]")
        assert "submodule; it is at another commit" in picture(shown)
        shown.keys("s")
        rows = picture(shown)
        assert "since: turn 3" in rows and "b.py  1/1  +1 -0" in rows and "+ x = 1" in rows
        shown.keys("s")
        assert "since: this task" in picture(shown)

    inside(look, columns=110, rows=30, answers={**ANSWERS, SessionDetail: session})


def test_in_the_working_tree_the_users_lines_are_followed_through_what_the_task_did() -> None:
    own = [*BEFORE[:59], "line sixty", *BEFORE[60:]]
    diff = compare("a.py", "\n".join(own).encode(), "\n".join(AFTER).encode()).text
    detail = ended(diff=diff, changes=[{**CHANGES[0], "own_lines": [[60, 60]]}])
    detail["attempts"][0]["baseline"]["end"] = {"versions": {"a.py": "e"}}

    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        shown.keys("ss")
        await until(lambda: "README.md  1/3" in picture(shown))
        shown.keys("]")
        rows = picture(shown)
        assert "lines marked you were changed by you before the task" in rows
        assert re.search(r"\n     +10 \+ line ten", rows), "that was the task's"
        shown.keys("n")
        assert re.search(r"\n you +60 \+ line sixty", picture(shown))
        detail["attempts"][0]["baseline"]["end"]["versions"]["a.py"] = "changed since"
        shown.keys("ssss")
        await until(lambda: "README.md  1/3" in picture(shown) or "a.py" in picture(shown))
        assert "you  " not in picture(shown)

    inside(look, columns=100, rows=30, answers={**ANSWERS, TaskDetail: detail})


def test_a_working_tree_that_cannot_be_looked_at_says_why_and_a_moved_head_claims_nothing() -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        shown.keys("ss")
        await until(lambda: "README.md  1/3" in picture(shown))
        assert "you had changed this file before the task" in picture(shown)
        shown.port._answers = {**ANSWERS, WorkingTree: refuse}
        shown.keys("ssss")
        await until(lambda: "Git gave no answer" in picture(shown))

    def refuse() -> Any:
        raise WorkspaceError("Git gave no answer in /w within 120 s.", hint="Check the disk, then repeat.")

    inside(look, columns=110, rows=30, answers={**ANSWERS, WorkingTree: {**TREE, "head": "h2"}})


@pytest.mark.parametrize("columns", [80, 120, 160])
def test_no_key_of_the_changes_does_anything_but_look(columns: int) -> None:
    async def look(shown: ScriptedScreen) -> None:
        await opened(shown)
        sent: list[Command] = shown.port.commands
        shown.screen.copy = lambda text, what: None  # type: ignore[method-assign]
        for key in (*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789[]{}.,;:!?+-*= ", "\r", "\t"):
            shown.keys(key)
            shown.draw()
            if not shown.screen.views:
                shown.keys(F5)
        assert sent == []

    inside(look, columns=columns, rows=50, answers=ANSWERS)
