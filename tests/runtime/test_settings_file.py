import errno
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fluzo.core.errors import ConfigError, UsageError
from fluzo.storage import settings_edit, settings_file

TEXT = """\
# my settings
schema_version = 1  # the format

[harness]  # limits
# few turns here
max_turns = 5  # five
max_tool_calls = 50

[verification]
commands = [
    ["cargo", "test"],  # the suite
]

[tui]
theme = "default"
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".fluzo"


def leftovers(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir() if entry != path)


def refusal(path: Path, text: str | bytes) -> ConfigError:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        settings_file.load(path)
    return caught.value


# --- reading ----------------------------------------------------------------------------------------------------


def test_a_file_is_read_with_its_version_and_sources(path: Path) -> None:
    path.write_text(TEXT)
    loaded = settings_file.load(path, {"harness.max_turns": "7"})

    assert loaded.settings.harness.max_turns == 7
    assert loaded.version == settings_file.version_of(TEXT.encode())
    sources = {row.key: row.source for row in loaded.effective()}
    assert sources["harness.max_turns"] == "flag"
    assert sources["harness.max_tool_calls"] == "file"
    assert sources["harness.max_total_tokens"] == "default"


def test_no_file_is_configuration_required_with_the_next_step(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_file.load(path)
    assert (caught.value.code, caught.value.message) == ("configuration_required", "There is no .fluzo yet.")
    assert "fluzo init" in caught.value.hint


def test_every_problem_names_file_line_and_key(path: Path) -> None:
    error = refusal(
        path,
        '# a\nschema_version = 1\n\n[harness]\nmax_turns = 0\nnote = """\n[tui]\nmax_turn = 1\n"""\nmax_turn = 3\n'
        '[[policy.grants]]\nargv = ["a"]\n[[policy.grants]]\nargv = [\n  "b",\n  3,\n]\n',
    )
    assert error.code == "configuration_invalid"
    assert error.message.split("\n") == [
        ".fluzo, line 5: harness.max_turns must be a whole number from 1 to 100000 (turns).",
        ".fluzo, line 6: harness.note is not a setting.",
        ".fluzo, line 10: harness.max_turn is not a setting; did you mean harness.max_turns?",
        ".fluzo, line 14: policy.grants[1].argv[1] must be a text in quotes.",
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("schema_version = 1\nharness = [\n", "last line"),
        ("schema_version = 1\n[harness\nmax_turns = 1\n", "line 2"),
        ('a = "sk-abcdefghijklmnopqrstuvwx\n', "line 1"),
        ("schema_version = 1\nschema_version = 1\n", "line 2"),
        ("<<<<<<< HEAD\nschema_version = 1\n", "line 1"),
    ],
)
def test_broken_toml_names_the_line_and_repeats_nothing(path: Path, text: str, place: str) -> None:
    error = refusal(path, text)

    assert error.message.startswith(f".fluzo, {place}")
    assert "not valid TOML" in error.message
    assert "sk-" not in error.message
    assert "fluzo config edit" in error.hint


@pytest.mark.parametrize("text", ["x = " + "[" * 5000, "x = " + "a." * 5000 + "b = 1", "a." * 5000 + "b = 1"])
def test_a_file_nested_without_end_is_refused_calmly(path: Path, text: str) -> None:
    error = refusal(path, f"schema_version = 1\n{text}\n")
    assert "nested too deeply" in error.message or "not valid TOML" in error.message


def test_a_file_that_is_not_utf8_names_the_line(path: Path) -> None:
    error = refusal(path, b"schema_version = 1\n# caf\xe9\n")
    assert error.message == ".fluzo, line 2: the file is not UTF-8."


def test_a_byte_order_mark_is_no_problem(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbfschema_version = 1\r\n")
    assert settings_file.load(path).settings.schema_version == 1


def test_a_huge_file_is_not_parsed(path: Path) -> None:
    assert "larger than 1 MiB" in refusal(path, b"#" * (1 << 20) + b"\n").message


def test_links_and_special_files_are_refused_without_waiting(path: Path) -> None:
    target = path.with_name("target")
    target.write_text("schema_version = 1\n")
    path.symlink_to(target)
    with pytest.raises(ConfigError, match="symbolic link"):
        settings_file.load(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="not a regular file"):
        settings_file.load(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="not a regular file"):
        settings_file.load(path)


def test_a_bad_flag_is_told_as_the_flag(path: Path) -> None:
    path.write_text(TEXT)
    with pytest.raises(ConfigError) as caught:
        settings_file.load(path, {"harness.max_turns": "0"})
    assert caught.value.message.startswith("--set: harness.max_turns must be")
    with pytest.raises(UsageError, match=r"harness\.max_turns"):
        settings_file.load(path, {"harness.max_turn": "5"})


# --- creating and replacing -------------------------------------------------------------------------------------


def test_a_new_file_appears_whole_and_alone(path: Path) -> None:
    version = settings_file.create_exclusive(path, TEXT)

    assert path.read_text() == TEXT
    assert settings_file.read(path).version == version
    assert leftovers(path) == []
    assert path.stat().st_nlink == 1


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_creation_never_replaces_what_is_there(path: Path, kind: str) -> None:
    other = path.with_name("other")
    if kind == "file":
        path.write_text("mine")
    elif kind == "link":
        path.symlink_to(other)
    else:
        path.mkdir()

    with pytest.raises(ConfigError) as caught:
        settings_file.create_exclusive(path, TEXT)

    assert caught.value.code == "configuration_conflict"
    assert leftovers(path) == []
    assert kind != "file" or path.read_text() == "mine"
    assert not other.exists()


def test_creation_works_on_file_systems_without_hard_links(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    settings_file.create_exclusive(path, TEXT)
    assert path.read_text() == TEXT
    with pytest.raises(ConfigError, match="exists already"):
        settings_file.create_exclusive(path, "other")
    assert (path.read_text(), leftovers(path)) == (TEXT, [])


def test_replacing_keeps_the_mode_and_refuses_a_moved_file(path: Path) -> None:
    path.write_text(TEXT)
    path.chmod(0o666)
    seen = settings_file.read(path)
    version = settings_file.replace(path, "schema_version = 1\n", seen.version)

    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    with pytest.raises(ConfigError) as caught:
        settings_file.replace(path, TEXT, seen.version)
    assert caught.value.code == "configuration_conflict"
    assert settings_file.read(path).version == version


def test_a_copy_keeps_the_exact_bytes_and_never_overwrites_one(path: Path) -> None:
    path.write_bytes(b"\xff broken \x00")
    path.with_name(".fluzo.bak-1").write_text("older")

    copy = settings_file.keep_copy(path)

    assert copy.name == ".fluzo.bak-2"
    assert copy.read_bytes() == b"\xff broken \x00"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert path.with_name(".fluzo.bak-1").read_text() == "older"


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_failing_disk_leaves_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    path.write_text(TEXT)
    seen = settings_file.read(path)
    real_open = os.open

    def fail(*args: object, **_: object) -> object:
        raise OSError(number, os.strerror(number))

    def open_to_write(name: str, flags: int, *rest: int) -> int:
        return fail() if flags & os.O_CREAT else real_open(name, flags, *rest)  # type: ignore[return-value]

    with monkeypatch.context() as patch:
        patch.setattr(os, call, open_to_write if call == "open" else fail)
        with pytest.raises(ConfigError) as caught:
            settings_edit.save(seen, {"harness.max_turns": 9})

    assert os.strerror(number) in caught.value.message
    assert path.read_text() == TEXT
    assert leftovers(path) == []


def test_a_full_disk_leaves_the_old_file(path: Path) -> None:
    path.write_text(TEXT)
    code = (
        "import sys, pathlib\nfrom fluzo.core.errors import ConfigError\n"
        "from fluzo.storage import settings_edit, settings_file\n"
        "try:\n    settings_edit.save(settings_file.read(pathlib.Path(sys.argv[1])), {'harness.max_turns': 9})\n"
        "except ConfigError as exc:\n    print(exc.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, path],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ".fluzo could not be saved: File too large." in done.stdout
    assert path.read_text() == TEXT
    assert leftovers(path) == []


# --- editing ----------------------------------------------------------------------------------------------------


def test_saving_changes_the_edited_line_and_nothing_else(path: Path) -> None:
    path.write_text(TEXT)
    saved = settings_edit.save(settings_file.read(path), {"harness.max_turns": 9})

    assert path.read_text() == TEXT.replace("max_turns = 5", "max_turns = 9")
    assert saved.version == settings_file.read(path).version
    assert leftovers(path) == []


def test_saving_adds_what_is_not_there_yet(path: Path) -> None:
    path.write_text(TEXT)
    edits = {
        "tui.notifications.duration_seconds": 7,
        "policy.grants": [{"argv": ["make"]}, {"script": "a\nb", "cwd": "sub"}],
        "tools.shell.env": {"A": "1"},
        "verification.commands": [["make", "test"]],
        "models.coder.provider": "openai_compatible",
        "models.coder.base_url": "http://127.0.0.1:8080/v1",
        "models.coder.model": 'a "b"',
    }
    settings_edit.save(settings_file.read(path), edits)

    loaded = settings_file.load(path)
    assert loaded.settings.tui.notifications.duration_seconds == 7
    assert [grant.cwd for grant in loaded.settings.policy.grants] == [".", "sub"]
    assert loaded.settings.verification.commands == (("make", "test"),)
    assert "# few turns here" in path.read_text()
    settings_edit.save(settings_file.read(path), {"policy.grants": [], "tools.shell.env": {}})
    assert settings_file.load(path).settings.policy.grants == ()


def test_a_save_that_would_not_be_valid_is_refused_with_its_line(path: Path) -> None:
    path.write_text(TEXT)
    with pytest.raises(ConfigError) as caught:
        settings_edit.save(settings_file.read(path), {"harness.max_turns": 0})
    assert ".fluzo, line 6: harness.max_turns must be" in caught.value.message
    assert path.read_text() == TEXT


def test_an_outside_change_is_a_conflict_or_survives_under_the_edit(path: Path) -> None:
    path.write_text(TEXT)
    seen = settings_file.read(path)
    outside = TEXT.replace("max_tool_calls = 50", "max_tool_calls = 60  # theirs")
    path.write_text(outside)

    with pytest.raises(ConfigError) as caught:
        settings_edit.save(seen, {"harness.max_turns": 9})
    assert caught.value.code == "configuration_conflict"
    assert path.read_text() == outside

    settings_edit.save(seen, {"harness.max_turns": 9}, rebase=True)
    assert path.read_text() == outside.replace("max_turns = 5", "max_turns = 9")


def test_crlf_line_ends_survive_an_edit(path: Path) -> None:
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    settings_edit.save(settings_file.read(path), {"harness.max_turns": 9})
    assert path.read_bytes() == TEXT.replace("max_turns = 5", "max_turns = 9").replace("\n", "\r\n").encode()


GENERATED = """schema_version = 1

