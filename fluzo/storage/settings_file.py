"""`.fluzo` on disk: read it whole, know its version and its lines, publish it atomically.

Invariant: a reader sees the old file or the new one, never a part; a failed write leaves the old one as it was; an
existing entry is replaced only by `replace`, which was told which version it replaces. Links and special files are
refused, so a write never lands outside the folder. Editing with comments kept is `settings_edit`'s work, which loads
tomlkit; this module reads with `tomllib`, because every `run` passes through it.
"""

import contextlib
import ctypes
import errno
import hashlib
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from fluzo.core.errors import ConfigError
from fluzo.core.named import NamedTuple
from fluzo.core.redact import printable
from fluzo.core.settings import Effective, Problem, Settings, check_settings, effective_values, parse_value, set_value

MAX_BYTES = 1 << 20
"""A larger file is not a configuration; it is refused before it is parsed."""

_MAX_DEPTH = 16

HINT = "nothing was started. Fix the line, or run: fluzo config edit"
_FLAG_HINT = "nothing was started. Correct the value and repeat."


class SettingsText(NamedTuple):
    """The file as it stands: `version` changes with every byte."""

    path: Path
    text: str
    version: str
    mode: int


class LoadedSettings(NamedTuple):
    """Valid settings and where they come from. `data` is the file's own content, `flags` what `--set` put over it."""

    settings: Settings
    file: SettingsText
    data: Mapping[str, object]
    flags: Mapping[str, object] = {}

    @property
    def version(self) -> str:
        return self.file.version

    def effective(self) -> list[Effective]:
        """Every value in force with its source."""
        return effective_values(self.settings, self.data, self.flags)


def load(path: Path, flags: Mapping[str, str] | None = None) -> LoadedSettings:
    """Read, parse and validate the file at `path`, with the texts of `--set` over it.

    Raises ConfigError: `configuration_required` when there is no file, `configuration_invalid` otherwise, naming the
    file, the line and the key of every problem. Raises UsageError for a flag that is no setting or of another type.
    """
    file = read(path)
    data = parse(file)
    return loaded(file, data, {key: parse_value(key, text) for key, text in (flags or {}).items()})


def loaded(file: SettingsText, data: Mapping[str, object], flags: Mapping[str, object]) -> LoadedSettings:
    """The settings that the document `data` of `file` means with typed `flags` over it. Raises ConfigError."""
    merged: dict[str, object] = dict(data)
    for key, value in flags.items():
        merged = set_value(merged, key, value)
    settings, problems = check_settings(merged)
    if settings is None:
        raise invalid(file, problems, set(flags))
    return LoadedSettings(settings, file, data, flags)


def read(path: Path) -> SettingsText:
    """The text of a regular, UTF-8, reasonably small file. Raises ConfigError; nothing is followed or waited for."""
    content, mode = read_bytes(path)
    return SettingsText(path, _decode(path, content), version_of(content), mode)


