import json
from pathlib import Path

import pytest

from fluzo.simulator.library import (
    copy_fixture,
    fixture_path,
    scenario_path,
    spec_path,
    tree_digest,
    tree_files,
)

NAMES = ["python-interval", "rust-interval"]


@pytest.mark.parametrize("name", NAMES)
def test_the_specification_names_the_revision_that_is_in_the_tree(name: str) -> None:
    spec = json.loads(spec_path(name).read_text())

    assert spec["fixture"] == {"path": name, "revision": tree_digest(fixture_path(name))}


@pytest.mark.parametrize("name", NAMES)
def test_the_specification_says_of_every_file_whether_it_may_change(name: str) -> None:
    spec = json.loads(spec_path(name).read_text())

    assert set(spec["may_change"]).isdisjoint(spec["must_not_change"])
    assert sorted(spec["may_change"] + spec["must_not_change"]) == tree_files(fixture_path(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_specification_is_complete(name: str) -> None:
    spec = json.loads(spec_path(name).read_text())

    assert spec["schema_version"] == 1
    assert spec["execution_profile"] == "deterministic"
    assert spec["permissions"]["allow"] == spec["permissions"]["verification"] == [spec["test_command"]]
    assert all(limit > 0 for limit in spec["budgets"].values())
    assert spec["after"]["passed"] == spec["before"]["passed"] + spec["before"]["failed"]
    assert scenario_path(spec["scenario"].removeprefix("scenarios/").removesuffix(".json")).is_file()


@pytest.mark.parametrize("name", NAMES)
def test_the_prompt_does_not_give_the_repair_away(name: str) -> None:
    spec = json.loads(spec_path(name).read_text())

    assert "<=" not in spec["prompt"]
    assert "touching" not in spec["prompt"]


def test_a_copy_has_the_same_revision_and_can_be_written(tmp_path: Path) -> None:
    copy_fixture("python-interval", tmp_path / "copy")

    assert tree_digest(tmp_path / "copy") == tree_digest(fixture_path("python-interval"))
    assert all((tmp_path / "copy" / name).stat().st_mode & 0o200 for name in tree_files(tmp_path / "copy"))


@pytest.mark.parametrize("change", ["content", "name", "mode", "missing"])
def test_any_change_of_the_tree_changes_its_revision(tmp_path: Path, change: str) -> None:
    copy_fixture("python-interval", tmp_path)
    before = tree_digest(tmp_path)
    source = tmp_path / "interval.py"
    if change == "content":
        source.write_text(source.read_text() + "\n")
    elif change == "name":
        source.rename(tmp_path / "intervals.py")
    elif change == "mode":
        source.chmod(0o755)
    else:
        source.unlink()

    assert tree_digest(tmp_path) != before


def test_what_tools_leave_behind_does_not_change_the_revision(tmp_path: Path) -> None:
    copy_fixture("rust-interval", tmp_path)
    before = tree_digest(tmp_path)
    for folder in ("target/debug", ".git", "tests/__pycache__"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "left.behind").touch()

    assert tree_digest(tmp_path) == before


@pytest.mark.parametrize("name", ["no-such-thing", "../tests", ".", ""])
def test_an_unknown_fixture_is_a_lookup_error(name: str) -> None:
    with pytest.raises(LookupError):
        fixture_path(name)
