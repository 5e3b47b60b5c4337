"""The one route to inference: destination, slot, credentials, request, bounded retry.

Invariants: every physical request holds a slot of its model and pool from before it is sent until there is evidence
that the server is done; only passing faults before any output are tried again, at most `retries` times after 1 and
then 2 seconds; a rate limit, quota, lack of capacity, redirect, refused key or invalid request is final; a stream
that breaks after output is an incomplete reply, never a second request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from fluzo.core.errors import ConfigError, ProviderError
from fluzo.core.records import ModelReply, ModelRequest
from fluzo.core.redact import Redactor, make_redactor
from fluzo.models.admission import Admission, PoolLimits, Reservation
from fluzo.models.assembly import OnDelta
from fluzo.models.chat import encode
from fluzo.models.endpoint import Authorize, ModelEndpoint, check_destination
from fluzo.models.reading import ReplyReader

if TYPE_CHECKING:
    import httpx

    from fluzo.models.transport import Exchange

RETRY_DELAYS_SECONDS = (1.0, 2.0)
"""PRD 43.1: 1 then 2 seconds; further retries, where configured, keep to the last."""

OnRetry = Callable[[int, int, float, str], None]
"""Which retry of how many, the seconds until it is sent, and what made it necessary."""

TASK_TIME = "task's remaining time"


class Gateway:
    """Serves the configured chat models. Use it from one event loop and `close` it there."""

    def __init__(
        self,
        endpoints: Iterable[ModelEndpoint],
        authorize: Mapping[str, Authorize],
        admission: Admission,
        *,
        retries: int = 2,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        redact: Redactor | None = None,
    ) -> None:
        self._endpoints = {endpoint.id: endpoint for endpoint in endpoints}
        self._authorize = authorize
        self.admission = admission
        """The slots: shown with `snapshot`, freed by a user with `reset`."""
        self._retries = retries
        self._sleep = sleep
        self._redact = redact or make_redactor()
        self._clients: dict[tuple[bool, str], httpx.AsyncClient] = {}

    async def complete(
        self,
        model_id: str,
        request: ModelRequest,
        on_delta: OnDelta,
        remaining_seconds: float,
        on_retry: OnRetry | None = None,
    ) -> ModelReply:
        """One inference. `on_delta` gets provisional text as it arrives; the reply alone is what counts. `on_retry` is
        told of each further request before the pause that precedes it.

        Raises ConfigError for an unknown model or a destination that is not allowed, CapacityError when there is no
        slot, ProviderError otherwise. A cancelled or timed-out request leaves its slot uncertain, unless the entry says
        that its server stops when the connection closes.
        """
        endpoint = self._endpoints.get(model_id)
        if endpoint is None:
            raise ConfigError(f"There is no model {model_id} in the settings.", hint="Check agent.model and [models].")
        check_destination(endpoint)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + remaining_seconds
        body = encode(request, endpoint)
        attempt, queued = 1, 0.0
        while True:
            try:
                slot = await self.admission.reserve(
                    endpoint.capacity, endpoint.pool, request.purpose, deadline - loop.time()
                )
                queued += slot.queue_seconds
                reply = await self._attempt(endpoint, slot, request, body, on_delta, deadline)
                return reply._replace(attempts=attempt, queue_seconds=queued)
            except ProviderError as exc:
                delay = RETRY_DELAYS_SECONDS[min(attempt, len(RETRY_DELAYS_SECONDS)) - 1]
                if exc.retry != "safe" or attempt > self._retries or loop.time() + delay >= deadline:
                    exc.detail["attempts"] = attempt
                    raise
                if on_retry is not None:
                    on_retry(attempt, self._retries, delay, exc.message)
            await self._sleep(delay)
            attempt += 1

    def succeed(self, before: "Gateway", models: Mapping[str, int], pools: Mapping[str, PoolLimits]) -> None:
        """Go on with the slots and connections of the gateway before this one, under these ceilings.

        What is held there stays held, so that lower limits drain.
        """
        before.admission.set_limits(models, pools, keep_used=True)
        self.admission = before.admission
        self._clients = before._clients

    async def close(self) -> None:
        """Close every connection."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    async def _attempt(
        self,
        endpoint: ModelEndpoint,
        slot: Reservation,
        request: ModelRequest,
        body: bytes,
        on_delta: OnDelta,
        deadline: float,
    ) -> ModelReply:
        exchange: Exchange | None = None
        try:
            token = self._authorize[endpoint.id]()
            redact = self._redact_with(token)
            client, exchange_type = self.client(endpoint)
            reader = ReplyReader(endpoint, request, on_delta, redact)
            exchange = exchange_type(endpoint, reader, redact, deadline=deadline, deadline_name=TASK_TIME)
            self.admission.dispatch(slot)
            return await exchange.run(client, body, token)
        finally:
            self._settle(endpoint, slot, exchange)

    def client(self, endpoint: ModelEndpoint) -> "tuple[httpx.AsyncClient, type[Exchange]]":
        """The HTTP client for an endpoint, made when it is first needed: importing httpx costs tens of milliseconds."""
        from fluzo.models import transport

        key = (endpoint.loopback, endpoint.origin)
        if key not in self._clients:
            self._clients[key] = transport.make_client(endpoint)
        return self._clients[key], transport.Exchange

    def _settle(self, endpoint: ModelEndpoint, slot: Reservation, exchange: "Exchange | None") -> None:
        if exchange is None or not exchange.sent:
            self.admission.cancel(slot)
        elif exchange.settled or endpoint.stops_on_disconnect:  # The connection is closed by now.
            self.admission.confirm(slot)
        else:
            self.admission.uncertain(slot)

    def _redact_with(self, token: str | None) -> Redactor:
        """The redactor of this request: a server may echo the very key it was given."""
        if not token:
            return self._redact
        mask, redact = make_redactor([token]), self._redact
        return lambda text: redact(mask(text))
