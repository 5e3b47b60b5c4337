"""The screen's one prompt-toolkit application, as the design wants it: nothing waits, no frame is drawn for nothing."""

import asyncio
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application
from prompt_toolkit.input import Input
from prompt_toolkit.layout import Layout as Containers
from prompt_toolkit.output import Output
from prompt_toolkit.styles import DynamicStyle

from .bindings import bindings
from .terminal import ScreenOutput

if TYPE_CHECKING:
    from .app import Screen

POLL_SECONDS = 0.5


class FullScreen(Application[int]):
    """Draws once for a change of the terminal's size, and never an empty screen in between."""

    def _on_resize(self) -> None:
        if not self._is_running or self._running_in_terminal:
            return  # Another program has the terminal; when it gives it back, all is drawn.
        if isinstance(self.output, ScreenOutput):
            self.output.prepare_frame()  # What erases the screen is part of it.
        super()._on_resize()

    async def _poll_output_size(self) -> None:
        # For a terminal that is not the controlling one, and one that is gone. The toolkit would draw once more for a
        # size that the signal has told of.
        while True:
            await asyncio.sleep(POLL_SECONDS)
            size = self.output.get_size()
            if self.renderer.last_rendered_screen is not None and size != self.renderer._last_size:
                self._on_resize()


def application(screen: "Screen", keyboard: Input | None, output: Output | None) -> Application[int]:
    """The application over the screen's body; None stands for this process's own terminal."""
    app = FullScreen(
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
