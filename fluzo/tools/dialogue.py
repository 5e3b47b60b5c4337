"""The tools that talk to the user: a question, and the plan that is shown. Neither touches the workspace."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from fluzo.core.contracts import ExecutionBackend
from fluzo.core.errors import ToolError
from fluzo.core.named import NamedTuple
from fluzo.core.records import Operation, ToolResult, ToolSpec
from fluzo.core.text import one_line, well_formed


class AskUser(NamedTuple):
    """The runtime puts the question and answers the call with `answered`; the operation's argv is the question
    followed by the choices."""

    spec: ToolSpec

    async def describe(self, args: Mapping[str, object], backend: ExecutionBackend) -> Operation:
        question = well_formed(str(args["question"])).strip()
        if not question:
            raise ToolError("the question is empty", code="tool_arguments")
        choices = [well_formed(choice) for choice in cast("Sequence[str]", args["choices"] or ())]
        return Operation("ask_user", "ask", "user", one_line(question), argv=(question, *choices))

    async def execute(self, args: Mapping[str, object], operation: Operation, backend: ExecutionBackend) -> ToolResult:
        raise ToolError("a question is answered by the user, never by the tool itself")


class UpdatePlan(NamedTuple):
    spec: ToolSpec

    async def describe(self, args: Mapping[str, object], backend: ExecutionBackend) -> Operation:
        steps = _steps(args)
        finished = sum(step["status"] == "completed" for step in steps)
        return Operation("update_plan", "plan", "none", f"{finished} of {len(steps)} completed")

    async def execute(self, args: Mapping[str, object], operation: Operation, backend: ExecutionBackend) -> ToolResult:
        return ToolResult(True, "plan updated", detail={"steps": _steps(args)})


def answered(text: str, chosen: Sequence[str] = ()) -> ToolResult:
    """The result of a question: what the user said, as the user's words; choices exactly as they were offered."""
    said = well_formed(text).strip()
    if chosen:
        names = json.dumps(chosen, ensure_ascii=False)
        return ToolResult(True, f"The user chooses {names}" + (f" and adds: {said}" if said else ""))
    return ToolResult(True, f"The user answers: {said}" if said else "The user gave an empty answer.")


def _steps(args: Mapping[str, object]) -> list[dict[str, object]]:
    """Plain steps without blank ones. Raises ToolError when nothing is left."""
    given = cast("Sequence[Mapping[str, str]]", args["steps"])
    steps: list[dict[str, object]] = [
        {"step": well_formed(item["step"]).strip(), "status": item["status"]} for item in given if item["step"].strip()
    ]
    if not steps:
        raise ToolError("the plan has no steps", code="tool_arguments")
    return steps
