"""The opt-in profile of tests against a real server: its options, its selection and what it reports.

Without `--live-base-url` these tests are left out and the summary says `not_run`; nothing stands in for the server.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

HERE = Path(__file__).parents[1] / "live"

allowed_hosts: set[str] = set()
"""Where the tests of this run may connect to besides this machine: the one server that was named, if any."""


@dataclass(frozen=True)
class LiveServer:
    """The named server; `context` is the window to overflow, 0 to take what discovery tells."""

    url: str
    model: str
    token: str | None
    context: int


SERVER = pytest.StashKey[LiveServer]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("live", "tests against a real model server")
    group.addoption("--live-base-url", metavar="URL", help="run the live profile against this server (with /v1)")
    group.addoption("--live-model", metavar="NAME", default="", help="the model to ask; the first listed one without")
    group.addoption("--live-api-key-env", metavar="NAME", default="", help="variable that holds the key")
    group.addoption("--live-context", metavar="TOKENS", type=int, default=0, help="window, where the server tells none")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "live: asks a real model server; only with --live-base-url")
    url = config.getoption("--live-base-url")
    if not url:
        return
    name = config.getoption("--live-api-key-env")
    # The key is read here, because tests get an environment without any.
    token = os.environ.get(name) if name else None
    config.stash[SERVER] = LiveServer(url, config.getoption("--live-model"), token, config.getoption("--live-context"))
    host = urlsplit(url).hostname or ""
    allowed_hosts.update([host, *(str(found[4][0]) for found in socket.getaddrinfo(host, None))])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if SERVER in config.stash:
        return
    live = [item for item in items if item.get_closest_marker("live")]
    items[:] = [item for item in items if not item.get_closest_marker("live")]
    config.hook.pytest_deselected(items=live)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if SERVER not in config.stash:
        if any(HERE.is_relative_to(Path(arg.partition("::")[0]).absolute()) for arg in config.args):
            terminalreporter.write_line("live profile: not_run (it needs --live-base-url; see docs/providers.md)")
        return
    terminalreporter.section(f"live profile: {config.stash[SERVER].url}")
    for reports in terminalreporter.stats.values():
        for report in reports:
            for key, value in getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ():
                terminalreporter.write_line(f"{key}: {value}")
