"""The flat view of the settings tree: one descriptor per key, typed reading of texts, and the nearest key.

Invariant: descriptors are derived from `settings_model`, never listed by hand, so a key that exists can be shown,
read and set, and a key that does not exist is refused. Entries of named collections appear once with `<id>`.
"""

import difflib
import json
import re
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, cast

from fluzo.core.checked import REQUIRED, Field
from fluzo.core.errors import ConfigError, UsageError
from fluzo.core.named import NamedTuple
from fluzo.core.settings_model import Apply, Node, Privacy, Settings

Kind = Literal[
    "boolean",
    "integer",
    "number",
    "text",
    "choice",
    "list of texts",
    "list of commands",
    "list of grants",
    "table of texts",
]

ID = re.compile(r"[A-Za-z0-9_-]+")
"""Names of models and pools are bare TOML keys, so that `models.coder.pool` needs no quoting anywhere."""

_UNESCAPED = re.compile(r"[A-Za-z0-9_<>-]+")


class SettingDescriptor(NamedTuple):
    """Everything the wizard, the reference and the screens know about one setting.

    `default` is None for a value that the entry must give. `minimum` and `maximum` are inclusive; `options` holds
    the words that are accepted.
    """

    key: str
    kind: Kind
    unit: str
    default: object
    minimum: float | None
    maximum: float | None
    options: tuple[str, ...]
    description: str
    privacy: Privacy
    apply: Apply

    @property
    def required(self) -> bool:
        return self.default is None


@cache
def registry() -> tuple[SettingDescriptor, ...]:
    """Every setting, in the order of the document."""
    found: dict[str, SettingDescriptor] = {}
    for descriptor in settings_of(Settings, ""):
        known = found.get(descriptor.key)
        if known is not None and known.options != descriptor.options:
            # The same key in two kinds of model entry, such as `provider`: either word is accepted.
            options = (*known.options, *(o for o in descriptor.options if o not in known.options))
            descriptor = known._replace(options=options)
        found[descriptor.key] = descriptor
    return tuple(found.values())


def describe(key: str) -> SettingDescriptor:
    """The descriptor of a concrete key such as `models.coder.pool`.

    Raises UsageError with the nearest key when there is no such setting.
    """
    generic = generic_key(key)
    for descriptor in registry():
        if descriptor.key == generic:
            return descriptor
    refusal = unknown_key(split_key(key))
    raise UsageError(
        refusal if refusal.endswith("?") else f"{refusal}.",
        hint="See every setting with: fluzo config show --effective",
    )


def generic_key(key: str) -> str:
    """The registry's form of a concrete key: names of models and pools become `<id>`."""
    parts = key.split(".")
    if len(parts) > 2 and parts[0] in ("models", "capacity_pools"):
        parts[1] = "<id>"
    return ".".join(parts)


def split_key(key: str) -> tuple[str, ...]:
    return tuple(key.split("."))


