"""The `git` tool: a few reading subcommands with checked arguments, and commit and push from `git_changes`.

Invariant: nothing the model sends becomes an option. Revisions and paths that begin with a dash are refused,
paths follow a `--`, and no reading subcommand can change the repository. That none of these runs a configured
helper is the backend's promise.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import cast

from fluzo.core.contracts import ExecutionBackend, GitRequest
from fluzo.core.errors import ToolError
from fluzo.core.named import NamedTuple
from fluzo.core.records import Operation, ProcessResult, ToolResult, ToolSpec
from fluzo.core.text import cut_middle, decode, one_line, shown_name, visible, well_formed
from fluzo.tools import git_changes
from fluzo.tools.shared import ToolLimits, normal_path, plain_path

DEFAULT_LOG_COUNT = 20

_REVISION = re.compile(r"[^\s\x00-\x1f\x7f-][^\s\x00-\x1f\x7f]*")


class Git(NamedTuple):
    """`env` is what commit and push get beyond the backend's baseline, as every command does."""

    spec: ToolSpec
    limits: ToolLimits
    root: str
    env: tuple[tuple[str, str], ...] = ()

    async def describe(self, args: Mapping[str, object], backend: ExecutionBackend) -> Operation:
        _refuse_unused(args)
        match args["subcommand"]:
            case "commit":
                return await git_changes.commit_operation(args, backend, self.limits, self.root, self.env)
            case "push":
                return await git_changes.push_operation(args, backend, self.limits, self.env)
        request = _request(args, self.root)
        named = (*request.paths, *_named_in(_revision(args), self.root))
        words = ("git", request.subcommand, *(o for o in request.options if o in ("--staged", _revision(args))))
        summary = one_line(" ".join((*words, *map(shown_name, request.paths))))
        return Operation("git", "git_read", "read", summary, paths=named)

    async def execute(self, args: Mapping[str, object], operation: Operation, backend: ExecutionBackend) -> ToolResult:
        match operation.action:
            case "git_commit":
                return await git_changes.commit(operation, backend, self.limits)
            case "git_push":
                return await git_changes.push(operation, backend, self.limits)
        request = _request(args, self.root)
        result = await backend.git(request)
        return await asyncio.to_thread(_result, request, result, self.limits)


def _request(args: Mapping[str, object], root: str) -> GitRequest:
    """The exact inspection. Raises ToolError for arguments that this subcommand cannot take."""
    subcommand, revision = str(args["subcommand"]), _revision(args)
    paths = tuple(plain_path(path, root) for path in cast("Sequence[str]", args["paths"] or ()))
    staged, count = bool(args["staged"]), cast("int | None", args["max_count"])
    if subcommand == "blame" and len(paths) != 1:
        raise ToolError("git blame takes exactly one path in paths", code="tool_arguments")
    at = (revision,) if revision else ()
    match subcommand:
        case "status":
            return GitRequest("status", ("--porcelain=v1", "-z", "--branch", "--untracked-files=all"), paths)
        case "diff":
            return GitRequest("diff", (*(("--staged",) if staged else ()), *at), paths)
        case "log":
            pretty = "--format=%h %ad %an%d%n    %s"
            return GitRequest("log", (f"--max-count={count or DEFAULT_LOG_COUNT}", "--date=short", pretty, *at), paths)
        case "show":
            return GitRequest("show", (revision or "HEAD",), paths)
        case "blame":
            return GitRequest("blame", ("--date=short", *at), paths)
        case _:
            return GitRequest("branch", ("--list", "--all", "--verbose"))


_TAKES = {
    "status": ("paths",),
    "diff": ("rev", "staged", "paths"),
    "log": ("rev", "max_count", "paths"),
    "show": ("rev", "paths"),
    "blame": ("rev", "paths"),
    "branch": (),
    "commit": ("paths", "message"),
    "push": ("remote", "branch"),
}


def _refuse_unused(args: Mapping[str, object]) -> None:
    subcommand = str(args["subcommand"])
    extra = [name for name, value in args.items() if value and name not in ("subcommand", *_TAKES[subcommand])]
    if extra:
        raise ToolError(f"git {subcommand} does not take {' or '.join(extra)}", code="tool_arguments")


def _revision(args: Mapping[str, object]) -> str:
    revision = str(args["rev"])
    if revision and not _REVISION.fullmatch(revision):
        raise ToolError("rev is one revision or range, such as HEAD~2 or main..HEAD; no options", code="tool_arguments")
    return revision


def _named_in(revision: str, root: str) -> tuple[str, ...]:
    """The file that a revision such as `HEAD:src/a.py` reads: policy has to see it like any other path."""
    _, colon, path = revision.rpartition(":")
    return (normal_path(path, root),) if colon and path and not revision.startswith(":/") else ()


def _result(request: GitRequest, result: ProcessResult, limits: ToolLimits) -> ToolResult:
    ok = result.exit_status == 0
    parse = ok and request.subcommand == "status" and not result.truncated
    output = _status_text(result.output) if parse else well_formed(visible(result.output))
    text = output.strip("\n") or ("no differences" if request.subcommand == "diff" else "no output")
    if not ok:
        text = f"git {request.subcommand} failed (exit {result.exit_status}): {text}"
    lost = max(result.output_bytes - len(result.output), 0) if result.truncated else 0
    shown = cut_middle(text, limits.context_bytes, lost)
    return ToolResult(
        ok,
        shown,
        code="" if ok else "git_failed",
        detail={
            "exit_status": result.exit_status,
            "elapsed_seconds": round(result.elapsed_seconds, 3),
            "output_bytes": result.output_bytes,
            "truncated": result.truncated,
            "termination": result.termination,
        },
        artifact=result.output if shown != text else None,
    )


def _status_text(output: bytes) -> str:
    """`git status --porcelain=v1 -z` as lines with the files' real names (git-status(1), "Pathname Format Notes")."""
    fields = iter(output.split(b"\0"))
    lines = []
    for field in fields:
        if field.startswith(b"## "):
            lines.append(well_formed(decode(field[3:])))
        elif field:
            name = shown_name(field[3:].decode("utf-8", "surrogateescape"))
            if b"R" in field[:2] or b"C" in field[:2]:
                old = next(fields, b"").decode("utf-8", "surrogateescape")
                name = f"{shown_name(old)} -> {name}"
            lines.append(f"{field[:2].decode('ascii', 'replace')} {name}")
    if len(lines) <= 1:
        lines.append("nothing has changed")
    return "\n".join(lines)
