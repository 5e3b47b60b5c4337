"""The rows of the full screen: the installed program on a real terminal, its real runtime, a scripted model server.

`METHODS` says in words what each figure is. What is read from outside is the bytes of the terminal with the time they
were read; what the program's own clocks say comes from `screen_child.py`. No figure includes a terminal emulator.
"""

import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import screen_process as process
from measure import Figure, Row, Setting, interleave
from screen_program import HOLD, SIZES, model_server, open_newest_session, report, screen, workspace
from screen_typing import ECHO_KEYS_A_SAMPLE, Typist, echoes, ms
from terminal import FRAME_BEGIN, FRAME_END, Frame, Terminal, running

METHODS = {
    "screen start": "exec until a key typed at once is drawn in the composer, a new process each time, everything warm;"
    " the reference runs to its end",
    "frame": "from arranging a frame to its last byte handed to the terminal, by the program's own clock, with the"
    " session of 10,000 messages open and a task of it streaming; `on a processor` leaves out what its thread waited",
    "load": "lines of keys while the task streams: typed alone, away from the end and back, with pastes, with another"
    " size and back, with a card that is denied (once by its key, once on it) and a notice, with a request that is sent"
    " again, with a compaction, and with a cancel, after which no slot is free; stops when the draft was ever anything"
    " but what was typed, or anything was allowed",
    "echo": "from a key or a paste handed to the terminal to the last byte of the first frame that shows it being read"
    " from it; at random moments, 20 a second; idle also in two programs that only echo, lines in turn",
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


# --- idle -----------------------------------------------------------------------------------------------------


def idle(setting: Setting) -> Iterator[Figure]:
    seconds = max(setting.samples / 8, 3.0)
    with workspace(setting, "http://127.0.0.1:9/v1") as folder, screen(setting, folder, (160, 50)) as terminal:
        yield from _rest(terminal, "160x50", seconds)
        yield from _echoed(setting, terminal)
    with workspace(setting, "http://127.0.0.1:9/v1", history=True) as folder:
        for size in SIZES:
            with screen(setting, folder, size) as terminal:
                open_newest_session(terminal)
                yield from _rest(terminal, f"{_named(size)}, large", seconds)


def _echoed(setting: Setting, terminal: Terminal) -> Iterator[Figure]:
    """A line typed here and one in a program that only echoes, in turn: what disturbs the machine disturbs both."""
    program = [setting.python, Path(__file__).with_name("echo_reference.py")]
    environ = {"HOME": str(setting.home)}
    with (
        running([*program, "toolkit"], setting.home, environ, 160, 50) as toolkit,
        running([*program, "terminal"], setting.home, environ, 160, 50) as bare,
    ):
        for reference in (toolkit, bare):
            reference.wait_for(FRAME_END)
            reference.quiet(0.7)
        typists = [Typist(typed, setting.samples) for typed in (terminal, toolkit, bare)]
        own, first, second = typists
        while len(own.keys) < setting.samples * ECHO_KEYS_A_SAMPLE // 2:
            for typist in (own, first, own, own, second, own):
                typist.type_line({})
        taken = [echoes(typist) for typist in typists]
    yield Figure("echo, idle", "160x50", "ms", ms(taken[0]), [(95, 5.0)])
    yield Figure("echo, idle", "toolkit alone", "ms", ms(taken[1]))
    yield Figure("echo, idle", "terminal alone", "ms", ms(taken[2]))


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
    yield Figure("open 10,000 messages", "160x50", "ms", ms(samples))
    yield Figure("page back", "160x50", "ms", ms(paged))
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
    with model_server() as server, workspace(setting, server.url) as folder:
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
