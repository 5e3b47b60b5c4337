import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prompt_toolkit.utils import get_cwidth
from support.screen import KEYS, SIZES, ScriptedUser, user_at

_PROGRAM = """
import sys
hosts = open(sys.argv[1], "a", buffering=1)
def heard(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo"):
        address = args[0] if event == "socket.getaddrinfo" else args[1]
        hosts.write(f"{address[0] if isinstance(address, tuple) else address}\\n")
sys.addaudithook(heard)
from fluzo.commands.demo_screen import show
from fluzo.commands.options import GlobalOptions
sets = {"tools.shell.termination_grace_seconds": "0.5"}
sys.exit(show(GlobalOptions(sets=sets), keep=False, pace_seconds=float(sys.argv[2])))
"""


@contextmanager
def demo(where: Path, columns: int = 80, rows: int = 24, pace: float = 0.0) -> Iterator[ScriptedUser]:
    """The interactive demo, its answers at once or at a pace, in a folder that has no settings."""
    temporary = where / "tmp"
    temporary.mkdir()
    program = (sys.executable, "-c", _PROGRAM, str(where / "hosts"), str(pace))
    env = {**os.environ, "TMPDIR": str(temporary)}
    with user_at(cwd=where, env=env, columns=columns, rows=rows, program=program) as user:
        user.sees("/demo: the scenes of this demo")
        user.sees("idle")
        user.sees_no("opening")
        yield user
        if user.runs:
            user.signals(signal.SIGTERM)
            assert user.leaves() == 128 + signal.SIGTERM
    assert contents(temporary) == []
    assert set((where / "hosts").read_text().split()) == {"127.0.0.1"}


def begins(user: ScriptedUser, number: int) -> None:
    """Choose a scene once the one before it is over."""
    user.sees_match(r"(?m)\b(idle|done|blocked|failed|cancelled)\b( UNSANDBOXED)?(  |$)")
    user.types(f"/demo {number}\r")


def columns_of(row: str) -> int:
    """The cell at which the bar at the end of a row stands."""
    return int(get_cwidth(row.partition("|")[0]))


