import json
import os
import signal
from pathlib import Path

import pytest
from support.project import Project, call, make_project, say, scripted
from support.workspaces import git

from fluzo.simulator.server import Simulator


def told(simulator: Simulator, index: int = -1) -> str:
    """The last thing that the model was told in that request."""
    return str(simulator.requests[index].body["messages"][-1]["content"])


def script(text: str, call_id: str = "c1", **more: object) -> dict[str, object]:
    return call("run", {"shell": True, "script": text, **more}, call_id)


@pytest.mark.parametrize(
    "text",
    [
        "sleep 300 & echo $! > pid; echo done",
        "(while :; do echo x; sleep 0.2; done) & echo $! > pid; echo done",
        "python3 -m http.server 0 --bind 127.0.0.1 & echo $! > pid; echo done",
        "setsid sleep 300 & echo $! > pid; echo done",
    ],
)
def test_a_command_that_leaves_a_process_behind_ends_and_the_process_with_the_task(tmp_path: Path, text: str) -> None:
    with Simulator(scripted(script(text), say("ok"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        assert project.fluzo("run", "--yolo", "Go.").returncode == 0
        answer = told(simulator)
    assert "done" in answer
    assert "exit 0" in answer
    assert "still run" in answer
    with pytest.raises(ProcessLookupError):
        os.kill(int((project.root / "pid").read_text()), 0)


def test_commands_that_ask_get_no_answer_and_end(tmp_path: Path) -> None:
    texts = [
        "cat",
        "read x",
        "python3 -c 'input()'",
        "git -c user.name=a -c user.email=a@b.invalid commit --allow-empty",
        "exec 3<>/dev/tty",
    ]
    steps = [script(text, f"c{number}") for number, text in enumerate(texts)]
    with Simulator(scripted(*steps, say("ok"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        # A pipe that stays open: whoever reads it waits for ever.
        reading, writing = os.pipe()
        try:
            assert project.fluzo("run", "--yolo", "Go.", stdin=reading).returncode == 0
        finally:
            os.close(reading)
            os.close(writing)
        answers = [told(simulator, number) for number in range(1, len(texts) + 1)]
    assert answers[0].startswith("exit 0")
    assert not any(answer.startswith("exit 0") for answer in answers[1:])
    assert not any("timed out" in answer for answer in answers)
    assert git(project.root, "rev-list", "--count", "--all").strip() == b"1"


@pytest.mark.parametrize("text", ["yes | head -1000000; yes | tr -d '\\n'", "head -c 300000000 /dev/zero"])
def test_a_flood_is_cut_to_its_ends_and_the_command_to_its_time(tmp_path: Path, text: str) -> None:
    limit = "[harness]\nshell_timeout_seconds = 4\n" if text.startswith("yes") else ""
    with Simulator(scripted(script(f"echo begin; {text}; echo end"), say("ok"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=limit)
        result = project.json("run", "--yolo", "Go.")
        answer = told(simulator)
    assert result["status"] == "completed"
    assert len(answer) < 200_000
    assert "begin" in answer
    assert "timed out" in answer if limit else "end" in answer
    kept = sum(path.stat().st_size for path in (project.root / ".fluzodrive").rglob("*") if path.is_file())
    assert kept < 50_000_000


def hostile(root: Path) -> None:
    """Configuration that makes a plain Git run programs: each would leave a file."""
    for key, value in (
        ("core.fsmonitor", "touch PWNED-fsmonitor; false"),
        ("diff.external", 'sh -c "touch PWNED-external"'),
        ("diff.evil.textconv", 'sh -c "touch PWNED-textconv; cat"'),
        ("filter.evil.clean", 'sh -c "touch PWNED-clean; cat"'),
        ("filter.evil.smudge", 'sh -c "touch PWNED-smudge; cat"'),
        ("core.pager", 'sh -c "touch PWNED-pager; cat"'),
        ("core.hooksPath", "hooks"),
    ):
        git(root, "config", key, value)
    (root / ".git" / "info" / "attributes").write_text("* diff=evil filter=evil\n")


def test_no_git_command_of_a_run_starts_what_the_repository_configures(tmp_path: Path) -> None:
    subcommands = [
        ("status", {}),
        ("diff", {}),
        ("log", {}),
        ("show", {"rev": "HEAD"}),
        ("blame", {"paths": ["sheep.py"]}),
    ]
    steps = [call("git", {"subcommand": name, **more}, f"c{number}") for number, (name, more) in enumerate(subcommands)]
    edit = call("edit_file", {"path": "sheep.py", "old_text": "1", "new_text": "2"}, "e1")
    with Simulator(scripted(edit, *steps, say("ok"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        hostile(project.root)
        result = project.json("run", "Go.")
        assert project.fluzo("doctor").returncode == 0
        assert project.fluzo("tasks", "show", "last").returncode == 0
        answers = [told(simulator, number) for number in range(2, len(subcommands) + 2)]
    assert result["status"] == "completed"
    assert [change["path"] for change in result["changes"]] == ["sheep.py"]
    assert not [answer for answer in answers if answer.startswith("error: ")]
    assert "+COUNT = 2" in answers[1]
    assert [path.name for path in project.root.rglob("PWNED*")] == []


KEYS = {
    "OPENAI_API_KEY": "sk-test-key-of-openai-0001",
    "FX_TOKEN": "token-of-another-service",
    "MAIN_KEY": "key-of-the-configured-model",
}


def with_key(project: Project) -> None:
    done = project.fluzo("config", "set", "models.main.auth", "env", "models.main.api_key_env", "MAIN_KEY")
    assert done.returncode == 0, done.stderr
    assert project.fluzo("config", "trust", "--yes").returncode == 0


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("env; cat /proc/self/environ", list(KEYS)),
        # A command runs as the user and can read what the user can; the key of the model is still masked everywhere.
        ("cat /proc/$PPID/environ | tr '\\0' '\\n'", ["MAIN_KEY"]),
    ],
)
def test_keys_of_the_user_reach_no_command_no_request_and_no_record(
    tmp_path: Path, isolation: Path, text: str, secret: list[str]
) -> None:
    answer = say("ok", headers={"Authorization": f"Bearer {KEYS['MAIN_KEY']}"})
    with Simulator(scripted(script(text), answer)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with_key(project)
        done = project.fluzo("run", "--yolo", "--output", "stream-json", "Go.", env=KEYS)
        assert simulator.finish() == []
        sent = b"".join(request.raw for request in simulator.requests)
        assert "PATH=" in told(simulator)
    assert done.returncode == 0
    places = {"the output": done.stdout + done.stderr, "a request": sent}
    for folder in (project.root / ".fluzodrive", isolation):
        places |= {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = [(name, place) for name in secret for place, data in places.items() if KEYS[name].encode() in data]
    assert found == []


def test_a_task_that_is_killed_leaves_no_process_that_writes(tmp_path: Path) -> None:
    text = "echo $$ > pid; echo ready > pipe; exec sleep 300"
    with Simulator(scripted(script(text))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        os.mkfifo(project.root / "pipe")
        process = project.start("run", "--yolo", "--output", "json", "Go.", stdin=-3, stdout=-1, stderr=-3)
        assert process.stdout is not None
        assert (project.root / "pipe").read_text() == "ready\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=120)
    assert (process.returncode, json.loads(out)["reason"]) == (130, "cancelled")
    with pytest.raises(ProcessLookupError):
        os.kill(int((project.root / "pid").read_text()), 0)
