"""Listing and searching: names from Git, so that ignore rules hold, and content through the jail alone.

Protected and secret-bearing files are left out of both; this is a matter of discovery, not of access (PRD 21.2).
"""

import contextlib
import heapq
import os
import re
import stat
import subprocess
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import IO

from fluzo.core.contracts import ListedFile, Listing, SearchHit, SearchResult
from fluzo.core.errors import FluzoError, ToolError
from fluzo.core.paths import is_protected_path, is_secret_path
from fluzo.workspace import files
from fluzo.workspace.git import OWN_FILES_EXCLUDED, Git
from fluzo.workspace.gitrun import complaint
from fluzo.workspace.jail import Jail, decode, encode
from fluzo.workspace.leftovers import is_leftover

MAX_LINE_CHARS = 300
MAX_RESULT_CHARS = 256 * 1024
MAX_SEARCH_SECONDS = 60.0
"""A pattern that backtracks for longer finds nothing anybody waits for."""

_CHUNK_BYTES = 64 * 1024


def _hidden(path: str) -> bool:
    return is_protected_path(path) or is_secret_path(path) or is_leftover(path)


# --- listing --------------------------------------------------------------------------------------------------


def list_files(git: Git, jail: Jail, path: str, max_entries: int, depth: int) -> Listing:
    """Files and directories below `path`, at most `depth` levels, in order of their names.

    A directory that Git ignores as a whole is listed itself when it is asked for by name. Raises ToolError when
    there is no such directory.
    """
    base = jail.normalize(path)
    try:
        with jail.open_directory(base):
            pass
    except FileNotFoundError as exc:
        raise ToolError(f"there is no directory {path}", code="no_such_file") from exc
    found = git.ls_files(*_below(base))
    names = _tree(found, base, depth) if found else _scan(jail, base)
    shown = sorted((name for name in names if not _hidden(name)), key=encode)
    entries = (_described(jail, name) for name in shown[:max_entries])
    return Listing(tuple(entry for entry in entries if entry), len(shown) > max_entries)


def file_names(git: Git, limit: int) -> list[str]:
    """Files that Git tracks or does not ignore, in order of their names, at most `limit`. Raises WorkspaceError."""
    return [name for name in git.ls_files() if not _hidden(name)][:limit]


def _below(base: str) -> list[str]:
    return [] if base == "." else [f":(literal){base}"]


def _tree(found: list[str], base: str, depth: int) -> set[str]:
    skip = 0 if base == "." else base.count("/") + 1
    names: set[str] = set()
    for name in found:
        parts = name.rstrip("/").split("/")
        names.update("/".join(parts[:end]) for end in range(skip + 1, min(len(parts), skip + depth) + 1))
    return names


def _scan(jail: Jail, base: str) -> set[str]:
    with jail.open_directory(base) as handle:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=handle.fd)
    try:
        with os.scandir(fd) as entries:
            names = {decode(os.fsencode(entry.name)) for entry in entries}
    finally:
        os.close(fd)
    return {name if base == "." else f"{base}/{name}" for name in names}


def _described(jail: Jail, path: str) -> ListedFile | None:
    try:
        with jail.open(path, follow=False) as handle:
            mode, size = handle.stat.st_mode, handle.stat.st_size
    except (OSError, FluzoError):
        return None  # In Git's index, but not there any more, or not ours to look at.
    if stat.S_ISREG(mode):
        return ListedFile(path, "file", size)
    if stat.S_ISDIR(mode):
        return ListedFile(path, "directory")
    return ListedFile(path, "link" if stat.S_ISLNK(mode) else "other")


# --- searching ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Found:
    """Lines of one file that match, by number, with the byte column of the first match."""

    path: str
    columns: dict[int, int] = field(default_factory=dict)


def search(git: Git, jail: Jail, pattern: str, path: str, *, regex: bool, glob: str, max_hits: int) -> SearchResult:
    """Lines that contain a text or match a regular expression, in order of path and line.

    Git finds the lines; what they say is read through the jail. Raises ToolError `invalid_pattern`.
    """
    if not pattern or "\n" in pattern or "\0" in pattern:
        raise ToolError("the pattern must be one line and not empty", code="invalid_pattern")
    pathspecs = [_pathspec(jail.normalize(path), glob), *OWN_FILES_EXCLUDED]
    hits: list[SearchHit] = []
    room, count, truncated = MAX_RESULT_CHARS, 0, False
    with contextlib.closing(_matches(git, pattern, pathspecs, regex=regex)) as matches:
        for found in matches:
            lines = _read_lines(jail, found)
            count += bool(lines)
            hits += lines
            room -= sum(len(hit.text) for hit in lines)
            if len(hits) > max_hits or room < 0:
                truncated = True
                break
    return SearchResult(tuple(hits[:max_hits]), count, truncated)


