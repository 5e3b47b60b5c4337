"""Named tuples of our own making do what those of `typing` do."""

import copy
import pickle
from typing import Any
from typing import NamedTuple as TypingNamedTuple

import pytest

from fluzo.core.named import NamedTuple


class Point(NamedTuple):
    """A place."""

    x: int
    y: "int"
    label: str = ""

    @property
    def total(self) -> int:
        return self.x + self.y


class TypingPoint(TypingNamedTuple):
    """A place."""

    x: int
    y: "int"
    label: str = ""


class Nothing(NamedTuple):
    pass


def test_it_is_made_read_compared_and_changed_like_one_of_typing() -> None:
    ours, other = Point(1, y=2), TypingPoint(1, y=2)

    assert ours == other == (1, 2, "")
    assert (ours.x, ours.y, ours.label, ours.total) == (1, 2, "", 3)
    assert repr(ours) == repr(other).removeprefix("Typing")
    assert ours._asdict() == other._asdict()
    assert ours._replace(label="a") == (1, 2, "a")
    assert Point._make([1, 2, "b"]) == (1, 2, "b")
    assert hash(ours) == hash(other)
    assert Nothing() == ()
    match ours:
        case Point(x, y, label):
            assert (x, y, label) == ours


def test_its_class_says_what_that_of_typing_says() -> None:
    assert type(Point) is type(TypingPoint) is type
    for name in ("_fields", "_field_defaults", "__match_args__", "__doc__", "__module__", "__slots__"):
        assert getattr(Point, name) == getattr(TypingPoint, name)
    assert list(Point.__annotations__) == list(TypingPoint.__annotations__)


def test_it_survives_copies_and_pickles() -> None:
    point = Point(1, 2, "a")

    for again in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert again == point
        assert type(again) is Point


@pytest.mark.parametrize(
    ("given", "named"), [((), {}), ((1,), {}), ((1, 2, 3, 4), {}), ((1, 2), {"x": 1}), ((1, 2), {"z": 1})]
)
def test_wrong_arguments_are_refused_in_the_same_words(given: tuple[int, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as expected:
        TypingPoint(*given, **named)
    with pytest.raises(TypeError) as refused:
        Point(*given, **named)

    assert str(refused.value) == str(expected.value).removeprefix("Typing")


def test_it_cannot_be_changed_or_given_unknown_names() -> None:
    point = Point(1, 2)

    with pytest.raises(AttributeError):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        point.more = 3  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="more"):
        point._replace(more=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Point._make([1])


def test_a_field_with_a_default_before_one_without_is_refused() -> None:
    with pytest.raises(TypeError, match="default"):

        class Wrong(NamedTuple):
            x: int = 1
            y: int  # type: ignore[misc]
