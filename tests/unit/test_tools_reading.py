import pytest

from fluzo.core.errors import ToolError
from fluzo.core.records import FileVersion
from fluzo.tools import reading


def read(data, offset=1, limit=None, max_bytes=65_536, complete=True):
    return reading.page(data, complete=complete, offset=offset, limit=limit, max_bytes=max_bytes)


def test_lines_are_numbered_and_end_at_lf_only():
    page = read("a\x0cb\nc\u2028d\ne".encode())
    assert page.text == "1\ta\x0cb\n2\tc\u2028d\n3\te\n[no newline at the end]"
    assert page.total == 3


def test_a_plain_file_has_no_notes():
    assert read(b"a\n\nb\n").text == "1\ta\n2\t\n3\tb"


def test_an_empty_file_is_called_empty():
    assert read(b"").text == "[empty file]"
    assert read(b"\n").text == "1\t"


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"a\r\nb\r\n", "[CRLF line ends]"),
        (b"a\r\nb", "[CRLF line ends; no newline at the end]"),
        (b"a\r\nb\n", "[mixed CRLF and LF line ends]"),
        (b"\xef\xbb\xbfa\n", "[starts with a BOM]"),
    ],
)
def test_what_text_cannot_show_is_noted(data, note):
    text = read(data).text
    assert text.endswith(note)
    assert "\r" not in text
    assert "\ufeff" not in text


def test_bytes_that_are_no_text_are_shown_as_escapes():
    text = read(b"caf\xe9\n").text
    assert text.startswith("1\tcaf\\xe9\n[bytes that are not UTF-8")


def test_surrogates_in_utf8_form_stay_out_of_the_result():
    text = read(b"\xed\xb3\xa9\n").text
    assert not any("\ud800" <= char <= "\udfff" for char in text)


def test_a_long_file_comes_in_pages_that_join_without_a_gap():
    data = b"".join(b"line %d\n" % n for n in range(1, 2001))
    seen, offset = [], 1
    while True:
        page = read(data, offset=offset, max_bytes=4_000)
        assert len(page.text.encode()) <= 4_000
        seen += [line for line in page.text.split("\n") if not line.startswith("[")]
        if page.last == page.total:
            break
        assert f"[lines {offset}-{page.last} of 2000; continue with offset={page.last + 1}]" in page.text
        offset = page.last + 1
    assert seen == [f"{n}\tline {n}" for n in range(1, 2001)]


def test_a_limit_ends_the_page():
    assert read(b"a\nb\nc\n", offset=2, limit=1).text == "2\tb\n[lines 2-2 of 3; continue with offset=3]"


def test_a_page_always_has_at_least_one_line():
    assert read(b"x" * 3000 + b"\n", max_bytes=500).text.startswith("1\txxx")


def test_a_very_long_line_is_cut_and_says_so():
    text = read(b"x" * 250_000 + b"\nend\n").text
    assert "[... 246000 characters more]" in text
    assert text.endswith("\n2\tend")


def test_an_offset_past_the_end_names_the_length():
    with pytest.raises(ToolError, match="the file has 2 lines"):
        read(b"a\nb\n", offset=3)


def test_the_head_of_a_huge_file_shows_no_half_line():
    page = read(b"a\nb\nhalf of a", complete=False)
    assert page.text.startswith("1\ta\n2\tb\n[only the first 13 bytes")
    assert page.total == 0


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"\x7fELF\x02\0", "an ELF program"), (b"\xff\xfea\0", "UTF-16 text"), (b"a\0b", "binary")],
)
def test_binary_content_is_refused_by_kind_and_size(data, kind):
    with pytest.raises(ToolError) as caught:
        reading.refuse_binary("x.bin", data, FileVersion("d", 4711))
    assert caught.value.code == "binary_file"
    assert f"x.bin is {kind} of 4711 bytes" in caught.value.message
