"""The user's private records: what they consented to for each workspace, and the credentials of `auth.toml`.

Invariant: both files belong to the user alone (folder 0700, files 0600, no links), live outside every workspace, and
are written only by an act of the user. A record names a workspace and a fingerprint of exactly what was consented to,
so a copied or edited `.fluzo` brings no consent with it (PRD 22.2 and 26). Records hold digests, never values.

    ${XDG_CONFIG_HOME:-~/.config}/fluzo/consent.json   {"schema_version": 1, "workspaces": {identity: {name: record}}}
    ${XDG_CONFIG_HOME:-~/.config}/fluzo/auth.toml      [credentials.REF] with value, and endpoint or tool = true
"""

import contextlib
import errno
import fcntl
import json
import os
import secrets
import stat
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from fluzo.core.errors import ConfigError, StorageError
from fluzo.core.redact import MIN_SECRET_LENGTH

SCHEMA_VERSION = 1
_MAX_BYTES = 16 << 20


def folder() -> Path:
    """Where the user's private records are. Raises StorageError when the environment names no home."""
    config = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    # The XDG base directory specification has relative paths ignored.
    base = config if config.is_absolute() else Path(os.environ.get("HOME", ""), ".config")
    if not base.is_absolute():
        raise StorageError(
            "There is no place for your private records: HOME is not set.",
            hint="Set HOME, or set XDG_CONFIG_HOME to an absolute path.",
        )
    return base / "fluzo"


def missing(identity: str, fingerprints: Mapping[str, str]) -> list[str]:
    """Names of `fingerprints` that the user has not consented to for this workspace, in their order.

    Raises StorageError when the records cannot be trusted or read; then nothing counts as consented.
    """
    known = _workspace(_read(folder() / "consent.json"), identity)
    return [name for name, value in fingerprints.items() if _fingerprint(known, name) != value]


def workspaces() -> list[str]:
    """Identities of all workspaces with a consent, that of the newest one first. Raises StorageError."""
    content = _read(folder() / "consent.json")
    newest = {identity: _newest(entry) for identity, entry in content["workspaces"].items()}
    return sorted(newest, key=lambda identity: newest[identity], reverse=True)


