"""Descendants that leave: new sessions, double forks, changed environments; and children that are not ours to end."""

import asyncio
import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.seccomp import run_without_call
from support.stepped import advance
from support.workspaces import Newcomers, followed, is_alive, make_repository, shell, with_backend

from fluzo.core.contracts import ProcessRequest
from fluzo.core.records import ProcessResult
from fluzo.workspace import descendants
from fluzo.workspace.local import LocalBackend

DAEMON = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
null = os.open("/dev/null", os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(null, number)
with open("daemon.tmp", "w") as file:
    file.write(str(os.getpid()))
os.rename("daemon.tmp", "daemon")
os.execvp("sleep", ["sleep", "300"])
"""
DAEMON_STARTS = "python3 daemon.py; while [ ! -e daemon ]; do sleep 0.02; done"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "ws", {"daemon.py": DAEMON})


@pytest.fixture(autouse=True)
def newcomers() -> Iterator[Newcomers]:
    made = Newcomers()
    yield made
    assert made.below() == [], "processes or zombies below this one"


def background(root: Path, script: str, **options: float) -> ProcessResult:
    """Run a script whose children stay; they must be named, and gone after the stop."""
    survivors: list[int] = []
    request = ProcessRequest(("bash", "-c", script), timeout_seconds=600)
    result = with_backend(root, lambda backend, _: backend.execute(request), survivors=survivors, **options)
    assert survivors == []
    assert not any(is_alive(pid) for pid in result.still_running)
    return result


# --- found ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        "setsid sleep 300 & echo done",
        "setsid sleep 300 >/dev/null 2>&1 & echo done",
        "nohup setsid sleep 300 >/dev/null 2>&1 & disown; echo done",
        "(setsid sleep 300 >/dev/null 2>&1 &) ; echo done",
        "env -i setsid sleep 300 & echo done",
        f"{DAEMON_STARTS}; echo done",
    ],
)
def test_a_descendant_that_left_the_session_is_named_and_ended_at_the_stop(root: Path, script: str) -> None:
    result = background(root, script)
    assert b"done" in result.output
    assert (result.exit_status, result.termination) == (0, "exited")
    assert result.still_running


def test_one_without_a_mark_counts_by_its_session(root: Path) -> None:
    # The inner one has no mark, no pipe and no parent, but a session with one that counts.
    inner = "(env -i sleep 300 >/dev/null 2>&1 &); touch up; exec sleep 300"
    script = f"setsid sh -c '{inner}' >/dev/null 2>&1 & until [ -e up ]; do sleep 0.02; done"
    assert len(background(root, script).still_running) == 2


def test_one_without_a_mark_counts_by_its_parent(root: Path) -> None:
    for name in ("go", "up"):
        os.mkfifo(root / name)
    later = "read x < go; env -i setsid sleep 300 >/dev/null 2>&1 & echo \\$! > up; wait"

    async def work(backend: LocalBackend, _: asyncio.Event) -> int:
        script = f'setsid bash -c "{later}" >/dev/null 2>&1 & echo done'
        await backend.execute(ProcessRequest(("bash", "-c", script)))
        await asyncio.to_thread((root / "go").write_text, "now\n")
        pid = int(await asyncio.to_thread((root / "up").read_text))
        assert pid in [number for number, _ in backend.running()]
        return pid

    assert not is_alive(with_backend(root, work))


def test_a_status_is_kept_when_children_go_on_in_the_session(root: Path) -> None:
    result = background(root, "sleep 300 & exit 3")
    assert (result.exit_status, len(result.still_running)) == (3, 1)


def test_one_that_will_hide_is_known_before_it_loses_its_parent(root: Path) -> None:
    os.mkfifo(root / "up")
    os.mkfifo(root / "go")
    # No mark, no pipe, its own session; only while its parent lives can it be told where it comes from.
    script = "env -i setsid sleep 300 >/dev/null 2>&1 & echo $! > up; read x < go; exit 0"

    async def work(backend: LocalBackend, _: asyncio.Event) -> tuple[int, ProcessResult]:
        running = asyncio.create_task(backend.execute(ProcessRequest(("bash", "-c", script))))
        pid = int(await asyncio.to_thread((root / "up").read_text))
        while not (found := backend.running()):
            await asyncio.sleep(0)  # The command is at work before the loop has heard that it was started.
        assert pid in [number for number, _ in found]
        await asyncio.to_thread((root / "go").write_text, "now\n")
        return pid, await running

    pid, result = with_backend(root, work)
    assert result.still_running == (pid,)
    assert not is_alive(pid)


def test_a_running_command_is_looked_at_by_itself(root: Path) -> None:
    # The command goes on only when its child was adopted, which shows as a pidfd of this process.
    watch = f'until grep -qs "^Pid:[[:space:]]*$!$" /proc/{os.getpid()}/fdinfo/*; do sleep 0.02; done'
    result = background(root, f"env -i setsid sleep 300 >/dev/null 2>&1 & {watch}; exit 0")
    assert not result.timed_out
    assert len(result.still_running) == 1


def test_both_ways_of_looking_find_the_same(root: Path) -> None:
    with subprocess.Popen(["bash", "-c", "sleep 300 & echo up; wait"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        ways = [
            [seen for seen in look() if process.pid in (seen.pid, seen.parent)]
            for look in (descendants._by_lists, descendants._by_table)
        ]
        listed, table = (sorted((seen.pid, seen.parent, seen.session) for seen in found) for found in ways)
        assert listed == table
        (child,) = (pid for pid, parent, _ in listed if parent == process.pid)
        assert (process.pid, os.getpid()) in [(pid, parent) for pid, parent, _ in listed]
        os.kill(child, signal.SIGKILL)


# --- ended ----------------------------------------------------------------------------------------------------

STUBBORN = "trap '' TERM; while :; do sleep 300; done"
"""What it starts has inherited that the signal is ignored."""


@pytest.mark.parametrize("how", ["timeout", "cancel", "kill", "stop", "coroutine"])
def test_every_end_takes_stubborn_descendants_in_other_sessions_along(root: Path, how: str) -> None:
    os.mkfifo(root / "up")
    script = f"trap '' TERM; setsid bash -c 'echo $$ > up; while :; do sleep 300; done' >/dev/null 2>&1 & {STUBBORN}"

    async def work(backend: LocalBackend, cancel: asyncio.Event) -> tuple[int, ProcessResult | None]:
        running = asyncio.create_task(backend.execute(ProcessRequest(("bash", "-c", script), timeout_seconds=600)))
        pid = int(await asyncio.to_thread((root / "up").read_text))
        assert is_alive(pid)
        await followed(backend)
        if how == "timeout":
            advance(600)
        elif how == "cancel":
            cancel.set()
        elif how == "kill":
            backend.kill()
        elif how == "stop":
            assert await backend.stop() == []
        elif how == "coroutine":
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return pid, None
        return pid, await running

    pid, result = with_backend(root, work, grace_seconds=0.3)
    assert not is_alive(pid)
    if result is not None and how != "stop":
        assert result.termination == "killed"
        assert result.still_running == ()


def test_kill_ends_detached_descendants_of_a_command_that_is_over(root: Path) -> None:
    async def work(backend: LocalBackend, _: asyncio.Event) -> tuple[int, ...]:
        script = f'setsid bash -c "{STUBBORN}" >/dev/null 2>&1 & echo done'
        result = await backend.execute(ProcessRequest(("bash", "-c", script)))
        backend.kill()
        assert await backend.stop() == []
        return result.still_running

    pids = with_backend(root, work, grace_seconds=3600)
    assert pids
    assert not any(is_alive(pid) for pid in pids)


def test_a_detached_descendant_gets_term_and_the_time_to_obey_it(root: Path) -> None:
    os.mkfifo(root / "up")
    script = "setsid bash -c 'trap \"echo bye >> said; exit\" TERM; echo > up; while :; do sleep 300 & wait; done' & "

    async def work(backend: LocalBackend, _: asyncio.Event) -> None:
        await backend.execute(ProcessRequest(("bash", "-c", script + "read x < up")))

    with_backend(root, work, grace_seconds=30)
    assert (root / "said").read_text() == "bye\n"


def test_orphans_that_end_are_reaped_while_the_task_goes_on(root: Path, newcomers: Newcomers) -> None:
    async def work(backend: LocalBackend, _: asyncio.Event) -> None:
        # Each loses its parent: one ends at once, two live on for a while, within the session and outside of it.
        for name in ("one", "two"):
            os.mkfifo(root / name)
        await backend.execute(ProcessRequest(("bash", "-c", "(true &)")))
        left: list[int] = []
        for prefix, name in (("", "one"), ("setsid ", "two")):
            script = f"({prefix}sh -c 'read x < {name}' >/dev/null 2>&1 &)"
            left += (await backend.execute(ProcessRequest(("bash", "-c", script)))).still_running
        left += (await backend.execute(ProcessRequest(("bash", "-c", DAEMON_STARTS)))).still_running
        assert len({*left} & {seen.pid for seen in newcomers.below()}) >= 3
        os.kill(int((root / "daemon").read_text()), signal.SIGKILL)
        for name in ("one", "two"):
            await asyncio.to_thread((root / name).write_text, "now\n")
        async with asyncio.timeout(600):  # Whenever they have ended, the next command has them reaped.
            while newcomers.below():
                await backend.execute(ProcessRequest(("true",)))

    with_backend(root, work)


def test_what_takes_long_to_end_and_can_no_longer_be_told_is_reaped_by_the_stop(
    root: Path, newcomers: Newcomers
) -> None:
    # Killed from outside together with its parent, it has given its memory back already: no environment tells where
    # it came from, and its output went elsewhere all along.
    (root / "large.py").write_text(
        "import mmap, os\n"
        "memory = mmap.mmap(-1, 256 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "memory.madvise(mmap.MADV_NOHUGEPAGE)\n"
        "for page in range(0, len(memory), mmap.PAGESIZE):\n    memory[page] = 1\n"
        "open('up', 'w').write(f'{os.getppid()} {os.getpid()}')\n"
        "open('never')\n"
    )
    for name in ("go", "up", "never"):
        os.mkfifo(root / name)

    async def work(backend: LocalBackend, _: asyncio.Event) -> list[descendants.Seen]:
        script = "(read x < go; python3 large.py >/dev/null 2>&1; true) & echo done"
        await backend.execute(ProcessRequest(("bash", "-c", script)))
        await asyncio.to_thread((root / "go").write_text, "\n")
        for pid in (await asyncio.to_thread((root / "up").read_text)).split():
            os.kill(int(pid), signal.SIGKILL)
        await backend.stop()
        return newcomers.below()

    assert with_backend(root, work) == []


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of kill is that of x86_64")
def test_what_cannot_be_ended_is_reported_as_uncertain_and_by_its_pid(root: Path) -> None:
    os.mkfifo(root / "up")
    program = f"""
import asyncio, sys
from pathlib import Path
from support.workspaces import with_backend
from fluzo.core.contracts import ProcessRequest
_deny(62, {errno.EPERM})
left = []
root = Path(sys.argv[1])
command = ("bash", "-c", "setsid sh -c 'echo > up; exec sleep 300' >/dev/null 2>&1 & exec sleep 300")

async def work(backend, cancel):
    running = asyncio.create_task(backend.execute(ProcessRequest(command)))
    await asyncio.to_thread((root / "up").read_text)
    cancel.set()
    return await running

result = with_backend(root, work, grace_seconds=0.1, survivors=left)
print(result.termination, result.cancelled, *result.still_running, *left)
"""
    pidfd_send_signal = 424
    answer = run_without_call(pidfd_send_signal, errno.EPERM, program, str(root))
    assert answer.stderr == ""
    termination, cancelled, detached, *left = answer.stdout.split()
    try:
        assert (termination, cancelled) == ("uncertain", "True")
        assert len(left) == 2
        assert detached in left
        assert all(is_alive(int(pid)) for pid in left)
    finally:
        for pid in left:  # They are children of this process now: a subreaper above.
            os.kill(int(pid), signal.SIGKILL)
            os.waitpid(int(pid), 0)


# --- not ours -------------------------------------------------------------------------------------------------


def test_children_and_orphans_that_were_not_started_here_are_left_alone(root: Path) -> None:
    # One with a session of its own, one in ours, and what a third one left behind, which is our child by now.
    strangers = [subprocess.Popen(["sleep", "300"], start_new_session=new) for new in (True, False)]
    left_behind = subprocess.run(
        ["bash", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!"], check=True, capture_output=True
    )
    orphan = int(left_behind.stdout)
    statuses = [subprocess.Popen(["sh", "-c", "exit 7"], start_new_session=new) for new in (True, False)]
    for process in statuses:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        result = background(root, "setsid sleep 300 & sleep 300 & echo done")
        assert len(result.still_running) == 2
        assert orphan in [seen.pid for seen in descendants.below() if seen.parent == os.getpid()]
        assert is_alive(orphan)
        assert [process.poll() for process in strangers] == [None, None]
        assert [process.wait() for process in statuses] == [7, 7]
    finally:
        for process in strangers:
            process.kill()
            process.wait()
        os.kill(orphan, signal.SIGKILL)
        os.waitpid(orphan, 0)


def test_statuses_of_other_children_are_never_taken_while_commands_fork(root: Path) -> None:
    async def work(backend: LocalBackend, _: asyncio.Event) -> list[int]:
        statuses = []
        for number in range(40):
            other = subprocess.Popen(["sh", "-c", f"exit {number}"], start_new_session=bool(number % 2))
            await backend.execute(
                ProcessRequest(("bash", "-c", "(true &); (sleep 0.01 &); (setsid sleep 300 >/dev/null 2>&1 &)"))
            )
            statuses.append(other.wait())
        return statuses

    assert with_backend(root, work) == list(range(40))


def test_the_mark_of_another_command_and_an_older_process_prove_nothing(root: Path) -> None:
    environ = {**os.environ, descendants.MARK: "0" * 32}
    with subprocess.Popen(["sleep", "300"], env=environ, start_new_session=True) as impostor:
        reader, writer = os.pipe()
        with subprocess.Popen(["sleep", "300"], start_new_session=True) as leader:
            family = descendants.Family.of(leader.pid, "1" * 32, reader)
            descendants.update([family])
            assert family.members == {}
            family.mark = "0" * 32
            family.started = 2**62
            descendants.update([family])
            assert family.members == {}
            family.started = 0
            descendants.update([family])
            assert list(family.members) == [impostor.pid]
            leader.kill()
        family.close()
        os.close(reader)
        os.close(writer)
        impostor.kill()


def test_the_mark_is_in_the_environment_of_a_command_and_differs_each_time(root: Path) -> None:
    marks = [shell(root, f"echo ${descendants.MARK}").output for _ in range(2)]
    assert marks[0] != marks[1]
    assert all(len(mark.strip()) == 32 for mark in marks)


@pytest.mark.parametrize(
    ("arguments", "looks", "marks"),
    [
        (b"sleep\0", 2, [b"FLUZO_COMMAND=m"]),
        (b"sleep\0", descendants.LOOKS, []),  # One that was started without any.
        (b"", 10 * descendants.LOOKS, [b"FLUZO_COMMAND=m"]),  # The machine had other things to do during the exec.
        (b"", descendants.LOOKS_AT_EXEC, []),
    ],
)
def test_an_environment_that_is_empty_for_a_moment_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, arguments: bytes, looks: int, marks: list[bytes]
) -> None:
    empty = [b""] * looks
    read = Path.read_bytes

    def seen(path: Path) -> bytes:
        if path.name == "environ":
            return empty.pop() if empty else b"HOME=/\0FLUZO_COMMAND=m\0"
        return arguments if path.name == "cmdline" else read(path)

    monkeypatch.setattr(Path, "read_bytes", seen)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert descendants._marks(os.getpid()) == marks
