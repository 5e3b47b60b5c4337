import io
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from support.scripted_port import Condition, ScriptedPort, event

from fluzo.commands.asking import END_OF_INPUT, Terminal
from fluzo.commands.follow import Ended, run_task
from fluzo.commands.view import View
from fluzo.core import events
from fluzo.core.errors import Cancelled, ConfigError, StorageError, UsageError
from fluzo.core.port import (
    Ack,
    AnswerPermission,
    AnswerQuestion,
    CancelTask,
    EventPage,
    Lagged,
    PendingRequests,
    StartTask,
    TaskDetail,
    Update,
)

START = StartTask("r_1", "fix it")
RESULT = {"reason": "", "message": "done"}
TASK = {"task": {"id": "t_1", "result": RESULT}}
PERMISSION = {
    "operation_id": "o_1",
    "fingerprint": "f_1",
    "kind": "permission",
    "tool": "run",
    "action": "execute",
    "effect": "execute",
    "summary": "make",
    "scope": {"argv": ["make"], "cwd": "."},
}
QUESTION = {"operation_id": "o_1", "fingerprint": "", "kind": "question", "question": "which?", "choices": ["a", "b"]}
ASKED = event(1, events.PermissionRequested("run", "make", {}, "policy_shell"), "o_1")


class TypingScreen(io.StringIO):
    """A stderr at which somebody types the next line as soon as a prompt stands there."""

    def __init__(self, master: int, lines: list[bytes]) -> None:
        super().__init__()
        self._master = master
        self._lines = lines

    def write(self, text: str) -> int:
        written = super().write(text)
        if text.endswith("> ") and self._lines:
            os.write(self._master, self._lines.pop(0))
        return written


@pytest.fixture
def pty() -> Iterator[tuple[int, Terminal]]:
    master, slave = os.openpty()
    yield master, Terminal(slave, owned=False)
    os.close(master)
    os.close(slave)


def answered(port: ScriptedPort) -> bool:
    return any(isinstance(command, AnswerPermission | AnswerQuestion) for command in port.commands)


def cancelled(port: ScriptedPort) -> bool:
    return any(isinstance(command, CancelTask) for command in port.commands)


def follow(*script: Update | Condition, pending: Any = (), page: Any = (), **more: Any) -> tuple[ScriptedPort, Ended]:
    port = ScriptedPort(
        script, {TaskDetail: TASK, PendingRequests: {"pending": list(pending)}, EventPage: {"events": list(page)}}
    )
    screen = more.pop("screen", io.StringIO())
    return port, run_task(port, START, View(screen), terminal=more.pop("terminal", None), **more)


def test_a_task_is_followed_to_its_result() -> None:
    screen = io.StringIO()
    port, ended = follow(
        event(1, events.OperationRequested("read_file", "read", "x", "f", 1), "o_1"),
        event(2, events.OperationEnded(True, "", "x", {"lines": 3}), "o_1"),
        screen=screen,
    )
    assert ended == Ended(RESULT, False)
    assert "3 lines" in screen.getvalue()
    assert port.commands == [START]
    assert port.closed


def test_a_permission_is_asked_until_a_named_answer_comes(pty: tuple[int, Terminal]) -> None:
    master, terminal = pty
    screen = TypingScreen(master, [b"\n", b"y\n", b"t\n"])
    port, _ = follow(ASKED, answered, pending=[PERMISSION], terminal=terminal, screen=screen)
    assert port.commands[1:] == [AnswerPermission("t_1", "o_1", "f_1", "task")]
    assert screen.getvalue().count("once [o]  this task [t]  deny [d] > ") == 3
    assert "UNSANDBOXED" in screen.getvalue()


def test_what_was_typed_before_the_question_does_not_answer_it(pty: tuple[int, Terminal]) -> None:
    master, terminal = pty
    os.write(master, b"o\n")
    screen = TypingScreen(master, [b"d\n"])
    port, _ = follow(ASKED, answered, pending=[PERMISSION], terminal=terminal, screen=screen)
    assert port.commands[1:] == [AnswerPermission("t_1", "o_1", "f_1", "deny")]


def test_the_end_of_input_stops_the_task_and_grants_nothing(pty: tuple[int, Terminal]) -> None:
    master, terminal = pty
    screen = TypingScreen(master, [b"\x04"])
    port, _ = follow(ASKED, cancelled, pending=[PERMISSION], terminal=terminal, screen=screen)
    assert port.commands[1:] == [CancelTask("t_1", "no_answer")]


def test_a_question_of_the_agent_is_answered_by_text_or_number(pty: tuple[int, Terminal]) -> None:
    master, terminal = pty
    screen = TypingScreen(master, [b"\n", b"2\n"])
    asked = event(1, events.QuestionAsked("which?", ("a", "b")), "o_1")
    port, _ = follow(asked, answered, pending=[QUESTION], terminal=terminal, screen=screen)
    assert port.commands[1:] == [AnswerQuestion("t_1", "o_1", "", (2,))]
    assert "  2  b" in screen.getvalue()


