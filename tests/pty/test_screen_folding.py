from typing import Any

import pytest
from support.screen_inside import ScriptedScreen, begin_task, feed, inside
from support.scripted_port import event

from fluzo.core import events


def read(number: int, path: str, *, ok: bool = True) -> tuple[Any, ...]:
    operation_id = f"o_{number}"
    return (
        event(100 + number, events.OperationRequested("read_file", "read", path, "f", 1, f"c_{number}"), operation_id),
        event(300 + number, events.OperationIntended("read_file", path), operation_id),
        event(500 + number, events.OperationEnded(ok, "", path, {"lines": 86}), operation_id),
    )


def rows(shown: ScriptedScreen) -> list[str]:
    return [row for row in shown.draw() if " read " in row]


def test_two_reads_stay_two_rows_and_a_third_folds_them_into_one_that_names_them() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        feed(shown, [*read(1, "a.py"), *read(2, "lib/b.py")])
        assert [row.split()[3] for row in rows(shown)] == ["a.py", "lib/b.py"]
        feed(shown, read(3, "c.py"))
        (row,) = rows(shown)
        assert row.startswith("┃ ✓ read   a.py, lib/b.py, c.py  ")
        assert row.endswith("3 files")

    inside(look)


def test_names_that_do_not_fit_are_counted() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        for number in range(9):
            feed(shown, read(number, f"package/module_{number}.py"))
        (row,) = rows(shown)
        assert "package/module_0.py, package/module_1.py, +7" in row
        assert len(row) <= 80

    inside(look)


def test_a_failed_read_and_a_running_one_are_never_folded() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        feed(shown, [*read(1, "a.py"), *read(2, "gone.py", ok=False), *read(3, "c.py"), *read(4, "d.py")[:2]])
        assert len(rows(shown)) == 4

    inside(look)


def test_opening_a_folded_row_opens_its_first_read_and_the_others_stay_to_be_seen() -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown)
        for number, name in enumerate("abc"):
            feed(shown, read(number, f"{name}.py"))
        shown.draw()
        shown.keys("\x0f")
        assert [row.split()[3] for row in rows(shown)] == ["a.py", "b.py", "c.py"]

    inside(look)


@pytest.mark.parametrize("count", [3, 64, 200])
def test_a_long_run_of_reads_scrolls_to_its_first_message_and_back(count: int) -> None:
    async def look(shown: ScriptedScreen) -> None:
        begin_task(shown, "look at everything")
        for number in range(count):
            feed(shown, read(number, f"file_{number}.py"))
        assert len(rows(shown)) == count // 64 + 1
        shown.keys("\x1b[1;5H")
        assert "look at everything" in "\n".join(shown.draw())
        shown.keys("\x1b[1;5F")
        assert len(rows(shown)) == count // 64 + 1

    inside(look)
