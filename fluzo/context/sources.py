"""Context providers: where initial context comes from, and nothing else (PRD 16).

Small and deterministic: workspace facts and Git status, then the repository's AGENTS.md. Everything more is
for the model to ask for through tools. Repository text is context, never authority.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fluzo.core.contracts import ExecutionBackend
from fluzo.core.errors import ToolError, WorkspaceError
from fluzo.core.records import Fragment
from fluzo.core.redact import printable


def instructions() -> str:
    """The fixed instructions of the native agent; the text is part of the package."""
    return Path(__file__).with_name("instructions.md").read_text("utf-8").strip()


MAX_STATUS_ENTRIES = 50
MAX_INSTRUCTION_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class WorkspaceFacts:
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


@dataclass(frozen=True, slots=True)
class RootInstructions:
    """AGENTS.md at the workspace root, as far as it fits; absent or refused is simply no fragment."""

    path: str = "AGENTS.md"

    async def collect(self, backend: ExecutionBackend) -> Sequence[Fragment]:
        try:
            content = await backend.read_file(self.path, MAX_INSTRUCTION_BYTES)
        except (ToolError, WorkspaceError):
            return []
        text = content.data.decode("utf-8", "replace")
        if not text.strip():
            return []
        return [
            Fragment(
                key=f"instructions:{self.path}",
                source=self.path,
                text=text,
                version=content.version.digest,
                truncated=content.size_bytes > len(content.data),
            )
        ]
