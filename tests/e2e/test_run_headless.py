import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.project import DEADLINE_SECONDS, FLUZO, Project, call, closed_port, make_project, say, scripted, shipped

from fluzo.simulator.server import Simulator

SAY_HELLO = "Say hello."


def only_object(done: "subprocess.CompletedProcess[bytes]") -> dict[str, Any]:
    (line,) = done.stdout.split(b"\n")[:-1]
    value: dict[str, Any] = json.loads(line)
    return value


def test_a_run_prints_the_answer_alone_on_stdout(tmp_path: Path) -> None:
    with Simulator(shipped("text-only")) as simulator:
        done = make_project(tmp_path / "p", simulator.base_url).fluzo("run", SAY_HELLO)
        assert simulator.finish() == []
    assert (done.returncode, done.stdout) == (0, b"Hello there.\n")
    assert b"completed, unverified: no checks are declared" in done.stderr
    assert b"nothing staged or committed" in done.stderr or b"no files changed" in done.stderr
    assert b"fluzo tasks show" in done.stderr


def test_the_result_object_carries_what_a_script_needs(tmp_path: Path) -> None:
    with Simulator(shipped("text-only")) as simulator:
        result = make_project(tmp_path / "p", simulator.base_url).json("run", SAY_HELLO)
    assert result["type"] == "result"
    assert result["schema_version"] == 1
    assert (result["status"], result["reason"], result["message"]) == ("completed", "", "Hello there.")
    assert all(result[key] for key in ("task_id", "attempt_id", "session_id", "trace_id"))
    assert result["verification"] == {"verdict": "unverified", "current": False, "commands": []}
    assert result["changes"] == []
    assert result["budget"]["turns"]["used"] == 1
    assert result["budget"]["tokens"]["used"] == 1104
    assert result["budget"]["tokens"]["provenance"] == "reported"
    assert result["git"] == {"staged": False, "committed": False}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("error-401", "provider_auth"),
        ("error-429", "rate_limited"),
        ("redirect", "redirect_blocked"),
        ("html", "provider_protocol"),
        ("malformed", "provider_protocol"),
        ("empty", "provider_empty"),
        ("incomplete", "provider_incomplete"),
        ("cut-at-limit", "provider_incomplete"),
    ],
)
def test_an_answer_that_is_none_is_an_error_in_every_output(tmp_path: Path, name: str, reason: str) -> None:
    with Simulator(shipped(name)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("run", "--output", "json", "Write a file.")
        assert simulator.finish() == []
    assert done.returncode == 8, done.stderr.decode()
    result = only_object(done)
    assert result["reason"] == reason
    assert result["error"]["message"]
    assert f"[{reason}]" in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert not (project.root / "broken.txt").exists()


def test_an_error_after_the_first_words_is_not_a_success(tmp_path: Path) -> None:
    with Simulator(shipped("error-in-stream")) as simulator:
        done = make_project(tmp_path / "p", simulator.base_url).fluzo("run", "--output", "json", SAY_HELLO)
    assert done.returncode == 8
    assert "The model crashed." in only_object(done)["error"]["message"]


def test_a_server_that_is_down_is_said_with_its_address(tmp_path: Path) -> None:
    with closed_port() as base_url:
        project = make_project(tmp_path / "p", base_url, more="[harness]\nprovider_retries = 0\n")
        done = project.fluzo("run", "--output", "json", SAY_HELLO)
    assert done.returncode == 8
    result = only_object(done)
    assert result["reason"] == "provider_unavailable"
    assert "127.0.0.1" in result["error"]["message"]


def test_a_workspace_without_settings_is_an_error_object_and_nothing_is_created(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    done = Project(tmp_path).fluzo("run", "--output", "json", SAY_HELLO)
    assert done.returncode == 3
    assert only_object(done)["error"]["code"] == "configuration_required"
    assert [path.name for path in tmp_path.iterdir()] == [".git"]


def test_without_consent_nothing_is_contacted(tmp_path: Path) -> None:
    with Simulator(shipped("text-only")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        project.fluzo("config", "trust", "--revoke", "--yes")
        done = project.fluzo("run", "--output", "json", SAY_HELLO)
        assert simulator.requests == []
    assert done.returncode == 3
    assert only_object(done)["error"]["code"] == "consent_required"


def test_a_server_that_does_not_stream_is_served_too(tmp_path: Path) -> None:
    with Simulator(shipped("whole")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more="[models.main.compat]\nstream = false\n")
        done = project.fluzo("run", SAY_HELLO)
        assert simulator.finish() == []
    assert (done.returncode, done.stdout) == (0, b"Hello there.\n")


# --- permissions and verification -------------------------------------------------------------------------------


def test_a_command_that_nobody_allowed_ends_the_run_at_once(tmp_path: Path) -> None:
    with Simulator(shipped("denied")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("run", "--output", "json", "Deploy this.")
        assert simulator.finish() == []
    result = only_object(done)
    assert (done.returncode, result["status"], result["reason"]) == (4, "blocked", "permission_required")
    (request,) = result["permission_requests"]
    assert request["scope"]["argv"] == ["make", "deploy"]
    assert b"? run     make deploy" in done.stderr
    assert project.json("tasks", "show", "last")["task"]["state"] == "blocked"


def test_an_allowed_command_is_run_and_a_longer_one_is_not(tmp_path: Path) -> None:
    exact = call("run", {"argv": ["python3", "-c", "print('ran')"]})
    longer = call("run", {"argv": ["python3", "-c", "print('ran')", "more"]}, "call_2")
    with Simulator(scripted(exact, longer)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("run", "--allow", "python3 -c \"print('ran')\"", "--output", "json", "Go.")
        assert simulator.finish() == []
        assert "ran" in simulator.requests[1].body["messages"][-1]["content"]
    assert done.returncode == 4
    assert only_object(done)["permission_requests"][0]["scope"]["argv"][-1] == "more"


def test_yolo_runs_what_would_be_asked_and_the_result_says_so(tmp_path: Path) -> None:
    with Simulator(scripted(call("run", {"argv": ["python3", "-c", "print(1)"]}), say("ok"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("run", "--yolo", "--output", "json", "Go.")
    assert done.returncode == 0
    assert only_object(done)["yolo"] is True
    assert b"yolo" in done.stderr


def test_checks_that_pass_complete_the_task_and_checks_that_fail_do_not(tmp_path: Path) -> None:
    with Simulator(scripted(say("done"))) as simulator:
        project = make_project(tmp_path / "good", simulator.base_url)
        result = project.json("run", "--verify", "python3 -c pass", "Go.")
        assert result["verification"]["verdict"] == "passed"
        assert result["verification"]["current"] is True
    with Simulator(scripted(say("done"), say("again"), say("still"))) as simulator:
        project = make_project(tmp_path / "bad", simulator.base_url, verify=[["python3", "-c", "raise SystemExit(3)"]])
        result = project.json("run", "Go.", status=1)
        assert simulator.finish() == []
        assert (result["status"], result["reason"]) == ("failed", "verification_failed")
        assert result["verification"]["commands"][0]["exit_status"] == 3


def test_declared_checks_can_be_waived_and_the_result_says_so(tmp_path: Path) -> None:
    with Simulator(scripted(say("done"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, verify=[["false"]])
        result = project.json("run", "--no-verify", "Go.")
    assert result["verification"]["verdict"] == "waived"


def test_a_question_without_a_terminal_is_told_apart_from_a_permission(tmp_path: Path) -> None:
    with Simulator(scripted(call("ask_user", {"question": "Which one?"}))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("run", "--output", "json", "Go.")
    assert done.returncode == 4
    assert only_object(done)["reason"] == "input_required"


def test_a_used_up_budget_has_its_own_status(tmp_path: Path) -> None:
    with Simulator(scripted(call("read_file", {"path": "README.md"}))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("--set", "harness.max_turns=1", "run", "--output", "json", "Go.")
    assert done.returncode == 6
    assert only_object(done)["reason"] == "budget_exhausted"


def test_a_session_is_continued_with_its_conversation_and_without_old_grants(tmp_path: Path) -> None:
    command = ["python3", "-c", "pass"]
    steps = [
        call("run", {"argv": command}),
        say("first answer"),
        {**call("run", {"argv": command}, "call_2"), "expect": {"any_contains": ["Begin.", "first answer", "Go on."]}},
    ]
    with Simulator(scripted(*steps)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        first = project.json("run", "--allow", "python3 -c pass", "Begin.")
        second = project.json("run", "--session", "last", "Go on.", status=4)
        assert simulator.finish() == []
    assert second["session_id"] == first["session_id"]
    assert second["task_id"] != first["task_id"]


def test_a_session_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with Simulator(shipped("text-only")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("run", "--session", "s_none", "--output", "json", SAY_HELLO)
        assert simulator.requests == []
    assert done.returncode == 2
    assert only_object(done)["error"]["code"] == "not_found"


# --- where the prompt comes from (H03) --------------------------------------------------------------------------


def test_a_pipe_that_never_closes_does_not_hold_up_a_prompt_argument(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    try:
        with Simulator(shipped("text-only")) as simulator:
            done = make_project(tmp_path / "p", simulator.base_url).fluzo("run", SAY_HELLO, stdin=read_end)
    finally:
        os.close(read_end)
        os.close(write_end)
    assert (done.returncode, done.stdout) == (0, b"Hello there.\n")


def test_closed_standard_descriptors_do_not_disturb_a_run(tmp_path: Path) -> None:
    with Simulator(shipped("text-only")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = subprocess.run(
            ["sh", "-c", f'exec "{FLUZO}" run "Say hello." <&-'],
            cwd=project.root,
            capture_output=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, b"Hello there.\n")


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_the_prompt_can_come_through_a_pipe(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with Simulator(scripted(say("ok", last_contains=["grüße"]))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("run", *arguments, data="Sage grüße.".encode())
        assert simulator.finish() == []
    assert done.returncode == 0


def test_the_prompt_can_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("From a file.")
    with Simulator(scripted(say("ok", last_contains=["From a file."]))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("run", "--prompt-file", str(tmp_path / "prompt.md"))
        assert simulator.finish() == []
    assert done.returncode == 0


# --- bytes on stdout (H05, H06, H08, H10) -----------------------------------------------------------------------


def test_every_line_of_a_stream_is_json_whatever_the_model_says(tmp_path: Path) -> None:
    with Simulator(shipped("hostile-text")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("run", "--output", "stream-json", SAY_HELLO, env={"PYTHONWARNINGS": "default"})
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]
    assert lines[-1]["type"] == "result"
    assert "\u2028" in lines[-1]["message"]
    assert [line["seq"] for line in lines if "seq" in line] == sorted(line["seq"] for line in lines if "seq" in line)
    assert {"TaskCreated", "AttemptStarted", "AttemptEnded", "text_delta"} <= {line["type"] for line in lines}
    assert all(line["schema_version"] == 1 for line in lines if "seq" in line)
    assert done.stdout.isascii()


@pytest.mark.parametrize(
    "env", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_an_ascii_session_shows_what_it_cannot_encode_as_escapes(tmp_path: Path, env: dict[str, str]) -> None:
    with Simulator(shipped("hostile-text")) as simulator:
        done = make_project(tmp_path / "p", simulator.base_url).fluzo("run", SAY_HELLO, env=env)
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert done.stderr.isascii()
    assert b"\\U0001f600" in done.stdout
    assert b"Error" not in done.stderr


def test_a_reader_that_leaves_ends_the_run_quietly(tmp_path: Path) -> None:
    with Simulator(shipped("long-stream")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        process = project.start(
            "run", "--output", "stream-json", SAY_HELLO, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        with process.stdout, process.stderr:
            assert json.loads(process.stdout.readline())["seq"] >= 1
            process.stdout.close()
            errors = process.stderr.read()
            status = process.wait(DEADLINE_SECONDS)
    assert status == 141
    assert b"Traceback" not in errors
    assert b"BrokenPipe" not in errors


@pytest.mark.parametrize("env", [{"TERM": "xterm-256color"}, {"NO_COLOR": "1", "TERM": "dumb"}])
def test_no_command_sends_an_escape_into_a_pipe(tmp_path: Path, env: dict[str, str]) -> None:
    with Simulator(shipped("hostile-text")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        commands = [
            ("run", SAY_HELLO),
            ("tasks", "list"),
            ("tasks", "show", "last"),
            ("sessions", "list"),
            ("sessions", "open", "last"),
            ("replay", "last"),
            ("history", "list"),
            ("doctor",),
            ("config", "show"),
            ("demo", "--list"),
            ("--help",),
        ]
        for command in commands:
            done = project.fluzo(*command, env=env)
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            assert b"\x1b" not in done.stdout + done.stderr, command
            assert b"\x07" not in done.stdout + done.stderr, command
            assert "\u202e".encode() not in done.stdout + done.stderr, command


def test_a_proxy_in_the_environment_is_not_asked_for_this_machine(tmp_path: Path) -> None:
    proxies = {"ALL_PROXY": "socks5://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    with Simulator(shipped("text-only")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("run", SAY_HELLO, env=proxies)
    assert (done.returncode, done.stdout) == (0, b"Hello there.\n")


# --- interrupts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cancels_the_task_and_keeps_what_was_done(tmp_path: Path, number: int) -> None:
    hold = {"respond": {"parts": [{"text": "Thinking"}, {"hold": "open"}]}}
    with Simulator(scripted(call("write_file", {"path": "new.txt", "content": "kept\n"}), hold)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        process = project.start("run", "--output", "json", "Go.", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert simulator.wait_until_held("open", DEADLINE_SECONDS)
        process.send_signal(number)
        out, errors = process.communicate(timeout=DEADLINE_SECONDS)
        assert simulator.wait_until_answered(2)
        assert simulator.requests[1].outcome == "left"
    assert process.returncode == 130, errors
    result = json.loads(out)
    assert (result["status"], result["reason"]) == ("cancelled", "cancelled")
    assert [change["path"] for change in result["changes"]] == ["new.txt"]
    assert (project.root / "new.txt").read_text() == "kept\n"
    assert b"stopping the task" in errors


def test_an_interrupt_ends_the_commands_of_the_task(tmp_path: Path) -> None:
    script = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); print(1, flush=True)"
    sleeper = ["python3", "-c", f"{script}; os.open('fifo', os.O_RDONLY); time.sleep(600)"]
    with Simulator(scripted(call("run", {"argv": sleeper}))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        os.mkfifo(project.root / "fifo")
        process = project.start(
            "run", "--yolo", "--output", "json", "Go.", stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with (project.root / "fifo").open("wb"):  # Opens when the command has opened it for reading.
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130, errors
    assert json.loads(out)["status"] == "cancelled"
    pid = int((project.root / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
