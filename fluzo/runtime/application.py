"""The port, embedded: each command and each query to one handler on the runtime's own loop.

Methods may be called from any thread. Nothing here blocks the caller, and nothing a caller does blocks the loop.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from fluzo.core.contracts import Storage
from fluzo.core.errors import UsageError
from fluzo.core.events import Event
from fluzo.core.port import Ack, ApplyConfigToActiveWork, Command, Query, SaveConfig, Snapshot, Subscription
from fluzo.runtime.feed import Feed, QueueSubscription
from fluzo.runtime.queries import Queries

if TYPE_CHECKING:
    from fluzo.runtime.configuration import Configuration
    from fluzo.runtime.keeper import Keeper
    from fluzo.runtime.tasks import Tasks

T = TypeVar("T")

CATCH_UP_PAGE = 1000


class Application:
    """Implements `fluzo.core.port.Port`. Without `tasks` it is the read-only half: commands are refused."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        storage: Storage,
        feed: Feed,
        queries: Queries,
        tasks: "Tasks | Keeper | None",
        configuration: "Configuration | None" = None,
    ) -> None:
        self._loop = loop
        self._storage = storage
        self._feed = feed
        self._queries = queries
        self._tasks = tasks
        self._configuration = configuration

    def dispatch(self, command: Command) -> "Future[Ack]":
        return self._submit(self._handle(command))

    def query(self, query: Query) -> "Future[Snapshot]":
        return self._submit(self._queries.answer(query))

    def subscribe(self, task_id: str, after: int) -> Subscription:
        """Everything of the task after the cursor, then everything that comes, without a gap between the two."""
        subscription = self._feed.open(task_id, after)
        self._submit(self._catch_up(subscription, task_id, after))
        return subscription

    async def _handle(self, command: Command) -> Ack:
        if self._tasks is None:
            raise UsageError("This view is read-only; it starts and changes nothing.")
        if isinstance(command, SaveConfig | ApplyConfigToActiveWork):
            if self._configuration is None:
                raise UsageError(
                    "Here no settings are in force, so none can be saved or applied.", code="not_permitted"
                )
            return await self._configuration.handle(command)
        return await self._tasks.handle(command)

    async def _catch_up(self, subscription: QueueSubscription, task_id: str, after: int) -> None:
        events: list[Event] = []
        try:
            while page := await self._storage.events_after(after, task_id=task_id, limit=CATCH_UP_PAGE):
                events += page
                after = page[-1].seq
        finally:
            subscription.catch_up(tuple(events))
            # A task that was over before its reader came will not announce its end again.
            if self._tasks is None or not self._tasks.active(task_id):
                subscription.finish()

    def _submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()  # The runtime has been closed; what is dropped unheard would be warned of.
            raise
