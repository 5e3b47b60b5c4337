"""What each action does, and the key bindings that reach it. One handler an action; keys come from the registry.

Invariant: no handler approves anything. Denying and cancelling can be reached from everywhere.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.filters import Condition, Filter
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from .approval import ANSWERS, Effect
from .blocks import Block
from .keys import parse_key
from .render import is_open
from .state import CommandSent, QueuedHere, SessionLeft, Toggled, YoloChosen
from .terminal import FOCUS_IN, FOCUS_OUT

if TYPE_CHECKING:
    from .app import Screen

Handler = Callable[["Screen", str], None]

YOLO_TEXT = (
    "YOLO: in this session nothing asks. Every command and edit the agent wants runs as you, UNSANDBOXED. "
    "Denials and limits still hold. To turn it on type:  /yolo yolo"
)


# --- the composer ---------------------------------------------------------------------------------------------


def send(screen: "Screen", argument: str = "") -> None:
    """Send the draft: a command, a new task, or a message to the running one."""
    composer = screen.composer
    text = composer.text
    if not text.strip():
        return
    if text.startswith("/"):
        name, _, rest = text.partition(" ")
        action = screen.registry.by_slash(name)
        if action is None:
            screen.say(f"There is no command {name[:30]}; a space before / sends it as text")
            return
        composer.take()
        screen.run_action(action.id, rest.strip())
        return
    if screen.link is not None and screen.link.port is None and screen.state.phase == "failed":
        screen.say("Not sent: Fluzo cannot begin here yet; /retry tries again")
        return
    task = screen.state.task
    if screen.state.waiting_submit is not None:
        screen.say("Your last message is still on its way; the draft is kept")
        return
    if task is not None and screen.state.running:
        if task.state == "stopping":
            screen.say("The task is stopping; the draft is kept")
            return
        composer.take()
        screen.apply(QueuedHere(task.id, text))
        if screen.link is not None:
            screen.link.queue(task.id, text)
        return
    composer.take()
    screen.submit(text)


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
    screen.quit_at = now + 2.0
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


# --- the conversation -----------------------------------------------------------------------------------------


def toggle_row(screen: "Screen", argument: str = "") -> None:
    """Open or close the selected row, else the last tool row on screen; a chip under the cursor first."""
    if screen.body.focus == "composer" and screen.composer.open_chip():
        return
    transcript, blocks = screen.transcript, screen.state.blocks
    key = transcript.selected if transcript.focused else None
    if key is None:
        keys = [visible.key for visible in transcript.shown if visible.key in blocks]
        key = next((item for item in reversed(keys) if blocks[item].kind in ("tool", "thought")), None)
    if key is not None and key in blocks:
        _toggle(screen, blocks[key])


def _toggle(screen: "Screen", block: Block) -> None:
    """Open or close in place: the row's header stays on its screen row."""
    if block.kind not in ("tool", "thought"):
        return
    transcript = screen.transcript
    top = next((number for number, visible in enumerate(transcript.shown) if visible.key == block.key), None)
    screen.apply(Toggled(block.key, not is_open(block)))
    if top is not None and transcript.shown[top].row == 0:
        transcript.hold(block.key, top)


def toggle_turn(screen: "Screen", argument: str = "") -> None:
    blocks, task_id = screen.state.blocks, screen.state.task_id
    keys = [block.key for block in blocks if block.kind == "tool" and block.task_id == task_id]
    opened = any(is_open(blocks[key]) for key in keys)
    for key in keys[-200:]:
        screen.apply(Toggled(key, not opened))


def find(screen: "Screen", argument: str = "") -> None:
    """Mark a text in the conversation and go to its last occurrence; without a text the marks go."""
    transcript = screen.transcript
    if not argument:
        if transcript.find:
            transcript.find = ""
            screen.say("Find is off")
        else:
            screen.composer.set("/find ")
            screen.body.focus_composer()
        return
    transcript.find = argument
    find_step(screen, -1, fresh=True)


def find_step(screen: "Screen", step: int, *, fresh: bool = False) -> None:
    transcript, blocks = screen.transcript, screen.state.blocks
    wanted = transcript.find.lower()
    if not wanted:
        screen.say("Nothing to find; /find TEXT")
        return
    here = transcript.selected if transcript.selected is not None and not fresh else blocks.next
    key = here + step
    while key in blocks:
        if wanted in text_of(blocks[key]).lower():
            transcript.selected = key
            transcript.to_block(key)
            screen.body.focus_transcript()
            screen.say(f'"{transcript.find}"  n next  N previous  Esc back')
            return
        key += step
    more = " here; older messages are not loaded yet" if screen.state.more else ""
    screen.say(f'"{transcript.find}" is not found{more}')


def text_of(block: Block) -> str:
    """What a block says, as source text."""
    tool = block.tool
    if tool is None:
        return block.source
    return "\n".join(part for part in (f"{tool.verb} {tool.subject}", tool.output or tool.diff) if part)


def copy_reply(screen: "Screen", argument: str = "") -> None:
    for block in screen.state.blocks.reversed():
        if block.kind == "text":
            screen.copy(block.source, "the last reply")
            return
    screen.say("There is no reply yet")


def _selected(screen: "Screen") -> Block | None:
    key, blocks = screen.transcript.selected, screen.state.blocks
    return blocks[key] if key is not None and key in blocks else None


def copy_block(screen: "Screen", argument: str = "") -> None:
    block = _selected(screen)
    if block is not None:
        screen.copy(text_of(block), "the block")


def copy_code(screen: "Screen", argument: str = "") -> None:
    from .editing import code_of

    block = _selected(screen)
    code = code_of(block.source) if block is not None else ""
    if code:
        screen.copy(code, "the code")
    else:
        screen.say("There is no code in this block")


