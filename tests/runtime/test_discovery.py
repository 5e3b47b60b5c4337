"""Listing and searching real trees."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.workspaces import git, make_repository, with_backend

from fluzo.core.contracts import Listing, SearchResult
from fluzo.core.errors import ToolError, WorkspaceError

TREE = {
    "README.md": "# Title\nneedle one\n",
    "src/a.py": "import os\nneedle = 2\n",
    "src/deep/b.py": "# Needle\n",
    "src/deep/er/c.ts": "needle();\n",
    ".gitignore": "build/\n*.log\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "ws", TREE)
    for name in ("build/out.txt", "x.log", ".env", "keys/server.pem", ".fluzo", ".fluzodrive/state", "new.txt"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("needle here\n")
    return root


def listing(root: Path, path: str = ".", *, max_entries: int = 100, depth: int = 9) -> Listing:
    return with_backend(root, lambda backend, _: backend.list_files(path, max_entries, depth))


def search(
    root: Path, pattern: str, path: str = ".", *, regex: bool = False, glob: str = "", max_hits: int = 100
) -> SearchResult:
    return with_backend(
        root, lambda backend, _: backend.search(pattern, path, regex=regex, glob=glob, max_hits=max_hits)
    )


def where(result: SearchResult) -> Sequence[tuple[str, int]]:
    return [(hit.path, hit.line) for hit in result.hits]


# --- listing --------------------------------------------------------------------------------------------------


def test_a_listing_has_tracked_and_new_files_and_hides_ignored_protected_and_secret_ones(root: Path) -> None:
    assert [(e.path, e.kind) for e in listing(root).entries] == [
        (".gitignore", "file"),
        ("README.md", "file"),
        ("keys", "directory"),
        ("new.txt", "file"),
        ("src", "directory"),
        ("src/a.py", "file"),
        ("src/deep", "directory"),
        ("src/deep/b.py", "file"),
        ("src/deep/er", "directory"),
        ("src/deep/er/c.ts", "file"),
    ]


def test_depth_and_count_bound_a_listing(root: Path) -> None:
    assert [e.path for e in listing(root, "src", depth=1).entries] == ["src/a.py", "src/deep"]
    assert [e.path for e in listing(root, "./src/", depth=2).entries][1:] == [
        "src/deep",
        "src/deep/b.py",
        "src/deep/er",
    ]
    short = listing(root, max_entries=2)
    assert (len(short.entries), short.truncated) == (2, True)
    assert not listing(root).truncated


def test_sizes_links_and_vanished_files_are_told(root: Path) -> None:
    (root / "link").symlink_to("/etc/passwd")
    (root / "src/a.py").unlink()
    entries = {e.path: e for e in listing(root).entries}
    assert entries["link"].kind == "link"
    assert entries["README.md"].size_bytes == len(TREE["README.md"])
    assert "src/a.py" not in entries


def test_an_ignored_directory_is_listed_when_it_is_named(root: Path) -> None:
    assert [e.path for e in listing(root, "build").entries] == ["build/out.txt"]


def test_a_listing_of_what_is_no_directory_or_not_ours_is_refused(root: Path) -> None:
    for path, code in (("README.md", "not_directory"), ("nothing", "no_such_file")):
        with pytest.raises(ToolError) as caught:
            listing(root, path)
        assert caught.value.code == code
    for path in ("..", ".git", ".fluzodrive", "/etc"):
        with pytest.raises(WorkspaceError):
            listing(root, path)


# --- searching ------------------------------------------------------------------------------------------------


def test_a_search_finds_lines_in_order_and_nothing_that_is_hidden(root: Path) -> None:
    result = search(root, "needle")
    assert where(result) == [("README.md", 2), ("new.txt", 1), ("src/a.py", 2), ("src/deep/er/c.ts", 1)]
    assert result.hits[0].text == "needle one"
    assert (result.files, result.truncated) == (4, False)


def test_path_and_glob_narrow_a_search(root: Path) -> None:
    assert where(search(root, "needle", "src")) == [("src/a.py", 2), ("src/deep/er/c.ts", 1)]
    assert where(search(root, "needle", glob="*.py")) == [("src/a.py", 2)]
    assert where(search(root, "needle", "src/deep", glob="**/*.ts")) == [("src/deep/er/c.ts", 1)]
    assert where(search(root, "needle", "src/a.py")) == [("src/a.py", 2)]
    assert where(search(root, "needle", "src", glob="*.rs")) == []


def test_a_text_is_taken_literally_and_a_pattern_as_a_regular_expression(root: Path) -> None:
    (root / "t.txt").write_text("a.c\nabc\nx(y\n-e\n")
    assert where(search(root, "a.c", glob="t.txt")) == [("t.txt", 1)]
    assert where(search(root, "a.c", regex=True, glob="t.txt")) == [("t.txt", 1), ("t.txt", 2)]
    assert where(search(root, r"\ba\wc\b(?!x)", regex=True, glob="t.txt")) == [("t.txt", 2)]
    assert where(search(root, "x(y", glob="t.txt")) == [("t.txt", 3)]
    assert where(search(root, "-e", glob="t.txt")) == [("t.txt", 4)]


@pytest.mark.parametrize("pattern", ["", "a\nb", "(unclosed", "[z-a]"])
def test_a_bad_pattern_is_an_error_that_says_so(root: Path, pattern: str) -> None:
    with pytest.raises(ToolError) as caught:
        search(root, pattern, regex=True)
    assert caught.value.code == "invalid_pattern"


def test_hits_and_lines_are_bounded(root: Path) -> None:
    (root / "many.txt").write_text("needle\n" * 500)
    (root / "wide.txt").write_text("x" * 50_000 + "NEEDLE" + "y" * 50_000 + "\n")
    many = search(root, "needle", glob="many.txt", max_hits=10)
    assert (len(many.hits), many.truncated) == (10, True)
    (hit,) = search(root, "NEEDLE", glob="wide.txt").hits
    assert "NEEDLE" in hit.text
    assert len(hit.text) < 320


def test_a_search_works_without_a_commit_and_with_odd_names(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws")
    names = ["n\nl.txt", "caf\udce9.txt", "a b.txt", 'q"t', "[x].txt"]
    for name in names:
        path = Path(os.fsdecode(os.fsencode(root / "") + b"/" + name.encode("utf-8", "surrogateescape")))
        path.write_bytes(b"first\r\nneedle \xe9\r\n")
    result = search(root, "needle")
    assert sorted(where(result)) == sorted((name, 2) for name in names)
    assert {hit.text for hit in result.hits} == {"needle \udce9"}
    (root / "d[1]").mkdir()
    (root / "d[1]/f.txt").write_text("needle\n")
    assert where(search(root, "needle", "d[1]", glob="*.txt")) == [("d[1]/f.txt", 1)]


def test_a_tracked_file_is_found_although_a_rule_ignores_it(root: Path) -> None:
    (root / "build/zz.txt").write_text("needle in build, not tracked\n")
    git(root, "add", "-f", "build/out.txt", "x.log")
    result = search(root, "needle")
    assert where(result) == [
        ("README.md", 2),
        ("build/out.txt", 1),
        ("new.txt", 1),
        ("src/a.py", 2),
        ("src/deep/er/c.ts", 1),
        ("x.log", 1),
    ]
    assert search(root, "needle", max_hits=2).truncated


def test_binary_files_are_not_searched(root: Path) -> None:
    (root / "data.bin").write_bytes(b"needle\0\n")
    assert "data.bin" not in dict(where(search(root, "needle")))


def test_content_behind_a_link_that_leaves_the_workspace_is_never_returned(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("import os\nneedle = outside secret\n")
    (root / "src/a.py").unlink()
    (root / "src").rename(root / "old")
    (root / "src").symlink_to(outside)
    assert all("outside" not in hit.text for hit in search(root, "needle").hits)
    git(root, "status")


def test_a_pattern_about_a_secret_file_tells_nothing(root: Path) -> None:
    assert where(search(root, "needle", ".env")) == []
    assert where(search(root, "needle", "keys")) == []
