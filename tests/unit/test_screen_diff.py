import os
import random
from pathlib import Path
from typing import Any

import pytest

from fluzo.screens.diff_about import file_rows, own_paths, side_rows, warnings_of
from fluzo.screens.diff_rows import Look, Rows, fits_split, half_of, lay
from fluzo.screens.diff_text import File, carried, changed_spans, files_of, hunks_of, pairs_of, patch
from fluzo.screens.state import State
from fluzo.screens.text import Line, cells
from fluzo.screens.unchanged import unchanged_lines
from fluzo.workspace.diff import compare, header

DIFF = """diff --git a/x b/y.py b/x b/y.py
--- a/x b/y.py
+++ b/x b/y.py
@@ -3,3 +3,4 @@
 same
--- a/fake
+++ b/fake
+diff --git a/q b/q
 tab\there
diff --git a/old.py b/old.py
deleted file mode 100644
@@ -1 +0,0 @@
-gone\x1b[2J\u202e
"""
CHANGES = (
    {"path": "x b/y.py", "status": "modified", "added": 2, "removed": 1, "preexisting": True},
    {"path": "old.py", "status": "deleted", "added": 0, "removed": 1, "preexisting": False},
)
UNIFIED, SPLIT = Look(80, False, False, 0), Look(120, True, False, 0)


def text(line: Line) -> str:
    return "".join(part for _, part in line)


def texts(rows: Rows) -> list[str]:
    return [text(line).rstrip() for line in rows]


def laid(file: File, look: Look, unfolded: dict[int, list[str]] | None = None) -> Rows:
    return lay(hunks_of(file.lines), file.notes, (), unfolded or {}, look)


def diff_of(before: str, after: str, path: str = "a.py") -> File:
    found = compare(path, before.encode(), after.encode(), ("100644", "100644")).text
    return files_of(found, [{"path": path, "status": "modified"}])[0]


def test_a_diff_has_line_numbers_and_a_line_of_a_file_is_never_taken_for_a_header() -> None:
    one, two = files_of(DIFF, CHANGES)
    assert (one.path, one.yours, one.added, two.path, two.yours) == ("x b/y.py", True, 2, "old.py", False)
    assert texts(laid(one, UNIFIED)) == [
        "  : 2 unchanged lines  (Enter shows them)",
        "> @@ -3,3 +3,4 @@",
        "    3    3   same",
        "    4      - -- a/fake",
        "         4 + ++ b/fake",
        "         5 + diff --git a/q b/q",
        "    5    6   tab here",
    ]
    assert texts(laid(two, UNIFIED)) == [
        "deleted",
        "> @@ -1 +0,0 @@",
        "    1      - gone<U+001B>[2J<U+202E>",
    ]


def test_the_halves_of_a_split_stand_beside_each_other() -> None:
    rows = laid(diff_of("a\nb\nc\nd\n", "a\nB\nX\nc\n"), SPLIT)
    half = half_of(120)
    pairs = [(text(line)[:half].rstrip(), text(line)[half + 1 :].rstrip()) for line in rows[1:]]
    assert pairs == [
        ("    1   a", "    1   a"),
        ("    2 - b", "    2 + B"),
        ("", "    3 + X"),
        ("    3   c", "    4   c"),
        ("    4 - d", ""),
    ]


def test_a_split_wants_fifty_six_columns_in_each_half() -> None:
    assert fits_split(118) and fits_split(113)
    assert not fits_split(112)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("wrap", [False, True])
def test_no_row_is_wider_than_the_page_and_a_wrapped_one_loses_nothing(split: bool, wrap: bool) -> None:
    choose = random.Random(7)
    alphabet = "ab cd/漢字e\u0301\t\U0001f600\x1b\u202e-_"
    lines = ["".join(choose.choices(alphabet, k=choose.randint(0, 200))) for _ in range(60)]
    after = [line if choose.random() < 0.6 else line[::-1] for line in lines]
    file = diff_of("\n".join(lines), "\n".join(after))
    for width in (58, 78, 118, 158):
        rows = laid(file, Look(width, split, wrap, 0))
        assert all(cells(text(line)) <= width for line in rows)
        assert rows[3:9] == [rows[number] for number in range(3, 9)]
        if not wrap:
            assert all(cells(text(line)) <= width for line in laid(file, Look(width, split, False, 40)))


def test_both_halves_of_a_wrapped_pair_have_the_same_height() -> None:
    file = diff_of("x = 1\nend\n", "x = " + "1234 " * 60 + "\nend\n")
    rows = texts(laid(file, Look(118, True, True, 0)))
    height = next(number for number, row in enumerate(rows) if "end" in row) - 1
    assert height == 7
    assert "    1 - x = 1" in rows[1]
    half = half_of(118)
    assert all(row[:half].strip() == "" and row[half + 1 :].strip() for row in rows[2 : height + 1])
    unified = texts(laid(file, Look(78, False, True, 0)))
    assert "".join(row[13:] for row in unified[2:-1]).count("1234") == 60


