import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.project import call, make_project, say, scripted
from support.screen import SIZES, user_at

from fluzo.simulator.server import Simulator

TOUCH = ["python3", "-c", "open('ran', 'a').write('x')"]
at_every_size = pytest.mark.parametrize(("columns", "rows"), SIZES)


def held(before: str, name: str, after: str) -> dict[str, object]:
    """An answer that stops in its middle until the test lets it go on."""
    return {"respond": {"parts": [{"text": before}, {"hold": name}, {"text": after}]}}


@at_every_size
def test_a_prompt_gets_its_answer_while_it_streams(tmp_path: Path, columns: int, rows: int) -> None:
    with Simulator(scripted(held("The first half", "gate", " and the **second** half."))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task, @file or /command")
            user.types("tell me")
            user.sees("> tell me")
            user.presses("enter")
            user.sees("The first half█")
            user.sees("running")
            simulator.release("gate")
            user.sees("The first half and the second half.")
            user.sees("done in")
            user.shows(lambda: user.row("▎").startswith("▎ tell me"))
            assert ("█▀▀▀▀" in user.screen) == (columns >= 112)
            assert ("FLUZO" in user.rows[0]) == (columns < 112)
            user.quits()
            assert user.leaves() == 0


@at_every_size
def test_an_approval_is_typed_around_and_then_given_by_two_acts(tmp_path: Path, columns: int, rows: int) -> None:
    steps = (call("run", {"argv": TOUCH}), say("All done.", any_contains=["also the export"]))
    with Simulator(scripted(*steps)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            user.types("go\r")
            user.sees("Permission 1 of 1: run a shell command")
            user.types("also the export 123")
            user.sees("> also the export 123")
            user.presses("enter")
            user.sees("1 queued")
            user.sees("UNSANDBOXED")
            user.sees("Nothing is chosen")
            assert not (project.root / "ran").exists()
            user.chooses(2)
            assert not (project.root / "ran").exists()
            user.presses("enter")
            user.sees("All done.")
            user.shows(lambda: "allowed once" in user.row("python3 -c"))
            assert (project.root / "ran").read_text() == "x"
            user.sees("▎ also the export 123")
            user.sees_no("1 queued")
        assert simulator.finish() == []


def test_what_stands_in_the_card_is_exact(tmp_path: Path) -> None:
    argv = ["printf", "%s", "a b\u202etxt.exe"]
    with Simulator(scripted(call("run", {"argv": argv}), say("done"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        env = {**os.environ, "HOME": str(tmp_path)}
        shutil.copytree(Path(os.environ["HOME"]), tmp_path, dirs_exist_ok=True)
        with user_at(cwd=project.root, env=env, columns=120, rows=40) as user:
            user.sees("Type a task")
            user.types("go\r")
            user.sees("Permission 1 of 1")
            user.shows(lambda: "run       printf %s 'a b<U+202E>txt.exe'" in user.row("│ run "))
            user.shows(lambda: "cwd       ~/p " in user.row("│ cwd "))
            user.shows(lambda: "these 3 arguments exactly, this folder" in user.row("│ scope "))
            user.shows(lambda: "! UNSANDBOXED: runs as you; can write any file, use network" in user.row("│ reach "))
            user.shows(lambda: 'task "go", turn 1' in user.row("│ asked by "))


@at_every_size
def test_a_denial_is_one_key_from_anywhere_and_runs_nothing(tmp_path: Path, columns: int, rows: int) -> None:
    steps = (call("run", {"argv": TOUCH}), say("I see.", last_contains=["denied"]))
    with Simulator(scripted(*steps)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            user.types("go\r")
            user.sees("Permission 1 of 1")
            user.types("draft")
            user.presses("alt-n")
            user.sees("I see.")
            user.shows(lambda: "denied" in user.row("python3 -c"))
            user.sees("> draft")
        assert simulator.finish() == []
    assert not (project.root / "ran").exists()


def test_a_change_shows_its_diff_before_it_is_approved(tmp_path: Path) -> None:
    edit = {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"}
    steps = (call("read_file", {"path": "sheep.py"}, "c1"), call("edit_file", edit, "c2"), say("Changed."))
    with Simulator(scripted(*steps)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more='[policy]\nedit = "ask"\n')
        with user_at(cwd=project.root, env=os.environ, columns=120, rows=40) as user:
            user.sees("Type a task")
            user.types("count them\r")
            user.sees("Permission 1 of 1: edit a file")
            user.shows(lambda: "edit      sheep.py" in user.row("│ edit "))
            user.sees("+COUNT = 2")
            user.sees("-COUNT = 1")
            assert (project.root / "sheep.py").read_text() == "COUNT = 1\n"
            user.chooses(3)
            user.presses("enter")
            user.sees("Changed.")
            assert (project.root / "sheep.py").read_text() == "COUNT = 2\n"


@at_every_size
def test_cancelling_stops_the_task_and_gives_queued_messages_back(tmp_path: Path, columns: int, rows: int) -> None:
    with Simulator(scripted(held("Thinking aloud", "gate", ""))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            user.types("go\r")
            user.sees("Thinking aloud")
            user.types("and this\r")
            user.sees("1 queued")
            user.presses("ctrl-c")
            user.sees("Cancelled by you")
            user.sees("> and this")
            user.sees("cancelled")
            user.sees_no("1 queued")


@at_every_size
def test_a_queued_message_is_taken_back_into_the_composer(tmp_path: Path, columns: int, rows: int) -> None:
    with Simulator(scripted(held("Thinking aloud", "gate", " to the end."))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            user.types("go\r")
            user.sees("Thinking aloud")
            user.types("not this\r")
            user.sees_match("not this +queued")
            user.presses("alt-up")
            user.sees("> not this")
            user.sees_no("1 queued")
            simulator.release("gate")
            user.sees("done in")
        assert simulator.finish() == []


def test_resizing_while_an_answer_streams_keeps_everything(tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(60))
    with Simulator(scripted(held(words, "gate", " and the end."))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ, columns=160, rows=50) as user:
            user.sees("Type a task")
            user.types("go\r")
            user.sees("word59█")
            user.types("a draft")
            user.resizes(80, 24)
            user.sees("FLUZO  ·")
            user.sees("word59█")
            user.resizes(50, 12)
            user.sees("Too small: 50x12. Needs 60x16.")
            user.types(" kept")
            user.resizes(120, 40)
            user.sees("> a draft kept")
            simulator.release("gate")
            user.sees("the end.")
            assert all(len(row) <= 120 for row in user.rows)


@at_every_size
def test_yolo_is_switched_on_by_a_typed_word_asks_nothing_and_is_switched_off(
    tmp_path: Path, columns: int, rows: int
) -> None:
    steps = (call("run", {"argv": TOUCH}), say("Done once."), call("run", {"argv": TOUCH}, "call_2"), say("Not done."))
    with Simulator(scripted(*steps)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            user.types("/yolo\r")
            user.sees("To turn it on")
            assert "YOLO: nothing asks" not in user.screen
            user.types("/yolo yolo\r")
            user.sees("YOLO: nothing asks")
            user.types("go\r")
            user.sees("Done once.")
            user.shows(lambda: "auto" in user.row("python3 -c"))
            user.shows(lambda: user.rows[-1].lstrip().startswith("YOLO"))
            assert (project.root / "ran").read_text() == "x"
            user.types("/ask\r")
            user.sees_no("YOLO: nothing asks")
            user.types("again\r")
            user.sees("Permission 1 of 1")
            user.presses("alt-n")
            user.sees("Not done.")
            assert (project.root / "ran").read_text() == "x"
        assert simulator.finish() == []


@at_every_size
def test_a_paste_is_one_chip_never_sends_and_goes_out_whole(tmp_path: Path, columns: int, rows: int) -> None:
    pasted = "\n".join(f"line {number} of it" for number in range(40))
    with Simulator(scripted(say("Read.", any_contains=["line 39 of it\nend"]))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            user.pastes("short\npaste\r\n")
            user.sees("  paste")
            user.pastes(pasted)
            user.sees("[paste 1: 40 lines, 0.5 kB]")
            user.types("\x1b\rend")
            user.sees("  end")
            assert simulator.requests == []
            user.presses("enter")
            user.sees("Read.")
        assert simulator.finish() == []


@at_every_size
def test_find_marks_and_goes_to_what_it_finds(tmp_path: Path, columns: int, rows: int) -> None:
    text = "\n\n".join(f"Paragraph {number}{' needle' if number == 3 else ''}." for number in range(60))
    with Simulator(scripted(say(text))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ, columns=columns, rows=rows) as user:
            user.sees("Type a task")
            user.types("go\r")
            user.sees("done in")
            user.presses("pgup")
            user.sees_no("done in")
            user.presses("ctrl-end")
            user.sees("done in")
            assert "needle" not in user.screen
            user.types("/find needle\r")
            user.sees('"needle"')


def test_scrolling_up_stays_where_it_is_while_new_lines_come(tmp_path: Path) -> None:
    before = "\n\n".join(f"Paragraph {number}." for number in range(60))
    after = "\n\n".join(f"Later {number}." for number in range(10))
    with Simulator(scripted(held(before, "gate", "\n\n" + after))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ) as user:
            user.sees("Type a task")
            user.types("go\r")
            user.sees("Paragraph 59.")
            user.presses("pgup", "pgup")
            user.sees("Paragraph 33.")
            user.sees("Paragraph 39.")  # The last row: the whole picture is there.
            top = [row[:30].rstrip() for row in user.rows[1:18]]
            simulator.release("gate")
            user.sees("new lines below")
            user.sees("Ctrl+P commands")
            assert [row[:30].rstrip() for row in user.rows[1:18]] == top
            user.sees("go: done")  # The notice, for the end is out of sight.
            user.presses("ctrl-end")
            user.sees("done in")


def test_a_message_sent_before_the_runtime_is_there_goes_out_when_it_is(tmp_path: Path) -> None:
    with Simulator(scripted(say("Here I am."))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ) as user:
            user.sees("Type a task")  # The first frame; the runtime is opened behind it.
            user.types("hello\r")
            user.sees("Here I am.")
        assert simulator.finish() == []


def test_with_the_server_down_the_composer_is_there_and_the_failure_is_told(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", "http://127.0.0.1:9/v1", more="[harness]\nprovider_retries = 0\n")
    with user_at(cwd=project.root, env=os.environ) as user:
        user.sees("Type a task")
        user.types("go\r")
        user.sees("[provider_unavailable]")
        user.shows(lambda: "blocked" in user.rows[0])
        user.types("still usable")
        user.sees("> still usable")


def test_a_broken_file_gets_its_diagnosis_and_another_try(tmp_path: Path) -> None:
    with Simulator(scripted(say("Repaired."))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        path = project.root / ".fluzo"
        good = path.read_text()
        path.write_text(good + "\n[harness]\nmax_turn = 3\n")
        with user_at(cwd=project.root, env=os.environ) as user:
            user.sees("did you mean")
            user.sees("harness.max_turns?")
            user.sees("[configuration_invalid]")
            assert path.read_text().endswith("max_turn = 3\n")
            path.write_text(good)
            user.types("/retry\r")
            user.sees("idle  scripted")
            user.types("go\r")
            user.sees("Repaired.")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_with_the_terminal_restored(tmp_path: Path, number: int, status: int) -> None:
    project = make_project(tmp_path / "p", "http://127.0.0.1:9/v1")
    with user_at(cwd=project.root, env=os.environ) as user:
        user.sees("idle  scripted")
        user.signals(number)
        assert user.leaves() == status
        assert_restored(user.raw)


@at_every_size
def test_a_crash_leaves_the_terminal_usable_and_says_what_happened(tmp_path: Path, columns: int, rows: int) -> None:
    broken = (
        "from fluzo.screens.program import run_screen\n"
        "from fluzo.screens.options import Options\n"
        "from fluzo.screens.link import Runtime\n"
        "from support.scripted_port import ScriptedPort\n"
        "facts = {'context_window': 'not a number'}\n"
        "opener = lambda: lambda: Runtime(ScriptedPort([], {}), '.', facts, lambda: None)\n"
        "run_screen(Options('~', environ={'TERM': 'xterm-256color'}), opener)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with user_at("-c", broken, cwd=tmp_path, env=env, program=(sys.executable,), columns=columns, rows=rows) as user:
        assert user.leaves() == 1
        assert_restored(user.raw)
        assert b"ValueError" in user.raw.rpartition(b"\x1b[?1049l")[2]


def test_leaving_puts_the_line_settings_back(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", "http://127.0.0.1:9/v1")
    script = "stty -g; fluzo; echo left $?; stty -g; echo end"
    with user_at("-c", script, cwd=project.root, env=with_program(os.environ), program=("/bin/sh",)) as user:
        user.sees("idle  scripted")
        user.types("/quit\r")
        user.leaves()
        before = user.raw.split(b"\r\n", 1)[0]
        after = user.raw.rpartition(b"left 0\r\n")[2].split(b"\r\n", 1)[0]
        assert before == after


def test_suspending_gives_the_terminal_back_and_coming_forward_draws_again(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", "http://127.0.0.1:9/v1")
    env = with_program(os.environ)
    with user_at("--norc", "-i", cwd=project.root, env={**env, "PS1": "prompt> "}, program=("/bin/bash",)) as user:
        user.sees("prompt>")
        user.types("fluzo\r")
        user.sees("idle  scripted")
        user.types("a draft")
        user.sees("> a draft")
        user.presses("ctrl-z")
        user.sees("Stopped")
        user.types("echo not in $((40 + 2)) raw mode\r")
        user.sees("not in 42 raw mode")
        user.types("fg\r")
        user.sees_no("not in 42 raw mode")
        user.sees("> a draft")
        user.sees("idle  scripted")


def assert_restored(raw: bytes) -> None:
    last: Callable[[bytes], int] = raw.rfind
    assert last(b"\x1b[?1049l") > last(b"\x1b[?1049h")
    assert last(b"\x1b[?25h") > last(b"\x1b[?25l")
    assert last(b"\x1b[?2004l") > last(b"\x1b[?2004h")
    assert last(b"\x1b[?1004l") > last(b"\x1b[?1004h")


def with_program(env: "os._Environ[str]") -> dict[str, str]:
    return {**env, "PATH": f"{Path(sys.prefix, 'bin')}:{env['PATH']}"}
