from datetime import datetime, timedelta, timezone

import pytest

from fluzo.screens.idle import idle_rows, size_text, when_text
from fluzo.screens.keys import Registry
from fluzo.screens.local import LOCAL
from fluzo.screens.state import Earlier, FolderRead, SessionLeft, State, TaskView, reduce

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 3, 5, 9, 30, tzinfo=ZONE)
LAST = Earlier(3, False, 2, "Invoice import", "2026-03-04T16:20:00.000000Z", "done")
FOLDER = "~/src/ledger"


def shown(state: State, width: int = 76, *, example: bool = False, demo: str = "") -> list[str]:
    rows = idle_rows(state, Registry(), width, NOW, example=example, demo=demo)
    return ["".join(part for _, part in row) for row in rows]


def test_everything_that_is_known_is_told_in_its_place() -> None:
    state = State("ready", folder=FOLDER, model="m", own_changes=3, instructions=(("AGENTS.md", 2100),), earlier=LAST)
    assert shown(state, example=True) == [
        "",
        "~/src/ledger  .fluzo read  AGENTS.md 2.1 kB  3 uncommitted changes",
        "",
        "Try",
        "  explain @README.md      mention a file",
        "  Ctrl+P                  every command",
        "  /tasks                  running, queued, done",
        "  /sessions               earlier work (3 here)",
        "",
        'Last here: "Invoice import", yesterday 18:20, done.',
    ]


def test_a_part_that_has_nothing_to_say_is_not_drawn() -> None:
    rows = shown(State(folder=FOLDER))
    assert rows[1] == FOLDER, "the settings are not read yet"
    assert rows[4] == "  @                       mention a file", "no file is named that may not be there"
    assert not any("/sessions" in row or "Last here" in row or "checks" in row for row in rows)


def test_the_hints_leave_after_the_third_task() -> None:
    state = State("ready", folder=FOLDER, model="m", earlier=LAST._replace(tasks=3))
    assert shown(state)[1:] == [
        "~/src/ledger  .fluzo read",
        "",
        'Last here: "Invoice import", yesterday 18:20, done.',
    ]


def test_more_sessions_than_were_counted_are_called_more() -> None:
    state = State("ready", folder=FOLDER, earlier=LAST._replace(sessions=50, more=True))
    assert any("earlier work (50 or more here)" in row for row in shown(state))


@pytest.mark.parametrize("width", [56, 76, 140])
def test_no_row_is_wider_than_its_room_whatever_the_names_are(width: int) -> None:
    long = "資料" * 60
    checks = (("pytest " * 30, "not run"),)
    instructions = (("AGENTS.md", 10), ("docs/for-agents.md", 99_000))
    state = State("ready", folder=f"~/{long}", model="m", checks=checks, own_changes=12, instructions=instructions)
    state = state._replace(earlier=LAST._replace(title=long))
    for row in idle_rows(state, Registry(), width, NOW, example=True, demo=""):
        text = "".join(part for _, part in row)
        assert len(text) + sum(char in "資料" for char in text) <= width, text


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("2026-03-05T07:00:00.000000Z", "today 09:00"),
        ("2026-03-04T22:30:00Z", "today 00:30"),
        ("2026-03-04T21:30:00Z", "yesterday 23:30"),
        ("2026-03-02T09:05:00Z", "Mon 11:05"),
        ("2026-02-26T09:05:00Z", "26 Feb"),
        ("2025-11-02T09:05:00Z", "2 Nov 2025"),
        ("2026-03-06T09:05:00Z", "6 Mar"),
    ],
)
def test_an_instant_is_called_by_its_day_in_the_time_zone_of_the_person(at: str, told: str) -> None:
    assert when_text(at, NOW) == told


def test_sizes_are_told_in_the_unit_that_fits() -> None:
    assert [size_text(size) for size in (640, 1000, 2149)] == ["640 B", "1.0 kB", "2.1 kB"]


def test_what_the_folder_tells_while_a_task_runs_does_not_replace_what_was_there_before_it() -> None:
    read = FolderRead("main", 9, (("AGENTS.md", 5),))
    running = State(branch="pdf", own_changes=2, task_id="t_1", tasks={"t_1": TaskView("t_1", state="running")})
    after = reduce(running, read, 0.0)
    assert (after.branch, after.own_changes, after.instructions) == ("pdf", 2, (("AGENTS.md", 5),))
    idle = reduce(State(), read, 0.0)
    assert (idle.branch, idle.own_changes) == ("main", 9)
    left = LOCAL["SessionLeft"](idle._replace(earlier=LAST), SessionLeft(), 0.0)
    assert (left.own_changes, left.instructions, left.earlier) == (9, (("AGENTS.md", 5),), LAST)
