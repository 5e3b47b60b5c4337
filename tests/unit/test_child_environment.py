"""The environment of child processes, as a pure function."""

import pytest

from fluzo.workspace.environment import DEFAULT_PATH, child_env, clean_path

PARENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/u",
    "LANG": "de_DE.UTF-8",
    "LC_TIME": "C",
    "CARGO_HOME": "/c",
    "OPENAI_API_KEY": "sk-test-1",
    "FX_TOKEN": "t",
    "AWS_SECRET_ACCESS_KEY": "s",
    "SSH_AUTH_SOCK": "/run/agent",
    "LD_PRELOAD": "/evil.so",
    "BASH_ENV": "/evil.sh",
    "ENV": "/evil.sh",
    "PYTHONSTARTUP": "/evil.py",
    "NODE_OPTIONS": "--require /evil.js",
    "GIT_SSH_COMMAND": "evil",
    "EDITOR": "vim",
    "CI": "true",
    "TERM": "xterm",
    "UNRELATED": "x",
}


def test_only_listed_names_are_inherited() -> None:
    env = child_env(PARENT, {}, ())
    assert {name for name in env if env[name] == PARENT.get(name)} == {"PATH", "HOME", "LANG", "LC_TIME", "CARGO_HOME"}
    assert set(env) - {"PATH", "HOME", "LANG", "LC_TIME", "CARGO_HOME"} == {
        "TERM",
        "NO_COLOR",
        "PAGER",
        "MANPAGER",
        "GIT_PAGER",
        "EDITOR",
        "VISUAL",
        "GIT_EDITOR",
        "GIT_SEQUENCE_EDITOR",
        "GIT_TERMINAL_PROMPT",
    }


def test_nobody_is_asked_and_nothing_is_coloured() -> None:
    env = child_env(PARENT, {}, ())
    assert (env["TERM"], env["EDITOR"], env["PAGER"], env["GIT_TERMINAL_PROMPT"]) == ("dumb", "false", "cat", "0")


def test_a_name_the_user_lists_is_inherited_but_never_a_loader_or_startup_override() -> None:
    listed = ["FX_TOKEN", "UNRELATED", "MISSING", "LD_PRELOAD", "BASH_ENV", "ENV", "PYTHONSTARTUP", "SSH_AUTH_SOCK"]
    env = child_env(PARENT, {}, listed)
    assert {name: env.get(name) for name in listed if name in env} == {"FX_TOKEN": "t", "UNRELATED": "x"}


def test_what_the_user_wrote_out_wins() -> None:
    env = child_env(PARENT, {"HOME": "/other", "TERM": "vt100", "LD_LIBRARY_PATH": "/cuda"}, ())
    assert (env["HOME"], env["TERM"], env["LD_LIBRARY_PATH"]) == ("/other", "vt100", "/cuda")


@pytest.mark.parametrize(
    ("value", "clean"),
    [
        ("", DEFAULT_PATH),
        (".", DEFAULT_PATH),
        (":/usr/bin::.:bin:/bin:", "/usr/bin:/bin"),
        ("/a:/b:/a", "/a:/b"),
    ],
)
def test_a_search_path_keeps_absolute_directories_only(value: str, clean: str) -> None:
    assert clean_path(value) == clean
    assert child_env({"PATH": value}, {}, ())["PATH"] == clean
    assert child_env({}, {"PATH": value}, ())["PATH"] == clean


def test_text_is_utf_8_when_the_parent_says_nothing() -> None:
    assert child_env({}, {}, ())["LANG"] == "C.UTF-8"
    assert "LANG" not in child_env({"LC_ALL": "C"}, {}, ())
