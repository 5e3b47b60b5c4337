"""The looks that may change while the screen runs, by the keys of their settings.

Invariant: presentation only. Nothing here reaches permissions, budgets, capture or export, and what the runtime does
is the same under every preference.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Preferences(NamedTuple):
    theme: str = "default"
    animation_fps: int = 60
    reduced_motion: bool = False
    desktop_notices: bool = False
    render_diagnostics: bool = False


FIELDS: Mapping[str, str] = {
    "tui.animation_fps": "animation_fps",
    "tui.reduced_motion": "reduced_motion",
    "tui.theme": "theme",
    "tui.notifications.desktop_enabled": "desktop_notices",
    "tui.flags.render_diagnostics": "render_diagnostics",
}


def value_of(preferences: Preferences, key: str) -> Any:
    return getattr(preferences, FIELDS[key])


def changed(preferences: Preferences, key: str, value: Any) -> Preferences:
    """The preferences with one value, which the caller has bounded."""
    return preferences._replace(**{FIELDS[key]: value})
