"""What the composer does with a draft: send it, queue it, take it back, edit it elsewhere.

Invariant: a draft leaves the composer only when it was sent, queued or run as a command; otherwise it stays as it is.
"""

from typing import TYPE_CHECKING

from prompt_toolkit.application import run_in_terminal

from .chips import Chip
from .completion import file_chip, mention_of, path_of
from .sanitize import visible_text
from .state import QueuedHere
from .text import shorten

if TYPE_CHECKING:
    from .app import Screen


def send(screen: "Screen", argument: str = "") -> None:
    """Send the draft: a command, a new task, or a message to the running one."""
    text = screen.composer.text
    task = screen.state.task
    if not text.strip():
        return
    if text.startswith("/"):
        _command(screen, text)
    elif screen.state.phase == "failed":
        screen.say("Not sent: Fluzo cannot begin here yet; /retry tries again")
    elif screen.state.waiting_submit is not None:
        screen.say("Your last message is still on its way; the draft is kept")
    elif task is not None and task.state == "stopping":
        screen.say("The task is stopping; the draft is kept")
    elif task is not None and screen.state.running:
        screen.composer.take()
        screen.transcript.to_end()
        screen.apply(QueuedHere(task.id, text))
        if screen.link is not None:
            screen.link.queue(task.id, text)
    else:
        screen.composer.take()
        screen.submit(text)


def _command(screen: "Screen", text: str) -> None:
    name, *more = text.split(maxsplit=1)
    rest = more[0].strip() if more else ""
    action = screen.registry.by_slash(name)
    if action is None:
        screen.say(f"There is no command {shorten(visible_text(name), 30)}; a space before / sends it as text")
    elif wrong := action.misread(rest):
        screen.say(wrong)
    else:
        screen.composer.take()
        screen.run_action(action.id, rest, named=True)


def take_back(screen: "Screen", argument: str = "") -> None:
    """Take the newest queued message back into the composer, unless the agent has it already."""
    waiting = [item for item in screen.state.queued if item.id]
    if waiting and screen.link is not None:
        screen.link.withdraw(waiting[-1].task_id, waiting[-1].id, waiting[-1].text)
    else:
        screen.say("Your message is on its way" if screen.state.queued else "Nothing is queued")


def newline(screen: "Screen", argument: str = "") -> None:
    screen.composer.newline()


def enter(screen: "Screen") -> None:
    composer, buffer = screen.composer, screen.composer.buffer
    state = buffer.complete_state
    if state is not None and state.current_completion is not None:
        accept(screen)
        return
    if composer.lit:
        composer.open_chip()
        return
    before = buffer.document.text_before_cursor
    if before.endswith("\\"):
        # A backslash before Enter is a newline; two of them send one.
        buffer.delete_before_cursor(1)
        if not before.endswith("\\\\"):
            buffer.insert_text("\n")
            return
    buffer.complete_state = None
    send(screen)


def accept(screen: "Screen") -> None:
    """Take the lit completion: a file becomes a chip, a folder is stepped into."""
    buffer = screen.composer.buffer
    state, buffer.complete_state = buffer.complete_state, None
    text = state.current_completion.text if state is not None and state.current_completion is not None else ""
    chip = file_chip(screen.files, text)
    if chip is not None and screen.composer.replace(text, chip, buffer.cursor_position):
        buffer.insert_text(" ")
    elif text.startswith("@") and text.endswith("/"):
        buffer.start_completion()


def paste(screen: "Screen", data: str) -> None:
    """Insert a paste; the path of a file that exists becomes a mention as soon as that is known."""
    if screen.composer.paste(data):
        screen.say("Control characters in the paste were left out")
    path, text = path_of(data), data
    if not path:
        return
    at = screen.composer.buffer.cursor_position

    def found(name: str, size: int, outside: bool) -> None:
        chip = Chip("file", mention_of(name), size=size, outside=outside)
        screen.intake.on_loop(screen.composer.replace, text, chip, at)

    screen.files.look(path, found)


def editor(screen: "Screen", argument: str = "") -> None:
    """Write the draft in the person's own editor, with pastes unfolded."""
    from .editing import edit_text

    whole = screen.composer.chips.whole(screen.composer.buffer.text)

    async def run() -> None:
        text = await run_in_terminal(lambda: edit_text(whole, screen.options.environ), in_executor=True)
        if text is not None:
            screen.composer.put([text])
        else:
            screen.say("No editor could be started; set VISUAL or EDITOR")

    screen.app.create_background_task(run())


def find_history(screen: "Screen", argument: str = "") -> None:
    """Search what was sent before; with nothing written, where a task is blocked or failed, try that again."""
    if not argument and screen.composer.empty and screen.state.word in ("blocked", "failed"):
        screen.run_action("retry")
        return
    from .history import HistorySearch

    screen.views.show(HistorySearch(screen, argument))


def show_queue(screen: "Screen", argument: str = "") -> None:
    from .queued import QueueView

    screen.views.show(QueueView(screen))
