"""What each action does, and the key bindings that reach it. One handler an action; keys come from the registry.

Invariant: no handler approves anything. Denying and cancelling can be reached from everywhere.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.application import run_in_terminal

from . import browsing
from .approval import ANSWERS, Effect
from .state import CommandSent, QueuedHere, SessionLeft, YoloChosen

if TYPE_CHECKING:
    from .app import Screen

Handler = Callable[["Screen", str], None]

QUIT_SECONDS = 2.0

YOLO_TEXT = (
    "YOLO: in this session nothing asks. Every command and edit the agent wants runs as you, UNSANDBOXED. "
    "Denials and limits still hold. To turn it on type:  /yolo yolo"
)


# --- the composer ---------------------------------------------------------------------------------------------


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
        screen.apply(QueuedHere(task.id, text))
        if screen.link is not None:
            screen.link.queue(task.id, text)
    else:
        screen.composer.take()
        screen.submit(text)


def _command(screen: "Screen", text: str) -> None:
    name, _, rest = text.partition(" ")
    action = screen.registry.by_slash(name.strip())
    if action is None:
        screen.say(f"There is no command {name.split()[0][:30]}; a space before / sends it as text")
    else:
        screen.composer.take()
        screen.run_action(action.id, rest.strip())


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
    buffer = screen.composer.buffer
    state = buffer.complete_state
    if state is not None and state.current_completion is not None:
        buffer.complete_state = None
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


def editor(screen: "Screen", argument: str = "") -> None:
    """Write the draft in the person's own editor, with pastes unfolded."""
    from .editing import edit_text

    async def run() -> None:
        text = await run_in_terminal(lambda: edit_text(screen.composer.text, screen.options.environ), in_executor=True)
        if text is not None:
            screen.composer.set(text)
        else:
            screen.say("No editor could be started; set VISUAL or EDITOR")

    screen.app.create_background_task(run())


def edit_config(screen: "Screen", argument: str = "") -> None:
    from .editing import edit_file

    path = Path(screen.state.root or screen.options.root) / ".fluzo"

    async def run() -> None:
        done = await run_in_terminal(lambda: edit_file(path, screen.options.environ), in_executor=True)
        screen.say("Saved; it counts from the next start" if done else "No editor could be started")
        screen.open_runtime()

    screen.app.create_background_task(run())


def find_history(screen: "Screen", argument: str = "") -> None:
    found = screen.composer.search_history(argument or screen.composer.text)
    if found:
        screen.composer.set(found[0])
    else:
        screen.say("Nothing like that was sent before")


# --- the task -------------------------------------------------------------------------------------------------


def interrupt(screen: "Screen", argument: str = "") -> None:
    """The ladder of Ctrl+C: cancel what runs, clear the draft, then ask for a second press to quit."""
    now, state = screen.now(), screen.state
    task = state.task
    if task is not None and state.running and screen.link is not None:
        screen.acted_at = now
        if task.state == "stopping":
            screen.say("Stopping; /kill forces it, and asks first")
        else:
            screen.link.cancel(task.id)
            screen.say("Cancelling the task")
        return
    if not screen.composer.empty and screen.layout.size != "too small":
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
    screen.say("Ctrl+C again to quit")


def kill(screen: "Screen", argument: str = "") -> None:
    """Force stop: asks in words first, as a typed second step."""
    task = screen.state.task
    if task is None or not screen.state.running or screen.link is None:
        screen.say("Nothing is running")
    elif argument == "kill":
        screen.link.force_stop(task.id)
    else:
        screen.note(
            "Force stop ends the task's processes at once, without a chance to finish; effects may be half done. "
            "To do it type:  /kill kill",
            "blocked",
        )


def deny(screen: "Screen", argument: str = "") -> None:
    request = screen.request
    if request is None:
        screen.say("Nothing is asked")
    elif request.kind == "question":
        screen.say("A question is answered by its choices or with /answer, or cancel the task")
    else:
        answer(screen, 1)


def answer(screen: "Screen", choice: int) -> None:
    """Send the chosen answer with the identity of exactly this request; the card shows `sent` until it is so."""
    request = screen.request
    if request is None or screen.link is None or request.sent:
        return
    if request.kind == "question":
        choices = list(request.data.get("choices") or ())
        if choice <= len(choices):
            answer_question(screen, str(choices[choice - 1]))
        return
    word = ANSWERS[choice - 1]
    screen.apply(CommandSent(request.operation_id, word))
    screen.link.answer_permission(request.task_id, request.operation_id, request.fingerprint, word)


def answer_question(screen: "Screen", text: str) -> None:
    request = screen.request
    if request is not None and screen.link is not None and not request.sent:
        screen.apply(CommandSent(request.operation_id, "your answer"))
        screen.link.answer_question(request.task_id, request.operation_id, text)


def answer_command(screen: "Screen", argument: str = "") -> None:
    """`/answer` puts the keyboard on the card; with a text it answers a question. It never approves."""
    request = screen.request
    if request is None:
        screen.say("Nothing is asked")
    elif argument and request.kind == "question":
        answer_question(screen, argument)
    else:
        screen.body.focus_card()


def card_effect(screen: "Screen", effect: Effect) -> None:
    if effect.kind == "insert":
        screen.body.focus_composer()
        screen.composer.insert(effect.text) if "\n" not in effect.text else screen.composer.paste(effect.text)
    elif effect.kind in ("blur", "next"):
        if effect.kind == "next" and len(screen.state.blocks):
            screen.body.focus_transcript()
        else:
            screen.body.focus_composer()
        if effect.text:
            screen.composer.insert(effect.text)
    elif effect.kind == "answer":
        screen.body.focus_composer()
        answer(screen, effect.choice)
    elif effect.kind == "view":
        _view_request(screen)


