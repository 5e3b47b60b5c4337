"""What the screen is begun with. Values only: it is made before anything of the runtime is there."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from .preferences import Preferences

if TYPE_CHECKING:
    from .demo import Script


class Options(NamedTuple):
    """What the invocation and the `[tui]` table say; `folder` is how the workspace is shown."""

    folder: str
    root: str = ""
    theme: str = "default"
    animation_fps: int = 60
    reduced_motion: bool = False
    yolo: bool = False
    session: str = ""
    notice_seconds: float = 5.0
    max_notices: int = 3
    desktop_notices: bool = False
    render_diagnostics: bool = False
    dev_menu: bool = False
    locks: Mapping[str, str] = {}
    """Settings that this invocation fixes, by key, with what fixes them: an option or a variable."""
    environ: Mapping[str, str] = {}
    demo: "Script | None" = None
    """The scenes of `fluzo demo --interactive`; None in every live session."""

    @property
    def preferences(self) -> Preferences:
        return Preferences(
            self.theme, self.animation_fps, self.reduced_motion, self.desktop_notices, self.render_diagnostics
        )