def show_key(path: Sequence[str | int]) -> str:
    """A key for people; parts that are not plain words are quoted so that they cannot disturb a terminal."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _UNESCAPED.fullmatch(part) else render(part))
    return text


def unknown_key(path: Sequence[str | int]) -> str:
    """One sentence that refuses a key and names the nearest one that exists."""
    near = nearest_key(path)
    return f"{show_key(path)} is not a setting" + (f"; did you mean {near}?" if near else "")


def nearest_key(path: Sequence[str | int]) -> str:
    """The existing key that was most likely meant, or an empty text. Names of entries are taken from `path`.

    A sibling with a similar name comes first, then the same name in another table, then a similar whole key.
    """
    words = [str(part) for part in path if isinstance(part, str)]
    entry = words[1] if len(words) > 2 and words[0] in ("models", "capacity_pools") else "<id>"
    keys = [descriptor.key.replace("<id>", entry).replace("[]", "") for descriptor in registry()]
    tables = {key[:end] for key in keys for end in range(len(key)) if key[end] == "."}
    parent, name = ".".join(words[:-1]), words[-1]
    siblings = {key.rpartition(".")[2]: key for key in (*keys, *sorted(tables)) if key.rpartition(".")[0] == parent}
    near = difflib.get_close_matches(name, siblings, n=1)
    if near:
        return siblings[near[0]]
    same = [key for key in keys if key.rpartition(".")[2] == name]
    if siblings and not same:
        return ""  # The table is right and the name is like no other in it; a guess would mislead.
    found = difflib.get_close_matches(".".join(words), same or keys, n=1, cutoff=0.0 if same else 0.75)
    return found[0] if found else ""


def get_value(settings: Settings, key: str) -> object:
    """The effective value of a concrete key, as plain TOML types. Raises UsageError for an unknown key."""
    describe(key)
    value: object = settings
    for part in split_key(key):
        if isinstance(value, Node) and part in type(value).fields:
            value = getattr(value, part)
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            raise UsageError(f"{show_key(split_key(key))}: there is no such entry.", hint="Entries: fluzo config show")
    return plain(value)


def set_value(data: Mapping[str, object], key: str, value: object) -> dict[str, object]:
    """A copy of the raw document `data` with one key set; missing tables appear. Nothing is validated here."""
    head, *rest = split_key(key)
    if not rest:
        return {**data, head: value}
    child = data.get(head)
    inner = cast("Mapping[str, object]", child) if isinstance(child, Mapping) else {}
    return {**data, head: set_value(inner, ".".join(rest), value)}


def remove_value(data: Mapping[str, object], key: str) -> dict[str, object]:
    """A copy of the raw document `data` without one key; the tables around it stay."""
    head, *rest = split_key(key)
    if not rest:
        return {name: item for name, item in data.items() if name != head}
    child = data.get(head)
    if not isinstance(child, Mapping):
        return dict(data)
    return {**data, head: remove_value(cast("Mapping[str, object]", child), ".".join(rest))}


def parse_value(key: str, text: str) -> object:
    """The typed value that `text` means for `key`, as plain TOML types.

    Raises UsageError when the key is unknown or the text is not of its type. Ranges are checked with the whole.
    """
    descriptor = describe(key)
    shown = show_key(split_key(key))
    if descriptor.kind in ("text", "choice"):
        if "true" in descriptor.options and text in ("true", "false"):
            return text == "true"
        return text
    if descriptor.kind == "boolean":
        if text not in ("true", "false"):
            raise UsageError(f"{shown} is true or false.")
        return text == "true"
    try:
        value = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else None
    except (tomllib.TOMLDecodeError, RecursionError):
        value = None
    if not _is_kind(value, descriptor.kind):
        raise UsageError(f"{shown} takes {_EXAMPLES[descriptor.kind]}.")
    return value


def parse_assignment(text: str) -> tuple[str, object]:
    """Key and typed value of one `--set key=value`. Raises UsageError."""
    key, separator, value = text.partition("=")
    if not separator:
        raise UsageError("--set takes key=value, for example --set harness.max_turns=50.")
    return key.strip(), parse_value(key.strip(), value.strip())


def plain(value: object) -> object:
    """The value as TOML would hold it: dict, list, str, int, float, bool."""
    if isinstance(value, Node):
        return {name: plain(getattr(value, name)) for name in ordered_fields(type(value))}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def flatten(data: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Concrete keys and values of a raw document; tables that are values (such as env) stay whole."""
    leaves = {descriptor.key for descriptor in registry()}
    for name, value in data.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and generic_key(key) not in leaves:
            yield from flatten(cast("Mapping[str, object]", value), f"{key}.")
        else:
            yield key, value


def values_of(settings: Settings) -> dict[str, object]:
    """Every effective value by its concrete key, as plain TOML types, in the order of the tree."""
    return dict(flatten(cast("Mapping[str, object]", plain(settings))))


