"""From keys to actions: the registry's keys in their contexts, and what editing needs beyond it."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, Filter
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from .actions import QUIT_SECONDS, escape, focus_next
from .approval import drop_focus
from .browsing import copy_selection
from .composing import accept, enter
from .composing import paste as pasted
from .key_stream import FOCUS_IN, FOCUS_OUT
from .keys import DEV_MENU, parse_key

if TYPE_CHECKING:
    from .app import Screen


_WHEN_SMALL = ("interrupt", "deny", "suspend", "redraw")
"""What can be done, with Esc, while the screen is too small to show anything; nothing is done blindly."""


def bindings(screen: "Screen") -> KeyBindings:
    """The keys of the registry, each active in its context; what the composer needs beyond it stands below."""
    keys = KeyBindings()
    in_composer = Condition(lambda: screen.body.focus == "composer")
    small = Condition(lambda: screen.layout.size == "too small")
    filters: dict[str, Filter] = {
        "composer": in_composer & ~small,
        "transcript": Condition(lambda: screen.body.focus == "transcript"),
        "global": ~small,
    }
    keys.add(Keys.Any, filter=small & ~in_composer, eager=True)(partial(_unseen, screen))
    special = ("enter", "tab", "escape")
    for action in screen.registry.actions.values():
        where = filters.get(action.context)
        if where is None:
            continue
        for shown in action.keys:
            parsed = parse_key(shown)
            if parsed[0] in special and len(parsed) == 1 and action.context != "transcript":
                continue
            always = action.id in _WHEN_SMALL
            keys.add(*parsed, filter=always or where, eager=small if always else False)(_call(screen, action.id))
    _composer_keys(screen, keys, in_composer, small)
    keys.add(Keys.Any, filter=filters["transcript"] & ~small)(partial(_unknown, screen))
    no_view = ~small & Condition(lambda: not screen.views)
    keys.add("escape", eager=small & ~in_composer)(lambda event: escape(screen))
    keys.add("tab", filter=no_view & ~in_composer)(lambda event: focus_next(screen))
    keys.add("s-tab", filter=no_view)(lambda event: focus_next(screen, -1))
    offered = ~small & Condition(lambda: DEV_MENU.id in screen.registry.actions)
    keys.add(*parse_key(DEV_MENU.keys[0]), filter=offered)(_call(screen, DEV_MENU.id))
    held = Condition(lambda: screen.transcript.pointer.held or screen.body.card_control.pointer.held)
    keys.add(Keys.Vt100MouseEvent, filter=held)(screen.body.dragging.event)
    keys.add(FOCUS_IN)(lambda event: screen.terminal_focus(True))
    keys.add(FOCUS_OUT)(lambda event: screen.terminal_focus(False))
    return keys


def _unseen(screen: "Screen", event: KeyPressEvent) -> None:
    """A key for a card or a page that is not shown: text goes to the draft, and nothing else happens."""
    key = event.key_sequence[0].key
    if key is Keys.BracketedPaste:
        pasted(screen, event.data)
    elif not isinstance(key, Keys) and event.data.isprintable():
        screen.composer.insert(event.data)
    else:
        return
    if screen.body.focus == "card":
        screen.card = drop_focus(screen.card)
        screen.body.focus_composer()


def _unknown(screen: "Screen", event: KeyPressEvent) -> None:
    """Someone may have begun to write while the keyboard is on the conversation."""
    if event.data.isprintable():
        screen.say(f"{event.data[:20]} does nothing here; Esc goes back to the composer")


def _call(screen: "Screen", action_id: str) -> Callable[[KeyPressEvent], None]:
    def call(event: KeyPressEvent) -> None:
        screen.flash = ""
        if action_id != "interrupt" or not copy_selection(screen):
            screen.run_action(action_id)

    return call


def _composer_keys(screen: "Screen", keys: KeyBindings, here: Filter, small: Filter) -> None:
    composer = screen.composer
    acts: dict[str, Callable[[], object]] = {
        "enter": lambda: enter(screen),
        "tab": lambda: _tab(screen),
        "up": lambda: _vertical(screen, -1),
        "down": lambda: _vertical(screen, 1),
        "c-d": lambda: _delete_or_quit(screen),
    }
    edits: dict[str, Callable[[], object]] = {
        "left": lambda: composer.move(-1),
        "right": lambda: composer.move(1),
        "c-b": lambda: composer.move(-1),
        "c-f": lambda: composer.move(1),
        "backspace": composer.backspace,
    }
    for key, call in edits.items():
        keys.add(key, filter=here)(partial(_plain, screen, call))
    for key, call in acts.items():
        keys.add(key, filter=here & ~small)(partial(_plain, screen, call))

    @keys.add(Keys.BracketedPaste, filter=here)
    def paste(event: KeyPressEvent) -> None:
        pasted(screen, event.data)

    lit = Condition(lambda: composer.lit)
    keys.add("v", filter=here & lit)(lambda event: composer.open_chip())


def _plain(screen: "Screen", call: Callable[[], object], event: KeyPressEvent) -> None:
    screen.flash = ""
    call()


def _tab(screen: "Screen") -> None:
    buffer = screen.composer.buffer
    state = buffer.complete_state
    if state is None or not state.completions:
        focus_next(screen)
        return
    if state.current_completion is None:
        buffer.complete_next()
    accept(screen)


def _vertical(screen: "Screen", step: int) -> None:
    """A row up or down, as it is drawn; at the first and last row through history."""
    buffer = screen.composer.buffer
    if buffer.complete_state is not None:
        buffer.complete_previous() if step < 0 else buffer.complete_next()
    elif not screen.composer.step_row(step, screen.layout.composer.width - 2):
        screen.composer.history(step)


def _delete_or_quit(screen: "Screen") -> None:
    if screen.composer.buffer.text:
        screen.composer.buffer.delete()
    elif screen.now() < screen.quit_at:
        screen.quit()
    else:
        screen.quit_at = screen.now() + QUIT_SECONDS
        screen.say("Ctrl+D again to quit")