def read_bytes(path: Path) -> tuple[bytes, int]:
    """Bytes and mode of a regular file, whatever the bytes mean. Raises ConfigError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError(f"{_show(path)} is not a regular file.", hint="Move it away, then run: fluzo init")
            content = stream.read(MAX_BYTES + 1)
    except OSError as exc:
        raise _unreadable(path, exc) from exc
    if len(content) > MAX_BYTES:
        raise ConfigError(
            f"{_show(path)} is larger than 1 MiB and was not read.", hint="Move it away, then run: fluzo init"
        )
    return content, stat.S_IMODE(status.st_mode)


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise ConfigError(f"{_show(path)}, line {line}: the file is not UTF-8.", hint=HINT) from exc


def parse(file: SettingsText) -> dict[str, object]:
    """The raw document. Raises ConfigError with the line of a syntax error."""
    try:
        document = tomllib.loads(file.text)
        if _is_deep(document):
            raise RecursionError
        return document
    except RecursionError as exc:
        raise ConfigError(f"{_show(file.path)}: the file is nested too deeply to be settings.", hint=HINT) from exc
    except tomllib.TOMLDecodeError as exc:
        message, _, place = str(exc).partition(" (at ")
        line = re.search(r"line (\d+)", place)
        where = f", line {line[1]}" if line else ", last line"
        # Of the reader's message only words that quote nothing of the file, which may hold a secret.
        reason = "something is missing" if message.startswith("Expected") else re.sub(r"(['\"]).*\1\s*", "", message)
        raise ConfigError(f"{_show(file.path)}{where}: this is not valid TOML ({reason}).", hint=HINT) from exc


def _is_deep(document: object) -> bool:
    """True for more levels than settings have; everything after this may walk the document by recursion."""
    level = [document]
    for _ in range(_MAX_DEPTH):
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
    return bool(level)


def version_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def invalid(file: SettingsText, problems: Iterable[Problem], flags: Iterable[str] = ()) -> ConfigError:
    """One error for all problems, a line each, with the file and line (or the flag) that caused it."""
    lines, by_flag = line_numbers(file.text), set(flags)
    told = []
    for problem in problems:
        keys = [".".join(str(part) for part in problem.path[:end]) for end in range(len(problem.path), 0, -1)]
        line = next((lines[key] for key in keys if key in lines), 0)
        if keys and any(key in by_flag for key in keys):
            told.append((0, f"--set: {problem.sentence}"))
        else:
            place = f"{_show(file.path)}, line {line}" if line else _show(file.path)
            told.append((line, f"{place}: {problem.sentence}"))
    told.sort(key=lambda item: item[0])
    hint = HINT if any(line or not text.startswith("--set") for line, text in told) else _FLAG_HINT
    return ConfigError("\n".join(text for _, text in told), hint=hint, detail={"problems": len(told)})


# --- lines ------------------------------------------------------------------------------------------------------

_WORD = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*')"""
_DOTTED = rf"({_WORD}(?:\s*\.\s*{_WORD})*)"
_HEADER = rf"\s*(\[\[?)\s*{_DOTTED}\s*\]"
_ASSIGNMENT = rf"\s*{_DOTTED}\s*="
_TOKEN = r'"""|\'\'\'|"(?:\\.|[^"\\])*"|\'[^\']*\'|#|[\[\]{}]'


def line_numbers(text: str) -> dict[str, int]:
    """The first line of every table and key, for messages; keys within an inline table have the line of the table."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    table = ""
    for number, line in _statements(text):
        header, assignment = re.match(_HEADER, line), re.match(_ASSIGNMENT, line)
        if header:
            table = _join(header[2])
            if header[1] == "[[":
                index = counts[table] = counts.get(table, -1) + 1
                found.setdefault(table, number)
                table = f"{table}.{index}"
            found.setdefault(table, number)
        elif assignment:
            key = _join(assignment[1])
            found.setdefault(f"{table}.{key}" if table else key, number)
    return found


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The lines on which a statement begins: not those within a multi-line text or list."""
    depth, quote = 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        if not depth and not quote:
            yield number, line
        at = 0
        while at < len(line):
            if quote:
                end = line.find(quote, at)
                at = len(line) if end < 0 else end + 3
                quote = quote if end < 0 else ""
                continue
            token = re.compile(_TOKEN).search(line, at)
            if token is None or token[0] == "#":
                break
            at = token.end()
            quote = token[0] if token[0] in ('"""', "'''") else ""
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)


def _join(dotted: str) -> str:
    return ".".join(part.strip("\"'") for part in re.findall(_WORD, dotted))


# --- publication ------------------------------------------------------------------------------------------------


def create_exclusive(path: Path, text: str) -> str:
    """Publish a new file; return its version. Whatever already has that name stays as it is.

    Raises ConfigError (`configuration_conflict`) when the name is taken, `configuration_invalid` when the disk or the
    folder refuses.
    """
    content = text.encode()
    with _staged(path, content, None) as staged:
        try:
            _link(staged, path)
        except FileExistsError as exc:
            raise ConfigError(
                f"{_show(path)} exists already and was left as it is.",
                code="configuration_conflict",
                hint="Look at it, then run fluzo init again.",
            ) from exc
        _sync_folder(path.parent)
    return version_of(content)


