"""Read-only Git on one working tree. Nothing the repository configures is run: no filter, hook, helper or pager.

Invariant: `GIT_DIR` and `GIT_WORK_TREE` are given, so nothing is discovered again; every filter the repository
defines is listed and switched off before a command that might use it; names are read with `-z` only.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fluzo.core.contracts import GitRequest
from fluzo.core.errors import StorageError, ToolError
from fluzo.core.named import NamedTuple
from fluzo.core.paths import SETTINGS_NAME, STORE_NAME, is_protected_path
from fluzo.workspace import gitrun
from fluzo.workspace.identity import Root
from fluzo.workspace.jail import decode, encode, refused
from fluzo.workspace.leftovers import is_leftover

OWN_FILES_EXCLUDED = (f":(exclude,top){SETTINGS_NAME}", f":(exclude,top){STORE_NAME}")

# The user's own ignore file and line endings decide what counts as changed. They are read as values, from every
# scope, by the process that also lists the filters; all other processes read the repository's configuration alone.
_CARRIED = ("core.excludesfile", "core.autocrlf", "core.eol")
_LISTED = r"^(filter\..*\.(clean|smudge|process)|include(if)?\..*|core\.(excludesfile|autocrlf|eol))$"

_DIFF_OPTIONS = r"""
    -p|--patch|-s|--no-patch|--stat|--numstat|--shortstat|--summary|--name-only|--name-status|--raw|-z
  | -U\d+|--unified=\d+|-W|--function-context|-w|--ignore-all-space|-b|--ignore-space-change|--ignore-blank-lines
  | -M\d*%?|--find-renames(?:=\d+%?)?|--no-renames|-R|--minimal|--patience|--histogram|--word-diff
  | --diff-filter=[A-Za-z]+|-[SG].+
"""
_COMMIT_OPTIONS = r"""
    -\d+|-n\d+|--max-count=\d+|--skip=\d+|--oneline|--graph|--decorate|--abbrev-commit|--follow|--reverse
  | --all|--branches|--tags|--merges|--no-merges|--first-parent|-i
  | --(?:since|until|after|before|author|grep)=.+|--date=[a-z:-]+|--(?:format|pretty)=.*
"""
_OPTIONS = {
    "status": r"-s|--short|-b|--branch|--long|-z|--porcelain(?:=v[12])?|--untracked-files=(?:no|normal|all)|--ignored"
    r"|--no-renames",
    "diff": _DIFF_OPTIONS + "|--cached|--staged|--merge-base",
    "log": _DIFF_OPTIONS + "|" + _COMMIT_OPTIONS,
    "show": _DIFF_OPTIONS + "|" + _COMMIT_OPTIONS,
    "blame": r"-L\S+|-w|-M\d*|-C\d*|-e|-l|-s|--date=[a-z:-]+|--porcelain|--line-porcelain",
    "branch": r"--list|-a|--all|-r|--remotes|-v+|--verbose|--show-current|--merged|--no-merged",
    "remote": r"(?!)",
}

_FIXED = {
    "status": ("--ignore-submodules=all",),
    "diff": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    "log": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    "show": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    "blame": ("--no-textconv",),
    "branch": (),
}


@dataclass(frozen=True, slots=True)
class StatusEntry:
    """One changed path. `index` and `worktree` are Git's XY letters (`.` unchanged, `?` untracked, `U` unmerged)."""

    path: str
    index: str
    worktree: str
    head_mode: str = "000000"
    index_mode: str = "000000"
    head_id: str = ""
    index_id: str = ""

    @property
    def untracked(self) -> bool:
        return self.index == "?"

    @property
    def staged(self) -> bool:
        return self.index not in ".?"


class Status(NamedTuple):
    """`head` is empty before the first commit, `branch` when HEAD is detached.

    `leftovers` are untracked files of an interrupted change, which are not among the entries.
    """

    head: str
    branch: str
    entries: tuple[StatusEntry, ...]
    leftovers: tuple[str, ...] = ()


