import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fluzo.core.errors import ConfigError, StorageError
from fluzo.storage import consent

WORKSPACE = "1:2:/home/user/project"
PRINTS = {"endpoint:coder": "a" * 64, "verification": "b" * 64}
SECRET = "very-secret-value"
URL = "https://models.example.org/v1"


@pytest.fixture
def folder(isolation: Path) -> Path:
    return isolation / ".config" / "fluzo"


def test_consent_is_missing_until_it_is_recorded_and_after_it_is_revoked(folder: Path) -> None:
    assert consent.missing(WORKSPACE, PRINTS) == ["endpoint:coder", "verification"]
    consent.record(WORKSPACE, PRINTS)
    assert consent.missing(WORKSPACE, PRINTS) == []
    assert consent.revoke(WORKSPACE) == ["endpoint:coder", "verification"]
    assert consent.missing(WORKSPACE, PRINTS) == ["endpoint:coder", "verification"]
    assert consent.revoke(WORKSPACE) == []


def test_consent_covers_one_workspace_and_one_fingerprint(folder: Path) -> None:
    consent.record(WORKSPACE, PRINTS)

    assert consent.missing("1:3:/home/user/project", PRINTS) == list(PRINTS)
    assert consent.missing(WORKSPACE, {**PRINTS, "verification": "c" * 64}) == ["verification"]
    assert consent.missing(WORKSPACE, {**PRINTS, "grants": "d" * 64}) == ["grants"]


def test_records_are_private(folder: Path) -> None:
    consent.record(WORKSPACE, PRINTS)

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "consent.json").stat().st_mode) == 0o600
    assert sorted(entry.name for entry in folder.iterdir()) == ["consent.json", "consent.lock"]


@pytest.mark.parametrize("mode", [0o666, 0o644, 0o620])
def test_records_that_others_can_reach_count_for_nothing(folder: Path, mode: int) -> None:
    consent.record(WORKSPACE, PRINTS)
    (folder / "consent.json").chmod(mode)

    with pytest.raises(StorageError, match="by others") as caught:
        consent.missing(WORKSPACE, PRINTS)
    assert "chmod 600" in caught.value.hint


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 1}', '{"schema_version": 1, "workspaces": 3}'])
def test_damaged_records_count_for_nothing_and_are_kept(folder: Path, text: str) -> None:
    consent.record(WORKSPACE, PRINTS)
    (folder / "consent.json").write_text(text)

    for act in (lambda: consent.missing(WORKSPACE, PRINTS), lambda: consent.record(WORKSPACE, PRINTS)):
        with pytest.raises(StorageError) as caught:
            act()
        assert caught.value.code == "store_damaged"
    assert (folder / "consent.json").read_text() == text


def test_records_of_a_newer_version_are_left_alone(folder: Path) -> None:
    consent.record(WORKSPACE, PRINTS)
    (folder / "consent.json").write_text(json.dumps({"schema_version": 2, "workspaces": {}}))

    with pytest.raises(StorageError) as caught:
        consent.record(WORKSPACE, PRINTS)
    assert caught.value.code == "schema_too_new"


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    consent.record(WORKSPACE, PRINTS)
    (folder / "consent.json").rename(tmp_path / "elsewhere.json")
    (folder / "consent.json").symlink_to(tmp_path / "elsewhere.json")

    with pytest.raises(StorageError, match="symbolic link"):
        consent.missing(WORKSPACE, PRINTS)


@pytest.mark.parametrize("config", ["", "relative/path"])
def test_without_a_home_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", config)

    with pytest.raises(StorageError) as caught:
        consent.missing(WORKSPACE, PRINTS)
    assert caught.value.code == "storage_failed"
    assert "XDG_CONFIG_HOME" in caught.value.hint


def test_processes_that_record_at_the_same_time_lose_nothing(folder: Path) -> None:
    code = (
        "import sys\nfrom fluzo.storage import consent\nsys.stdin.read(1)\n"
        "for n in range(5): consent.record(f'1:{sys.argv[1]}{n}:/w', {'verification': 'x'})\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(n)], stdin=subprocess.PIPE) for n in range(4)]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()  # All of them begin now.

    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    for n in range(4):
        for k in range(5):
            assert consent.missing(f"1:{n}{k}:/w", {"verification": "x"}) == []


# --- credentials ------------------------------------------------------------------------------------------------


def write_auth(folder: Path, text: str, mode: int = 0o600) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "auth.toml").write_text(text)
    (folder / "auth.toml").chmod(mode)


