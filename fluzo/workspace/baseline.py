"""What the working tree was when a task began, and what is different now.

Invariant: whatever the user had changed before is known by version and, within bounds, by content; so the task's
own changes are told from the user's, and nothing is claimed that was not looked at. Fluzo's own files and ignored
files are never part of it. Everything here blocks; call it in a thread.
"""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fluzo.core.errors import FluzoError
from fluzo.core.named import NamedTuple
from fluzo.core.paths import is_protected_path
from fluzo.core.records import ABSENT, FileVersion
from fluzo.workspace import files
from fluzo.workspace.diff import Difference, changed_lines, compare, header
from fluzo.workspace.git import Git, Status, StatusEntry
from fluzo.workspace.jail import Jail
from fluzo.workspace.leftovers import put_away

MAX_KEPT_BYTES = 1024 * 1024
"""Of one file: beyond it a file is known by version alone, and shown without a diff."""
MAX_KEPT_TOTAL_BYTES = 16 * 1024 * 1024
MAX_DIFF_BYTES = 512 * 1024
MAX_OWN_STRETCHES = 500
"""Of one file: with more of them the file alone is named as one that the user had changed."""

Lines = tuple[tuple[int, int], ...]
_NO_FILE = "000000"
_STAT = "stat:"
"""Begins the version of what was not read."""


class Snapshot(NamedTuple):
    """One path at one moment: version, Git's file mode, and the bytes when they were kept."""

    version: FileVersion
    mode: str = _NO_FILE
    data: bytes | None = None


class Baseline(NamedTuple):
    """The working tree at the start of a task. `before` holds every path that the user had changed by then."""

    status: Status
    before: Mapping[str, Snapshot]
    revision: str

    @property
    def head(self) -> str:
        return self.status.head

    @property
    def branch(self) -> str:
        return self.status.branch

    @property
    def user_changed(self) -> frozenset[str]:
        return frozenset(self.before)

    def to_json(self) -> dict[str, object]:
        """For the journal: names, states and versions, no contents."""
        entries = self.status.entries
        return {
            "head": self.head,
            "branch": self.branch,
            "revision": self.revision,
            "staged": [entry.path for entry in entries if entry.staged],
            "unstaged": [entry.path for entry in entries if entry.worktree not in ".?"],
            "untracked": [entry.path for entry in entries if entry.untracked],
            "versions": {path: snapshot.version.digest for path, snapshot in self.before.items()},
        }


class FileChange(NamedTuple):
    """One file that is not what it was when the task began. `preexisting`: it had been changed before.

    `own_lines` are the stretches of its lines, as they were then, that HEAD does not have; None where it is not known.
    """

    path: str
    status: Literal["added", "modified", "deleted"]
    lines_added: int
    lines_removed: int
    diff: str
    preexisting: bool
    version: FileVersion = ABSENT
    own_lines: Lines | None = None


class Changes(NamedTuple):
    """All differences from a baseline; `diff` joins those of the files within bounds, notes in place of the rest."""

    files: tuple[FileChange, ...]
    diff: str
    diff_truncated: bool
    head_moved: bool
    index_changed: bool
    revision: str
    head: str
    branch: str

    def to_json(self) -> dict[str, object]:
        return {
            "files": [
                {
                    "path": change.path,
                    "status": change.status,
                    "lines_added": change.lines_added,
                    "lines_removed": change.lines_removed,
                    "preexisting": change.preexisting,
                }
                for change in self.files
            ],
            "diff": self.diff,
            "diff_truncated": self.diff_truncated,
            "head_moved": self.head_moved,
            "index_changed": self.index_changed,
            "revision": self.revision,
        }


def capture(git: Git, jail: Jail) -> Baseline:
    """Look at the working tree before anything is done in it, as its owner. Leftovers are put away.

    Raises WorkspaceError when Git cannot look.
    """
    status = git.status()
    put_away(jail, status.leftovers)
    before: dict[str, Snapshot] = {}
    room = MAX_KEPT_TOTAL_BYTES
    for path in _changed_paths(status):
        snapshot = snapshot_of(jail, path, min(room, MAX_KEPT_BYTES))
        room -= len(snapshot.data or b"")
        before[path] = snapshot
    return Baseline(status, before, _revision(status, before))


