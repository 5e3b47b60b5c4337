"""One task from its start to its result: updates become lines and JSON, questions reach the person, signals cancel.

Shared by `run` and `demo`. It knows the port and nothing else of the runtime, and decides nothing on a live update.
"""

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from fluzo.core import events
from fluzo.core.answers import read_answer
from fluzo.core.errors import Cancelled, FluzoError, error_of
from fluzo.core.events import Event
from fluzo.core.named import NamedTuple
from fluzo.core.port import (
    Ack,
    AnswerPermission,
    AnswerQuestion,
    CancelTask,
    Command,
    EventPage,
    ForceStopTask,
    Lagged,
    PendingRequests,
    Port,
    ResumeTask,
    StartTask,
    TaskDetail,
    Update,
)

from .asking import END_OF_INPUT, Terminal
from .output import emit_json
from .presenter import (
    PERMISSION_PROMPT,
    Line,
    Presenter,
    permission_answer,
    permission_lines,
    question_lines,
)
from .view import View

_TICK_SECONDS = 0.2
_ASKING_TICK_SECONDS = 0.05
_PAGE = 500
_QUESTION_PROMPT = "answer > "
_SEVERAL_PROMPT = "numbers like 1,2 or an answer > "
_DEFAULT_PATIENCE_SECONDS = 30.0
_ANSWERING = Line("plain", "model", "answers", "...")


class Asked(NamedTuple):
    """One open request of the runtime; the fingerprint binds the answer to it."""

    operation_id: str
    fingerprint: str
    kind: str
    choices: tuple[str, ...] = ()
    several: bool = False


class Ended(NamedTuple):
    """A task that is over: its result object, and whether its final message was already streamed to the view."""

    result: Mapping[str, Any]
    message_was_shown: bool


class Interrupts:
    """Counts SIGINT, SIGTERM and SIGHUP while the context is open; the loop looks at the count between two updates."""

    def __init__(self) -> None:
        self.count = 0

    def _count(self, number: int, frame: FrameType | None) -> None:
        self.count += 1

    @contextmanager
    def caught(self) -> "Iterator[Interrupts]":
        caught = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # As under nohup.
            caught.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._count) for number in caught}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run_task(
    port: Port,
    command: StartTask | ResumeTask,
    view: View,
    *,
    terminal: Terminal | None,
    streams: bool = False,
    patience_seconds: float = _DEFAULT_PATIENCE_SECONDS,
) -> Ended:
    """Start a task, follow it to its end and return what it came to.

    `streams` writes every update as a JSON line to stdout. After a cancel the end is awaited for
    `patience_seconds`. Raises the error of a refused command, Cancelled when a second interrupt or the end of
    patience cuts the wait short, BrokenPipeError when stdout was closed, after the task has been cancelled, and
    StorageError when the end of the task could not be stored.
    """
    with Interrupts().caught() as interrupts:
        ack = port.dispatch(command).result()
        if not ack.accepted:
            raise refusal(ack)
        follower = _Follower(port, ack, view, terminal, streams=streams)
        follower.follow(interrupts, patience_seconds)
    detail = port.query(TaskDetail(ack.task_id)).result().data
    result: Mapping[str, Any] | None = detail["task"].get("result")
    if not result:
        failure: Mapping[str, Any] = detail.get("failure") or {}
        raise error_of(
            str(failure.get("code") or "storage_failed"),
            f"The end of task {ack.task_id} could not be stored. {failure.get('message', '')}".rstrip(),
            hint=f"See what is known of it: fluzo tasks show {ack.task_id}",
        )
    return Ended(result, follower.shown_text == result.get("message"))


def refusal(ack: Ack) -> FluzoError:
    """The error for a command that was not accepted, with the exit status of its code."""
    return error_of(ack.code or "internal_error", ack.message or "The runtime refused the command.")


