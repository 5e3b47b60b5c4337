"""Scenario files: what a scripted model server expects of each request, and what it answers.

A scenario is JSON with `schema_version` 1. Reading is strict: an unknown key or a wrong type is an error that names
its place, so that a misspelt expectation can never pass unnoticed. The format is described in `fixtures/README.md`.

    {"schema_version": 1, "name": "...", "title": "...", "model": "...", "prompt": "...",
     "models": ["..."],                 optional: GET /v1/models is answered, any number of times
     "demo": {"fixture": "...", "verify": [["python3", "-m", "unittest"]]},      optional: `fluzo demo` plays it
     "scene": {"number": 1, "look": "...", "repository": "sound"},    optional: listed by `fluzo demo --interactive`
     "steps": [{"id": "...", "optional": false, "expect": {...}, "respond": {...}}]}
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from fluzo.core.errors import ConfigError

SCHEMA_VERSION = 1

Disconnect = Literal["close", "reset"]
Repository = Literal["sound", "broken"]


@dataclass(frozen=True, slots=True)
class ToolResultExpectation:
    """The result of call `call` is in the request and holds, or does not hold, these texts."""

    call: str
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one request must be, by meaning. What is left out is not looked at.

    `extends` wants the messages and tools of the request before as an unchanged beginning of this one; `repeat`
    allows the very same body again, which is otherwise a duplicate. A header of None must be absent.
    """

    method: str = "POST"
    path: str = "/v1/chat/completions"
    stream: bool | None = None
    last_role: str = ""
    messages: int = 0
    extends: bool = False
    repeat: bool = False
    tools: tuple[str, ...] = ()
    last_contains: tuple[str, ...] = ()
    last_lacks: tuple[str, ...] = ()
    any_contains: tuple[str, ...] = ()
    any_lacks: tuple[str, ...] = ()
    tool_results: tuple[ToolResultExpectation, ...] = ()
    headers: Mapping[str, str | None] = field(default_factory=dict)
    body: Mapping[str, object] = field(default_factory=dict)
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call of the answer. `cuts` are the offsets in the argument text at which the stream cuts it."""

    id: str
    name: str
    arguments: str
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of an answer, in the order of the wire; exactly one of the fields is set.

    `times` repeats a text. `hold` keeps the connection open until the test releases the barrier of that name.
    `disconnect` ends the connection there and then, by a plain close or a TCP reset.
    """

    text: str = ""
    reasoning: str = ""
    tool_call: ScriptedCall | None = None
    hold: str = ""
    disconnect: Disconnect | None = None
    times: int = 1


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the model, sent as a stream or as one object, whichever the request asked for.

    `finish` empty means what the parts imply. Usage is sent only where the protocol has it: in one object, or in
    a stream when the request set `stream_options.include_usage`.
    """

    parts: tuple[Part, ...] = ()
    finish: str = ""
    usage: Mapping[str, object] | None = None
    done: bool = True


@dataclass(frozen=True, slots=True)
class RawResponse:
    """Any HTTP response, byte for byte: errors, redirects, malformed bodies, recorded streams."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    id: str
    expect: Expectation
    respond: Reply | RawResponse
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Demo:
    """How `fluzo demo` plays a scenario: on a copy of this fixture, with these commands declared as checks.

    `reason` is the code with which the task must end; empty means that it must be completed.
    """

    fixture: str
    verify: tuple[tuple[str, ...], ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """How the interactive demo lists a scenario: its place, what to look at and do, and the repository it begins on.

    `opens` names a view of the screen that is opened in place of beginning a task.
    """

    number: int
    look: str
    repository: Repository = "sound"
    opens: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    title: str
    model: str
    steps: tuple[Step, ...]
    prompt: str = ""
    models: tuple[str, ...] = ()
    demo: Demo | None = None
    scene: Scene | None = None


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file. Raises ConfigError (`configuration_invalid`) with the place of the first mistake."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{path.name} is not a readable scenario file: {exc}") from exc
    return parse_scenario(data, directory=path.parent)


