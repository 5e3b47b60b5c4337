"""Calls tools the way the runtime does, over any backend: arguments as text, describe, execute."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fluzo.core.contracts import ExecutionBackend
from fluzo.core.errors import ToolError
from fluzo.core.records import Operation, ToolCall, ToolResult
from fluzo.tools.registry import Registry, build_tools
from fluzo.tools.shared import SeenFiles, ToolLimits


class ToolBench:
    """`run` drives a coroutine to its end; a backend that is bound to one event loop needs that loop's."""

    def __init__(
        self,
        backend: ExecutionBackend,
        limits: ToolLimits | None = None,
        root: str = "",
        run: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run,
    ) -> None:
        self.backend = backend
        self.run = run
        self.seen = SeenFiles()
        self.registry = Registry(build_tools(self.seen, limits or ToolLimits(), (("FX", "1"),), root))

    def describe(self, name: str, **args: object) -> Operation:
        tool, checked = self.registry.prepare(ToolCall("c1", name, json.dumps(args)))
        return self.run(tool.describe(checked, self.backend))

    def execute(self, operation: Operation, **args: object) -> ToolResult:
        tool, checked = self.registry.prepare(ToolCall("c1", operation.tool, json.dumps(args)))
        return self.run(tool.execute(checked, operation, self.backend))

    def call(self, name: str, **args: object) -> ToolResult:
        return self.execute(self.describe(name, **args), **args)

    def error(self, name: str, **args: object) -> ToolError:
        """The ToolError that the call ends with; a call that goes through fails the test."""
        try:
            result = self.call(name, **args)
        except ToolError as error:
            return error
        raise AssertionError(f"{name} was expected to refuse, but answered: {result.text}")


def is_plain(value: str | Mapping[str, object]) -> bool:
    """True for what can be sent as JSON in UTF-8."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
