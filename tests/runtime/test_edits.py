import json
import os
import stat
from pathlib import Path

import pytest
from support.local_bench import local_bench
from support.tool_bench import ToolBench, is_plain

from fluzo.core.errors import FluzoError
from fluzo.core.records import ABSENT
from fluzo.tools.shared import ToolLimits

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
EDITS = [json.loads(path.read_text()) for path in sorted(CASES.glob("e*.json"))]


@pytest.fixture
def root(tmp_path):
    return tmp_path / "work"


@pytest.fixture
def bench(root):
    with local_bench(root) as bench:
        yield bench


def put(root, name, data):
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def refusal(bench, name, **args):
    with pytest.raises(FluzoError) as caught:
        bench.call(name, **args)
    return caught.value


def change_within_the_same_second(file, data):
    """Other bytes of the same length in the same inode, with the old times put back."""
    before = file.stat()
    assert len(data) == before.st_size
    with file.open("r+b") as handle:
        handle.write(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("case", EDITS, ids=lambda case: case["name"])
def test_an_edit_gives_these_bytes_or_leaves_the_file_alone(root, bench, case):
    before = (CASES / case["file"]).read_bytes()
    file = put(root, "src/file.txt", before)
    bench.call("read_file", path="src/file.txt")
    if case["expect"]["outcome"] == "error":
        refusal(bench, "edit_file", path="src/file.txt", **case["edit"])
        assert file.read_bytes() == before
        return
    result = bench.call("edit_file", path="src/file.txt", **case["edit"])
    assert result.ok
    assert file.read_bytes() == (CASES / case["expect"]["file_after"]).read_bytes()
    assert [child.name for child in file.parent.iterdir()] == ["file.txt"]


def test_an_operation_shows_the_change_and_binds_the_version_before_anything_is_written(root, bench):
    file = put(root, "src/interval.rs", b"a\nb < c\nd\n")
    operation = bench.describe("edit_file", path="src/interval.rs", old_text="b < c", new_text="b <= c")
    assert file.read_bytes() == b"a\nb < c\nd\n"
    assert operation.summary == "src/interval.rs  +1 -1"
    assert (operation.lines_added, operation.lines_removed) == (1, 1)
    assert "-b < c\n+b <= c\n" in operation.preview
    ((path, version),) = operation.versions
    assert path == "src/interval.rs"
    assert (version.size_bytes, version.inode) == (10, file.stat().st_ino)


def test_a_link_stays_a_link_and_its_target_changes(root, bench):
    real = put(root, "real.md", b"old\n")
    (root / "link.md").symlink_to("real.md")
    bench.call("read_file", path="link.md")
    bench.call("edit_file", path="link.md", old_text="old", new_text="new")
    assert (root / "link.md").readlink() == Path("real.md")
    assert real.read_bytes() == b"new\n"


def test_a_link_that_leaves_the_workspace_is_refused(root, bench, tmp_path):
    outside = put(tmp_path, "outside.md", b"old\n")
    (root / "link.md").symlink_to("../outside.md")
    error = refusal(bench, "edit_file", path="link.md", old_text="old", new_text="new")
    assert error.code == "path_refused"
    assert outside.read_bytes() == b"old\n"


@pytest.mark.parametrize("mode", [0o755, 0o640])
def test_mode_and_owner_survive_an_edit_under_any_umask(root, bench, mode):
    file = put(root, "tool.sh", b"echo a\n")
    file.chmod(mode)
    old = os.umask(0o077)
    try:
        bench.call("edit_file", path="tool.sh", old_text="a", new_text="b")
    finally:
        os.umask(old)
    after = file.stat()
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (mode, os.getuid(), os.getgid())


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("edit_file", {"old_text": "1", "new_text": "2"}),
        ("write_file", {"content": "x = 2\n"}),
        ("delete_file", {}),
    ],
)
def test_a_file_changed_since_it_was_read_is_refused(root, bench, tool, args):
    file = put(root, "a.py", b"x = 1\n")
    bench.call("read_file", path="a.py")
    change_within_the_same_second(file, b"x =1 \n")
    error = refusal(bench, tool, path="a.py", **args)
    assert error.code == "stale_file"
    assert "changed since" in error.message
    assert file.read_bytes() == b"x =1 \n"
    bench.call("read_file", path="a.py")
    assert bench.call(tool, path="a.py", **args).ok


