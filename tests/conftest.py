"""Every test starts from nothing of the person who runs it, and talks to nobody but this machine.

Home, configuration, Git identity, proxies and keys are the test's own. A connection or a name look-up that would
leave the machine fails the test, also when the code under test swallows the error; the live profile alone may reach
the one server that its command line names.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import golden, live
from support.live import allowed_hosts
from support.live import pytest_collection_modifyitems as pytest_collection_modifyitems
from support.live import pytest_configure as pytest_configure
from support.live import pytest_terminal_summary as pytest_terminal_summary

_LOCAL_HOSTS = frozenset({"127.0.0.1", "::1", "localhost", "", None})
_STRIPPED_PREFIXES = ("FLUZO_", "GIT_", "XDG_", "OPENAI_", "ANTHROPIC_", "OTEL_", "LLAMA_", "OLLAMA_")
_STRIPPED_SUFFIXES = ("_PROXY", "_API_KEY", "_API_TOKEN", "_TOKEN", "_SECRET")
_STRIPPED_NAMES = frozenset(
    # The last one: a program that does not begin at our entry point would lose what a signal cuts off a write.
    {"NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "PYTHONIOENCODING", "LC_ALL", "PYTHONUNBUFFERED"}
)
_KEPT_NAMES = frozenset({"FLUZO_REQUIRE_CARGO"})
_XDG_FOLDERS = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
}
_GIT_CONFIG = (
    "[user]\n\tname = Test Person\n\temail = test@example.invalid\n[init]\n\tdefaultBranch = main\n"
    # Some versions begin a process of their own after each commit, which outlives it.
    "[maintenance]\n\tauto = false\n[gc]\n\tauto = 0\n"
)

_refused: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    live.pytest_addoption(parser)
    golden.pytest_addoption(parser)


def _guard(event: str, args: tuple[object, ...]) -> None:
    """An audit hook; it can never be removed, so it only ever refuses what no test may do."""
    if event in ("socket.connect", "socket.sendto"):
        address = args[1]
        host = address[0] if isinstance(address, tuple) and address else None
    elif event == "socket.getaddrinfo":
        host = args[0]
    else:
        return
    host = host.decode(errors="replace") if isinstance(host, bytes) else host
    if host not in _LOCAL_HOSTS and host not in allowed_hosts:
        _refused.append(f"{event} {host}")
        raise PermissionError(f"a test may reach only this machine, not {host}")


sys.addaudithook(_guard)

# Begun in the background of a script, or by nohup: what the tests start would inherit what is ignored there.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


def _is_stripped(name: str) -> bool:
    upper = name.upper()
    return upper not in _KEPT_NAMES and (
        upper in _STRIPPED_NAMES or upper.startswith(_STRIPPED_PREFIXES) or upper.endswith(_STRIPPED_SUFFIXES)
    )


@pytest.fixture(autouse=True)
def isolation(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The test's own empty home directory."""
    toolchains = {"RUSTUP_HOME": Path.home() / ".rustup", "CARGO_HOME": Path.home() / ".cargo"}
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if _is_stripped(name):
            monkeypatch.delenv(name)
    for name, path in toolchains.items():
        # A Rust installed by rustup is found through the home directory of the person who installed it.
        if name not in os.environ and path.is_dir():
            monkeypatch.setenv(name, str(path))
    monkeypatch.setenv("HOME", str(home))
    for name, folder in _XDG_FOLDERS.items():
        monkeypatch.setenv(name, str(home / folder))
    (home / ".gitconfig").write_text(_GIT_CONFIG)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "0")
    monkeypatch.setenv("CARGO_NET_OFFLINE", "true")
    _refused.clear()
    yield home
    assert not _refused, f"the test reached beyond this machine: {', '.join(_refused)}"
