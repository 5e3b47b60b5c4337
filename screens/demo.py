"""The scenes of `fluzo demo --interactive`: their list, and how one begins. Nothing here exists in a live session.

Invariant: a scene sends its text as the person would and answers nothing; each one begins in a new session, on a
repository put back to its start, with YOLO off.
"""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import AnyContainer, HSplit, Window
from prompt_toolkit.layout.controls import UIContent, UIControl
from prompt_toolkit.mouse_events import MouseEvent

from .clicking import Clicks
from .controls import acting_keys, joined, row, rows_content, text_control
from .state import SessionLeft, YoloChosen
from .text import Line, cells, drawable, shorten, wrap

if TYPE_CHECKING:
    from .app import Screen

BADGE: Line = [("class:bg.select class:text.on_select", " DEMO ")]
_ABOUT_ROWS = 6
_PROSE = 100


class Scene(NamedTuple):
    """`prompt` is sent; `opens` is done instead where there is one: an action, or a page of `specimens`."""

    title: str
    look: str
    prompt: str = ""
    opens: str = ""


class Script(NamedTuple):
    """The scenes of the runtime, and what puts the repository back for a prompt; called on a thread that may wait."""

    scenes: tuple[Scene, ...]
    prepare: Callable[[str], None]


MADE_UP = (
    Scene(
        "Made up: notices of every level",
        "Five notices that nothing real has caused: at most three are shown, the rest waits and expires too. They "
        "take no keyboard and move no text. Alt+X dismisses the newest, F9 lists what is kept.",
        opens="notices",
    ),
    Scene(
        "Made up: the mark in every state",
        "Each state word with the mark it has, and how it moves at 60, 30, 15 and 0 frames per second and with reduced "
        "motion. No task is in any of these states.",
        opens="states",
    ),
    Scene(
        "The width card: what your terminal makes of CJK, emoji and combining marks",
        "Every row ends at the same bar. Where one does not, this terminal and Fluzo disagree about a width.",
        opens="widths",
    ),
)


def all_scenes(script: Script) -> tuple[Scene, ...]:
    return (*script.scenes, *MADE_UP)


def demo(screen: "Screen", argument: str = "") -> None:
    """`/demo` lists the scenes; with a number it begins one."""
    script = screen.options.demo
    if script is None:
        return
    scenes = all_scenes(script)
    if not argument:
        screen.views.show(Scenes(screen, scenes))
    elif argument.isdecimal() and 0 < int(argument) <= len(scenes):
        begin(screen, script, int(argument))
    else:
        screen.say(f"Scenes have the numbers 1 to {len(scenes)}; /demo lists them")


def begin(screen: "Screen", script: Script, number: int) -> None:
    """Begin the scene of that number, once nothing else runs."""
    scene = all_scenes(script)[number - 1]
    if screen.state.running:
        screen.say("A task is running; cancel it or let it end first")
    elif screen.state.phase != "ready":
        screen.say("The demo is still being set up")
    elif scene.opens:
        screen.scene_at = number
        _open(screen, scene.opens)
    else:
        screen.scene_at = number
        threading.Thread(target=_prepare, args=(screen, script, number), name="fluzo-demo", daemon=True).start()


def _open(screen: "Screen", name: str) -> None:
    from . import specimens

    if name == "notices":
        specimens.post_notices(screen)
    elif name in specimens.PAGES:
        screen.views.show(specimens.PAGES[name](screen))
    else:
        screen.run_action(name)


def _prepare(screen: "Screen", script: Script, number: int) -> None:
    scene = all_scenes(script)[number - 1]
    try:
        script.prepare(scene.prompt)
    except Exception as error:  # The thread has nobody to raise to; the screen tells it.
        screen.intake.on_loop(screen.note, f"The scene cannot begin: {error}", "blocked")
        return
    screen.intake.on_loop(_send, screen, scene, number)


def _send(screen: "Screen", scene: Scene, number: int) -> None:
    if screen.state.running:
        return  # Something else began while the repository was put back.
    screen.apply(SessionLeft())
    if screen.state.yolo:
        screen.apply(YoloChosen(False))
    screen.transcript.reset()
    screen.note(f"Scene {number}: {scene.title}\n{scene.look}", "running")
    screen.submit(scene.prompt)


