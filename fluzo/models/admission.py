"""Local admission to model servers: who may have a request in flight, per model and per pool, in this process.

One actor on the runtime's event loop holds every counter, so a request gets its model slot and its pool slot
together or waits for both. Waiting is bounded, first come first served, and ends at a deadline. Observations never
wait: they get a slot that the pool does not reserve for the work itself, while nothing of that work is queued, or none.

A slot is freed on evidence, never by leaving a scope: the server ended or refused the request, or closed the
connection itself. When this side gave up (timeout, cancel, an oversized reply), the server may still be working;
the reservation is then uncertain and keeps its slots until `reset`. A new process starts with all slots free.
Processes never coordinate (PRD 43.3).
"""

import asyncio
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fluzo.core.errors import CapacityError, ConfigError
from fluzo.core.named import NamedTuple
from fluzo.core.records import Purpose

State = Literal["reserved", "dispatched", "uncertain"]
SlotPurpose = Purpose | Literal["shadow_observation"]


_SKIPPED = {
    "no_allowance": "every slot of capacity pool {pool} is reserved for the agent",
    "foreground_waiting": "the agent itself is waiting for a slot of capacity pool {pool}",
    "busy": "capacity pool {pool} or the observer has no free slot",
}
"""Why an observation got no slot, by reason."""


class PoolLimits(NamedTuple):
    """Ceilings of one capacity pool; the defaults are those of PRD 43.3."""

    max_in_flight: int = 1
    queue_capacity: int = 8
    queue_timeout_seconds: float = 30
    foreground_reserved_slots: int = 1

    @property
    def shadow_allowance(self) -> int:
        """Slots that observations may hold at the same time, uncertain ones included."""
        return max(0, self.max_in_flight - self.foreground_reserved_slots)


class Reservation(NamedTuple):
    """Every slot one request holds, taken and given back together. `model` is the capacity identity."""

    id: int
    model: str
    pool: str
    purpose: SlotPurpose
    queue_seconds: float = 0.0


class SlotUse(NamedTuple):
    """Slots of one model or pool at one moment; `occupied` includes the uncertain ones and those of observations.

    `occupied` above `limit` means that a lowered limit is draining.
    """

    kind: Literal["model", "pool"]
    name: str
    limit: int
    occupied: int
    uncertain: int
    queued: int
    shadow: int = 0
    shadow_allowance: int = 0


@dataclass(slots=True)
class _Waiter:
    model: str
    pool: str
    purpose: Purpose
    since: float
    granted: "asyncio.Future[Reservation]" = field(repr=False)


