import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.model_server import chat, models, scripted_model_server
from support.terminal import ScriptedPerson, person_at

from fluzo.core.settings import Settings, parse_settings


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    subprocess.run(["git", "init", "--quiet", root], check=True)
    (root / "Cargo.toml").write_text("[package]\n")
    return root


@contextmanager
def wizard(repo: Path, *argv: str, **env: str) -> Iterator[ScriptedPerson]:
    with person_at(*(argv or ("init",)), cwd=repo, env=dict(os.environ) | env) as person:
        yield person


def settings_of(repo: Path) -> Settings:
    return parse_settings(tomllib.loads((repo / ".fluzo").read_text()))


def nothing_written(repo: Path) -> bool:
    private = Path(os.environ["HOME"]) / ".config" / "fluzo"
    return not (repo / ".fluzo").exists() and not private.exists()


def up_to_the_summary(person: ScriptedPerson, url: str) -> None:
    """Through the wizard with a typed address and model and the offered answers."""
    person.sees("Nothing is contacted unless you choose")
    person.accepts("Where is your model?")
    person.answers("Address of the server:", url)
    person.accepts("Does the server want a key?")
    person.sees("Ask the server for its list")
    person.presses("down", "enter")
    person.answers("The name as the server lists it", "small-model")
    person.accepts("Test the model now?")
    person.accepts("Context window in tokens:")
    person.accepts("Longest reply in tokens:")
    person.accepts("Requests at the same time:")
    person.accepts("(Space marks, Enter goes on)")
    person.accepts("Another command (Enter for none):")
    person.accepts("Look at the advanced settings?")
    person.sees("Write it?")


def test_a_person_sets_a_folder_up_without_any_contact(repo: Path) -> None:
    with scripted_model_server(get=lambda _: models({"id": "m"}), post=chat()) as server, wizard(repo) as person:
        up_to_the_summary(person, server.url)
        assert nothing_written(repo)
        person.sees(f"endpoint   {server.url}  (no key)")
        person.sees("check      cargo test")
        person.presses("down", "enter")
        person.sees("schema_version = 1")
        person.presses("enter")
        person.accepts("Have Git ignore it in this clone")
        person.sees("Next: fluzo run")
        assert person.leaves() == 0
        assert server.received == []

    settings = settings_of(repo)
    assert settings.verification.commands == (("cargo", "test"),)
    assert settings.models["coder"].max_in_flight == 1
    assert (repo / ".git/info/exclude").read_text().endswith("/.fluzodrive/\n")
    assert not (repo / ".gitignore").exists()


def test_models_are_listed_and_tested_only_when_asked(repo: Path) -> None:
    listed = models({"id": "first", "max_model_len": 8000}, {"id": "second", "meta": {"n_ctx": 16384}})
    with (
        scripted_model_server(get=lambda _: listed, post=chat(["stream_options"])) as server,
        wizard(repo, "init", "--base-url", server.url) as person,
    ):
        person.accepts("Does the server want a key?")
        person.sees("Ask the server for its list")
        assert server.received == []
        person.presses("enter")
        person.sees("second   16384 tokens")
        assert server.paths == ["GET /v1/models"]
        person.presses("down", "enter")
        person.sees("Test the model now?")
        person.types("y")
        person.sees("stream_options: refused (Unrecognized request argument supplied: stream_options<U+001B>[31m)")
        person.accepts("Store what the server refuses")
        person.sees("Context window in tokens: 16384")
        person.presses("enter")
        person.accepts("Longest reply in tokens: 4096")
        person.accepts("Requests at the same time:")
        person.accepts("(Space marks, Enter goes on)")
        person.answers("Another command", "make 'a b'")
        person.accepts("Another command (Enter for none): make 'a b'\n? Another command (Enter for none):")
        person.accepts("Look at the advanced settings?")
        person.accepts("Write it?")
        person.accepts("Have Git ignore it")
        assert person.leaves() == 0

    model = settings_of(repo).models["coder"]
    assert (getattr(model, "model", ""), getattr(model, "context_window", 0)) == ("second", 16384)
    assert settings_of(repo).verification.commands == (("cargo", "test"), ("make", "a b"))
    assert "usage_in_stream = false" in (repo / ".fluzo").read_text()


