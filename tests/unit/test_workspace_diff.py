"""Unified diffs and bounded captures as pure functions."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluzo.workspace.capture import Capture
from fluzo.workspace.diff import MAX_COMPARED_LINES, compare

TEXTS = st.lists(st.sampled_from(["a", "b", "c\r", "", "d\x0cd", "e\u2028"]), max_size=12).map("\n".join)


@settings(max_examples=60, deadline=None)
@given(before=TEXTS, after=TEXTS)
def test_a_diff_applied_to_the_old_text_gives_the_new_one(
    before: str, after: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    old, new = before.encode(), after.encode()
    difference = compare("f", old, new)
    folder = tmp_path_factory.mktemp("diff")
    Path(folder / "f").write_bytes(old)
    if difference.lines_added or difference.lines_removed:
        command = ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"]
        subprocess.run(command, cwd=folder, input=difference.text.encode(), check=True, capture_output=True)
    assert Path(folder / "f").read_bytes() == new


def test_lines_end_at_a_line_feed_and_nowhere_else() -> None:
    difference = compare("f", "a\x0cb\nc\u2028d\ne\n".encode(), "a\x0cb\nc\u2028D\ne\n".encode())
    assert (difference.lines_added, difference.lines_removed) == (1, 1)


def test_undecodable_bytes_stay_in_the_text_as_surrogates() -> None:
    assert "+caf\udce9\n" in compare("f", b"", b"caf\xe9\n").text


def test_a_very_long_rewrite_is_one_replacement() -> None:
    size = MAX_COMPARED_LINES + 1
    before = b"same\n" + b"".join(b"a%d\n" % n for n in range(size)) + b"end\n"
    after = b"same\n" + b"".join(b"b%d\n" % n for n in range(size)) + b"end\n"
    difference = compare("f", before, after)
    assert (difference.lines_added, difference.lines_removed) == (size, size)
    assert difference.text.count("@@ -") == 1


def test_an_empty_file_that_appears_or_goes_is_a_header_alone() -> None:
    assert compare("f", None, b"", ("000000", "100644")).text == "diff --git a/f b/f\nnew file mode 100644\n"
    assert compare("f", b"", None, ("100755", "000000")).text == "diff --git a/f b/f\ndeleted file mode 100755\n"


@given(chunks=st.lists(st.binary(max_size=40), max_size=30), limit=st.integers(2, 60))
def test_a_capture_keeps_head_and_tail_and_counts_the_rest(chunks: list[bytes], limit: int) -> None:
    capture, whole = Capture(limit), b"".join(chunks)
    for chunk in chunks:
        capture.add(chunk)
    assert capture.total == len(whole)
    assert capture.truncated == (len(whole) > limit)
    if not capture.truncated:
        assert capture.text() == whole
        return
    head, tail = limit // 2, limit - limit // 2
    note = b"\n[... %d bytes omitted ...]\n" % (len(whole) - limit)
    assert capture.text() == whole[:head] + note + whole[len(whole) - tail :]
