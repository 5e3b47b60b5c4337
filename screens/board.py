"""The notices that are up: received, expired by one timer for the next deadline, told to the desktop if nobody looks.

What stands before the person's eyes at the followed end of the conversation is not told a second time over it.
"""

import asyncio
from typing import TYPE_CHECKING

from .announce import announcement, context_notice, notify_desktop
from .notice import Level, Notices, deadline, dismissed, expired, received
from .state import State

if TYPE_CHECKING:
    from .app import Screen


class NoticeBoard:
    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._due: asyncio.TimerHandle | None = None
        self.notices = Notices()

    def announce(self, before: State, after: State) -> None:
        """Say what the person should hear of between two states, if anything."""
        screen = self._screen
        if (near := context_notice(before, after)) is not None:
            self.post(f"context:{after.task_id}:{after.context_used}", "warn", *near)
        found = announcement(before, after, screen.now())
        if found is None:
            return
        in_view = screen.transcript.follow and not screen.views and screen.terminal_focused is not False
        if not in_view:
            self.post(found.id, found.level, found.title, found.text)
        if screen.preferences.desktop_notices and screen.terminal_focused is False:
            notify_desktop(found.desktop, screen.app.output, screen.options.environ)

    def post(self, notice_id: str, level: Level, title: str, text: str) -> None:
        """Put up one notice; its life begins now."""
        expires = self._screen.now() + self._screen.options.notice_seconds
        self.notices = received(self.notices, notice_id, level, title, text, expires)
        self._expire()

    def dismiss(self) -> None:
        self.notices = dismissed(self.notices)
        self._expire()

    def _expire(self) -> None:
        """Drop what is over and wake once for the next deadline; nothing is polled."""
        screen = self._screen
        self.notices = expired(self.notices, screen.now())
        if self._due is not None:
            self._due.cancel()
            self._due = None
        end = deadline(self.notices)
        if end is not None:
            self._due = asyncio.get_running_loop().call_later(max(end - screen.now(), 0.0) + 0.01, self._expire)
        screen.changed()