def test_a_declined_summary_writes_nothing(repo: Path) -> None:
    with wizard(repo) as person:
        up_to_the_summary(person, "http://127.0.0.1:9/v1")
        person.presses("down", "down", "enter")
        person.sees("Nothing was written.")
        assert person.leaves() == 130
    assert nothing_written(repo)


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ("Where is your model?", ["ctrl-c"]),
        ("Address of the server:", ["ctrl-c"]),
        ("Address of the server:", ["kill-line", "ctrl-d"]),
        ("Write it?", ["ctrl-c"]),
    ],
)
def test_leaving_in_the_middle_writes_nothing(repo: Path, place: str, keys: list[str]) -> None:
    with wizard(repo) as person:
        if place == "Write it?":
            up_to_the_summary(person, "http://127.0.0.1:9/v1")
        else:
            person.sees("Where is your model?")
            if place != "Where is your model?":
                person.presses("enter")
            person.sees(place)
        person.presses(*keys)
        person.sees("You left setup; nothing was written.  [cancelled]")
        assert person.leaves() == 130
        assert b"Traceback" not in person.raw
    assert nothing_written(repo)


def test_a_bad_answer_is_explained_and_can_be_corrected(repo: Path) -> None:
    with wizard(repo) as person:
        person.accepts("Where is your model?")
        person.answers("Address of the server:", "localhost")
        person.sees("The address must begin with http:// or https://")
        person.presses("ctrl-c")
        assert person.leaves() == 130


def test_plain_http_elsewhere_is_warned_of_and_not_accepted_by_enter(repo: Path) -> None:
    with wizard(repo) as person:
        person.accepts("Where is your model?")
        person.answers("Address of the server:", "http://192.0.2.7:8080/v1")
        person.sees("travel unencrypted")
        person.sees("Address: http://192.0.2.7:8080/v1")
        person.sees("Its host is now: 192.0.2.7")
        person.accepts("Use plain http to this address all the same?")
        person.sees("Address of the server: http://127.0.0.1:8080/v1")
        person.presses("ctrl-c")
        assert person.leaves() == 130


def test_no_model_now_saves_offline(repo: Path) -> None:
    with wizard(repo) as person:
        person.sees("Where is your model?")
        person.presses("down", "down", "enter")
        person.accepts("(Space marks, Enter goes on)")
        person.accepts("Another command (Enter for none):")
        person.accepts("Look at the advanced settings?")
        person.accepts("Write it?")
        person.accepts("Have Git ignore it")
        assert person.leaves() == 0
    assert settings_of(repo).models == {}


def test_an_existing_file_is_kept_unless_the_person_says_so(repo: Path) -> None:
    (repo / ".fluzo").write_text("schema_version = 1\n")
    with wizard(repo) as person:
        person.accepts(".fluzo exists already. Replace it?")
        person.sees("Nothing was changed.")
        assert person.leaves() == 130
    assert (repo / ".fluzo").read_text() == "schema_version = 1\n"


def test_advanced_settings_are_a_form_over_the_registry(repo: Path) -> None:
    url = ("--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--verify", "make test", "--no-exclude")
    with wizard(repo, "init", *url) as person:
        person.accepts("Does the server want a key?")
        person.accepts("Context window in tokens:")
        person.accepts("Longest reply in tokens:")
        person.accepts("Requests at the same time:")
        person.accepts("(Space marks, Enter goes on)")
        person.accepts("Another command (Enter for none):")
        person.sees("Look at the advanced settings?")
        person.types("y")
        person.sees("Group:")
        person.presses("down", "enter")
        person.sees("harness.max_turns = 30")
        person.presses("down", "enter")
        person.answers("harness.max_turns:", "0")
        person.sees("Give a value from 1 to 100000 (turns).")
        person.answers("harness.max_turns:", "44")
        person.sees("harness.max_turns = 44  (changed)")
        person.presses("enter")
        person.accepts("Group:")
        person.accepts("Write it?")
        person.sees("Git does not ignore .fluzodrive/ yet")
        assert person.leaves() == 0
    assert settings_of(repo).harness.max_turns == 44


