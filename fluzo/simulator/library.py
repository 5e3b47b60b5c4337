"""Where the shipped fixtures are, and which revision of a fixture repository one has.

The data is the package `fluzo.fixtures`: the folder `fixtures/` of the source tree, the same in a wheel. It is read
and copied, never changed in place.
"""

import hashlib
from importlib.resources import files
from pathlib import Path

GENERATED = frozenset({".git", "__pycache__", "target"})
"""Folders that tools leave behind in a repository; they belong to no revision and to no copy."""


def fixture_path(name: str) -> Path:
    """The fixture repository `name`, such as `rust-interval`; raises LookupError when there is none."""
    return _existing(_root() / name, name)


def spec_path(name: str) -> Path:
    """The test specification of the fixture repository `name`; raises LookupError when there is none."""
    return _existing(_root() / "spec" / f"{name}.json", name)


def scenario_path(name: str) -> Path:
    """The scripted answers called `name`; raises LookupError when there are none."""
    return _existing(_root() / "scenarios" / f"{name}.json", name)


def scenario_names() -> list[str]:
    """Every scenario that ships, in alphabetical order."""
    return sorted(path.stem for path in (_root() / "scenarios").glob("*.json"))


def scene_paths() -> list[Path]:
    """What the interactive demo plays: one scenario file for each scene, and those for what is in no scene."""
    return sorted((_root() / "scenes").glob("*.json"))


def tree_files(root: Path) -> list[str]:
    """The relative paths, with `/`, of the files that belong to a fixture repository, sorted."""
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in found if GENERATED.isdisjoint(path.parts))


def copy_fixture(name: str, destination: Path) -> None:
    """Copy the fixture repository `name` into `destination`, which is created; the copy is writable by its owner."""
    root = fixture_path(name)
    for relative in tree_files(root):
        source, target = root / relative, destination / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
        target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)


def tree_digest(root: Path) -> str:
    """The revision of a fixture repository: `sha256:` and a digest over each file's path, mode and content.

    Of the mode only the owner's execute bit counts, as in Git; the rest depends on how the files got here.
    """
    digest = hashlib.sha256()
    for name in tree_files(root):
        path = root / name
        mode = "x" if path.stat().st_mode & 0o100 else "-"
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{name}\0{mode}\0{content}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _root() -> Path:
    # The wheel is installed as files (never as a zip), so the resource is a path.
    return Path(str(files("fluzo.fixtures")))


def _existing(path: Path, name: str) -> Path:
    if not name or "/" in name or name.startswith(".") or not path.exists():
        raise LookupError(f"no fixture is called {name!r}")
    return path
