"""A store that fails when it is told to, as a full disk would: before anything of the call is written."""

from collections.abc import Awaitable, Callable
from typing import Any

from fluzo.core.contracts import Storage
from fluzo.core.errors import StorageError

_CALLS = frozenset(name for name in vars(Storage) if not name.startswith("_"))


class FaultyStorage:
    """Passes the calls of the Storage contract on, but the `fail_at`-th raises StorageError, once or from then on.

    Count up from 1 until a run leaves `met` false: then every call of that run has been a fault once.
    `calls` names the calls in their order. What is not in the contract (`close`, `project`) never fails.
    """

    def __init__(self, inner: Storage, fail_at: int, *, persistent: bool = False) -> None:
        self._inner = inner
        self._fail_at = fail_at
        self._persistent = persistent
        self.calls: list[str] = []
        self.met = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        return self._counted(name, method) if name in _CALLS else method

    def _counted(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            number = len(self.calls)
            if number == self._fail_at or (self._persistent and number > self._fail_at):
                self.met = True
                raise StorageError("The disk that holds .fluzodrive is full; nothing of this step was recorded.")
            return await method(*args, **kwargs)

        return call
