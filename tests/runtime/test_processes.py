"""Owned processes: real commands that hang, flood, fork, ignore signals and ask questions."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.stepped import SteppedLoop, advance
from support.workspaces import Newcomers, execute, followed, is_alive, make_repository, shell, with_backend

from fluzo.core.contracts import ProcessRequest
from fluzo.core.errors import ToolError, WorkspaceError
from fluzo.core.records import ProcessResult
from fluzo.workspace import descendants
from fluzo.workspace.environment import DEFAULT_PATH
from fluzo.workspace.local import LocalBackend
from fluzo.workspace.processes import Processes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "ws", {"src/a.py": "a\n"})


_newcomers: list[Newcomers] = []


@pytest.fixture(autouse=True)
def begin_of_the_test() -> None:
    _newcomers[:] = [Newcomers()]


def zombies() -> list[descendants.Seen]:
    """Children of this process that began in this test, ended, and were not reaped."""
    return [seen for seen in _newcomers[0].below() if seen.ended and seen.parent == os.getpid()]


# --- plain commands -------------------------------------------------------------------------------------------


def test_arguments_reach_the_program_exactly(root: Path) -> None:
    words = ("a b", "$HOME", "*", "", "`id`", "q\"t'", "caf\udce9")
    program = "import os,sys; sys.stdout.buffer.write(b'|'.join(map(os.fsencode, sys.argv[1:])))"
    result = execute(root, sys.executable, "-c", program, *words)
    assert result.output == b"a b|$HOME|*||`id`|q\"t'|caf\xe9"
    assert (result.exit_status, result.termination, result.still_running) == (0, "exited", ())


def test_both_streams_are_one_and_the_exit_status_is_kept(root: Path) -> None:
    result = shell(root, "echo out; echo err >&2; exit 7")
    assert (result.output, result.exit_status, result.signal) == (b"out\nerr\n", 7, 0)


def test_a_command_that_dies_of_a_signal_says_which(root: Path) -> None:
    result = shell(root, "kill -SEGV $$")
    assert (result.exit_status, result.signal, result.termination) == (None, signal.SIGSEGV, "exited")


def test_bytes_of_any_kind_pass_unchanged(root: Path) -> None:
    program = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 3)"
    assert execute(root, sys.executable, "-c", program).output == bytes(range(256)) * 3


def test_the_working_directory_is_resolved_beneath_the_root(root: Path) -> None:
    (root / "link").symlink_to("src")
    assert shell(root, "pwd -P", cwd="src").output.decode().strip() == str(root / "src")
    assert shell(root, "pwd -P", cwd="link").output.decode().strip() == str(root / "src")
    (root / "out").symlink_to("/")
    for cwd in ("..", "out", "/tmp", ".git"):
        with pytest.raises(WorkspaceError):
            shell(root, "pwd", cwd=cwd)
    with pytest.raises(ToolError) as caught:
        shell(root, "pwd", cwd="nothing")
    assert caught.value.code == "no_such_file"


def test_a_program_of_the_workspace_runs_only_by_an_explicit_path(root: Path) -> None:
    (root / "helper").write_text("#!/bin/sh\necho ran $(basename $PWD)\n")
    (root / "helper").chmod(0o755)
    assert execute(root, "./helper").output == b"ran ws\n"
    assert execute(root, "../helper", cwd="src").output == b"ran src\n"
    for path in (".", "", ":", "src:.:", "/usr/bin:"):
        with pytest.raises(ToolError) as caught:
            execute(root, "helper", env=(("PATH", path),))
        assert caught.value.code == "command_not_found"


def test_a_command_that_cannot_start_is_an_error_and_no_shell_is_tried(root: Path) -> None:
    (root / "script").write_text("echo would run in a shell\n")
    (root / "plain").write_text("text")
    (root / "script").chmod(0o755)
    (root / "broken").write_text("#!/no/such/interpreter\n")
    (root / "broken").chmod(0o755)
    codes = []
    for argv in (("no-such-command-here",), ("./plain",), ("./script",), ("./broken",), ("./missing",), ("a\0b",), ()):
        with pytest.raises(ToolError) as caught:
            execute(root, *argv)
        codes.append(caught.value.code)
    missing, refused, other = "command_not_found", "not_executable", "not_started"
    assert codes == [missing, refused, other, missing, missing, missing, missing]


# --- S02: nobody answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        "cat",
        "read x",
        "python3 -c 'input()'",
        "git -c user.name=a -c user.email=a@b commit --allow-empty",
        "GIT_EDITOR= EDITOR= VISUAL= git -c user.name=a -c user.email=a@b commit --allow-empty",
        "exec 3<>/dev/tty",
        "ssh-keygen",
        "sudo -k true",
    ],
)
def test_a_command_that_asks_gets_the_end_of_input_at_once(root: Path, script: str) -> None:
    tool = script.split()[0]
    if tool in ("ssh-keygen", "sudo") and shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    result = shell(root, script)
    assert not result.timed_out
    if tool not in ("cat", "sudo"):
        assert result.exit_status != 0


def test_a_child_has_its_own_session_and_none_of_our_descriptors(root: Path) -> None:
    readable, writable = os.pipe()
    os.set_inheritable(writable, True)
    try:
        result = shell(root, "cut -d' ' -f6 /proc/$$/stat; echo $$; ls -l /proc/self/fd; :")
        inode = os.fstat(writable).st_ino
    finally:
        os.close(readable)
        os.close(writable)
    sid, pid, listing = result.output.split(b"\n", 2)
    assert sid == pid
    assert b"0 -> /dev/null" in listing
    assert b"pipe:[%d]" % inode not in listing


# --- S01: children that stay ----------------------------------------------------------------------------------


# It chooses its port itself, because one that was free a moment ago may be taken by now.
SERVE = """
import http.server, os
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
open("port.tmp", "w").write(str(server.server_address[1]))
os.rename("port.tmp", "port")
server.serve_forever()
"""
GET = "import urllib.request as u; u.urlopen('http://127.0.0.1:' + open('port').read())"


@pytest.mark.parametrize(
    "script",
    [
        "sleep 300 & echo done",
        "(while :; do echo x; sleep 0.2; done) & echo done",
        "echo done; yes &",  # The other way round the flood may be over the word before it is said.
        "sleep 300 >/dev/null 2>&1 & echo done",
        f"python3 -c '{SERVE}' & until [ -e port ]; do sleep 0.02; done; python3 -c \"{GET}\" && echo done",
    ],
)
def test_a_background_child_does_not_hold_the_result_back_and_is_ended_at_the_stop(root: Path, script: str) -> None:
    survivors: list[int] = []
    result = with_backend(
        root,
        lambda backend, _: backend.execute(ProcessRequest(("bash", "-c", script), timeout_seconds=600)),
        survivors=survivors,
    )
    assert b"done" in result.output
    assert (result.exit_status, result.timed_out, result.termination) == (0, False, "exited")
    assert result.still_running
    assert survivors == []
    assert not any(is_alive(pid) for pid in result.still_running)
    assert zombies() == []


def test_a_background_child_that_goes_on_writing_is_drained_and_not_blocked(root: Path) -> None:
    # Far more than a pipe holds, after the result was given; the file appears only when all of it was taken.
    waiting = "while [ ! -e go ]; do sleep 0.02; done"
    script = f"({waiting}; head -c 3000000 /dev/zero && touch finished; exec sleep 300) & echo started"

    async def work(backend: LocalBackend, _: asyncio.Event) -> None:
        await backend.execute(ProcessRequest(("bash", "-c", script)))
        (root / "go").touch()
        wait = "while [ ! -e finished ]; do sleep 0.02; done"
        assert not (await backend.execute(ProcessRequest(("bash", "-c", wait), timeout_seconds=600))).timed_out

    with_backend(root, work)


def test_output_that_a_child_writes_just_after_the_end_is_kept(root: Path) -> None:
    os.mkfifo(root / "go")
    script = "echo $$ > pid; echo first; (read x < go; echo second) & disown; exit 3"

    async def work(backend: LocalBackend, _: asyncio.Event) -> ProcessResult:
        running = asyncio.create_task(backend.execute(ProcessRequest(("bash", "-c", script))))
        await followed(backend)
        while not (pid := (root / "pid").read_text() if (root / "pid").exists() else "") or is_alive(int(pid)):
            await asyncio.sleep(0)
        await asyncio.to_thread((root / "go").write_text, "now\n")
        return await running

    # On a clock that stands still: how soon after the end a slow machine lets the child write does not matter.
    result = with_backend(root, work, loop_factory=SteppedLoop)
    assert (result.output, result.exit_status) == (b"first\nsecond\n", 3)


# --- S03: deadlines and cancellation --------------------------------------------------------------------------


def timed_out(root: Path, script: str, grace_seconds: float) -> ProcessResult:
    """The result of a script that has said on `up` that it is ready when its deadline passes."""
    os.mkfifo(root / "up")

    async def work(backend: LocalBackend, _: asyncio.Event) -> ProcessResult:
        command = ("bash", "-c", script)
        running = asyncio.create_task(backend.execute(ProcessRequest(command, timeout_seconds=600)))
        await asyncio.to_thread((root / "up").read_text)
        await followed(backend)
        advance(600)
        return await running

    return with_backend(root, work, grace_seconds=grace_seconds)


def test_a_command_that_ignores_term_is_killed_with_its_children(root: Path) -> None:
    inner = 'trap "" TERM; echo $$ > child; echo > up; while :; do sleep 300; done'
    result = timed_out(root, f"trap '' TERM INT; bash -c '{inner}'", 0.3)
    assert (result.timed_out, result.termination, result.exit_status) == (True, "killed", None)
    assert result.signal == signal.SIGKILL
    assert not is_alive(int((root / "child").read_text()))
    assert zombies() == []


def test_a_command_that_obeys_term_is_terminated(root: Path) -> None:
    script = "trap 'echo bye; exit 5' TERM; echo up; echo > up; while :; do sleep 0.05; done"
    result = timed_out(root, script, 30)
    assert (result.timed_out, result.termination, result.exit_status) == (True, "terminated", 5)
    assert result.output.startswith(b"up\n")
    assert result.output.endswith(b"bye\n")


def test_a_stubborn_child_of_an_obedient_command_is_killed_too(root: Path) -> None:
    child = "trap '' TERM; echo $BASHPID > child; echo > up; while :; do sleep 300; done"
    result = timed_out(root, f"trap 'exit 0' TERM; ({child}) & wait", 0.3)
    assert (result.timed_out, result.termination) == (True, "killed")
    assert result.still_running == ()
    assert not is_alive(int((root / "child").read_text()))


def test_cancelling_ends_the_command_and_is_a_result(root: Path) -> None:
    async def work(backend: LocalBackend, cancel: asyncio.Event) -> tuple[ProcessResult, ProcessResult]:
        os.mkfifo(root / "up")
        running = asyncio.create_task(
            backend.execute(ProcessRequest(("bash", "-c", "echo $$ > pid; echo > up; sleep 300")))
        )
        await asyncio.to_thread((root / "up").read_text)
        cancel.set()
        return await running, await backend.execute(ProcessRequest(("touch", "never")))

    first, second = with_backend(root, work)
    assert (first.cancelled, first.timed_out, first.termination) == (True, False, "terminated")
    assert not is_alive(int((root / "pid").read_text()))
    assert (second.cancelled, second.exit_status) == (True, None)
    assert not (root / "never").exists()


def test_cancelling_the_coroutine_ends_the_command_too(root: Path) -> None:
    async def work(backend: LocalBackend, _: asyncio.Event) -> None:
        os.mkfifo(root / "up")
        running = asyncio.create_task(
            backend.execute(ProcessRequest(("bash", "-c", "echo $$ > pid; echo > up; sleep 300")))
        )
        await asyncio.to_thread((root / "up").read_text)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not is_alive(int((root / "pid").read_text()))

    with_backend(root, work)
    assert zombies() == []


def test_stop_ends_what_runs_and_reports_nothing_left(root: Path) -> None:
    async def work(backend: LocalBackend, _: asyncio.Event) -> ProcessResult:
        os.mkfifo(root / "up")
        command = ("bash", "-c", "trap '' TERM; echo > up; while :; do sleep 300; done")
        running = asyncio.create_task(backend.execute(ProcessRequest(command)))
        await asyncio.to_thread((root / "up").read_text)
        assert await backend.stop() == []
        return await running

    result = with_backend(root, work, grace_seconds=0.3)
    assert result.signal == signal.SIGKILL
    assert zombies() == []


async def begin(processes: Processes, root: Path, *argv: str) -> "asyncio.Task[ProcessResult]":
    """A command that is being started: its launch was handed to a thread, or is about to be."""
    running = asyncio.create_task(
        processes.run(
            argv, cwd=root, env={"PATH": DEFAULT_PATH}, timeout_seconds=600, capture_bytes=100, cancel=asyncio.Event()
        )
    )
    await asyncio.sleep(0)
    return running


def test_stop_ends_a_command_that_is_only_just_starting(root: Path) -> None:
    async def work() -> tuple[ProcessResult, ProcessResult]:
        processes = Processes(30)
        running = await begin(processes, root, "sleep", "300")
        assert await processes.stop() == []
        return await running, await (await begin(processes, root, "touch", "never"))

    for _ in range(10):
        first, second = asyncio.run(work())
        assert first.signal == signal.SIGTERM
        assert second.cancelled
    assert not (root / "never").exists()
    assert zombies() == []


def test_kill_ends_what_runs_at_once_and_starts_nothing_more(root: Path) -> None:
    async def work(backend: LocalBackend, _: asyncio.Event) -> tuple[ProcessResult, ProcessResult]:
        os.mkfifo(root / "up")
        command = ("bash", "-c", "trap '' TERM; (trap '' TERM; echo $BASHPID > up; sleep 300) & wait")
        running = asyncio.create_task(backend.execute(ProcessRequest(command)))
        child = int(await asyncio.to_thread((root / "up").read_text))
        backend.kill()
        result = await running
        assert not is_alive(child)
        assert await backend.stop() == []
        return result, await backend.execute(ProcessRequest(("touch", "never")))

    # A grace period nobody could wait for: a kill must not use it.
    first, second = with_backend(root, work, grace_seconds=3600)
    assert (first.cancelled, first.timed_out, first.termination) == (True, False, "killed")
    assert (first.exit_status, first.signal, first.still_running) == (None, signal.SIGKILL, ())
    assert (second.cancelled, second.exit_status) == (True, None)
    assert not (root / "never").exists()
    assert zombies() == []


def test_kill_shortens_a_cancellation_that_is_waiting_for_the_grace_period(root: Path) -> None:
    async def work(backend: LocalBackend, cancel: asyncio.Event) -> ProcessResult:
        os.mkfifo(root / "up")
        os.mkfifo(root / "told")
        script = "trap 'echo > told' TERM; echo > up; while :; do sleep 300 & wait; done"
        running = asyncio.create_task(backend.execute(ProcessRequest(("bash", "-c", script))))
        await asyncio.to_thread((root / "up").read_text)
        cancel.set()
        await asyncio.to_thread((root / "told").read_text)
        backend.kill()
        return await running

    result = with_backend(root, work, grace_seconds=3600)
    assert (result.cancelled, result.termination, result.signal) == (True, "killed", signal.SIGKILL)
    assert zombies() == []


def test_kill_ends_a_command_that_is_only_just_starting(root: Path) -> None:
    async def work() -> ProcessResult:
        processes = Processes(3600)
        running = await begin(processes, root, "sleep", "300")
        processes.kill()
        result = await running
        assert await processes.stop() == []
        return result

    for _ in range(10):
        result = asyncio.run(work())
        assert (result.cancelled, result.termination, result.signal) == (True, "killed", signal.SIGKILL)


def test_kill_ends_the_background_children_of_a_command_that_is_over(root: Path) -> None:
    async def work(backend: LocalBackend, _: asyncio.Event) -> list[int]:
        result = await backend.execute(ProcessRequest(("bash", "-c", "trap '' TERM; sleep 300 & echo done")))
        assert result.still_running
        backend.kill()
        assert await backend.stop() == []
        return [pid for pid in result.still_running if is_alive(pid)]

    assert with_backend(root, work, grace_seconds=3600) == []


def test_stop_touches_nothing_that_was_not_started_here(root: Path) -> None:
    stranger = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        shell(root, "sleep 300 & echo done")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_processes_run_on_a_loop_of_another_thread(root: Path) -> None:
    results: list[ProcessResult] = []
    thread = threading.Thread(target=lambda: results.append(shell(root, "echo here")))
    thread.start()
    thread.join()
    assert results[0].output == b"here\n"


# --- S05: floods ----------------------------------------------------------------------------------------------


FLOOD = """
import asyncio, sys
from pathlib import Path
from support.workspaces import with_backend
from fluzo.core.contracts import ProcessRequest

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])

