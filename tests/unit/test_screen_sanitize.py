import random
import re
from pathlib import Path

import pytest
from prompt_toolkit.utils import get_cwidth

from fluzo.core.text import one_line
from fluzo.screens.sanitize import MAX_SEQUENCE, START, clean, scan, visible, visible_text
from fluzo.screens.text import cells, clusters, drawable, rows_of, shorten, shorten_path, wrap_line

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
CORPUS = {
    "osc 52": ("a\x1b]52;c;ZXZpbA==\x07b", "ab"),
    "osc 8": ("a\x1b]8;;file:///etc/passwd\x07link\x1b]8;;\x1b\\b", "alinkb"),
    "title": ("a\x1b]0;owned\x1b\\b", "ab"),
    "clear": ("a\x1b[2J\x1b[Hb", "ab"),
    "alternate screen": ("a\x1b[?1049lb", "ab"),
    "device control": ('a\x1bP1$q"p\x1b\\b', "ab"),
    "application command": ("a\x1b_apc\x1b\\b", "ab"),
    "c1 csi": ("a\x9b31mb", "ab"),
    "c1 osc": ("a\x9d0;title\x9cb", "ab"),
    "query": ("a\x1b[6nb", "ab"),
    "reset": ("a\x1bcb", "ab"),
    "bell and backspace": ("a\x07\x08b\x00", "ab"),
    "lone carriage return": ("safe\rEVIL", "safe\nEVIL"),
    "crlf": ("one\r\ntwo", "one\ntwo"),
    "character set": ("a\x1b(0b", "ab"),
    "bidi": ("a\u202eb\u2066c", "abc"),
    "undecodable": ("a\udcffb", "a\\xffb"),
    "unfinished string ends with its line": ("a\x1b]0;never\nb", "a\nb"),
    "unfinished sequence": ("a\x1b[31", "a"),
    "line separator": ("a\u2028b", "a\nb"),
}


@pytest.mark.parametrize("name", CORPUS)
def test_hostile_text_becomes_what_a_person_may_read(name: str) -> None:
    text, shown = CORPUS[name]

    assert clean(text) == shown


@pytest.mark.parametrize("name", CORPUS)
def test_a_text_cut_anywhere_is_sanitized_the_same(name: str) -> None:
    text, shown = CORPUS[name]

    for cut in range(len(text) + 1):
        first, carry = scan(text[:cut])
        second, carry = scan(text[cut:], carry)
        joined = "".join(part for _, part in [*first, *second])
        assert joined.rstrip("\n") == shown.rstrip("\n"), cut


def test_the_recorded_escapes_leave_no_control_byte() -> None:
    text = (CASES / "t03-escapes.bin").read_bytes().decode("utf-8", "surrogateescape")

    shown = clean(text)

    assert not CONTROL.search(shown)
    assert "ZXZpbA" not in shown
    assert "owned" not in shown
    assert "click" in shown


def test_a_sequence_that_never_ends_is_given_up_and_keeps_nothing() -> None:
    carry = START
    for _ in range(100):
        _, carry = scan("\x1b]0;" + "x" * 10_000, carry)
        assert len(carry.held) <= MAX_SEQUENCE

    runs, _ = scan("\x1b]0;" + "x" * (MAX_SEQUENCE + 10) + " seen again")
    assert "seen again" in "".join(part for _, part in runs)


def test_random_bytes_never_come_through_as_control() -> None:
    dice = random.Random(7)
    alphabet = "ab\x1b[]P;0mH\x07\x9b\x9c\x9d\r\n\x00\u202e\\?<38"
    for _ in range(2000):
        carry, shown = START, ""
        for _ in range(4):
            runs, carry = scan("".join(dice.choices(alphabet, k=12)), carry)
            shown += "".join(part for _, part in runs)
        assert not CONTROL.search(shown)
        assert not CONTROL.search(drawable(shown.replace("\n", " ")))