class TreeChange(NamedTuple):
    """A path that differs between two commits, with its blob in the older one (empty when it had none)."""

    path: str
    old_id: str
    old_mode: str


class Git:
    """The Git of one working tree, for any thread. Methods block; each runs one or two short processes."""

    def __init__(self, root: Root, environ: Mapping[str, str] = os.environ) -> None:
        self.root = root
        self._environ = dict(environ)
        self._overrides: tuple[object, list[str]] = (None, [])

    def environment(self) -> dict[str, str]:
        work_tree = {"GIT_DIR": str(self.root.git_dir), "GIT_WORK_TREE": str(self.root.path)}
        return gitrun.environment(self._environ) | work_tree

    # --- questions --------------------------------------------------------------------------------------------

    def status(self, *, submodules: bool = False) -> Status:
        """Staged, unstaged and untracked paths, without ignored ones and without Fluzo's own files.

        With `submodules` also those of them that are at another commit; none of them is looked into.
        """
        ignored = "--ignore-submodules=dirty" if submodules else "--ignore-submodules=all"
        options = ("--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--no-renames", ignored)
        return _parse_status(self._run("status", *options, "--", *OWN_FILES_EXCLUDED))

    def ls_files(self, *pathspecs: str) -> list[str]:
        """Tracked files, and untracked ones that are not ignored; each once, in byte order."""
        output = self._run("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *pathspecs)
        return [decode(name) for name in sorted(set(output.split(b"\0")) - {b""})]

    def ls_files_ignored(self, *pathspecs: str) -> list[str]:
        """Tracked files that match an ignore rule: they are in the repository all the same."""
        output = self._run("ls-files", "-z", "--cached", "--ignored", "--exclude-standard", "--", *pathspecs)
        return [decode(name) for name in output.split(b"\0") if name]

    def cat_head(self, path: str) -> bytes | None:
        """A file of the last commit, with the working tree's line endings; None when that has no such file."""
        result = self._try("cat-file", "--filters", f"HEAD:{path}")
        return result.stdout if result.returncode == 0 else None

    def tree_changes(self, old: str, new: str) -> list[TreeChange]:
        """Paths that differ between two commits; an empty `old` is the empty tree."""
        # Git knows the empty tree without storing it; its name is the hash of `tree 0` and a NUL.
        empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        empty_256 = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
        nothing = empty if len(new) == 40 else empty_256
        words = iter(self._run("diff-tree", "-r", "-z", "--no-renames", old or nothing, new or nothing).split(b"\0"))
        changes = []
        for head, name in zip(words, words, strict=False):
            mode, _, old_id, *_ = head.decode("ascii").removeprefix(":").split(" ")
            changes.append(TreeChange(decode(name), "" if set(old_id) == {"0"} else old_id, mode))
        return changes

    def blobs(self, wanted: Sequence[tuple[str, str]], max_bytes: int) -> dict[str, bytes]:
        """Contents by path of `(path, blob id)`, with the working tree's line endings; larger blobs are left out."""
        if not wanted:
            return {}
        listing = self._run("cat-file", "--batch-check", stdin="".join(f"{blob}\n" for _, blob in wanted).encode())
        sizes = [line.split(b" ") for line in listing.splitlines()]
        small = [pair for pair, size in zip(wanted, sizes, strict=True) if len(size) == 3 and int(size[2]) <= max_bytes]
        if not small:
            return {}
        # With --filters the size in a header is that before conversion, so a mark nobody can guess separates them.
        mark = os.urandom(16).hex().encode()
        question = b"".join(b"%s %s\n" % (blob.encode(), _attribute_path(path)) for path, blob in small)
        output = self._run("cat-file", "--filters", f"--batch={mark.decode()}", stdin=question)
        contents = output.split(mark + b"\n")[1:]
        return {path: data.removesuffix(b"\n") for (path, _), data in zip(small, contents, strict=True)}

    # --- requests of the model --------------------------------------------------------------------------------

    def command(self, request: GitRequest) -> list[str]:
        """The whole command line of a request. Raises ToolError for an option that is not known to be harmless."""
        name = request.subcommand
        revisions = [option for option in request.options if not option.startswith("-")]
        for option in request.options:
            if option.startswith("-") and not re.fullmatch(_OPTIONS[name], option, re.VERBOSE):
                raise ToolError(f"git {name} does not take {option} here", code="tool_arguments")
        for revision in revisions:
            if name in ("branch", "status"):
                raise ToolError(f"git {name} takes no revision", code="tool_arguments")
            if ":" in revision and is_protected_path(revision.partition(":")[2]):
                raise refused(revision, "is protected: it is one of Fluzo's own files")
        paths = [_plain_path(path) for path in request.paths]
        if name == "remote":
            return [*self._prefix(), name, "get-url", "--push", "--all", "--", *revisions]
        if name == "branch":
            return [
                *self._prefix(),
                name,
                *(("--list",) if "--show-current" not in request.options else ()),
                *request.options,
            ]
        # History is not limited by paths of ours unless it prints contents: that would hide merges and commits.
        excluded = OWN_FILES_EXCLUDED if name in ("status", "diff", "show") or _prints_patch(request.options) else ()
        if name == "blame":
            excluded = ()
        return [*self._prefix(), name, *_FIXED[name], *request.options, "--", *paths, *excluded]

    def grep_command(self, arguments: Sequence[str]) -> list[str]:
        return [*self._prefix(), "grep", "--no-color", "--no-recurse-submodules", *arguments]

    # --- Fluzo's store ----------------------------------------------------------------------------------------

    def check_store(self, path: Path) -> None:
        """Raise StorageError `storage_unprotected` unless Git ignores the store and tracks nothing of it."""
        if path.is_symlink():
            raise _unprotected(f"{path} is a symbolic link", f"Replace it by a directory of your own: rm {path}")
        store = encode(path.name)
        asked = [b"%s/" % store, b"%s/state.sqlite3" % store, b"%s/artifacts/x" % store]
        # check-ignore does not report a path that is in the index or has tracked files beneath it.
        answer = self._try("check-ignore", "-z", "--stdin", stdin=b"\0".join(asked) + b"\0")
        if answer.stdout.split(b"\0")[:-1] == asked:
            return
        if tracked := self._run("ls-files", "-z", "--", f":(literal){path.name}"):
            names = ", ".join(decode(name) for name in tracked.split(b"\0")[:3] if name)
            raise _unprotected(
                f"Git tracks files of Fluzo's private store: {names}",
                f"Run: git rm -r --cached {path.name}, and commit that",
            )
        command = f'echo {path.name}/ >> "$(git rev-parse --git-path info/exclude)"'
        raise _unprotected(f"Git does not ignore {path}, where Fluzo keeps private data", f"Run: {command}")

    # --- running ----------------------------------------------------------------------------------------------

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        result = self._try(*arguments, stdin=stdin)
        if result.returncode:
            raise gitrun.unusable(f"git {arguments[0]} failed in {self.root.path}: {gitrun.complaint(result.stderr)}")
        return result.stdout

    def _try(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        argv: list[str | bytes] = [*self._prefix(), *map(encode, arguments)]
        return gitrun.execute(argv, cwd=self.root.path, env=self.environment(), stdin=stdin)

    def _prefix(self) -> list[str]:
        state = [_signature(path) for path in self._config_files()]
        known_for, overrides = self._overrides
        if state != known_for:
            overrides, complete = self._read_overrides()
            # Included files may change without any of these, so with includes the list is read every time.
            self._overrides = (state if complete else None, overrides)
        return gitrun.prefix(self._environ, overrides)

    def _config_files(self) -> Iterator[Path]:
        yield self.root.common_dir / "config"
        yield self.root.git_dir / "config.worktree"

    def _read_overrides(self) -> tuple[list[str], bool]:
        """`-c` values that switch every filter off, and whether they are all there is to know."""
        env = self.environment()
        del env["GIT_CONFIG_NOSYSTEM"], env["GIT_CONFIG_GLOBAL"]
        argv = [*gitrun.prefix(self._environ), "config", "--null", "--show-scope", "--get-regexp", _LISTED]
        result = gitrun.execute(argv, cwd=self.root.path, env=env)
        if result.returncode not in (0, 1):  # 1 says that nothing matched.
            raise gitrun.unusable(f"the Git configuration cannot be read: {gitrun.complaint(result.stderr)}")
        names, carried, complete = set(), {}, True
        words = iter(result.stdout.split(b"\0"))
        for scope, item in zip(words, words, strict=False):
            key, _, value = decode(item).partition("\n")
            if key.startswith("filter."):
                names.add(key.removeprefix("filter.").rpartition(".")[0])
            elif key in _CARRIED:
                carried[key] = value
            elif scope not in (b"system", b"global"):
                complete = False
        if any("=" in name for name in names):
            # `-c` ends the key at the first `=`, so this filter could not be switched off.
            raise gitrun.unusable("a Git filter of this repository has '=' in its name", "Rename it in .git/config.")
        off = [f"filter.{n}.{k}" for n in sorted(names) for k in ("process=", "clean=", "smudge=", "required=false")]
        return [*off, *(f"{key}={value}" for key, value in carried.items())], complete


def check_store(root: Root, path: Path, environ: Mapping[str, str] = os.environ) -> None:
    """`Git.check_store` for a caller that needs nothing else of Git."""
    Git(root, environ).check_store(path)


def _unprotected(message: str, hint: str) -> StorageError:
    return StorageError(message, code="storage_unprotected", hint=hint)


def _signature(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _attribute_path(path: str) -> bytes:
    # Only attributes are looked up by it; a line of the protocol cannot hold a newline.
    return b"-" if "\n" in path else encode(path)


def _prints_patch(options: Sequence[str]) -> bool:
    return any(re.match(r"-p$|--patch|-U|--unified|-W|--function-context|--word-diff|-[SG]", o) for o in options)


def _plain_path(path: str) -> str:
    """A path Git can take literally. Two paths outside the tree would turn `git diff` into a file reader."""
    if path.startswith(("/", ":", "-")) or ".." in path.split("/") or "\0" in path or not path:
        raise refused(path, "is not a plain path inside the workspace", "Use a path relative to the workspace root.")
    if is_protected_path(path):
        raise refused(path, "is protected: Git's and Fluzo's own files are not open to file tools")
    return path


def _parse_status(output: bytes) -> Status:
    """Porcelain version 2 with -z (git-status(1)); renames are off, so every entry is one record."""
    head, branch, entries = "", "", []
    for record in output.split(b"\0")[:-1]:
        text = decode(record)
        if text.startswith("# branch.oid "):
            head = text.removeprefix("# branch.oid ").replace("(initial)", "")
        elif text.startswith("# branch.head "):
            branch = text.removeprefix("# branch.head ").replace("(detached)", "")
        elif text.startswith("1 "):
            _, xy, _, head_mode, index_mode, _, head_id, index_id, path = text.split(" ", 8)
            entries.append(StatusEntry(path, xy[0], xy[1], head_mode, index_mode, _known(head_id), _known(index_id)))
        elif text.startswith("u "):
            _, _, _, _, mode, _, _, _, ours, _, path = text.split(" ", 10)
            entries.append(StatusEntry(path, "U", "U", mode, mode, _known(ours), _known(ours)))
        elif text.startswith("? "):
            entries.append(StatusEntry(text[2:], "?", "?"))
    leftovers = tuple(entry.path for entry in entries if entry.untracked and is_leftover(entry.path))
    kept = [entry for entry in entries if not is_protected_path(entry.path) and entry.path not in leftovers]
    return Status(head, branch, tuple(sorted(kept, key=lambda entry: encode(entry.path))), leftovers)


def _known(object_id: str) -> str:
    return "" if set(object_id) == {"0"} else object_id
