"""The screen's side of the port: commands out, updates in, each on a thread that may wait, so that no key ever does.

Invariant: the inbox is bounded; a full one holds back the pump, and the port answers that with `Lagged`. Everything
that arrives is an update for `reduce`; nothing is shown as done before the runtime has said so.
"""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal, NamedTuple

from fluzo.core.port import (
    Ack,
    AnswerPermission,
    AnswerQuestion,
    CancelTask,
    Command,
    EventPage,
    FileNames,
    ForceStopTask,
    Lagged,
    PendingRequests,
    Port,
    Query,
    QueueIntervention,
    RenameSession,
    ResetCapacity,
    ResumeTask,
    SessionDetail,
    SetYolo,
    Snapshot,
    StartTask,
    TaskDetail,
    TaskList,
    Update,
    WithdrawIntervention,
    event_from_json,
)

from .page import page_read
from .state import (
    Accepted,
    MessagesRead,
    Noted,
    Opened,
    OpeningFailed,
    PendingRead,
    QueueReturned,
    Refused,
    ResultRead,
    Resumed,
    Titled,
)

INBOX = 2048
PAGE = 200
_EVENTS = 500
_SYNC_MESSAGES = 60
_ASKS = ("PermissionRequested", "QuestionAsked")
_ENDED = ("completed", "failed", "cancelled", "blocked")


class Runtime(NamedTuple):
    """An open runtime: its port, the workspace's root, the settings in force as plain values, and how to close it.
    `redact` masks the secrets that it knows, for what is kept of what was sent. `prepare` is called when a task is
    about to start, and returns at once."""

    port: Port
    root: str
    facts: Mapping[str, Any]
    close: Callable[[], None]
    redact: Callable[[str], str] = str
    prepare: Callable[[], None] = lambda: None


Opener = Callable[[], Runtime]