def _pathspec(base: str, glob: str) -> str:
    if not glob:
        return ":(top,literal)" + ("" if base == "." else base)
    if glob.startswith("/") or ".." in glob.split("/"):
        raise ToolError("glob is a pattern such as *.py or src/**/*.ts, relative to path", code="tool_arguments")
    start = "" if base == "." else re.sub(r"([*?\[\\])", r"\\\1", base) + "/"
    return f":(top,glob){start}{glob if '/' in glob else '**/' + glob}"


def _matches(git: Git, pattern: str, pathspecs: list[str], *, regex: bool) -> Generator[_Found, None, None]:
    for dialect in ("-P", "-E") if regex else ("-F",):
        try:
            yield from _every_match(git, [dialect, "-e", pattern, "--", *pathspecs], pathspecs)
            return
        except _NoPerlPatterns:
            continue  # This Git was built without PCRE; nothing has been yielded yet.


def _every_match(git: Git, arguments: list[str], pathspecs: list[str]) -> Generator[_Found, None, None]:
    """Matches in tracked files and in new ones that are not ignored, in byte order of their paths."""
    # A walk for untracked files follows the ignore rules for all it meets, so it misses what was added by force.
    forced = set(git.ls_files_ignored(*pathspecs))
    with contextlib.ExitStack() as stack:
        walk = stack.enter_context(contextlib.closing(_grep(git, ["--untracked", *arguments])))
        if not forced:
            yield from walk
            return
        tracked = stack.enter_context(contextlib.closing(_grep(git, arguments)))
        more = (found for found in tracked if found.path in forced)
        yield from heapq.merge(walk, more, key=lambda found: encode(found.path))


class _NoPerlPatterns(Exception):
    pass


def _grep(git: Git, arguments: list[str]) -> Generator[_Found, None, None]:
    argv = git.grep_command(["-n", "-z", "--column", "-I", *arguments])
    with subprocess.Popen(
        [encode(word) for word in argv],
        cwd=git.root.path,
        env=git.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        watchdog = threading.Timer(MAX_SEARCH_SECONDS, process.kill)
        watchdog.start()
        assert process.stdout is not None and process.stderr is not None
        try:
            yield from _parsed(process.stdout)
            error = process.stderr.read()
            if process.wait() not in (0, 1):
                raise _search_failed(error, process.returncode)
        finally:
            watchdog.cancel()
            process.kill()  # Enough was found, or the reader gave up; a second signal to an ended child is none.


def _search_failed(error: bytes, status: int) -> Exception:
    if b"Perl-compatible" in error and b"compiled" in error:
        return _NoPerlPatterns()
    if status < 0:
        return ToolError("the search took too long and was stopped; narrow path or pattern", code="timed_out")
    return ToolError(f"the pattern cannot be used: {complaint(error)}", code="invalid_pattern")


def _parsed(stream: IO[bytes]) -> Iterator[_Found]:
    """Files with their matching lines from `git grep -n -z --column`: path NUL line NUL column NUL text LF."""
    current: _Found | None = None
    for path, line, column in _records(stream):
        name = decode(path)
        if current is None or current.path != name:
            if current is not None and not _hidden(current.path):
                yield current
            current = _Found(name)
        current.columns[line] = column
    if current is not None and not _hidden(current.path):
        yield current


def _records(stream: IO[bytes]) -> Iterator[tuple[bytes, int, int]]:
    # A path may contain a newline and a text a NUL, but not the other way round: split off one field at a time.
    rest = b""
    record = re.compile(rb"([^\0]+)\0(\d+)\0(\d+)\0[^\n]*\n")
    while chunk := stream.read(max(_CHUNK_BYTES, len(rest))):  # Twice as much each time while one line goes on.
        rest += chunk
        position = 0
        while match := record.match(rest, position):
            yield match[1], int(match[2]), int(match[3])
            position = match.end()
        rest = rest[position:]


def _read_lines(jail: Jail, found: _Found) -> list[SearchHit]:
    try:
        content = files.read(jail, found.path, files.MAX_FILE_BYTES)
    except FluzoError:
        return []  # Gone, too large, or reached through a link that leaves the workspace.
    lines = content.data.split(b"\n")
    wanted = ((number, column) for number, column in found.columns.items() if number <= len(lines))
    return [SearchHit(found.path, number, _excerpt(lines[number - 1], column)) for number, column in wanted]


def _excerpt(line: bytes, column: int) -> str:
    text = line.removesuffix(b"\r").decode("utf-8", "surrogateescape")
    if len(text) <= MAX_LINE_CHARS:
        return text
    at = len(line[: column - 1].decode("utf-8", "surrogateescape"))
    start = max(0, min(at - MAX_LINE_CHARS // 3, len(text) - MAX_LINE_CHARS))
    end = start + MAX_LINE_CHARS
    return ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")
