"""The row of the load: a task streams while somebody types, and everything else happens that can happen to a screen.

Invariant: what is measured is what a person at the keyboard meets, and no key is left out of it: each that is typed and
each paste has its echo, whatever else goes on. The row fails when the draft was ever anything but what was typed, when
what was asked for was not denied, or when anything was allowed.
"""

import itertools
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import screen_process as process
from measure import Figure, Setting
from screen_program import SIZES, ModelServer, model_server, open_newest_session, report, screen, workspace
from screen_server import COMMAND
from screen_typing import ECHO_KEYS_A_SAMPLE, LINE, REST_SECONDS, Typist, echoes, ms
from terminal import Terminal

from fluzo.screens.chips import Chip, label, whole_text
from fluzo.screens.drafts import read_drafts

CANCEL, PAGE_UP, TO_THE_END, DENY = "\x03", "\x1b[5~", "\x1b[1;5F", "\x1bn"
SHORT_PASTE = "(pasted)"
LONG_PASTE = "\n".join(f"line {number} of a paste" for number in range(1, 41))
LONG_PASTE_SHOWN = label(Chip("paste", LONG_PASTE, 1))
PROMPT, FREE_SLOTS = "Go on.\r", "/slots free\r"
HAPPENED = {
    "PermissionAnswered deny": "denied",
    "ContextCompacted": "compacted",
    "CancelRequested user": "cancelled",
    "CapacityReset user": "slots freed",
    "RetryProgress": "sent again",
}
CARD = b"UNSANDBOXED"
"""What only a card says."""
CANCEL_SECONDS = CARD_SECONDS = 0.6
"""Longer than a card that has just got the keyboard listens to nothing."""


def load(setting: Setting) -> Iterator[Figure]:
    for size in reversed(SIZES):
        yield from _under_load(setting, size)


def _under_load(setting: Setting, size: tuple[int, int]) -> Iterator[Figure]:
    where = f"{size[0]}x{size[1]}"
    with model_server() as server, workspace(setting, server.url, history=True) as folder:
        with screen(setting, folder, size, timed=True) as terminal:
            open_newest_session(terminal)
            terminal.send(PROMPT)
            terminal.read_for(2.0)
            terminal.process.send_signal(signal.SIGUSR1)
            typist = Typist(terminal, setting.samples)
            lines = _happenings(typist, server, size)
            for number in itertools.count():
                if number >= len(lines) and len(typist.keys) >= setting.samples * ECHO_KEYS_A_SAMPLE:
                    break
                lines[number % len(lines)]()
            typist.type_line({10: partial(typist.paste, LONG_PASTE, LONG_PASTE_SHOWN)}, keep=True)
            peak = process.peak_bytes(terminal.process.pid) / 1e6
            terminal.leave()
        readings = report(folder)
        drafts, newest = read_drafts(folder / ".fluzodrive")
        ran = (folder / COMMAND[-1]).exists()
        note = _checked(readings["kinds"], (whole_text(drafts[newest]), typist.typed), ran=ran)
    yield from _figures(readings, where, echoes(typist), note, peak)


def _happenings(typist: Typist, server: ModelServer, size: tuple[int, int]) -> list[Callable[[], None]]:
    """A line each: typed by itself, and with all that may happen meanwhile."""
    terminal, line = typist.terminal, typist.type_line
    other = (size[0] - 20, size[1] - 6) if size != SIZES[0] else (size[0] + 10, size[1] + 4)
    away, back = partial(terminal.send, 3 * PAGE_UP), partial(terminal.send, TO_THE_END)
    short, long = partial(typist.paste, SHORT_PASTE, SHORT_PASTE), partial(typist.paste, LONG_PASTE, LONG_PASTE_SHOWN)
    card = _Asked(terminal, server)
    return [
        partial(line, {}),
        partial(line, {8: away, 30: back}),
        partial(line, {10: short, 25: long}),
        partial(line, {8: partial(terminal.resize, *other), 28: partial(terminal.resize, *size)}),
        # Away from the end a notice tells of the card as well.
        partial(line, {0: card.ask, 2: away, 38: back, LINE: card.deny}),
        partial(line, {0: card.ask, LINE: card.deny_on_it}),
        partial(line, {0: partial(server.want, "fail")}),
        partial(line, {0: partial(server.want, "full")}),
        partial(_cancelled, typist),
    ]


