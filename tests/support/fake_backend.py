"""A backend without a jail over real files, for tests of the tools alone; it keeps what it was asked for."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fluzo.core.contracts import (
    FileContent,
    GitRequest,
    ListedFile,
    Listing,
    ProcessRequest,
    SearchHit,
    SearchResult,
    Watch,
)
from fluzo.core.errors import ToolError
from fluzo.core.records import ABSENT, FileVersion, ProcessResult


def ended(output: bytes = b"", exit_status: int | None = 0, **more: Any) -> ProcessResult:
    result = ProcessResult(exit_status, output, output_bytes=len(output), truncated=False, elapsed_seconds=1.8)
    return result._replace(**more)


@dataclass
class FakeBackend:
    root: Path
    result: ProcessResult = field(default_factory=ended)
    asked: list[ProcessRequest | GitRequest] = field(default_factory=list)
    listing: Listing = field(default_factory=lambda: Listing((), False))
    found: SearchResult = field(default_factory=lambda: SearchResult((), 0, False))

    async def read_file(self, path: str, max_bytes: int) -> FileContent:
        version = await self.file_version(path)
        if version.absent:
            raise ToolError(f"{path} does not exist", code="no_such_file")
        file = self.root / path
        data = file.read_bytes()
        return FileContent(path, data[:max_bytes], version, len(data), file.stat().st_mode)

    async def file_version(self, path: str) -> FileVersion:
        file = self.root / path
        if file.is_dir():
            raise ToolError(f"{path} is a folder", code="is_directory")
        if not file.exists():
            return ABSENT
        data, facts = file.read_bytes(), file.stat()
        return FileVersion(hashlib.sha256(data).hexdigest(), len(data), facts.st_dev, facts.st_ino)

    async def write_file(self, path: str, data: bytes, expected: FileVersion) -> FileVersion:
        await self._expect(path, expected)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)
        return await self.file_version(path)

    async def delete_file(self, path: str, expected: FileVersion) -> None:
        await self._expect(path, expected)
        (self.root / path).unlink()

    async def move_file(self, source: str, target: str, expected: FileVersion) -> FileVersion:
        await self._expect(source, expected)
        (self.root / source).rename(self.root / target)
        return await self.file_version(target)

    async def list_files(self, path: str, max_entries: int, depth: int) -> Listing:
        return self.listing

    async def search(self, pattern: str, path: str, *, regex: bool, glob: str, max_hits: int) -> SearchResult:
        return self.found

    async def execute(self, request: ProcessRequest) -> ProcessResult:
        self.asked.append(request)
        return self.result

    async def git(self, request: GitRequest) -> ProcessResult:
        self.asked.append(request)
        return self.result

    def watched(self, watch: Watch) -> "FakeBackend":
        return self

    async def _expect(self, path: str, expected: FileVersion) -> None:
        if await self.file_version(path) != expected:
            raise ToolError(f"{path} has changed", code="stale_file")


def listing(*names: str) -> Listing:
    return Listing(
        tuple(ListedFile(name.rstrip("/"), "directory" if name[-1] == "/" else "file") for name in names), False
    )


def hits(*found: tuple[str, int, str]) -> SearchResult:
    return SearchResult(tuple(SearchHit(*hit) for hit in found), len({hit[0] for hit in found}), False)
