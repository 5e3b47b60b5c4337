"""The entry point: the version at once, the command line when it is needed, and the last except.

Whatever happens below, a person sees one message with a code and never a traceback, a JSON reader gets exactly one
error object on stdout, and the exit status is the documented one. Only `sys` and `fluzo` are imported at the top,
because `fluzo --version` must cost no more than Python itself.
"""

import sys

import fluzo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import NoReturn

    from fluzo.core.errors import FluzoError

OUTPUT_CLOSED = 141
"""Exit status when the reader of stdout went away: 128 + SIGPIPE, what a shell reports for `fluzo ... | head -1`."""

_LOG_LIMIT_BYTES = 1_000_000

_GC_THRESHOLD = 200_000
"""New objects before a collection: twice what a start leaves, so that a short run needs none."""


def run_process() -> "NoReturn":
    """The whole process of the installed command: run its command line and leave with the exit status."""
    import gc
    import os

    # Without it pydantic reads the metadata of every installed package, to find plugins that could watch it.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Starting creates much and drops little; by default the collector would look through all of it many times.
    gc.set_threshold(_GC_THRESHOLD, 20, 20)
    _leave(main())


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run one command line and return its exit status; raises nothing."""
    args = sys.argv[1:] if argv is None else list(argv)
    try:
        status = _run(args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        return _output_closed()
    except SystemExit as stop:
        # Typer ends the process itself when the pipe breaks while it writes.
        return _output_closed() if isinstance(stop.__context__, BrokenPipeError) else _status(stop.code)
    except BaseException as exc:
        return _last_except(exc, args)


def _run(args: list[str]) -> int:
    if args[:1] in (["--version"], ["-V"]):
        print(f"fluzo {fluzo.__version__}")
        return 0
    _fill_standard_descriptors()
    _ready_streams()
    if not args:
        from fluzo.commands.front_door import at_once

        if (status := at_once()) is not None:
            return status
    from fluzo.commands import cli

    return cli.main(args)


def _fill_standard_descriptors() -> None:
    """Put /dev/null where a standard stream was closed, so that no file or database is opened as number 0, 1 or 2."""
    import os

    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest free number, which is this one.
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _ready_streams() -> None:
    """Make stdout and stderr write everything.

    What their encoding lacks is escaped: a model's emoji must not end an ASCII session. A write that a signal cuts
    short goes on, which Python sees to only where it buffers.
    """
    import io

    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if isinstance(stream.buffer, io.RawIOBase):  # PYTHONUNBUFFERED, as container images like to set it.
            whole = io.BufferedWriter(io.FileIO(stream.fileno(), "w", closefd=False))
            setattr(sys, name, io.TextIOWrapper(whole, stream.encoding, "backslashreplace", line_buffering=True))
        else:
            stream.reconfigure(errors="backslashreplace")


def _status(code: object) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else 1


def _output_closed() -> int:
    """Send what is still buffered nowhere, so that the interpreter's own last flush cannot complain."""
    import os

    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return OUTPUT_CLOSED


def _leave(status: int) -> "NoReturn":
    """End the process without taking the interpreter apart, a sixth of a short run's time.

    The command has closed its host and files. What libraries registered for the end is done, and what is still
    buffered is written.
    """
    import atexit
    import os

    try:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        status = status or OUTPUT_CLOSED
    finally:
        os._exit(status)


def _last_except(exc: BaseException, args: list[str]) -> int:
    error = _as_error(exc)
    try:
        _report(error, args)
    except OSError:
        # Neither stream takes a word any more; the status is what is left to say.
        _output_closed()
    return error.exit_status


def _as_error(exc: BaseException) -> "FluzoError":
    """Return the failure as it is told to a person; what nobody foresaw goes to the private log in full."""
    from fluzo.core.errors import Cancelled, FluzoError, WorkspaceError

    if isinstance(exc, FluzoError):
        return exc
    if isinstance(exc, KeyboardInterrupt):
        return Cancelled("Interrupted.")
    if isinstance(exc, FileNotFoundError) and not _working_directory_exists():
        return WorkspaceError(
            "The current directory no longer exists.",
            code="workspace_unusable",
            hint="Change to a directory that exists and start again.",
        )
    log = _write_log(exc)
    where = f"The details are in {log}." if log else "The details could not be kept: no private log can be written."
    # The text of an unforeseen exception may hold anything; the system's own words for an errno may not.
    cause = f": {exc.strerror}" if isinstance(exc, OSError) and exc.strerror else ""
    return FluzoError(f"Fluzo stopped on an error of its own ({type(exc).__name__}{cause}).", hint=where)


def _working_directory_exists() -> bool:
    from pathlib import Path

    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _report(error: "FluzoError", args: list[str]) -> None:
    from fluzo.core.redact import printable

    if sys.stderr is not None:
        hint = "".join(f"\n  {line}" for line in printable(error.hint).split("\n")) if error.hint else ""
        print(f"error: {printable(error.message)}  [{error.code}]{hint}", file=sys.stderr, flush=True)
    if _wants_json(args) and sys.stdout is not None:
        import json

        print(json.dumps({"schema_version": 1, "type": "error", "error": error.to_json()}), flush=True)


def _wants_json(args: list[str]) -> bool:
    """True when the line asks for a JSON output, read without a parser: the parser may be what failed."""
    for number, arg in enumerate(args):
        if arg == "--":
            return False
        if arg in ("--output", "-o"):
            form = args[number + 1] if number + 1 < len(args) else ""
        elif arg.startswith("--output="):
            form = arg.removeprefix("--output=")
        elif arg.startswith("-o"):
            form = arg.removeprefix("-o").removeprefix("=")
        else:
            continue
        if form in ("json", "stream-json"):
            return True
    return False


def _write_log(exc: BaseException) -> "Path | None":
    """Append the traceback to the private log and return its path; None when there is no place for one.

    The log is `$XDG_STATE_HOME/fluzo/errors.log`, by default below `~/.local/state`, mode 0600, and starts anew when
    it has grown past its limit.
    """
    import os
    import traceback
    from datetime import UTC, datetime
    from pathlib import Path

    from fluzo.core.redact import make_redactor

    home, state = os.environ.get("HOME", ""), os.environ.get("XDG_STATE_HOME", "")
    # The XDG base directory specification has relative paths ignored.
    root = Path(state) if Path(state).is_absolute() else Path(home, ".local", "state")
    if not root.is_absolute():
        return None
    path = root / "fluzo" / "errors.log"
    text = make_redactor()("".join(traceback.format_exception(exc)))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8", errors="backslashreplace") as log:
            os.fchmod(log.fileno(), 0o600)  # The file may be older than this rule.
            if os.fstat(log.fileno()).st_size > _LOG_LIMIT_BYTES:
                log.truncate(0)
            log.write(f"{datetime.now(UTC).isoformat()} fluzo {fluzo.__version__}\n{text}\n")
    except OSError:
        return None
    return path


if __name__ == "__main__":
    run_process()
