"""The tools by name, their schemas as the model is sent them, and the check of every call's arguments.

Invariant: a call runs only when its arguments are exactly one JSON object that fits the tool's model. Nothing is
completed or guessed; a refusal names what was wrong and what the tool takes.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from fluzo.core.checked import REQUIRED, Checked, Unfit, bounds, field, plain_values
from fluzo.core.contracts import Tool
from fluzo.core.errors import ToolError
from fluzo.core.records import ToolCall, ToolSpec
from fluzo.core.text import one_line, well_formed
from fluzo.tools.dialogue import AskUser, UpdatePlan
from fluzo.tools.files import DeleteFile, EditFile, MoveFile, ReadFile, WriteFile
from fluzo.tools.git import Git
from fluzo.tools.process import Run
from fluzo.tools.search import ListFiles, Search
from fluzo.tools.shared import SeenFiles, ToolLimits


def _unquoted(value: object) -> object:
    """Some servers pass every argument as text: a text that is a JSON list stands for that list."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


Texts = Annotated[list[str] | None, _unquoted]
Count = Annotated[int, bounds(ge=1), _number]
Seconds = Annotated[float, bounds(gt=0, allow_inf_nan=False), _number]


class Arguments(Checked):
    """What a tool takes."""


class PathArguments(Arguments):
    path: str


class ReadFileArguments(PathArguments):
    offset: Count = field(1, "first line")
    limit: Count | None = field(None, "number of lines")


class ListFilesArguments(Arguments):
    path: str = "."
    depth: Count = field(2, "levels, default 2")


class SearchArguments(Arguments):
    pattern: str = field(REQUIRED, min_length=1)
    path: str = "."
    glob: str = field("", "only files like *.py")
    regex: bool = False


class EditFileArguments(PathArguments):
    old_text: str
    new_text: str
    replace_all: bool = False


class WriteFileArguments(PathArguments):
    content: str


class MoveFileArguments(Arguments):
    source: str
    target: str


class RunArguments(Arguments):
    argv: Texts = None
    shell: bool = False
    script: str = ""
    cwd: str = "."
    timeout_seconds: Seconds | None = None


class GitArguments(Arguments):
    subcommand: Literal["status", "diff", "log", "show", "blame", "branch", "commit", "push"]
    rev: str = ""
    paths: Texts = None
    staged: bool = False
    max_count: Count | None = None
    message: str = ""
    remote: str = ""
    branch: str = ""


class AskUserArguments(Arguments):
    question: str
    choices: Texts = None
    several: bool = False


class PlanStep(Arguments):
    step: str
    status: Literal["pending", "in_progress", "completed"]


class UpdatePlanArguments(Arguments):
    steps: Annotated[list[PlanStep], _unquoted]


ARGUMENTS: Mapping[str, type[Arguments]] = {
    "read_file": ReadFileArguments,
    "list_files": ListFilesArguments,
    "search": SearchArguments,
    "edit_file": EditFileArguments,
    "write_file": WriteFileArguments,
    "delete_file": PathArguments,
    "move_file": MoveFileArguments,
    "run": RunArguments,
    "git": GitArguments,
    "ask_user": AskUserArguments,
    "update_plan": UpdatePlanArguments,
}
"""Every tool the model can call, in the order it is told of them."""


class Registry:
    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    def tool(self, name: str) -> Tool:
        """The tool of that name. Raises ToolError `unknown_tool` that names the ones there are."""
        if name not in self._tools:
            known = ", ".join(self._tools)
            raise ToolError(f"there is no tool {one_line(name, 60)!r}; use one of: {known}", code="unknown_tool")
        return self._tools[name]

    def prepare(self, call: ToolCall) -> tuple[Tool, dict[str, object]]:
        """The tool of a call and its checked arguments, defaults filled in.

        Raises ToolError `unknown_tool` or `tool_arguments`; then nothing of the call may run.
        """
        tool = self.tool(call.name)
        given = {key: value for key, value in parse_arguments(call.arguments).items() if value is not None}
        try:
            return tool, plain_values(ARGUMENTS[call.name].check(given))
        except Unfit as exc:
            raise ToolError(_complaint(call.name, exc), code="tool_arguments") from exc