class Admission:
    """`models` maps capacity identities to their ceilings; those in `observers` serve observations and nothing else.

    Use it from one event loop only.
    """

    def __init__(
        self, models: Mapping[str, int], pools: Mapping[str, PoolLimits], observers: Collection[str] = ()
    ) -> None:
        self._models = dict(models)
        self._pools = dict(pools)
        self._observers = frozenset(observers)
        self._queues: dict[str, deque[_Waiter]] = {name: deque() for name in pools}
        self._held: dict[int, tuple[Reservation, State]] = {}
        self._next_id = 1

    async def reserve(self, model: str, pool: str, purpose: Purpose, wait_seconds: float) -> Reservation:
        """A slot of the model and of its pool. `wait_seconds` shortens the pool's own queue deadline.

        Raises CapacityError: `capacity_full` when the queue is full or only uncertain requests stand in the way,
        `capacity_timeout` at the deadline.
        """
        self._check(model, pool, observer=False)
        loop = asyncio.get_running_loop()
        queue, limits = self._queues[pool], self._pools[pool]
        if self._free(model, pool):  # Then nobody is waiting for this: those who wait for less were granted it.
            return self._grant(model, pool, purpose, 0.0)
        if self._stuck(model, pool):
            raise self._stuck_error(model, pool)
        if len(queue) >= limits.queue_capacity:
            raise CapacityError(
                f"Capacity pool {pool} is full: {self._count('pool', pool)} in flight, {len(queue)} waiting.",
                hint=f"Wait for other tasks, or raise capacity_pools.{pool}.queue_capacity.",
                detail={"pool": pool, "model": model},
            )
        waiter = _Waiter(model, pool, purpose, loop.time(), loop.create_future())
        queue.append(waiter)
        return await self._wait(waiter, max(0.0, min(limits.queue_timeout_seconds, wait_seconds)))

    def reserve_shadow(self, model: str, pool: str) -> Reservation:
        """A slot for an observation, at once or not at all (PRD 43.3).

        Raises CapacityError `capacity_full`; its detail says why in `reason`: `no_allowance`, `foreground_waiting` or
        `busy`.
        """
        self._check(model, pool, observer=True)
        allowance = self._pools[pool].shadow_allowance
        reason = ""
        if not allowance:
            reason = "no_allowance"
        elif self._queues[pool]:
            reason = "foreground_waiting"
        elif self._shadows(pool) >= allowance or not self._free(model, pool):
            reason = "busy"
        if reason:
            raise CapacityError(
                f"The observation was skipped: {_SKIPPED[reason].format(pool=pool)}.",
                hint=f"capacity_pools.{pool}.max_in_flight and foreground_reserved_slots say how many may run.",
                detail={"pool": pool, "model": model, "reason": reason},
            )
        return self._grant(model, pool, "shadow_observation", 0.0)

    def _check(self, model: str, pool: str, *, observer: bool) -> None:
        if model not in self._models or pool not in self._pools:
            raise ConfigError(f"The capacity pool {pool} or the model {model} has no limits.")
        if (model in self._observers) != observer:
            raise ConfigError(
                f"The served model {model} cannot do both: work for the agent and observe it.",
                hint="Give the two model entries different values of capacity_id.",
            )

    async def _wait(self, waiter: _Waiter, seconds: float) -> Reservation:
        try:
            async with asyncio.timeout(seconds):
                return await waiter.granted
        except TimeoutError:
            self._leave(waiter)
            raise CapacityError(
                f"No slot of capacity pool {waiter.pool} became free within {seconds:g} seconds.",
                code="capacity_timeout",
                hint=f"Wait for other tasks, or raise capacity_pools.{waiter.pool}.max_in_flight if the server "
                "can take more.",
                detail={"pool": waiter.pool, "model": waiter.model, "queue_seconds": seconds},
            ) from None
        except asyncio.CancelledError:
            self._leave(waiter)
            raise

    def _leave(self, waiter: _Waiter) -> None:
        """Take a waiter out. One that was granted a slot in this very moment gives it back."""
        if waiter in self._queues[waiter.pool]:
            self._queues[waiter.pool].remove(waiter)
            self._pump(waiter.pool)
        elif waiter.granted.done() and not waiter.granted.cancelled() and waiter.granted.exception() is None:
            self._release(waiter.granted.result())

    def dispatch(self, slot: Reservation) -> None:
        """The request goes out now; from here on only evidence frees the slot."""
        self._become(slot, "dispatched")

    def confirm(self, slot: Reservation) -> None:
        """The server is done with the request, well or badly."""
        self._release(slot)

    def cancel(self, slot: Reservation) -> None:
        """Give back a slot whose request never went out."""
        self._release(slot)

    def uncertain(self, slot: Reservation) -> None:
        """This side gave up on a request that went out: the slots stay occupied until `reset`."""
        self._become(slot, "uncertain")
        self._refuse_stuck()

    def _refuse_stuck(self) -> None:
        for queue in self._queues.values():
            for waiter in list(queue):
                if self._stuck(waiter.model, waiter.pool) and not waiter.granted.done():
                    queue.remove(waiter)
                    waiter.granted.set_exception(self._stuck_error(waiter.model, waiter.pool))

    def reset(self, pool: str = "") -> int:
        """Free every uncertain slot, of one pool or of all; only a user decides this. Returns how many there were."""
        slots = [slot for slot, state in self._held.values() if state == "uncertain" and pool in ("", slot.pool)]
        for slot in slots:
            self._release(slot)
        return len(slots)

    def set_limits(
        self, models: Mapping[str, int], pools: Mapping[str, PoolLimits], *, keep_used: bool = False
    ) -> None:
        """Put other ceilings in force. Under a lower one what was admitted or waits goes on, and nothing more is
        admitted until its use has fallen below. With `keep_used` a model or pool that is in use keeps its ceiling when
        the new ones do not name it, until the next call.

        Raises ConfigError, and changes nothing, when a model or pool that is in use or waited for would be gone.
        """
        waiters = [waiter for queue in self._queues.values() for waiter in queue]
        used = {(slot.model, slot.pool) for slot, _ in self._held.values()}
        used |= {(waiter.model, waiter.pool) for waiter in waiters}
        if keep_used:
            models = {**{model: self._models[model] for model, _ in used}, **models}
            pools = {**{pool: self._pools[pool] for _, pool in used}, **pools}
        gone = {model for model, _ in used} - models.keys() | {pool for _, pool in used} - pools.keys()
        if gone:
            raise ConfigError(
                f"Requests still hold or await slots of {', '.join(sorted(gone))}, so its limits cannot go away now.",
                hint="Wait until they have ended, or reset their slots, then change the settings.",
            )
        self._models, self._pools = dict(models), dict(pools)
        self._queues = {name: self._queues.get(name, deque()) for name in pools}
        self._refuse_stuck()
        for name in self._queues:
            self._pump(name)

    def snapshot(self) -> tuple[SlotUse, ...]:
        """All models and pools with their slots, for people and diagnostics."""
        waiting = [waiter for queue in self._queues.values() for waiter in queue]
        models = [
            SlotUse(
                "model",
                name,
                limit,
                self._count("model", name),
                self._count("model", name, "uncertain"),
                sum(waiter.model == name for waiter in waiting),
            )
            for name, limit in self._models.items()
        ]
        pools = [
            SlotUse(
                "pool",
                name,
                limits.max_in_flight,
                self._count("pool", name),
                self._count("pool", name, "uncertain"),
                len(self._queues[name]),
                self._shadows(name),
                limits.shadow_allowance,
            )
            for name, limits in self._pools.items()
        ]
        return (*models, *pools)

    def _count(self, kind: Literal["model", "pool"], name: str, state: State | None = None) -> int:
        return sum(
            (slot.model if kind == "model" else slot.pool) == name and state in (None, held)
            for slot, held in self._held.values()
        )

    def _shadows(self, pool: str) -> int:
        return sum(slot.pool == pool and slot.purpose == "shadow_observation" for slot, _ in self._held.values())

    def _free(self, model: str, pool: str) -> bool:
        return (
            self._count("model", model) < self._models[model]
            and self._count("pool", pool) < self._pools[pool].max_in_flight
        )

    def _stuck(self, model: str, pool: str) -> bool:
        """Whether only a user's reset can free a slot: waiting would be in vain."""
        return (
            self._count("model", model, "uncertain") >= self._models[model]
            or self._count("pool", pool, "uncertain") >= self._pools[pool].max_in_flight
        )

    def _stuck_error(self, model: str, pool: str) -> CapacityError:
        return CapacityError(
            f"Every slot of {model} in capacity pool {pool} belongs to a request that was given up on; "
            "the server may still be working on it.",
            hint="When the server is idle again, reset the slots, or run the task from a new fluzo process.",
            detail={"pool": pool, "model": model, "uncertain": self._count("pool", pool, "uncertain")},
        )

    def _grant(self, model: str, pool: str, purpose: SlotPurpose, queue_seconds: float) -> Reservation:
        slot = Reservation(self._next_id, model, pool, purpose, queue_seconds)
        self._next_id += 1
        self._held[slot.id] = (slot, "reserved")
        return slot

    def _become(self, slot: Reservation, state: State) -> None:
        if slot.id in self._held:
            self._held[slot.id] = (slot, state)

    def _release(self, slot: Reservation) -> None:
        if self._held.pop(slot.id, None) is not None:
            for pool in self._queues:  # A capacity identity may be shared by entries of several pools.
                self._pump(pool)

    def _pump(self, pool: str) -> None:
        """Grant what is possible, in order. Only a wait for its own model lets a later request pass."""
        queue = self._queues[pool]
        for waiter in list(queue):
            if waiter.granted.done():
                continue
            if self._count("pool", pool) >= self._pools[pool].max_in_flight:
                return
            if self._free(waiter.model, pool):
                queue.remove(waiter)
                seconds = waiter.granted.get_loop().time() - waiter.since
                waiter.granted.set_result(self._grant(waiter.model, pool, waiter.purpose, seconds))
