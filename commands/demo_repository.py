"""The repository of a demo: a committed copy of a fixture, set up for the scripted server, with consent."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fluzo import setup_services as setup
from fluzo.core.errors import WorkspaceError
from fluzo.core.paths import SETTINGS_NAME
from fluzo.core.settings import render
from fluzo.simulator import library

from .demo_place import TOOLCHAIN_HOMES, staging


def make_repository(root: Path, fixture: str, settings: str) -> None:
    """A committed copy of the fixture, with these settings and the consent to them that a user would give."""
    with staging():
        library.copy_fixture(fixture, root)
        (root / SETTINGS_NAME).write_text(settings, encoding="utf-8")
    for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "Begin")):
        git(root, *arguments)
    setup.add_exclude(root)
    loaded = setup.load_settings(root / SETTINGS_NAME).settings
    setup.record_consent(loaded, root)


def settings_text(
    name: str, model: str, base_url: str, verify: Sequence[Sequence[str]], *, window: str = "", more: str = ""
) -> str:
    """The `.fluzo` of a demo; `window` is further lines of the model entry, `more` further tables."""
    rust = any(command[0] == "cargo" for command in verify)
    toolchain = [name for name in TOOLCHAIN_HOMES if name in os.environ] if rust else []
    return f"""\
schema_version = 1

[project]
name = {render(name)}

[agent]
model = "scripted"

[models.scripted]
provider = "openai_compatible"
base_url = {render(base_url)}
model = {render(model)}
{window}
[tools.shell]
inherit_env = {render(toolchain)}

[verification]
commands = {render([list(command) for command in verify])}
{more}"""


def git(root: Path, *arguments: str) -> None:
    """Run Git in the demo's repository. Raises WorkspaceError `workspace_unusable`."""
    try:
        subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True)
    except FileNotFoundError as exc:
        raise WorkspaceError(
            "Git is not installed, or not in PATH.",
            code="workspace_unusable",
            hint="Install Git 2.30 or newer, for example: apt install git",
        ) from exc
    except subprocess.CalledProcessError as exc:
        words = exc.stderr.decode("utf-8", "backslashreplace").strip().split("\n")[-1]
        raise WorkspaceError(
            f"The demo could not be prepared: git {arguments[0]} failed: {words}.",
            code="workspace_unusable",
            hint="Check that Git works and that the temporary directory has room.",
        ) from exc