def record(identity: str, fingerprints: Mapping[str, str]) -> None:
    """Keep the user's consent to `fingerprints`; other names of the workspace stay. Raises StorageError."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with _locked() as path:
        content = _read(path)
        entry = _workspace(content, identity)
        entry.update({name: {"fingerprint": value, "recorded_at": now} for name, value in fingerprints.items()})
        content["workspaces"][identity] = entry
        _write(path, content)


def revoke(identity: str) -> list[str]:
    """Forget every consent of this workspace and return the names that it had. Raises StorageError."""
    with _locked() as path:
        content = _read(path)
        entry = content["workspaces"].pop(identity, {})
        if entry:
            _write(path, content)
    return list(entry)


def credential(ref: str, endpoint: str) -> str:
    """The secret that the user stored as `ref` for exactly this endpoint.

    Raises ConfigError when there is none, when it belongs to another endpoint, or when others can read the file.
    The value is never part of a message.
    """
    hint = f'Write it there:\n[credentials.{ref}]\nendpoint = "{endpoint}"\nvalue = "..."'
    path, entry = _entry(ref, hint)
    own = entry.get("endpoint")
    if "tool" in entry or not isinstance(own, str) or _origin(own) != _origin(endpoint):
        raise ConfigError(f"The credential {ref} in {path} is for another endpoint and was not used.", hint=hint)
    return _value(path, ref, entry, hint)


def tool_credential(ref: str) -> str:
    """The secret that the user stored as `ref` for the commands that tools start.

    Raises ConfigError when there is none, when it is an endpoint's, when it is too short to be found and masked in
    what a command prints, or when others can read the file. The value is never part of a message.
    """
    hint = f'Write it there:\n[credentials.{ref}]\ntool = true\nvalue = "..."'
    path, entry = _entry(ref, hint)
    if entry.get("tool") is not True or "endpoint" in entry:
        raise ConfigError(f"The credential {ref} in {path} is not for tools; no command was given it.", hint=hint)
    value = _value(path, ref, entry, hint)
    if len(value) < MIN_SECRET_LENGTH:
        raise ConfigError(
            f"The credential {ref} in {path} is shorter than {MIN_SECRET_LENGTH} characters and could not be masked "
            "in output; no command was given it.",
            hint="Use a longer secret.",
        )
    return value


def _entry(ref: str, hint: str) -> tuple[Path, Mapping[str, object]]:
    try:
        path = folder() / "auth.toml"
        text = _read_private(path)
    except FileNotFoundError as exc:
        raise ConfigError(f"The credential {ref} is missing: there is no {path}.", hint=hint) from exc
    except StorageError as exc:
        raise ConfigError(exc.message, hint=exc.hint) from exc
    try:
        document: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path} is not valid TOML; no credential was read.", hint="Repair the file.") from exc
    entries = document.get("credentials")
    entry = entries.get(ref) if isinstance(entries, dict) else None
    if not isinstance(entry, dict):
        raise ConfigError(f"{path} has no credential {ref}.", hint=hint)
    return path, entry


def _value(path: Path, ref: str, entry: Mapping[str, object], hint: str) -> str:
    value = entry.get("value")
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ConfigError(f"The credential {ref} in {path} has no usable value.", hint=hint)
    return value


def _origin(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/")


def _workspace(content: Mapping[str, Any], identity: str) -> dict[str, Any]:
    entry = content["workspaces"].get(identity)
    return dict(entry) if isinstance(entry, dict) else {}


def _newest(entry: object) -> str:
    records = entry.values() if isinstance(entry, dict) else ()
    return max((str(item.get("recorded_at", "")) for item in records if isinstance(item, dict)), default="")


def _fingerprint(known: Mapping[str, Any], name: str) -> object:
    entry = known.get(name)
    return entry.get("fingerprint") if isinstance(entry, dict) else None


@contextlib.contextmanager
def _locked() -> Iterator[Path]:
    """The record's path, while no other process of the user changes it."""
    root = folder()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        root.chmod(0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(root / "consent.lock", flags, 0o600)
    except OSError as exc:
        raise _failed(root, exc) from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield root / "consent.json"
    finally:
        os.close(descriptor)


def _read(path: Path) -> dict[str, Any]:
    try:
        content: Any = json.loads(_read_private(path))
    except FileNotFoundError:
        return {"schema_version": SCHEMA_VERSION, "workspaces": {}}
    except ValueError as exc:
        raise _damaged(path) from exc
    if not isinstance(content, dict) or not isinstance(content.get("workspaces"), dict):
        raise _damaged(path)
    if content.get("schema_version") != SCHEMA_VERSION:
        raise StorageError(
            f"{path} was written by another version of Fluzo.", code="schema_too_new", hint="Update Fluzo."
        )
    return cast("dict[str, Any]", content)


def _read_private(path: Path) -> str:
    """The text of a file that only the user can read or change. Raises FileNotFoundError or StorageError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise StorageError(f"{path} is not a file of yours and was not read.", hint="Move it away.")
            if status.st_mode & 0o077:
                raise StorageError(
                    f"{path} can be read or changed by others and was not used.",
                    hint=f"Make it private: chmod 600 {path}",
                )
            return stream.read(_MAX_BYTES).decode()
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as exc:
        raise _failed(path, exc) from exc


def _write(path: Path, content: Mapping[str, Any]) -> None:
    staged = path.with_name(f"{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump(content, stream, indent=1, sort_keys=True)
                stream.flush()
                os.fsync(descriptor)
            staged.replace(path)
        finally:
            staged.unlink(missing_ok=True)
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)
    except OSError as exc:
        raise _failed(path, exc) from exc


def _damaged(path: Path) -> StorageError:
    return StorageError(
        f"{path} cannot be understood, so no consent counts.",
        code="store_damaged",
        hint="Move it away and give consent again with: fluzo config trust",
    )


def _failed(path: Path, exc: OSError | UnicodeDecodeError) -> StorageError:
    if isinstance(exc, UnicodeDecodeError):
        return StorageError(f"{path} is not UTF-8 and was not read.", hint="Repair the file.")
    reason = "it is a symbolic link" if exc.errno == errno.ELOOP else exc.strerror
    return StorageError(f"{path} cannot be used: {reason}.", hint="Your private records need a folder you can write.")
