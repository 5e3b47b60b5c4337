import json
from pathlib import Path

import pytest

from fluzo.core.text import clean_output, cut_middle, one_line, refused, shown_name, visible, well_formed

CASES = Path(__file__).parents[2] / "fixtures" / "cases"


def test_binary_output_becomes_readable_text():
    text = clean_output((CASES / "s12-binary-output.bin").read_bytes())
    assert text == "start\n\\xff\\xfe\\x00\\x01 caf\\xe9 red link 100%\nend without newline"


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"Fetching 1/9\rFetching 2/9\rFetching 9/9\n", "Fetching 9/9\n"),
        (b"[=>  ] building\r[===>] done\r\n", "[===>] done\n"),
        (b"waiting\rfinished   \n", "finished\n"),
        (b"50%\r\r\n", "50%\n"),
        (b"kept\r", "kept"),
        (b"bold: a\x08a\n", "bold: a\n"),
        (b"\x08\x08x", "x"),
    ],
)
def test_redrawn_lines_keep_their_last_state(raw, clean):
    assert clean_output(raw) == clean


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (b"\x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3mrgb", "red rgb"),
        (b"\x1b]52;c;aGk=\x07after", "after"),
        (b"\x1b]0;title\x1b\\after", "after"),
        (b"\x1b]0;never ends\nnext line", "\nnext line"),
        (b"\x1bPq#0;2\x1b\\after \x1b_app\x1b\\x", "after x"),
        ("\x9b31mC1 form".encode(), "C1 form"),
        (b"\x1b(Bcharset \x1b7saved", "charset saved"),
        (b"lone \x1b", "lone "),
        ("👩‍👩‍👧 测试 é".encode(), "👩‍👩‍👧 测试 é"),
        (b"bell\x07 tab\t nul\x00 ff\x0c", "bell\\x07 tab\t nul\\x00 ff\\x0c"),
        (b"", ""),
    ],
)
def test_escape_sequences_go_and_text_stays(raw, clean):
    assert clean_output(raw) == clean


def test_a_megabyte_of_progress_is_folded_to_one_line():
    raw = b"log line " + b"\r".join(b"%d of 100000" % n for n in range(100_001)) + b"\n"
    assert clean_output(raw) == "log line 100000 of 100000\n"


def test_visible_text_drops_nothing():
    assert visible(b"+\x1b[0m\r\n-\xe9\x00") == "+\\x1b[0m\n-\\xe9\\x00"


def test_lone_surrogates_and_nul_become_escapes():
    text = well_formed("caf\udce9 \ud835 \x00 \u2028 é")
    assert text == "caf\\xe9 \\ud835 \\x00 \u2028 é"
    assert json.dumps(text, ensure_ascii=False).encode()


def test_a_long_text_keeps_start_and_end_and_says_what_is_missing():
    lines = [f"line {n}" for n in range(10_000)]
    text = cut_middle("\n".join(lines), 2_000)
    assert len(text.encode()) <= 2_000
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("line 9998\nline 9999")
    start, marker, end = (part for part in text.partition(f"... {_omitted(text, lines)} bytes omitted ..."))
    assert marker
    assert all(line in lines for line in (*start.split("\n")[:-1], *end.split("\n")[1:]))


def _omitted(text, lines):
    shown = sum(len(line) + 1 for line in text.split("\n") if " omitted " not in line) - 1
    return len("\n".join(lines)) - shown


def test_a_cut_never_splits_a_character_and_counts_what_was_lost_before():
    for shift in ("", "x"):
        text = cut_middle(shift + "é" * 5_000 + shift, 1_000, omitted_before=70)
        assert set(text) - set("xé\n. ") <= set("bytes omitted0123456789")
        kept = text.count("é") * 2 + 2 * len(shift)
        omitted = int(text.split("... ")[1].split()[0])
        total = 10_070 + 2 * len(shift)
        assert total - kept - 4 <= omitted <= total - kept


def test_a_short_text_is_left_alone():
    assert cut_middle("abc", 3, omitted_before=9) == "abc"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("src/interval.rs", "src/interval.rs"),
        ("测试.txt", "测试.txt"),
        ("a b.txt", "a b.txt"),
        ('q"t.txt', 'q"t.txt'),
        ("n\nl.txt", '"n\\nl.txt"'),
        ("caf\udce9", '"caf\\udce9"'),
        ("evil\u202ecod.exe", '"evil\\u202ecod.exe"'),
        (" blank", '" blank"'),
    ],
)
def test_a_misleading_name_is_quoted_so_that_it_can_be_sent_back(name, shown):
    assert shown_name(name) == shown
    assert shown == name or json.loads(shown) == name


def test_one_line_is_short_and_harmless():
    assert one_line("first\x1b[0m\nsecond") == "first<U+001B>[0m ..."
    assert one_line("x" * 500, 20) == "x" * 16 + " ..."
    assert one_line("plain") == "plain"


def test_a_refusal_names_the_cause_and_the_next_step():
    assert refused("stale_file", "a.py has changed since it was read").text == (
        "error: a.py has changed since it was read. "
        "Read the file again, then repeat the change against what it says now."
    )
    result = refused("cancelled", "")
    assert (result.ok, result.code) == (False, "cancelled")
    assert "interrupted" in result.text
    assert refused("tool_failed", "half \ud835").text == "error: half \\ud835."
