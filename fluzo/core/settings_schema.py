"""The JSON Schema of `.fluzo` (draft 2020-12), for editors. Rules between settings are checked by Fluzo alone.

Invariant: it is derived from `settings_model`; unit, privacy and apply rule of a setting stand beside its type.
"""

import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from fluzo.core.checked import Field, Tagged
from fluzo.core.settings_model import Node, Settings

_NAMES: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_BOUNDS = {"ge": "minimum", "le": "maximum"}


def json_schema() -> dict[str, object]:
    """The schema of the whole document."""
    tables: dict[str, object] = {}
    whole = _table(Settings, tables)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": dict(sorted(tables.items())),
        **whole,
        "title": "Fluzo settings",
    }


def _table(kind: type[Node], tables: dict[str, object]) -> dict[str, object]:
    required = [name for name, field in kind.fields.items() if field.is_required]
    return {
        "additionalProperties": False,
        "properties": {name: _setting(field, tables) for name, field in kind.fields.items()},
        **({"required": required} if required else {}),
        "title": kind.__name__,
        **({"description": kind.title} if kind.title else {}),
        "type": "object",
    }


def _setting(field: Field, tables: dict[str, object]) -> dict[str, object]:
    schema = _type(field.annotation, tables) | {_BOUNDS[name]: bound for name, bound in field.bounds.items()}
    if field.notes:
        schema |= {"description": field.description, **field.notes}
    if not field.is_required and field.factory is None:
        schema["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
    return schema


def _type(annotation: Any, tables: dict[str, object]) -> dict[str, object]:
    if annotation in _NAMES:
        return {"type": _NAMES[annotation]}
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is None:
        tables[annotation.__name__] = _table(annotation, tables)
        return {"$ref": f"#/$defs/{annotation.__name__}"}
    if origin is Annotated:
        schema = _type(parts[0], tables)
        tag = next((rule.name for rule in parts[1:] if isinstance(rule, Tagged)), "")
        return {"oneOf": schema["anyOf"], "discriminator": {"propertyName": tag}} if tag else schema
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_type(part, tables) for part in parts]}
    return _generic(origin, parts, tables)


def _generic(origin: Any, parts: tuple[Any, ...], tables: dict[str, object]) -> dict[str, object]:
    if origin is Literal:
        return {"enum": list(parts), "type": _NAMES[type(parts[0])]}
    if origin is dict:
        return {"additionalProperties": _type(parts[1], tables), "type": "object"}
    return {"items": _type(parts[0], tables), "type": "array"}
