"""Verification: the declared commands, run under the same gate, with a verdict bound to a workspace revision.

A pass counts only for the revision it was taken on; a file that changes afterwards makes it stale (PRD 17.1).
"""

from collections.abc import Awaitable, Callable, Sequence
from shlex import join
from typing import Literal

from fluzo.core.contracts import ExecutionBackend, Tool
from fluzo.core.events import VerificationEnded, VerificationStarted
from fluzo.core.named import NamedTuple
from fluzo.core.records import ToolResult
from fluzo.runtime.gate import Gate
from fluzo.runtime.recorder import Recorder

Verdict = Literal["passed", "failed", "stale", "waived", "unverified", "not_run"]

OUTPUT_TAIL_CHARACTERS = 2000


class Verification(NamedTuple):
    verdict: Verdict
    revision: str = ""
    checks: tuple[dict[str, object], ...] = ()

    def to_json(self, revision_now: str) -> dict[str, object]:
        """The verdict as it stands at `revision_now`: a pass of an older revision is stale."""
        current = bool(self.revision) and self.revision == revision_now
        verdict = "stale" if self.verdict == "passed" and not current else self.verdict
        return {"verdict": verdict, "current": current, "commands": list(self.checks)}


class Verifier:
    def __init__(
        self,
        *,
        commands: Sequence[tuple[str, ...]],
        gate: Gate,
        run_tool: Tool,
        backend: ExecutionBackend,
        recorder: Recorder,
        revision: Callable[[], Awaitable[str]],
    ) -> None:
        self._commands = tuple(commands)
        self._gate = gate
        self._run_tool = run_tool
        self._backend = backend
        self._recorder = recorder
        self._revision = revision

    async def run(self) -> Verification:
        """Run every declared command, in order, until one fails. Raises what the gate raises."""
        if not self._commands:
            return Verification("unverified")
        await self._recorder.commit(events=(VerificationStarted(self._commands, await self._revision()),))
        checks: list[dict[str, object]] = []
        for argv in self._commands:
            args: dict[str, object] = {"argv": list(argv)}
            operation = await self._run_tool.describe(args, self._backend)
            result = await self._gate.run_check(operation, self._run_tool, args)
            checks.append(_check(argv, result))
            if not result.ok:
                break
        passed = len(checks) == len(self._commands) and all(check["ok"] for check in checks)
        verification = Verification("passed" if passed else "failed", await self._revision(), tuple(checks))
        await self._recorder.commit(
            events=(VerificationEnded(verification.verdict, verification.revision, verification.checks),)
        )
        return verification


def feedback(verification: Verification) -> str:
    """What the agent is told of a failed verification."""
    failed = next((check for check in verification.checks if not check["ok"]), {})
    argv = failed.get("argv")
    command = join(argv) if isinstance(argv, list) else ""
    return (
        f"The declared check `{command}` failed (exit {failed.get('exit_status')}). "
        f"The task is not done until it passes. Its output ends with:\n{failed.get('output_tail', '')}"
    )


def _check(argv: tuple[str, ...], result: ToolResult) -> dict[str, object]:
    return {
        "argv": list(argv),
        "ok": result.ok,
        "exit_status": result.detail.get("exit_status"),
        "elapsed_seconds": result.detail.get("elapsed_seconds"),
        "output_tail": result.text[-OUTPUT_TAIL_CHARACTERS:],
    }