def replace(path: Path, text: str, expected_version: str) -> str:
    """Put `text` in the place of the version that was seen; the file's mode is kept. Return the new version.

    Raises ConfigError: `configuration_conflict` when the file moved meanwhile, `configuration_invalid` when the disk
    or the folder refuses; either way the file is as it was.
    """
    current, mode = read_bytes(path)
    if version_of(current) != expected_version:
        raise conflict(path)
    content = text.encode()
    with _staged(path, content, mode) as staged:
        staged.replace(path)
        _sync_folder(path.parent)
    return version_of(content)


def keep_copy(path: Path) -> Path:
    """Copy the exact bytes beside the file, as `NAME.bak-1` or the next free number, readable by the owner alone.

    Raises ConfigError when no copy can be made.
    """
    content, _ = read_bytes(path)
    for number in range(1, 1000):
        copy = path.with_name(f"{path.name}.bak-{number}")
        with _staged(path, content, 0o600) as staged, contextlib.suppress(FileExistsError):
            _link(staged, copy)
            _sync_folder(path.parent)
            return copy
    raise ConfigError(f"There are too many copies of {_show(path)}.", hint="Remove the .bak files you do not need.")


def conflict(path: Path) -> ConfigError:
    return ConfigError(
        f"{_show(path)} was changed by something else meanwhile; nothing was saved.",
        code="configuration_conflict",
        hint="Look at the change, then save again.",
    )


@contextlib.contextmanager
def _staged(path: Path, content: bytes, mode: int | None) -> Iterator[Path]:
    """A complete, synced file beside `path`, gone afterwards unless it was moved into place.

    `mode` None is for a new file of the user's, whose mode is what the umask leaves.
    """
    staged = path.with_name(f"{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        descriptor = os.open(
            staged,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o666 if mode is None else mode & 0o600,
        )
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                if mode is not None:
                    os.fchmod(stream.fileno(), mode)  # An existing mode is kept whatever the umask is.
                stream.flush()
                os.fsync(stream.fileno())
            yield staged
        finally:
            staged.unlink(missing_ok=True)
    except OSError as exc:
        raise _unwritable(path, exc) from exc


def _link(staged: Path, path: Path) -> None:
    """Give the staged file its name unless the name is taken."""
    try:
        os.link(staged, path, follow_symlinks=False)
    except OSError as exc:
        if exc.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        # A file system without hard links, such as FAT: rename(2) with RENAME_NOREPLACE does the same there.
        libc = ctypes.CDLL(None, use_errno=True)
        at_cwd, no_replace = -100, 1
        if libc.renameat2(at_cwd, os.fsencode(staged), at_cwd, os.fsencode(path), no_replace):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path)) from exc


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- messages ---------------------------------------------------------------------------------------------------


def _show(path: Path) -> str:
    """The path as short as it is clear: relative to the working directory where it is beneath it."""
    with contextlib.suppress(ValueError, OSError):
        return printable(str(path.relative_to(Path.cwd())), keep_newlines=False)
    return printable(str(path), keep_newlines=False)


def _unreadable(path: Path, exc: OSError) -> ConfigError:
    if exc.errno == errno.ENOENT:
        return ConfigError(
            f"There is no {_show(path)} yet.",
            code="configuration_required",
            hint="Set this folder up with: fluzo init\nor look around without a model: fluzo demo",
        )
    if exc.errno == errno.ELOOP:
        return ConfigError(
            f"{_show(path)} is a symbolic link, which is not followed.",
            hint="Put the file itself there, or remove the link and run: fluzo init",
        )
    if exc.errno in (errno.EISDIR, errno.ENXIO, errno.ENOTDIR):
        return ConfigError(f"{_show(path)} is not a regular file.", hint="Move it away, then run: fluzo init")
    return ConfigError(
        f"{_show(path)} cannot be read: {exc.strerror}.", hint="Check its owner and mode, for example with: ls -l"
    )


def _unwritable(path: Path, exc: OSError) -> ConfigError:
    return ConfigError(
        f"{_show(path)} could not be saved: {exc.strerror}.",
        hint="The file is as it was. Make room or make the folder writable, then save again.",
    )
