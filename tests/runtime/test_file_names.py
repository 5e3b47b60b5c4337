import json
from pathlib import Path

from support.hosted import workspace

from fluzo.core.port import FileNames, FolderFacts, WorkingTree
from fluzo.host import HostOptions, open_host


def test_a_front_end_completes_what_git_does_not_ignore_and_no_key_file(tmp_path: Path) -> None:
    names = (".gitignore", "a.py", "src/b.py", "x.log", "build/c", ".ssh/id_rsa")
    root = workspace(tmp_path / "w", "http://127.0.0.1:9/v1", files=dict.fromkeys(names, "*.log\nbuild/\n"))
    (root / "new.txt").write_text("untracked")
    with open_host(HostOptions(root)) as host:
        assert host.port.query(FileNames()).result().data["names"] == [".gitignore", "a.py", "new.txt", "src/b.py"]
        assert host.port.query(FileNames(2)).result().data["names"] == [".gitignore", "a.py"]


def test_a_front_end_is_told_what_stands_in_the_folder_and_no_more_than_is_there(tmp_path: Path) -> None:
    files = {"a.py": "1\n", "b.py": "1\n", "AGENTS.md": "Use tabs.\n"}
    root = workspace(tmp_path / "w", "http://127.0.0.1:9/v1", files=files)
    with open_host(HostOptions(root)) as host:
        facts = host.port.query(FolderFacts()).result().data
        assert facts["changed"] == 0
        assert facts["instructions"] == [{"name": "AGENTS.md", "size_bytes": 10}]
        (root / "a.py").write_text("2\n")
        (root / "own.txt").write_text("untracked")
        (root / "AGENTS.md").unlink()
        (root / "AGENTS.md").symlink_to("/etc/passwd")
        facts = host.port.query(FolderFacts()).result().data
        assert (facts["branch"], facts["changed"], facts["instructions"]) == ("main", 3, [])
        json.dumps(facts)


def test_a_front_end_is_told_how_the_working_tree_differs_from_the_last_commit_without_secrets(tmp_path: Path) -> None:
    root = workspace(tmp_path / "w", "http://127.0.0.1:9/v1", files={"a.py": "1\n"})
    with open_host(HostOptions(root)) as host:
        assert host.port.query(WorkingTree()).result().data["files"] == []
        (root / "a.py").write_text(f"sk-{'x' * 20}\n")
        found = host.port.query(WorkingTree()).result().data
    (file,) = found["files"]
    assert (file["path"], file["status"], file["added"], file["removed"]) == ("a.py", "modified", 1, 1)
    assert found["diff"].endswith("-1\n+[redacted]\n")
    json.dumps(found)
