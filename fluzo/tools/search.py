"""Finding things: the list of files and the search in their text. Both are bounded and say when they were cut."""

from collections.abc import Mapping
from typing import cast

from fluzo.core.contracts import ExecutionBackend, ListedFile
from fluzo.core.named import NamedTuple
from fluzo.core.records import Operation, ToolResult, ToolSpec
from fluzo.core.text import one_line, shown_name
from fluzo.tools.shared import ToolLimits, done, normal_path

MAX_ENTRIES = 2_000
MAX_HITS = 200
MAX_HIT_CHARACTERS = 300


class ListFiles(NamedTuple):
    spec: ToolSpec
    limits: ToolLimits
    root: str

    async def describe(self, args: Mapping[str, object], backend: ExecutionBackend) -> Operation:
        path = normal_path(str(args["path"]), self.root)
        return Operation("list_files", "list", "read", shown_name(path), paths=(path,))

    async def execute(self, args: Mapping[str, object], operation: Operation, backend: ExecutionBackend) -> ToolResult:
        (path,) = operation.paths
        listing = await backend.list_files(path, MAX_ENTRIES, cast("int", args["depth"]))
        lines = [_entry(entry) for entry in listing.entries]
        if listing.truncated:
            lines.append(f"[only the first {len(listing.entries)} entries; list a folder below]")
        text = "\n".join(lines) or "[no files, or all of them are ignored by Git]"
        return done(text, self.limits, {"entries": len(listing.entries), "truncated": listing.truncated})


class Search(NamedTuple):
    spec: ToolSpec
    limits: ToolLimits
    root: str

    async def describe(self, args: Mapping[str, object], backend: ExecutionBackend) -> Operation:
        path = normal_path(str(args["path"]), self.root)
        where = "" if path == "." else f" in {shown_name(path)}"
        return Operation("search", "search", "read", f"{one_line(str(args['pattern']))}{where}", paths=(path,))

    async def execute(self, args: Mapping[str, object], operation: Operation, backend: ExecutionBackend) -> ToolResult:
        (path,) = operation.paths
        found = await backend.search(
            str(args["pattern"]), path, regex=bool(args["regex"]), glob=str(args["glob"]), max_hits=MAX_HITS
        )
        lines = [f"{shown_name(hit.path)}:{hit.line}: {_shortened(hit.text)}" for hit in found.hits]
        if found.truncated:
            lines.append(f"[only the first {len(found.hits)} matches; narrow the pattern, path or glob]")
        text = "\n".join(lines) or "[no match]"
        detail = {"hits": len(found.hits), "files": found.files, "truncated": found.truncated}
        return done(text, self.limits, detail)


def _entry(entry: ListedFile) -> str:
    mark = {"directory": "/", "link": " (link)", "other": " (special file)"}.get(entry.kind, "")
    return shown_name(entry.path) + mark


def _shortened(text: str) -> str:
    text = text.rstrip("\r\n")
    return text if len(text) <= MAX_HIT_CHARACTERS else f"{text[:MAX_HIT_CHARACTERS]} [...]"
