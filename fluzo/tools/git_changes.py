"""Commit and push: what the agent may ask to do to the history, as the user's own Git would do it.

Invariant: exactly the named files are committed and exactly the named branch goes to the named remote; nothing the
model sends becomes an option, a pattern or a refspec. Nothing is forced, amended or verified less than usual. The
user's identity, hooks, filters and signing apply; there is no prompt and no agent socket.
"""

import asyncio
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import cast

from fluzo.core.contracts import ExecutionBackend, GitRequest, ProcessRequest
from fluzo.core.errors import ToolError
from fluzo.core.records import Operation, ProcessResult, ToolResult
from fluzo.core.text import decode, one_line, shown_name
from fluzo.tools.process import process_result
from fluzo.tools.shared import ToolLimits, encoded, plain_path

Environment = tuple[tuple[str, str], ...]

_PATTERN = re.compile(r"[*?\[\\]")
_REMOTE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
# git-check-ref-format(1), and no `+` in front, which would force the push.
_BRANCH = re.compile(r"(?!.*(?:\.\.|@\{|//))[^\s\x00-\x20\x7f~^:?*\[\\+-][^\s\x00-\x20\x7f~^:?*\[\\]*(?<![./])")
_USER_INFO = re.compile(r"(?<=://)[^/@\s]*@")
_STATES = {"?": "new", "D": "deleted", "A": "added"}
_NO_PROMPT = (
    "No password prompt and no SSH or GPG agent is available to this push. If it needs one, the user can run: {command}"
)


async def commit_operation(
    args: Mapping[str, object], backend: ExecutionBackend, limits: ToolLimits, root: str, env: Environment
) -> Operation:
    """The commit that a call asks for, bound to the files as they are. Raises ToolError for what it cannot name."""
    message = str(args["message"])
    paths = tuple(dict.fromkeys(plain_path(path, root) for path in cast("Sequence[str]", args["paths"] or ())))
    if not paths or not message.strip() or "\0" in message:
        raise ToolError("git commit takes paths, naming each file, and a message", code="tool_arguments")
    encoded("message", message)
    versions = tuple([(path, await backend.file_version(path)) for path in paths])
    states = await _states(paths, backend)
    argv = ("git", "commit", "-m", message, "--", *_literal(paths))
    return Operation(
        "git",
        "git_commit",
        "execute",
        one_line(shlex.join(argv)),
        paths=paths,
        versions=versions,
        argv=argv,
        env=env,
        timeout_seconds=limits.shell_timeout_seconds,
        preview="".join(f"{_STATES.get(state, 'changed'):<10} {shown_name(path)}\n" for path, state in states.items()),
    )


async def push_operation(
    args: Mapping[str, object], backend: ExecutionBackend, limits: ToolLimits, env: Environment
) -> Operation:
    """The push that a call asks for, bound to where the remote leads. Raises ToolError when there is no such thing."""
    remote, branch = str(args["remote"]), str(args["branch"])
    if not _REMOTE.fullmatch(remote) or not _BRANCH.fullmatch(branch):
        raise ToolError("git push takes remote and branch, both plain names", code="tool_arguments")
    destination = await _destination(remote, backend)
    ref = f"refs/heads/{branch}"
    newest = await _read(GitRequest("log", ("--max-count=1", "--format=%H %s", ref)), backend)
    if not newest:
        raise ToolError(f"there is no branch {branch} with a commit to push", code="tool_arguments")
    # Settings may add tags or submodules to a push; this one is the branch and nothing else.
    argv = ("git", "push", "--no-follow-tags", "--recurse-submodules=no", remote, f"{ref}:{ref}")
    return Operation(
        "git",
        "git_push",
        "execute",
        one_line(shlex.join(argv)),
        argv=argv,
        env=env,
        timeout_seconds=limits.shell_timeout_seconds,
        destination=destination,
        preview=f"to         {destination}\ncommit     {newest}\n",
    )


