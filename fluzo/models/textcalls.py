"""Tool calls that a model wrote as text, for servers that do not parse their model's own format.

Invariant: markup inside a code fence or an inline code span is talk about calls and stays text; a call that is not
whole, or names a tool that was not offered, stays text too. Two formats are read: a JSON object between tool_call
tags (Hermes, Qwen), and function/parameter tags (Qwen-Coder), with or without the tool_call wrapper.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from fluzo.core.records import ToolCall, ToolSpec
from fluzo.models.jsontext import dump, parse, parse_object

_CODE = r"(?s)```.*?(?:```|\Z)|`[^`\n]+`"
_MARKUP = r"<tool_call>|<function=[\w.-]+>"
_CALL = (
    r"(?s)<tool_call>\s*(?P<json>\{.*?\})\s*</tool_call>"
    r"|(?:<tool_call>\s*)?<function=(?P<name>[\w.-]+)>(?P<body>.*?)</function>(?:\s*</tool_call>)?"
)
_PARAMETER = r"(?s)<parameter=(?P<key>[\w.-]+)>(?P<value>.*?)</parameter>"


def mentions_call(text: str) -> bool:
    """Whether the text holds call markup outside code."""
    return any(not _in_code(match.start(), text) for match in re.finditer(_MARKUP, text))


def read_calls(text: str, tools: Sequence[ToolSpec], make_id: Callable[[], str]) -> tuple[str, tuple[ToolCall, ...]]:
    """The text without the calls it held, and the calls."""
    specs = {tool.name: tool for tool in tools}
    calls: list[ToolCall] = []
    kept: list[str] = []
    position = 0
    for match in re.finditer(_CALL, text):
        call = None if _in_code(match.start(), text) else _read(match, specs, make_id)
        if call is not None:
            calls.append(call)
            kept.append(text[position : match.start()])
            position = match.end()
    kept.append(text[position:])
    return "".join(kept), tuple(calls)


def _in_code(position: int, text: str) -> bool:
    return any(code.start() <= position < code.end() for code in re.finditer(_CODE, text))


def _read(match: re.Match[str], specs: Mapping[str, ToolSpec], make_id: Callable[[], str]) -> ToolCall | None:
    if match["json"] is not None:
        body = parse_object(match["json"])
        name = body.get("name") if body is not None else None
        arguments = body.get("arguments", {}) if body is not None else None
        if isinstance(arguments, str):
            arguments = parse_object(arguments)
        if not isinstance(name, str) or name not in specs or not isinstance(arguments, dict):
            return None
        return ToolCall(make_id(), name, dump(arguments))
    if match["name"] not in specs:
        return None
    kinds = _kinds(specs[match["name"]])
    values = {
        parameter["key"]: _value(parameter["value"], kinds.get(parameter["key"], "string"))
        for parameter in re.finditer(_PARAMETER, match["body"])
    }
    return ToolCall(make_id(), match["name"], dump(values))


def _kinds(tool: ToolSpec) -> dict[str, str]:
    properties = tool.parameters.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {str(key): str(value.get("type", "")) for key, value in properties.items() if isinstance(value, Mapping)}


def _value(raw: str, kind: str) -> object:
    """The value as written: one line end after the opening and before the closing tag belong to the markup."""
    text = raw.removeprefix("\n").removesuffix("\n")
    if kind == "string":
        return text
    try:
        return parse(text.strip())
    except ValueError:
        return text
