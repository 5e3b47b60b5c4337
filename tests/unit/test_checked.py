"""Classes that pydantic's validator checks: what they accept, and what they tell of what they do not."""

from typing import Annotated, Any, ClassVar, Literal

import pytest

from fluzo.core.checked import REQUIRED, Checked, Tagged, Unfit, bounds, field, plain_values


class Circle(Checked):
    kind: Literal["circle"]
    radius: Annotated[float, bounds(gt=0)] = 1.0


class Square(Checked):
    kind: Literal["square"]
    side: int = field(REQUIRED, ge=1, le=9)


class Drawing(Checked):
    about: ClassVar[str] = "not a field"
    shapes: list[Annotated[Circle | Square, Tagged("kind")]] = field(factory=list)
    note: str | None = None


class Signed(Drawing):
    strict: ClassVar[bool] = True
    names: tuple[str, ...]


def problems(kind: type[Checked], value: object) -> list[tuple[Any, str]]:
    with pytest.raises(Unfit) as refused:
        kind.check(value)
    return [(problem["loc"], problem["type"]) for problem in refused.value.problems]


def test_what_was_not_given_gets_its_default() -> None:
    drawing = Drawing.check({"shapes": [{"kind": "circle"}, {"kind": "square", "side": 3}]})

    assert [type(shape) for shape in drawing.shapes] == [Circle, Square]
    assert plain_values(drawing) == {
        "shapes": [{"kind": "circle", "radius": 1.0}, {"kind": "square", "side": 3}],
        "note": None,
    }
    assert Drawing.of_defaults() == Drawing.check({})


def test_everything_wrong_is_told_at_once_and_by_its_place() -> None:
    value = {"shapes": [{"kind": "circle", "radius": 0}, {"kind": "square", "side": 10}, {"kind": "?"}], "size": 1}

    assert problems(Drawing, value) == [
        (("shapes", 0, "circle", "radius"), "greater_than"),
        (("shapes", 1, "square", "side"), "less_than_equal"),
        (("shapes", 2), "union_tag_invalid"),
        (("size",), "extra_forbidden"),
    ]
    assert problems(Square, {}) == [(("kind",), "missing"), (("side",), "missing")]


def test_a_strict_class_takes_exactly_the_declared_types() -> None:
    assert Drawing.check({"shapes": [{"kind": "square", "side": "3"}]}).shapes[0] == Square.check(
        {"kind": "square", "side": 3}
    )
    assert problems(Signed, {"names": ["Ada"]}) == [(("names",), "tuple_type")]


def test_a_class_has_the_fields_of_its_base_first() -> None:
    assert list(Signed.fields) == ["shapes", "note", "names"]
    assert [name for name, told in Signed.fields.items() if told.is_required] == ["names"]


def test_an_object_never_changes() -> None:
    circle = Circle.check({"kind": "circle"})

    with pytest.raises(AttributeError, match="frozen"):
        circle.radius = 2.0


def test_the_text_of_the_error_never_holds_the_value() -> None:
    with pytest.raises(Unfit) as refused:
        Square.check({"kind": "square", "side": "sk-secret"})

    assert "sk-secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
