"""Where a demo lives: one temporary directory with an environment of its own, gone at the end.

Invariant: below `isolated` nothing of the user's is read or written: no settings, identity, key, consent or history.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fluzo.core.errors import WorkspaceError

_REMOVED_PREFIXES = ("GIT_", "XDG_", "FLUZO_")
_REMOVED_SUFFIXES = ("_PROXY", "_API_KEY", "_TOKEN", "_SECRET")
TOOLCHAIN_HOMES = {"RUSTUP_HOME": ".rustup", "CARGO_HOME": ".cargo"}
_GIT_CONFIG = "[user]\n\tname = Fluzo demo\n\temail = demo@example.invalid\n[init]\n\tdefaultBranch = main\n"


@contextmanager
def directory(*, keep: bool) -> Iterator[Path]:
    """A new temporary directory, removed at the end unless it is to be kept, and then named on stderr."""
    try:
        base = Path(tempfile.mkdtemp(prefix="fluzo-demo-")).resolve()
    except OSError as exc:
        raise WorkspaceError(
            f"No temporary directory can be made: {exc.strerror or exc}.",
            code="workspace_unusable",
            hint="Make room, or set TMPDIR to a directory that can be written.",
        ) from exc
    try:
        yield base
    finally:
        if keep:
            print(f"kept: {base}", file=sys.stderr)
        else:
            shutil.rmtree(base)


@contextmanager
def staging() -> Iterator[None]:
    """Say of a failed write that the stage could not be built, which is no fault of the program."""
    try:
        yield
    except OSError as exc:
        raise WorkspaceError(
            f"The demo could not be prepared in {tempfile.gettempdir()}: {exc.strerror or exc}.",
            code="workspace_unusable",
            hint="Make room there, or set TMPDIR to another directory.",
        ) from exc


@contextmanager
def isolated(base: Path) -> Iterator[None]:
    """Give this process an environment of its own below `base`: no settings, identities or keys of the user."""
    before = dict(os.environ)
    home = base / "home"
    with staging():
        home.mkdir(mode=0o700)
        (home / ".gitconfig").write_text(_GIT_CONFIG, encoding="utf-8")
        own = _environment(base, home, before)
    try:
        for name in before:
            if name.upper().startswith(_REMOVED_PREFIXES) or name.upper().endswith(_REMOVED_SUFFIXES):
                del os.environ[name]
        os.environ.update(own)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _environment(base: Path, home: Path, before: Mapping[str, str]) -> dict[str, str]:
    folders = {"CONFIG": ".config", "STATE": ".local/state", "DATA": ".local/share", "CACHE": ".cache"}
    own = {f"XDG_{name}_HOME": str(home / folder) for name, folder in folders.items()}
    own |= {"HOME": str(home), "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"), "GIT_CONFIG_NOSYSTEM": "1"}
    for name, folder in TOOLCHAIN_HOMES.items():
        # A toolchain that is found through the user's home directory must be found from here too.
        path = Path(before.get("HOME", "/"), folder)
        if name not in before and path.is_dir():
            own[name] = str(path)
    if sys.executable and not getattr(sys, "frozen", False):
        # The scripted commands say python3; that is the Python that runs this, whatever PATH has.
        (base / "bin").mkdir()
        (base / "bin" / "python3").symlink_to(sys.executable)
        own["PATH"] = os.pathsep.join((str(base / "bin"), before.get("PATH", os.defpath)))
    return own
