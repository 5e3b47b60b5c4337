"""The screen's one prompt-toolkit application, as the design wants it: nothing waits, no frame is drawn for nothing."""

from typing import TYPE_CHECKING

from prompt_toolkit.application import Application
from prompt_toolkit.input import Input
from prompt_toolkit.layout import Layout as Containers
from prompt_toolkit.output import Output
from prompt_toolkit.styles import DynamicStyle

from .bindings import bindings

if TYPE_CHECKING:
    from .app import Screen


def application(screen: "Screen", keyboard: Input | None, output: Output | None) -> Application[int]:
    """The application over the screen's body; None stands for this process's own terminal."""
    app: Application[int] = Application(
        layout=Containers(screen.body.root, focused_element=screen.body.composer),
        style=DynamicStyle(lambda: screen.style),
        include_default_pygments_style=False,
        key_bindings=bindings(screen),
        full_screen=True,
        enable_page_navigation_bindings=False,
        color_depth=screen.depth,
        mouse_support=screen.body.mouse_on,
        min_redraw_interval=None,
        # Not once the loop has nothing else to do: what was typed is drawn first.
        max_render_postpone_time=None,
        before_render=screen.frames.before,
        after_render=screen.frames.after,
        input=keyboard,
        output=output,
    )
    # How long an Escape waits for what may follow it.
    app.ttimeoutlen = 0.1 if "SSH_CONNECTION" in screen.options.environ else 0.03
    app.timeoutlen = 0.1
    return app
