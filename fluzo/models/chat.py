"""The writing side of Chat Completions: a conversation as a request body, pure and deterministic.

Invariants. Strict writer: every tool call is answered exactly once, directly after the message that makes it; no
message is empty; user and assistant take turns; arguments are one JSON object; ids are unique and of the form that
the entry names (M03); the body is UTF-8 without lone surrogates or NUL. Append-only: a longer conversation gives a
body that continues the shorter one's, so that a server can reuse its prompt cache. Everything before `messages` is
constant as long as endpoint, tools and output limit are, and `messages` comes last.
"""

import hashlib
import re
import string
from collections.abc import Iterable, Mapping

from fluzo.core.records import Message, ModelRequest, ToolCall
from fluzo.models.endpoint import ModelEndpoint
from fluzo.models.jsontext import clean, clean_value, dump, parse_object

MAX_ID_CHARS = 40
NO_RESULT = "No result: this call was interrupted before its result was recorded. It may or may not have run."
OPENING = "(The conversation continues from here.)"

_LETTERS = string.ascii_letters + string.digits
_ID_FORMS: Mapping[str, re.Pattern[str]] = {
    "any": re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_ID_CHARS}}}"),
    "mistral": re.compile(r"[A-Za-z0-9]{9}"),
}
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")
_INVALID_KEPT_CHARS = 2000


def encode(request: ModelRequest, endpoint: ModelEndpoint) -> bytes:
    """The request body. Equal requests give equal bytes; of two requests of one task the shorter one is a prefix
    of the longer one, apart from its closing brackets (and the ones of a joined last message).
    """
    head: dict[str, object] = {"model": endpoint.model, "stream": endpoint.stream}
    if endpoint.stream and endpoint.usage_in_stream:
        head["stream_options"] = {"include_usage": True}
    if endpoint.output_limit_parameter != "omit":
        head[endpoint.output_limit_parameter] = request.max_output_tokens
    if request.tools:
        if endpoint.parallel_tool_calls != "omit":
            head["parallel_tool_calls"] = endpoint.parallel_tool_calls == "true"
        head["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
            }
            for tool in request.tools
        ]
    reasoning = endpoint.reasoning_field if endpoint.send_reasoning else ""
    messages = [_wire(message, reasoning) for message in normalize(request.messages, endpoint.tool_call_ids)]
    return dump({**_cleaned(head), "messages": messages}).encode("utf-8")


def _cleaned(head: dict[str, object]) -> dict[str, object]:
    return {key: clean_value(value) for key, value in head.items()}


def _wire(message: Message, reasoning_field: str) -> dict[str, object]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    wire: dict[str, object] = {"role": message.role}
    if reasoning_field and message.reasoning:
        wire[reasoning_field] = message.reasoning
    wire["content"] = message.text
    if message.tool_calls:
        # An empty list or a null content breaks some chat templates, so neither is ever sent.
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return wire


def normalize(messages: Iterable[Message], id_form: str = "any") -> tuple[Message, ...]:
    """The conversation as a strict server takes it; `id_form` is the entry's `compat.tool_call_ids`.

    Prefix-stable: appending messages never changes what was emitted for earlier ones, with two exceptions at the
    very end: text may be appended to the last message, and the stand-in result of a call that had no answer yet
    gives way to the real one.
    """
    writer = _Writer(id_form)
    for message in messages:
        writer.add(message)
    writer.settle()
    return tuple(writer.out)


class _Writer:
    """Emits messages one by one; `_open` are the calls of the last assistant message that await their results."""

    def __init__(self, id_form: str) -> None:
        self._id_form = id_form
        self.out: list[Message] = []
        self._open: list[tuple[str, str]] = []
        self._used: set[str] = set()

    def add(self, message: Message) -> None:
        if message.role == "tool":
            self._answer(message)
            return
        text = clean(message.text)
        calls = () if message.incomplete or message.role != "assistant" else message.tool_calls
        if not calls and not text.strip():
            return
        self.settle()
        role = message.role
        if role == "system" and any(earlier.role != "system" for earlier in self.out):
            role = "user"  # Templates accept a system message at the start only.
        if role == "assistant" and all(earlier.role == "system" for earlier in self.out):
            self.out.append(Message("user", OPENING))
        self._emit(Message(role, text, clean(message.reasoning) if role == "assistant" else "", self._calls(calls)))

    def settle(self) -> None:
        """Answer every call that is still open."""
        self.out.extend(Message("tool", NO_RESULT, tool_call_id=wire_id) for _, wire_id in self._open)
        self._open = []

    def _emit(self, message: Message) -> None:
        last = self.out[-1] if self.out else None
        if last is None or last.role != message.role:
            self.out.append(message)
            return
        text = f"{last.text}\n\n{message.text}" if last.text and message.text else last.text or message.text
        self.out[-1] = last._replace(text=text, tool_calls=message.tool_calls)

    def _answer(self, message: Message) -> None:
        for index, (stored_id, wire_id) in enumerate(self._open):
            if stored_id == message.tool_call_id:
                del self._open[index]
                self.out.append(Message("tool", clean(message.text), tool_call_id=wire_id))
                return

    def _calls(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        wired = []
        for call in calls:
            wire_id = self._unique(call.id)
            self._open.append((call.id, wire_id))
            name = _NOT_IN_NAME.sub("_", call.name)[:64] or "unnamed"
            wired.append(ToolCall(wire_id, name, wire_arguments(call.arguments)))
        return tuple(wired)

    def _unique(self, stored_id: str) -> str:
        """The stored id where it can stand, else a digest of it: the same one on every later request."""
        candidate, number = stored_id, 0
        while _ID_FORMS[self._id_form].fullmatch(candidate) is None or candidate in self._used:
            number += 1
            digest = hashlib.sha256(f"{number}:{stored_id}".encode("utf-8", "surrogatepass")).digest()
            short = "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:9])
            candidate = short if self._id_form == "mistral" else f"call_{digest.hex()[:24]}"
        self._used.add(candidate)
        return candidate


def wire_arguments(raw: str) -> str:
    """Arguments as one valid JSON object: unchanged where they are one, else wrapped as `_invalid`."""
    if not raw.strip():
        return "{}"
    parsed = parse_object(raw)
    if parsed is None:
        return dump({"_invalid": clean(raw)[:_INVALID_KEPT_CHARS]})
    # An escape may spell what the body must not hold, for example half of a surrogate pair.
    return dump(clean_value(parsed)) if "\\u" in raw or clean(raw) != raw else raw
