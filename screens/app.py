"""The full screen itself: one prompt-toolkit application, one loop on the main thread, one state.

Invariant: keys first. Updates of the runtime are taken in bounded portions between keys, and a frame is drawn only when
something visible changed. The runtime is opened behind the first frame, and nothing runs before it is there.
"""

import asyncio
import gc
import itertools
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application
from prompt_toolkit.input import Input
from prompt_toolkit.output import ColorDepth, Output

from fluzo.core.outcome import CHANGES

from . import approval
from .approval import Card
from .board import NoticeBoard
from .body import Body
from .chrome import CANCELLING, FORCING, end_hints
from .completion import ComposerCompleter, FileIndex
from .composer import Composer
from .frames import Frames
from .intake import Intake, new_request_id, utc_now, warm
from .keys import ACTIONS, DEMO, DEV_MENU, Action, Registry
from .layout import Layout, arrange
from .motion import Motion
from .offers import idle_reason, titled
from .options import Options
from .preferences import Preferences, Trial
from .render import BlockRenderer
from .state import Noted, PageRead, QueueReturned, State, Submitted, reduce
from .terminal import leaving_on_signals
from .text import Line
from .theme import Glyphs, color_depth, glyphs_for, ground_color, style_for
from .toolkit import application
from .transcript import Transcript
from .views import VIEWS, OpenViews

if TYPE_CHECKING:
    from .chips import Part
    from .drafts import Drafts
    from .link import Link, Opener
    from .settings import Settings

HANGUP = 128 + signal.SIGHUP
"""Exit status when the terminal went away, as after a signal."""

COLLECTIONS = (5000, 20, 100)
"""New objects before a collection, and collections before one of the next generation; the first takes under 1 ms."""


