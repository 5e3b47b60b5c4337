import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from support.complaints import complaint, error_object, fluzo_in
from support.confined import without_kill
from support.hosted import start, workspace
from support.project import DEADLINE_SECONDS, FLUZO, call, make_project, say, scripted

from fluzo.commands.run import perform
from fluzo.core.port import CancelTask, StartTask
from fluzo.host import HostOptions, open_host
from fluzo.simulator.server import Simulator

COMMAND = {"argv": ["python3", "-c", "open('ran', 'w')"]}
HOLD = {"respond": {"parts": [{"text": "Thinking"}, {"hold": "open"}]}}


def shell(where: Path, script: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(["bash", "-c", script], cwd=where, capture_output=True, timeout=120, check=False)


def test_a_command_that_the_users_own_rule_forbids_is_status_5(tmp_path: Path) -> None:
    with Simulator(scripted(call("run", COMMAND))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more='[policy]\nshell = "deny"\n')
        result = project.json("run", "--yolo", "Go.", status=5)
    assert (result["status"], result["reason"]) == ("blocked", "permission_denied")
    assert result["error"]["message"]
    assert not (project.root / "ran").exists()


def test_a_server_that_may_still_be_busy_is_not_asked_again_and_is_status_7(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Simulator(scripted(HOLD)) as simulator:
        root = workspace(tmp_path / "p", simulator.base_url)
        with open_host(HostOptions(root)) as host:
            first = start(host, "first")
            assert simulator.wait_until_held("open", 60)
            first.tell(CancelTask(first.ack.task_id))
            first.finish()
            # One slot, and the request that was given up on may still have it: closing a connection proves nothing.
            status = perform(host, StartTask("second", "second"), "json", None)
        assert len(simulator.requests) == 1
    out, errors = capfd.readouterr()
    assert (status, out.count("\n")) == (7, 1)
    assert '"reason":"capacity_full"' in out
    assert "[capacity_full]" in errors


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_a_command_whose_end_cannot_be_confirmed_is_status_9(tmp_path: Path) -> None:
    # The command becomes another user, and the program that started it has no power over that user's processes.
    script = (
        "import os, signal; open('pid', 'w').write(str(os.getpid())); ready = open('ready', 'w'); "
        "os.setuid(65534); ready.close(); signal.pause()"
    )
    stubborn = {"argv": ["python3", "-c", script]}
    with Simulator(scripted(call("run", stubborn))) as simulator:
        project = make_project(
            tmp_path / "p", simulator.base_url, more="[tools.shell]\ntermination_grace_seconds = 0\n"
        )
        os.mkfifo(project.root / "ready")
        try:
            with subprocess.Popen(
                [*without_kill(FLUZO), "run", "--yolo", "-o", "json", "Go."],
                cwd=project.root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ) as process:
                (project.root / "ready").read_bytes()  # Until it is the other user's.
                process.send_signal(signal.SIGINT)
                out, errors = process.communicate(timeout=DEADLINE_SECONDS)
        finally:
            os.kill(int((project.root / "pid").read_text()), signal.SIGKILL)
    assert process.returncode == 9, errors
    result = json.loads(out)
    assert result["reason"] == "outcome_unknown"
    (ran,) = [item for item in project.json("tasks", "show", "last")["operations"] if item["tool"] == "run"]
    assert ran["state"] == "unknown"


@pytest.mark.parametrize("command", [("run", "Go."), ("tasks", "list"), ("demo",), ("doctor",), ("config", "show")])
def test_a_defect_of_the_program_is_status_70_for_every_command(
    tmp_path: Path, isolation: Path, command: tuple[str, ...]
) -> None:
    # A broken installation: a module of the standard library that every command needs is not what it should be.
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "shlex.py").write_text("raise RuntimeError('sk-abcdefghijklmnopqrstuvwx')\n")
    (tmp_path / "broken" / "subprocess.py").write_text("raise RuntimeError('sk-abcdefghijklmnopqrstuvwx')\n")
    env = {"PYTHONPATH": str(tmp_path / "broken")}
    words = error_object(fluzo_in(tmp_path, *command, "-o", "json", env=env), "internal_error", 70)
    assert str(isolation) in words
    log = (isolation / ".local" / "state" / "fluzo" / "errors.log").read_text()
    assert "RuntimeError" in log
    assert "sk-abc" not in log + words


WRONG_LINES = [
    (("run", "a", "b"), "usage"),
    (("run", "--output", "xml", "a"), "usage"),
    (("run", "--allow", "", "a"), "usage"),
    (("run", "--allow", "'open", "a"), "usage"),
    (("run", "--prompt-file", "nowhere"), "usage"),
    (("run", "--prompt-file", "."), "usage"),
    (("run", "  "), "usage"),
    (("run", "--verify", "true", "--no-verify", "a"), "usage"),
    (("run", "--session", "s_0", "a"), "not_found"),
    (("tasks", "show", "t_0"), "not_found"),
    (("tasks", "list", "--limit", "0"), "usage"),
    (("replay", "t_0"), "not_found"),
    (("sessions", "open", "s_0"), "not_found"),
    (("sessions", "resume", "s_0"), "not_found"),
    (("demo", "nowhere"), "not_found"),
    (("config", "get", "nowhere"), "usage"),
    (("config", "set", "harness.max_turns"), "usage"),
    (("config", "edit"), "usage"),
    (("init", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--yes"), "confirmation_required"),
]


def test_a_line_that_is_wrong_is_status_2_and_nothing_is_contacted(tmp_path: Path) -> None:
    with Simulator(scripted(say("never"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        for command, code in WRONG_LINES:
            done = project.fluzo(*command)
            assert (done.returncode, done.stdout) == (2, b""), command
            assert b"Traceback" not in done.stderr
            (last,) = [line for line in done.stderr.decode().split("\n") if line.startswith("error: ")]
            assert last.endswith(f"  [{code}]"), command
        assert project.fluzo("config", "trust", "--revoke").returncode == 0
        complaint(project.fluzo("config", "trust"), "confirmation_required", 2)
        assert simulator.requests == []


def test_prompts_that_are_no_text_are_refused_with_the_place(tmp_path: Path) -> None:
    with Simulator(scripted(say("never"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        for data, words in (
            (b"caf\xe9", "not UTF-8 text (stdin, byte 3)"),
            (b"a\0b", "NUL"),
            (b" \n", "empty"),
            (b"x" * (1 << 20) + b"x", "longer than"),
        ):
            done = project.fluzo("run", "-", data=data)
            assert (done.returncode, words in done.stderr.decode()) == (2, True)
        assert simulator.requests == []


def test_an_endless_pipe_as_the_prompt_is_cut_off_and_refused(tmp_path: Path) -> None:
    with Simulator(scripted(say("never"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
            done = project.fluzo("run", stdin=endless.stdout)
            endless.kill()
    assert "longer than" in complaint(done, "usage", 2)


# --- standard streams -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_disturbs_no_command(tmp_path: Path, closed: str) -> None:
    with Simulator(scripted(say("done"), say("done"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        before = {path.name for path in project.root.iterdir()}
        for command in ("run Go.", "run -o json Again.", "tasks list", "doctor", "config show"):
            done = shell(project.root, f'exec "{FLUZO}" {command} {closed}')
            assert done.returncode == 0, (command, done.stderr)
            assert b"Traceback" not in done.stderr + done.stdout
    assert {path.name for path in project.root.iterdir()} - before == {".fluzodrive"}


@pytest.mark.parametrize("stdin", ["<&-", "</dev/null"])
def test_nobody_is_waited_for_where_stdin_has_nothing(tmp_path: Path, stdin: str) -> None:
    with Simulator(scripted(say("done"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        for command, status in (("run Go.", 0), ("run", 2), ("run -", 2), ("init", 3), ("config edit", 2)):
            done = shell(project.root, f'exec "{FLUZO}" {command} {stdin}')
            assert done.returncode == status, (command, done.stderr)
            assert b"Traceback" not in done.stderr


def test_a_reader_that_takes_one_line_is_no_error_message(tmp_path: Path) -> None:
    with Simulator(scripted(say("done"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        assert project.fluzo("run", "Go.").returncode == 0
    for command in ("tasks list", "tasks show last", "replay last", "config show --effective", "doctor", "demo --list"):
        done = shell(project.root, f'"{FLUZO}" {command} | head -1; echo "${{PIPESTATUS[0]}}" >&2')
        # A short output fits into the pipe before the reader leaves; either way nobody is bothered.
        assert done.stderr in (b"0\n", b"141\n"), command
        assert done.stdout.count(b"\n") == 1


def test_a_full_disk_behind_stdout_is_told_after_the_task(tmp_path: Path) -> None:
    with Simulator(scripted(say("done"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = shell(project.root, f'exec "{FLUZO}" run -o json Go. >/dev/full')
    assert "No space left on device" in complaint(done, "internal_error", 70)
    assert project.json("tasks", "show", "last")["task"]["state"] == "completed"
