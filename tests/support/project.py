"""A disposable workspace and the installed `fluzo` as a process of its own in it."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from support.workspaces import git, make_repository

from fluzo.core.settings import render
from fluzo.simulator import library
from fluzo.simulator.scenario import Scenario, load_scenario, parse_scenario

FLUZO = str(Path(sys.prefix, "bin", "fluzo"))
DEADLINE_SECONDS = 120
"""No test waits for this; it only keeps a hang from lasting for ever."""

FILES = {"README.md": "# A small project\n\nIt counts sheep.\n", "sheep.py": "COUNT = 1\n"}


@dataclass(frozen=True)
class Project:
    """A Git repository with settings and the user's consent. `run` is the command line in it."""

    root: Path

    def fluzo(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        data: bytes | None = None,
    ) -> "subprocess.CompletedProcess[bytes]":
        more: dict[str, Any] = {"input": data} if data is not None else {"stdin": stdin}
        return subprocess.run(
            [FLUZO, *arguments],
            cwd=self.root,
            env={**os.environ, **(env or {})},
            capture_output=True,
            timeout=DEADLINE_SECONDS,
            check=False,
            **more,
        )

    def start(self, *arguments: str, **more: Any) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([FLUZO, *arguments], cwd=self.root, **more)

    def json(self, *arguments: str, status: int = 0) -> Any:
        """The one JSON value that a command writes, and the exit status that it must have."""
        done = self.fluzo(*arguments, "--output", "json")
        assert done.returncode == status, done.stderr.decode()
        (line,) = done.stdout.split(b"\n")[:-1]
        return json.loads(line)


def make_project(
    root: Path,
    base_url: str,
    *,
    model: str = "scripted",
    files: Mapping[str, str] | None = None,
    verify: Sequence[Sequence[str]] = (),
    more: str = "",
) -> Project:
    """Set up a workspace for the server at `base_url`, ignored by Git, with consent given on the command line."""
    make_repository(root, FILES if files is None else files)
    return configure(root, base_url, model=model, verify=verify, more=more)


def copy_of_fixture(root: Path, name: str) -> None:
    """A committed copy of a fixture repository."""
    library.copy_fixture(name, root)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "begin")


def configure(
    root: Path, base_url: str, *, model: str = "scripted", verify: Sequence[Sequence[str]] = (), more: str = ""
) -> Project:
    """Write the settings, keep them and the store out of Git's sight, and consent."""
    with (root / ".git" / "info" / "exclude").open("a") as exclude:
        exclude.write("/.fluzo\n/.fluzodrive/\n")
    (root / ".fluzo").write_text(
        "schema_version = 1\n"
        f'[project]\nname = "test"\n[agent]\nmodel = "main"\n'
        f'[models.main]\nprovider = "openai_compatible"\nbase_url = {render(base_url)}\nmodel = {render(model)}\n'
        f"[verification]\ncommands = {render([list(command) for command in verify])}\n{more}"
    )
    project = Project(root)
    trusted = project.fluzo("config", "trust", "--yes")
    assert trusted.returncode == 0, trusted.stderr.decode()
    return project


@contextmanager
def closed_port() -> Iterator[str]:
    """The address of a server of this machine where nobody listens and nobody else comes to listen."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/v1"


def shipped(name: str) -> Scenario:
    return load_scenario(library.scenario_path(name))


def scripted(*steps: Mapping[str, Any], **more: Any) -> Scenario:
    """A scenario of a test's own, step by step."""
    numbered = [{"id": f"s{number}", **step} for number, step in enumerate(steps, 1)]
    return parse_scenario(
        {"schema_version": 1, "name": "own", "title": "own", "model": "scripted", "steps": numbered, **more}
    )


def call(name: str, arguments: Mapping[str, Any], call_id: str = "call_1") -> dict[str, Any]:
    """A step in which the model calls one tool."""
    return {"respond": {"parts": [{"tool_call": {"id": call_id, "name": name, "arguments": dict(arguments)}}]}}


def say(text: str, **expect: Any) -> dict[str, Any]:
    """A step in which the model ends its work with a text."""
    return {"expect": expect, "respond": {"parts": [{"text": text}]}}