def render(value: object) -> str:
    """The value in TOML, on one line; characters that are not printable are escaped, so it is safe to show."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))  # As a person writes it; a setting that is a number takes both.
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return '"' + "".join(_escape(char) for char in value) + '"'
    if isinstance(value, Mapping):
        items = ", ".join(f"{_toml_key(str(name))} = {render(item)}" for name, item in value.items())
        return f"{{ {items} }}" if items else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(render(item) for item in value) + "]"
    raise TypeError(f"not a TOML value: {type(value).__name__}")


def _toml_key(name: str) -> str:
    return name if ID.fullmatch(name) else render(name)


def _escape(char: str) -> str:
    if char in '"\\' or (char < " " and char in "\b\t\n\f\r"):
        return json.dumps(char)[1:-1]
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


_EXAMPLES: Mapping[str, str] = {
    "integer": "a whole number, for example 30",
    "number": "a number, for example 0.5",
    "list of texts": 'a list, for example ["CARGO_HOME", "RUSTUP_HOME"]',
    "list of commands": 'a list of argument lists, for example [["cargo", "test"]]',
    "list of grants": 'a list of tables, for example [{ argv = ["cargo", "test"], cwd = "." }]',
    "table of texts": 'a table, for example { RUST_BACKTRACE = "1" }',
}


def _is_kind(value: object, kind: Kind) -> bool:
    match kind:
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "list of texts":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case "list of commands":
            return isinstance(value, list) and all(_is_kind(item, "list of texts") for item in value)
        case "list of grants":
            return isinstance(value, list) and all(isinstance(item, dict) for item in value)
        case _:
            return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def section_titles() -> dict[str, tuple[str, ...]]:
    """What each table is for, by its generic key; the two kinds of model entry share one table and have two lines."""
    found: dict[str, tuple[str, ...]] = {}
    for key, model in tables_of(Settings, ""):
        found[key] = (*found.get(key, ()), model.title)
    return found


def tables_of(model: type[Node], prefix: str) -> Iterator[tuple[str, type[Node]]]:
    """Every table within one, with its generic key."""
    for name in ordered_fields(model):
        children, step = _children(model.fields[name])
        for child in children:
            yield f"{prefix}{name}{step}", child
            yield from tables_of(child, f"{prefix}{name}{step}.")


# --- derivation from the model ----------------------------------------------------------------------------------


def settings_of(model: type[Node], prefix: str) -> Iterator[SettingDescriptor]:
    """Every setting within a table, with its generic key."""
    for name in ordered_fields(model):
        field = model.fields[name]
        children, step = _children(field)
        if not children or step == "[]":
            yield _descriptor(f"{prefix}{name}", field)
        if children:
            for child in children:
                yield from settings_of(child, f"{prefix}{name}{step}.")


def ordered_fields(model: type[Node]) -> list[str]:
    """The names of a table's settings in the order of the document: what it must say comes first."""
    return sorted(model.fields, key=lambda name: not model.fields[name].is_required)


def _children(field: Field) -> tuple[tuple[type[Node], ...], str]:
    """The tables behind a field and what stands between its name and theirs."""
    annotation = field.bare
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is dict:
        step, candidates = ".<id>", typing.get_args(args[1]) or (args[1],)
    elif origin is tuple:
        step, candidates = "[]", args[:1]
    else:
        step, candidates = "", (annotation,)
    members = [m for c in candidates for m in (typing.get_args(c) if typing.get_origin(c) is types.UnionType else (c,))]
    return tuple(m for m in members if isinstance(m, type) and issubclass(m, Node)), step


def _descriptor(key: str, field: Field) -> SettingDescriptor:
    kind, options = _kind(field.bare)
    default = field.initial()
    return SettingDescriptor(
        key=key,
        kind=kind,
        unit=field.notes["unit"],
        default=None if default is REQUIRED else plain(default),
        minimum=field.bounds.get("ge"),
        maximum=field.bounds.get("le"),
        options=options,
        description=field.description,
        privacy=cast("Privacy", field.notes["privacy"]),
        apply=cast("Apply", field.notes["apply"]),
    )


def _kind(annotation: Any) -> tuple[Kind, tuple[str, ...]]:
    simple: dict[Any, Kind] = {bool: "boolean", int: "integer", float: "number", str: "text"}
    if annotation in simple:
        return simple[annotation], ()
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        words = tuple(render(a) if isinstance(a, bool) else str(a) for a in args)
        kinds: dict[type, Kind] = {bool: "boolean", int: "integer"}
        return kinds.get(type(args[0]), "choice"), words
    if origin in (types.UnionType, typing.Union):
        words = tuple(w for arg in args for w in (("true", "false") if arg is bool else _kind(arg)[1]))
        return "choice", words
    if origin is dict:
        return "table of texts", ()
    if args[0] is str:
        return "list of texts", ()
    return ("list of grants" if isinstance(args[0], type) else "list of commands"), ()


def entry_name(text: str) -> str:
    """`text` when it can name a model or a pool. Raises ConfigError otherwise."""
    if not ID.fullmatch(text):
        raise ConfigError(f"{render(text)} cannot be a name; use letters, digits, - and _.")
    return text
