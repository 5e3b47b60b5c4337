"""`fluzo` with clocks: `screen_child.py REPORT ARGUMENTS...` is the program, and writes what they read when it ends.

Times are taken around the frame (from its arranging to its last byte handed to the terminal) and along the way of an
update: published by the runtime, taken from the subscription, drawn. SIGUSR1 forgets what was read so far.
"""

import atexit
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fluzo.__main__ import run_process
from fluzo.core.port import Lagged
from fluzo.runtime.feed import Feed
from fluzo.screens.app import Screen
from fluzo.screens.frames import Frames
from fluzo.screens.link import Link
from fluzo.screens.motion import Motion

clock = time.perf_counter


class Readings:
    """What was read. Published times are kept by what an update is; a merged delta keeps the time of its first part."""

    def __init__(self) -> None:
        self.screen: Any = None
        self._published: dict[object, float] = {}
        self._undrawn: list[tuple[str, float]] = []
        self._begun = self._begun_cpu = 0.0
        self.forget()

    def forget(self, *_: object) -> None:
        self.lists: dict[str, list[float]] = {
            name: [] for name in ("frame", "frame_cpu", "event", "delta", "event_subscriber", "delta_subscriber")
        }
        self.lags = self.deltas = 0
        self.kinds: Counter[str] = Counter()
        self._since = clock()
        self._before = self._counters()
        if self.screen is not None and self.screen.link is not None:
            self.screen.link.high_water = 0

    def _counters(self) -> dict[str, int]:
        screen = self.screen
        if screen is None:
            return dict.fromkeys(("drawn", "painted", "skipped", "rendered"), 0)
        motion: Motion = screen.motion
        return {
            **{"drawn": screen.frames.drawn, "painted": motion.frames, "skipped": motion.skipped},
            "rendered": screen.renderer.rendered,
        }

    def publish(self, update: Any) -> None:
        self._published[_key(update)] = clock()
        self.deltas += _kind(update) == "delta"
        if hasattr(update, "payload"):
            self.kinds[_told(update.payload)] += 1

    def taken(self, update: Any) -> None:
        if isinstance(update, Lagged):
            self.lags += 1
        at = self._published.get(_key(update))
        if at is not None:
            self.lists[f"{_kind(update)}_subscriber"].append(clock() - at)

    def applied(self, update: Any) -> None:
        at = self._published.pop(_key(update), None)
        if at is not None:
            self._undrawn.append((_kind(update), at))

    def begin_frame(self) -> None:
        self._begun, self._begun_cpu = clock(), time.thread_time()

    def end_frame(self) -> None:
        now = clock()
        self.lists["frame_cpu"].append(time.thread_time() - self._begun_cpu)
        self.lists["frame"].append(now - self._begun)
        for kind, at in self._undrawn:
            self.lists[kind].append(now - at)
        self._undrawn.clear()

    def write(self, path: Path) -> None:
        counters = {name: value - self._before[name] for name, value in self._counters().items()}
        link = self.screen.link if self.screen is not None else None
        more = {"kinds": self.kinds, "lags": self.lags, "deltas": self.deltas, "seconds": clock() - self._since}
        waited = {"high_water": link.high_water if link else 0}
        path.write_text(json.dumps({**self.lists, **counters, **waited, **more}))


def _key(update: Any) -> object:
    if hasattr(update, "seq"):
        return update.seq
    return (type(update).__name__, getattr(update, "turn", ""), getattr(update, "offset", ""))


def _told(payload: Any) -> str:
    """What an event is, with the answer or the person in it."""
    more = getattr(payload, "answer", "") or getattr(payload, "by", "")
    return f"{type(payload).__name__} {more}".strip()


def _kind(update: Any) -> str:
    return "event" if hasattr(update, "seq") else "delta"


def attach(readings: Readings) -> None:
    """Put the clocks at the seams of the program."""
    before, after, deliver, apply = Frames.before, Frames.after, Link._deliver, Screen.apply
    publish, publish_live = Feed.publish, Feed.publish_live

    def timed_before(frames: Any, event: object) -> None:
        readings.screen = frames._screen
        readings.begin_frame()
        before(frames, event)

    def timed_after(frames: Any, event: object) -> None:
        after(frames, event)
        readings.end_frame()

    def timed_publish(feed: Any, events: Any) -> None:
        for event in events:
            readings.publish(event)
        publish(feed, events)

    def timed_publish_live(feed: Any, update: Any) -> None:
        readings.kinds[type(update).__name__] += 1
        if type(update).__name__ == "TextDelta":
            readings.publish(update)
        publish_live(feed, update)

    def timed_deliver(link: Any, port: Any, task_id: str, update: Any) -> None:
        readings.taken(update)
        deliver(link, port, task_id, update)

    def timed_apply(screen: Any, update: Any) -> None:
        state = screen.state
        apply(screen, update)
        if screen.state is not state:
            readings.applied(update)

    changes: dict[Any, dict[str, Any]] = {
        Frames: {"before": timed_before, "after": timed_after},
        Feed: {"publish": timed_publish, "publish_live": timed_publish_live},
        Link: {"_deliver": timed_deliver},
        Screen: {"apply": timed_apply},
    }
    for owner, methods in changes.items():
        for name, method in methods.items():
            setattr(owner, name, method)


def main() -> None:
    readings = Readings()
    attach(readings)
    signal.signal(signal.SIGUSR1, readings.forget)
    report = Path(sys.argv[1])
    atexit.register(lambda: readings.write(report))
    sys.argv = ["fluzo", *sys.argv[2:]]
    run_process()


if __name__ == "__main__":
    main()
