"""The questions of setup, once: the wizard asks them, the flags of `fluzo init` answer them, screens may show them.

Invariant: a question knows its setting, and type, default and range come from the settings registry. Nothing here
touches a terminal, a file's content or a server; `suggested_checks` only looks at which files exist.
"""

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fluzo.core.errors import UsageError
from fluzo.core.settings import (
    LOCAL_POOL,
    check_settings,
    describe,
    set_value,
    url_problem,
)

MODEL_ID = "coder"
"""Name of the `[models]` entry that setup makes."""

EXAMPLE_URL = "http://127.0.0.1:8080/v1"


@dataclass(frozen=True, slots=True)
class Question:
    """`flag` is its name on the command line, `setting` the key that it answers, `why` its one line of explanation."""

    flag: str
    setting: str
    prompt: str
    why: str


def _model(name: str) -> str:
    return f"models.{MODEL_ID}.{name}"


QUESTIONS: Mapping[str, Question] = {
    "base_url": Question(
        "--base-url",
        _model("base_url"),
        "Address of the server",
        "Any OpenAI-compatible server; the address usually ends in /v1.",
    ),
    "allow_insecure_http": Question(
        "--allow-insecure-http",
        _model("allow_insecure_http"),
        "Use plain http to this address all the same?",
        "Plain http to another machine: prompts, code and keys travel unencrypted.",
    ),
    "auth": Question(
        "--auth", _model("auth"), "Does the server want a key?", "A key is only ever named here, never stored."
    ),
    "api_key_env": Question(
        "--api-key-env",
        _model("api_key_env"),
        "Environment variable that holds the key",
        "The variable's name; its value is read when a request is sent.",
    ),
    "credential_ref": Question(
        "--credential-ref",
        _model("credential_ref"),
        "Name of the entry in auth.toml",
        "An entry of your private auth.toml, tied to this address.",
    ),
    "model": Question(
        "--model", _model("model"), "Model", "The name as the server lists it; one that can call tools works best."
    ),
    "context_window": Question(
        "--context-window",
        _model("context_window"),
        "Context window in tokens",
        "What the server really gives one request; too large a figure fails late.",
    ),
    "max_output_tokens": Question(
        "--max-output-tokens",
        _model("max_output_tokens"),
        "Longest reply in tokens",
        "Reserved in the window for every reply.",
    ),
    "max_in_flight": Question(
        "--max-in-flight",
        _model("max_in_flight"),
        "Requests at the same time",
        "Keep 1 unless the server has more slots; other programs and folders count separately.",
    ),
    "verify": Question(
        "--verify",
        "verification.commands",
        "Commands that must pass before a task is completed",
        "They run in this folder without asking again; without any, results are marked unverified.",
    ),
}


@dataclass(frozen=True, slots=True)
class Answers:
    """What setup knows so far. Without a `base_url` no model is set up, which can be done later."""

    base_url: str = ""
    allow_insecure_http: bool = False
    auth: str = "none"
    api_key_env: str = ""
    credential_ref: str = ""
    model: str = ""
    context_window: int = 32768
    max_output_tokens: int = 4096
    max_in_flight: int = 1
    verify: tuple[tuple[str, ...], ...] = ()
    compat: Mapping[str, object] = field(default_factory=dict)
    more: Mapping[str, object] = field(default_factory=dict)
    """Any other setting by its key; these come from the advanced part and from `--set`."""


def document(answers: Answers, project: str) -> dict[str, object]:
    """The raw settings that the answers mean; they are not validated yet."""
    # The name of a folder is bytes; in a file that is UTF-8, what is no text becomes a replacement character.
    name = os.fsencode(project).decode("utf-8", "replace")
    data: dict[str, object] = {"schema_version": 1, "project": {"name": name}}
    if answers.base_url:
        entry: dict[str, object] = {
            "provider": "openai_compatible",
            "base_url": answers.base_url.rstrip("/"),
            "model": answers.model,
            "auth": answers.auth,
            "api_key_env": answers.api_key_env,
            "credential_ref": answers.credential_ref,
            "allow_insecure_http": answers.allow_insecure_http,
            "context_window": answers.context_window,
            "max_output_tokens": answers.max_output_tokens,
            "max_in_flight": answers.max_in_flight,
            "compat": dict(answers.compat),
        }
        data["models"] = {MODEL_ID: entry}
        data["agent"] = {"model": MODEL_ID}
        summary = min(_default("context.compaction_max_output_tokens"), answers.max_output_tokens)
        data["context"] = {"compaction_max_output_tokens": summary}
    data["capacity_pools"] = {LOCAL_POOL: {"max_in_flight": answers.max_in_flight}}
    data["verification"] = {"commands": [list(argv) for argv in answers.verify]}
    for key, value in answers.more.items():
        data = set_value(data, key, value)
    return data


