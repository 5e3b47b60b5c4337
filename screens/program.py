"""The screen on this process's terminal, which is as it was before when the screen is gone."""

import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.data_structures import Size

from .app import HANGUP, Screen
from .key_stream import register_keys
from .options import Options
from .terminal import KeyReader, ScreenOutput, restored
from .theme import ASCII, UNICODE

if TYPE_CHECKING:
    from .link import Opener


def run_screen(options: Options, opener: "Callable[[], Opener]") -> int:
    """Show the full screen on this process's terminal and return its exit status.

    `opener` is called on another thread after the first frame and returns what opens the runtime. Whatever happens,
    the terminal is restored before this returns or raises.
    """
    register_keys()
    # A log line on the terminal would be drawn over the screen; failures are told in the conversation.
    logging.getLogger().addHandler(logging.NullHandler())
    size = os.get_terminal_size
    output = ScreenOutput(
        sys.stdout,
        lambda: Size(rows=size(sys.stdout.fileno()).lines, columns=size(sys.stdout.fileno()).columns),
        term=options.environ.get("TERM"),
    )
    with restored(output):
        screen = Screen(options, opener, keyboard=KeyReader(sys.stdin, output.answered), output=output)
        output.on_gone = lambda: screen.leave(HANGUP)
        output.asks_width = screen.glyphs is UNICODE
        output.on_wide = lambda: screen.use_glyphs(ASCII)
        return screen.run()