def parse_scenario(data: object, *, directory: Path | None = None) -> Scenario:
    """Build a scenario from its JSON value; `directory` is where a `file` of a response is looked up."""
    top = _keys(data, "scenario", _names(Scenario) | {"schema_version"})
    if top.get("schema_version") != SCHEMA_VERSION:
        raise _error("scenario.schema_version", f"must be {SCHEMA_VERSION}, not {top.get('schema_version')!r}")
    steps = _list(top, "steps", "scenario")
    if not steps:
        raise _error("scenario.steps", "must not be empty")
    scenario = Scenario(
        name=_text(top, "name", "scenario"),
        title=_text(top, "title", "scenario"),
        model=_text(top, "model", "scenario"),
        steps=tuple(_step(item, f"steps[{number}]", directory) for number, item in enumerate(steps)),
        prompt=_text(top, "prompt", "scenario", ""),
        models=_texts(top, "models", "scenario"),
        demo=_demo(top["demo"]) if "demo" in top else None,
        scene=_scene(top["scene"]) if "scene" in top else None,
    )
    ids = [step.id for step in scenario.steps]
    if len(set(ids)) < len(ids):
        raise _error("steps", "every step needs an id of its own")
    return scenario


def _demo(data: object) -> Demo:
    value = _keys(data, "demo", _names(Demo))
    commands = _list(value, "verify", "demo", [])
    return Demo(
        fixture=_text(value, "fixture", "demo"),
        verify=tuple(_texts({"verify": command}, "verify", "demo") for command in commands),
        reason=_text(value, "reason", "demo", ""),
    )


def _scene(data: object) -> Scene:
    value = _keys(data, "scene", _names(Scene))
    repository = value.get("repository", "sound")
    if repository not in get_args(Repository):
        raise _error("scene.repository", "must be sound or broken")
    return Scene(
        number=_number(value, "number", "scene", 0),
        look=_text(value, "look", "scene"),
        repository=repository,
        opens=_text(value, "opens", "scene", ""),
    )


def _step(data: object, where: str, directory: Path | None) -> Step:
    value = _keys(data, where, _names(Step))
    return Step(
        id=_text(value, "id", where),
        expect=_expectation(value.get("expect", {}), f"{where}.expect"),
        respond=_response(value.get("respond"), f"{where}.respond", directory),
        optional=_flag(value, "optional", where),
    )


def _expectation(data: object, where: str) -> Expectation:
    value = _keys(data, where, _names(Expectation))
    stream = value.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise _error(f"{where}.stream", "must be true or false")
    results = _list(value, "tool_results", where, [])
    return Expectation(
        method=_text(value, "method", where, "POST"),
        path=_text(value, "path", where, "/v1/chat/completions"),
        stream=stream,
        last_role=_text(value, "last_role", where, ""),
        messages=_number(value, "messages", where, 0),
        extends=_flag(value, "extends", where),
        repeat=_flag(value, "repeat", where),
        tool_results=tuple(_tool_result(item, f"{where}.tool_results[{n}]") for n, item in enumerate(results)),
        headers=_object(value, "headers", where),
        body=_object(value, "body", where),
        **{
            name: _texts(value, name, where)
            for name in ("tools", "last_contains", "last_lacks", "any_contains", "any_lacks", "absent")
        },
    )


def _tool_result(data: object, where: str) -> ToolResultExpectation:
    value = _keys(data, where, _names(ToolResultExpectation))
    return ToolResultExpectation(
        call=_text(value, "call", where),
        contains=_texts(value, "contains", where),
        lacks=_texts(value, "lacks", where),
    )


def _response(data: object, where: str, directory: Path | None) -> Reply | RawResponse:
    if isinstance(data, Mapping) and "status" in data:
        return _raw(data, where, directory)
    value = _keys(data, where, _names(Reply))
    return Reply(
        parts=tuple(_part(item, f"{where}.parts[{n}]") for n, item in enumerate(_list(value, "parts", where, []))),
        finish=_text(value, "finish", where, ""),
        usage=_object(value, "usage", where) if value.get("usage") is not None else None,
        done=_flag(value, "done", where, True),
    )


