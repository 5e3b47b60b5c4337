import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.project import Project, make_project, say, scripted
from support.workspaces import git

from fluzo.simulator.server import Simulator

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
EDITS = [json.loads(path.read_text()) for path in sorted(CASES.glob("e*.json"))]
Call = tuple[str, dict[str, Any]]


def turn(number: int, calls: Sequence[Call]) -> dict[str, Any]:
    parts = [
        {"tool_call": {"id": f"c{number}_{index}", "name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(calls)
    ]
    return {"respond": {"parts": parts}}


def play(
    project_root: Path, files: dict[str, bytes], *turns: Sequence[Call], prepare: Any = None
) -> tuple[Project, Any, list[str]]:
    """Run a task whose model makes these calls; return the project, the result, and what the model was told."""
    steps = [turn(number, calls) for number, calls in enumerate(turns)]
    with Simulator(scripted(*steps, say("done"))) as simulator:
        project = make_project(project_root, simulator.base_url, files={"keep.txt": "kept\n"})
        for name, data in files.items():
            (project_root / name).parent.mkdir(parents=True, exist_ok=True)
            (project_root / name).write_bytes(data)
        if prepare:
            prepare(project_root)
        git(project_root, "add", "-A", "--", ".")
        git(project_root, "commit", "-q", "--allow-empty", "-m", "files")
        result = project.json("run", "--yolo", "Go.")
        assert simulator.finish() == []
        told = [m["content"] for m in simulator.requests[-1].body["messages"] if m["role"] == "tool"]
    return project, result, told


def test_every_edit_case_gives_its_bytes_or_leaves_the_file_alone(tmp_path: Path) -> None:
    before = {f"src/{case['name']}.txt": (CASES / case["file"]).read_bytes() for case in EDITS}
    reads: list[Call] = [("read_file", {"path": path}) for path in before]
    edits: list[Call] = [("edit_file", {"path": f"src/{case['name']}.txt", **case["edit"]}) for case in EDITS]
    # Nothing between the model and the disk, Git's own conversions included, may touch a byte.
    project, result, told = play(tmp_path / "p", {**before, ".gitattributes": b"* -text\n"}, reads, edits)
    changed = set()
    for case, answer in zip(EDITS, told[len(EDITS) :], strict=True):
        path = f"src/{case['name']}.txt"
        if case["expect"]["outcome"] == "error":
            assert answer.startswith("error: "), path
            assert (project.root / path).read_bytes() == before[path], path
        else:
            assert (project.root / path).read_bytes() == (CASES / case["expect"]["file_after"]).read_bytes(), path
            changed.add(path)
    assert {change["path"] for change in result["changes"]} == changed
    assert len(changed) > 4
    refused = next(
        answer for case, answer in zip(EDITS, told[len(EDITS) :], strict=True) if case["name"].startswith("e14")
    )
    assert "3" in refused


def test_links_and_modes_outlive_an_edit(tmp_path: Path) -> None:
    def prepare(root: Path) -> None:
        (root / "link.md").symlink_to("real.md")
        (root / "away.md").symlink_to(tmp_path / "outside.md")
        (root / "run.sh").chmod(0o755)

    (tmp_path / "outside.md").write_text("outside\n")
    edits: list[Call] = [
        ("edit_file", {"path": "link.md", "old_text": "one", "new_text": "two"}),
        ("edit_file", {"path": "away.md", "old_text": "outside", "new_text": "inside"}),
        ("edit_file", {"path": "run.sh", "old_text": "echo", "new_text": "printf"}),
    ]
    files = {"real.md": b"one\n", "run.sh": b"#!/bin/sh\necho\n"}
    project, _, told = play(tmp_path / "p", files, edits, prepare=prepare)
    assert (project.root / "link.md").is_symlink()
    assert (project.root / "real.md").read_text() == "two\n"
    assert told[1].startswith("error: ")
    assert (tmp_path / "outside.md").read_text() == "outside\n"
    assert stat.S_IMODE((project.root / "run.sh").stat().st_mode) == 0o755
    assert (project.root / "run.sh").read_text() == "#!/bin/sh\nprintf\n"


def test_a_file_that_changes_under_the_model_is_not_overwritten(tmp_path: Path) -> None:
    # Another program writes the same number of bytes and puts the old times back.
    script = "s=$(stat -c %Y f.txt); printf 'b = 2\\n' > f.txt; touch -d @$s f.txt; touch g.txt"
    project, _, told = play(
        tmp_path / "p",
        {"f.txt": b"a = 1\n", "g.txt": b"g = 1\n"},
        [("read_file", {"path": "f.txt"}), ("read_file", {"path": "g.txt"})],
        [("run", {"shell": True, "script": script})],
        [
            ("write_file", {"path": "f.txt", "content": "lost\n"}),
            ("edit_file", {"path": "f.txt", "old_text": "a = 1", "new_text": "lost"}),
            ("edit_file", {"path": "g.txt", "old_text": "1", "new_text": "2"}),
        ],
    )
    assert (project.root / "f.txt").read_text() == "b = 2\n"
    assert "changed since" in told[3]
    assert told[4].startswith("error: ")
    assert (project.root / "g.txt").read_text() == "g = 2\n", "a touch alone is no change"


def test_lines_are_counted_as_other_programs_count_them(tmp_path: Path) -> None:
    data = "a\x0cb\nc\u2028d\ne\n".encode()
    project, _, told = play(
        tmp_path / "p",
        {"f.txt": data},
        [("read_file", {"path": "f.txt", "offset": 3, "limit": 1})],
        [("edit_file", {"path": "f.txt", "old_text": "e\n", "new_text": "E\n"})],
    )
    assert told[0].split("\n")[0] == "3\te"
    assert (project.root / "f.txt").read_bytes() == data[:-2] + b"E\n"


def test_odd_targets_are_written_exactly_or_refused_clearly(tmp_path: Path) -> None:
    def prepare(root: Path) -> None:
        with (root / "huge.txt").open("wb") as huge:
            huge.truncate(200 << 20)  # Sparse: it takes no room.
        with (root / ".git" / "info" / "exclude").open("a") as exclude:
            exclude.write("/huge.txt\n")

    project, _, told = play(
        tmp_path / "p",
        {"empty.txt": b"", "elf": b"\x7fELF\x02\x01\x01" + bytes(100), "dir/a.txt": b"a\n"},
        [
            ("write_file", {"path": "empty.txt", "content": "now\n"}),
            ("edit_file", {"path": "dir", "old_text": "a", "new_text": "b"}),
            ("edit_file", {"path": "huge.txt", "old_text": "a", "new_text": "b"}),
            ("read_file", {"path": "elf"}),
            ("edit_file", {"path": "elf", "old_text": "ELF", "new_text": "FLE"}),
        ],
        prepare=prepare,
    )
    assert (project.root / "empty.txt").read_text() == "now\n"
    for answer, words in zip(told[1:], ("directory", "bytes", "elf program", "elf program"), strict=True):
        assert answer.startswith("error: ")
        assert words in answer.lower().replace("folder", "directory"), answer
    assert (project.root / "huge.txt").stat().st_size == 200 << 20
    assert (project.root / "elf").read_bytes().startswith(b"\x7fELF")


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/fluzo-test", ".git/config", ".fluzo", ".fluzodrive/x"])
def test_no_path_leads_out_or_into_what_is_protected(tmp_path: Path, path: str) -> None:
    project, result, told = play(tmp_path / "p", {}, [("write_file", {"path": path, "content": "x"})])
    assert told[0].startswith("error: ")
    assert result["changes"] == []
    assert not (tmp_path / "outside.txt").exists()
    assert b"fluzo-test" not in (project.root / ".git" / "config").read_bytes()
