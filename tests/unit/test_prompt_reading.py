import io
from pathlib import Path

import pytest

from fluzo.commands.run import MAX_PROMPT_BYTES, parse_command, read_prompt
from fluzo.core.errors import UsageError


class FakeStdin(io.TextIOWrapper):
    def __init__(self, data: bytes, *, tty: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="ascii")
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


class UntouchedStdin(FakeStdin):
    def __init__(self) -> None:
        super().__init__(b"")

    @property
    def buffer(self) -> io.BytesIO:  # type: ignore[override]
        raise AssertionError("stdin was read although it is not the prompt")


def test_an_argument_is_the_prompt_and_stdin_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", UntouchedStdin())
    assert read_prompt("fix it", None) == "fix it"


def test_a_file_is_the_prompt_and_stdin_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.stdin", UntouchedStdin())
    path = tmp_path / "prompt.md"
    path.write_text("fix ü\n", encoding="utf-8")
    assert read_prompt(None, str(path)) == "fix ü\n"


@pytest.mark.parametrize("argument", [None, "-"])
def test_a_pipe_is_the_prompt_as_utf8_whatever_the_locale(
    monkeypatch: pytest.MonkeyPatch, argument: str | None
) -> None:
    monkeypatch.setattr("sys.stdin", FakeStdin("fix ü".encode()))
    assert read_prompt(argument, None) == "fix ü"


def test_an_argument_that_an_ascii_locale_mangled_is_read_as_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsencode", lambda text: text.encode("ascii", "surrogateescape"))
    assert read_prompt("fix \udcc3\udcbc", None) == "fix ü"


def test_a_terminal_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", FakeStdin(b"", tty=True))
    with pytest.raises(UsageError, match="There is no prompt"):
        read_prompt(None, None)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (b"a\0b", "NUL"),
        (b"caf\xe9", "not UTF-8 text"),
        (b"x" * (MAX_PROMPT_BYTES + 1), "longer than"),
    ],
)
def test_what_is_no_prompt_is_refused(monkeypatch: pytest.MonkeyPatch, data: bytes, said: str) -> None:
    monkeypatch.setattr("sys.stdin", FakeStdin(data))
    with pytest.raises(UsageError, match=said):
        read_prompt(None, None)


def test_two_prompts_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a prompt and a --prompt-file"):
        read_prompt("fix", str(tmp_path / "x"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.md cannot be read: No such file or directory"):
        read_prompt(None, str(tmp_path / "gone.md"))


def test_a_command_line_is_split_and_nothing_in_it_is_expanded() -> None:
    assert parse_command("grep -e 'a b' $HOME *.py", "--allow") == ("grep", "-e", "a b", "$HOME", "*.py")


@pytest.mark.parametrize("text", ["", "  ", "''", "make 'test"])
def test_a_command_line_that_names_no_command_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--verify"):
        parse_command(text, "--verify")
