"""The five file tools: read, edit, write, delete, move.

Invariant: a change is prepared against one version of the file and carried out against no other. `describe`
computes it, binds the version and shows the diff; `execute` computes it again from the bytes it then finds and
leaves the last check to the backend, which writes only over the bound version.
"""

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from typing import cast

from fluzo.core.contracts import ExecutionBackend, FileContent
from fluzo.core.errors import ToolError
from fluzo.core.named import NamedTuple
from fluzo.core.records import ABSENT, Action, FileVersion, Operation, ToolResult, ToolSpec
from fluzo.core.text import shown_name
from fluzo.tools import diff, reading
from fluzo.tools.edits import Edit, apply_edit
from fluzo.tools.shared import SeenFiles, ToolLimits, done, encoded, normal_path, stale


class ReadFile(NamedTuple):
    spec: ToolSpec
    seen: SeenFiles
    limits: ToolLimits
    root: str

    async def describe(self, args: Mapping[str, object], backend: ExecutionBackend) -> Operation:
        path = normal_path(str(args["path"]), self.root)
        first, count = _window(args)
        lines = f"  from line {first}" if first > 1 or count else ""
        return Operation("read_file", "read", "read", shown_name(path) + lines, paths=(path,))

    async def execute(self, args: Mapping[str, object], operation: Operation, backend: ExecutionBackend) -> ToolResult:
        (path,) = operation.paths
        content = await backend.read_file(path, self.limits.file_bytes)
        reading.refuse_binary(path, content.data, content.version)
        first, count = _window(args)
        page = await asyncio.to_thread(
            reading.page,
            content.data,
            complete=len(content.data) >= content.size_bytes,
            offset=first,
            limit=count,
            max_bytes=self.limits.context_bytes,
        )
        self.seen.record(path, content.version)
        detail = {"lines": page.last - page.first + 1 if page.last else 0, "total_lines": page.total}
        return done(page.text, self.limits, {**detail, "size_bytes": content.size_bytes})


class EditFile(NamedTuple):
    spec: ToolSpec
    seen: SeenFiles
    limits: ToolLimits
    root: str

    async def describe(self, args: Mapping[str, object], backend: ExecutionBackend) -> Operation:
        path = normal_path(str(args["path"]), self.root)
        content = await _whole(path, backend, self.limits, "edit_file")
        self.seen.check(path, content.version)
        after = await asyncio.to_thread(apply_edit, content.data, _edit(args))
        return await _change("edit_file", "edit", path, content, after)

    async def execute(self, args: Mapping[str, object], operation: Operation, backend: ExecutionBackend) -> ToolResult:
        ((path, expected),) = operation.versions
        content = await _whole(path, backend, self.limits, "edit_file")
        if content.version.digest != expected.digest:
            raise stale(path)
        after = await asyncio.to_thread(apply_edit, content.data, _edit(args))
        self.seen.record(path, await backend.write_file(path, after, expected))
        return _changed(operation, self.limits, f"edited {shown_name(path)}")


class WriteFile(NamedTuple):
    spec: ToolSpec
    seen: SeenFiles
    limits: ToolLimits
    root: str

    async def describe(self, args: Mapping[str, object], backend: ExecutionBackend) -> Operation:
        path = normal_path(str(args["path"]), self.root)
        after = encoded("content", str(args["content"]))
        version = await backend.file_version(path)
        if version.absent:
            # A file that is gone since it was read is created anew: nothing that anybody wrote is lost by that.
            return await _change("write_file", "write", path, None, after)
        self.seen.check(path, version)
        if self.seen.get(path) is None and version.size_bytes:
            raise ToolError(
                f"{shown_name(path)} exists and has not been read; read it first, or use edit_file", code="not_read"
            )
        content = await _whole(path, backend, self.limits, "write_file")
        if content.version.digest != version.digest:
            raise stale(path)
        if content.data == after:
            raise ToolError(f"no change: {shown_name(path)} already has this content", code="no_change")
        return await _change("write_file", "write", path, content, after)

    async def execute(self, args: Mapping[str, object], operation: Operation, backend: ExecutionBackend) -> ToolResult:
        ((path, expected),) = operation.versions
        after = encoded("content", str(args["content"]))
        self.seen.record(path, await backend.write_file(path, after, expected))
        verb = "created" if expected.absent else "replaced"
        return _changed(operation, self.limits, f"{verb} {shown_name(path)}, {len(after)} bytes")


