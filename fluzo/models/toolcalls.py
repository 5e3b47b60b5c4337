"""Tool calls out of stream fragments: one general reader for what servers really send.

Invariant: a call comes out only when it is whole; what was cut off is reported, never repaired. The rules, in the
order they are tried: a known id continues its call; otherwise the index (the position in the list where there is
none) does, unless the fragment shows that a new call begins: another id, or a name after complete arguments.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fluzo.core.errors import ProviderError
from fluzo.core.records import ToolCall
from fluzo.models.jsontext import clean, cut_off, dump, parse, parse_object

MAX_CALLS = 128
MAX_ARGUMENT_CHARS = 8 * 1024 * 1024


@dataclass(slots=True)
class _Call:
    index: int
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    chars: int = 0

    @property
    def arguments(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    @property
    def whole(self) -> bool:
        # The look at the last piece keeps a long run of fragments from being parsed again for each of them.
        ended = bool(self.pieces) and self.pieces[-1].rstrip().endswith("}")
        return ended and parse_object(self.arguments) is not None


def new_call_id() -> str:
    return f"call_{os.urandom(12).hex()}"


class CallAssembler:
    """Collects fragments of one reply. `names` are the offered tools; they settle whether a name goes on or begins."""

    def __init__(self, names: Sequence[str] = (), make_id: Callable[[], str] = new_call_id) -> None:
        self._names = frozenset(names)
        self._make_id = make_id
        self._calls: list[_Call] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(self, fragments: object) -> None:
        """Take one `tool_calls` list; anything that is no fragment is skipped."""
        if not isinstance(fragments, list):
            return
        for position, fragment in enumerate(fragments):
            if isinstance(fragment, dict):
                self._fragment(fragment, position)

    def finish(self) -> tuple[tuple[ToolCall, ...], str]:
        """The calls, and why they must not run (empty if they may): one cut-off call spoils the whole reply."""
        calls: list[ToolCall] = []
        used: set[str] = set()
        for call in self._calls:
            arguments = _final_arguments(call.arguments)
            if not call.name.strip():
                return (), "a tool call without a name"
            if parse_object(arguments) is None and cut_off(arguments):
                return (), f"the arguments of {call.name} end in the middle"
            call_id = call.id if call.id and call.id not in used else self._make_id()
            used.add(call_id)
            calls.append(ToolCall(call_id, clean(call.name.strip()), clean(arguments)))
        return tuple(calls), ""

    def _fragment(self, fragment: Mapping[str, object], position: int) -> None:
        function = fragment.get("function")
        body = function if isinstance(function, dict) else {}
        call_id, name = _text(fragment.get("id")), _text(body.get("name"))
        raw = body.get("arguments")
        arguments = raw if isinstance(raw, str) else "" if raw is None else dump(raw)
        index = fragment.get("index")
        given = isinstance(index, int) and not isinstance(index, bool)
        call = self._find(call_id, name, arguments, index if given and isinstance(index, int) else position, given)
        if call is None:
            return
        if call_id and not call.id:
            call.id = call_id
        if name:
            call.name = name if name.startswith(call.name) else call.name + name
        call.chars += len(arguments)
        if call.chars > MAX_ARGUMENT_CHARS:
            raise ProviderError(
                f"The arguments of a tool call grew past {MAX_ARGUMENT_CHARS} characters; the reply was abandoned.",
                hint="Ask the model for smaller steps.",
            )
        if arguments:
            call.pieces.append(arguments)

    def _find(self, call_id: str, name: str, arguments: str, index: int, given: bool) -> _Call | None:
        """The call this fragment belongs to, a new one, or None for a repeat of what is already there."""
        if call_id and not (given and name):
            for known in self._calls:
                if known.id == call_id:
                    return None if _repeats(known, arguments) else known
        current = next((call for call in reversed(self._calls) if call.index == index), None)
        if current is None or self._begins_anew(current, call_id, name, arguments):
            return self._begin(index)
        return None if call_id and _repeats(current, arguments) else current

    def _begins_anew(self, current: _Call, call_id: str, name: str, arguments: str) -> bool:
        if call_id and current.id:
            return call_id != current.id
        if not name:
            return False
        if arguments.strip() and current.whole:
            return True
        return name != current.name and name in self._names and current.name in self._names

    def _begin(self, index: int) -> _Call:
        if len(self._calls) >= MAX_CALLS:
            raise ProviderError(f"The reply holds more than {MAX_CALLS} tool calls; it was abandoned.")
        self._calls.append(_Call(index))
        return self._calls[-1]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _repeats(call: _Call, arguments: str) -> bool:
    """A server that ends its stream with the whole call once more sends the same complete object again."""
    return call.chars == len(arguments) and call.whole and call.arguments == arguments


def _final_arguments(raw: str) -> str:
    """Nothing means no parameters; a JSON string that holds an object is unwrapped once."""
    if not raw.strip():
        return "{}"
    try:
        value = parse(raw)
    except ValueError:
        return raw
    if value is None:
        return "{}"
    if isinstance(value, str):
        return value if parse_object(value) is not None else raw
    return raw
