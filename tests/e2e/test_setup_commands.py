import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
from support.model_server import chat, models, scripted_model_server

from fluzo.core.settings import parse_settings, registry
from fluzo.core.settings_schema import json_schema

URL = "http://127.0.0.1:8080/v1"
REPOSITORY = Path(__file__).parents[2]


def fluzo(*argv: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fluzo", *argv],
        cwd=cwd,
        env=os.environ | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def ok(*argv: str, cwd: Path, **env: str) -> str:
    done = fluzo(*argv, cwd=cwd, **env)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def init(cwd: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return fluzo("init", "--base-url", URL, "--model", "m", "--yes", *argv, cwd=cwd)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    subprocess.run(["git", "init", "--quiet", root], check=True)
    return root


@pytest.fixture
def set_up(repo: Path) -> Path:
    assert init(repo, "--verify", "cargo test").returncode == 0
    return repo


def consent_file(isolation: Path) -> Path:
    return isolation / ".config" / "fluzo" / "consent.json"


# --- init -------------------------------------------------------------------------------------------------------


def test_flags_write_a_complete_valid_file_and_ask_nothing(repo: Path, isolation: Path) -> None:
    checks = ("--verify", "cargo test -- --quiet", "--verify", "sh -c 'echo \"a b\"'")
    done = init(repo, *checks, "--context-window", "8192", "--max-in-flight", "2")

    assert (done.returncode, done.stderr) == (0, "")
    data = tomllib.loads((repo / ".fluzo").read_text())
    settings = parse_settings(data)
    model = data["models"]["coder"]
    assert (model["base_url"], model["model"], model["context_window"], model["max_in_flight"]) == (URL, "m", 8192, 2)
    assert model["max_output_tokens"] == 2048
    assert settings.verification.commands == (("cargo", "test", "--", "--quiet"), ("sh", "-c", 'echo "a b"'))
    assert settings.project.name == "repo"
    assert (repo / ".git/info/exclude").read_text().endswith("/.fluzodrive/\n")
    assert not (repo / ".gitignore").exists()
    records = json.loads(consent_file(isolation).read_text())["workspaces"]
    assert [sorted(record) for record in records.values()] == [["endpoint:coder", "verification"]]


def test_init_works_from_a_folder_within_the_repository(repo: Path) -> None:
    (repo / "src").mkdir()
    assert init(repo / "src").returncode == 0
    assert (repo / ".fluzo").exists()
    assert ok("config", "path", cwd=repo / "src").strip() == str(repo / ".fluzo")


def test_init_outside_git_works_with_a_note(tmp_path: Path) -> None:
    done = init(tmp_path)
    assert done.returncode == 0
    assert (tmp_path / ".fluzo").exists()
    assert "not in a Git repository" in done.stdout


def test_without_a_terminal_init_spells_out_the_flags_and_writes_nothing(repo: Path, isolation: Path) -> None:
    done = fluzo("init", cwd=repo)
    assert done.returncode == 3
    assert "[configuration_required]" in done.stderr
    assert "fluzo init --base-url" in done.stderr
    assert not (repo / ".fluzo").exists()
    assert not consent_file(isolation).exists()


def test_an_existing_file_is_replaced_only_by_force(set_up: Path) -> None:
    before = (set_up / ".fluzo").read_text()
    done = init(set_up)
    assert done.returncode == 2
    assert "[confirmation_required]" in done.stderr
    assert (set_up / ".fluzo").read_text() == before

    assert init(set_up, "--force", "--max-in-flight", "3").returncode == 0
    assert "max_in_flight = 3" in (set_up / ".fluzo").read_text()
    assert [entry.name for entry in set_up.iterdir() if "bak" in entry.name] == []


def test_a_broken_file_is_diagnosed_and_kept_as_a_copy_when_replaced(repo: Path) -> None:
    broken = b"schema_version = 1\nharness = [\n# \xff"
    (repo / ".fluzo").write_bytes(broken)

    done = init(repo)
    assert done.returncode == 3
    assert ".fluzo, line 3: the file is not UTF-8" in done.stderr
    assert (repo / ".fluzo").read_bytes() == broken

    assert "kept as" in init(repo, "--force").stdout
    assert (repo / ".fluzo.bak-1").read_bytes() == broken
    assert ok("config", "get", "models.coder.model", cwd=repo) == "m\n"


def test_a_link_in_the_place_of_the_file_is_refused(repo: Path, tmp_path: Path) -> None:
    (repo / ".fluzo").symlink_to(tmp_path / "elsewhere")
    done = init(repo, "--force")
    assert done.returncode == 3
    assert "symbolic link" in done.stderr
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--base-url", "localhost:8080", "--model", "m"), "--base-url: The address must begin with http://"),
        (("--base-url", URL), "--model is missing"),
        (("--model", "m"), "--base-url is missing"),
        (("--base-url", URL, "--model", "m", "--auth", "basic"), "--auth is none, env or credential"),
        (("--base-url", URL, "--model", "m", "--context-window", "many"), "--context-window: Give a whole number"),
        (("--base-url", URL, "--model", "m", "--context-window", "5"), "--context-window: Give a whole number"),
        (("--base-url", URL, "--model", "m", "--verify", "a 'b"), "unclosed quote"),
        (("--base-url", URL, "--model", "m", "--output", "xml"), "--output is text or json"),
    ],
)
def test_a_flag_that_makes_no_sense_is_a_usage_error(repo: Path, argv: tuple[str, ...], words: str) -> None:
    done = fluzo("init", "--yes", *argv, cwd=repo)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (repo / ".fluzo").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--base-url", "http://10.0.0.5/v1", "--model", "m"), "plain http to another machine"),
        (("--base-url", URL, "--model", "m", "--auth", "env"), "api_key_env is missing"),
        (("--base-url", URL, "--model", "m", "--api-key-env", "sk-abcdefghijklmnopqrstuvwx"), "literal secret"),
        (("--base-url", URL, "--model", "m", "--context-window", "2048"), "no room for input"),
    ],
)
def test_flags_that_break_a_rule_write_nothing(repo: Path, argv: tuple[str, ...], words: str) -> None:
    done = fluzo("init", "--yes", *argv, cwd=repo)
    assert done.returncode == 3
    assert words in done.stderr
    assert "sk-" not in done.stderr
    assert not (repo / ".fluzo").exists()


