from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fluzo.commands.chat import screen_options
from fluzo.commands.options import GlobalOptions
from fluzo.screens.options import Options

TABLE: Mapping[str, Any] = {
    "theme": "high-contrast",
    "animation_fps": 30,
    "dev_menu": True,
    "notifications": {"desktop_enabled": True, "duration_seconds": 9, "max_visible": 2},
    "flags": {"render_diagnostics": True},
}


def options(table: Mapping[str, Any] = TABLE, **given: Any) -> Options:
    return screen_options(Path("/w"), table, GlobalOptions(**given))


def test_without_anything_the_defaults_count() -> None:
    found = options({})
    assert (found.theme, found.animation_fps, found.reduced_motion) == ("default", 60, False)
    assert not (found.dev_menu or found.desktop_notices or found.render_diagnostics)
    assert (found.notice_seconds, found.max_notices) == (5, 3)
    assert found.locks == {}


def test_the_file_counts_where_the_command_line_says_nothing() -> None:
    found = options()
    assert (found.theme, found.animation_fps, found.dev_menu) == ("high-contrast", 30, True)
    assert found.desktop_notices
    assert found.render_diagnostics
    assert (found.notice_seconds, found.max_notices) == (9, 2)
    assert found.locks == {}


def test_the_command_line_wins_and_locks() -> None:
    sets = {"tui.theme": "default", "tui.animation_fps": "20", "tui.flags.render_diagnostics": "false"}
    found = options(sets=sets, animation_fps=15, dev_menu=False)
    assert (found.theme, found.animation_fps, found.dev_menu, found.render_diagnostics) == ("default", 15, False, False)
    assert found.locks == {
        "tui.theme": "--set",
        "tui.animation_fps": "--animation-fps",
        "tui.flags.render_diagnostics": "--set",
        "tui.dev_menu": "--no-dev-menu",
    }
    assert options({}, dev_menu=True).dev_menu


@pytest.mark.parametrize(("value", "still"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_a_variable_stops_all_motion(monkeypatch: pytest.MonkeyPatch, value: str, still: bool) -> None:
    monkeypatch.setenv("FLUZO_REDUCED_MOTION", value)
    found = options({}, sets={"tui.reduced_motion": "false"})
    assert found.reduced_motion is still
    assert found.locks["tui.reduced_motion"] == ("FLUZO_REDUCED_MOTION" if still else "--set")


@pytest.mark.parametrize(
    "wrong", [{"animation_fps": "fast"}, {"notifications": 3}, {"flags": {"render_diagnostics": 1}}]
)
def test_what_cannot_be_used_is_the_default_until_the_runtime_tells_about_it(wrong: Mapping[str, Any]) -> None:
    found = options(wrong)
    assert (found.animation_fps, found.render_diagnostics, found.max_notices) == (60, False, 3)