def copy_turn(screen: "Screen", argument: str = "") -> None:
    block = _selected(screen)
    if block is not None:
        parts = [text_of(item) for item in screen.state.blocks if item.task_id == block.task_id]
        screen.copy("\n\n".join(parts), "the turn")


def page_block(screen: "Screen", argument: str = "") -> None:
    from .pager import Pager

    block = _selected(screen)
    if block is not None:
        name = f"{block.tool.verb} {block.tool.subject}" if block.tool else "Message"
        screen.open_view(Pager(screen, name, text_of(block)))


def move_selection(screen: "Screen", step: int) -> None:
    transcript, blocks = screen.transcript, screen.state.blocks
    key = transcript.selected if transcript.selected is not None else blocks.next
    if key + step in blocks:
        transcript.selected = key + step
        transcript.to_block(key + step)


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
    "toggle.row": toggle_row,
    "toggle.turn": toggle_turn,
    "find": find,
    "copy.reply": copy_reply,
    "sidebar": _flip_sidebar,
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
    "editor": editor,
    "history.find": find_history,
    "queue.show": show_queue,
    "transcript.down": lambda screen, argument: move_selection(screen, 1),
    "transcript.up": lambda screen, argument: move_selection(screen, -1),
    "transcript.half_down": lambda screen, argument: screen.transcript.page(0.5),
    "transcript.half_up": lambda screen, argument: screen.transcript.page(-0.5),
    "transcript.top": lambda screen, argument: screen.transcript.to_top(),
    "transcript.end": lambda screen, argument: screen.transcript.to_end(),
    "transcript.next_turn": lambda screen, argument: screen.transcript.to_turn(1),
    "transcript.previous_turn": lambda screen, argument: screen.transcript.to_turn(-1),
    "transcript.open": toggle_row,
    "transcript.copy": copy_block,
    "transcript.copy_code": copy_code,
    "transcript.copy_turn": copy_turn,
    "transcript.pager": page_block,
    "transcript.find": find,
    "find.next": lambda screen, argument: find_step(screen, 1),
    "find.previous": lambda screen, argument: find_step(screen, -1),
}


# --- keys -----------------------------------------------------------------------------------------------------


def bindings(screen: "Screen") -> KeyBindings:
    """The keys of the registry, each active in its context; what the composer needs beyond it stands below."""
    keys = KeyBindings()
    in_composer = Condition(lambda: screen.body.focus == "composer")
    filters: dict[str, Filter] = {
        "composer": in_composer,
        "transcript": Condition(lambda: screen.body.focus == "transcript"),
        "global": Condition(lambda: True),
    }
    special = ("enter", "tab", "escape")
    for action in screen.registry.actions.values():
        where = filters.get(action.context)
        if where is None:
            continue
        for shown in action.keys:
            parsed = parse_key(shown)
            if parsed[0] in special and len(parsed) == 1 and action.context != "transcript":
                continue
            keys.add(*parsed, filter=where)(_call(screen, action.id))
    _composer_keys(screen, keys, in_composer)
    no_view = Condition(lambda: not screen.views)
    keys.add("escape")(lambda event: escape(screen))
    keys.add("tab", filter=no_view & ~in_composer)(lambda event: focus_next(screen))
    keys.add("s-tab", filter=no_view)(lambda event: focus_next(screen, -1))
    keys.add(FOCUS_IN)(lambda event: screen.terminal_focus(True))
    keys.add(FOCUS_OUT)(lambda event: screen.terminal_focus(False))
    return keys


def _call(screen: "Screen", action_id: str) -> Callable[[KeyPressEvent], None]:
    def call(event: KeyPressEvent) -> None:
        screen.flash = ""
        screen.run_action(action_id)

    return call


def _composer_keys(screen: "Screen", keys: KeyBindings, here: Filter) -> None:
    composer, buffer = screen.composer, screen.composer.buffer
    keys.add("enter", filter=here)(lambda event: enter(screen))

    @keys.add("tab", filter=here)
    def tab(event: KeyPressEvent) -> None:
        state = buffer.complete_state
        if state is None or not state.completions:
            focus_next(screen)
            return
        if state.current_completion is None:
            buffer.complete_next()
        buffer.complete_state = None

    @keys.add("up", filter=here)
    def up(event: KeyPressEvent) -> None:
        if buffer.complete_state is not None:
            buffer.complete_previous()
        elif buffer.document.cursor_position_row == 0:
            composer.history(-1)
        else:
            buffer.cursor_up()

    @keys.add("down", filter=here)
    def down(event: KeyPressEvent) -> None:
        if buffer.complete_state is not None:
            buffer.complete_next()
        elif buffer.document.cursor_position_row == buffer.document.line_count - 1:
            composer.history(1)
        else:
            buffer.cursor_down()

    @keys.add(Keys.BracketedPaste, filter=here)
    def paste(event: KeyPressEvent) -> None:
        if composer.paste(event.data):
            screen.say("Control characters in the paste were left out")

    @keys.add("c-d", filter=here)
    def delete_or_quit(event: KeyPressEvent) -> None:
        if buffer.text:
            buffer.delete()
        elif screen.now() < screen.quit_at:
            screen.quit()
        else:
            screen.quit_at = screen.now() + 2.0
            screen.say("Ctrl+D again to quit")

    keys.add("left", filter=here)(lambda event: composer.move(-1))
    keys.add("right", filter=here)(lambda event: composer.move(1))
    keys.add("backspace", filter=here)(lambda event: composer.backspace())
    keys.add("c-b", filter=here)(lambda event: composer.move(-1))
    keys.add("c-f", filter=here)(lambda event: composer.move(1))
