"""Golden screens: what stands in each cell and which token of the theme it has, compared with a file.

A picture that was changed on purpose is written anew by `pytest --golden-write`; its difference is then reviewed.
"""

from itertools import groupby
from pathlib import Path

import pytest
from support.screen_inside import ScriptedScreen

FOLDER = Path(__file__).parents[1] / "golden"
_GROUND = ("bg.base", "text.primary", "last-line")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden-write", action="store_true", help="write the golden screens instead of comparing them")


def _tokens(style: str) -> str:
    names = [part.removeprefix("class:") for part in style.split() if part.startswith("class:")]
    return " ".join(name for name in names if name not in _GROUND)


def picture(shown: ScriptedScreen) -> str:
    """The rows of the frame between bars, then the cells of each row that have a token beyond the ground's."""
    rows = shown.draw()
    size = shown.screen.app.output.get_size()
    cells = shown.screen.app.renderer.last_rendered_screen
    assert cells is not None
    lines = [f"|{row.ljust(size.columns)}|" for row in rows]
    lines.append("")
    for number in range(size.rows):
        row = cells.data_buffer[number]
        runs, start = [], 0
        for token, group in groupby(_tokens(row[column].style) for column in range(size.columns)):
            end = start + len(list(group))
            if token:
                runs.append(f"{start}-{end - 1} {token}")
            start = end
        if runs:
            lines.append(f"{number}: " + ", ".join(runs))
    return "\n".join(lines) + "\n"


def compare(request: pytest.FixtureRequest, name: str, shown: ScriptedScreen) -> None:
    """Fail with both pictures when the frame is not the golden one of this name."""
    path = FOLDER / f"{name}.txt"
    found = picture(shown)
    if request.config.getoption("--golden-write"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8"), f"{path.name} shows another picture; see --golden-write"
