"""What a request must be: the invariants of the protocol, and the expectations of a scenario's step.

Pure functions over the received bytes. They share no code with the adapter that writes requests, so that a mistake
there cannot excuse itself here. Every function returns sentences about what is wrong; none means that it is right.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fluzo.core.redact import printable
from fluzo.simulator.scenario import Expectation

MAX_CALL_ID_CHARACTERS = 40
"""The longest tool call id that every common server takes (OpenAI's own limit)."""

_ROLES = ("system", "user", "assistant", "tool")
_SHOWN_CHARACTERS = 300

Json = Mapping[str, Any]


def parse_body(raw: bytes) -> tuple[Json, list[str]]:
    """The JSON object of a request body, and what is wrong with it as such."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        return {}, [f"the body is not valid UTF-8: {exc.reason} at byte {exc.start}"]
    try:
        body = json.loads(text)
    except ValueError as exc:
        return {}, [f"the body is not JSON: {exc}"]
    if not isinstance(body, dict):
        return {}, ["the body is not a JSON object"]
    return body, [problem for value in _strings(body) for problem in _text_problems(value)][:1]


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *_strings(item))]
    return [text for item in value for text in _strings(item)] if isinstance(value, list) else []


def _text_problems(text: str) -> list[str]:
    if "\0" in text:
        return [f"a text holds U+0000: {_shown(text)}"]
    if any("\ud800" <= char <= "\udfff" for char in text):
        return [f"a text holds a lone surrogate: {_shown(text)}"]
    return []


def protocol_problems(body: Json, model: str) -> list[str]:
    """The rules that hold for every chat request, whatever the scenario."""
    problems = []
    if body.get("model") != model:
        problems.append(f"model: expected {model!r}, observed {body.get('model')!r}")
    if not isinstance(body.get("stream", False), bool):
        problems.append("stream is neither true nor false")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(item, dict) for item in messages):
        return [*problems, "messages is not a list of objects with at least one in it"]
    return [*problems, *_message_problems(messages), *_conversation_problems(messages), *_tool_problems(body)]


def _message_problems(messages: Sequence[Json]) -> list[str]:
    problems = []
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        role = message.get("role")
        if role not in _ROLES:
            problems.append(f"{where}: role {role!r} is not one of {', '.join(_ROLES)}")
        elif role == "system" and number:
            problems.append(f"{where}: a system message stands after the first place")
        elif role == "assistant":
            if not message_text(message) and not message.get("tool_calls"):
                problems.append(f"{where}: an assistant message has neither text nor calls")
            problems += [f"{where}: {problem}" for call in calls(message) for problem in _call_problems(call)]
        elif role in ("system", "user") and not message_text(message):
            problems.append(f"{where}: a {role} message is empty")
    return problems


def _call_problems(call: Json) -> list[str]:
    function = call.get("function")
    if call.get("type") != "function" or not isinstance(function, dict):
        return ["a tool call is not a function call"]
    problems = []
    call_id = call.get("id")
    if not isinstance(call_id, str) or not 1 <= len(call_id) <= MAX_CALL_ID_CHARACTERS:
        problems.append(f"the call id {call_id!r} is not a text of 1 to {MAX_CALL_ID_CHARACTERS} characters")
    if not isinstance(function.get("name"), str) or not function["name"]:
        problems.append("a tool call has no name")
    try:
        arguments = json.loads(function["arguments"])
    except (KeyError, TypeError, ValueError):
        arguments = None
    if not isinstance(arguments, dict):
        problems.append(f"the arguments of {call_id!r} are not a text that holds one JSON object")
    return problems


def _conversation_problems(messages: Sequence[Json]) -> list[str]:
    """Each call is answered exactly once and directly; nobody but tools speaks twice in a row."""
    problems: list[str] = []
    seen: set[str] = set()
    waiting: list[str] = []
    previous = ""
    for number, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            call_id = str(message.get("tool_call_id"))
            if call_id in waiting:
                waiting.remove(call_id)
            else:
                why = "is answered a second time" if call_id in seen else "was never made"
                problems.append(f"messages[{number}]: call {call_id!r} {why}")
            previous = "tool"
            continue
        if waiting:
            problems.append(f"messages[{number}]: call {waiting[0]!r} has no result before it")
        waiting = [str(call.get("id")) for call in calls(message)] if role == "assistant" else []
        problems += [f"messages[{number}]: call id {item!r} is not unique" for item in waiting if item in seen]
        seen.update(waiting)
        if role == previous and role in ("user", "assistant"):
            problems.append(f"messages[{number}]: two {role} messages in a row")
        previous = str(role)
    if waiting:
        problems.append(f"call {waiting[0]!r} has no result")
    if messages[-1].get("role") not in ("user", "tool"):
        problems.append(f"the last message is of role {messages[-1].get('role')!r}, not user or tool")
    return problems


def _tool_problems(body: Json) -> list[str]:
    tools = body.get("tools")
    if tools is None:
        return []
    if not isinstance(tools, list) or not tools:
        return ["tools is not a list with at least one tool in it"]
    names = tool_names(body)
    problems = []
    for number, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function" or not function.get("name"):
            problems.append(f"tools[{number}] is not a named function")
        elif not isinstance(function.get("parameters"), dict) or function["parameters"].get("type") != "object":
            problems.append(f"tools[{number}]: parameters is not a schema of an object")
    if len(set(names)) < len(names):
        problems.append("two tools have the same name")
    return problems


# --- a step's expectations ------------------------------------------------------------------------------------


def expectation_problems(
    expect: Expectation, method: str, path: str, headers: Mapping[str, str], body: Json, previous: Json | None
) -> list[str]:
    """How the request differs from what the step expects; `previous` is the chat request before this one."""
    problems = []
    if (method, path) != (expect.method, expect.path):
        problems.append(f"expected {expect.method} {expect.path}, observed {method} {path}")
    for name, wanted in expect.headers.items():
        if headers.get(name.lower()) != wanted:
            # What was sent instead may be a credential.
            seen = "another value" if name.lower() in headers else "none"
            problems.append(f"header {name}: expected {'none' if wanted is None else repr(wanted)}, observed {seen}")
    if method == "GET":
        return problems
    return problems + _body_problems(expect, body) + _continuation_problems(expect, body, previous)


def _body_problems(expect: Expectation, body: Json) -> list[str]:
    problems = []
    if expect.stream is not None and body.get("stream", False) is not expect.stream:
        problems.append(f"stream: expected {expect.stream}, observed {body.get('stream', False)}")
    for key, wanted in expect.body.items():
        if body.get(key) != wanted:
            problems.append(f"{key}: expected {wanted!r}, observed {body.get(key)!r}")
    problems += [f"{key}: expected to be absent" for key in expect.absent if key in body]
    offered = tool_names(body)
    problems += [f"tool {name!r} is not offered" for name in expect.tools if name not in offered]
    messages = _messages(body)
    last = messages[-1] if messages else {}
    if expect.last_role and last.get("role") != expect.last_role:
        problems.append(f"last role: expected {expect.last_role}, observed {last.get('role')}")
    if expect.messages and len(messages) != expect.messages:
        problems.append(f"messages: expected {expect.messages}, observed {len(messages)}")
    every = "\n".join(message_text(message) for message in messages)
    problems += _holds("the last message", message_text(last), expect.last_contains, expect.last_lacks)
    problems += _holds("the conversation", every, expect.any_contains, expect.any_lacks)
    for wanted_result in expect.tool_results:
        results = [message_text(item) for item in messages if item.get("tool_call_id") == wanted_result.call]
        where = f"the result of call {wanted_result.call!r}"
        if not results:
            problems.append(f"{where} is missing")
        else:
            problems += _holds(where, results[-1], wanted_result.contains, wanted_result.lacks)
    return problems


def _continuation_problems(expect: Expectation, body: Json, previous: Json | None) -> list[str]:
    problems = []
    if previous is not None and body == previous and not expect.repeat:
        problems.append("duplicate: the same body was sent in the request before")
    if expect.extends:
        before = _messages(previous or {})
        if previous is None or _messages(body)[: len(before)] != before:
            problems.append("the messages do not begin with those of the request before")
        elif body.get("tools") != previous.get("tools"):
            problems.append("the tools are not those of the request before")
    return problems


def _holds(where: str, text: str, contains: Sequence[str], lacks: Sequence[str]) -> list[str]:
    missing = [f"{where}: expected to hold {item!r}, observed {_shown(text)}" for item in contains if item not in text]
    return missing + [f"{where}: expected not to hold {item!r}" for item in lacks if item in text]


# --- reading a request ----------------------------------------------------------------------------------------


def _messages(body: Json) -> Sequence[Json]:
    messages = body.get("messages")
    return [item for item in messages if isinstance(item, dict)] if isinstance(messages, list) else []


def calls(message: Json) -> Sequence[Json]:
    value = message.get("tool_calls")
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def message_text(message: Json) -> str:
    """The text of a message, whether it is one string or a list of text parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def tool_names(body: Json) -> list[str]:
    tools = body.get("tools")
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return [str(item.get("name")) for item in functions if isinstance(item, dict)]


def describe(method: str, path: str, body: Json) -> str:
    """One line about a request, for a diagnostic: no headers, so no credentials."""
    messages = _messages(body)
    if not messages:
        return f"{method} {path}"
    roles = " ".join(str(item.get("role")) for item in messages)
    last = _shown(message_text(messages[-1]))
    return f"{method} {path}, stream {body.get('stream', False)}, roles: {roles}; last message: {last}"


def _shown(text: str) -> str:
    clipped = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}... ({len(text)} characters)"
    return f'"{printable(clipped, keep_newlines=False)}"'
