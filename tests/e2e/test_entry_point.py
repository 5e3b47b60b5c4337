import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FLUZO = (sys.executable, "-m", "fluzo")


def fluzo(*argv: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*FLUZO, *argv], cwd=cwd, env=os.environ | env, capture_output=True, text=True, check=False)


def shell(script: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which `$FLUZO` is the command."""
    env = os.environ | {"FLUZO": " ".join(FLUZO)}
    return subprocess.run(["bash", "-c", script], cwd=cwd, env=env, capture_output=True, text=True, check=False)


def broken_typer(folder: Path, source: str) -> dict[str, str]:
    """An environment in which importing typer, the first thing the command line does, runs `source`."""
    (folder / "typer.py").write_text(source)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(("ending", "status"), [("raise SystemExit(3)", 3), ("raise RuntimeError", 70)])
def test_what_was_written_comes_out_however_the_command_ends(tmp_path: Path, ending: str, status: int) -> None:
    env = broken_typer(tmp_path, f"print('half a line', end=''); {ending}")

    done = fluzo("tasks", cwd=tmp_path, PYTHONUNBUFFERED="", **env)

    assert (done.returncode, done.stdout) == (status, "half a line")


def test_what_a_library_registered_for_the_end_is_done(tmp_path: Path) -> None:
    env = broken_typer(tmp_path, "import atexit; atexit.register(print, 'goodbye'); raise SystemExit(0)")

    assert fluzo("tasks", cwd=tmp_path, **env).stdout == "goodbye\n"


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_one_line_on_stdout(tmp_path: Path, flag: str) -> None:
    done = fluzo(flag, cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "fluzo 0.1.0\n", "")


def test_the_version_is_also_found_behind_other_options(tmp_path: Path) -> None:
    done = fluzo("--workspace", "nowhere", "--version", cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "fluzo 0.1.0\n", "")


def test_the_help_names_every_command_and_ends_with_examples(tmp_path: Path) -> None:
    done = fluzo("--help", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    for name in ("run", "init", "tasks", "sessions", "replay", "history", "config", "doctor", "demo"):
        assert f"\n  {name} " in done.stdout
    assert "\n  session " not in done.stdout
    assert 'fluzo run "fix the failing test"' in done.stdout


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("taks",), "error: 'taks' is not a command; did you mean tasks?  [usage]\n  Try: fluzo --help\n"),
        (("xyzzy",), "error: 'xyzzy' is not a command.  [usage]\n  Try: fluzo --help\n"),
        (("fix the bug",), 'error: A prompt is not a command.  [usage]\n  Try: fluzo run "YOUR PROMPT"\n'),
        (("--nope",), "error: No such option: --nope  [usage]\n  Try: fluzo --help\n"),
        (("-C",), "error: Option '-C' requires an argument.  [usage]\n  Try: fluzo --help\n"),
        (
            ("--set", "api_key"),
            "error: --set needs a key and a value.  [usage]\n"
            "  Write it as key=value, for example: --set harness.max_turns=20\n",
        ),
    ],
)
def test_a_line_that_cannot_be_understood_exits_2(tmp_path: Path, argv: tuple[str, ...], message: str) -> None:
    done = fluzo(*argv, cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


@pytest.mark.parametrize(
    "form",
    [("--output", "json"), ("--output=json",), ("-o", "json"), ("-ojson",), ("--output=stream-json",)],
)
def test_in_json_mode_stdout_carries_exactly_one_error_object(tmp_path: Path, form: tuple[str, ...]) -> None:
    done = fluzo("taks", "list", *form, cwd=tmp_path)

    assert done.returncode == 2
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout) == {
        "schema_version": 1,
        "type": "error",
        "error": {
            "code": "usage",
            "message": "'taks' is not a command; did you mean tasks?",
            "hint": "Try: fluzo --help",
            "detail": {},
        },
    }
    assert "[usage]" in done.stderr


def test_text_behind_two_dashes_does_not_ask_for_json(tmp_path: Path) -> None:
    assert fluzo("taks", "--", "--output=json", cwd=tmp_path).stdout == ""


def test_an_unforeseen_error_is_one_message_and_a_private_log(tmp_path: Path, isolation: Path) -> None:
    broken = broken_typer(tmp_path, "raise RuntimeError('the key is sk-abcdefghijklmnop0123')")

    done = fluzo("--help", cwd=tmp_path, **broken)

    log = isolation / ".local/state/fluzo/errors.log"
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr == (
        f"error: Fluzo stopped on an error of its own (RuntimeError).  [internal_error]\n  The details are in {log}.\n"
    )
    assert "Traceback" in log.read_text()
    assert "sk-abcdef" not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.parent.stat().st_mode & 0o777 == 0o700


def test_the_private_log_starts_anew_when_it_has_grown_too_large(tmp_path: Path, isolation: Path) -> None:
    log = isolation / ".local/state/fluzo/errors.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * 1_000_001)

    fluzo("--help", cwd=tmp_path, **broken_typer(tmp_path, "raise RuntimeError"))

    assert "Traceback" in log.read_text()
    assert "xx" not in log.read_text()


def test_the_private_log_is_not_written_through_a_link(tmp_path: Path, isolation: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    log = isolation / ".local/state/fluzo/errors.log"
    log.parent.mkdir(parents=True)
    log.symlink_to(victim)

    done = fluzo("--help", cwd=tmp_path, **broken_typer(tmp_path, "raise RuntimeError"))

    assert done.returncode == 70
    assert victim.read_text() == "untouched"


@pytest.mark.parametrize(
    "home",
    [{"HOME": "", "XDG_STATE_HOME": ""}, {"HOME": "/proc/none", "XDG_STATE_HOME": "relative"}],
)
def test_without_a_place_for_the_log_the_message_still_appears(tmp_path: Path, home: dict[str, str]) -> None:
    broken = broken_typer(tmp_path, "raise RuntimeError")

    done = fluzo("--help", cwd=tmp_path, **broken, **home)

    assert done.returncode == 70
    assert done.stderr.count("\n") == 2
    assert "no private log can be written" in done.stderr
    assert not (tmp_path / "relative").exists()


def test_an_interrupt_exits_130(tmp_path: Path) -> None:
    done = fluzo("tasks", "-o", "json", cwd=tmp_path, **broken_typer(tmp_path, "raise KeyboardInterrupt"))

    assert (done.returncode, done.stderr) == (130, "error: Interrupted.  [cancelled]\n")
    assert json.loads(done.stdout)["error"]["code"] == "cancelled"


def test_a_working_directory_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    broken = broken_typer(tmp_path, "import os\nos.getcwd()")

    done = shell(
        f"mkdir gone && cd gone && rmdir ../gone && PYTHONPATH={broken['PYTHONPATH']} "
        f"{sys.executable} -c 'import sys; from fluzo.__main__ import main; sys.exit(main([\"--help\"]))'",
        tmp_path,
    )

    assert done.returncode == 11
    assert "The current directory no longer exists.  [workspace_unusable]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("argv", ["--help", "--version"])
def test_a_reader_that_goes_away_is_no_error_message(tmp_path: Path, argv: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([*FLUZO, argv], cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("argv", "status"), [("--help", 0), ("--version", 0), ("taks", 2), ("taks -o json", 2)])
def test_a_closed_standard_stream_changes_nothing_else(tmp_path: Path, closed: str, argv: str, status: int) -> None:
    done = shell(f"$FLUZO {argv} {closed}", tmp_path)

    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_no_later_file_takes_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    spy = "import os\nraise SystemExit(0 if os.open('opened', os.O_CREAT | os.O_WRONLY) > 2 else 1)"
    (tmp_path / "typer.py").write_text(spy)

    done = shell(f"PYTHONPATH={tmp_path} $FLUZO --help <&- >&- 2>&-", tmp_path)

    assert done.returncode == 0
    assert (tmp_path / "opened").exists()


@pytest.mark.parametrize("argv", ["--help", "--version"])
def test_a_full_disk_behind_stdout_is_reported(tmp_path: Path, argv: str) -> None:
    done = shell(f"$FLUZO {argv} > /dev/full", tmp_path)

    assert done.returncode == 70
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "env",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}],
)
def test_a_character_that_the_terminal_lacks_is_escaped(tmp_path: Path, env: dict[str, str]) -> None:
    done = fluzo("r\u00e9sum\u00e9\U0001f600", cwd=tmp_path, **env)

    assert done.returncode == 2
    assert done.stderr.isascii()
    assert "is not a command" in done.stderr


def test_control_characters_in_a_message_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    done = fluzo("--\x1b[2J\u202e", cwd=tmp_path)

    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr


@pytest.mark.parametrize(("typed", "offered"), [("t", "tasks"), ("do", "doctor"), ("--works", "--workspace")])
def test_the_shell_completes_names_and_options(tmp_path: Path, typed: str, offered: str) -> None:
    done = fluzo(
        cwd=tmp_path, **{"_FLUZO_COMPLETE": "complete_bash", "COMP_WORDS": f"fluzo {typed}", "COMP_CWORD": "1"}
    )

    assert (done.returncode, done.stdout) == (0, f"{offered}\n")


def test_a_write_that_signals_cut_short_goes_on_also_where_python_does_not_buffer() -> None:
    program = (
        "import signal, sys\n"
        "from fluzo.__main__ import _ready_streams\n"
        "_ready_streams()\n"
        "signal.signal(signal.SIGALRM, lambda *_: None)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
        "sys.stdout.write('x' * 5_000_000)\n"
        "sys.stdout.flush()\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)\n"
    )
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, check=True)
    assert len(done.stdout) == 5_000_000
