"""Text and JSON as they may stand in a request body: the small rules that the reader and the writer share.

Invariant: what `clean` returns can be encoded as UTF-8 and holds no U+0000; what `parse_object` accepts is a JSON
object (RFC 8259) that any other parser accepts too.
"""

import json
import re

MAX_DEPTH = 100

_LONE = re.compile("[\x00\ud800-\udfff]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(r"[{}\[\]]")


def clean(text: str) -> str:
    """The same text with surrogate pairs joined, lone surrogates replaced by U+FFFD and NUL removed."""
    if _LONE.search(text) is None:
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\x00", "")


def clean_value(value: object) -> object:
    """`clean` for every string of a JSON value."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): clean_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean_value(item) for item in value]
    return value


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse(text: str) -> object:
    """The JSON value of `text`. Raises ValueError for anything else, NaN and too deep nesting included."""
    if text.count("[") + text.count("{") > MAX_DEPTH and _depths(text)[1] > MAX_DEPTH:
        raise ValueError("nested too deeply")
    value: object = _DECODER.decode(text)
    return value


def parse_object(text: str) -> dict[str, object] | None:
    """The JSON object of `text`, or None when it is anything else."""
    try:
        value = parse(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def cut_off(text: str) -> bool:
    """Whether JSON text ends inside a string or a bracket: the rest of it never came."""
    return '"' in _STRING.sub("", text) or _depths(text)[0] > 0


def _depths(text: str) -> tuple[int, int]:
    """Bracket depth at the end and at its deepest, strings apart."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "{[" else -1
        deepest = max(deepest, depth)
    return depth, deepest


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