def test_naming_a_key_variable_sets_the_way_of_authentication(repo: Path) -> None:
    assert init(repo, "--api-key-env", "MODELS_KEY").returncode == 0
    assert ok("config", "get", "models.coder.auth", cwd=repo) == "env\n"


def test_discovery_takes_the_only_model_with_its_window(repo: Path) -> None:
    with scripted_model_server(get=lambda _: models({"id": "only", "meta": {"n_ctx": 16384}})) as server:
        ok("init", "--base-url", server.url, "--discover", "--yes", cwd=repo)
    assert server.paths == ["GET /v1/models"]
    assert ok("config", "get", "models.coder.model", cwd=repo) == "only\n"
    assert ok("config", "get", "models.coder.context_window", cwd=repo) == "16384\n"


def test_discovery_of_several_models_asks_for_a_choice(repo: Path) -> None:
    with scripted_model_server(get=lambda _: models({"id": "a"}, {"id": "b"})) as server:
        done = fluzo("init", "--base-url", server.url, "--discover", "--yes", cwd=repo)
        other = fluzo("init", "--base-url", server.url, "--discover", "--model", "c", "--yes", cwd=repo)
    assert done.returncode == other.returncode == 2
    assert "choose one with --model" in done.stderr
    assert "does not list" in other.stderr


def test_the_probe_stores_what_the_server_refuses(repo: Path) -> None:
    with scripted_model_server(post=chat(["stream_options"])) as server:
        ok("init", "--base-url", server.url, "--model", "m", "--probe", "--yes", cwd=repo)
        assert all(path == "POST /v1/chat/completions" for path in server.paths)
    assert ok("config", "get", "models.coder.compat.usage_in_stream", cwd=repo) == "false\n"


def test_without_the_two_flags_no_server_is_contacted(repo: Path) -> None:
    with scripted_model_server(get=lambda _: models({"id": "m"}), post=chat()) as server:
        ok("init", "--base-url", server.url, "--model", "m", "--yes", cwd=repo)
        ok("config", "show", "--effective", cwd=repo)
        ok("config", "trust", "--yes", cwd=repo)
    assert server.received == []


def test_a_failed_discovery_writes_nothing_and_answers_json(repo: Path) -> None:
    with scripted_model_server(get=lambda _: (401, "application/json", b"{}")) as server:
        done = fluzo("init", "--base-url", server.url, "--discover", "--yes", "-o", "json", cwd=repo)
    assert done.returncode == 8
    assert json.loads(done.stdout)["error"]["code"] == "provider_auth"
    assert not (repo / ".fluzo").exists()


def test_the_json_result_says_what_was_done(repo: Path) -> None:
    result = json.loads(init(repo, "--output", "json").stdout)
    assert result["type"] == "init"
    assert (result["replaced"], result["copy"], result["git_exclude"]) == (False, None, "added")
    assert result["consent"] == ["endpoint:coder"]
    assert json.loads(init(repo, "--force", "-o", "json").stdout)["git_exclude"] == "ignored"


