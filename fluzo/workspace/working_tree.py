"""The whole working tree against the last commit, for people to look at.

Invariant: it is looked at and never changed, with and without a task, and both how many files are named and how much
of them is read are bounded; what was not compared is named as that. Everything here blocks; call it in a thread.
"""

from typing import Literal

from fluzo.core.named import NamedTuple
from fluzo.core.paths import is_secret_path
from fluzo.workspace.baseline import MAX_KEPT_BYTES, FileChange, Report, from_blob, is_read, snapshot_of
from fluzo.workspace.diff import header
from fluzo.workspace.git import Git, StatusEntry
from fluzo.workspace.jail import Jail

MAX_TREE_FILES = 2000
MAX_TREE_READ_BYTES = 16 * 1024 * 1024
_PORTION = 64
"""Files that are held in memory at a time."""


class TreeChanges(NamedTuple):
    """The working tree against HEAD. `left_out` is how many more files differ than are named."""

    head: str
    branch: str
    files: tuple[FileChange, ...]
    diff: str
    diff_truncated: bool
    left_out: int

    def to_json(self) -> dict[str, object]:
        """Plain values in the form of a task's result, with the digest that each file has now."""
        named = [
            {
                "path": change.path,
                "status": change.status,
                "added": change.lines_added,
                "removed": change.lines_removed,
                "digest": change.version.digest,
            }
            for change in self.files
        ]
        return {**self._asdict(), "files": named}


def against_head(git: Git, jail: Jail) -> TreeChanges:
    """Everything that differs from the last commit, staged or not, untracked files as new ones; ignored ones never.

    Other repositories, and files named like credentials, are one row each; of what is beyond the bounds only the
    name is told. Raises WorkspaceError when Git cannot look.
    """
    status = git.status(submodules=True)
    entries = {entry.path: entry for entry in status.entries if entry.untracked}
    entries |= {entry.path: entry for entry in status.entries if not entry.untracked}
    chosen = [entries[path] for path in sorted(entries)[:MAX_TREE_FILES]]
    report = Report()
    room = MAX_TREE_READ_BYTES
    for start in range(0, len(chosen), _PORTION):
        portion = chosen[start : start + _PORTION]
        wanted = [(e.path, e.head_id) for e in portion if e.head_id and room > 0 and not _unshown(e)]
        contents = git.blobs(wanted, MAX_KEPT_BYTES)
        for entry in portion:
            why = _unshown(entry) or ("" if room > 0 else "not compared; there is too much of it")
            if why:
                _name(report, entry, why)
                continue
            before = from_blob(entry.head_id, entry.head_mode, contents.get(entry.path))
            # What there is no more room to read is still there to be told, by its size and times.
            after = snapshot_of(jail, entry.path, MAX_KEPT_BYTES, max(room, MAX_KEPT_BYTES))
            room -= len(before.data or b"") + (after.version.size_bytes if is_read(after) else 0)
            report.add(entry.path, before, after, preexisting=False)
    return TreeChanges(
        status.head,
        status.branch,
        tuple(report.files),
        "".join(report.parts),
        report.truncated,
        len(entries) - len(chosen),
    )


def _unshown(entry: StatusEntry) -> str:
    """Why the lines of a path are not shown, or nothing."""
    if "160000" in (entry.head_mode, entry.index_mode):
        return "submodule; it is at another commit"
    if entry.path.endswith("/"):
        return "another Git repository"
    return "not shown; files of this name often hold credentials" if is_secret_path(entry.path) else ""


def _name(report: Report, entry: StatusEntry, why: str) -> None:
    """A changed path of which nothing but that is told."""
    status: Literal["added", "modified", "deleted"] = "modified"
    if not entry.head_id:
        status = "added"
    elif "D" in (entry.index, entry.worktree):
        status = "deleted"
    report.parts.append(f"{header(entry.path)}({why})\n")
    report.files.append(FileChange(entry.path, status, 0, 0, report.parts[-1], preexisting=False))