def test_a_step_to_the_side_moves_the_text_and_not_the_numbers() -> None:
    file = diff_of("0123456789abcdef\n", "0123456789ABCDEF\n")
    assert texts(laid(file, Look(78, False, False, 8)))[1:] == ["    1      - 89abcdef", "         1 + 89ABCDEF"]


def test_the_changed_words_of_a_pair_are_marked_and_those_of_strangers_are_not() -> None:
    rows = laid(diff_of("return total - 1\n", "return total - tax\n"), UNIFIED)
    marked = [[part for style, part in line if "word" in style] for line in rows]
    assert marked[1:] == [["1"], ["tax"]]
    assert changed_spans("alpha beta", "1 + 2 == 3") == ((), ())
    assert changed_spans("x" * 500, "x" * 499 + "y") == ((), ())
    assert changed_spans("a b c", "a x c") == (((2, 3),), ((2, 3),))


def test_unchanged_lines_are_one_row_until_they_are_asked_for() -> None:
    before = [f"line {number}" for number in range(1, 101)]
    after = [*before[:9], "ten", *before[10:59], "sixty", "and one", *before[60:]]
    file = diff_of("\n".join(before), "\n".join(after))
    folds = [row for row in texts(laid(file, UNIFIED)) if "unchanged" in row]
    assert folds == ["  : 6 unchanged lines  (Enter shows them)", "  : 43 unchanged lines"]
    hunks = hunks_of(file.lines)
    shown = texts(laid(file, UNIFIED, {1: after[hunks[0].end - 1 : hunks[1].start - 1]}))
    assert "   14   14   line 14" in shown and "   56   56   line 56" in shown
    assert not [row for row in shown if "43 unchanged" in row]
    assert len(shown) == len(set(shown))


def test_every_line_of_both_files_is_in_the_split_once() -> None:
    choose = random.Random(3)
    for _ in range(50):
        before = [choose.choice("abcdef") for _ in range(choose.randint(0, 30))]
        after = [line for line in before if choose.random() < 0.8] + [choose.choice("xyz")]
        file = diff_of("\n".join(before) + "\n" * bool(before), "\n".join(after) + "\n")
        for hunk in hunks_of(file.lines):
            pairs = list(pairs_of(hunk.rows))
            left = [row for row, _ in pairs if row is not None]
            right = [row for _, row in pairs if row is not None]
            assert left == [row for row in hunk.rows if row.mark != "+"]
            assert right == [row for row in hunk.rows if row.mark != "-"]


def test_a_copied_hunk_is_a_patch_that_git_takes(tmp_path: Path) -> None:
    from support.workspaces import git, make_repository

    before = [f"line {number}" for number in range(60)]
    after = [*before[:5], "five and a half", *before[5:50], "new fifty", *before[51:]]
    make_repository(tmp_path, {"a.py": "\n".join(before) + "\n"})
    file = diff_of("\n".join(before) + "\n", "\n".join(after) + "\n")
    (tmp_path.parent / "one.patch").write_text(patch(file, hunks_of(file.lines)[1]))
    git(tmp_path, "apply", str(tmp_path.parent / "one.patch"))
    assert (tmp_path / "a.py").read_text().split("\n")[:-1] == [*before[:50], "new fifty", *before[51:]]


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ("old mode 100644\nnew mode 100755", "mode 100644 -> 100755"),
        ("new file mode 100644\nBinary file a\x1b differs", "new file, mode 100644|binary; its bytes are not shown"),
        ("similarity index 90%\nrename from o\u202eld\nrename to a", "renamed from o<U+202E>ld"),
    ],
)
def test_mode_binary_and_rename_changes_are_one_row(lines: str, note: str) -> None:
    (file,) = files_of(f"diff --git a/a b/a\n{lines}\n", [{"path": "a", "status": "modified"}])
    assert "|".join(file.notes) == note
    assert texts(laid(file, UNIFIED)) == note.split("|")


def test_a_file_whose_diff_was_not_kept_says_so() -> None:
    kept, cut = files_of(DIFF, [CHANGES[0], {"path": "big.txt", "added": 9}], cut=True)[:2]
    assert kept.notes == ()
    assert cut.notes == ("The diff was too large to be kept whole; see: git diff",)


def test_the_lists_tell_the_users_own_earlier_changes_apart() -> None:
    files = files_of(DIFF, CHANGES)
    assert [text(line) for line in file_rows(files)] == [
        "modified x b/y.py  +2 -1  you: changed before the task",
        "deleted  old.py    +0 -1",
    ]
    detail = {
        "attempts": [{"baseline": {"versions": {"README.md": "d", "x b/y.py": "e"}}}],
        "task": {
            "result": {"verification": {"current": False, "commands": [{"argv": ["ruff", "check"], "ok": True}]}},
        },
    }
    assert own_paths(files, detail) == ["README.md"]
    rows = [text(line).rstrip() for line in side_rows(files, 1, State(), detail, 29)]
    assert rows[0].startswith("   x b/y.py") and rows[0].endswith("you +2 -1")
    assert rows[1].startswith(" > old.py") and rows[1].endswith("+0 -1")
    assert [" ".join(row.split()) for row in rows[2:]] == [
        "",
        "checks",
        "ruff check stale",
        "",
        "yours before the task",
        "README.md",
    ]
    assert all(cells(row) <= 29 for row in rows)


