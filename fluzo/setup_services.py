"""What setting up and changing a configuration needs, composed from the leaves for `init`, `config` and the screens.

Stands beside `host.py`: commands import this, never a leaf. Invariant: nothing here reaches a server, writes a file
or records consent unless the function's name says so, and each is called after an act of the user.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from fluzo.core.errors import ConfigError, ProviderError, StorageError, WorkspaceError
from fluzo.core.paths import SETTINGS_NAME, STORE_NAME
from fluzo.core.settings import Settings, consent_fingerprints
from fluzo.storage import consent, settings_file
from fluzo.storage.settings_file import LoadedSettings as LoadedSettings  # Commands name it; they import no leaf.
from fluzo.storage.settings_file import SettingsText
from fluzo.workspace import gitrun, identity, syscalls

if TYPE_CHECKING:
    from fluzo.models.discovery import DiscoveredModel
    from fluzo.models.probe import ProbeResult

KNOWN_PORTS = (8080, 11434, 1234, 8000)
"""Where local servers listen by default: llama.cpp and llama-swap, Ollama, LM Studio, vLLM."""


# --- places -----------------------------------------------------------------------------------------------------


def workspace_root(selected: Path | None) -> Path:
    """The folder that the settings are for: the Git working tree around the selected or current folder.

    Outside Git it is that folder itself, so that setup and settings work before `git init`. Raises WorkspaceError
    when there is no such folder, no Git to ask, or a repository without a working tree.
    """
    start = selected or Path()
    try:
        return identity.resolve_root(start).path
    except gitrun.NoRepository:
        return start.resolve()


def settings_path(root: Path, config: Path | None) -> Path:
    """The settings file of `root`: `--config`, or `.fluzo` in it. It is not resolved itself, for links are refused."""
    return Path.cwd() / config if config is not None else root / SETTINGS_NAME


def require_confinement() -> None:
    """Raise WorkspaceError when this kernel cannot hold file access beneath a directory (openat2, Linux 5.6)."""
    try:
        root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.close(syscalls.openat2(root, b".", os.O_PATH, syscalls.RESOLVE_BENEATH))
        finally:
            os.close(root)
    except OSError as exc:
        raise WorkspaceError(
            f"The kernel cannot keep file access inside a workspace: openat2 answers {exc.strerror}.",
            code="workspace_unusable",
            hint="Use Linux 5.6 or later; in a container, a runtime whose seccomp profile knows openat2.",
        ) from exc


# --- the file ---------------------------------------------------------------------------------------------------


def load_settings(path: Path, flags: Mapping[str, str] | None = None) -> LoadedSettings:
    """See `settings_file.load`."""
    return settings_file.load(path, flags)


def save_settings(file: SettingsText, edits: Mapping[str, object], *, rebase: bool = False) -> SettingsText:
    """See `settings_edit.save`."""
    from fluzo.storage import settings_edit

    return settings_edit.save(file, edits, rebase=rebase)


@dataclass(frozen=True, slots=True)
class Existing:
    """What stands at the settings path before setup: `problem` is why it cannot be read, None when it is valid."""

    version: str
    problem: ConfigError | None


def look_at(path: Path) -> Existing | None:
    """The file that setup would replace, or None. Raises ConfigError for what can never be replaced, such as a link."""
    try:
        content, _ = settings_file.read_bytes(path)
    except ConfigError as exc:
        if exc.code == "configuration_required":
            return None
        raise
    version = settings_file.version_of(content)
    try:
        settings_file.load(path)
    except ConfigError as exc:
        return Existing(version, exc)
    return Existing(version, None)


def write_settings(path: Path, text: str, existing: Existing | None) -> Path | None:
    """Create the file, or replace exactly the version that was looked at; return the copy kept of a broken one.

    A broken file may hold work that Git does not know, so it is copied first; a valid one is Git's to recover
    (PRD 26.1, amendment). Raises ConfigError; the file is then as it was.
    """
    if existing is None:
        settings_file.create_exclusive(path, text)
        return None
    copy = settings_file.keep_copy(path) if existing.problem is not None else None
    settings_file.replace(path, text, existing.version)
    return copy


# --- consent ----------------------------------------------------------------------------------------------------


def fingerprints(settings: Settings, root: Path) -> dict[str, str]:
    """What the settings need consent for in this workspace."""
    return consent_fingerprints(settings, identity.workspace_identity(root))


def missing_consent(settings: Settings, root: Path) -> list[str]:
    return consent.missing(identity.workspace_identity(root), fingerprints(settings, root))


def record_consent(settings: Settings, root: Path) -> list[str]:
    """Record the user's consent to everything these settings need; return the names. Raises StorageError."""
    wanted = fingerprints(settings, root)
    if wanted:
        consent.record(identity.workspace_identity(root), wanted)
    return list(wanted)


def revoke_consent(root: Path) -> list[str]:
    """Forget every consent of the workspace; return the names that there were. Raises StorageError."""
    return consent.revoke(identity.workspace_identity(root))


