import json
from pathlib import Path

import pytest

from fluzo.core.errors import ToolError
from fluzo.tools.edits import Edit, apply_edit

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
CHANGED = [json.loads(path.read_text()) for path in sorted(CASES.glob("e*.json")) if path.with_suffix(".out").exists()]
REFUSED = {"e10-drifted-block": "text_not_found", "e14-not-unique": "text_not_unique"}


def edit(old, new, replace_all=False):
    return Edit(old, new, replace_all)


def refusal(data, *args):
    with pytest.raises(ToolError) as caught:
        apply_edit(data, edit(*args))
    return caught.value


@pytest.mark.parametrize("case", CHANGED, ids=lambda case: case["name"])
def test_the_file_after_an_edit_is_right_byte_for_byte(case):
    data = (CASES / case["file"]).read_bytes()
    assert apply_edit(data, Edit(**case["edit"])) == (CASES / case["expect"]["file_after"]).read_bytes()


@pytest.mark.parametrize("name", REFUSED)
def test_a_drifted_or_ambiguous_edit_is_refused(name):
    case = json.loads((CASES / f"{name}.json").read_text())
    assert refusal((CASES / case["file"]).read_bytes(), *case["edit"].values()).code == REFUSED[name]


def test_a_drifted_block_shows_the_nearest_lines():
    case = json.loads((CASES / "e10-drifted-block.json").read_text())
    message = refusal((CASES / case["file"]).read_bytes(), *case["edit"].values()).message
    assert "not found" in message
    assert "\n3\t\ty := 2\n" in message


def test_an_ambiguous_edit_says_how_often_and_where():
    message = refusal(b"x = 0\ny = 1\nx = 0\nz = 2\nx = 0\n", "x = 0", "x = 5").message
    assert "3 times" in message
    assert "lines 1, 3, 5" in message
    assert "replace_all" in message


def test_replace_all_replaces_every_occurrence():
    assert apply_edit(b"x = 0\ny\nx = 0\n", edit("x = 0", "x = 0.0", True)) == b"x = 0.0\ny\nx = 0.0\n"


def test_overlapping_occurrences_are_not_unique():
    assert refusal(b"abababX", "abab", "c").code == "text_not_unique"
    assert apply_edit(b"ababab", edit("abab", "c", True)) == b"cab"


@pytest.mark.parametrize(("old", "code"), [("", "tool_arguments"), ("x", "no_change")])
def test_an_edit_that_says_nothing_is_refused(old, code):
    error = refusal(b"x\n", old, "x")
    assert error.code == code
    assert code != "no_change" or "no change" in error.message


def test_an_edit_that_leaves_the_file_as_it_is_is_no_change():
    assert refusal(b"a\r\nb\r\n", "a\r\nb", "a\nb").code == "no_change"


@pytest.mark.parametrize(
    ("data", "old", "new", "after"),
    [
        (b"a\r\nb\r\n", "\nb", "\nc\nb", b"a\r\nc\r\nb\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"a\r\nb\r\n", "a\r\nb\r\n", "x\r\ny\r\n", b"x\r\ny\r\n"),
        (b"a\nb\r\nc\n", "a", "a\nz", b"a\nz\nb\r\nc\n"),
        (b"a\nb\r\nc\n", "b\n", "b\nz\n", b"a\nb\r\nz\r\nc\n"),
        (b"x\ny\nx\r\ny\r\n", "x\ny\n", "z\n", b"z\nx\r\ny\r\n"),
        (b"a\nb\n", "a\r\nb\r\n", "c\r\nd\r\n", b"c\nd\n"),
        (b"a\nb\n", "a\nb\n", "a\r\nb\r\n", b"a\r\nb\r\n"),
        (b"a", "a", "b\nc", b"b\nc"),
        (b"a\r\nb\r\n", "a\n", "", b"b\r\n"),
    ],
)
def test_an_edit_keeps_the_line_ends_of_its_place(data, old, new, after):
    assert apply_edit(data, edit(old, new)) == after


def test_form_feeds_and_unicode_separators_end_no_line():
    data = "a\x0cb\nc\u2028d\ne\n".encode()
    assert apply_edit(data, edit("c\u2028d\ne", "f")) == b"a\x0cb\nf\n"
    assert "3\te" in refusal(data, "e\nX", "f").message


def test_numbers_copied_from_a_listing_are_recognised():
    assert "line numbers" in refusal(b"a\nb\n", "1\ta\n2\tb", "c").message


def test_a_match_that_differs_only_in_blanks_is_named_as_such():
    assert "differ only in blanks" in refusal(b"\tif x:\n\t\treturn 1\n", "    if x:\n        return 1\n", "y").message


def test_the_closest_line_is_shown_when_none_is_equal():
    assert (
        "2\tdef merge(intervals):"
        in refusal(b"import os\ndef merge(intervals):\n    pass\n", "def merge(interval):", "x").message
    )


def test_a_hint_stays_small_for_long_texts_and_lines():
    data = b"".join(b"line %d %s\n" % (n, b"x" * 1000) for n in range(3000))
    old = "".join(f"line {n} {'x' * 1000}\n" for n in range(1000)) + "not there\n"
    message = refusal(data, old, "").message
    assert "line 0" in message
    assert len(message) < 4_000


def test_a_missing_text_in_a_file_without_likeness_asks_for_another_read():
    assert "read the file again" in refusal(b"", "something", "x").message


def test_half_a_character_in_an_edit_is_refused():
    assert refusal(b"a", "a", "\ud835").code == "tool_arguments"
    assert "old_text" in refusal(b"a", "\ud835", "a").message
