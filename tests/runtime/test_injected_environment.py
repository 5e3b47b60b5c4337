"""What the settings give to commands: values, inherited variables and credentials, each only after consent."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.hosted import Running, played, start, workspace
from support.project import Project, call, make_project, say, scripted

from fluzo import setup_services as setup
from fluzo.core.port import AnswerPermission, ResumePlan, ResumeTask, TaskList
from fluzo.core.settings import injected_environment
from fluzo.host import HostOptions, open_host
from fluzo.policy.scope import fingerprint, process_operation, scope_of
from fluzo.simulator.server import Simulator
from fluzo.storage import consent

SECRET = "quite-an-unguessable-horse-42"
CREDENTIALS = '[tools.shell]\ncredentials = { DEPLOY_TOKEN = "deploy" }\n'
SHOW = ("sh", "-c", 'printf %s "$DEPLOY_TOKEN" > token.txt; echo "token $DEPLOY_TOKEN"')
ENV = ("sh", "-c", "env > seen.env")


def store(value: str, *refs: str) -> None:
    folder = consent.folder()
    folder.mkdir(parents=True, exist_ok=True)
    entries = (f'[credentials.{ref}]\ntool = true\nvalue = "{value}"\n' for ref in refs or ("deploy",))
    (folder / "auth.toml").write_text("".join(entries))
    (folder / "auth.toml").chmod(0o600)


def run(argv: tuple[str, ...]) -> dict[str, Any]:
    return call("run", {"argv": list(argv)}, "r1")


def seen(root: Path) -> Mapping[str, str]:
    return dict(line.partition("=")[::2] for line in (root / "seen.env").read_text().splitlines())


def private_files(*folders: Path) -> bytes:
    return b"".join(path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file())


# --- credentials ----------------------------------------------------------------------------------------------


def test_a_credential_reaches_the_command_and_no_other_place(tmp_path: Path, isolation: Path) -> None:
    store(SECRET)
    steps = (run(SHOW), call("read_file", {"path": "token.txt"}, "r2"), say("done"))
    with Simulator(scripted(*steps)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=CREDENTIALS)
        argument = " ".join((SHOW[0], SHOW[1], f"'{SHOW[2]}'"))
        done = project.fluzo("run", "--allow", argument, "--output", "stream-json", "deploy")
        shown = project.fluzo("replay", "last", "--output", "json")
        requests = b"".join(request.raw for request in simulator.requests)
    assert done.returncode == 0, done.stderr.decode()
    assert (project.root / "token.txt").read_text() == SECRET
    (isolation / ".config" / "fluzo" / "auth.toml").unlink()
    stored = private_files(project.root / ".fluzodrive", project.root / ".git", isolation)
    assert b"token [redacted]" in requests
    for place in (done.stdout, done.stderr, shown.stdout, shown.stderr, requests, stored):
        assert SECRET.encode() not in place


def test_no_part_of_a_credential_survives_where_output_is_shortened(tmp_path: Path) -> None:
    secret = "Zq7vXk2mWp9tRb4cYd6h"
    store(secret)
    small = "[context]\ntool_capture_max_bytes = 2048\ntool_context_max_bytes = 1024\n"
    flood = ("sh", "-c", 'for i in $(seq 400); do printf "%s" "$DEPLOY_TOKEN"; done')
    detail, _, simulator = played(tmp_path, scripted(run(flood), say("ok")), more=CREDENTIALS + small, allow=(flood,))
    requests = b"".join(request.raw for request in simulator.requests)
    stored = private_files(tmp_path / ".fluzodrive")
    assert detail["task"]["state"] == "completed"
    assert b"[redacted]" in requests
    pieces = {secret[at : at + 4].encode() for at in range(len(secret) - 3)}
    assert not [piece for piece in pieces if piece in requests or piece in stored]


def test_a_credential_that_is_not_there_is_said_before_anything_starts(tmp_path: Path) -> None:
    with Simulator(scripted(run(("touch", "made")))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=CREDENTIALS)
        result = project.json("run", "--allow", "touch made", "x", status=3)
    assert result["reason"] == "configuration_invalid"
    assert "The credential deploy is missing" in result["error"]["message"]
    assert "[credentials.deploy]\ntool = true" in result["error"]["hint"]
    assert not (project.root / "made").exists()


def test_a_credential_is_read_when_the_command_starts_and_masked_from_then_on(tmp_path: Path) -> None:
    store("an-older-value-of-it")
    with Simulator(scripted(run(SHOW), say("ok"))) as simulator:
        workspace(tmp_path, simulator.base_url, more=CREDENTIALS)
        with open_host(HostOptions(tmp_path)) as host:
            store(SECRET)
            start(host, allow=(SHOW,)).finish()
        requests = b"".join(request.raw for request in simulator.requests)
    assert (tmp_path / "token.txt").read_text() == SECRET
    assert b"token [redacted]" in requests
    assert SECRET.encode() not in requests + private_files(tmp_path / ".fluzodrive")


def test_a_credential_is_masked_before_any_command_has_had_it(tmp_path: Path) -> None:
    store(SECRET)
    steps = (call("read_file", {"path": "left.txt"}, "r1"), say("ok"))
    _, _, simulator = played(tmp_path, scripted(*steps), more=CREDENTIALS, files={"left.txt": f"see {SECRET}\n"})
    requests = b"".join(request.raw for request in simulator.requests)
    assert b"see [redacted]" in requests
    assert SECRET.encode() not in requests + private_files(tmp_path / ".fluzodrive")


def test_without_the_setting_no_command_has_it(tmp_path: Path) -> None:
    store(SECRET)
    played(tmp_path, scripted(run(ENV), say("ok")), allow=(ENV,))
    assert SECRET not in (tmp_path / "seen.env").read_text()


def test_a_question_names_the_reference_and_not_the_value(tmp_path: Path) -> None:
    store(SECRET)
    with Simulator(scripted(run(SHOW), say("ok"))) as simulator:
        workspace(tmp_path, simulator.base_url, more=CREDENTIALS)
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host, interactive=True)
            question = running.pending()
            assert question["env"] == {"DEPLOY_TOKEN": "credential:deploy"}
            assert SECRET not in json.dumps(question)
            running.tell(
                AnswerPermission(running.ack.task_id, question["operation_id"], question["fingerprint"], "once")
            )
            running.finish()
    assert (tmp_path / "token.txt").read_text() == SECRET


def test_trust_shows_the_reference_and_not_the_value(tmp_path: Path) -> None:
    store(SECRET)
    project = make_project(tmp_path / "p", "http://127.0.0.1:1/v1", more=CREDENTIALS)
    shown = project.fluzo("config", "trust", "--show")
    assert b"DEPLOY_TOKEN from the credential deploy" in shown.stdout + shown.stderr
    assert SECRET.encode() not in shown.stdout + shown.stderr
    everything = project.fluzo("config", "show", "--effective")
    assert b"deploy" in everything.stdout
    assert SECRET.encode() not in everything.stdout + everything.stderr


# --- consent --------------------------------------------------------------------------------------------------

BEFORE = '[tools.shell]\ninherit_env = ["FARM"]\nenv = { BARN = "red" }\ncredentials = { DEPLOY_TOKEN = "deploy" }\n'
CHANGED = (
    BEFORE.replace('["FARM"]', '["FARM", "FIELD"]'),
    BEFORE.replace('"red"', '"blue"'),
    BEFORE.replace('"deploy"', '"other"'),
    BEFORE.replace("DEPLOY_TOKEN", "UPLOAD_TOKEN"),
    BEFORE.replace('inherit_env = ["FARM"]\n', ""),
)


@pytest.fixture
def farm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM", "from the parent")
    monkeypatch.setenv("FIELD", "unasked")
    store(SECRET)


@pytest.mark.usefixtures("farm")
def test_what_was_consented_to_reaches_the_command_and_nothing_else_of_the_parent_does(tmp_path: Path) -> None:
    played(tmp_path, scripted(run(ENV), say("ok")), more=BEFORE, allow=(ENV,))
    environment = seen(tmp_path)
    assert (environment["FARM"], environment["BARN"]) == ("from the parent", "red")
    assert environment["DEPLOY_TOKEN"] == SECRET
    assert "FIELD" not in environment


@pytest.mark.usefixtures("farm")
def test_an_inherited_variable_that_is_not_set_is_simply_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FARM")
    played(tmp_path, scripted(run(ENV), say("ok")), more=BEFORE, allow=(ENV,))
    assert "FARM" not in seen(tmp_path)


def test_an_inherited_secret_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_TOKEN", SECRET)
    echo = ("sh", "-c", "echo farm $FARM_TOKEN")
    more = '[tools.shell]\ninherit_env = ["FARM_TOKEN"]\n'
    _, _, simulator = played(tmp_path, scripted(run(echo), say("ok")), more=more, allow=(echo,))
    requests = b"".join(request.raw for request in simulator.requests)
    assert b"farm [redacted]" in requests
    assert SECRET.encode() not in requests + private_files(tmp_path / ".fluzodrive")


@pytest.mark.usefixtures("farm")
@pytest.mark.parametrize("more", (BEFORE, *CHANGED))
def test_without_consent_to_exactly_this_environment_nothing_runs_and_nobody_is_contacted(
    tmp_path: Path, more: str
) -> None:
    with Simulator(scripted(run(ENV), say("ok"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=BEFORE if more != BEFORE else "")
        rewritten(project, more)
        error = project.json("run", "--allow", "sh -c 'env > seen.env'", "x", status=3)["error"]
        assert error["code"] == "consent_required"
        assert error["detail"]["missing"] == ["environment"]
        assert not simulator.requests
    assert not (project.root / "seen.env").exists()


@pytest.mark.parametrize("more", CHANGED)
def test_permission_for_a_command_holds_in_its_own_environment_alone(tmp_path: Path, more: str) -> None:
    workspace(tmp_path, "http://127.0.0.1:1/v1")
    plain = (tmp_path / ".fluzo").read_text()

    def scope(tables: str) -> str:
        (tmp_path / ".fluzo").write_text(plain + tables)
        environment = injected_environment(setup.load_settings(tmp_path / ".fluzo").settings)
        return fingerprint(scope_of(process_operation(ENV, env=environment), "w"))

    assert len({scope(""), scope(BEFORE), scope(more)}) == 3


@pytest.mark.usefixtures("farm")
@pytest.mark.parametrize("more", (BEFORE, *CHANGED))
def test_permission_to_retry_what_was_asked_before_a_change_does_not_hold_after_it(tmp_path: Path, more: str) -> None:
    store(SECRET, "deploy", "other")
    script = "echo run >> ran; test -p pipe && echo ready > pipe && sleep 60; true"
    again = call("run", {"shell": True, "script": script}, "r2")
    with Simulator(scripted(call("run", {"shell": True, "script": script}, "r1"), again, say("ok"))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=BEFORE)
        os.mkfifo(project.root / "pipe")
        process = project.start("run", "--yolo", "do it", stdin=-3, stdout=-3, stderr=-3)
        assert (project.root / "pipe").read_text() == "ready\n"
        process.kill()
        process.wait(60)
        (project.root / "pipe").unlink()
        rewritten(project, more)
        assert project.fluzo("config", "trust", "--yes").returncode == 0
        with open_host(HostOptions(project.root)) as host:
            (task,) = host.port.query(TaskList()).result(60).data["tasks"]
            plan = host.port.query(ResumePlan(task["id"])).result(60).data
            (unknown,) = [item["operation_id"] for item in plan["unknown"] if item["tool"] == "run"]
            ack = host.port.dispatch(ResumeTask("r", task["id"], plan["reconciled"], retry=(unknown,))).result(60)
            detail = Running(host, ack, host.port.subscribe(ack.task_id, ack.cursor)).finish()
    same = more == BEFORE
    assert detail["task"]["reason"] == ("" if same else "permission_required")
    assert (project.root / "ran").read_text() == "run\n" * (2 if same else 1)


def rewritten(project: Project, more: str) -> None:
    """Other settings than those that were consented to."""
    kept = (project.root / ".fluzo").read_text().partition("[tools.shell]")[0]
    (project.root / ".fluzo").write_text(kept + more)