def test_a_file_that_changes_between_approval_and_effect_is_refused(root, bench):
    file = put(root, "a.py", b"x = 1\n")
    edit = {"path": "a.py", "old_text": "1", "new_text": "2"}
    operation = bench.describe("edit_file", **edit)
    change_within_the_same_second(file, b"x = 9\n")
    with pytest.raises(FluzoError) as caught:
        bench.execute(operation, **edit)
    assert caught.value.code == "stale_file"
    assert file.read_bytes() == b"x = 9\n"


def test_a_new_file_that_appears_meanwhile_is_not_replaced(root, bench):
    write = {"path": "new.py", "content": "mine\n"}
    operation = bench.describe("write_file", **write)
    assert operation.versions == (("new.py", ABSENT),)
    file = put(root, "new.py", b"theirs\n")
    with pytest.raises(FluzoError) as caught:
        bench.execute(operation, **write)
    assert caught.value.code == "stale_file"
    assert file.read_bytes() == b"theirs\n"


def test_a_touch_or_the_same_bytes_in_a_new_file_are_no_alarm(root, bench):
    file = put(root, "a.py", b"x = 1\n")
    bench.call("read_file", path="a.py")
    os.utime(file, (1, 1))
    assert bench.call("edit_file", path="a.py", old_text="1", new_text="2").ok
    file.rename(root / "old.py")
    put(root, "a.py", b"x = 2\n")
    assert bench.call("edit_file", path="a.py", old_text="2", new_text="3").ok


def test_edits_of_the_model_follow_each_other_without_another_read(root, bench):
    file = put(root, "a.py", b"x = 1\n")
    for number in (1, 2, 3):
        bench.call("edit_file", path="a.py", old_text=str(number), new_text=str(number + 1))
    bench.call("write_file", path="./a.py", content="y\n")
    assert file.read_bytes() == b"y\n"


def test_a_file_that_was_never_read_can_be_edited_but_not_replaced(root, bench):
    file = put(root, "a.py", b"x = 1\n")
    error = refusal(bench, "write_file", path="a.py", content="y\n")
    assert error.code == "not_read"
    assert "read it first" in error.message
    assert bench.call("edit_file", path="a.py", old_text="1", new_text="2").ok
    assert file.read_bytes() == b"x = 2\n"


def test_an_empty_file_is_written_without_reading_it_first(root, bench):
    file = put(root, "empty.txt", b"")
    assert bench.call("read_file", path="empty.txt").text == "[empty file]"
    assert bench.call("write_file", path="empty.txt", content="exactly\r\nthis").ok
    assert file.read_bytes() == b"exactly\r\nthis"
    assert refusal(bench, "edit_file", path="empty.txt", old_text="", new_text="x").code == "tool_arguments"


def test_a_new_file_is_created_with_its_folders_and_exactly_its_content(root, bench):
    result = bench.call("write_file", path="src/new/mod.rs", content="fn é() {}\n")
    assert (root / "src/new/mod.rs").read_bytes() == "fn é() {}\n".encode()
    assert result.text == "created src/new/mod.rs, 11 bytes (+1 -0)"
    assert bench.call("edit_file", path="src/new/mod.rs", old_text="{}", new_text="{ }").ok


def test_writing_what_is_there_already_is_no_change(root, bench):
    put(root, "a.py", b"x\n")
    bench.call("read_file", path="a.py")
    assert refusal(bench, "write_file", path="a.py", content="x\n").code == "no_change"


def test_a_file_that_vanished_since_it_was_read_is_created_anew(root, bench):
    file = put(root, "a.py", b"x\n")
    bench.call("read_file", path="a.py")
    file.unlink()
    assert bench.describe("write_file", path="a.py", content="y\n").versions == (("a.py", ABSENT),)


def test_deleting_removes_the_one_file_that_was_shown(root, bench):
    put(root, "a.py", b"x\ny\n")
    operation = bench.describe("delete_file", path="a.py")
    assert operation.summary == "a.py  +0 -2"
    assert "-x\n-y\n" in operation.preview
    bench.execute(operation, path="a.py")
    assert list(root.glob("*.py")) == []
    assert refusal(bench, "delete_file", path="a.py").code == "no_such_file"


