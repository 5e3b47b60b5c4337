import subprocess

from fluzo.tools.diff import MAX_DIFF_CHARACTERS, unified


def test_a_small_change_reads_like_a_patch():
    before = b"".join(b"line %d\n" % n for n in range(1, 101))
    change = unified("src/a.py", before, before.replace(b"line 50\n", b"fifty\n"))
    assert (change.added, change.removed) == (1, 1)
    assert change.text == (
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -47,7 +47,7 @@\n line 47\n line 48\n line 49\n-line 50\n+fifty\n"
        " line 51\n line 52\n line 53\n"
    )


def test_git_applies_the_patch(tmp_path):
    before = b"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\no\np"
    after = b"A\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nnew\nn\no\np\n"
    (tmp_path / "f").write_bytes(before)
    patch = unified("f", before, after).text
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=patch.encode(), check=True)
    assert (tmp_path / "f").read_bytes() == after


def test_new_and_deleted_files_name_the_null_device():
    assert unified("f", None, b"a\n").text == "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"
    gone = unified("f", b"a\nb\n", None)
    assert (gone.removed, gone.added) == (2, 0)
    assert gone.text == "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"


def test_the_cr_of_crlf_files_is_no_noise_but_a_change_of_line_ends_shows():
    assert "\r" not in unified("f", b"a\r\nb\r\n", b"a\r\nc\r\n").text
    assert unified("f", b"a\r\n", b"a\n").text.endswith("-a\r\n+a\n")


def test_a_byte_and_its_escape_are_not_the_same_line():
    change = unified("f", b"caf\xe9\n", b"caf\\xe9\n")
    assert (change.added, change.removed) == (1, 1)


def test_binary_content_is_told_apart_by_digest():
    one, other = unified("f", None, b"\0a").text, unified("f", None, b"\0b").text
    assert "binary" in one
    assert one != other


def test_a_huge_change_is_bounded_and_still_told_apart():
    before = b"".join(b"%d\n" % n for n in range(200_000))
    one = unified("f", before, before.replace(b"1", b"x") + b"end\n")
    other = unified("f", before, before.replace(b"1", b"x") + b"END\n")
    assert len(one.text) < MAX_DIFF_CHARACTERS + 200
    assert one.text != other.text


def test_the_counts_of_a_file_without_change_are_zero():
    change = unified("f", b"a\n", b"a\n")
    assert (change.added, change.removed) == (0, 0)