def _view_request(screen: "Screen") -> None:
    from .card import title_of, whole_text
    from .pager import Pager

    request = screen.request
    if request is not None:
        screen.card = screen.card._replace(focused=False, choice=0)
        screen.open_view(Pager(screen, title_of(request), whole_text(request)))


def new_session(screen: "Screen", argument: str = "") -> None:
    if screen.state.running:
        screen.say("A task is running; cancel it or let it end first")
        return
    screen.apply(SessionLeft())
    screen.transcript.reset()


def yolo_on(screen: "Screen", argument: str = "") -> None:
    if argument == "yolo":
        _set_yolo(screen, enabled=True)
    else:
        screen.note(YOLO_TEXT, "blocked")


def yolo_off(screen: "Screen", argument: str = "") -> None:
    _set_yolo(screen, enabled=False)
    screen.say("Permission is asked for again")


def _set_yolo(screen: "Screen", *, enabled: bool) -> None:
    state = screen.state
    if state.running and screen.link is not None and state.session_id:
        screen.link.set_yolo(state.session_id, enabled=enabled)  # Shown when the runtime has said so.
    else:
        screen.apply(YoloChosen(enabled))


# --- the screen -----------------------------------------------------------------------------------------------


def escape(screen: "Screen", argument: str = "") -> None:
    """Close what is on top; a running task is never cancelled by it."""
    buffer = screen.composer.buffer
    if screen.views:
        screen.close_view()
    elif buffer.complete_state is not None:
        buffer.cancel_completion()
    elif screen.body.focus == "card":
        screen.card_key("escape")
    elif screen.transcript.find:
        screen.transcript.find = ""
    else:
        screen.body.focus_composer()


def focus_next(screen: "Screen", step: int = 1) -> None:
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


def permissions(screen: "Screen", argument: str = "") -> None:
    from .pager import Pager

    rows = [
        f"{item.at[11:19]}  {item.answer:<8} by {item.by:<8} {item.verb} {item.subject}"
        for item in screen.state.history
    ]
    screen.open_view(Pager(screen, "Permission history", "\n".join(rows) or "Nothing was asked in this session."))


def show_notices(screen: "Screen", argument: str = "") -> None:
    from .pager import Pager

    rows = [f"{item.level:<6} {item.title}  {item.text}" for item in reversed(screen.board.notices.kept)]
    if screen.board.notices.dropped:
        rows.append(f"{screen.board.notices.dropped} more were dropped; their tasks still say what happened")
    screen.open_view(Pager(screen, "Notices", "\n".join(rows) or "There are no notices."))


def show_queue(screen: "Screen", argument: str = "") -> None:
    from .pager import Pager

    rows = [f"{number}  {item.text}" for number, item in enumerate(screen.state.queued, 1)]
    screen.open_view(Pager(screen, "Queued messages", "\n\n".join(rows) or "Nothing is queued."))


def suspend(screen: "Screen", argument: str = "") -> None:
    screen.app.suspend_to_background()


def redraw(screen: "Screen", argument: str = "") -> None:
    screen.app.renderer.clear()


def _flip_sidebar(screen: "Screen", argument: str) -> None:
    screen.sidebar_hidden = not screen.sidebar_hidden


def _flip_motion(screen: "Screen", argument: str) -> None:
    reduced = screen.motion.fps > 0
    screen.motion.set_reduced(reduced)
    screen.say("Motion is off" if reduced else "Motion is on")


def _flip_mouse(screen: "Screen", argument: str) -> None:
    screen.mouse = not screen.mouse
    screen.say("Mouse is on; Shift+drag selects" if screen.mouse else "Mouse is off")


HANDLERS: dict[str, Handler] = {
    "interrupt": interrupt,
    "kill": kill,
    "quit": lambda screen, argument: screen.quit(),
    "escape": escape,
    "focus.next": lambda screen, argument: focus_next(screen),
    "focus.previous": lambda screen, argument: focus_next(screen, -1),
    "answer": answer_command,
    "deny": deny,
    "session.new": new_session,
    "toggle.row": browsing.toggle_row,
    "toggle.turn": browsing.toggle_turn,
    "find": browsing.find,
    "copy.reply": browsing.copy_reply,
    "sidebar": _flip_sidebar,
    "notices": show_notices,
    "notice.dismiss": lambda screen, argument: screen.board.dismiss(),
    "permissions": permissions,
    "yolo.on": yolo_on,
    "yolo.off": yolo_off,
    "motion": _flip_motion,
    "mouse": _flip_mouse,
    "retry": lambda screen, argument: screen.open_runtime(),
    "config.edit": edit_config,
    "redraw": redraw,
    "suspend": suspend,
    "scroll.page_up": lambda screen, argument: screen.transcript.page(-1),
    "scroll.page_down": lambda screen, argument: screen.transcript.page(1),
    "scroll.up": lambda screen, argument: screen.transcript.scroll(-1),
    "scroll.down": lambda screen, argument: screen.transcript.scroll(1),
    "scroll.top": lambda screen, argument: screen.transcript.to_top(),
    "scroll.end": lambda screen, argument: screen.transcript.to_end(),
    "send": send,
    "newline": newline,
    "queue.back": take_back,
    "editor": editor,
    "history.find": find_history,
    "queue.show": show_queue,
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
