"""What each path of the command line may load. Imports are most of the time before the first word."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from support.hosted import workspace
from support.project import shipped

from fluzo.commands.cli import COMMANDS
from fluzo.simulator.server import Simulator

HEAVY = frozenset({"httpx", "opentelemetry", "peewee", "prompt_toolkit", "pydantic", "questionary", "rich", "tomlkit"})

_PROBE = """
import json, sys
before = set(sys.modules)
from fluzo.__main__ import main
status = main(json.loads(sys.argv[1]))
sys.__stderr__.write("\\n" + json.dumps([status, sorted(set(sys.modules) - before)]))
"""


def loaded_by(*argv: str, where: Path) -> tuple[int, set[str]]:
    """Run `fluzo ARGV` in its own interpreter; return the exit status and the modules it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, json.dumps(argv)], cwd=where, capture_output=True, text=True, check=True
    )
    status, modules = json.loads(done.stderr.rpartition("\n")[2])
    return status, set(modules)


def libraries(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_loads_the_package_and_nothing_else(tmp_path: Path, flag: str) -> None:
    assert loaded_by(flag, where=tmp_path) == (0, {"fluzo", "fluzo.__main__"})


@pytest.mark.parametrize("argv", [(), ("--workspace", ".", "--set", "a.b=c")])
def test_without_a_terminal_and_settings_no_screen_is_loaded(tmp_path: Path, argv: tuple[str, ...]) -> None:
    status, modules = loaded_by(*argv, where=tmp_path)

    assert status == 3
    assert libraries(modules).isdisjoint(HEAVY | {"asyncio"})
    assert not any(module.startswith(("fluzo.host", "fluzo.screens")) for module in modules)


def test_the_screen_is_loaded_without_the_library_of_the_command_line(tmp_path: Path) -> None:
    code = "import sys; import fluzo.__main__, fluzo.commands.front_door, fluzo.commands.chat; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert libraries(set(done.stdout.split())).isdisjoint(HEAVY - {"prompt_toolkit"} | {"typer", "click"})


@pytest.mark.parametrize("argv", [("--help",), ("-h",)])
def test_the_help_loads_typer_and_no_command(tmp_path: Path, argv: tuple[str, ...]) -> None:
    status, modules = loaded_by(*argv, where=tmp_path)

    assert status == 0
    assert "typer" in modules
    assert libraries(modules).isdisjoint(HEAVY | {"asyncio"})
    assert {module for module in modules if module.startswith("fluzo.commands.")} == {
        "fluzo.commands.cli",
        "fluzo.commands.lazy",
        "fluzo.commands.options",
    }
    assert not any(module.startswith("fluzo.host") for module in modules)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_own_help_loads_no_heavy_library(tmp_path: Path, name: str) -> None:
    status, modules = loaded_by(name, "--help", where=tmp_path)

    assert status == 0
    assert f"fluzo.commands.{name}" in modules
    assert libraries(modules).isdisjoint(HEAVY - {"pydantic"})


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_module_offers_a_plain_typer_app(name: str) -> None:
    app = importlib.import_module(f"fluzo.commands.{name}").app

    assert isinstance(app, typer.Typer)
    assert app.rich_markup_mode is None
    assert app.pretty_exceptions_enable is False
    assert "--show-completion" not in {option for param in typer.main.get_command(app).params for option in param.opts}


@pytest.mark.parametrize("argv", [("tasks", "list"), ("sessions", "list"), ("history", "list"), ("replay", "t_0000")])
def test_looking_back_loads_no_network_and_no_screen(tmp_path: Path, argv: tuple[str, ...]) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)

    _, modules = loaded_by(*argv, where=tmp_path)

    assert f"fluzo.commands.{argv[0]}" in modules
    assert libraries(modules).isdisjoint({"httpx", "opentelemetry", "prompt_toolkit", "questionary"})


_WHOLE_PROCESS = """
import atexit, json, sys
before = set(sys.modules)
atexit.register(lambda: sys.__stderr__.write("\\n" + json.dumps(sorted(set(sys.modules) - before))))
from fluzo.__main__ import run_process
sys.argv[1:] = json.loads(sys.argv[1])
run_process()
"""


def loaded_at_the_end_of(*argv: str, where: Path) -> tuple[int, set[str]]:
    """As `loaded_by`, but the process of the installed command, until it leaves."""
    done = subprocess.run(
        [sys.executable, "-c", _WHOLE_PROCESS, json.dumps(argv)], cwd=where, capture_output=True, text=True, check=False
    )
    return done.returncode, set(json.loads(done.stderr.rpartition("\n")[2]))


def test_a_whole_run_loads_no_screen_and_no_editor(tmp_path: Path) -> None:
    with Simulator(shipped("two-turn")) as simulator:
        root = workspace(tmp_path / "w", simulator.base_url)
        status, modules = loaded_at_the_end_of("run", "Say hello.", where=root)
        assert simulator.finish() == []

    assert status == 0
    assert "fluzo.models.transport" in modules
    assert libraries(modules).isdisjoint(HEAVY - {"httpx", "peewee"})
    assert not any(module.startswith("fluzo.screens") for module in modules)


_TOOLS_PROBE = """
from fluzo.core.records import ToolCall
from fluzo.tools.registry import ARGUMENTS, Registry, build_tools
from fluzo.tools.shared import SeenFiles, ToolLimits

registry = Registry(build_tools(SeenFiles(), ToolLimits()))
registry.specs()
before = {name for name, model in ARGUMENTS.items() if model.validator}
registry.prepare(ToolCall("c", "search", '{"pattern": "x"}'))
print(before, {name for name, model in ARGUMENTS.items() if model.validator})
"""


def test_the_check_of_a_tools_arguments_is_built_by_its_first_call() -> None:
    done = subprocess.run([sys.executable, "-c", _TOOLS_PROBE], capture_output=True, text=True, check=True)

    assert done.stdout == "set() {'search'}\n"