def revision(git: Git, jail: Jail) -> str:
    """One digest of HEAD, the status and the content of every changed file: what a verdict is bound to."""
    status = git.status()
    return _revision(status, {path: snapshot_of(jail, path, 0) for path in _changed_paths(status)})


def changes(baseline: Baseline, git: Git, jail: Jail) -> Changes:
    """What differs now from the baseline, whoever did it. Raises WorkspaceError when Git cannot look."""
    status = git.status()
    now = {path: snapshot_of(jail, path, MAX_KEPT_BYTES) for path in _changed_paths(status)}
    old_blobs = {entry.path: (entry.head_id, entry.head_mode) for entry in status.entries}
    if status.head != baseline.head:
        # What was committed meanwhile looks clean to the status, and HEAD's blobs are no longer the old ones.
        for change in git.tree_changes(baseline.head, status.head):
            old_blobs[change.path] = (change.old_id, change.old_mode)
    paths = {path for path in {*old_blobs, *baseline.before} if not is_protected_path(path)}
    after = {path: now.get(path) or snapshot_of(jail, path, MAX_KEPT_BYTES) for path in paths}
    wanted = [(path, old_blobs[path][0]) for path in sorted(paths - set(baseline.before)) if old_blobs[path][0]]
    touched = [entry for entry in _comparable(baseline) if _differs(baseline.before[entry.path], after[entry.path])]
    wanted += [(entry.path, entry.head_id) for entry in touched if entry.head_id]
    contents = git.blobs(wanted, MAX_KEPT_BYTES)
    own = {entry.path: _own_lines(entry, baseline.before[entry.path], contents) for entry in touched}
    report = Report()
    for path in sorted(paths):
        if path in baseline.before:
            report.add(path, baseline.before[path], after[path], preexisting=True, own=own.get(path))
        else:
            report.add(path, from_blob(*old_blobs[path], contents.get(path)), after[path], preexisting=False)
    return Changes(
        files=tuple(report.files),
        diff="".join(report.parts),
        diff_truncated=report.truncated,
        head_moved=(status.head, status.branch) != (baseline.head, baseline.branch),
        index_changed=_staged(status) != _staged(baseline.status),
        revision=_revision(status, now),
        head=status.head,
        branch=status.branch,
    )


def _comparable(baseline: Baseline) -> list[StatusEntry]:
    """Changed files whose lines can be told from those of HEAD: plain ones whose content was kept, not in conflict."""
    entries = {entry.path: entry for entry in baseline.status.entries if not entry.untracked}
    untracked = {entry.path: entry for entry in baseline.status.entries}
    found = []
    for path, snapshot in baseline.before.items():
        entry = entries.get(path) or untracked.get(path)
        plain = snapshot.mode.startswith("100") and snapshot.data is not None
        if entry is not None and plain and entry.index != "U" and (not entry.head_id or entry.head_mode[:3] == "100"):
            found.append(entry)
    return found


def _own_lines(entry: StatusEntry, before: Snapshot, contents: Mapping[str, bytes]) -> Lines | None:
    """What the baseline of a file has and HEAD had not; None when the blob is too large, or the parts too many."""
    assert before.data is not None
    if entry.head_id and entry.path not in contents:
        return None
    lines = changed_lines(contents[entry.path] if entry.head_id else None, before.data)
    return lines if lines is None or len(lines) <= MAX_OWN_STRETCHES else None


def _differs(before: Snapshot, after: Snapshot) -> bool:
    return before.mode != after.mode or before.version.digest != after.version.digest


@dataclass(slots=True)
class Report:
    """The changes so far and the room left for diffs."""

    files: list[FileChange] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    room: int = MAX_DIFF_BYTES
    truncated: bool = False

    def add(self, path: str, before: Snapshot, after: Snapshot, *, preexisting: bool, own: Lines | None = None) -> None:
        if not _differs(before, after):
            return
        difference = _difference(path, before, after)
        status: Literal["added", "modified", "deleted"] = "modified"
        if before.version.absent:
            status = "added"
        elif after.version.absent:
            status = "deleted"
        diff = self._bounded(path, difference.text)
        counts = (difference.lines_added, difference.lines_removed)
        self.files.append(FileChange(path, status, *counts, diff, preexisting, after.version, own))

    def _bounded(self, path: str, text: str) -> str:
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > self.room:
            self.truncated = True
            text = f"{header(path)}(diff of {size} bytes not shown)\n"
        else:
            self.room -= size
        self.parts.append(text)
        return text


