"""How Git is started: a fixed argument prefix and environment under which reading a repository runs no program of it.

Invariant: every Git process of Fluzo starts here or with `prefix` and `environment` from here. Configuration of the
system and the user is not read; that of the repository is, and everything in it that names a program is overridden.
Filters are the exception: their names are the repository's, so `fluzo.workspace.git` lists and overrides them.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from fluzo.core.errors import WorkspaceError
from fluzo.core.named import NamedTuple
from fluzo.workspace.environment import clean_path

TIMEOUT_SECONDS = 120.0
"""A Git process of ours only reads; one that takes longer is stuck on a dead disk or a vast tree."""

_OFF = "/bin/false"
_OVERRIDES = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.editor=" + _OFF,
    f"core.askPass={_OFF}",
    f"core.sshCommand={_OFF}",
    "core.quotePath=false",
    "credential.helper=",
    "diff.external=",
    "diff.submodule=short",
    "protocol.allow=never",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "log.showSignature=false",
    # A pretty format with %G? in the repository's own configuration would start these.
    f"gpg.program={_OFF}",
    f"gpg.openpgp.program={_OFF}",
    f"gpg.x509.program={_OFF}",
    f"gpg.ssh.program={_OFF}",
    "color.ui=false",
    "column.ui=never",
)


class Located(NamedTuple):
    """What `git rev-parse` says of a directory; `up` leads from it to the root of the working tree."""

    bare: bool
    inside: bool
    up: str
    git_dir: Path


class NoRepository(WorkspaceError):
    """There is no Git repository here, which setup can live with and nothing else."""

    code = "workspace_unusable"


def unusable(message: str, hint: str = "") -> WorkspaceError:
    return WorkspaceError(message, code="workspace_unusable", hint=hint)


def prefix(environ: Mapping[str, str], overrides: Sequence[str] = ()) -> list[str]:
    """The start of every Git command line. Raises WorkspaceError when Git is not installed."""
    git = shutil.which("git", path=clean_path(environ.get("PATH", "")))
    if git is None:
        raise unusable(
            "Git is not installed, or not in PATH.", "Install Git 2.30 or newer, for example: apt install git"
        )
    settings = [word for override in (*_OVERRIDES, *overrides) for word in ("-c", override)]
    return [git, "--no-pager", "--no-optional-locks", *settings]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of every Git process; nothing of the caller's but PATH and the place of the ignore file."""
    env = {name: environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if environ.get(name)}
    return env | {
        "PATH": clean_path(environ.get("PATH", "")),
        "LC_ALL": "C.UTF-8",
        "LANGUAGE": "",
        "TERM": "dumb",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": _OFF,
        "SSH_ASKPASS": "",
        "GIT_SSH_COMMAND": _OFF,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": _OFF,
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_ALLOW_PROTOCOL": "",
    }


def execute(
    argv: Sequence[str | bytes], *, cwd: Path, env: Mapping[str, str], stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run one short Git process; raises WorkspaceError when it cannot start or does not end."""
    try:
        return subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise unusable(
            f"Git gave no answer in {cwd} within {TIMEOUT_SECONDS:.0f} s.", "Check the disk, then repeat."
        ) from exc
    except OSError as exc:
        raise unusable(f"Git could not be started in {cwd}: {exc.strerror}.", "Check that Git works there.") from exc


def complaint(stderr: bytes) -> str:
    """The first line of what Git said, without its `fatal:`."""
    lines = stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
    return lines[0].removeprefix("fatal: ").removeprefix("error: ")


def locate(start: Path, environ: Mapping[str, str]) -> Located:
    """Find the repository of an existing directory. Raises WorkspaceError with a hint when there is none to use."""
    # --show-cdup instead of --show-toplevel: it cannot contain a newline, so only the last answer may.
    question = ["rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--show-cdup", "--absolute-git-dir"]
    env = environment(environ)
    result = execute([*prefix(environ), *question], cwd=start, env=env)
    if result.returncode and b"dubious ownership" in result.stderr:
        # The user may have vouched for it in the configuration that the other processes do not read.
        trusted = [f"safe.directory={value}" for value in _safe_directories(environ)]
        result = execute([*prefix(environ, trusted), *question], cwd=start, env=env)
    if result.returncode:
        raise _refusal(start, result.stderr)
    bare, inside, up, git_dir = result.stdout.split(b"\n", 3)
    return Located(bare == b"true", inside == b"true", os.fsdecode(up), Path(os.fsdecode(git_dir.removesuffix(b"\n"))))


def _safe_directories(environ: Mapping[str, str]) -> list[str]:
    env = environment(environ)
    del env["GIT_CONFIG_NOSYSTEM"], env["GIT_CONFIG_GLOBAL"]
    # From the file system root, so that no repository's configuration takes part.
    command = [*prefix(environ), "config", "--null", "--get-all", "safe.directory"]
    return [os.fsdecode(value) for value in execute(command, cwd=Path("/"), env=env).stdout.split(b"\0")[:-1]]


def _refusal(start: Path, stderr: bytes) -> WorkspaceError:
    if b"not a git repository" in stderr:
        return NoRepository(f"{start} is not in a Git repository.", hint="To make it one, run: git init")
    if b"dubious ownership" in stderr:
        return unusable(
            f"The Git repository of {start} belongs to another user.",
            "If you trust it, run: git config --global --add safe.directory <its root>",
        )
    return unusable(
        f"Git cannot use the repository of {start}: {complaint(stderr)}.", "Repair it, or use another clone."
    )
