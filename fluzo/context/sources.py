"""Context providers: where initial context comes from, and nothing else (PRD 16).

Small and deterministic: workspace facts and Git status, the repository's AGENTS.md, and skills that the user
named. Everything more is for the model to ask for through tools. Repository text is context, never authority.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from fluzo.core.contracts import ExecutionBackend
from fluzo.core.errors import ToolError, UsageError, WorkspaceError
from fluzo.core.named import NamedTuple
from fluzo.core.paths import is_secret_path
from fluzo.core.records import Fragment
from fluzo.core.redact import printable


def instructions() -> str:
    """The fixed instructions of the native agent; the text is part of the package."""
    return Path(__file__).with_name("instructions.md").read_text("utf-8").strip()


MAX_STATUS_ENTRIES = 50
MAX_INSTRUCTION_BYTES = 32 * 1024


class WorkspaceFacts(NamedTuple):
    """The workspace as the baseline saw it; the root itself is named only by its last component."""

    name: str
    branch: str
    head: str
    changed: tuple[str, ...]
    verification: tuple[str, ...]

    async def collect(self, backend: ExecutionBackend) -> Sequence[Fragment]:
        at = self.head[:12] or "no commit yet"
        lines = [f"workspace {printable(self.name)}, branch {printable(self.branch) or '(detached)'} at {at}"]
        if self.changed:
            lines.append("files the user had already changed:")
            lines += [f"  {printable(path)}" for path in self.changed[:MAX_STATUS_ENTRIES]]
            if len(self.changed) > MAX_STATUS_ENTRIES:
                lines.append(f"  and {len(self.changed) - MAX_STATUS_ENTRIES} more")
        else:
            lines.append("working tree clean")
        if self.verification:
            lines.append("the work is checked afterwards with:")
            lines += [f"  {printable(command)}" for command in self.verification]
        return [Fragment("workspace", "git status", "\n".join(lines), version=self.head)]


class RootInstructions(NamedTuple):
    """The repository's own instructions at its root, as far as they fit; absent or refused is no fragment."""

    names: tuple[str, ...] = ("AGENTS.md",)

    async def collect(self, backend: ExecutionBackend) -> Sequence[Fragment]:
        found = [await _read(backend, name, "instructions") for name in self.names]
        return [fragment for fragment in found if fragment is not None]


class Skills(NamedTuple):
    """Skill files that the user named; each must be there. Nothing is chosen by itself (PRD 16)."""

    paths: tuple[str, ...]

    async def collect(self, backend: ExecutionBackend) -> Sequence[Fragment]:
        fragments = []
        for path in self.paths:
            fragment = None if is_secret_path(path) else await _read(backend, path, "skill")
            if fragment is None:
                raise UsageError(
                    f"the skill {printable(path)} cannot be read in the workspace", hint="Name a text file in it."
                )
            fragments.append(fragment)
        return fragments


class ScopedInstructions:
    """Instructions in folders below the root: told once, before the first change beneath them (PRD 16)."""

    def __init__(self, names: tuple[str, ...] = ("AGENTS.md",)) -> None:
        self._names = names
        self._seen: set[str] = set()

    async def before(self, paths: Sequence[str], backend: ExecutionBackend) -> tuple[Fragment, ...]:
        """What applies to these paths and was not told yet; outermost folder first."""
        fragments = []
        for folder in sorted({str(parent) for path in paths for parent in PurePosixPath(path).parents} - {"."}):
            if folder in self._seen:
                continue
            self._seen.add(folder)
            for name in self._names:
                fragment = await _read(backend, f"{folder}/{name}", "instructions")
                if fragment is not None:
                    fragments.append(fragment)
        return tuple(fragments)


async def _read(backend: ExecutionBackend, path: str, kind: str) -> Fragment | None:
    try:
        content = await backend.read_file(path, MAX_INSTRUCTION_BYTES)
    except (ToolError, WorkspaceError):
        return None
    text = content.data.decode("utf-8", "replace")
    if not text.strip():
        return None
    cut = content.size_bytes > len(content.data)
    return Fragment(f"{kind}:{path}", path, text, version=content.version.digest, truncated=cut)
