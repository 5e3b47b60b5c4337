"""Loops whose clock a test moves on: long timeouts pass at once, and short ones never because the machine was slow."""

import asyncio


class SteppedLoop(asyncio.SelectorEventLoop):
    """Its clock stands still but for `advance`, so no timeout can pass while a test does not want it to."""

    def __init__(self) -> None:
        super().__init__()
        self._clock = 0.0

    def time(self) -> float:
        return self._clock

    def advance(self, seconds: float) -> None:
        self._clock += seconds


class SkippingLoop(asyncio.SelectorEventLoop):
    """Its clock runs, and `advance` lets it skip what nobody wants to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped = 0.0

    def time(self) -> float:
        return super().time() + self._skipped

    def advance(self, seconds: float) -> None:
        self._skipped += seconds


def advance(seconds: float) -> None:
    """Move the clock of the running loop on."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteppedLoop | SkippingLoop)
    loop.advance(seconds)
