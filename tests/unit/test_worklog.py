import json

import pytest

from fluzo.core.errors import LoopDetected
from fluzo.core.events import LoopNoticed
from fluzo.core.records import ToolCall, ToolResult
from fluzo.runtime.worklog import LoopLimits, WorkLog, notice


def run(log: WorkLog, argv: list[str], text: str, *, ok: bool = False) -> object:
    call = ToolCall("c", "run", json.dumps({"argv": argv}))
    return log.observe(call, ToolResult(ok, text, detail={"exit_status": 0 if ok else 1}))


def edit(log: WorkLog, path: str = "a.py") -> object:
    return log.observe(
        ToolCall("e", "edit_file", json.dumps({"path": path})), ToolResult(True, "", detail={"paths": [path]})
    )


def read(log: WorkLog, arguments: str = '{"path": "a"}', text: str = "same") -> LoopNoticed | None:
    return log.observe(ToolCall("r", "read_file", arguments), ToolResult(True, text))


def test_the_third_same_call_is_noticed_once_and_the_sixth_ends_it() -> None:
    log = WorkLog(LoopLimits(3, 0))
    assert [read(log), read(log)] == [None, None]
    noticed = read(log)
    assert noticed is not None and "same call 3 times" in notice(noticed)
    assert [read(log), read(log)] == [None, None]
    with pytest.raises(LoopDetected) as found:
        read(log)
    assert found.value.code == "loop_detected" and found.value.detail["times"] == 6


def test_spelling_of_the_arguments_does_not_hide_a_loop() -> None:
    log = WorkLog(LoopLimits(2, 0))
    read(log, '{"path": "a", "offset": 1}')
    assert read(log, '{"offset":1,"path":"a"}') is not None


def test_another_result_or_a_change_in_between_is_progress() -> None:
    log = WorkLog(LoopLimits(2, 0))
    read(log, text="one")
    assert read(log, text="two lines") is None
    edit(log)
    assert read(log, text="one") is None


def test_the_same_failure_after_each_edit_is_a_loop_although_its_figures_differ() -> None:
    log = WorkLog(LoopLimits(0, 3))
    found = []
    for number in range(3):
        edit(log)
        found.append(run(log, ["make", "test"], f"exit 1 after 0.{number} s\n1 failed, {number} passed"))
    assert found[:2] == [None, None] and found[2] is not None


def test_another_failure_or_a_pass_starts_the_count_anew() -> None:
    log = WorkLog(LoopLimits(0, 2))
    run(log, ["t"], "a failed")
    assert run(log, ["t"], "b failed") is None
    assert run(log, ["t"], "fine", ok=True) is None
    assert run(log, ["t"], "b failed") is None


def test_zero_switches_both_checks_off() -> None:
    log = WorkLog(LoopLimits(0, 0))
    assert [run(log, ["t"], "no") for _ in range(20)] == [None] * 20


def test_facts_name_changed_files_the_last_commands_and_the_checks() -> None:
    log = WorkLog(LoopLimits())
    assert log.facts() == ""
    edit(log, "src/a.py")
    run(log, ["make"], "exit 2 after 1.0 s\nboom")
    log.checked("failed")
    assert log.facts().split("\n") == [
        "files changed in this attempt: src/a.py",
        "last commands:",
        '  {"argv": ["make"]} -> exit 2 after 1.0 s',
        "declared checks, when last run: failed",
    ]
