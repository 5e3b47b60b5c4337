"""A port that plays a fixed list of updates and records what is dispatched; no runtime, no thread."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from fluzo.core.errors import FluzoError
from fluzo.core.events import Event, Payload, Scope
from fluzo.core.port import Ack, Command, Query, Snapshot, Update

T = TypeVar("T")
Condition = Callable[["ScriptedPort"], bool]


def event(seq: int, payload: Payload, operation_id: str = "") -> Event:
    return Event(
        seq, f"e_{seq}", "2026-01-01T00:00:00.000000Z", Scope("s_1", "t_1", "a_1", operation_id, "tr"), payload
    )


class ScriptedPort:
    """`script` holds updates, and conditions that hold back what follows until they are true.

    `answers` are data by the type of the query, or functions that give it or raise what the query comes to; `acts`
    carry commands out, by their type.
    """

    def __init__(
        self, script: Sequence[Update | Condition], answers: Mapping[type, Any], ack: Ack | None = None
    ) -> None:
        self.script = list(script)
        self.commands: list[Command] = []
        self.queries: list[Query] = []
        self.closed = False
        self.acts: dict[type, Callable[[Any], Ack]] = {}
        self._answers = answers
        self._ack = ack or Ack(True, "t_1", "s_1")

    def dispatch(self, command: Command) -> "Future[Ack]":
        self.commands.append(command)
        act = self.acts.get(type(command))
        return _done(act(command) if act else self._ack)

    def query(self, query: Query) -> "Future[Snapshot]":
        self.queries.append(query)
        answer = self._answers[type(query)]
        try:
            return _done(Snapshot(0, answer() if callable(answer) else answer))
        except FluzoError as error:
            return _failed(error)

    def subscribe(self, task_id: str, after: int) -> "ScriptedPort":
        return self

    def next(self, timeout_seconds: float | None) -> Update | None:
        first = self.script[0]
        if callable(first):
            if not first(self):
                return None
            self.script.pop(0)
            return None
        self.script.pop(0)
        return first

    @property
    def ended(self) -> bool:
        return not self.script

    def close(self) -> None:
        self.closed = True


def _done(value: T) -> "Future[T]":
    future: Future[T] = Future()
    future.set_result(value)
    return future


def _failed(error: FluzoError) -> "Future[Snapshot]":
    future: Future[Snapshot] = Future()
    future.set_exception(error)
    return future
