"""The feed: committed events in order and without a gap, live updates merged, slow readers resynchronized.

The runtime thread publishes, any thread reads. A queue is bounded by count and bytes; when it is full, all of
it is dropped and replaced by one `Lagged`, so that a slow reader can never hold up execution (ARCH 6.3).
"""

import threading
from collections import deque
from collections.abc import Callable

from fluzo.core.events import Event, LiveUpdate, OperationProgress, OutputProgress, TextDelta
from fluzo.core.port import Lagged, Update

MAX_UPDATES = 4096
MAX_BYTES = 8 * 1024 * 1024


class QueueSubscription:
    """One reader's bounded queue. Until `open_at`, committed events wait aside for the catch-up to finish."""

    def __init__(self, task_id: str, after: int, on_close: "Callable[[QueueSubscription], None]") -> None:
        self.task_id = task_id
        self._seen = after
        self._queue: deque[tuple[Update, int]] = deque()
        self._early: list[Event] | None = []
        self._bytes = 0
        self._finished = False
        self._condition = threading.Condition()
        self._on_close = on_close

    def next(self, timeout_seconds: float | None) -> Update | None:
        with self._condition:
            self._condition.wait_for(lambda: self._queue or self._over, timeout_seconds)
            if not self._queue:
                return None
            update, size = self._queue.popleft()
            self._bytes -= size
            return update

    @property
    def ended(self) -> bool:
        with self._condition:
            return self._over and not self._queue

    @property
    def _over(self) -> bool:
        return self._finished and self._early is None

    def close(self) -> None:
        self._on_close(self)
        self.catch_up(())
        self.finish()

    def finish(self) -> None:
        with self._condition:
            self._finished = True
            self._condition.notify_all()

    def catch_up(self, events: tuple[Event, ...]) -> None:
        """Hand out what the store had, then what was published meanwhile; from here on events come directly."""
        with self._condition:
            early, self._early = self._early or [], None
            for event in (*events, *early):
                self._put_event(event)
            self._condition.notify_all()

    def put_event(self, event: Event) -> None:
        with self._condition:
            if self._early is not None:
                self._early.append(event)
                return
            self._put_event(event)
            self._condition.notify_all()

    def put_live(self, update: LiveUpdate) -> None:
        with self._condition:
            if self._early is not None or self._merged(update):
                return
            self._append(update, _size(update))
            self._condition.notify_all()

    def _put_event(self, event: Event) -> None:
        if event.seq <= self._seen:
            return  # Already handed out by the catch-up.
        self._seen = event.seq
        self._append(event, _size(event))

    def _append(self, update: Update, size: int) -> None:
        if len(self._queue) >= MAX_UPDATES or self._bytes + size > MAX_BYTES:
            lost = [item.seq for item, _ in self._queue if isinstance(item, Event)]
            lags = [item.after for item, _ in self._queue if isinstance(item, Lagged)]
            if isinstance(update, Event):
                lost.append(update.seq)
            after = min([*lags, *(seq - 1 for seq in lost)], default=self._seen)
            self._queue.clear()
            self._queue.append((Lagged(after), 0))
            self._bytes = 0
            return
        self._queue.append((update, size))
        self._bytes += size

    def _merged(self, update: LiveUpdate) -> bool:
        """Merge with the newest queued update where that loses nothing."""
        last, size = self._queue[-1] if self._queue else (None, 0)
        if isinstance(update, TextDelta) and isinstance(last, TextDelta):
            same = (last.turn, last.reasoning) == (update.turn, update.reasoning)
            if not same or last.offset + len(last.text) != update.offset or size > MAX_BYTES // 16:
                return False
            joined: LiveUpdate = last._replace(text=last.text + update.text)
        elif (isinstance(update, OperationProgress) and isinstance(last, OperationProgress)) or (
            isinstance(update, OutputProgress) and isinstance(last, OutputProgress)
        ):
            if last.operation_id != update.operation_id:
                return False
            joined = update
        else:
            return False
        self._queue[-1] = (joined, _size(joined))
        self._bytes += _size(joined) - size
        return True


class Feed:
    """All subscriptions of one runtime. Publishing never blocks and never fails."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: list[QueueSubscription] = []

    def open(self, task_id: str, after: int) -> QueueSubscription:
        """Register first, so that nothing published from now on is lost; the caller then catches it up."""
        subscription = QueueSubscription(task_id, after, self._forget)
        with self._lock:
            self._subscriptions.append(subscription)
        return subscription

    def publish(self, events: tuple[Event, ...]) -> None:
        for subscription in self._current():
            for event in events:
                if subscription.task_id in ("", event.scope.task_id):
                    subscription.put_event(event)

    def publish_live(self, update: LiveUpdate) -> None:
        for subscription in self._current():
            if subscription.task_id in ("", update.task_id):
                subscription.put_live(update)

    def finish(self, task_id: str) -> None:
        """The task's attempt is over and everything about it has been published."""
        for subscription in self._current():
            if subscription.task_id == task_id:
                subscription.finish()

    def close(self) -> None:
        for subscription in self._current():
            subscription.close()

    def _current(self) -> list[QueueSubscription]:
        with self._lock:
            return list(self._subscriptions)

    def _forget(self, subscription: QueueSubscription) -> None:
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)


def _size(update: Update) -> int:
    if isinstance(update, TextDelta):
        return len(update.text) + 64
    if isinstance(update, OutputProgress):
        return len(update.tail) + 512
    # Events are bounded where they are made; a flat estimate keeps the count cheap.
    return 512
