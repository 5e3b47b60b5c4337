"""What a key costs without Fluzo: `echo_reference.py KIND` echoes what is typed on a row like that of the composer.

`terminal` reads, writes and waits, and nothing else: what the machine takes to wake a program and to be woken by it.
`toolkit` is the smallest full-screen application of prompt-toolkit with a line of text. Ctrl+U clears, as in Fluzo.
"""

import os
import sys
import tty

FRAME_BEGIN, FRAME_END = "\x1b[?2026h", "\x1b[?2026l"
CLEAR = "\x15"


def terminal() -> None:
    tty.setraw(0)
    text = ""
    while True:
        os.write(1, f"{FRAME_BEGIN}\r\x1b[2K> {text}{FRAME_END}".encode())
        keys = os.read(0, 1024).decode()
        text = "" if keys == CLEAR else text + keys


def toolkit() -> None:
    from prompt_toolkit.application import Application
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window

    keys = KeyBindings()
    buffer = Buffer()

    @keys.add("c-u")
    def clear(event: KeyPressEvent) -> None:
        buffer.reset()

    def begin(app: Application[None]) -> None:
        app.output.write_raw(FRAME_BEGIN)

    def end(app: Application[None]) -> None:
        app.output.write_raw(FRAME_END)
        app.output.flush()

    line = VSplit([Window(FormattedTextControl("> "), width=2), Window(BufferControl(buffer), height=1)])
    app: Application[None] = Application(
        Layout(HSplit([Window(), line])),
        key_bindings=keys,
        full_screen=True,
        include_default_pygments_style=False,
        before_render=begin,
        after_render=end,
    )
    app.run()


if __name__ == "__main__":
    {"terminal": terminal, "toolkit": toolkit}[sys.argv[1]]()