def build_tools(
    seen: SeenFiles, limits: ToolLimits, shell_env: Iterable[tuple[str, str]] = (), root: str = ""
) -> tuple[Tool, ...]:
    """All tools of one task. Absolute paths beneath `root`, the workspace root, are understood."""
    env = tuple(shell_env)
    build: Mapping[str, Callable[[ToolSpec], Tool]] = {
        "read_file": lambda spec: ReadFile(spec, seen, limits, root),
        "list_files": lambda spec: ListFiles(spec, limits, root),
        "search": lambda spec: Search(spec, limits, root),
        "edit_file": lambda spec: EditFile(spec, seen, limits, root),
        "write_file": lambda spec: WriteFile(spec, seen, limits, root),
        "delete_file": lambda spec: DeleteFile(spec, seen, limits, root),
        "move_file": lambda spec: MoveFile(spec, seen, limits, root),
        "run": lambda spec: Run(spec, limits, root, env),
        "git": lambda spec: Git(spec, limits, root, env),
        "ask_user": AskUser,
        "update_plan": UpdatePlan,
    }
    return tuple(build[name](_spec(name, model)) for name, model in ARGUMENTS.items())


# --- what the model is told -----------------------------------------------------------------------------------


def _spec(name: str, model: type[Arguments]) -> ToolSpec:
    description = Path(__file__).with_name(f"{name}.md").read_text("utf-8").strip()
    return ToolSpec(name, " ".join(description.split()), _schema(model))


def _schema(model: type[Arguments]) -> dict[str, Any]:
    """The arguments in plain words: no titles, defaults, references or alternatives with null."""
    properties = {
        name: _type(told.annotation) | ({"description": told.description} if told.description else {})
        for name, told in model.fields.items()
    }
    required = [name for name, told in model.fields.items() if told.is_required]
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


_TYPES: Mapping[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def _type(annotation: Any) -> dict[str, Any]:
    if annotation in _TYPES:
        return {"type": _TYPES[annotation]}
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return {"type": "string", "enum": list(parts)}
    if origin is list:
        return {"type": "array", "items": _type(parts[0])}
    # `X | None` and `Annotated[X, ...]` are an X to the model.
    return _type(parts[0]) if parts else _schema(annotation)


# --- what the model sends -------------------------------------------------------------------------------------


def parse_arguments(text: str) -> dict[str, object]:
    """The arguments object of a call. Empty and null mean no arguments; a JSON string is unwrapped once.

    Raises ToolError `tool_arguments` for anything but exactly one JSON object. A cut-off object is never closed:
    half a command can be another command.
    """
    try:
        value = _load(text)
        if isinstance(value, str):
            value = _load(value)
    except (ValueError, RecursionError) as exc:
        why = f"{exc.msg} at character {exc.pos}" if isinstance(exc, json.JSONDecodeError) else str(exc)
        raise ToolError(
            f"the arguments are not one JSON object ({one_line(why)}); nothing was run, send the whole call again",
            code="tool_arguments",
        ) from exc
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ToolError("the arguments must be one JSON object; nothing was run", code="tool_arguments")
    return value


def _load(text: str) -> object:
    if not text.strip():
        return None
    # Raw line ends inside a string are tolerated: they leave no doubt about what was meant.
    return json.loads(text, strict=False, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _complaint(name: str, error: Unfit) -> str:
    """Every complaint in one sentence, then what the tool takes."""
    model = ARGUMENTS[name]
    parts = []
    for item in error.problems:
        where = ".".join(str(part) for part in item["loc"])
        match item["type"]:
            case "missing":
                parts.append(f"{where} is missing")
            case "extra_forbidden":
                parts.append(f"{one_line(where, 60)} is not an argument")
            case _:
                message = item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
                parts.append(f"{where} should be {message}, got {one_line(repr(item['input']), 60)}")
    takes = ", ".join(key if told.is_required else f"{key}?" for key, told in model.fields.items())
    return well_formed(f"{'; '.join(parts)}. {name} takes: {takes}")