# --- the store --------------------------------------------------------------------------------------------------


def store_damage(root: Path) -> StorageError | None:
    """Why the store of this workspace cannot be used, after reading all of it; None for a sound one and for none."""
    from fluzo.storage import repair

    return repair.examine(root / STORE_NAME)


def set_store_aside(root: Path) -> Path:
    """Give a damaged store another name, so that the next run begins a new one; return that name. Deletes nothing.

    Raises WorkspaceError while a process works in the workspace, and StorageError, also for a store that is not
    damaged.
    """
    from fluzo.storage import repair

    ownership = identity.acquire(identity.resolve_root(root), {}, store=root / STORE_NAME)
    try:
        damage = repair.examine(root / STORE_NAME)
        if damage is None or damage.code != "store_damaged":
            raise damage or StorageError("The store is not damaged; it was left as it is.")
        return repair.set_aside(root / STORE_NAME)
    finally:
        ownership.release()


# --- the server -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server is and how requests to it are authenticated; the secret itself is resolved when it is used."""

    base_url: str
    auth: str = "none"
    api_key_env: str = ""
    credential_ref: str = ""

    def token(self) -> str | None:
        """Raises ConfigError when the named variable or credential is not there."""
        if self.auth == "none":
            return None
        return credential(self.auth, self.api_key_env, self.credential_ref, self.base_url)


def credential(auth: str, api_key_env: str, credential_ref: str, base_url: str) -> str:
    """The secret that an `env` or `credential` reference names. Raises ConfigError without any part of it."""
    if auth == "credential":
        return consent.credential(credential_ref, base_url)
    key = os.environ.get(api_key_env, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        state = "is not usable as a key" if key else "is not set"
        raise ConfigError(
            f"The environment variable {api_key_env}, which should hold the key, {state}.",
            hint=f"Set it in your shell before you start Fluzo: export {api_key_env}=...",
        )
    return key


def discover(endpoint: Endpoint, timeout_seconds: float = 10) -> "list[DiscoveredModel]":
    """Ask the server for its models: one GET, no inference. Raises ProviderError or ConfigError."""
    from fluzo.models import discovery

    return discovery.discover_models(endpoint.base_url, endpoint.token(), timeout_seconds)


def probe(endpoint: Endpoint, model: str, entry: str = "coder") -> "ProbeResult":
    """Ask the model for a few tiny replies, which may cost money. Raises ProviderError or ConfigError."""
    from fluzo.models.probe import probe

    return probe(endpoint.base_url, model, endpoint.token(), entry=entry)


def find_local_servers(ports: tuple[int, ...] = KNOWN_PORTS) -> "dict[str, list[DiscoveredModel]]":
    """Base URLs on this machine that list models now, asked one after the other with a short timeout."""
    found = {}
    for port in ports:
        url = f"http://127.0.0.1:{port}/v1"
        try:
            found[url] = discover(Endpoint(url), timeout_seconds=2)
        except ProviderError:
            continue
    return found


def addresses_of(url: str) -> list[str]:
    """The addresses that the URL's host has now, by a name look-up; empty when it has none."""
    try:
        found = socket.getaddrinfo(urlsplit(url).hostname, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


# --- Git --------------------------------------------------------------------------------------------------------

ExcludeState = Literal["ignored", "not_ignored", "tracked", "no_git"]


def exclude_state(root: Path) -> ExcludeState:
    """Whether Git keeps its hands off the private folder. Reads only; no hook and no helper runs."""
    if _git(root, "rev-parse", "--is-inside-work-tree").strip() != "true":
        return "no_git"
    if _git(root, "ls-files", "--", STORE_NAME):
        return "tracked"
    return "ignored" if _git(root, "check-ignore", "--", f"{STORE_NAME}/state.sqlite3") else "not_ignored"


def add_exclude(root: Path) -> Path:
    """Add the private folder to this clone's own exclude file and return its path; `.gitignore` is never touched.

    Raises ConfigError when the file cannot be written.
    """
    path = root / _git(root, "rev-parse", "--git-path", "info/exclude").rstrip("\n")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8", errors="surrogateescape") as stream:
            stream.seek(0)
            text = stream.read()
            stream.write(("\n" if text and not text.endswith("\n") else "") + f"/{STORE_NAME}/\n")
    except OSError as exc:
        raise ConfigError(
            f"{path} could not be changed: {exc.strerror}.", hint=f"Have Git ignore {STORE_NAME}/ yourself."
        ) from exc
    return path


def _git(root: Path, *arguments: str) -> str:
    """The output of a reading Git command; empty when Git is missing, fails, or this is no repository."""
    try:
        command = [*gitrun.prefix(os.environ), *arguments]
        done = gitrun.execute(command, cwd=root, env=gitrun.environment(os.environ))
    except WorkspaceError:
        return ""
    return os.fsdecode(done.stdout) if done.returncode == 0 else ""