# who
[agent]
model = "main"

# the model
[models.main]
provider = "openai_compatible"
base_url = "http://127.0.0.1:1/v1"
model = "a"

# what it understands
[models.main.compat]
stream = true

# the pool
[capacity_pools.local_server]
max_in_flight = 1

# the checks
[verification]
commands = [
  # fast
  ["pytest", "-q"],  # unit
  ["ruff", "check"],  # style
]

# the rules
[policy]
shell = "ask"

# lint
[[policy.grants]]
argv = ["make", "lint"]  # quick

# build
[[policy.grants]]
argv = ["make"]

# the environment
[tools.shell.env]
A = "1"  # one

# the end
[tui]
theme = "default"
"""
OTHER = {"provider": "openai_compatible", "base_url": "http://127.0.0.1:2/v1", "model": "b", "compat.stream": False}
OTHER_TEXT = """
[models.other]
provider = "openai_compatible"
base_url = "http://127.0.0.1:2/v1"
model = "b"

[models.other.compat]
stream = false
"""
GRANTS = [{"argv": ["make", "lint"]}, {"argv": ["make"]}]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("edits", "old", "new"),
    [
        ({f"models.other.{k}": v for k, v in OTHER.items()}, "\n# the pool", f"{OTHER_TEXT}\n# the pool"),
        ({"harness.max_turns": 5}, 'theme = "default"\n', 'theme = "default"\n\n[harness]\nmax_turns = 5\n'),
        ({"policy.edit": "ask"}, 'shell = "ask"\n', 'shell = "ask"\nedit = "ask"\n'),
        ({"verification.commands": [["pytest", "-q"], ["mypy"]]}, '["ruff", "check"]', '["mypy"]'),
        (
            {"verification.commands": [["pytest", "-q"], ["ruff", "check"], ["mypy"]]},
            "  # style\n",
            '  # style\n  ["mypy"],\n',
        ),
        ({"verification.commands": [["ruff", "check"]]}, '  ["pytest", "-q"],  # unit\n', ""),
        ({"policy.grants": GRANTS[1:]}, '# lint\n[[policy.grants]]\nargv = ["make", "lint"]  # quick\n\n', ""),
        ({"policy.grants": [{**GRANTS[0], "cwd": "sub"}, GRANTS[1]]}, "# quick\n", '# quick\ncwd = "sub"\n'),
        (
            {"policy.grants": [*GRANTS, {"script": "a\nb"}]},
            'argv = ["make"]\n\n',
            'argv = ["make"]\n\n[[policy.grants]]\nscript = "a\\nb"\n\n',
        ),
        ({"tools.shell.env": {"A": "1", "B": "2"}}, "# one\n", '# one\nB = "2"\n'),
        ({"tools.shell.env": {"A": "2"}}, 'A = "1"  # one', 'A = "2"  # one'),
    ],
)
def test_what_is_added_changed_or_removed_leaves_the_comments_of_everything_else(
    path: Path, edits: dict[str, object], old: str, new: str, end: str
) -> None:
    path.write_bytes(GENERATED.replace("\n", end).encode())
    settings_edit.save(settings_file.read(path), edits)
    assert GENERATED.count(old) == 1
    assert path.read_bytes().decode() == GENERATED.replace(old, new).replace("\n", end)


def test_a_model_goes_with_its_own_comments_alone(path: Path) -> None:
    text = GENERATED.replace("\n# the pool", f"\n# other{OTHER_TEXT}\n# the pool")
    path.write_text(text)
    settings_edit.save(settings_file.read(path), {"models.main": None, "agent.model": "other"})
    gone = text[text.index("# the model") : text.index("# other")]
    assert path.read_text() == text.replace(gone, "").replace('model = "main"', 'model = "other"')


def test_entries_that_change_places_take_their_comments_along_and_a_list_can_be_emptied_and_filled(path: Path) -> None:
    path.write_text(GENERATED)
    settings_edit.save(settings_file.read(path), {"policy.grants": GRANTS[::-1]})
    lint, build = (
        GENERATED[GENERATED.index(a) : GENERATED.index(b)] for a, b in (("# lint", "# b"), ("# b", "# the e"))
    )
    assert path.read_text() == GENERATED.replace(lint + build, build + lint)
    settings_edit.save(settings_file.read(path), {"policy.grants": []})
    assert path.read_text() == GENERATED.replace(lint + build, "").replace('"ask"\n', '"ask"\ngrants = []\n')
    settings_edit.save(settings_file.read(path), {"policy.grants": GRANTS[1:]})
    assert path.read_text() == GENERATED.replace(lint + build, '[[policy.grants]]\nargv = ["make"]\n\n')


def test_a_file_in_inline_tables_is_edited_in_its_own_way(path: Path) -> None:
    model = '{ provider = "openai_compatible", base_url = "http://127.0.0.1:1/v1", model = "a" }'
    path.write_text(f'schema_version = 1\npolicy = {{ shell = "ask" }}\nmodels = {{ main = {model} }}\n')
    other = {f"models.other.{k}": v for k, v in OTHER.items()}
    edits = {"policy.grants": GRANTS, "tui.notifications.max_visible": 2, **other}
    settings_edit.save(settings_file.read(path), edits)
    settings_edit.save(settings_file.read(path), {"policy.grants": [*GRANTS, {"script": "a"}], "models.main": None})
    settings = settings_file.load(path).settings
    assert (len(settings.policy.grants), list(settings.models), settings.tui.notifications.max_visible) == (
        3,
        ["other"],
        2,
    )


def test_a_header_within_a_text_of_several_lines_is_text(path: Path) -> None:
    text = GENERATED.replace('theme = "default"', 'theme = "default"\n[project]\nname = """\n[policy]\n"""')
    path.write_text(text)
    settings_edit.save(settings_file.read(path), {"policy.edit": "ask"})
    assert path.read_text() == text.replace('shell = "ask"\n', 'shell = "ask"\nedit = "ask"\n')


def test_other_marks_for_the_end_of_a_line_begin_no_line(path: Path) -> None:
    text = GENERATED.replace("# the rules\n[policy]\n", "# the rules\u2028[policy]\n[policy]\n# more\x85[policy]\n")
    path.write_text(text)
    settings_edit.save(settings_file.read(path), {"policy.edit": "ask", "tools.shell.env": {"A": "2"}})
    assert path.read_text() == text.replace('shell = "ask"\n', 'shell = "ask"\nedit = "ask"\n').replace('"1"', '"2"')


def test_what_stands_at_the_end_of_the_file_stays_there_whatever_goes_or_comes(path: Path) -> None:
    text, end = GENERATED[: GENERATED.index("# the environment")], "# for the editor\n\n# vim: ft=toml\n"
    path.write_text(text + end)
    settings_edit.save(settings_file.read(path), {"policy.grants": GRANTS[:1]})
    without = text[: text.index("# build")]
    assert path.read_text() == without + end
    settings_edit.save(settings_file.read(path), {"harness.max_turns": 5})
    assert path.read_text() == f"{without}[harness]\nmax_turns = 5\n\n{end}"