class Link:
    """`wake` is called from any thread when the inbox has something; the screen then calls `drain`."""

    def __init__(self, opener: Opener, wake: Callable[[], None]) -> None:
        self._opener = opener
        self._wake = wake
        self._inbox: queue.Queue[Any] = queue.Queue(INBOX)
        self._runtime: Runtime | None = None
        self._closed = threading.Event()
        self._following: dict[str, int] = {}  # With the last event that each task has told.
        self.high_water = 0

    @property
    def port(self) -> Port | None:
        return self._runtime.port if self._runtime else None

    @property
    def drive(self) -> str:
        """The folder beside the store that is private to its owner; empty where there is none."""
        return str(self._runtime.facts.get("drive", "")) if self._runtime else ""

    def redact(self, text: str) -> str:
        """The text without the secrets that the runtime knows."""
        return self._runtime.redact(text) if self._runtime else text

    # --- opening and closing

    def open(self) -> None:
        """Open the runtime on a thread of its own; what came of it arrives as `Opened` or `OpeningFailed`."""
        threading.Thread(target=self._open, name="fluzo-open", daemon=True).start()

    def _open(self) -> None:
        try:
            runtime = self._opener()
        except Exception as error:
            self._post(OpeningFailed(*_told(error)))
            return
        self._runtime = runtime
        if self._closed.is_set():
            runtime.close()
            return
        self._post(Opened(runtime.root, runtime.facts))

    def close(self) -> None:
        """Stop following and close the runtime, which cancels what runs and commits its end."""
        self._closed.set()
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.close()

    # --- updates

    def _post(self, update: Any) -> None:
        while not self._closed.is_set():
            try:
                self._inbox.put(update, timeout=0.2)
            except queue.Full:
                continue
            self.high_water = max(self.high_water, self._inbox.qsize())
            self._wake()
            return

    def take(self) -> Any:
        """The next update, or None when there is none now."""
        try:
            return self._inbox.get_nowait()
        except queue.Empty:
            return None

    @property
    def waiting(self) -> bool:
        return not self._inbox.empty()

    def follow(self, task_id: str, after: int) -> None:
        """Follow one task to its end, on a thread of its own. Following twice is following once."""
        if task_id in self._following:
            return
        self._following[task_id] = after
        threading.Thread(target=self._pump, args=(task_id, after), name="fluzo-follow", daemon=True).start()

    def _pump(self, task_id: str, after: int) -> None:
        port = self.port
        if port is None:
            return
        subscription = port.subscribe(task_id, after)
        try:
            while not subscription.ended and not self._closed.is_set():
                update = subscription.next(0.5)
                if update is not None:
                    self._deliver(port, task_id, update)
        except Exception as error:
            self._post(Refused(*_told(error)))
        finally:
            subscription.close()
            self._following.pop(task_id, None)

    def _deliver(self, port: Port, task_id: str, update: Update) -> None:
        if isinstance(update, Lagged):
            after = update.after
            while True:
                page = port.query(EventPage(task_id, after, _EVENTS)).result().data["events"]
                for item in page:
                    self._deliver(port, task_id, event_from_json(item))
                if len(page) < _EVENTS:
                    return
                after = page[-1]["seq"]
        if seq := getattr(update, "seq", 0):
            if seq <= self._following.get(task_id, 0):
                return  # What was read of the store after a lag comes once more.
            self._following[task_id] = seq
        self._post(update)
        name = getattr(update, "type", "")
        if name in _ASKS:
            self.read_pending(task_id)
        elif name == "MessageRecorded":
            payload: Any = getattr(update, "payload", None)
            if payload.role in ("tool", "assistant"):
                scope: Any = getattr(update, "scope", None)
                self.read_messages(scope.session_id)
        elif name == "TaskStateChanged" and getattr(getattr(update, "payload", None), "new", "") in _ENDED:
            self._query(TaskDetail(task_id), lambda data: ResultRead(task_id, data))

    # --- queries

    def _query(self, query: Any, made: Callable[[Mapping[str, Any]], Any]) -> None:
        port = self.port
        if port is None:
            return

        def done(future: "Future[Any]") -> None:
            try:
                update = made(future.result().data)
            except Exception as error:
                update = Refused(*_told(error))
            self._post_soon(update)

        port.query(query).add_done_callback(done)

    def _post_soon(self, update: Any) -> None:
        """Post from the runtime's thread, which must never wait for the screen."""
        try:
            self._inbox.put_nowait(update)
        except queue.Full:
            threading.Thread(target=self._post, args=(update,), daemon=True).start()
            return
        self._wake()

    def look(self, query: Query, taken: Callable[[Snapshot], None], failed: Callable[[str], None]) -> None:
        """Ask for a view; exactly one of the two is called, on the runtime's thread, once the runtime is there."""
        port = self.port
        if port is None:
            return

        def done(future: "Future[Snapshot]") -> None:
            try:
                snapshot = future.result()
            except Exception as error:
                message, code, hint = _told(error)
                failed(f"{message}  [{code}]  {hint}".rstrip())
            else:
                taken(snapshot)

        port.query(query).add_done_callback(done)

    def read_pending(self, task_id: str) -> None:
        self._query(PendingRequests(task_id), lambda data: PendingRead(task_id, tuple(data["pending"])))

    def read_messages(self, session_id: str) -> None:
        self._query(SessionDetail(session_id, limit=_SYNC_MESSAGES), lambda data: MessagesRead(tuple(data["messages"])))

    def read_page(self, session_id: str, before: int = 0) -> None:
        """A page of a session; `before` is the position of the oldest message already there, 0 for the newest page."""
        self._query(SessionDetail(session_id, PAGE, before), lambda data: page_read(data, PAGE, newest=before == 0))

    def file_names(self, taken: Callable[[Sequence[str]], None], failed: Callable[[str], None]) -> None:
        """The names of the workspace's files, for completion."""
        self.look(FileNames(), lambda snapshot: taken(snapshot.data["names"]), failed)

    def read_history(self, taken: Callable[[list[str]], None]) -> None:
        """The texts of earlier tasks, oldest first, for a composer without a history of its own."""
        port = self.port
        if port is None:
            return

        def done(future: "Future[Any]") -> None:
            if not future.cancelled() and future.exception() is None:
                taken([str(task["text"]) for task in reversed(future.result().data["tasks"])])

        port.query(TaskList(PAGE)).add_done_callback(done)

    # --- commands

    def _send(self, command: Command, request_id: str = "", agreed: Any = None) -> None:
        port = self.port
        if port is None:
            return
        if self._runtime is not None and isinstance(command, (StartTask, ResumeTask)):
            self._runtime.prepare()

        def done(future: "Future[Any]") -> None:
            try:
                ack = future.result()
            except Exception as error:
                self._queue_refused(command)
                self._post_soon(Refused(*_told(error), request_id))
                return
            if not ack.accepted:
                self._queue_refused(command)
                self._post_soon(Refused(ack.message or "The runtime refused that.", ack.code, "", request_id))
            elif agreed is not None:
                self._post_soon(agreed(ack) if callable(agreed) else agreed)
                if isinstance(command, ResumeTask):
                    self.follow(ack.task_id, ack.cursor)
            elif isinstance(command, StartTask):
                self._post_soon(Accepted(request_id, ack.task_id, ack.session_id))
                self.follow(ack.task_id, ack.cursor)

        port.dispatch(command).add_done_callback(done)

    def act(self, command: Command, taken: Callable[[Ack], None]) -> None:
        """Dispatch for a view: `taken` is called once, on the runtime's thread, also with what failed."""
        port = self.port
        if port is None:
            return

        def done(future: "Future[Ack]") -> None:
            try:
                ack = future.result()
            except Exception as error:
                message, code, hint = _told(error)
                ack = Ack(False, code=code, message=f"{message} {hint}".rstrip())
            taken(ack)

        port.dispatch(command).add_done_callback(done)

    def start(self, request_id: str, text: str, session_id: str, *, yolo: bool) -> None:
        self._send(StartTask(request_id, text, session_id, yolo=yolo, interactive=True), request_id)

    def resume(self, command: ResumeTask, text: str, limits: Mapping[str, Any]) -> None:
        """Go on with a task from the plan that was shown; `text` and `limits` are the task's own."""
        self._send(command, agreed=lambda ack: Resumed(ack.task_id, ack.session_id, text, limits))

    def rename(self, session_id: str, title: str, done: Callable[[], None]) -> None:
        """Give a session another title; `done` is called on the runtime's thread when it is kept."""

        def agreed(ack: Ack) -> Titled:
            done()
            return Titled(ack.session_id, ack.message)

        self._send(RenameSession(session_id, title), agreed=agreed)

    def queue(self, task_id: str, text: str) -> None:
        self._send(QueueIntervention(task_id, text))

    def withdraw(self, task_id: str, intervention_id: str, text: str) -> None:
        """Take a queued message back; its text returns when the runtime has agreed."""
        self._send(WithdrawIntervention(task_id, intervention_id), agreed=QueueReturned(text))

    def drop(self, task_id: str, intervention_id: str) -> None:
        """Take a queued message back for good."""
        self._send(WithdrawIntervention(task_id, intervention_id))

    def requeue(self, task_id: str, items: Sequence[tuple[str, str]]) -> None:
        """Take these queued messages back and queue them anew in this order; one that is taken already stays so."""
        self._requeue(task_id, list(items), [])

    def _requeue(self, task_id: str, items: list[tuple[str, str]], texts: list[str]) -> None:
        port = self.port
        if port is None:
            return
        if not items:
            for text in texts:
                self.queue(task_id, text)
            return
        (intervention_id, text), rest = items[0], items[1:]

        def done(future: "Future[Any]") -> None:
            back = future.exception() is None and future.result().accepted
            self._requeue(task_id, rest, [*texts, text] if back else texts)

        port.dispatch(WithdrawIntervention(task_id, intervention_id)).add_done_callback(done)

    def _queue_refused(self, command: Command) -> None:
        if isinstance(command, QueueIntervention):
            self._post_soon(QueueReturned(command.text))

    def cancel(self, task_id: str) -> None:
        self._send(CancelTask(task_id))

    def force_stop(self, task_id: str) -> None:
        self._send(ForceStopTask(task_id))

    def answer_permission(
        self,
        task_id: str,
        operation_id: str,
        fingerprint: str,
        answer: Literal["once", "task", "deny"],
        reason: str = "",
    ) -> None:
        self._send(AnswerPermission(task_id, operation_id, fingerprint, answer, reason))

    def answer_question(self, task_id: str, operation_id: str, answer: str, chosen: tuple[int, ...] = ()) -> None:
        self._send(AnswerQuestion(task_id, operation_id, answer, chosen))

    def free_slots(self) -> None:
        """Free the slots of requests that were given up on; said when the runtime has done it."""
        self._send(ResetCapacity(), agreed=Noted("The slots are free again.", "completed"))

    def set_yolo(self, session_id: str, *, enabled: bool) -> None:
        self._send(SetYolo(session_id, enabled))


def _told(error: BaseException) -> tuple[str, str, str]:
    """Message, code and next step of a failure; those of Fluzo's own errors are already redacted."""
    code = getattr(error, "code", "")
    if isinstance(code, str) and code:
        return str(getattr(error, "message", error)), code, str(getattr(error, "hint", "") or "")
    return f"Fluzo met an error of its own ({type(error).__name__}).", "internal_error", ""