class _Follower:
    def __init__(self, port: Port, ack: Ack, view: View, terminal: Terminal | None, *, streams: bool) -> None:
        self._port = port
        self._task_id = ack.task_id
        self._seen = ack.cursor
        self._view = view
        self._terminal = terminal
        self._streams = streams
        self._presenter = Presenter(interactive=terminal is not None)
        self._wanted = ""
        self._asked: Asked | None = None
        self._broken: BrokenPipeError | None = None
        self._cancelled_at: float | None = None
        self._turn = 0
        self.shown_text = ""

    def follow(self, interrupts: Interrupts, patience_seconds: float) -> None:
        subscription = self._port.subscribe(self._task_id, self._seen)
        try:
            handled = 0
            while not subscription.ended:
                update = subscription.next(_ASKING_TICK_SECONDS if self._asked else _TICK_SECONDS)
                if interrupts.count > handled:
                    handled += 1
                    self._interrupted(again=handled > 1)
                if self._cancelled_at is not None and time.monotonic() - self._cancelled_at > patience_seconds:
                    self._force_stop()
                    raise Cancelled("The task did not stop in time; its commands were ended at once.")
                if update is not None:
                    self._take(update)
                self._converse()
        finally:
            subscription.close()
        self._view.status(None)
        if self._broken is not None:
            raise self._broken

    def _interrupted(self, *, again: bool) -> None:
        if again:
            self._force_stop()
            raise Cancelled("Interrupted a second time; the task and its commands were ended at once.")
        self._view.line(Line("note", "cancel", "stopping the task; press Ctrl+C again to leave at once"))
        self._cancel("user")

    def _force_stop(self) -> None:
        """Without the commands' grace period, which closing would otherwise wait for."""
        self._port.dispatch(ForceStopTask(self._task_id, "user"))

    def _cancel(self, by: str) -> None:
        if self._cancelled_at is None:
            self._cancelled_at = time.monotonic()
            self._asked = None
            self._port.dispatch(CancelTask(self._task_id, by))

    # --- updates

    def _take(self, update: Update) -> None:
        if isinstance(update, Lagged):
            for event in self._missed(update.after):
                self._take_event(event)
        elif isinstance(update, Event):
            self._take_event(update)
        elif isinstance(update, events.TextDelta):
            self._emit(lambda: {"type": "text_delta", **events.payload_to_json(update)})
            self._take_text(update)
        elif isinstance(update, events.OperationProgress):
            self._emit(lambda: {"type": "operation_progress", **events.payload_to_json(update)})
            self._view.status(self._presenter.running(update))

    def _take_event(self, event: Event) -> None:
        if event.seq <= self._seen:
            return
        self._seen = event.seq
        self._emit(lambda: events.event_to_json(event))
        for line in self._presenter.lines(event):
            self._view.line(line)
        match event.payload:
            case events.TurnStarted():
                self._view.status(_ANSWERING)
            case events.PermissionRequested() | events.QuestionAsked() if self._terminal:
                self._wanted = event.scope.operation_id
            case events.PermissionAnswered() | events.QuestionAnswered() | events.OperationRefused():
                self._answered(event.scope.operation_id)

    def _take_text(self, delta: events.TextDelta) -> None:
        if delta.reasoning or not self._view.is_live:
            return
        if delta.turn != self._turn:
            self._turn, self.shown_text = delta.turn, ""
        if delta.offset == len(self.shown_text):
            self.shown_text += delta.text
        self._view.text(delta.text)

    def _missed(self, after: int) -> Iterator[Event]:
        """The committed events that a full queue dropped, from the store."""
        after = max(after, self._seen)
        while True:
            page = self._port.query(EventPage(self._task_id, after, _PAGE)).result().data["events"]
            yield from (events.event_from_json(item) for item in page)
            if len(page) < _PAGE:
                return
            after = page[-1]["seq"]

    def _emit(self, value: Callable[[], Mapping[str, object]]) -> None:
        if not self._streams or self._broken is not None:
            return
        try:
            emit_json(value())
        except BrokenPipeError as exc:
            # Whoever read the stream has left; without them the task is not wanted any more.
            self._broken = exc
            self._cancel("output_closed")

    # --- questions

    def _answered(self, operation_id: str) -> None:
        if self._wanted == operation_id:
            self._wanted = ""
        if self._asked is not None and self._asked.operation_id == operation_id:
            self._asked = None
            self._view.plain(["", "  answered elsewhere"])

    def _converse(self) -> None:
        if self._terminal is None or self._cancelled_at is not None:
            return
        if self._wanted and self._asked is None:
            self._ask()
        elif self._asked is not None:
            typed = self._terminal.read_line()
            if typed is not None:
                self._hear(self._asked, typed)

    def _ask(self) -> None:
        requests = self._port.query(PendingRequests(self._task_id)).result().data["pending"]
        request = next((item for item in requests if item["operation_id"] == self._wanted), None)
        if request is None or self._terminal is None:
            return
        choices = tuple(str(choice) for choice in request.get("choices") or ())
        self._asked = Asked(
            self._wanted, request["fingerprint"], request["kind"], choices, bool(request.get("several"))
        )
        if request["kind"] == "question":
            self._view.line(Line("ask", "ask", "the agent wants to know"))
            self._view.details(question_lines(str(request["question"]), choices))
        else:
            self._view.line(self._presenter.asking(request))
            self._view.details(permission_lines(request))
        self._terminal.forget_typed()
        self._prompt(self._asked)

    def _prompt(self, asked: Asked) -> None:
        question = _SEVERAL_PROMPT if asked.several else _QUESTION_PROMPT
        self._view.prompt(question if asked.kind == "question" else PERMISSION_PROMPT)

    def _hear(self, asked: Asked, typed: str) -> None:
        if typed == END_OF_INPUT:
            self._view.plain(["", "  no answer can be typed any more; the task is stopped"])
            self._cancel("no_answer")
            return
        answer = self._command(asked, typed)
        if answer is None:
            self._prompt(asked)
            return
        self._asked, self._wanted = None, ""
        self._port.dispatch(answer).result()

    def _command(self, asked: Asked, typed: str) -> Command | None:
        if asked.kind == "question":
            said = read_answer(typed, len(asked.choices), several=asked.several)
            if said.problem:
                self._view.plain([f"  {said.problem}"])
            answered = AnswerQuestion(self._task_id, asked.operation_id, said.words, said.chosen)
            return answered if said.words or said.chosen else None
        chosen = permission_answer(typed)
        return AnswerPermission(self._task_id, asked.operation_id, asked.fingerprint, chosen) if chosen else None
