from pathlib import Path

import pytest
from support.complaints import Done, complaint, error_object, fluzo_in, only_object
from support.model_server import Reply, chat, models, scripted_model_server
from support.project import Project, call, closed_port, configure, make_project, say, scripted, shipped
from support.workspaces import make_repository

from fluzo.simulator.server import Simulator

JSON = "application/json"
ANSWERS: dict[str, tuple[Reply, str, str]] = {
    "html": (
        (200, "text/html", b"<!doctype html><title>Log in</title>" + b"<p>x" * 999),
        "provider_protocol",
        "web page",
    ),
    "malformed": ((200, JSON, b'{"data": [{"id": '), "provider_protocol", "not with JSON"),
    "nothing": ((200, JSON, b""), "provider_protocol", "not with JSON"),
    "no models": (models(), "provider_empty", "lists no models"),
    "401": ((401, JSON, b'{"error": {"message": "no such key"}}'), "provider_auth", "no such key"),
    "404": ((404, "text/plain", b"nope"), "provider_invalid_request", "404"),
    "429": ((429, JSON, b'{"error": {"message": "slow down"}}'), "rate_limited", "slow down"),
    "500": ((500, "text/html", b"<h1>Oops</h1>"), "provider_unavailable", "500"),
    "redirect": ((307, "text/plain", b"http://127.0.0.1:1/v1/models"), "redirect_blocked", "not followed"),
}
PROXIES = [
    {"ALL_PROXY": "socks5://127.0.0.1:9", "all_proxy": "socks5h://127.0.0.1:9"},
    {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"},
    {"ALL_PROXY": "not a proxy"},
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "r", {"a.txt": "a\n"})


def setup(root: Path, url: str, *more: str, **env: str) -> Done:
    return fluzo_in(root, "init", "--base-url", url, "--yes", *more, env=env)


def change(project: Project, **settings: str) -> None:
    """Change the model entry, and consent to that."""
    pairs = [word for key, value in settings.items() for word in (f"models.main.{key}", value)]
    for command in (("set", *pairs), ("trust", "--yes")):
        done = project.fluzo("config", *command)
        assert done.returncode == 0, done.stderr


# --- setup ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ANSWERS)
def test_setup_tells_what_the_server_answered_and_writes_nothing(root: Path, isolation: Path, name: str) -> None:
    reply, code, words = ANSWERS[name]
    with scripted_model_server(lambda _: reply, lambda _: reply) as server:
        done = setup(root, server.url, "--discover", "--output", "json")
        said = error_object(done, code, 8)
        assert words in said
        assert "127.0.0.1" in said
        assert "<p>" not in said
        assert [request.method for request in server.received] == ["GET"]
    assert sorted(path.name for path in root.iterdir()) == [".git", "a.txt"]
    assert not (isolation / ".config" / "fluzo").exists()


@pytest.mark.parametrize("name", ["html", "malformed", "nothing", "401", "500", "redirect", "no models"])
def test_a_probe_that_gets_no_chat_completion_is_no_success(root: Path, name: str) -> None:
    reply, code, words = ANSWERS[name]
    if name == "no models":
        code, words = "provider_protocol", "not with a chat completion"
    with scripted_model_server(None, lambda _: reply) as server:
        done = setup(root, server.url, "--model", "m", "--probe")
    assert words in complaint(done, code, 8)
    assert not (root / ".fluzo").exists()


def test_a_server_that_is_not_there_is_named_by_setup_and_doctor(root: Path) -> None:
    with closed_port() as url:
        for more in (("--discover",), ("--model", "m", "--probe")):
            said = complaint(setup(root, url, *more), "provider_unavailable", 8)
            assert url in said
            assert "Start the server" in said
        assert not (root / ".fluzo").exists()
        project = configure(root, url)
        answer = project.json("doctor", "--probe", status=1)
    (server,) = [check for check in answer["checks"] if check["name"] == "server"]
    assert (server["status"], server["code"]) == ("fail", "provider_unavailable")
    assert project.json("doctor")["ok"] is True, "without --probe nobody is asked"


@pytest.mark.parametrize("env", PROXIES, ids=["socks", "http", "nonsense"])
def test_setup_and_doctor_reach_this_machine_past_any_proxy(root: Path, env: dict[str, str]) -> None:
    with scripted_model_server(lambda _: models({"id": "m"}), chat()) as server:
        done = setup(root, server.url, "--discover", "--probe", **env)
        assert (done.returncode, done.stderr) == (0, b"")
        doctor = fluzo_in(root, "doctor", "--probe", env=env)
    assert doctor.returncode == 0, doctor.stdout


@pytest.mark.parametrize("env", PROXIES, ids=["socks", "http", "nonsense"])
def test_a_run_reaches_this_machine_past_any_proxy(tmp_path: Path, env: dict[str, str]) -> None:
    with Simulator(shipped("text-only")) as simulator:
        done = make_project(tmp_path / "p", simulator.base_url).fluzo("run", "Say hello.", env=env)
    assert (done.returncode, done.stdout) == (0, b"Hello there.\n")


@pytest.mark.parametrize(
    ("proxy", "setup_says"),
    [
        ("socks5://127.0.0.1:9", "proxy of your environment"),
        ("nonsense://127.0.0.1:9", "proxy of your environment"),
        ("http://127.0.0.1:9", "nothing answers there"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_named(tmp_path: Path, proxy: str, setup_says: str) -> None:
    # A literal address of another machine (RFC 5737), so that a proxy is wanted and no resolver is asked.
    project = make_project(tmp_path / "p", "http://127.0.0.1:9/v1", more="[harness]\nprovider_retries = 0\n")
    change(project, base_url="http://192.0.2.1:9/v1", allow_insecure_http="true")
    done = project.fluzo("run", "--output", "json", "Go.", env={"ALL_PROXY": proxy})
    result = only_object(done)
    assert (done.returncode, result["reason"]) == (8, "provider_unavailable")
    assert "proxy" in (result["error"]["message"] + result["error"]["hint"]).lower()
    assert b"Traceback" not in done.stderr
    setup_words = complaint(
        fluzo_in(
            make_repository(tmp_path / "q", {"a": ""}),
            *("init", "--base-url", "http://192.0.2.1:9/v1", "--allow-insecure-http", "--discover", "--yes"),
            env={"ALL_PROXY": proxy},
        ),
        "provider_unavailable",
        8,
    )
    assert setup_says in setup_words


# --- a run, as a person reads it --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("error-401", "refused the credentials (status 401)"),
        ("html", "web page (HTML)"),
        ("malformed", "not JSON"),
        ("empty", "nothing"),
        ("redirect", "not followed"),
    ],
)
def test_a_person_reads_the_cause_the_next_step_and_where_to_look(tmp_path: Path, name: str, words: str) -> None:
    with Simulator(shipped(name)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("run", "Say hello.")
    said = done.stderr.decode().rstrip("\n").split("\n")
    assert (done.returncode, done.stdout) == (8, b"")
    number = next(index for index, line in enumerate(said) if line.startswith("reason "))
    assert words in said[number]
    assert said[number].endswith("]")
    assert said[number + 1].startswith("  "), "a next step"
    assert said[-1].startswith("task t_")
    assert "fluzo tasks show" in said[-1]


def test_a_missing_key_is_named_and_nothing_is_sent(tmp_path: Path) -> None:
    with Simulator(shipped("text-only")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        change(project, auth="env", api_key_env="NO_SUCH_KEY")
        done = project.fluzo("run", "--output", "json", "Go.")
        assert simulator.requests == []
    result = only_object(done)
    assert (done.returncode, result["reason"]) == (3, "configuration_required")
    assert "NO_SUCH_KEY" in result["error"]["message"]


def test_a_call_that_no_tool_can_read_is_shown_under_the_tools_name(tmp_path: Path) -> None:
    with Simulator(scripted(call("git", {"verb": "status"}), say("ok"))) as simulator:
        done = make_project(tmp_path / "p", simulator.base_url).fluzo("run", "Go.")
    (line,) = [line for line in done.stderr.decode().split("\n") if "[tool_arguments]" in line]
    assert line.split()[1] == "git"
    assert done.returncode == 0
