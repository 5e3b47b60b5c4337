"""The `run` tool: one command, as an argument vector or as a script for `sh`, and its outcome in words.

Invariant: what runs is exactly what the operation shows. There is no search for another program, no shell
around an argument vector, and no second attempt.
"""

import asyncio
import shlex
import signal
from collections.abc import Mapping, Sequence
from typing import cast

from fluzo.core.contracts import ExecutionBackend, ProcessRequest
from fluzo.core.errors import ToolError
from fluzo.core.named import NamedTuple
from fluzo.core.records import Operation, ProcessResult, ToolResult, ToolSpec
from fluzo.core.text import clean_output, cut_middle, one_line
from fluzo.tools.shared import ToolLimits, normal_path

SHELL = ("sh", "-c")
HEADER_BYTES = 512
"""Room kept free for the lines that say how the command ended."""


class Run(NamedTuple):
    """`env` is what every command gets beyond the backend's baseline; it is part of what is authorized."""

    spec: ToolSpec
    limits: ToolLimits
    root: str
    env: tuple[tuple[str, str], ...]

    async def describe(self, args: Mapping[str, object], backend: ExecutionBackend) -> Operation:
        argv, script = _command(args)
        wanted = args.get("timeout_seconds")
        longest = self.limits.shell_timeout_seconds
        return Operation(
            "run",
            "execute",
            "execute",
            one_line(script or shlex.join(argv)),
            argv=argv,
            script=script,
            cwd=normal_path(str(args.get("cwd") or "."), self.root),
            env=self.env,
            timeout_seconds=longest if wanted is None else min(cast("float", wanted), longest),
        )

    async def execute(self, args: Mapping[str, object], operation: Operation, backend: ExecutionBackend) -> ToolResult:
        argv = (*SHELL, operation.script) if operation.script else operation.argv
        result = await backend.execute(
            ProcessRequest(
                argv,
                cwd=operation.cwd,
                env=operation.env,
                timeout_seconds=operation.timeout_seconds,
                capture_bytes=self.limits.capture_bytes,
            )
        )
        return await asyncio.to_thread(process_result, result, self.limits)


def process_result(result: ProcessResult, limits: ToolLimits) -> ToolResult:
    """How a process ended, as a result for the model: status first, then its output, cleaned and bounded."""
    output = clean_output(result.output).strip("\n")
    lost = max(result.output_bytes - len(result.output), 0) if result.truncated else 0
    shown = cut_middle(output, max(limits.context_bytes - HEADER_BYTES, 0), lost)
    lines = [_ending(result)]
    if result.still_running:
        pids = ", ".join(map(str, result.still_running))
        lines.append(f"still running in the background: pids {pids}")
    if lost and shown == output:
        lines.append(f"{lost} bytes in the middle of the output were not kept")
    lines.append(shown or "(no output)")
    cut = bool(lost) or shown != output
    return ToolResult(
        ok=result.exit_status == 0 and not result.timed_out and not result.cancelled,
        text="\n".join(lines),
        code=_code(result),
        detail={
            "exit_status": result.exit_status,
            "elapsed_seconds": round(result.elapsed_seconds, 3),
            "output_bytes": result.output_bytes,
            "truncated": result.truncated,
            "timed_out": result.timed_out,
            "cancelled": result.cancelled,
            "termination": result.termination,
            "signal": result.signal,
            "still_running": list(result.still_running),
        },
        artifact=result.output if cut else None,
    )


def _code(result: ProcessResult) -> str:
    if result.timed_out:
        return "timed_out"
    if result.cancelled:
        return "cancelled"
    return "" if result.exit_status == 0 else "command_failed"


def _ending(result: ProcessResult) -> str:
    after = f"{result.elapsed_seconds:.1f} s"
    if result.timed_out or result.cancelled:
        how = {
            "exited": "it ended by itself",
            "terminated": "it was terminated",
            "killed": "it was killed",
            "uncertain": "whether it has ended is not known",
        }[result.termination]
        return f"{'timed out' if result.timed_out else 'cancelled'} after {after}; {how}"
    if result.signal:
        return f"ended by signal {_signal_name(result.signal)} after {after}"
    if result.exit_status is None:
        return f"ended without an exit status after {after}"
    return f"exit {result.exit_status} after {after}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _command(args: Mapping[str, object]) -> tuple[tuple[str, ...], str]:
    """Argument vector or script; exactly one of them. Raises ToolError that says how to send it."""
    argv = tuple(cast("Sequence[str]", args.get("argv") or ()))
    script, shell = str(args.get("script") or ""), bool(args.get("shell"))
    if shell and not argv and script.strip():
        wrong = "the script holds a NUL character" if "\0" in script else ""
    elif argv and not shell and not script:
        wrong = "argv holds a NUL character" if any("\0" in part for part in argv) else ""
        wrong = wrong or ("" if argv[0].strip() else "the program name in argv is empty")
    else:
        wrong = 'give argv as a list, such as ["cargo", "test"], or shell: true with script, and not both'
    if wrong:
        raise ToolError(wrong, code="tool_arguments")
    return argv, script
