import json
from pathlib import Path
from typing import get_args

import pytest

from fluzo.core import errors
from fluzo.core.events import (
    PAYLOADS,
    Event,
    OperationEnded,
    Payload,
    Scope,
    TaskCreated,
    VerificationEnded,
    dumps,
    event_from_json,
    event_to_json,
)
from fluzo.core.port import (
    Ack,
    AnswerPermission,
    ApplyConfigToActiveWork,
    Command,
    ConfigDetail,
    Query,
    SaveConfig,
    Snapshot,
    StartTask,
    TaskDetail,
    from_wire,
    to_wire,
)
from fluzo.core.records import OperationState, TaskState, operation_may_become, task_may_become
from fluzo.core.redact import MASK, GrowingRedactor, make_redactor, printable, redact_value


@pytest.mark.parametrize(
    "payload",
    [
        TaskCreated("fix it", {"max_turns": 3}, (("cargo", "test"), ("make",))),
        OperationEnded(True, "", "x", {"exit_status": 1, "nested": {"a": 1}}, "f_1"),
        VerificationEnded("passed", "r", ({"ok": True},)),
    ],
)
def test_events_survive_json(payload: Payload) -> None:
    event = Event(7, "e_1", "2026-01-01T00:00:00.000000Z", Scope("s", "t", "a", "o", "tr"), payload, "e_0")
    assert event_from_json(json.loads(dumps(event_to_json(event)))) == event


def test_every_payload_is_registered_under_its_name() -> None:
    assert set(PAYLOADS.values()) == set(get_args(Payload))


@pytest.mark.parametrize(
    "value",
    [
        StartTask("r1", "fix", allow=(("a", "b"),), verify=(("c",),), yolo=True),
        AnswerPermission("t", "o", "f", "once"),
        SaveConfig({"harness.max_turns": None, "verification.commands": [["make"]]}, "f"),
        ApplyConfigToActiveWork("t", {"max_turns": 5}),
        ConfigDetail(),
        TaskDetail("t_1"),
        Ack(True, "t", "s", 4),
        Snapshot(3, {"tasks": [{"id": "t"}]}),
    ],
)
def test_port_values_survive_json(value: object) -> None:
    assert isinstance(value, Command | Query | Ack | Snapshot)
    restored = from_wire(json.loads(json.dumps(to_wire(value))))
    assert to_wire(restored) == to_wire(value)


def test_another_protocol_version_is_refused() -> None:
    with pytest.raises(ValueError, match="protocol version"):
        from_wire({"protocol": 99, "type": "TaskDetail", "task_id": "t"})


def test_a_json_line_holds_nothing_that_a_terminal_or_a_line_reader_could_act_on() -> None:
    line = dumps({"text": "a\u2028b\x1b[31m\x9b\ud835\n"})
    assert line.isascii() and line.isprintable()
    assert json.loads(line)["text"] == "a\u2028b\x1b[31m\x9b\ud835\n"


def test_finished_tasks_and_operations_never_move_again() -> None:
    for state in (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELLED):
        assert not any(task_may_become(state, other) for other in TaskState)
    for ended in (OperationState.KNOWN_RESULT, OperationState.UNKNOWN, OperationState.REFUSED):
        assert not any(operation_may_become(ended, other) for other in OperationState)


def test_an_effect_needs_its_intent_first() -> None:
    assert not operation_may_become(OperationState.REQUESTED, OperationState.DISPATCHED)
    assert not operation_may_become(OperationState.AUTHORIZED, OperationState.KNOWN_RESULT)
    assert operation_may_become(OperationState.INTENT_COMMITTED, OperationState.UNKNOWN)


def test_every_error_class_has_a_listed_code_with_the_same_exit_status() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and value.__name__.endswith("Error")]
    named = [cls for cls in classes if issubclass(cls, errors.FluzoError)]
    listed = [cls for cls in named if cls not in (errors.FluzoError, errors.ToolError)]
    assert len(listed) >= 7
    for cls in listed:
        assert errors.exit_status(cls.code) == cls.exit_status, cls


def test_every_code_is_documented_with_its_exit_status() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "headless.md").read_text().splitlines()
    table = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ") and line[2].isdigit()}
    for code, status in errors.EXIT_STATUS_BY_CODE.items():
        assert not code or f"`{code}`" in table[str(status)], code


def test_an_unlisted_code_is_never_a_success() -> None:
    assert errors.exit_status("something_new") == 70


def test_known_values_and_known_shapes_are_masked_everywhere() -> None:
    redact = make_redactor(["s3cret-value", "abc"])
    text = "key s3cret-value, sk-abcdefghijklmnopqrstu, https://user:pass@host/x, abc"
    assert redact(text) == f"key {MASK}, {MASK}, https://{MASK}@host/x, abc"
    assert redact_value({"s3cret-value": ["x", {"y": "s3cret-value"}], "n": 3}, redact) == {
        MASK: ["x", {"y": MASK}],
        "n": 3,
    }


def test_a_redactor_can_be_told_more_and_forgets_nothing() -> None:
    redact = GrowingRedactor(["first-value"])
    assert redact("first-value second-value") == f"{MASK} second-value"
    redact.learn(["second-value"])
    assert redact("first-value second-value") == f"{MASK} {MASK}"


def test_a_private_key_is_masked_also_when_it_is_cut_off() -> None:
    redact = make_redactor()
    body = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\nBBBB"
    assert redact(f"x {body}\n-----END OPENSSH PRIVATE KEY-----\ny") == f"x {MASK}\ny"
    assert redact(f"x {body}") == f"x {MASK}"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain ü 測", "plain ü 測"),
        ("a\x1b[31mb", "a<U+001B>[31mb"),
        ("safe\u202etxt.exe", "safe<U+202E>txt.exe"),
        ("a\x9bb\x7f", "a<U+009B>b<U+007F>"),
        ("caf\udce9.txt", "caf\\xe9.txt"),
        ("half \ud835", "half <U+D835>"),
        ("line\n\ttab\r", "line\n\ttab<U+000D>"),
    ],
)
def test_nothing_printable_can_act_on_a_terminal(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_one_line_text_shows_its_line_breaks() -> None:
    assert printable("a\nb\tc", keep_newlines=False) == "a<U+000A>b<U+0009>c"
