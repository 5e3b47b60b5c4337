"""Stored conversations of the message cases, and the rules that every request made of one must keep."""

import json
import re
from typing import Any

from fluzo.core.records import Message, ToolCall

ID_FORMS = {"any": r"[A-Za-z0-9_-]{1,40}", "mistral": r"[A-Za-z0-9]{9}"}


def check_strict(messages: Any, id_form: str = "any") -> None:
    """The invariants of every request, as m-histories.json lists them."""
    seen: set[str] = set()
    open_calls: list[str] = []
    turn = ""
    for position, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            open_calls.remove(message["tool_call_id"])  # Fails for an answer without its call, or a second answer.
            continue
        assert not open_calls
        assert role != "system" or position == 0
        if role in ("user", "assistant"):
            assert role != turn or (role == "assistant" and messages[position - 1]["role"] == "tool")
            assert turn or role == "user"
            turn = role
        made = message.get("tool_calls")
        assert made is None or made
        assert made or message["content"].strip()
        for call in made or ():
            assert call["id"] not in seen
            assert re.fullmatch(ID_FORMS[id_form], call["id"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            seen.add(call["id"])
            open_calls.append(call["id"])
    assert not open_calls


def stored(history: dict[str, Any]) -> list[Message]:
    """The messages of a history; what a person did in between left none."""
    return [
        Message(
            item["role"],
            item.get("content") or "",
            reasoning=item.get("reasoning_content", ""),
            tool_calls=tuple(
                ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in item.get("tool_calls", ())
            ),
            tool_call_id=item.get("tool_call_id", ""),
        )
        for item in history["stored"]
        if isinstance(item, dict)
    ]