def test_several_choices_are_given_by_their_numbers_and_a_wrong_one_is_told(pty: tuple[int, Terminal]) -> None:
    master, terminal = pty
    screen = TypingScreen(master, [b"1,7\n", b"2, 1\n"])
    asked = event(1, events.QuestionAsked("which?", ("a", "b"), several=True), "o_1")
    port, _ = follow(asked, answered, pending=[{**QUESTION, "several": True}], terminal=terminal, screen=screen)
    assert port.commands[1:] == [AnswerQuestion("t_1", "o_1", "", (1, 2))]
    assert "There is no choice 7; give numbers from 1 to 2, like 1,2, or words." in screen.getvalue()
    assert screen.getvalue().count("numbers like 1,2 or an answer > ") == 2


def test_an_answer_from_elsewhere_takes_the_question_away(pty: tuple[int, Terminal]) -> None:
    _, terminal = pty
    screen = io.StringIO()
    elsewhere = event(2, events.PermissionAnswered("once", "user"), "o_1")
    port, _ = follow(ASKED, elsewhere, pending=[PERMISSION], terminal=terminal, screen=screen)
    assert port.commands == [START]
    assert "answered elsewhere" in screen.getvalue()


def test_without_a_terminal_nothing_is_asked() -> None:
    port, _ = follow(ASKED, pending=[PERMISSION])
    assert port.queries == [TaskDetail("t_1")]


def interrupt(number: int) -> Condition:
    def act(port: ScriptedPort) -> bool:
        os.kill(os.getpid(), number)
        return True

    return act


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_asks_the_task_to_stop_and_waits_for_its_end(number: int) -> None:
    screen = io.StringIO()
    before = signal.getsignal(number)
    port, ended = follow(interrupt(number), cancelled, screen=screen)
    assert port.commands[1:] == [CancelTask("t_1", "user")]
    assert ended.result == RESULT
    assert "stopping the task" in screen.getvalue()
    assert signal.getsignal(number) is before


def test_a_second_interrupt_leaves_at_once() -> None:
    with pytest.raises(Cancelled, match="second time"):
        follow(interrupt(signal.SIGINT), interrupt(signal.SIGINT), lambda _port: False)


def test_a_task_that_does_not_stop_is_left_when_patience_ends() -> None:
    with pytest.raises(Cancelled, match="did not stop in time"):
        follow(interrupt(signal.SIGINT), lambda _port: False, patience_seconds=0)


def test_what_a_slow_reader_missed_is_read_from_the_store_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    missed = [events.event_to_json(event(seq, events.TurnStarted(seq))) for seq in (2, 3)]
    follow(
        event(1, events.TurnStarted(1)),
        Lagged(1),
        event(3, events.TurnStarted(3)),
        event(4, events.TurnStarted(4)),
        page=missed,
        streams=True,
    )
    lines = capsys.readouterr().out.split("\n")[:-1]
    assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3, 4]


def test_the_stream_carries_events_and_live_updates_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    follow(
        event(1, events.TurnStarted(1)),
        events.TextDelta("t_1", 1, 0, "a\u2028\x1b[31m\nb"),
        events.OperationProgress("t_1", "o_1", "run", "make"),
        streams=True,
    )
    out = capsys.readouterr().out
    assert out.isascii()
    assert [json.loads(line)["type"] for line in out.split("\n")[:-1]] == [
        "TurnStarted",
        "text_delta",
        "operation_progress",
    ]


def test_a_closed_stdout_cancels_the_task_and_is_reported_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class ClosedStdout(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", ClosedStdout())
    port = ScriptedPort([event(1, events.TurnStarted(1)), cancelled], {TaskDetail: TASK})
    with pytest.raises(BrokenPipeError):
        run_task(port, START, View(io.StringIO()), terminal=None, streams=True)
    assert port.commands[1:] == [CancelTask("t_1", "output_closed")]


def test_a_closed_stderr_does_not_stop_the_task() -> None:
    class ClosedScreen(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    _, ended = follow(event(1, events.WarningRaised("w", "x")), screen=ClosedScreen())
    assert ended.result == RESULT


@pytest.mark.parametrize(
    ("code", "kind"), [("consent_required", ConfigError), ("not_found", UsageError), ("usage", UsageError)]
)
def test_a_refused_command_is_raised_as_the_error_of_its_code(code: str, kind: type[Exception]) -> None:
    port = ScriptedPort([], {}, Ack(False, code=code, message="no"))
    with pytest.raises(kind, match="no"):
        run_task(port, START, View(io.StringIO()), terminal=None)


def test_a_task_whose_end_was_not_stored_is_a_storage_error() -> None:
    port = ScriptedPort([], {TaskDetail: {"task": {"id": "t_1", "result": None}}})
    with pytest.raises(StorageError, match="could not be stored"):
        run_task(port, START, View(io.StringIO()), terminal=None)


def test_lines_are_read_one_by_one_and_never_waited_for(pty: tuple[int, Terminal]) -> None:
    master, terminal = pty
    assert terminal.read_line() is None
    os.write(master, b"on")
    assert terminal.read_line() is None
    os.write(master, b"ce\n")
    assert terminal.read_line() == "once"
    os.write(master, b"\x04")
    assert terminal.read_line() == END_OF_INPUT
