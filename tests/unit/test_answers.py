import pytest

from fluzo.core.answers import Typed, read_answer, told


@pytest.mark.parametrize(
    ("typed", "several", "wanted"),
    [
        ("2", False, Typed((2,))),
        (" 2 ", True, Typed((2,))),
        ("3,1", True, Typed((1, 3))),
        ("1, 3 3;1,", True, Typed((1, 3))),
        ("both of them", True, Typed(words="both of them")),
        ("1 and 3", True, Typed(words="1 and 3")),
        ("15", False, Typed(words="15")),
        ("99999999999", True, Typed(words="99999999999")),
        ("  ", True, Typed()),
    ],
)
def test_numbers_are_choices_where_each_of_them_is_one_and_anything_else_is_words(
    typed: str, several: bool, wanted: Typed
) -> None:
    assert read_answer(typed, 3, several=several) == wanted


def test_without_choices_a_number_is_words() -> None:
    assert read_answer("2", 0, several=True) == Typed(words="2")


@pytest.mark.parametrize(
    ("typed", "several", "said"), [("1,4", True, "no choice 4"), ("0", True, "no choice 0"), ("1,2", False, "Only one")]
)
def test_a_number_that_cannot_be_meant_is_told_with_what_can_be(typed: str, several: bool, said: str) -> None:
    found = read_answer(typed, 3, several=several)
    assert said in found.problem and "words" in found.problem
    assert (found.chosen, found.words) == ((), "")


def test_an_answer_is_told_a_choice_a_row_and_then_the_words() -> None:
    assert told("and more", ("a, b", "c")) == "a, b\nc\nand more"
    assert told("", ("a",)) == "a"