def entry(value: str = f'"{SECRET}"', endpoint: str = URL) -> str:
    return f'[credentials.main]\nendpoint = "{endpoint}"\nvalue = {value}\n'


def test_a_credential_is_found_for_its_own_endpoint(folder: Path) -> None:
    write_auth(folder, entry())
    assert consent.credential("main", URL) == SECRET
    assert consent.credential("main", "HTTPS://MODELS.example.org/v1/") == SECRET


@pytest.mark.parametrize(
    "endpoint",
    ["https://models.example.org", "https://models.example.org/v2", "http://models.example.org/v1",
     "https://models.example.org.evil.net/v1", "https://models.example.org:444/v1"],
)  # fmt: skip
def test_a_credential_is_never_used_for_another_endpoint(folder: Path, endpoint: str) -> None:
    write_auth(folder, entry())
    with pytest.raises(ConfigError, match="another endpoint") as caught:
        consent.credential("main", endpoint)
    assert SECRET not in f"{caught.value.message}{caught.value.hint}{caught.value.detail}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no credential main"),
        ("[credentials.other]\n", "no credential main"),
        ('credentials = "x"\n', "no credential main"),
        (f"[credentials.main\n{SECRET}", "not valid TOML"),
        (entry('""'), "no usable value"),
        (entry(f'"{SECRET}\\n"'), "no usable value"),
        (entry("3"), "no usable value"),
        (f'[credentials.main]\nvalue = "{SECRET}"\n', "another endpoint"),
    ],
)
def test_an_unusable_entry_is_told_without_its_value(folder: Path, text: str, words: str) -> None:
    write_auth(folder, text)
    with pytest.raises(ConfigError, match=words) as caught:
        consent.credential("main", URL)
    assert SECRET not in f"{caught.value.message}{caught.value.hint}"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_credentials_that_others_can_read_are_not_used(folder: Path, mode: int) -> None:
    write_auth(folder, entry(), mode)
    with pytest.raises(ConfigError, match="by others") as caught:
        consent.credential("main", URL)
    assert "chmod 600" in caught.value.hint


def test_without_the_file_it_says_how_to_write_it(folder: Path) -> None:
    with pytest.raises(ConfigError, match="missing") as caught:
        consent.credential("main", URL)
    assert "[credentials.main]" in caught.value.hint


TOOL = f'[credentials.main]\ntool = true\nvalue = "{SECRET}"\n'


def test_a_credential_for_tools_is_found_by_its_name(folder: Path) -> None:
    write_auth(folder, TOOL)
    assert consent.tool_credential("main") == SECRET


@pytest.mark.parametrize(
    "text",
    [
        entry(),
        TOOL + f'endpoint = "{URL}"\n',
        TOOL.replace("true", "false"),
        TOOL.replace("true", '"true"'),
        f'[credentials.main]\nvalue = "{SECRET}"\n',
    ],
)
def test_only_what_is_marked_for_tools_alone_is_given_to_them(folder: Path, text: str) -> None:
    write_auth(folder, text)
    with pytest.raises(ConfigError, match="not for tools") as caught:
        consent.tool_credential("main")
    assert SECRET not in caught.value.message + caught.value.hint
    assert "tool = true" in caught.value.hint


@pytest.mark.parametrize("text", [TOOL, TOOL + f'endpoint = "{URL}"\n'])
def test_what_is_marked_for_tools_is_no_key_of_an_endpoint(folder: Path, text: str) -> None:
    write_auth(folder, text)
    with pytest.raises(ConfigError, match="another endpoint") as caught:
        consent.credential("main", URL)
    assert SECRET not in caught.value.message + caught.value.hint


def test_a_credential_that_could_not_be_masked_is_not_given_to_tools(folder: Path) -> None:
    write_auth(folder, TOOL.replace(SECRET, "12345"))
    with pytest.raises(ConfigError, match="shorter than 6") as caught:
        consent.tool_credential("main")
    assert "12345" not in caught.value.message


@pytest.mark.parametrize("value", ["", "  ", "two\\nlines", "\\u001b[0mxxxxxx"])
def test_an_unusable_credential_for_tools_is_refused(folder: Path, value: str) -> None:
    write_auth(folder, TOOL.replace(SECRET, value))
    with pytest.raises(ConfigError, match="no usable value"):
        consent.tool_credential("main")


def test_without_a_home_a_credential_for_tools_is_a_matter_of_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    with pytest.raises(ConfigError):
        consent.tool_credential("main")