class PickList(UIControl):
    """The rows with one of them lit; as many as fit, the lit one among them. A click on the lit one is `enter`."""

    def __init__(
        self,
        rows: Callable[[int], list[Line]],
        lit: Callable[[], int],
        move: Callable[[int], None],
        keys: KeyBindings,
        enter: Callable[[], None] = lambda: None,
    ) -> None:
        self._rows = rows
        self._lit = lit
        self._keys = keys
        self._top = self._count = 0
        self._clicks = Clicks(self._at, lit, move, enter)

    def is_focusable(self) -> bool:
        return True

    def get_key_bindings(self) -> KeyBindings:
        return self._keys

    def mouse_handler(self, mouse_event: MouseEvent) -> None:
        self._clicks.event(mouse_event)

    def _at(self, y: int) -> int | None:
        number = self._top + y
        return number if number < self._count else None

    def create_content(self, width: int, height: int) -> UIContent:
        rows = self._rows(width)
        self._count = len(rows)
        self._top = max(min(self._top, self._lit(), len(rows) - height), self._lit() - height + 1, 0)
        return rows_content(rows[self._top : self._top + height], height)


class Scenes:
    """A page view: choose a scene and begin it."""

    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen", scenes: tuple[Scene, ...]) -> None:
        self._screen = screen
        self._scenes = scenes
        self._lit = min(screen.scene_at, len(scenes) - 1)  # The one after the last.
        keys = moving(screen, self._move, len(scenes), {"demo.begin": self._enter})
        rows = PickList(self._rows, lambda: self._lit, self._move, keys, self._enter)
        self.focus = Window(rows, always_hide_cursor=True)
        self.container: AnyContainer = page(screen, self._head, self.focus, self._about, _ABOUT_ROWS)

    def hints(self) -> str:
        key = self._screen.registry.key
        return f"{key('demo.begin')} begins the scene  {key('demo.up')}/{key('demo.down')} choose  Esc back"

    def refresh(self) -> None:
        """The list is what it was when it was opened."""

    def _head(self) -> Line:
        return [
            ("", " "),
            ("class:text.strong", "Scenes"),
            ("class:text.muted", f"  {self._lit + 1} of {len(self._scenes)}; the model is scripted, the rest real"),
        ]

    def _rows(self, width: int) -> list[Line]:
        rows: list[Line] = []
        for number, scene in enumerate(self._scenes):
            mark = ">" if number == self._lit else " "
            text = shorten(f"{mark}{number + 1:>3}  {drawable(scene.title)}", width - 1, self._screen.glyphs.more)
            lit = number == self._lit
            pad = " " * (width - 1 - cells(text)) if lit else ""
            rows.append([("class:bg.select class:text.on_select" if lit else "class:text.primary", text + pad)])
        return rows

    def _about(self) -> list[Line]:
        width = min(self._screen.layout.columns - 3, _PROSE)
        return [[("class:text.primary", f" {line}")] for line in wrap(drawable(self._scenes[self._lit].look), width)]

    def _move(self, rows: int) -> None:
        self._lit = max(0, min(self._lit + rows, len(self._scenes) - 1))

    def _enter(self) -> None:
        script, number = self._screen.options.demo, self._lit + 1
        self._screen.views.close()
        if script is not None:
            begin(self._screen, script, number)


def moving(
    screen: "Screen", move: Callable[[int], None], count: int, more: Mapping[str, Callable[[], None]]
) -> KeyBindings:
    """The keys that move through rows, and what a page has beyond them, by their actions."""
    steps = {"up": -1, "down": 1, "page_up": -8, "page_down": 8, "top": -count, "end": count}
    moves = {f"demo.{name}": partial(move, step) for name, step in steps.items()}
    return acting_keys(screen, {**moves, **more})


def page(
    screen: "Screen", head: Callable[[], Line], rows: Window, about: Callable[[], list[Line]], height: int
) -> AnyContainer:
    """A head, the rows, and below them what the lit row is about."""
    rule = screen.glyphs.rule
    return HSplit(
        [
            row(head),
            Window(char=rule, height=1, style="class:border.idle"),
            rows,
            Window(char=rule, height=1, style="class:border.idle"),
            Window(text_control(lambda: joined(about())), height=height, always_hide_cursor=True),
        ]
    )
