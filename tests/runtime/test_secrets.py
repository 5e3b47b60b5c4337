"""Sentinel secrets in the environment of the parent and in the user's credentials: they appear nowhere.

What is not promised: a secret in another form, base64 for instance, is another text, and nobody recognises it.
"""

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support import evidence
from support.interrupted import point_at
from support.project import Project, call, make_project, scripted

from fluzo.core.redact import GrowingRedactor, RedactedStream, make_redactor
from fluzo.simulator.scenario import Scenario
from fluzo.simulator.server import Simulator

KEY = "key-of-the-provider-1f9e"
STORED = "value-of-auth-toml-77c2"
OTHERS = {
    "AWS_SECRET_ACCESS_KEY": "sentinel-aws-0a1b",
    "GITHUB_TOKEN": "sentinel-github-2c3d",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=sentinel-otel-4e5f",
    "SSH_AUTH_SOCK": "/sentinel-agent-6a7b",
    "DATABASE_URL": "postgres://u:sentinel-db-8c9d@127.0.0.1/x",
    "MY_APP_PASSWORD": "sentinel-app-0e1f",
    "BASH_ENV": "/sentinel-startup-2a3b",
    "LD_PRELOAD_LATER": "sentinel-loader-4c5d",
    "PYTHONSTARTUP": "/sentinel-python-6e7f",
}
SENTINELS = (KEY, STORED, *(value.rpartition("=")[2] for value in OTHERS.values()))
SHOW = "env; cat /proc/self/environ; tr '\\0' '\\n' < /proc/self/environ > environment.txt"


def pieces(text: str, size: int) -> list[dict[str, Any]]:
    """A text as the parts of a stream, cut every few characters."""
    return [{"text": text[start : start + size]} for start in range(0, len(text), size)]


def leaky(secret: str) -> Scenario:
    """The model and the tools say the secret wherever they can."""
    script = f"echo {secret}; echo {secret} >&2; head -c 3000000 /dev/zero | tr '\\0' x; echo {secret}"
    return scripted(
        call("run", {"shell": True, "script": SHOW}, "c1"),
        call("run", {"shell": True, "script": script}, "c2"),
        call("run", {"argv": [secret, secret]}, "c3"),
        call("edit_file", {"path": secret, "old_text": secret, "new_text": secret}, "c4"),
        call("update_plan", {"steps": [{"step": secret, "status": "pending"}]}, "c5"),
        call(secret, {secret: secret}, "c6"),
        {"respond": {"parts": [{"reasoning": secret}, *pieces(f"I say {secret}. And {secret}", 3)]}},
    )


def looks_back(project: Project) -> Mapping[str, bytes]:
    """Everything that the command line can tell about what was recorded."""
    told = {}
    for argv in (
        ("tasks", "show", "last"),
        ("tasks", "list"),
        ("sessions", "open", "last"),
        ("replay", "last"),
        ("history", "list"),
        ("doctor",),
        ("config", "show", "--effective"),
    ):
        for form in ("text", "json"):
            done = project.fluzo(*argv, "--output", form)
            told[" ".join((*argv, form))] = done.stdout + done.stderr
    done = project.fluzo("replay", "last", "--output", "stream-json")
    return {**told, "replay stream": done.stdout + done.stderr}


def live_text(streamed: bytes) -> str:
    """The text that a reader of the stream puts together."""
    records = [json.loads(line) for line in streamed.split(b"\n")[:-1]]
    return "".join(str(record.get("text", "")) for record in records if record["type"] == "text_delta")


def told_to_the_model(body: Mapping[str, Any]) -> bytes:
    """A request without the model's own words, which go back to it as it said them."""
    others = [message for message in body["messages"] if message["role"] != "assistant"]
    return json.dumps({**body, "messages": others}).encode()


@pytest.fixture
def surrounded(monkeypatch: pytest.MonkeyPatch, isolation: Path) -> Path:
    """The parent's environment is full of secrets, and so is the user's credential file; the home directory."""
    monkeypatch.setenv("MY_KEY", KEY)
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)
    return isolation


