"""The looks that may change while the screen runs, by the keys of their settings, and trying them out.

Invariant: presentation only. Nothing here reaches permissions, budgets, capture or export, and what the runtime does
is the same under every preference. What is tried out ends with the view that tries it, unless it was kept.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .app import Screen
    from .views import View

_log = logging.getLogger(__name__)


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


class Trial:
    """A view that tries looks out, and the looks that come back when it is closed."""

    def __init__(self, screen: "Screen", view: "View") -> None:
        self._screen = screen
        self.view = view
        self.base = screen.preferences
        screen.trials.append(self)

    def try_out(self, key: str, value: Any) -> None:
        self._screen.prefer(changed(self._screen.preferences, key, value))

    def differs(self, key: str) -> bool:
        return bool(value_of(self._screen.preferences, key) != value_of(self.base, key))

    def keep(self, keys: Iterable[str]) -> None:
        """Have what these keys are now last for the session, under every view that tries something out."""
        now = self._screen.preferences
        kept = {key: value_of(now, key) for key in keys}
        for trial in self._screen.trials:
            for key, value in kept.items():
                trial.base = changed(trial.base, key, value)
        _log.info("looks of the session: %s", kept)


def end_trials(screen: "Screen") -> None:
    """Give back what was tried out by views that are closed; called before each frame."""
    while screen.trials and screen.trials[-1].view not in screen.views:
        base = screen.trials.pop().base
        if base != screen.preferences:
            screen.prefer(base)


def follow_settings(screen: "Screen", rows: Iterable[Mapping[str, Any]]) -> None:
    """Look as the settings in force say, after they were saved: rows of a ConfigDetail."""
    wanted = screen.preferences
    for row in rows:
        key = str(row["key"])
        if key in FIELDS and key not in screen.options.locks and row["effective"] is not None:
            wanted = changed(wanted, key, row["effective"])
        elif key == "tui.dev_menu":
            screen.offer_dev_menu(offered=row["effective"] is True)
    if wanted != screen.preferences:
        screen.prefer(wanted)
