"""Classes whose fields pydantic's validator checks: the tables of settings and the arguments of tools.

A class lists its fields as annotations. Invariant: an object comes whole out of the validator or is made of nothing but
defaults, and no field is set afterwards.

The validator is pydantic-core, told what to check by the schemas of its documentation
(https://docs.pydantic.dev/latest/api/pydantic_core_schema/). pydantic's own model classes tell it the same; loading and
building them is a third of what a short run does, and nothing here needs what else they can.
"""

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast, get_args, get_origin

from pydantic_core import SchemaValidator, ValidationError

from fluzo.core.named import NamedTuple

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

REQUIRED: Any = ...
"""Stands for the default of a field that must be given."""


class Field(NamedTuple):
    """One field: its annotation, its default or what makes it, and bounds and notes for whoever describes it.

    `bounds` are constraints of pydantic-core (`ge`, `min_length`, ...); `notes` are the owner's own.
    """

    annotation: Any = None
    default: Any = REQUIRED
    factory: Callable[[], Any] | None = None
    description: str = ""
    bounds: Mapping[str, Any] = {}
    notes: Mapping[str, str] = {}

    @property
    def bare(self) -> Any:
        """The annotation without what Annotated adds."""
        return get_args(self.annotation)[0] if get_origin(self.annotation) is Annotated else self.annotation

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED and self.factory is None

    def initial(self) -> Any:
        """The value of a field that was not given; REQUIRED where there is none."""
        return self.factory() if self.factory is not None else self.default


def field(
    default: Any = REQUIRED,
    description: str = "",
    *,
    factory: Callable[[], Any] | None = None,
    notes: Mapping[str, str] | None = None,
    **bounds: Any,
) -> Any:
    """What stands behind the annotation of a field. A bound that is None is none."""
    found = {name: bound for name, bound in bounds.items() if bound is not None}
    return Field(None, default, factory, description, found, notes or {})


class Bounds(NamedTuple):
    """For `Annotated`: constraints of pydantic-core, as names and values."""

    items: tuple[tuple[str, Any], ...]


def bounds(**constraints: Any) -> Bounds:
    return Bounds(tuple(constraints.items()))


class Tagged(NamedTuple):
    """For `Annotated[A | B, Tagged("kind")]`: the literal of that field decides which class a value is of."""

    name: str


class Unfit(Exception):
    """A value that is not what it should be.

    Each of `problems` has `loc`, `type`, `msg` and the `input` found there, in the words of pydantic
    (https://docs.pydantic.dev/latest/errors/validation_errors/).
    """

    def __init__(self, problems: list[Any]) -> None:
        super().__init__(f"{len(problems)} problems")  # Never the input, which may hold a secret.
        self.problems = problems


class Checked:
    """Base of such classes. `strict` takes values of exactly the declared types, where Annotated does not say else."""

    __slots__ = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")

    fields: ClassVar[Mapping[str, Field]] = {}
    strict: ClassVar[bool] = False
    validator: ClassVar[SchemaValidator | None] = None
    """Built by the first check: most tools are never called."""

    def __init_subclass__(cls) -> None:
        own = {}
        for name, annotation in inspect.get_annotations(cls).items():
            origin: Any = get_origin(annotation)
            if origin is ClassVar:
                continue
            given = cls.__dict__.get(name, REQUIRED)
            if given is not REQUIRED:
                delattr(cls, name)
            told = given if isinstance(given, Field) else Field(default=given)
            own[name] = told._replace(annotation=annotation)
        cls.fields = {**cls.fields, **own}
        cls.validator = None

    @classmethod
    def check(cls, value: object) -> Self:
        """The object that a mapping means. Raises Unfit with everything that is wrong."""
        if cls.validator is None:
            cls.validator = SchemaValidator(cast("CoreSchema", _class_schema(cls)))
        try:
            made: Self = cls.validator.validate_python(value)
        except ValidationError as exc:
            problems = exc.errors(include_url=False, include_context=False)
        else:
            return made
        raise Unfit(problems)

    @classmethod
    def of_defaults(cls) -> Self:
        made = cls.__new__(cls)
        vars(made).update((name, told.initial()) for name, told in cls.fields.items())
        return made

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def plain_values(value: object) -> Any:
    """The same with dicts in place of the objects of checked classes."""
    if isinstance(value, Checked):
        return {name: plain_values(item) for name, item in vars(value).items()}
    if isinstance(value, list):
        return [plain_values(item) for item in value]
    return value


# --- schemas of pydantic-core -----------------------------------------------------------------------------------

_PLAIN: Mapping[Any, str] = {str: "str", int: "int", float: "float", bool: "bool"}


def _class_schema(kind: type[Checked]) -> dict[str, Any]:
    fields = {name: {"type": "model-field", "schema": _field_schema(told)} for name, told in kind.fields.items()}
    config = {
        "title": kind.__name__,
        "extra_fields_behavior": "forbid",
        "strict": kind.strict,
        "hide_input_in_errors": True,
    }
    schema = {"type": "model-fields", "fields": fields, "model_name": kind.__name__}
    return {"type": "model", "cls": kind, "schema": schema, "config": config}


def _field_schema(told: Field) -> dict[str, Any]:
    schema = {**_schema(told.annotation), **told.bounds}
    if told.is_required:
        return schema
    default = {"default": told.default} if told.factory is None else {"default_factory": told.factory}
    return {"type": "default", "schema": schema, **default}


def _schema(annotation: Any) -> dict[str, Any]:
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is None:
        return _class_schema(annotation)
    if origin is Annotated:
        return _ruled(parts[0], parts[1:])
    if origin in (types.UnionType, typing.Union):
        return _union(parts)
    return _generic(origin, parts)


def _generic(origin: Any, parts: tuple[Any, ...]) -> dict[str, Any]:
    if origin is Literal:
        return {"type": "literal", "expected": list(parts)}
    if origin is dict:
        return {"type": "dict", "keys_schema": _schema(parts[0]), "values_schema": _schema(parts[1])}
    if origin is list:
        return {"type": "list", "items_schema": _schema(parts[0])}
    # A tuple of any length, the only kind that is declared.
    return {"type": "tuple", "items_schema": [_schema(parts[0])], "variadic_item_index": 0}


def _union(parts: tuple[Any, ...]) -> dict[str, Any]:
    choices = [_schema(part) for part in parts if part is not types.NoneType]
    schema = choices[0] if len(choices) == 1 else {"type": "union", "choices": choices}
    return {"type": "nullable", "schema": schema} if types.NoneType in parts else schema


def _ruled(annotation: Any, rules: tuple[Any, ...]) -> dict[str, Any]:
    """The schema of an annotation with its bounds, a function that goes before, or the tag of a union."""
    schema = {} if isinstance(rules[0], Tagged) else _schema(annotation)
    for rule in rules:
        if isinstance(rule, Tagged):
            kinds = {tag: kind for kind in get_args(annotation) for tag in get_args(kind.fields[rule.name].annotation)}
            choices = {tag: _class_schema(kind) for tag, kind in kinds.items()}
            schema = {"type": "tagged-union", "discriminator": rule.name, "choices": choices}
        elif isinstance(rule, Bounds):
            schema = {**schema, **dict(rule.items)}
        else:
            schema = {"type": "function-before", "function": {"type": "no-info", "function": rule}, "schema": schema}
    return schema
