import ast
import re
from pathlib import Path

from fluzo.core.errors import EXIT_STATUS_BY_CODE

TESTS = Path(__file__).parents[1]
ROW = re.compile(r"^\| (?P<key>[A-Z]\d\d|\d+) \|.*`(?P<test>[a-z0-9]+/test_\w+\.py::test_\w+)` \|$", re.MULTILINE)
CASES = {
    *(f"E{number:02}" for number in (1, 3, 4, 6, 7, 8, 10, 12, 14, 15, 17, 19)),
    *(f"S{number:02}" for number in (1, 2, 3, 5, 6, 8, 9, 12)),
    *(f"C{number:02}" for number in (5, 7)),
    *(f"D{number:02}" for number in (1, 2, 4, 6)),
    *(f"T{number:02}" for number in (1, 3, 5, 6, 8, 10)),
    *(f"M{number:02}" for number in (1, 3, 4, 6, 7, 10)),
    *(f"P{number:02}" for number in (1, 2, 3, 4, 6, 7, 10, *range(12, 18), 20, 22, 24, 25, 27, 29, *range(31, 34))),
    *(f"P{number:02}" for number in (35, 36, 38, 40, 41, 42, 44, 45, 46, 47, 50, 52, 53, 55, 60, 61, 62, 64)),
    *(f"P{number:02}" for number in (70, 72, 74, 75, 76, 79)),
    *(f"H{number:02}" for number in (1, 3, 5, 6, 8, 10, 11)),
}


def rows() -> list[tuple[str, str]]:
    return [(row["key"], row["test"]) for row in ROW.finditer((TESTS / "README.md").read_text())]


def test_every_named_test_exists() -> None:
    functions: dict[str, set[str]] = {}
    for _, test in rows():
        name, _, function = test.partition("::")
        if name not in functions:
            tree = ast.parse((TESTS / name).read_text())
            functions[name] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert function in functions[name], test


def test_every_case_has_its_row() -> None:
    named = [key for key, _ in rows() if not key.isdecimal()]
    assert sorted(named) == sorted(CASES)


def test_every_documented_exit_status_has_its_row() -> None:
    documented = re.findall(r"^\| (\d+) \|", (TESTS.parent / "docs" / "headless.md").read_text(), re.MULTILINE)
    assert [key for key, _ in rows() if key.isdecimal()] == documented
    assert set(EXIT_STATUS_BY_CODE.values()) <= {int(status) for status in documented}


def test_every_folder_of_tests_is_described() -> None:
    described = set(re.findall(r"^\| `(\w+)/` \|", (TESTS / "README.md").read_text(), re.MULTILINE))
    there = {path.name for path in TESTS.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert there <= described