class Screen:
    """Everything that is on. Handlers of actions and views work on this."""

    def __init__(
        self,
        options: Options,
        opener: "Callable[[], Opener]",
        *,
        keyboard: Input | None = None,
        output: Output | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options
        self.now = clock
        self.state = State(folder=options.folder, yolo=options.yolo)
        self.registry = Registry((*ACTIONS, DEV_MENU) if options.dev_menu else ACTIONS)
        if options.demo is not None:
            self.registry.add(*DEMO)
        self.recent: list[str] = []
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        self.glyphs = glyphs_for(encoding, options.environ)
        self.depth = color_depth(options.environ)
        self.preferences = options.preferences
        self.trials: list[Trial] = []
        self.style = style_for(self.theme, self.depth)
        self.ground = ground_color(self.theme, self.depth)
        self.files = FileIndex()
        self.composer = Composer(
            ComposerCompleter(
                self.commands,
                self.files,
                self._changed_paths,
                self._recent_paths,
                lambda action_id: idle_reason(self.state, action_id),
            ),
            self._composer_changed,
            self._remembered,
        )
        self.drafts: Drafts | None = None
        """There from when the runtime is; a first frame needs no files."""
        self.renderer = BlockRenderer(self.glyphs)
        self.renderer.hints = end_hints(self.registry)
        self.renderer.colors = self.depth is not ColorDepth.DEPTH_1_BIT
        self.transcript: Transcript = Transcript(lambda: self.state, self.now, self.renderer)
        self.card = Card()
        self.card_rows: list[Line] = []
        self.request_at = 0
        self.scene_at = 0
        """Which scene of the demo began last."""
        self.looked_at: tuple[str, str] | None = None
        """The request whose whole text was opened from the focused card: closing that view goes back to it."""
        self.views = OpenViews(self)
        self.settings: Settings | None = None
        """The settings page once it was opened; it keeps edits that are not saved."""
        self.board: NoticeBoard = NoticeBoard(self)
        self.flash = ""
        self.sidebar_hidden = False
        self.mouse = False
        self.terminal_focused: bool | None = None
        """What the terminal last reported; None while it never did."""
        self.layout: Layout = arrange(80, 24, 0, 1)
        self.link: Link | None = None
        self.quit_at = 0.0
        self.acted_at = -10.0
        self.loop: asyncio.AbstractEventLoop | None = None
        self.frames = Frames(self)
        self.intake = Intake(self, opener)
        self.body = Body(self)
        self.app: Application[int] = application(self, keyboard, output)
        self.motion = Motion(self)

    # --- running

    def run(self) -> int:
        """Show the screen until the person leaves; the exit status. The runtime is closed when this returns."""
        try:
            status = asyncio.run(self._run())
        except BaseException:
            with suppress(Exception):  # The first failure is the one to tell.
                self._close()
            raise
        self._close()
        return status

    def _close(self) -> None:
        if self.drafts is not None:
            self.drafts.close()
        if self.link is not None:
            self.link.close()

    async def _run(self) -> int:
        self.loop = loop = asyncio.get_running_loop()
        self.intake.attach(loop)
        failed: list[BaseException] = []

        def on_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception") or RuntimeError(str(context.get("message")))
            failed.append(error)
            if self.app.is_running and not self.app.is_done:
                self.app.exit(result=70)

        loop.set_exception_handler(on_error)
        with leaving_on_signals(loop, lambda number: self.leave(128 + number)):
            try:
                status = await self.app.run_async(set_exception_handler=False, handle_sigint=False)
            except EOFError:
                status = HANGUP
        self.motion.stop()
        if failed:
            raise failed[0]
        return status

    def leave(self, status: int) -> None:
        """End the screen with an exit status, from its own loop."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit(result=status)

    def quit(self) -> None:
        self.leave(0)

    # --- the runtime behind it

    def open_runtime(self) -> None:
        """Open the runtime, again if it failed before."""
        if self.link is not None and self.state.phase == "failed":
            self.state = self.state._replace(phase="opening", failure=None)
            self.link.open()
            self.changed()

    # --- the state

    def apply(self, update: Any) -> None:
        """Reduce one update and do what follows from it on the screen."""
        if isinstance(update, QueueReturned):
            self.composer.give_back(update.text)
        before = self.state
        self.state = reduce(before, update, self.now())
        if self.state is before:
            return
        name = type(update).__name__
        if name == "Opened":
            self._opened()
        elif name == "PageRead" and isinstance(update, PageRead):
            self.frames.page_asked = 0
            if update.newest:
                self.transcript.reset()
        if name in ("PageRead", "SessionLeft") and before.session_id != self.state.session_id:
            self._session_changed(before)
        elif name == "Refused" and self.views:
            self.say(update.message)
        if before.requests is not self.state.requests:
            self._requests_changed()
        self._give_back(before)
        if before.running and not self.state.running and self.flash in (CANCELLING, FORCING):
            self.flash = ""
        self.board.announce(before, self.state)
        self.motion.state_changed(before, self.state)
        for view in self.views:
            view.refresh()
        self.frames.tick()
        self.changed()

    def _opened(self) -> None:
        gc.collect()
        gc.freeze()
        # What is made from here on is looked through in pieces too small to be noticed between two keys.
        gc.set_threshold(*COLLECTIONS)
        link = self.link
        if link is None:
            return
        self.files.ask = link.file_names
        self.files.refresh(self.state.root)
        from .drafts import Drafts
        from .earlier import read_earlier

        self.drafts = self.drafts or Drafts(self)
        self.drafts.opened(link.drive)
        read_earlier(self)
        warm()
        if self.options.session and not self.state.session_id:
            link.read_page(self.options.session)
        pending = self.state.waiting_submit
        if pending is not None:
            link.start(pending.request_id, pending.text, self.state.session_id, yolo=self.state.yolo)

    def _session_changed(self, before: State) -> None:
        """Each session has a draft of its own; one typed while the first was still opening belongs to that one."""
        first = not before.session_id and not len(before.blocks)
        if self.drafts is not None and not (first and self.state.session_id == self.options.session):
            self.drafts.switch(before.session_id, self.state.session_id)

    def _give_back(self, before: State) -> None:
        """Queued messages that the ended task did not take return to the composer; nothing typed is lost."""
        task = self.state.task
        if before.queued and task is not None and not self.state.running and before.running:
            left = [item.text for item in before.queued if item.task_id == task.id and item not in self.state.queued]
            if left:
                self.composer.give_back("\n\n".join(left))

    def submit(self, text: str) -> None:
        """Start a task with the text, as soon as the runtime is there."""
        update = Submitted(new_request_id(), text, utc_now())
        self.transcript.to_end()
        self.apply(update)
        if self.link is not None and self.state.phase == "ready":
            self.link.start(update.request_id, text, self.state.session_id, yolo=self.state.yolo)

    # --- requests

    def _requests_changed(self) -> None:
        requests = self.state.requests
        self.request_at = min(self.request_at, max(len(requests) - 1, 0))
        shown = requests[self.request_at] if requests else None
        same = shown is not None and (shown.operation_id, shown.fingerprint) == (
            self.card.operation_id,
            self.card.fingerprint,
        )
        if not same:
            self.show_request(self.request_at)
        self.card = self.card._replace(several=len(requests) > 1)

    def show_request(self, number: int) -> None:
        """Show another waiting request; it inherits neither focus nor choice."""
        had_focus = self.card.focused
        self.request_at = number
        request = self.request
        choices = 3
        if request is not None and request.kind == "question":
            choices = len(request.data.get("choices") or ())
        question = request is not None and request.kind == "question"
        many = question and bool(request.data.get("several"))
        self.card = Card(request.operation_id, request.fingerprint, choices, question=question) if request else Card()
        self.card = self.card._replace(several=len(self.state.requests) > 1, many=many)
        if had_focus:
            self.body.focus_composer()

    @property
    def request(self) -> Any:
        requests = self.state.requests
        return requests[self.request_at] if self.request_at < len(requests) else None

    def card_key(self, key: approval.KeyName, text: str = "") -> None:
        from .answering import card_effect

        self.flash = ""
        self.card, effect = approval.press(self.card, key, text, self.now())
        card_effect(self, effect)

    # --- acts

    def run_action(self, action_id: str, argument: str = "", *, named: bool = False) -> None:
        """What was asked for by its name is listed as recent; what only had its key pressed is not."""
        from .actions import HANDLERS

        if named:
            self.recent = [*self.recent[-19:], action_id]
        if action_id in VIEWS:
            self.views.toggle(action_id)
        elif action_id in HANDLERS:
            HANDLERS[action_id](self, argument)
        self.changed()

    def commands(self) -> list[Action]:
        """What the palette and the slash list offer; the title of one that switches says how it stands."""
        room = self.layout.size not in ("too small", "compact")
        now = {
            "sidebar": ("hidden" if self.sidebar_hidden else "shown") if room else "no room here",
            "yolo.on": "on" if self.state.yolo else "off",
            "theme": self.theme.replace("-", " "),
            "motion": "on" if self.preferences.reduced_motion else "off",
            "mouse": "on" if self.mouse else "off",
        }
        return [titled(action, now.get(action.id, "")) for action in self.registry.commands()]

    def copy(self, text: str, what: str) -> None:
        from .clipboard import copy

        copy(self, text, what)

    def note(self, text: str, tone: str) -> None:
        """A sentence of the screen's own in the conversation."""
        self.apply(Noted(text, tone))

    def terminal_focus(self, focused: bool) -> None:
        self.terminal_focused = focused
        for view in self.views:
            view.refresh()

    def say(self, text: str) -> None:
        """A sentence in the place of the hints, until the next key."""
        self.flash = text
        self.changed()

    # --- drawing

    @property
    def theme(self) -> str:
        return self.preferences.theme

    def use_glyphs(self, glyphs: Glyphs) -> None:
        """Draw with another set of characters from the next frame on."""
        self.glyphs = self.renderer.glyphs = glyphs
        self.changed()

    def offer_dev_menu(self, *, offered: bool) -> None:
        """Have the developer menu among the actions, or not."""
        self.registry.actions.pop(DEV_MENU.id, None)
        if offered:
            self.registry.add(DEV_MENU)

    def prefer(self, preferences: Preferences) -> None:
        """Look like this from the next frame on. What is cached names tokens, not colours, and stays."""
        before, self.preferences = self.preferences, preferences
        if before.theme != preferences.theme:
            self.style = style_for(self.theme, self.depth)
            self.ground = ground_color(self.theme, self.depth)
        if self.motion.rate != preferences.animation_fps or self.motion.reduced != preferences.reduced_motion:
            self.motion.use(preferences.animation_fps, reduced=preferences.reduced_motion)
        self.changed()

    def changed(self) -> None:
        self.app.invalidate()

    def _changed_paths(self) -> frozenset[str]:
        return frozenset(str(change.get("path")) for change in self.state.changes)

    def _recent_paths(self) -> list[str]:
        """Files that the newest tool rows are about."""
        newest = itertools.islice(self.state.blocks.reversed(), 200)
        return [block.tool.subject for block in newest if block.tool and block.tool.verb in ("read", *CHANGES)]

    def _composer_changed(self) -> None:
        self.flash = ""
        if self.drafts is not None:
            self.drafts.changed()

    def _remembered(self, parts: "list[Part]") -> None:
        if self.drafts is not None:
            self.drafts.remembered(parts)