async def work(backend, cancel):
    ticks = seen = 0

    def watch(chunk):
        nonlocal seen
        seen += len(chunk)
        if seen >= int(sys.argv[3]):
            cancel.set()

    request = ProcessRequest(("bash", "-c", sys.argv[2]), timeout_seconds=600, capture_bytes=1000)
    running = asyncio.create_task(backend.watched(watch).execute(request))
    while not running.done():
        ticks += 1
        await asyncio.sleep(0)
    return await running, ticks

before = peak()
result, ticks = with_backend(Path(sys.argv[1]), work)
grown = peak() - before
omitted = b"%d bytes omitted" % (result.output_bytes - 1000) in result.output
print(grown, ticks, result.output_bytes, len(result.output), omitted, result.cancelled or result.exit_status)
"""


FLOOD_BYTES = 100_000_000


@pytest.mark.parametrize("script", ["yes", "yes | tr -d '\\n'", f"head -c {FLOOD_BYTES} /dev/zero"])
def test_a_flood_is_drained_in_bounded_memory(root: Path, script: str) -> None:
    # A process of its own: its peak is that of this one command.
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    argv = [sys.executable, "-c", FLOOD, str(root), script, str(FLOOD_BYTES + script.startswith("head"))]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    assert answer.stderr == ""
    grown_kib, ticks, total, kept, omitted, ending = answer.stdout.split()
    assert int(grown_kib) < 50_000_000 / 1024
    assert int(ticks) > 100, "the loop was starved"
    assert int(total) >= FLOOD_BYTES
    assert int(kept) < 1100
    assert omitted == "True"
    assert ending == "True" or (ending, total, script[:4]) == ("0", str(FLOOD_BYTES), "head")


def test_head_and_tail_of_a_long_output_are_kept(root: Path) -> None:
    result = shell(root, "seq 1 100000", capture_bytes=200)
    total = len("".join(f"{n}\n" for n in range(1, 100001)))
    assert result.output_bytes == total
    assert result.output.startswith(b"1\n2\n3\n")
    assert result.output.endswith(b"99999\n100000\n")
    assert b"\n[... %d bytes omitted ...]\n" % (total - 200) in result.output


def test_an_output_of_exactly_the_limit_is_whole(root: Path) -> None:
    result = shell(root, "printf 1234567", capture_bytes=7)
    assert (result.output, result.truncated) == (b"1234567", False)
    assert shell(root, "printf 12345678", capture_bytes=7).truncated


# --- S09: the environment of a child --------------------------------------------------------------------------


def test_keys_and_sockets_of_the_parent_are_not_in_the_environment_of_a_child(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "FX_TOKEN", "SSH_AUTH_SOCK", "BASH_ENV", "LD_PRELOAD_NOT", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "sentinel-value")
    result = execute(root, "env", env=(("GREETING", "hello"),))
    assert b"sentinel-value" not in result.output
    assert b"GREETING=hello\n" in result.output
