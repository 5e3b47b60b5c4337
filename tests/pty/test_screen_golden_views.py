"""The views of the mock-ups against golden screens, and the tokens that all golden screens name."""

import re

import pytest
from support import scenes
from support.golden import FOLDER as GOLDEN
from support.golden import compare
from support.scenes_views import SETTINGS, VIEWS
from support.screen import SIZES
from support.screen_inside import ScriptedScreen, inside

from fluzo.core.port import CapacityStatus, SessionList
from fluzo.screens.app import Options
from fluzo.screens.theme_tokens import TOKENS

ENVIRON = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


@pytest.mark.parametrize(("columns", "rows"), SIZES)
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_looks_as_it_was_drawn(name: str, columns: int, rows: int, request: pytest.FixtureRequest) -> None:
    show, answers = VIEWS[name]

    async def look(shown: ScriptedScreen) -> None:
        await show(shown)
        compare(request, f"{name}-{columns}x{rows}", shown)

    still = name != "developer-menu"  # Nothing moves in it, and what it says of motion is then not a session's choice.
    options = Options("~/src/ledger", environ=ENVIRON, reduced_motion=still, dev_menu=True)
    inside(look, columns=columns, rows=rows, options=options, answers=answers, facts=scenes.FACTS)


@pytest.mark.parametrize(
    "name", ["help", "sessions", "tasks", "changes", "settings", "devmenu", "diagnostics", "notices"]
)
def test_a_page_leaves_nothing_of_the_mark_it_covers(name: str) -> None:
    async def look(shown: ScriptedScreen) -> None:
        assert any("█" in row for row in shown.draw()[:3])
        shown.screen.run_action(name)
        shown.draw()
        assert not [row for row in shown.draw()[:4] if re.search("[█▀▄]", row)]

    answers = {SessionList: {"sessions": []}, CapacityStatus: {"slots": []}, **SETTINGS}
    options = Options("~/src/ledger", environ=ENVIRON, reduced_motion=True, dev_menu=True)
    inside(look, columns=120, rows=40, options=options, answers=answers, facts=scenes.FACTS)


def test_every_token_of_a_golden_screen_is_one_of_the_theme_with_a_high_contrast() -> None:
    known = {token.name: token for token in TOKENS}
    named = set()
    for path in GOLDEN.glob("*.txt"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.match(r"\d+: ", line):
                named |= {word for word in re.split(r"[ ,]+", line.partition(": ")[2]) if not re.match(r"\d+-", word)}
    assert len(named) > 20
    assert named - set(known) == set()
    assert all(known[name].contrast and known[name].contrast_16 for name in named)
