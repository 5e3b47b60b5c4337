"""What the tools of one task share: limits, the file versions the model has seen, and how a path is written.

Invariant: every path that leaves here is relative to the workspace root, spelled one way, and can be a file name.
Whether it stays inside the workspace is decided by the backend, which resolves it.
"""

from collections.abc import Mapping

from fluzo.core.errors import ToolError
from fluzo.core.named import NamedTuple
from fluzo.core.records import FileVersion, ToolResult
from fluzo.core.text import cut_middle, shown_name, well_formed


class ToolLimits(NamedTuple):
    """Bounds of one call. `context_bytes` is what the model sees of a result, `file_bytes` the largest file that
    the file tools take whole; commands may ask for less than `shell_timeout_seconds`, never for more."""

    context_bytes: int = 64 * 1024
    capture_bytes: int = 2 * 1024 * 1024
    shell_timeout_seconds: float = 120.0
    file_bytes: int = 10 * 1024 * 1024


class SeenFiles:
    """Path -> version as the model last saw it, by reading or by its own change."""

    def __init__(self) -> None:
        self._versions: dict[str, FileVersion] = {}

    def get(self, path: str) -> FileVersion | None:
        return self._versions.get(path)

    def record(self, path: str, version: FileVersion) -> None:
        self._versions[path] = version

    def forget(self, path: str) -> None:
        self._versions.pop(path, None)

    def check(self, path: str, current: FileVersion) -> None:
        """Raise ToolError `stale_file` when the model's picture of the file is out of date.

        Only the content counts: a touch, or a new file with the same bytes, is no change.
        """
        seen = self.get(path)
        if seen is not None and seen.digest != current.digest:
            raise stale(path)


def stale(path: str) -> ToolError:
    return ToolError(f"{shown_name(path)} has changed since it was read; nothing was written", code="stale_file")


def normal_path(path: str, root: str = "") -> str:
    """The root-relative spelling of a path from the model; an absolute path beneath `root` is made relative.

    `..` stays for the backend to refuse or resolve. Raises ToolError for what cannot be a path at all.
    """
    if not path.strip():
        raise ToolError("the path is empty", code="tool_arguments")
    try:
        encoded = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        raise ToolError("the path holds half of a character", code="tool_arguments") from exc
    if b"\0" in encoded:
        raise ToolError("the path holds a NUL character", code="tool_arguments")
    if root and (path == root or path.startswith(root.rstrip("/") + "/")):
        path = path[len(root.rstrip("/")) :].lstrip("/")
    parts = "/".join(part for part in path.split("/") if part not in ("", "."))
    return f"/{parts}" if path.startswith("/") else parts or "."


def plain_path(path: str, root: str) -> str:
    """`normal_path` of what Git is to take literally. Raises ToolError for an option, a pattern or a way out."""
    normal = normal_path(path, root)
    if normal.startswith(("-", ":", "/")) or ".." in normal.split("/"):
        raise ToolError("paths are plain paths inside the workspace; no options or patterns", code="tool_arguments")
    return normal


def encoded(name: str, text: str) -> bytes:
    """Argument text as UTF-8. Raises ToolError for a lone surrogate, which no file can hold as text."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise ToolError(f"{name} holds half of a character at position {exc.start}", code="tool_arguments") from exc


def done(text: str, limits: ToolLimits, detail: Mapping[str, object] | None = None) -> ToolResult:
    """A successful result, well-formed and within what the model may see."""
    return ToolResult(ok=True, text=cut_middle(well_formed(text), limits.context_bytes), detail=detail or {})
