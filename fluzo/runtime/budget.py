"""The task's budget: reserve before, settle after; consumption only grows (PRD 43.1).

Active time is wall time on a monotonic clock, without the waits for the user; a wait stops the clock only
while nothing else of the task runs. What a server did not report stays an estimate and is marked as one.
"""

from collections.abc import Callable

from fluzo.core.errors import BudgetError
from fluzo.core.named import NamedTuple
from fluzo.core.records import Consumption, Limits, ModelRequest, Usage

Clock = Callable[[], float]


class Prices(NamedTuple):
    """Millionths of a currency for a million tokens; without price data there is no money limit (PRD 43.1)."""

    input_microunits: int = 0
    output_microunits: int = 0

    def of(self, input_tokens: int, output_tokens: int) -> int:
        """Rounded up, so that a limit is never passed by rounding."""
        total = input_tokens * self.input_microunits + output_tokens * self.output_microunits
        return -(-total // 1_000_000)


_UNPRICED = Prices()


class Budget:
    def __init__(self, limits: Limits, spent: Consumption, clock: Clock, prices: Prices = _UNPRICED) -> None:
        self._prices = prices
        self._limits = limits
        self._spent = spent
        self._clock = clock
        self._running_since: float | None = None
        self._waits = 0

    def start(self) -> None:
        """Start the active clock of an attempt."""
        self._running_since = self._clock()

    def stop(self) -> None:
        self._accrue()
        self._running_since = None

    def begin_wait(self) -> None:
        """The task now waits for the user: active time stands still until `end_wait`."""
        self._waits += 1
        if self._waits == 1:
            self.stop()

    def end_wait(self) -> None:
        self._waits -= 1
        if self._waits == 0:
            self.start()

    @property
    def spent(self) -> Consumption:
        self._accrue()
        return self._spent

    @property
    def limits(self) -> Limits:
        return self._limits

    def set_limits(self, limits: Limits) -> None:
        """Other limits from the next check on; a request or command under way keeps the deadline it was given."""
        self._limits = limits

    def remaining_seconds(self) -> float:
        return max(0.0, self._limits.max_active_seconds - self.spent.active_seconds)

    def begin_turn(self) -> int:
        """Count one turn and return its number. Raises BudgetError when a limit is already used up."""
        self._check("max_active_seconds", self.spent.active_seconds, self._limits.max_active_seconds)
        self._check("max_turns", self._spent.turns, self._limits.max_turns)
        self._spent = self._spent._replace(turns=self._spent.turns + 1)
        return self._spent.turns

    def count_tool_call(self) -> None:
        """Count one dispatch, verification included. Raises BudgetError when none is left."""
        self._check("max_active_seconds", self.spent.active_seconds, self._limits.max_active_seconds)
        self._check("max_tool_calls", self._spent.tool_calls, self._limits.max_tool_calls)
        self._spent = self._spent._replace(tool_calls=self._spent.tool_calls + 1)

    def reserve(self, request: ModelRequest) -> None:
        """Refuse a request whose estimate does not fit what is left (PRD 43.1)."""
        used = self._spent.input_tokens + self._spent.output_tokens
        needed = request.estimated_input_tokens + request.max_output_tokens
        if used + needed > self._limits.max_total_tokens:
            raise BudgetError(
                f"The task's token budget is used up: {used} of {self._limits.max_total_tokens} used, "
                f"the next request needs up to {needed}.",
                hint=_next_step("max_total_tokens"),
                detail={"limit": "max_total_tokens", "used": used, "allowed": self._limits.max_total_tokens},
            )
        limit = self._limits.max_cost_microunits
        cost = self._prices.of(request.estimated_input_tokens, request.max_output_tokens)
        if limit and self._spent.cost_microunits + cost > limit:
            raise BudgetError(
                f"The task's money is used up: {self._spent.cost_microunits} of {limit} microunits used, "
                f"the next request costs up to {cost}.",
                hint=_next_step("max_cost_microunits"),
                detail={"limit": "max_cost_microunits", "used": self._spent.cost_microunits, "allowed": limit},
            )

    def settle(
        self, request: ModelRequest, usage: Usage | None, received_tokens: int, queue_seconds: float = 0.0
    ) -> Usage:
        """Book one request; without a report the estimate counts, marked as such. Returns what was booked."""
        booked = usage or Usage(request.estimated_input_tokens, received_tokens, estimated=True)
        self._spent = self._spent._replace(
            input_tokens=self._spent.input_tokens + booked.input_tokens,
            output_tokens=self._spent.output_tokens + booked.output_tokens,
            estimated_tokens=self._spent.estimated_tokens + (booked.total_tokens if booked.estimated else 0),
            queue_seconds=self._spent.queue_seconds + queue_seconds,
            cost_microunits=self._spent.cost_microunits + self._prices.of(booked.input_tokens, booked.output_tokens),
        )
        return booked

    def report(self) -> dict[str, dict[str, object]]:
        """Used against allowed, with the provenance of each figure, for the result object."""
        spent, limits = self.spent, self._limits
        tokens = spent.input_tokens + spent.output_tokens
        provenance = _provenance(tokens, spent.estimated_tokens)
        cost = {"cost_microunits": _line(spent.cost_microunits, limits.max_cost_microunits, provenance)}
        return {
            **(cost if limits.max_cost_microunits else {}),
            "turns": _line(spent.turns, limits.max_turns, "counted"),
            "tool_calls": _line(spent.tool_calls, limits.max_tool_calls, "counted"),
            "active_seconds": {
                **_line(round(spent.active_seconds, 3), limits.max_active_seconds, "measured"),
                "queued": round(spent.queue_seconds, 3),
            },
            "tokens": {
                **_line(tokens, limits.max_total_tokens, provenance),
                "input": spent.input_tokens,
                "output": spent.output_tokens,
                "estimated": spent.estimated_tokens,
            },
        }

    def _accrue(self) -> None:
        if self._running_since is None:
            return
        now = self._clock()
        self._spent = self._spent._replace(active_seconds=self._spent.active_seconds + now - self._running_since)
        self._running_since = now

    def _check(self, limit: str, used: float, allowed: float) -> None:
        if used >= allowed:
            raise BudgetError(
                f"The task's budget is used up: {limit} {used:g} of {allowed:g}.",
                hint=_next_step(limit),
                detail={"limit": limit, "used": used, "allowed": allowed},
            )


def _next_step(limit: str) -> str:
    return f"Go on with more: fluzo sessions resume last --extend {limit}=N; for new tasks raise harness.{limit}."


def _line(used: float, allowed: float, provenance: str) -> dict[str, object]:
    return {"used": used, "allowed": allowed, "provenance": provenance}


def _provenance(total: int, estimated: int) -> str:
    if not total:
        return "counted"  # Nothing was used, and nobody had to report that.
    if not estimated:
        return "reported"
    return "estimated" if estimated >= total else "partly estimated"
