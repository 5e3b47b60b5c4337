"""docs/security.md names a test for every claim, and every named test is there."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "security.md").read_text()
NAMED = re.compile(r"`([a-z0-9_]+/test_\w+\.py)::(test_\w+)`")
INVARIANTS, BOUNDARIES = 13, 8
"""Rows of the two tables: one for each invariant and each boundary of the architecture."""


def rows(heading: str) -> list[str]:
    """The rows of the table below a heading, without its head."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][2:]


def test_every_named_test_exists() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > 60
    for file, function in named:
        tree = ast.parse((TESTS / file).read_text())
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{file}::{function}"


@pytest.mark.parametrize(("heading", "count"), [("Invariants", INVARIANTS), ("Boundaries", BOUNDARIES)])
def test_every_row_has_a_test(heading: str, count: int) -> None:
    found = rows(heading)
    assert len(found) == count
    for row in found:
        assert NAMED.search(row), row


def test_nothing_that_looks_like_a_test_is_misspelt() -> None:
    assert len(re.findall(r"::test_", PAGE)) == len(NAMED.findall(PAGE))