def _difference(path: str, before: Snapshot, after: Snapshot) -> Difference:
    unknown = [s for s in (before, after) if s.data is None and not s.version.absent]
    if unknown:
        sizes = f"{before.version.size_bytes} -> {after.version.size_bytes} bytes"
        large = max(before.version.size_bytes, after.version.size_bytes) > MAX_KEPT_BYTES or before.data is None
        why = f"{sizes}; too large to compare line by line" if large else "it is no plain file that can be read now"
        return Difference(f"{header(path)}({why})\n", 0, 0)
    return compare(path, before.data, after.data, (before.mode, after.mode))


def from_blob(blob: str, mode: str, data: bytes | None) -> Snapshot:
    if not blob:
        return Snapshot(ABSENT)
    if data is None:
        return Snapshot(FileVersion(f"blob:{blob}"), mode)
    return Snapshot(FileVersion(hashlib.sha256(data).hexdigest(), len(data)), mode, data)


def _changed_paths(status: Status) -> list[str]:
    return sorted({entry.path for entry in status.entries if not entry.path.endswith("/")})


def _staged(status: Status) -> list[tuple[str, str, str, str]]:
    return [(e.path, e.index, e.index_mode, e.index_id) for e in status.entries if e.staged]


def _revision(status: Status, snapshots: Mapping[str, Snapshot]) -> str:
    def described(entry: StatusEntry) -> list[str]:
        snapshot = snapshots.get(entry.path, Snapshot(ABSENT))
        state = [entry.path, entry.index, entry.worktree, entry.index_id]
        return [*state, snapshot.mode, snapshot.version.digest]

    text = json.dumps([status.head, *map(described, status.entries)])
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def snapshot_of(jail: Jail, path: str, keep_bytes: int, read_bytes: int = files.MAX_FILE_BYTES) -> Snapshot:
    """One path as it is now; links are taken as links, what is neither file nor link by its identity, as is a file
    larger than `read_bytes`."""
    try:
        return _look(jail, path, keep_bytes, read_bytes)
    except FileNotFoundError:
        return Snapshot(ABSENT)
    except FluzoError as exc:
        if exc.code in ("no_such_file", "not_directory"):
            return Snapshot(ABSENT)
        # Not readable, or a directory on the way is a link out of the workspace now: there, but unknown.
        return Snapshot(FileVersion(f"unreadable:{exc.code}"), "100644")


def is_read(snapshot: Snapshot) -> bool:
    """Whether all of it was read to know its version."""
    return not snapshot.version.digest.startswith(_STAT)


def _look(jail: Jail, path: str, keep_bytes: int, read_bytes: int) -> Snapshot:
    with jail.open(path, follow=False) as handle:
        found = handle.stat
        if stat.S_ISLNK(found.st_mode):
            target = os.readlink(b"", dir_fd=handle.fd)
            version = FileVersion(hashlib.sha256(target).hexdigest(), len(target), found.st_dev, found.st_ino)
            return Snapshot(version, "120000", target)
    if not stat.S_ISREG(found.st_mode) or found.st_size > read_bytes:
        return Snapshot(_unread(found), "160000" if stat.S_ISDIR(found.st_mode) else _mode(found))
    content = files.read(jail, path, keep_bytes)
    whole = len(content.data) == content.size_bytes
    return Snapshot(content.version, _mode(found), content.data if whole else None)


def _mode(found: os.stat_result) -> str:
    return "100755" if found.st_mode & stat.S_IXUSR else "100644"


def _unread(found: os.stat_result) -> FileVersion:
    """A version that is not a digest of content: too large to read at every look, or nothing to read."""
    mark = f"{_STAT}{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"
    return FileVersion(mark, found.st_size, found.st_dev, found.st_ino)
