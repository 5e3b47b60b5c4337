"""The rows of the full screen: the installed program on a real terminal, its real runtime, a scripted model server.

`METHODS` says in words what each figure is. What is read from outside is the bytes of the terminal with the time they
were read; what the program's own clocks say comes from `screen_child.py`. No figure includes a terminal emulator.
"""

import random
import signal
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import screen_process as process
from measure import Figure, Row, Setting, interleave
from screen_program import HOLD, SIZES, model_server, open_newest_session, report, screen, workspace
from terminal import FRAME_BEGIN, FRAME_END, Frame, Terminal, running

METHODS = {
    "screen start": "exec until a key typed at once is drawn in the composer, a new process each time, everything warm;"
    " the reference runs to its end",
    "frame": "from arranging a frame to its last byte handed to the terminal, by the program's own clock, with the"
    " session of 10,000 messages open and a task of it streaming; `on a processor` leaves out what its thread waited",
    "echo": "from a key handed to the terminal to the last byte of the first frame that shows it being read from it;"
    " keys at random moments, 20 a second",
    "delivery": "from an update published by the runtime to the last byte of the frame that shows it; merged deltas"
    " count from the oldest of them; only updates that change what is shown",
    "subscriber": "from an update published by the runtime to its being taken from the subscription",
    "inbox": "most updates that ever waited between the runtime's side and the screen's loop, of 2,048 at most",
    "idle": "after two seconds of rest: frames and bytes written, time on a processor of all threads, resident memory;"
    " MB are 1,000,000 bytes",
    "peak memory": "the most resident memory of the process up to the end of the load",
    "open": "from Enter in the list of sessions to the frame with the last page of 10,000 messages",
    "page back": "from Page Up to the last byte of the first frame after it, over several pages of the store",
    "mark": "a task waits for its model: time on a processor of the whole process, bytes of the whole screen, marks"
    " painted and marks left out because they came too late; at 80 columns it is the five letters of the header",
}
ECHO_KEYS_A_SAMPLE = 25
KEYS_A_SECOND = 20
LINE = 60
REST_SECONDS = 0.3
CLEAR = "\x15"
ALPHABETS = (ascii_lowercase * 3, ascii_uppercase * 3)
TYPED = "\N{SECTION SIGN}"
REFERENCE = "from prompt_toolkit.application import Application"
RATES = (("60 fps", 60), ("30 fps", 30), ("15 fps", 15), ("0 fps", 0), ("reduced", 60))


def start(setting: Setting) -> Row:
    fluzo = setting.python.with_name("fluzo")
    samples = setting.samples * 5 // 2  # PRD 49.1 wants a hundred.
    with workspace(setting, "http://127.0.0.1:9/v1") as folder:

        def typed_ahead() -> None:
            with running([fluzo], folder, {"HOME": str(setting.home)}, 120, 40) as terminal:
                terminal.send(TYPED)
                terminal.wait_for(b"\x1b[?1049h")
                shown = terminal.bytes_from()
                if TYPED.encode() not in shown.partition(b"\x1b[?1049h")[2]:
                    terminal.wait_for(TYPED.encode())

        taken = interleave(typed_ahead, setting.process(setting.python, "-c", REFERENCE), samples)
    return Row("screen start", "import Application", 1.4, *taken)


# --- under load -----------------------------------------------------------------------------------------------


def load(setting: Setting) -> Iterator[Figure]:
    for size in reversed(SIZES):
        yield from _under_load(setting, size)


