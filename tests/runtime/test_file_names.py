from pathlib import Path

from support.hosted import workspace

from fluzo.core.port import FileNames
from fluzo.host import HostOptions, open_host


def test_a_front_end_completes_what_git_does_not_ignore_and_no_key_file(tmp_path: Path) -> None:
    names = (".gitignore", "a.py", "src/b.py", "x.log", "build/c", ".ssh/id_rsa")
    root = workspace(tmp_path / "w", "http://127.0.0.1:9/v1", files=dict.fromkeys(names, "*.log\nbuild/\n"))
    (root / "new.txt").write_text("untracked")
    with open_host(HostOptions(root)) as host:
        assert host.port.query(FileNames()).result().data["names"] == [".gitignore", "a.py", "new.txt", "src/b.py"]
        assert host.port.query(FileNames(2)).result().data["names"] == [".gitignore", "a.py"]
