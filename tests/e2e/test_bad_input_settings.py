import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.complaints import complaint, error_object, fluzo_in
from support.confined import with_file_limit, without_override
from support.project import FLUZO, make_project, shipped
from support.workspaces import make_repository

from fluzo.simulator.server import Simulator

SETUP = ("init", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--yes")
READERS = [
    ("run", "Go."),
    ("config", "show"),
    ("config", "get", "harness.max_turns"),
    ("config", "set", "harness.max_turns", "9"),
    ("config", "trust", "--yes"),
    SETUP,
]
KEY = "sk-abcdefghijklmnopqrstuvwx"
HEAD = "schema_version = 1\n"


def folder(path: Path) -> None:
    path.mkdir()


def link(path: Path) -> None:
    path.symlink_to("elsewhere.toml")
    (path.parent / "elsewhere.toml").write_text(HEAD)


def dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def huge(path: Path) -> None:
    path.write_bytes(b"#" * (1 << 20) + b"\n")


def not_utf_8(path: Path) -> None:
    path.write_bytes(HEAD.encode() + b'[project]\nname = "caf\xe9"\n')


def not_toml(path: Path) -> None:
    path.write_text(HEAD + "[models.main\n")


def empty(path: Path) -> None:
    path.touch()


def deep(path: Path) -> None:
    path.write_text(HEAD + "a = " + "[" * 5000 + "]" * 5000 + "\n")


def newer(path: Path) -> None:
    path.write_text("schema_version = 99\n")


def misspelt_and_secret(path: Path) -> None:
    path.write_text(
        f'{HEAD}[harness]\nmax_turn = 3\n[models.main]\nprovider = "openai_compatible"\napi_key = "{KEY}"\n'
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "r", {"a.txt": "a\n"})


@pytest.mark.parametrize(
    ("put", "words"),
    [
        (folder, ".fluzo is not a regular file."),
        (link, ".fluzo is a symbolic link, which is not followed."),
        (dangling_link, ".fluzo is a symbolic link, which is not followed."),
        (pipe, ".fluzo is not a regular file."),
        (huge, ".fluzo is larger than 1 MiB and was not read."),
        (not_utf_8, ".fluzo, line 3: the file is not UTF-8."),
        (not_toml, ".fluzo, line 2: this is not valid TOML"),
        (deep, ".fluzo: the file is nested too deeply to be settings."),
        (empty, ".fluzo: schema_version is missing"),
        (newer, "schema_version"),
        (misspelt_and_secret, ".fluzo, line 3: harness.max_turn is not a setting; did you mean harness.max_turns?"),
    ],
)
def test_a_broken_settings_file_stops_every_command_and_stays_as_it_is(
    root: Path, isolation: Path, put: Callable[[Path], None], words: str
) -> None:
    path = root / ".fluzo"
    put(path)
    kind, content = path.lstat().st_mode, path.read_bytes() if path.is_file() else b""
    left = sorted(root.iterdir())
    for command in READERS:
        said = complaint(fluzo_in(root, *command), "configuration_invalid", 3)
        assert said.startswith(words) or words in said.split("\n")[0], command
        assert KEY not in said
    assert error_object(fluzo_in(root, "run", "--output", "json", "Go."), "configuration_invalid", 3)
    assert fluzo_in(root, "tasks", "list").returncode == 0
    doctor = fluzo_in(root, "doctor")
    assert doctor.returncode == 1
    assert b"\nfail  settings " in doctor.stdout
    assert b"[configuration_invalid]" in doctor.stdout
    assert b"<U+000A>" not in doctor.stdout
    assert path.lstat().st_mode == kind
    assert not path.is_file() or path.read_bytes() == content
    assert sorted(root.iterdir()) == left
    assert not (isolation / ".config" / "fluzo").exists()


def test_a_file_that_may_not_be_read_is_said_so_and_never_replaced(root: Path) -> None:
    (root / ".fluzo").write_text(HEAD)
    (root / ".fluzo").chmod(0)
    program = without_override(FLUZO)
    for command in (*READERS, (*SETUP, "--force")):
        words = complaint(fluzo_in(root, *command, program=program), "configuration_invalid", 3)
        assert words.startswith(".fluzo cannot be read: Permission denied.")
    assert (root / ".fluzo").stat().st_size == len(HEAD)


def test_a_repository_without_settings_is_led_to_setup(root: Path) -> None:
    for command in (("run", "Go."), ("config", "show"), ("config", "trust", "--yes")):
        words = complaint(fluzo_in(root, *command), "configuration_required", 3)
        assert words.startswith("There is no .fluzo yet.")
        assert "fluzo init" in words
    assert sorted(path.name for path in root.iterdir()) == [".git", "a.txt"]


@pytest.mark.parametrize(
    ("flag", "code", "status", "words"),
    [
        ("harness.max_turns=none", "usage", 2, "harness.max_turns takes a whole number"),
        ("harness.max_turns=0", "configuration_invalid", 3, "--set: harness.max_turns must be"),
        ("harness.max_turn=3", "usage", 2, "did you mean harness.max_turns"),
        (f"models.main.api_key={KEY}", "usage", 2, "api_key"),
    ],
)
def test_a_wrong_value_for_one_invocation_is_named_and_nothing_starts(
    tmp_path: Path, flag: str, code: str, status: int, words: str
) -> None:
    with Simulator(shipped("text-only")) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        done = project.fluzo("--set", flag, "run", "Go.")
        assert simulator.requests == []
    assert done.returncode == status
    said = done.stderr.decode()
    assert words in said
    assert f"[{code}]" in said
    assert KEY not in said
    # The file is sound, so nobody is sent to repair it.
    assert "Fix the line" not in said


@pytest.mark.parametrize("name", [b"caf\xe9", "\u4f60\u597d".encode(), b"a\nb", b"x" * 250, b"quo\"te'\\"])
def test_a_folder_of_any_name_gets_settings_that_can_be_read_again(tmp_path: Path, name: bytes) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    make_repository(root, {"a.txt": "a\n"})
    for env in ({}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}):
        done = fluzo_in(root, *SETUP, "--force", env=env)
        assert done.returncode == 0, done.stderr
        # Consent that was given in one language of the session holds in every other.
        for other in ({}, env):
            assert b"consent       you have consented" in fluzo_in(root, "doctor", env=other).stdout


def test_a_save_that_finds_no_room_leaves_the_old_file_and_nothing_else(root: Path) -> None:
    assert fluzo_in(root, *SETUP).returncode == 0
    before = (root / ".fluzo").read_bytes()
    names = sorted(root.iterdir())
    program = with_file_limit(2000, FLUZO)
    assert len(before) > 2000
    for command in (("config", "set", "harness.max_turns", "9"), (*SETUP, "--force")):
        words = complaint(fluzo_in(root, *command, program=program), "configuration_invalid", 3)
        assert words.startswith(".fluzo could not be saved: File too large.")
        assert "The file is as it was." in words
    assert (root / ".fluzo").read_bytes() == before
    assert sorted(root.iterdir()) == names
