"""What each action does, and the key bindings that reach it. One handler an action; keys come from the registry.

Invariant: no handler approves anything. Denying and cancelling can be reached from everywhere.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.application import run_in_terminal

from . import answering, browsing, composing
from .chrome import CANCELLING
from .layout import STANDARD_COLUMNS, STANDARD_ROWS
from .state import SessionLeft

if TYPE_CHECKING:
    from .app import Screen

Handler = Callable[["Screen", str], None]

QUIT_SECONDS = 2.0


# --- the settings file ----------------------------------------------------------------------------------------


def open_settings(screen: "Screen", group: str = "") -> None:
    from .settings import open_settings as opening

    opening(screen, group)


def edit_config(screen: "Screen", argument: str = "") -> None:
    from .editing import change_file

    path = Path(screen.state.root or screen.options.root) / ".fluzo"

    async def run() -> None:
        changed = await run_in_terminal(lambda: change_file(path, screen.options.environ), in_executor=True)
        if changed is None:
            screen.say("No editor could be started; set VISUAL or EDITOR")
        else:
            again = f"{screen.registry.key('settings')} then {screen.registry.key('settings.reload')} takes it over now"
            screen.say(f".fluzo has changed for the next start; {again}" if changed else ".fluzo is as it was")
        screen.open_runtime()

    screen.app.create_background_task(run())


# --- the task -------------------------------------------------------------------------------------------------


def interrupt(screen: "Screen", argument: str = "") -> None:
    """The ladder of Ctrl+C: cancel what runs, clear the draft where one writes in it, then ask for a second press to
    quit."""
    now, state = screen.now(), screen.state
    task = state.task
    if task is not None and state.running and screen.link is not None:
        screen.acted_at = now
        if task.state == "stopping":
            kill(screen)
        else:
            screen.link.cancel(task.id)
            screen.say(CANCELLING)
        return
    written = not screen.composer.empty
    if written and not screen.views and screen.layout.size != "too small":
        screen.acted_at = now
        screen.composer.clear()
        screen.say("Draft cleared; Up brings it back")
        return
    if now - screen.acted_at < 1.0:
        return
    if now < screen.quit_at:
        screen.quit()
        return
    screen.quit_at = now + QUIT_SECONDS
    screen.say("Ctrl+C again to quit; the draft is kept" if written else "Ctrl+C again to quit")


def kill(screen: "Screen", argument: str = "") -> None:
    """Force stop: a question first, never the act."""
    from .stopping import ask_force_stop

    task = screen.state.task
    if task is None or not screen.state.running or screen.link is None:
        screen.say("Nothing is running")
    else:
        ask_force_stop(screen, task.id, task.text)


def retry(screen: "Screen", argument: str = "") -> None:
    """Open the runtime again where it could not be opened, go on with a blocked task after a question; a failed one is
    over, so its text goes back into the composer, to be sent as a new task."""
    task = screen.state.task
    if screen.state.phase == "failed":
        screen.open_runtime()
    elif screen.state.word == "blocked":
        screen.run_action("resume", argument)
    elif screen.state.word == "failed" and task is not None and screen.composer.empty:
        screen.composer.insert(argument or task.text)
        screen.body.focus_composer()
        screen.say("The failed task's text is back; Enter sends it as a new task")
    elif screen.state.word == "failed":
        screen.say("Send what is in the composer, or empty it first")
    else:
        screen.say("Nothing is blocked and nothing has failed here")


def resume(screen: "Screen", argument: str = "") -> None:
    """Go on with the blocked task of the open session, after a question; the argument is told to the agent."""
    from .resuming import ask_resume

    if screen.state.session_id:
        ask_resume(screen, screen.state.session_id, argument)
    else:
        screen.say("No session is open; F2 lists them")


def new_session(screen: "Screen", argument: str = "") -> None:
    if screen.state.running:
        screen.say("A task is running; cancel it or let it end first")
        return
    from .earlier import read_earlier

    screen.apply(SessionLeft())
    screen.transcript.reset()
    read_earlier(screen)


def free_slots(screen: "Screen", argument: str = "") -> None:
    """Free slots whose request was given up on: only a person can know that the server is idle again."""
    if screen.link is None:
        screen.say("Fluzo is still opening")
    elif argument == "free":
        screen.link.free_slots()
    else:
        screen.note(
            "A request that was given up on keeps its slot, for the server may still work on it. If the server is "
            "idle, free the slots by typing:  /slots free",
            "blocked",
        )


# --- the screen -----------------------------------------------------------------------------------------------


def escape(screen: "Screen", argument: str = "") -> None:
    """Close what is on top; a running task is never cancelled by it."""
    buffer = screen.composer.buffer
    if screen.views:
        screen.views.close()
    elif buffer.complete_state is not None:
        buffer.cancel_completion()
    elif screen.body.focus == "card":
        screen.card_key("escape")
    elif screen.transcript.pointer.selection is not None:
        screen.transcript.pointer.clear()
    elif screen.transcript.find:
        screen.transcript.find = ""
    else:
        screen.body.focus_composer()


def focus_next(screen: "Screen", step: int = 1) -> None:
    screen.flash = ""
    order = ["composer"]
    if screen.request is not None:
        order.append("card")
    if len(screen.state.blocks):
        order.append("transcript")
    here = screen.body.focus
    there = order[(order.index(here) + step) % len(order)] if here in order else "composer"
    moves = {
        "composer": screen.body.focus_composer,
        "card": screen.body.focus_card,
        "transcript": screen.body.focus_transcript,
    }
    moves[there]()


def show_notices(screen: "Screen", argument: str = "") -> None:
    from .pager import Pager

    rows = [f"{item.level:<6} {item.title}  {item.text}" for item in reversed(screen.board.notices.kept)]
    if screen.board.notices.dropped:
        rows.append(f"{screen.board.notices.dropped} more were dropped; their tasks still say what happened")
    screen.views.show(Pager(screen, "Notices", "\n".join(rows) or "There are no notices."))


def suspend(screen: "Screen", argument: str = "") -> None:
    screen.app.suspend_to_background()


def redraw(screen: "Screen", argument: str = "") -> None:
    screen.app.renderer.clear()


def _flip_sidebar(screen: "Screen", argument: str) -> None:
    layout = screen.layout
    if layout.size in ("too small", "compact"):
        here = f"{layout.columns}x{layout.rows}"
        screen.say(f"The sidebar needs {STANDARD_COLUMNS}x{STANDARD_ROWS}; the window is {here}")
        return
    screen.sidebar_hidden = not screen.sidebar_hidden


def _flip_motion(screen: "Screen", argument: str) -> None:
    reduced = not screen.preferences.reduced_motion
    screen.prefer(screen.preferences._replace(reduced_motion=reduced))
    still = "" if reduced or screen.motion.fps else "; tui.animation_fps is 0, so nothing moves"
    screen.say(f"Reduced motion is {'on' if reduced else 'off'}{still}")


def _flip_mouse(screen: "Screen", argument: str) -> None:
    screen.mouse = not screen.mouse
    screen.say("Mouse is on; Shift+drag selects" if screen.mouse else "Mouse is off")


def _demo(screen: "Screen", argument: str) -> None:
    from .demo import demo

    demo(screen, argument)


HANDLERS: dict[str, Handler] = {
    "demo": _demo,
    "interrupt": interrupt,
    "kill": kill,
    "quit": lambda screen, argument: screen.quit(),
    "escape": escape,
    "focus.next": lambda screen, argument: focus_next(screen),
    "focus.previous": lambda screen, argument: focus_next(screen, -1),
    "answer": answering.answer_command,
    "deny": answering.deny,
    "session.new": new_session,
    "resume": resume,
    "toggle.row": browsing.toggle_row,
    "toggle.turn": browsing.toggle_turn,
    "find": browsing.find,
    "copy.reply": browsing.copy_reply,
    "raw": browsing.raw,
    "sidebar": _flip_sidebar,
    "notices": show_notices,
    "notice.dismiss": lambda screen, argument: screen.board.dismiss(),
    "permissions": answering.permissions,
    "yolo.on": answering.yolo_on,
    "yolo.off": answering.yolo_off,
    "motion": _flip_motion,
    "mouse": _flip_mouse,
    "retry": retry,
    "config.edit": edit_config,
    "settings": lambda screen, argument: open_settings(screen),
    "settings.models": lambda screen, argument: open_settings(screen, "Models"),
    "settings.limits": lambda screen, argument: open_settings(screen, "Limits"),
    "settings.storage": lambda screen, argument: open_settings(screen, "Storage"),
    "settings.telemetry": lambda screen, argument: open_settings(screen, "Telemetry"),
    "settings.notifications": lambda screen, argument: open_settings(screen, "Notifications"),
    "slots.free": free_slots,
    "redraw": redraw,
    "suspend": suspend,
    "scroll.page_up": lambda screen, argument: screen.transcript.page(-1),
    "scroll.page_down": lambda screen, argument: screen.transcript.page(1),
    "scroll.up": lambda screen, argument: screen.transcript.scroll(-1),
    "scroll.down": lambda screen, argument: screen.transcript.scroll(1),
    "scroll.top": lambda screen, argument: screen.transcript.to_top(),
    "scroll.end": lambda screen, argument: screen.transcript.to_end(),
    "send": composing.send,
    "newline": composing.newline,
    "queue.back": composing.take_back,
    "editor": composing.editor,
    "history.find": composing.find_history,
    "queue.show": composing.show_queue,
    "transcript.down": lambda screen, argument: browsing.move_selection(screen, 1),
    "transcript.up": lambda screen, argument: browsing.move_selection(screen, -1),
    "transcript.half_down": lambda screen, argument: screen.transcript.page(0.5),
    "transcript.half_up": lambda screen, argument: screen.transcript.page(-0.5),
    "transcript.top": lambda screen, argument: screen.transcript.to_top(),
    "transcript.end": lambda screen, argument: screen.transcript.to_end(),
    "transcript.next_turn": lambda screen, argument: screen.transcript.to_turn(1),
    "transcript.previous_turn": lambda screen, argument: screen.transcript.to_turn(-1),
    "transcript.open": browsing.toggle_row,
    "transcript.copy": browsing.copy_block,
    "transcript.copy_code": browsing.copy_code,
    "transcript.copy_turn": browsing.copy_turn,
    "transcript.pager": browsing.page_block,
    "transcript.find": browsing.find,
    "find.next": lambda screen, argument: browsing.find_step(screen, 1),
    "find.previous": lambda screen, argument: browsing.find_step(screen, -1),
}