def _default(key: str) -> int:
    value = describe(key).default
    return value if isinstance(value, int) else 0


def problems_with(answers: Answers) -> str:
    """What forbids using these answers together, a line each; empty when they are sound."""
    return "\n".join(problem.sentence for problem in check_settings(document(answers, ""))[1])


def suggested_output(window: int) -> int:
    """The reply length to suggest for a window: the default, or a quarter of a small window."""
    return min(_default(QUESTIONS["max_output_tokens"].setting), window // 4)


def address_problem(url: str) -> str:
    """What is wrong with an address as typed, or an empty text; plain http is a question of its own."""
    problem = url_problem(url.strip(), insecure_allowed=True)
    return f"The address {problem}." if problem else ""


def is_insecure(url: str) -> bool:
    """True for a sound address that needs the warned exception for plain http."""
    return not url_problem(url, insecure_allowed=True) and bool(url_problem(url, insecure_allowed=False))


def whole_number(key: str, text: str) -> int:
    """The figure that `text` means for a setting. Raises UsageError that names the range."""
    setting = describe(key)
    figure = text.strip().replace("_", "")
    low, high = setting.minimum or 0, setting.maximum or 0
    if not figure.isascii() or not figure.isdigit() or not low <= int(figure[:20]) <= high:
        raise UsageError(f"Give a whole number from {low} to {high} ({setting.unit}).")
    return int(figure)


def command(text: str) -> tuple[str, ...]:
    """The argument vector of a command line as typed. Raises UsageError."""
    try:
        argv = tuple(shlex.split(text))
    except ValueError as exc:
        raise UsageError(f"The command {text!r} has an unclosed quote.") from exc
    if not argv:
        raise UsageError("A command needs a program, for example: make test")
    return argv


def complaint(read: Callable[[str], object], text: str) -> str:
    """What `read` objects to in `text`, or an empty text."""
    try:
        read(text)
    except UsageError as exc:
        return exc.message
    return ""


def suggested_checks(root: Path) -> list[tuple[str, ...]]:
    """Verification commands that fit what is in the folder, the most likely first."""
    found: list[tuple[str, ...]] = []
    if (root / "Cargo.toml").is_file():
        found.append(("cargo", "test"))
    if (root / "go.mod").is_file():
        found.append(("go", "test", "./..."))
    if _mentions(root / "package.json", '"test"'):
        found.append(("npm", "test"))
    if any((root / name).exists() for name in ("pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tests")):
        found += _python_checks(root)
    if _mentions(root / "Makefile", "\ntest:"):
        found.append(("make", "test"))
    return found


def _python_checks(root: Path) -> list[tuple[str, ...]]:
    tests = [*root.glob("test_*.py"), *root.glob("tests/test_*.py"), *root.glob("tests/*/test_*.py")]
    uses_pytest = (
        (root / "pytest.ini").is_file()
        or (root / "conftest.py").is_file()
        or (root / "tests" / "conftest.py").is_file()
        or any(_mentions(root / name, "pytest") for name in ("pyproject.toml", "setup.cfg", "tox.ini"))
        or any(_mentions(test, "import pytest") for test in tests[:50])
    )
    if uses_pytest:
        return [("python3", "-m", "pytest")]
    if tests:
        return [("python3", "-m", "unittest", "discover", *(("-s", "tests") if (root / "tests").is_dir() else ()))]
    return []


def _mentions(path: Path, word: str) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return word in "\n" + stream.read(1 << 18)
    except OSError:
        return False