def contents(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def leaves(user: ScriptedUser) -> int:
    user.quits()
    return user.leaves()


@pytest.mark.parametrize(("columns", "rows"), [*SIZES, (60, 16)])
def test_the_demo_says_what_it_is_at_every_size_and_leaves_nothing_behind(
    tmp_path: Path, isolation: Path, columns: int, rows: int
) -> None:
    before = contents(isolation)
    (tmp_path / ".fluzo").write_text("not for the demo")
    with demo(tmp_path, columns, rows) as user:
        user.shows(lambda: user.rows[-1].startswith(" DEMO "))
        user.types("hello, who are you?")
        user.sees("> hello, who are you?")
        user.presses("enter")
        user.sees("/demo lists the scenes")
        user.sees("done")
        user.types("/demo\r")
        user.sees("An answer that streams")
        user.shows(lambda: user.rows[-1].startswith(" DEMO "))
        user.presses("esc")
        user.sees_no("An answer that streams")
        user.resizes(50, 12)
        user.sees("FLUZO DEMO")
        user.resizes(columns, rows)
        user.sees("Type a task")
        user.shows(lambda: user.rows[-1].startswith(" DEMO "))
        assert leaves(user) == 0
    assert contents(tmp_path) == [".fluzo", "hosts", "tmp"]
    assert (tmp_path / ".fluzo").read_text() == "not for the demo"
    assert contents(isolation) == before


def test_it_is_begun_by_the_list_and_streams_and_opens_its_rows(tmp_path: Path) -> None:
    with demo(tmp_path, pace=0.02) as user:
        user.presses("f7")
        user.sees("1  An answer that streams")
        user.sees("Ctrl+End follows again")
        user.presses("enter")
        user.sees("running")
        user.sees("█")
        user.sees("done in")
        user.sees("5 lies between them")
        user.presses("f7")
        user.sees(">  2  Tool rows")
        user.presses("enter")
        user.sees("there is no file missing.py")
        user.sees("done in")
        user.types("/open-all\r")
        user.sees("✗ read   missing.py")
        user.types("/open-all\r")
        user.sees("│ plan updated")


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_every_permission_waits_for_the_person(tmp_path: Path, columns: int, rows: int) -> None:
    with demo(tmp_path, columns, rows) as user:
        begins(user, 3)
        user.sees("Permission 1 of 1: run a shell command")
        user.sees("Nothing is chosen")
        user.sees("waiting")
        user.sees("UNSANDBOXED")
        user.chooses(3)
        user.presses("enter")
        user.sees("done in")
        user.sees("allowed for task")
        begins(user, 4)
        user.sees("Permission 1 of 1: run a shell script")
        user.sees('echo "build is empty now"')
        user.presses("alt-n")
        user.sees("the folder is as it was.")
        user.sees("done in")
        begins(user, 5)
        user.sees("Permission 1 of 1: edit a file")
        user.sees("+Intervals that touch become one.")
        user.chooses(2)
        user.presses("enter")
        user.sees("Your own line is untouched.")
        user.sees("done in")


def test_a_question_a_repair_and_a_claim_come_to_their_ends(tmp_path: Path) -> None:
    with demo(tmp_path) as user:
        begins(user, 6)
        user.sees("Which Python should the README name?")
        user.sees("Nothing is chosen")
        user.types("/answer none of them\r")
        user.sees("What else should it say?")
        user.sees("[ ] who wrote it")
        user.types("/answer 1,3\r")
        user.sees("nothing is changed")
        user.sees("done in")
        begins(user, 7)
        user.sees("1 file +1 -1")
        user.presses("f5")
        user.sees("view: unified")
        user.sees_match(r"\+ +if merged and interval.start <= merged\[-1\].end:")
        user.presses("esc")
        user.sees_no("view: unified")
        begins(user, 8)
        user.sees("[verification_failed]")
        user.shows(lambda: "failed" in user.rows[0])


def test_yolo_is_the_persons_act_and_ends_with_its_scene(tmp_path: Path) -> None:
    with demo(tmp_path) as user:
        begins(user, 9)
        user.sees("Permission 1 of 1")
        user.types("/yolo yolo\r")
        user.sees("Those were the three.")
        user.sees("done")
        user.shows(lambda: "auto" in user.row("'two'"))
        user.shows(lambda: "DEMO  YOLO" in user.rows[-1].replace("DEMO   YOLO", "DEMO  YOLO"))
        begins(user, 3)
        user.sees("Permission 1 of 1")
        user.shows(lambda: "YOLO" not in user.rows[-1])
        user.presses("alt-n")
        user.sees("You denied the command")


def test_a_task_is_queued_to_cancelled_and_slow_to_stop(tmp_path: Path) -> None:
    with demo(tmp_path, pace=0.05) as user:
        begins(user, 10)
        user.sees("1, 2, 3")
        user.types("and this\r")
        user.sees("1 queued")
        user.presses("ctrl-c")
        user.sees("cancelled")
        user.sees("> and this")
        user.presses("backspace", *["backspace"] * 7)
        user.sees("Type a task")
        begins(user, 11)
        user.sees("Permission 1 of 1")
        user.chooses(2)
        user.presses("enter")
        user.sees("asking me to end does nothing")
        user.presses("ctrl-c")
        user.sees("Cancelled by you")
        user.sees("was killed")
        user.shows(lambda: "cancelled" in user.rows[0])


def test_what_was_cut_off_is_read_and_goes_on_by_an_act_of_its_own(tmp_path: Path) -> None:
    with demo(tmp_path) as user:
        begins(user, 12)
        user.sees("Bring the history up to date.")
        user.presses("enter")
        user.sees("recovered: Fluzo stopped here")
        user.sees("outcome unknown; not run again")
        user.shows(lambda: "recovered" in user.rows[0])
        user.types("/resume\r")
        user.picks(2)
        user.presses("enter")
        user.sees("I do not repeat what may have been done.")
        user.sees("done in")


def test_a_conversation_is_compacted_and_a_task_reaches_its_limit(tmp_path: Path) -> None:
    with demo(tmp_path) as user:
        begins(user, 13)
        user.sees("compacted ~")
        user.sees("done in")
        begins(user, 14)
        user.sees("Limit reached: max_turns, 8 of 8 used.")
        user.shows(lambda: "blocked" in user.rows[0])
        user.types("/resume\r")
        user.sees("max_turns: 8 of 8 turns are used up")
        user.sees("Resume with the limit raised to 16 turns")
        user.sees("Nothing is chosen")
        user.picks(1)
        user.presses("enter")
        user.sees_no("Resume with the limit")
        user.types("/resume\r")
        user.picks(2)
        user.presses("enter")
        user.sees("max_turns 8 -> 16")
        user.sees("All of them are read now")
        user.sees("done in")


@pytest.mark.parametrize(
    ("number", "code"), [(15, "provider"), (16, "provider_unavailable"), (17, "rate_limited"), (18, "provider")]
)
def test_a_failing_server_blocks_the_task_and_says_why(tmp_path: Path, number: int, code: str) -> None:
    with demo(tmp_path) as user:
        begins(user, number)
        user.sees(f"[{code}")
        user.sees("blocked")
        user.shows(lambda: "blocked" in user.rows[0])
        user.types("still here")
        user.sees("> still here")


def test_hostile_text_is_shown_and_acts_on_nothing(tmp_path: Path) -> None:
    with demo(tmp_path) as user:
        begins(user, 19)
        user.sees("Permission 1 of 1")
        user.sees("safe<U+202E>txt.exe")
        user.presses("alt-n")
        user.sees("showed the hidden character by its number")
        assert b"\x1b]52;c;aGk=" not in user.raw
        assert b"\x1b]0;owned" not in user.raw
        assert "\u202e".encode() not in user.raw


def test_an_end_while_looking_elsewhere_is_a_notice(tmp_path: Path) -> None:
    with demo(tmp_path, pace=0.01) as user:
        user.types("/demo 20\r" + KEYS["f4"])  # At once: an end before the person's eyes is no notice.
        user.sees("done: checked")
        user.presses("esc")
        user.sees_no("Enter look")
        user.types("\x1b[20~")
        user.sees("Notices")
        user.sees("Think for a while, then answer.: done")


def test_made_up_things_say_so(tmp_path: Path) -> None:
    with demo(tmp_path, 120, 40) as user:
        begins(user, 21)
        user.sees("Made up: a long one")
        user.sees("F9")
        begins(user, 23)
        user.sees("Width card")
        user.waits_for(lambda: len({columns_of(row) for row in user.rows if " cells" in row}) == 1)
        user.presses("esc")
        user.sees_no("Width card")
        begins(user, 22)
        user.sees("MADE UP")
        user.sees("60 frames per second")
        for key, said in (("3", "30 frames"), ("1", "15 frames"), ("0", "0 frames"), ("r", "reduced motion")):
            user.types(key)
            user.sees(f"{said}")
        user.presses("down", "down")
        user.sees(" > waiting")
        user.presses("esc")
        user.sees("idle")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_directory_and_no_server(tmp_path: Path, number: int) -> None:
    with demo(tmp_path, pace=0.02) as user:
        begins(user, 10)
        user.sees("1, 2, 3")
        user.signals(number)
        assert user.leaves() == 128 + number