def _under_load(setting: Setting, size: tuple[int, int]) -> Iterator[Figure]:
    where = _named(size)
    with model_server() as url, workspace(setting, url, history=True) as folder:
        with screen(setting, folder, size, timed=True) as terminal:
            open_newest_session(terminal)
            terminal.send("Go on.\r")
            terminal.read_for(2.0)
            terminal.process.send_signal(signal.SIGUSR1)
            pressed = _type(terminal, setting.samples * ECHO_KEYS_A_SAMPLE)
            peak = process.peak_bytes(terminal.process.pid) / 1e6
            terminal.leave()
        readings = report(folder)
    frame_limit, echo_limits = [(95, 16.7)], [(95, 50.0), (99, 100.0)]
    yield Figure("frame", where, "ms", _ms(readings["frame"]), frame_limit)
    yield Figure("frame, on a processor", where, "ms", _ms(readings["frame_cpu"]))
    yield Figure("echo under load", where, "ms", _ms(_echoes(terminal, pressed)), echo_limits)
    yield Figure("delivery of an event", where, "ms", _ms(readings["event"]))
    yield Figure("delivery of a delta", where, "ms", _ms(readings["delta"]))
    yield Figure("event to subscriber", where, "ms", _ms(readings["event_subscriber"]), [(95, 10.0)])
    yield Figure("inbox high water", where, "updates", [readings["high_water"]])
    yield Figure("deltas a second", where, "", [readings["deltas"] / readings["seconds"]])
    yield Figure("events a second", where, "", [len(readings["event_subscriber"]) / readings["seconds"]])
    yield Figure("frames a second", where, "", [readings["drawn"] / readings["seconds"]])
    yield Figure("peak memory", where, "MB", [peak])


def _type(terminal: Terminal, keys: int) -> list[tuple[float, int, int]]:
    """Type lines of letters and clear each; when each letter was pressed, with its line and place."""
    pressed: list[tuple[float, int, int]] = []
    when = time.perf_counter()
    source = random.Random(keys)
    for number in range(keys):
        line, place = divmod(number, LINE)
        when += source.uniform(0.5, 1.5) / KEYS_A_SECOND
        terminal.read_until(when)
        if place == 0:
            when += REST_SECONDS  # So that the last key is seen, and the line is empty before it is written in again.
            terminal.read_until(when)
            terminal.send(CLEAR)
            when += REST_SECONDS
            terminal.read_until(when)
        pressed.append((terminal.send(ALPHABETS[line % 2][place]), line, place))
    terminal.read_for(1.0)
    return pressed


def _echoes(terminal: Terminal, pressed: Sequence[tuple[float, int, int]]) -> list[float]:
    """Seconds from each key to the frame that first shows it."""
    found: list[float] = []
    frames = terminal.frames()
    frame = next(frames)
    for at, line, place in pressed:
        wanted = ALPHABETS[line % 2][: place + 1]
        while frame.at < at or not _composed(frame).startswith(wanted):
            if (following := next(frames, None)) is None:
                raise SystemExit(f"the key {wanted[-1]!r} of line {line} was never shown")
            frame = following
        found.append(frame.at - at)
    return found


def _composed(frame: Frame) -> str:
    """What stands in the composer."""
    row = next((row for row in reversed(frame.rows) if row.startswith("> ")), "")
    return row[2:].partition(" ")[0]


# --- idle -----------------------------------------------------------------------------------------------------