class DeleteFile(NamedTuple):
    spec: ToolSpec
    seen: SeenFiles
    limits: ToolLimits
    root: str

    async def describe(self, args: Mapping[str, object], backend: ExecutionBackend) -> Operation:
        path = normal_path(str(args["path"]), self.root)
        content = await backend.read_file(path, self.limits.file_bytes)
        self.seen.check(path, content.version)
        if len(content.data) < content.size_bytes:
            preview = f"--- a/{shown_name(path)}\n+++ /dev/null\n{content.size_bytes} bytes, not shown\n"
            change = diff.Diff(preview, 0, 0)
        else:
            change = await asyncio.to_thread(diff.unified, path, content.data, None)
        return _operation("delete_file", "delete", path, content.version, change)

    async def execute(self, args: Mapping[str, object], operation: Operation, backend: ExecutionBackend) -> ToolResult:
        ((path, expected),) = operation.versions
        await backend.delete_file(path, expected)
        self.seen.forget(path)
        return _changed(operation, self.limits, f"deleted {shown_name(path)}")


class MoveFile(NamedTuple):
    spec: ToolSpec
    seen: SeenFiles
    limits: ToolLimits
    root: str

    async def describe(self, args: Mapping[str, object], backend: ExecutionBackend) -> Operation:
        source = normal_path(str(args["source"]), self.root)
        target = normal_path(str(args["target"]), self.root)
        version = await backend.file_version(source)
        if version.absent:
            raise ToolError(f"{shown_name(source)} does not exist", code="no_such_file")
        self.seen.check(source, version)
        if not (await backend.file_version(target)).absent:
            raise ToolError(f"{shown_name(target)} exists; move_file replaces nothing", code="file_exists")
        summary = f"{shown_name(source)} -> {shown_name(target)}"
        return Operation(
            "move_file",
            "move",
            "write",
            summary,
            paths=(source, target),
            versions=((source, version), (target, ABSENT)),
            preview=f"rename from {shown_name(source)}\nrename to {shown_name(target)}\n",
            intended=((source, ""), (target, version.digest)),
        )

    async def execute(self, args: Mapping[str, object], operation: Operation, backend: ExecutionBackend) -> ToolResult:
        (source, expected), (target, _) = operation.versions
        version = await backend.move_file(source, target, expected)
        if self.seen.get(source) is not None:
            self.seen.record(target, version)
        self.seen.forget(source)
        return _changed(operation, self.limits, f"moved {operation.summary}")


def _window(args: Mapping[str, object]) -> tuple[int, int | None]:
    return cast("int", args["offset"]), cast("int | None", args["limit"])


def _edit(args: Mapping[str, object]) -> Edit:
    return Edit(str(args["old_text"]), str(args["new_text"]), bool(args["replace_all"]))


async def _whole(path: str, backend: ExecutionBackend, limits: ToolLimits, tool: str) -> FileContent:
    """The complete text of a file that is to be changed. Raises ToolError when it is too large or no text."""
    content = await backend.read_file(path, limits.file_bytes)
    if content.size_bytes > limits.file_bytes:
        raise ToolError(
            f"{shown_name(path)} has {content.size_bytes} bytes; {tool} takes at most {limits.file_bytes}",
            code="file_too_large",
        )
    reading.refuse_binary(path, content.data, content.version)
    return content


async def _change(tool: str, action: Action, path: str, before: FileContent | None, after: bytes) -> Operation:
    change = await asyncio.to_thread(diff.unified, path, before.data if before else None, after)
    operation = _operation(tool, action, path, before.version if before else ABSENT, change)
    return operation._replace(intended=((path, sha256(after).hexdigest()),))


def _operation(tool: str, action: Action, path: str, version: FileVersion, change: diff.Diff) -> Operation:
    """An operation after which the file is gone; `_change` says what is to be there instead."""
    return Operation(
        tool,
        action,
        "write",
        f"{shown_name(path)}  +{change.added} -{change.removed}",
        paths=(path,),
        versions=((path, version),),
        preview=change.text,
        intended=((path, ""),),
        lines_added=change.added,
        lines_removed=change.removed,
    )


def _changed(operation: Operation, limits: ToolLimits, text: str) -> ToolResult:
    detail = {"lines_added": operation.lines_added, "lines_removed": operation.lines_removed}
    counts = f" (+{operation.lines_added} -{operation.lines_removed})" if any(detail.values()) else ""
    return done(text + counts, limits, {**detail, "paths": list(operation.paths)})