# --- the lines that a diff leaves out -------------------------------------------------------------------------


def test_unchanged_lines_come_from_the_file_only_while_it_is_what_the_diff_says(tmp_path: Path) -> None:
    after = "\n".join(f"line {number}" for number in range(40))
    hunks = hunks_of(diff_of(after.replace("line 30", "old"), after).lines)
    (tmp_path / "a.py").write_text(after)
    found = unchanged_lines(str(tmp_path), "a.py", hunks)
    assert isinstance(found, list) and found[3] == "line 3"
    (tmp_path / "a.py").write_text(f"one more\n{after}")
    assert "has changed since" in str(unchanged_lines(str(tmp_path), "a.py", hunks))


@pytest.mark.parametrize("path", ["../outside.py", "link.py", "folder/inside.py", "missing.py", ".", "pipe"])
def test_unchanged_lines_are_read_from_plain_files_of_the_folder_alone(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside.py").write_text("secret\n")
    (tmp_path / "inside.py").write_text("secret\n")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    (root / "folder").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    assert "cannot be read" in str(unchanged_lines(str(root), path, []))


def test_lines_that_the_user_had_changed_carry_a_mark_and_no_other_line_does() -> None:
    file = diff_of("a\nb\nc\nd\n", "a\nB\nX\nc\n")._replace(own=((1, 2), (4, 4)))
    marked = [line[:3] for line in texts(laid(file, UNIFIED._replace(own=file)))]
    assert marked == ["> @", "you", "you", "   ", "   ", "   ", "you"]
    split = texts(laid(file, SPLIT._replace(own=file)))
    assert [line[:3] for line in split] == ["> @", "you", "you", "   ", "   ", "you"]
    assert all(cells(text(line)) <= 120 for line in laid(file, SPLIT._replace(own=file)))
    wrapped = laid(diff_of("x" * 300 + "\n", "y\n")._replace(own=((1, 1),)), Look(80, False, True, 0, "|", file))
    assert [line[:4] for line in texts(wrapped)][1:4] == ["you ", "    ", "    "]
    assert max(cells(text(line)) for line in wrapped) <= 80


@pytest.mark.parametrize(
    ("more", "marked", "said"),
    [
        ({}, False, []),
        ({"yours": True}, False, ["you had changed this file before the task"]),
        ({"yours": True, "own": ()}, False, ["you had changed other lines of this file before the task"]),
        ({"yours": True, "own": ((1, 2),)}, True, ["lines marked you were changed by you before the task"]),
        ({"yours": True, "untouched": True}, True, ["changed by you before the task, and not touched since"]),
    ],
)
def test_what_of_a_file_is_the_users_is_said_as_far_as_it_is_known(more: Any, marked: bool, said: list[str]) -> None:
    assert warnings_of(File("a.py")._replace(**more), marked=marked) == said


def test_what_fluzo_says_in_place_of_lines_stands_in_their_place() -> None:
    diff = "diff --git a/big b/big\n(10 -> 20 bytes; too large to compare line by line)\n"
    (file,) = files_of(diff, [{"path": "big", "status": "modified"}])
    assert file.notes == ("10 -> 20 bytes; too large to compare line by line",)


@pytest.mark.parametrize(
    "path", ["a b/c", "n\ndiff --git a/evil b/evil\n+x", 'q"\\n', "\x1b[2J\t", 'x" "b/y', "\u00e9\n"]
)
def test_no_name_of_a_file_can_begin_the_part_of_another(path: str) -> None:
    diff = compare(path, b"1\n", b"2\n").text + header(path) + compare("other", None, b"0\0").text
    assert [file.path for file in files_of(diff, [{"path": path}])] == [path, "other"]
    assert diff.count("\n") == 6 + 1 + 3


@pytest.mark.parametrize("seed", range(20))
def test_lines_are_followed_to_where_they_stand_after_a_change_and_no_further(seed: int) -> None:
    dice = random.Random(seed)
    before = [f"{number}\n" for number in range(1, 60)]
    after: list[str] = []
    for line in before:
        kind = dice.choice("k" * 8 + "dai")
        after += {"k": [line], "d": [], "a": [line, f"new {line}"], "i": [f"new {line}"]}[kind]
    hunks = hunks_of(diff_of("".join(before), "".join(after)).lines)
    found = {number for first, last in carried([(1, 20), (30, 59)], hunks) for number in range(first, last + 1)}
    own = {line for number, line in enumerate(before, 1) if not 20 < number < 30}
    assert found == {number for number, line in enumerate(after, 1) if line in own}