def test_no_exclude_leaves_git_alone_and_says_what_follows(repo: Path) -> None:
    before = (repo / ".git/info/exclude").read_text()
    done = init(repo, "--no-exclude")
    assert "Git does not ignore .fluzodrive/ yet" in done.stdout
    assert (repo / ".git/info/exclude").read_text() == before


def test_a_tracked_store_is_told_with_the_repair(repo: Path) -> None:
    (repo / ".fluzodrive").mkdir()
    (repo / ".fluzodrive/x").write_text("x")
    subprocess.run(["git", "add", "-f", ".fluzodrive/x"], cwd=repo, check=True)
    assert "git rm -r --cached .fluzodrive" in init(repo).stdout


def test_settings_given_by_set_are_saved_by_init(repo: Path) -> None:
    ok("--set", "harness.max_turns=50", "init", "--base-url", URL, "--model", "m", "--yes", cwd=repo)
    assert ok("config", "get", "harness.max_turns", cwd=repo) == "50\n"


def test_without_a_home_nothing_is_written(repo: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CONFIG_HOME")}
    done = subprocess.run(
        [sys.executable, "-m", "fluzo", "init", "--base-url", URL, "--model", "m", "--yes"],
        cwd=repo, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 10
    assert "XDG_CONFIG_HOME" in done.stderr
    assert not (repo / ".fluzo").exists()


# --- config -----------------------------------------------------------------------------------------------------


def test_show_tells_each_value_and_its_source(set_up: Path) -> None:
    (set_up / ".fluzo").write_text(
        f'schema_version = 1\n[models.c]\nprovider = "openai_compatible"\nbase_url = "{URL}"\nmodel = "m\x7f"\n'
        "[harness]\nmax_turns = 5\n".replace("\x7f", "\\u202e")
    )
    text = ok("--set", "harness.max_tool_calls=9", "config", "show", "--effective", cwd=set_up)
    rows = {line.split(" = ")[0].strip(): line.split(" = ", 1)[1] for line in text.splitlines()}
    assert rows["harness.max_turns"] == "5   (file)"
    assert rows["harness.max_tool_calls"] == "9   (flag)"
    assert rows["harness.provider_retries"] == "2   (default)"
    assert rows["models.c.model"] == '"m\\u202e"   (file)'

    plain = ok("config", "show", cwd=set_up)
    assert len(plain.splitlines()) == 5

    listed = json.loads(ok("config", "show", "--effective", "-o", "json", cwd=set_up))["settings"]
    assert {"key": "harness.max_turns", "value": 5, "source": "file"} in listed
    leaves = {setting.key for setting in registry() if "<id>" not in setting.key and "[]" not in setting.key}
    assert leaves <= {row["key"] for row in listed}


def test_get_and_set_are_typed_and_keep_comments(set_up: Path) -> None:
    path = set_up / ".fluzo"
    path.write_text(path.read_text().replace("max_turns = 30", "max_turns = 30  # mine"))
    before = path.read_text()

    assert "saved in" in ok("config", "set", "harness.max_turns", "50", cwd=set_up)

    assert path.read_text() == before.replace("max_turns = 30", "max_turns = 50")
    assert json.loads(ok("config", "get", "harness.max_turns", "-o", "json", cwd=set_up))["value"] == 50
    ok("config", "set", "models.coder.model", "30", cwd=set_up)
    assert ok("config", "get", "models.coder.model", cwd=set_up) == "30\n"


@pytest.mark.parametrize(
    ("key", "value", "status", "words"),
    [
        ("harness.max_turn", "5", 2, "did you mean harness.max_turns?"),
        ("harness.max_turns", "five", 2, "a whole number"),
        ("harness.max_turns", "0", 3, "from 1 to 100000"),
        ("models.coder.pool", "gpu", 3, "no such entry"),
        ("models.coder.api_key_env", "sk-abcdefghijklmnopqrstuvwx", 3, "literal secret"),
    ],
)
def test_a_setting_that_is_wrong_is_not_saved(set_up: Path, key: str, value: str, status: int, words: str) -> None:
    before = (set_up / ".fluzo").read_text()
    done = fluzo("config", "set", key, value, cwd=set_up)
    assert done.returncode == status
    assert words in done.stderr
    assert "sk-" not in done.stderr
    assert (set_up / ".fluzo").read_text() == before


def test_settings_that_only_fit_together_are_saved_together(set_up: Path) -> None:
    small = ("models.coder.context_window", "6000")
    rest = ("models.coder.max_output_tokens", "1000", "context.compaction_max_output_tokens", "500")
    assert "no room for input" in fluzo("config", "set", *small, cwd=set_up).stderr
    ok("config", "set", *small, *rest, cwd=set_up)
    assert ok("config", "get", "models.coder.context_window", cwd=set_up) == "6000\n"
    assert fluzo("config", "set", "tui.theme", cwd=set_up).returncode == 2


def test_an_unknown_key_in_the_file_is_told_like_this(repo: Path) -> None:
    (repo / ".fluzo").write_text("schema_version = 1\n\n[harness]\nmax_turn = 5\n")
    done = fluzo("config", "show", cwd=repo)
    assert done.returncode == 3
    assert done.stderr == (
        "error: .fluzo, line 4: harness.max_turn is not a setting; did you mean harness.max_turns?"
        "  [configuration_invalid]\n  nothing was started. Fix the line, or run: fluzo config edit\n"
    )


def test_another_file_can_be_chosen_for_the_workspace(set_up: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("schema_version = 1\n[harness]\nmax_turns = 3\n")
    assert ok("--config", str(other), "config", "get", "harness.max_turns", cwd=set_up) == "3\n"
    assert ok("--config", "../other.toml", "config", "get", "harness.max_turns", cwd=set_up) == "3\n"


def test_the_schema_fits_the_file(set_up: Path) -> None:
    schema = json.loads(ok("config", "schema", cwd=set_up))
    assert schema == json_schema()
    jsonschema.validate(tomllib.loads((set_up / ".fluzo").read_text()), schema)


def test_the_form_without_a_terminal_names_the_other_way(set_up: Path) -> None:
    done = fluzo("config", "edit", cwd=set_up)
    assert done.returncode == 2
    assert "fluzo config set KEY VALUE" in done.stderr


@pytest.mark.parametrize("name", ["show", "get", "set", "edit", "schema", "path", "trust"])
def test_every_config_command_has_a_help_with_an_example(tmp_path: Path, name: str) -> None:
    assert f"fluzo config {name}" in ok("config", name, "--help", cwd=tmp_path).split("Example")[1]


# --- consent ----------------------------------------------------------------------------------------------------


def test_trust_shows_what_it_covers_and_needs_yes_without_a_terminal(set_up: Path, isolation: Path) -> None:
    note = fluzo("config", "set", "models.coder.base_url", "http://127.0.0.1:9/v1", cwd=set_up).stderr
    assert "endpoint:coder" in note
    assert "fluzo config trust" in note
    before = consent_file(isolation).read_text()

    shown = ok("config", "trust", "--show", cwd=set_up)
    assert "endpoint:coder: missing\n      http://127.0.0.1:9/v1 without a key" in shown
    assert 'verification: given\n      ["cargo", "test"]' in shown
    done = fluzo("config", "trust", cwd=set_up)
    assert (done.returncode, consent_file(isolation).read_text()) == (2, before)
    assert "[confirmation_required]" in done.stderr

    assert "Recorded your consent: endpoint:coder." in ok("config", "trust", "--yes", cwd=set_up)
    assert "missing" not in ok("config", "trust", "--show", cwd=set_up)


def test_a_harmless_change_needs_no_new_consent(set_up: Path) -> None:
    ok("config", "set", "tui.animation_fps", "0", cwd=set_up)
    assert "missing" not in ok("config", "trust", "--show", cwd=set_up)


def test_a_copied_folder_brings_no_consent(set_up: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", set_up, copy], check=True)
    assert "given" not in ok("config", "trust", "--show", cwd=copy)


def test_consent_can_be_taken_back(set_up: Path) -> None:
    assert "endpoint:coder, verification" in ok("config", "trust", "--revoke", cwd=set_up)
    assert "given" not in ok("config", "trust", "--show", cwd=set_up)
    assert "no consent" in ok("config", "trust", "--revoke", cwd=set_up)


# --- the reference ----------------------------------------------------------------------------------------------


def test_the_configuration_reference_is_what_the_registry_says(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fluzo.commands.reference"]
    assert subprocess.run([*command, "--check"], cwd=REPOSITORY, check=False).returncode == 0

    subprocess.run(command, cwd=tmp_path, check=True)
    text = (tmp_path / "docs/configuration.md").read_text()
    for setting in registry():
        assert f"| `{setting.key.rpartition('.')[2]}` |" in text
    (tmp_path / "docs/configuration.md").write_text(text.replace("`30`", "`31`"))
    assert subprocess.run([*command, "--check"], cwd=tmp_path, capture_output=True, check=False).returncode == 1


# --- what reading settings costs --------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [("get", "harness.max_turns"), ("show", "--effective"), ("trust", "--show")])
def test_reading_settings_loads_no_editor_no_network_and_no_prompt(set_up: Path, argv: tuple[str, ...]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "fluzo", "config", *argv]
    done = subprocess.run(command, cwd=set_up, capture_output=True, text=True, check=True)

    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "pydantic_core" in loaded
    assert loaded.isdisjoint({"pydantic", "tomlkit", "httpx", "questionary", "prompt_toolkit", "rich", "peewee"})