def test_colours_become_own_styles_and_everything_else_of_them_goes() -> None:
    runs, _ = scan("\x1b[1;31mred\x1b[0m plain \x1b[38;5;9mindexed\x1b[92mgreen", styled=True)

    assert runs == [("bold fg:ansired", "red"), ("", " plain "), ("", "indexed"), ("fg:ansibrightgreen", "green")]


def test_misleading_characters_of_a_path_are_spelt_out() -> None:
    assert visible_text("src/\u202egnp.exe") == "src/<U+202E>gnp.exe"
    assert visible_text("a\u200bb\x1b[2J\u00a0") == "a<U+200B>b<U+001B>[2J<U+00A0>"
    assert visible_text("données/測試.py") == "données/測試.py"
    assert ("class:danger.fg class:danger.bg", "<U+202E>") in visible("a\u202eb")


def test_a_row_and_a_card_spell_a_command_alike() -> None:
    for command in ("a\u202eb\x1b[2J", "caf\udce9", "zero\u200bwidth", "half \ud835", r"printf '\x1b[2J'"):
        assert visible_text(one_line(command)) == one_line(command) == visible_text(command)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (FAMILY, "\U0001f469"),
        ("\U0001f44d\U0001f3fd", "\U0001f44d"),
        ("\U0001f1e9\U0001f1ea", "DE"),
        ("\u26a0\ufe0f", "\u26a0"),
        ("e\u0301", "e\u0301"),
        ("測試", "測試"),
        ("a\tb", "a   b"),
        ("a\x1bb", "a\ufffdb"),
    ],
)
def test_what_terminals_measure_differently_is_drawn_by_its_base(text: str, shown: str) -> None:
    assert drawable(text) == shown
    assert cells(shown) == sum(get_cwidth(char) for char in shown)


def test_the_mixed_line_wraps_at_cells_and_loses_nothing() -> None:
    text = drawable("測試abc\uff0cé" + FAMILY + "漢字 and some words")

    for width in range(2, 30):
        rows = [text[start:end] for start, end in rows_of(text, width)]
        assert all(cells(row) <= width for row in rows), width
        assert "".join(rows).replace(" ", "") == text.replace(" ", "")


def test_random_unicode_rows_fit_their_width() -> None:
    dice = random.Random(3)
    pool = "abc de/f-g.h 測試漢字。、éñ\U0001f600\u0301\u200d\U0001f468\u202e"
    for _ in range(1500):
        text = drawable("".join(dice.choices(pool, k=dice.randint(0, 60))))
        width = dice.randint(4, 30)
        line = [("class:a", text[: len(text) // 2]), ("class:b", text[len(text) // 2 :])]
        rows = wrap_line(line, width, [("", "  ")])
        assert all(sum(cells(part) for _, part in row) <= width for row in rows)
        shown = "".join(part for row in rows for _, part in row)
        assert shown.replace(" ", "") == text.replace(" ", "")


def test_one_key_press_moves_over_one_character_as_people_see_it() -> None:
    assert clusters("a" + FAMILY + "é漢e\u0301\U0001f1e9\U0001f1ea") == [
        "a",
        FAMILY,
        "é",
        "漢",
        "e\u0301",
        "\U0001f1e9\U0001f1ea",
    ]


@pytest.mark.parametrize(
    ("path", "width", "shown"),
    [
        ("src/a/b/c/deep/round.py", 40, "src/a/b/c/deep/round.py"),
        ("src/a/b/c/deep/round.py", 19, "src/…/deep/round.py"),
        ("src/a/b/c/deep/round.py", 12, "…/round.py"),
    ],
)
def test_a_long_path_keeps_its_ends(path: str, width: int, shown: str) -> None:
    assert shorten_path(path, width) == shown


def test_shortened_text_never_exceeds_its_room() -> None:
    for width in range(0, 12):
        assert cells(shorten("漢字漢字漢字", width)) <= max(width, 0)