class _Asked:
    """A card that comes while somebody types, and is answered when the line is done: no, by either way."""

    def __init__(self, terminal: Terminal, server: ModelServer) -> None:
        self._terminal = terminal
        self._server = server
        self._from = 0

    def ask(self) -> None:
        self._from = len(self._terminal.chunks)
        self._server.want("ask")

    def deny(self) -> None:
        self._wait()
        self._press(DENY)

    def deny_on_it(self) -> None:
        self._wait()
        self._press("\t")
        self._press("1")
        self._press("\r")

    def _press(self, keys: str) -> None:
        self._terminal.send(keys)
        self._terminal.read_for(CARD_SECONDS)

    def _wait(self) -> None:
        end = time.perf_counter() + 30.0
        while CARD not in self._terminal.bytes_from(self._from):
            if time.perf_counter() > end:
                raise SystemExit("no card came")
            self._terminal.read_for(REST_SECONDS)


def _cancelled(typist: Typist) -> None:
    """The task is cancelled over a draft. The next one finds no slot, for nobody knows what the server still does."""

    def press(keys: str) -> None:
        typist.terminal.send(keys)
        typist.terminal.read_for(CANCEL_SECONDS)

    typist.type_line({LINE: partial(press, CANCEL)})
    for keys in (PROMPT, FREE_SLOTS, PROMPT):
        press(keys)


def _checked(kinds: Mapping[str, int], draft: tuple[str, str], *, ran: bool) -> str:
    """What the run showed of the draft, as it was kept, and of what was asked for. Stops it when that is not right."""
    kept, typed = draft
    if kept != typed:
        raise SystemExit(f"the draft is not what was typed: {kept!r}")
    asked, denied = kinds.get("PermissionRequested", 0), kinds.get("PermissionAnswered deny", 0)
    allowed = sum(number for kind, number in kinds.items() if kind.startswith("PermissionAnswered")) - denied
    if allowed or ran or kinds.get("GrantCreated") or asked != denied:
        raise SystemExit(f"{asked} asked for, {denied} denied, {allowed} allowed, ran: {ran}: {dict(kinds)}")
    if missing := [words for kind, words in HAPPENED.items() if not kinds.get(kind)]:
        raise SystemExit(f"not {', not '.join(missing)}: {dict(kinds)}")
    happened = ", ".join(f"{kinds[kind]} {words}" for kind, words in HAPPENED.items())
    return f"the draft held what was typed; {happened}, nothing was allowed"


def _figures(readings: dict[str, Any], where: str, echo: Sequence[float], note: str, peak: float) -> Iterator[Figure]:
    seconds = readings["seconds"]
    yield Figure("frame", where, "ms", ms(readings["frame"]), [(95, 16.7)])
    yield Figure("frame, on a processor", where, "ms", ms(readings["frame_cpu"]))
    yield Figure("echo under load", where, "ms", ms(echo), [(95, 50.0), (99, 100.0)], note)
    yield Figure("delivery of an event", where, "ms", ms(readings["event"]))
    yield Figure("delivery of a delta", where, "ms", ms(readings["delta"]))
    yield Figure("event to subscriber", where, "ms", ms(readings["event_subscriber"]), [(95, 10.0)])
    yield Figure("inbox high water", where, "updates", [readings["high_water"]])
    yield Figure("deltas a second", where, "", [readings["deltas"] / seconds])
    yield Figure("events a second", where, "", [len(readings["event_subscriber"]) / seconds])
    yield Figure("frames a second", where, "", [readings["drawn"] / seconds])
    yield Figure("peak memory", where, "MB", [peak])