def test_config_edit_saves_what_was_changed_in_the_form(repo: Path) -> None:
    (repo / ".fluzo").write_text("schema_version = 1 # keep\n[tui]\ndev_menu = false\n")
    with wizard(repo, "config", "edit") as person:
        person.sees("Setting:")
        person.types("dev_menu")
        person.sees("tui.dev_menu = false")
        person.presses("enter")
        person.sees("tui.dev_menu?")
        person.types("y")
        person.accepts("Setting:")
        person.sees("tui.dev_menu: false -> true")
        person.accepts("Save to")
        assert person.leaves() == 0
    assert (repo / ".fluzo").read_text() == "schema_version = 1 # keep\n[tui]\ndev_menu = true\n"


def test_a_form_whose_changes_clash_is_told_and_stays_open(repo: Path) -> None:
    before = "schema_version = 1\n[tui]\ndev_menu = false\n"
    (repo / ".fluzo").write_text(before)
    with wizard(repo, "config", "edit") as person:
        person.sees("Setting:")
        person.types("harness.currency")
        person.sees('harness.currency = ""')
        person.presses("enter")
        person.answers("harness.currency:", "euro")
        person.accepts("Setting:")
        person.accepts("Save to")
        person.sees("harness.currency must be a three-letter code")
        assert (repo / ".fluzo").read_text() == before
        person.sees('harness.currency = "euro"  (changed)')
        (repo / ".fluzo").write_text(before + "theme = 'high-contrast'\n")
        person.types("harness.currency")
        person.presses("enter")
        person.answers("harness.currency: euro", "EUR")
        person.sees('harness.currency = "EUR"  (changed)')
        person.presses("enter")
        person.sees('"" -> "EUR"')
        person.presses("enter")
        person.sees("was changed by something else meanwhile")
        person.sees("Put your changes on top of the file as it is now?")
        person.types("y")
        person.sees("Saved in")
        assert person.leaves() == 0
    assert (repo / ".fluzo").read_text() == before + "theme = 'high-contrast'\n\n[harness]\ncurrency = \"EUR\"\n"


def test_a_size_that_leaves_no_room_is_asked_again(repo: Path) -> None:
    with wizard(repo, "init", "--base-url", "http://127.0.0.1:9/v1", "--model", "m") as person:
        person.accepts("Does the server want a key?")
        person.answers("Context window in tokens:", "2048")
        person.accepts("Longest reply in tokens: 512")
        person.accepts("Requests at the same time:")
        person.sees("leaves no room for input")
        person.presses("ctrl-c")
        assert person.leaves() == 130


def test_trust_asks_on_a_terminal_and_no_is_the_default(repo: Path) -> None:
    (repo / ".fluzo").write_text('schema_version = 1\n[verification]\ncommands = [["cargo", "test"]]\n')
    record = Path(os.environ["HOME"]) / ".config" / "fluzo" / "consent.json"
    with wizard(repo, "config", "trust") as person:
        person.accepts("Do you consent to all of this?")
        assert person.leaves() == 130
    assert not record.exists()
    with wizard(repo, "config", "trust") as person:
        person.sees("Do you consent to all of this?")
        person.types("y\r")
        person.sees("Recorded your consent: verification.")
        assert person.leaves() == 0
    assert "verification" in json.dumps(json.loads(record.read_text()))


def test_an_ascii_terminal_is_served_too(repo: Path) -> None:
    with wizard(repo, "init", LANG="C", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", NO_COLOR="1") as person:
        person.sees("FLUZO   a coding agent")
        person.sees("> I know the address of the server")
        person.presses("ctrl-c")
        assert person.leaves() == 130
        assert person.raw.isascii()