def told_of_a_leaky_run(root: Path, secret: str, auth: str, home: Path, *, keep: bool) -> bytes:
    """Play the leaky run and look back at it; the bytes of the requests, after checking that nothing holds a secret."""
    with Simulator(leaky(secret)) as simulator:
        if keep:
            keep_credential(home, simulator.base_url)
        project = make_project(root, simulator.base_url)
        point_at(root, simulator.base_url, auth)
        done = project.fluzo("run", "--yolo", "--output", "stream-json", "do it")
        assert done.returncode == 0, done.stderr.decode()
        assert simulator.finish() == []
        bodies = b"".join(told_to_the_model(request.body) for request in simulator.requests)
        sent = {request.headers["authorization"] for request in simulator.requests}
    assert sent == {f"Bearer {secret}"}, "the server gets the key, in the one header"
    environment = (root / "environment.txt").read_bytes()
    assert b"PATH=" in environment
    told = {"child": environment, "requests": bodies, "stdout": done.stdout, "stderr": done.stderr}
    for name, content in {**told, **looks_back(project)}.items():
        for sentinel in SENTINELS:
            assert sentinel.encode() not in content, f"{sentinel} in {name}"
    assert secret not in live_text(done.stdout)
    if keep:
        (home / ".config" / "fluzo" / "auth.toml").unlink()
    for sentinel in SENTINELS:
        evidence.assert_nowhere(sentinel, [root / ".fluzodrive", home])
    return bodies


def keep_credential(home: Path, endpoint: str) -> None:
    folder = home / ".config" / "fluzo"
    folder.mkdir(parents=True)
    (folder / "auth.toml").write_text(f'[credentials.main]\nendpoint = "{endpoint}"\nvalue = "{STORED}"\n')
    (folder / "auth.toml").chmod(0o600)


def test_secrets_of_the_parent_are_in_no_child_and_in_nothing_that_is_kept_or_told(
    tmp_path: Path, surrounded: Path
) -> None:
    auth = 'auth = "env"\napi_key_env = "MY_KEY"\n'
    bodies = told_of_a_leaky_run(tmp_path, KEY, auth, surrounded, keep=False)
    assert b"[redacted]" in bodies, "the model was told that something was there"


def test_a_credential_that_the_user_stored_is_in_nothing_that_is_kept_or_told(tmp_path: Path, surrounded: Path) -> None:
    auth = 'auth = "credential"\ncredential_ref = "main"\n'
    told_of_a_leaky_run(tmp_path, STORED, auth, surrounded, keep=True)


def test_a_crash_while_a_secret_is_in_hand_leaves_it_in_no_file(tmp_path: Path, surrounded: Path) -> None:
    auth = 'auth = "env"\napi_key_env = "MY_KEY"\n'
    script = f"echo {KEY}; echo ready > pipe; sleep 60"
    steps = call("run", {"shell": True, "script": f"echo {KEY}"}, "c1"), call("run", {"shell": True, "script": script})
    with Simulator(scripted(*steps)) as simulator:
        project = make_project(tmp_path, simulator.base_url)
        point_at(tmp_path, simulator.base_url, auth)
        os.mkfifo(tmp_path / "pipe")
        process = project.start("run", "--yolo", "do it", stdin=-3, stdout=-3, stderr=-3)
        assert (tmp_path / "pipe").read_text() == "ready\n"
        process.kill()
        process.wait(60)
    assert (tmp_path / ".fluzodrive" / "state.sqlite3-wal").stat().st_size, "the log was not moved into the file"
    evidence.assert_nowhere(KEY, [tmp_path / ".fluzodrive", surrounded])


def test_a_secret_in_another_form_is_not_promised_to_be_found() -> None:
    redact = make_redactor([KEY])
    encoded = base64.b64encode(KEY.encode()).decode()
    assert redact(f"{KEY} {encoded}") == f"[redacted] {encoded}"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_a_secret_is_masked_in_a_stream_wherever_it_is_cut(size: int) -> None:
    text = f"a key-of {KEY}{KEY} key-of-the- {KEY} ke"
    stream = RedactedStream(GrowingRedactor([KEY, "another-secret"]))
    shown = [stream.feed(text[start : start + size]) for start in range(0, len(text), size)]
    assert "".join([*shown, stream.rest()]) == text.replace(KEY, "[redacted]")


def test_a_text_that_begins_like_no_secret_is_shown_at_once() -> None:
    stream = RedactedStream(GrowingRedactor([KEY]))
    assert [stream.feed(piece) for piece in ("hello ", "world", " k", "ey ")] == ["hello ", "world", " ", "key "]
    assert stream.rest() == ""