async def commit(operation: Operation, backend: ExecutionBackend, limits: ToolLimits) -> ToolResult:
    """Commit the files of the operation and no other; what is staged besides stays staged."""
    states = await _states(operation.paths, backend)
    new = _literal([path for path, state in states.items() if state == "?"])
    before = await _head(backend)
    if new:
        # `git commit -- PATHS` takes tracked files only.
        added = await _run(("git", "add", "--", *new), operation, backend, limits)
        if added.exit_status != 0:
            return await _told("add", added, limits)
    result = await _run(operation.argv, operation, backend, limits)
    after = await _head(backend)
    told = await _told("commit", result, limits)
    if result.exit_status == 0:
        return told._replace(text=f"committed {after}\n{told.text}", detail={**told.detail, "commit": after})
    if new and after == before:
        undo = ("git", "rm", "--cached", "--quiet", "--force", "--ignore-unmatch", "--", *new)
        undone = (await _run(undo, operation, backend, limits)).exit_status == 0
        if not undone:
            return told._replace(text=f"{told.text}\nthe new files may be left staged")
    return told


async def push(operation: Operation, backend: ExecutionBackend, limits: ToolLimits) -> ToolResult:
    result = await _run(operation.argv, operation, backend, limits)
    told = await _told("push", result, limits)
    if result.exit_status == 0:
        return told
    return told._replace(text=f"{told.text}\n{_NO_PROMPT.format(command=shlex.join(operation.argv))}")


# --- looking --------------------------------------------------------------------------------------------------


async def _states(paths: Sequence[str], backend: ExecutionBackend) -> dict[str, str]:
    """Git's letter for each path, `?` for a new one. Raises ToolError for a path that is no changed file."""
    options = ("--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
    result = await backend.git(GitRequest("status", options, tuple(paths)))
    if result.exit_status != 0:
        raise ToolError(f"git status failed: {one_line(decode(result.output))}", code="git_failed")
    listed = {}
    for field in result.output.split(b"\0"):
        index, worktree, path = field[:1].decode(), field[1:2].decode(), field[3:].decode("utf-8", "surrogateescape")
        listed[path] = index if worktree == " " else worktree
    # A folder, or a pattern that matches, lists other names than the one that was given.
    if missing := [path for path in paths if path not in listed]:
        names = ", ".join(map(shown_name, missing))
        raise ToolError(
            f"nothing to commit in {names}: no changed file of that name, or Git ignores it", code="nothing_to_commit"
        )
    return {path: listed[path] for path in paths}


async def _destination(remote: str, backend: ExecutionBackend) -> str:
    urls = await _read(GitRequest("remote", (remote,)), backend)
    if not urls:
        raise ToolError(f"there is no remote {remote}; nothing was pushed", code="tool_arguments")
    return _USER_INFO.sub("", ", ".join(urls.split("\n")))


async def _head(backend: ExecutionBackend) -> str:
    """The newest commit, empty before the first or when nothing may be started any more."""
    return await _read(GitRequest("log", ("--max-count=1", "--format=%H")), backend)


async def _read(request: GitRequest, backend: ExecutionBackend) -> str:
    result = await backend.git(request)
    return decode(result.output).strip() if result.exit_status == 0 else ""


# --- doing ----------------------------------------------------------------------------------------------------


async def _run(
    argv: tuple[str, ...], operation: Operation, backend: ExecutionBackend, limits: ToolLimits
) -> ProcessResult:
    request = ProcessRequest(argv, ".", operation.env, operation.timeout_seconds, limits.capture_bytes)
    return await backend.execute(request)


async def _told(what: str, result: ProcessResult, limits: ToolLimits) -> ToolResult:
    told = await asyncio.to_thread(process_result, result, limits)
    if told.code != "command_failed":
        return told
    return told._replace(code="git_failed", text=f"git {what} failed: {told.text}")


def _literal(paths: Sequence[str]) -> tuple[str, ...]:
    """Pathspecs that mean exactly these names (gitglossary(7), "pathspec")."""
    return tuple(f":(literal){path}" if _PATTERN.search(path) else path for path in paths)