def test_moving_keeps_the_content_known_and_replaces_nothing(root, bench):
    put(root, "a.py", b"x\n")
    put(root, "taken.py", b"t\n")
    bench.call("read_file", path="a.py")
    assert refusal(bench, "move_file", source="a.py", target="taken.py").code == "file_exists"
    assert refusal(bench, "move_file", source="gone.py", target="b.py").code == "no_such_file"
    operation = bench.describe("move_file", source="a.py", target="b.py")
    assert operation.paths == ("a.py", "b.py")
    bench.execute(operation, source="a.py", target="b.py")
    assert not (root / "a.py").exists()
    assert bench.call("write_file", path="b.py", content="y\n").ok
    assert (root / "b.py").read_bytes() == b"y\n"
    assert (root / "taken.py").read_bytes() == b"t\n"


def test_a_folder_is_not_a_file(root, bench):
    put(root, "src/a.py", b"x\n")
    for tool, args in (
        ("read_file", {}),
        ("edit_file", {"old_text": "x", "new_text": "y"}),
        ("write_file", {"content": "y"}),
        ("delete_file", {}),
    ):
        assert refusal(bench, tool, path="src", **args).code == "is_directory"


def test_binary_files_are_refused_by_every_tool_that_works_on_text(root, bench):
    program = b"\x7fELF\x02\x01" + bytes(1000)
    file = put(root, "prog", program)
    for tool, args in (("read_file", {}), ("edit_file", {"old_text": "ELF", "new_text": "FLE"})):
        error = refusal(bench, tool, path="prog", **args)
        assert error.code == "binary_file"
        assert "an ELF program of 1006 bytes" in error.message
    assert file.read_bytes() == program


def test_a_huge_file_is_refused_for_edits_and_read_from_its_head_only(root, bench):
    bench = ToolBench(bench.backend, ToolLimits(file_bytes=100_000), run=bench.run)
    data = b"line of text\n" * 20_000
    file = put(root, "big.log", data)
    error = refusal(bench, "edit_file", path="big.log", old_text="line of text\n", new_text="")
    assert error.code == "file_too_large"
    assert "260000 bytes" in error.message
    assert "only the first 100000 bytes" in bench.call("read_file", path="big.log").text
    assert file.read_bytes() == data


def test_a_file_of_200_megabytes_is_refused_with_its_size(root, bench):
    with (root / "vast.log").open("wb") as file:
        file.truncate(200_000_000)
    for tool, args in (("read_file", {}), ("edit_file", {"old_text": "a", "new_text": "b"})):
        error = refusal(bench, tool, path="vast.log", **args)
        assert error.code == "file_too_large"
        assert "200000000 bytes" in error.message


def test_line_numbers_are_those_of_grep_and_an_edit_hits_the_third_line(root, bench):
    file = put(root, "odd.txt", "a\x0cb\nc\u2028d\ne".encode())
    text = bench.call("read_file", path="odd.txt").text
    assert [line.split("\t")[0] for line in text.split("\n")[:-1]] == ["1", "2", "3"]
    third = text.split("\n")[2].split("\t", 1)[1]
    bench.call("edit_file", path="odd.txt", old_text=third, new_text="E")
    assert file.read_bytes() == "a\x0cb\nc\u2028d\nE".encode()


def test_undecodable_names_and_bytes_give_plain_results(root, bench):
    name = os.fsdecode(b"caf\xe9.txt")
    put(root, name, b"\xe9t\xe9 \xed\xb0\x80\n")
    text = bench.call("read_file", path=name).text
    assert is_plain(text)
    assert "\\xe9t\\xe9" in text
    operation = bench.describe("edit_file", path=name, old_text="t", new_text="T")
    assert operation.paths == (name,)
    assert is_plain(operation.summary)
    assert is_plain(operation.preview)
    assert is_plain(bench.execute(operation, path=name, old_text="t", new_text="T").text)
    assert (root / name).read_bytes() == b"\xe9T\xe9 \xed\xb0\x80\n"


def test_an_absolute_path_below_the_root_is_the_same_file(root, bench):
    put(root, "src/a.py", b"x\n")
    bench.call("read_file", path=str(root / "src/a.py"))
    assert bench.call("write_file", path="src/a.py", content="y\n").ok


def test_the_result_says_what_changed(root, bench):
    put(root, "a.py", b"x\n")
    result = bench.call("edit_file", path="a.py", old_text="x", new_text="y\nz")
    assert result.text == "edited a.py (+2 -1)"
    assert result.detail == {"lines_added": 2, "lines_removed": 1, "paths": ["a.py"]}