def _raw(data: object, where: str, directory: Path | None) -> RawResponse:
    value = _keys(data, where, {"status", "content_type", "headers", "json", "text", "file"})
    bodies = [key for key in ("json", "text", "file") if key in value]
    if len(bodies) > 1:
        raise _error(where, f"has more than one body: {', '.join(bodies)}")
    content_type = "text/plain; charset=utf-8"
    body = b""
    if "json" in value:
        content_type, body = "application/json", json.dumps(value["json"]).encode()
    elif "text" in value:
        body = _text(value, "text", where, "").encode()
    elif "file" in value:
        body = _body_file(_text(value, "file", where), where, directory)
    return RawResponse(
        status=_number(value, "status", where, 200),
        content_type=_text(value, "content_type", where, content_type),
        body=body,
        headers=_object(value, "headers", where),
    )


def _body_file(name: str, where: str, directory: Path | None) -> bytes:
    if directory is None or Path(name).name != name:
        raise _error(f"{where}.file", "must be the name of a file beside the scenario")
    try:
        return (directory / name).read_bytes()
    except OSError as exc:
        raise _error(f"{where}.file", f"cannot be read: {exc.strerror}") from exc


def _part(data: object, where: str) -> Part:
    value = _keys(data, where, _names(Part))
    if len(value.keys() - {"times"}) != 1:
        raise _error(where, "must be exactly one of text, reasoning, tool_call, hold, disconnect")
    disconnect = value.get("disconnect")
    if disconnect is not None and disconnect not in get_args(Disconnect):
        raise _error(f"{where}.disconnect", "must be close or reset")
    return Part(
        text=_text(value, "text", where, ""),
        reasoning=_text(value, "reasoning", where, ""),
        tool_call=_call(value["tool_call"], f"{where}.tool_call") if "tool_call" in value else None,
        hold=_text(value, "hold", where, ""),
        disconnect=disconnect,
        times=_number(value, "times", where, 1),
    )


def _call(data: object, where: str) -> ScriptedCall:
    value = _keys(data, where, _names(ScriptedCall))
    arguments = value.get("arguments", {})
    cuts = _list(value, "cuts", where, [])
    if not all(isinstance(cut, int) and not isinstance(cut, bool) for cut in cuts):
        raise _error(f"{where}.cuts", "must be a list of numbers")
    return ScriptedCall(
        id=_text(value, "id", where),
        name=_text(value, "name", where),
        # A text is sent as it is, so that malformed arguments can be scripted too.
        arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
        cuts=tuple(cuts),
    )


# --- typed access that says where it failed -------------------------------------------------------------------


def _error(where: str, what: str) -> ConfigError:
    return ConfigError(f"The scenario is not valid: {where} {what}.")


def _names(cls: type) -> set[str]:
    return {item.name for item in fields(cls)}


def _keys(data: object, where: str, allowed: set[str]) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise _error(where, "must be an object")
    unknown = sorted(set(data) - allowed)
    if unknown:
        raise _error(where, f"has an unknown key {unknown[0]!r}")
    return data


def _text(data: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if not isinstance(value, str) or (default is None and not value):
        raise _error(f"{where}.{key}", "must be a text")
    return value


def _number(data: Mapping[str, Any], key: str, where: str, default: int) -> int:
    value = data.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _error(f"{where}.{key}", "must be a whole number")
    return value


def _flag(data: Mapping[str, Any], key: str, where: str, default: bool = False) -> bool:
    value = data.get(key, default)
    if not isinstance(value, bool):
        raise _error(f"{where}.{key}", "must be true or false")
    return value


def _list(data: Mapping[str, Any], key: str, where: str, default: Sequence[Any] | None = None) -> Sequence[Any]:
    value = data.get(key, default)
    if not isinstance(value, list):
        raise _error(f"{where}.{key}", "must be a list")
    return value


def _texts(data: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = _list(data, key, where, [])
    if not all(isinstance(item, str) for item in value):
        raise _error(f"{where}.{key}", "must be a list of texts")
    return tuple(value)


def _object(data: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, Mapping):
        raise _error(f"{where}.{key}", "must be an object")
    return dict(value)
