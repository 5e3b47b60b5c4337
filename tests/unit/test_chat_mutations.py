import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("reader_bugs", ROOT / "tests" / "mutation" / "reader_bugs.py")
assert SPEC is not None and SPEC.loader is not None
reader_bugs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(reader_bugs)


@pytest.mark.parametrize("bug", reader_bugs.BUGS, ids=lambda bug: bug.name)
def test_a_deliberate_bug_still_has_its_place_and_its_test(bug: "reader_bugs.Bug") -> None:
    source = (ROOT / bug.path).read_text(encoding="utf-8")
    assert source.count(bug.anchor) == 1
    compile(source.replace(bug.anchor, bug.replacement), str(bug.path), "exec")
    file, _, rest = bug.test.partition("::")
    name, case = re.fullmatch(r"(\w+)\[([\w-]+)\]", rest).groups()
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
    assert (ROOT / "fixtures" / "cases" / f"{case}.sse").is_file()


def test_there_are_ten_different_bugs() -> None:
    assert len({bug.anchor for bug in reader_bugs.BUGS}) == 10
