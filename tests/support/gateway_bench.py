"""A gateway in front of a scripted wire server: what the protocol tests share."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from support.stepped import SteppedLoop, advance

from fluzo.core.records import Message, ModelReply, ModelRequest, ToolSpec
from fluzo.models.admission import Admission, PoolLimits
from fluzo.models.endpoint import Authorize, ModelEndpoint
from fluzo.models.gateway import Gateway

TOOLS = tuple(
    ToolSpec(name, "", {"type": "object", "properties": {}})
    for name in ("read_file", "write_file", "edit_file", "run_shell", "list_dir")
)
REQUEST = ModelRequest((Message("user", "go"),), TOOLS, 100)


class RecordedSleep:
    """Stands in for the wait between retries: it returns at once and keeps what was asked for."""

    def __init__(self, during: Callable[[], None] = lambda: None) -> None:
        self.seconds: list[float] = []
        self._during = during

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._during()


class GatewayBench:
    """Use as `async with GatewayBench(url) as bench`; `endpoint` fields can be given as keywords."""

    def __init__(
        self,
        url: str,
        *,
        pool: PoolLimits | None = None,
        authorize: Authorize = lambda: None,
        retries: int = 2,
        **fields: Any,
    ) -> None:
        self.endpoint = ModelEndpoint("coder", url, "fx-model", **fields)
        limits: Mapping[str, PoolLimits] = {self.endpoint.pool: pool or PoolLimits()}
        self.admission = Admission({self.endpoint.capacity: self.endpoint.max_in_flight}, limits)
        self.sleep = RecordedSleep(self._during_sleep)
        self.free_during_sleep: list[bool] = []
        self.deltas: list[tuple[str, bool]] = []
        self.first_delta = asyncio.Event()
        self.gateway = Gateway([self.endpoint], {"coder": authorize}, self.admission, retries=retries, sleep=self.sleep)

    async def __aenter__(self) -> "GatewayBench":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.gateway.close()

    async def complete(self, request: ModelRequest = REQUEST, remaining_seconds: float = 600) -> ModelReply:
        return await self.gateway.complete("coder", request, self._delta, remaining_seconds)

    def occupied(self) -> tuple[int, int]:
        """Occupied and uncertain slots of the pool."""
        pool = next(use for use in self.admission.snapshot() if use.kind == "pool")
        return pool.occupied, pool.uncertain

    def _delta(self, text: str, reasoning: bool) -> None:
        self.deltas.append((text, reasoning))
        self.first_delta.set()

    def _during_sleep(self) -> None:
        self.free_during_sleep.append(self.occupied() == (0, 0))


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Play a scenario on a stepped loop of its own. Its clock stands still, so a hang ends by the real one."""

    async def bounded() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        watchdog = threading.Timer(60, lambda: loop.call_soon_threadsafe(task.cancel, "the scenario hangs"))
        watchdog.start()
        try:
            await scenario()
        finally:
            watchdog.cancel()

    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        runner.run(bounded())


__all__ = ["REQUEST", "TOOLS", "GatewayBench", "RecordedSleep", "advance", "run"]