def idle(setting: Setting) -> Iterator[Figure]:
    seconds = max(setting.samples / 8, 3.0)
    with workspace(setting, "http://127.0.0.1:9/v1") as folder, screen(setting, folder, (160, 50)) as terminal:
        yield from _rest(terminal, "160x50", seconds)
        pressed = _type(terminal, setting.samples * ECHO_KEYS_A_SAMPLE // 2)
        echoes = _echoes(terminal, pressed)
    yield Figure("echo, idle", "160x50", "ms", _ms(echoes), [(95, 5.0)])
    with workspace(setting, "http://127.0.0.1:9/v1", history=True) as folder:
        for size in SIZES:
            with screen(setting, folder, size) as terminal:
                open_newest_session(terminal)
                yield from _rest(terminal, f"{_named(size)}, large", seconds)


def _rest(terminal: Terminal, where: str, seconds: float) -> Iterator[Figure]:
    terminal.read_for(2.0)
    first, pid = len(terminal.chunks), terminal.process.pid
    used = process.cpu_seconds(pid)
    terminal.read_for(seconds)
    share = (process.cpu_seconds(pid) - used) / seconds * 100
    written = terminal.bytes_from(first)
    yield Figure("idle frames", where, "", [written.count(FRAME_BEGIN)], [(100, 0)])
    yield Figure("idle bytes", where, "", [len(written)], [(100, 0)])
    yield Figure("idle processor", where, "%", [share], [(100, 0.2)])
    yield Figure("idle memory", where, "MB", [process.resident_bytes(pid) / 1e6], [(100, 70.0)])


# --- the large history ----------------------------------------------------------------------------------------


def history(setting: Setting) -> Iterator[Figure]:
    opened: list[float] = []
    paged: list[float] = []
    with workspace(setting, "http://127.0.0.1:9/v1", history=True) as folder:
        with screen(setting, folder, (160, 50)) as terminal:
            for _ in range(max(setting.samples // 2, 3)):
                terminal.send("\x1bOQ")
                terminal.quiet(0.4)
                at = terminal.send("\r")
                terminal.quiet(0.4)
                opened.append(at)
            for _ in range(setting.samples * 5):
                at = terminal.send("\x1b[5~")
                paged.append(terminal.wait_for(FRAME_END) - at)
                terminal.quiet(0.03)
            peak = process.peak_bytes(terminal.process.pid) / 1e6
        shown = [frame.at for frame, before in _with_before(terminal) if _is_conversation(frame, before)]
    samples = [next(when for when in shown if when > at) - at for at in opened]
    yield Figure("open 10,000 messages", "160x50", "ms", _ms(samples))
    yield Figure("page back", "160x50", "ms", _ms(paged))
    yield Figure("peak memory", "160x50, paged", "MB", [peak])


def _with_before(terminal: Terminal) -> Iterator[tuple[Frame, Frame]]:
    yield from ((frame, before) for before, frame in pairwise(terminal.frames()))


def _is_conversation(frame: Frame, before: Frame) -> bool:
    """The frame in which the conversation took the place of the list."""
    text = "\n".join(frame.rows)
    return "return merged" in text and " Sessions " not in text and frame.rows != before.rows


# --- the mark -------------------------------------------------------------------------------------------------


def mark(setting: Setting) -> Iterator[Figure]:
    seconds = max(setting.samples / 13, 2.0)
    with model_server() as url, workspace(setting, url) as folder:
        for size in SIZES:
            for name, fps in RATES:
                yield from _marked(setting, folder, size, (name, fps), seconds)


def _marked(
    setting: Setting, folder: Path, size: tuple[int, int], rate: tuple[str, int], seconds: float
) -> Iterator[Figure]:
    name, fps = rate
    where = f"{_named(size)}, {name}"
    arguments = ("--animation-fps", str(fps))
    with screen(setting, folder, size, *arguments, timed=True, reduced=name == "reduced") as terminal:
        terminal.send(f"{HOLD}\r")
        terminal.read_for(1.5)
        terminal.process.send_signal(signal.SIGUSR1)
        first, used = len(terminal.chunks), process.cpu_seconds(terminal.process.pid)
        terminal.read_for(seconds)
        share = (process.cpu_seconds(terminal.process.pid) - used) / seconds * 100
        written = terminal.size_from(first)
        terminal.leave()
    readings: dict[str, Any] = report(folder)
    painted, left_out = (readings[name] / readings["seconds"] for name in ("painted", "skipped"))
    note = f"{written / seconds / 1000:.1f} kB/s, {painted:.1f} marks/s, {left_out:.1f} left out/s"
    yield Figure("mark, on a processor", where, "%", [share], note=note)


def _named(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _ms(seconds: Sequence[float]) -> list[float]:
    return [value * 1000 for value in seconds]
