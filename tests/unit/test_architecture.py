"""Who may import whom: the dependency rule of the source tree, read from the source itself."""

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"fluzo": "fluzo", "commands": "fluzo.commands", "screens": "fluzo.screens"}
LEAVES = ("policy", "context", "models", "tools", "workspace", "storage", "observe", "simulator")
RUNTIME = ("fluzo.core", "fluzo.runtime", *(f"fluzo.{leaf}" for leaf in LEAVES))
HOST = ("fluzo.host", "fluzo.setup_services", "fluzo.core")

MAY_IMPORT = {
    "fluzo": (),
    "fluzo.__main__": ("fluzo.core", "fluzo.commands.cli", "fluzo.commands.front_door"),
    "fluzo.host": (
        "fluzo.host",
        "fluzo.composition",
        "fluzo.control",
        "fluzo.control_client",
        "fluzo.ownership",
        *RUNTIME,
    ),
    "fluzo.composition": RUNTIME,  # The host's part that chooses implementations.
    "fluzo.ownership": ("fluzo.core", "fluzo.workspace", "fluzo.control_client"),  # The host's part about owning.
    "fluzo.setup_services": RUNTIME,  # The host's part before there is a workspace to open: init and its questions.
    "fluzo.control": ("fluzo.core",),
    "fluzo.control_client": ("fluzo.core", "fluzo.control"),
    "fluzo.core": ("fluzo.core",),
    "fluzo.runtime": RUNTIME,
    "fluzo.commands": HOST,
    "fluzo.commands.demo": (*HOST, "fluzo.simulator"),
    "fluzo.commands.demo_play": (*HOST, "fluzo.simulator"),
    "fluzo.commands.demo_repository": (*HOST, "fluzo.simulator"),
    "fluzo.commands.demo_scenes": (*HOST, "fluzo.simulator", "fluzo.screens"),
    "fluzo.commands.demo_screen": (*HOST, "fluzo.simulator", "fluzo.screens"),
    "fluzo.commands.chat": (*HOST, "fluzo.screens"),
    # Beside the port they are words alone, for every front end.
    "fluzo.screens": ("fluzo.core.port", "fluzo.core.outcome", "fluzo.core.answers"),
    "fluzo.screens.settings": ("fluzo.core.port", "fluzo.core.outcome", "fluzo.core.settings"),
    "fluzo.screens.settings_form": ("fluzo.core.port", "fluzo.core.outcome", "fluzo.core.settings"),
    "fluzo.screens.settings_words": ("fluzo.core.port", "fluzo.core.outcome", "fluzo.core.settings"),
    **{f"fluzo.{leaf}": ("fluzo.core", f"fluzo.{leaf}") for leaf in LEAVES},
}
"""The longest matching prefix decides. `fluzo` itself (its version) and relative siblings are open to everyone."""

OWNERS = {
    "httpx": ("fluzo.models.transport", "fluzo.models.discovery", "fluzo.models.gateway"),
    "opentelemetry": ("fluzo.observe.*",),
    "markdown_it": ("fluzo.screens.markdown",),
    "peewee": ("fluzo.storage.*",),
    "prompt_toolkit": ("fluzo.screens.*",),
    "pydantic_core": ("fluzo.core.checked",),
    "pygments": ("fluzo.screens.code",),
    "questionary": ("fluzo.commands.*",),
    "rich": ("fluzo.commands.*",),
    "tomlkit": ("fluzo.storage.settings_*",),
    "typer": ("fluzo.commands.*",),
}
"""The modules that alone may import a third-party library."""


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}.")


def imported_names(module: str, source: str, is_package: bool = False) -> Iterator[str]:
    """Every imported module, with each `from` name appended to its module: `from fluzo import host` is `fluzo.host`."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
            origin = ".".join(part for part in (base, node.module) if part)
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def violations(module: str, source: str, is_package: bool = False) -> list[str]:
    rule = max((prefix for prefix in MAY_IMPORT if within(module, prefix)), key=len)
    siblings = "fluzo.commands" if within(module, "fluzo.commands") else "fluzo.screens"
    found = []
    for name in imported_names(module, source, is_package):
        top = name.partition(".")[0]
        if top == "fluzo":
            allowed = name in ("fluzo", "fluzo.__version__") or any(within(name, to) for to in MAY_IMPORT[rule])
            allowed = allowed or (within(module, siblings) and within(name, siblings))
        elif top in sys.stdlib_module_names:
            allowed = True
        else:
            allowed = any(fnmatch(module, pattern) for pattern in OWNERS.get(top, ()))
        if not allowed:
            found.append(f"{module} imports {name}")
    return found


def source_files() -> Iterator[tuple[str, Path]]:
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield ".".join([package, *(part for part in parts if part != "__init__")]), path


def test_every_import_points_right_and_down() -> None:
    files = list(source_files())
    found = [
        violation
        for module, path in files
        for violation in violations(module, path.read_text(), path.name == "__init__.py")
    ]

    assert {package for package, _ in files} >= {"fluzo", "fluzo.__main__", "fluzo.core.errors", "fluzo.commands.cli"}
    assert found == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("fluzo.tools.files", "from fluzo.workspace.jail import Jail"),
        ("fluzo.tools.files", "from fluzo import workspace"),
        ("fluzo.tools.files", "def late():\n    import fluzo.runtime.gate"),
        ("fluzo.tools.files", "from ..workspace import jail"),
        ("fluzo.policy.engine", "from fluzo.host import open_host"),
        ("fluzo.core.records", "from fluzo.storage.journal import Journal"),
        ("fluzo.core.records", "import pydantic"),
        ("fluzo.runtime.gate", "from fluzo.commands.cli import main"),
        ("fluzo.runtime.gate", "import httpx"),
        ("fluzo.models.systemone", "import httpx"),
        ("fluzo.commands.run", "from fluzo.storage.journal import Journal"),
        ("fluzo.commands.run", "from fluzo.simulator.server import Server"),
        ("fluzo.commands.run", "import commands.output"),
        ("fluzo.screens.transcript", "from fluzo.core.records import Task"),
        ("fluzo.screens.transcript", "from fluzo.host import open_host"),
        ("fluzo.core.records", "import a_library_that_nobody_owns"),
    ],
)
def test_an_import_against_the_rule_is_found(module: str, source: str) -> None:
    assert len(violations(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("fluzo.tools.files", "import os\nfrom fluzo.core.errors import ToolError\nfrom fluzo.tools import search"),
        ("fluzo.core.checked", "from pydantic_core import SchemaValidator"),
        ("fluzo.commands.demo", "from fluzo.simulator.library import scenario_path"),
        ("fluzo.commands.run", "from .output import show\nfrom .options import global_options"),
        ("fluzo.host", "from fluzo.storage import journal\nfrom fluzo.runtime import gate"),
        ("fluzo.models.gateway", "import httpx"),
        ("fluzo.screens.settings", "from fluzo.core.settings import REGISTRY"),
    ],
)
def test_an_import_within_the_rule_is_not(module: str, source: str) -> None:
    assert violations(module, source) == []
