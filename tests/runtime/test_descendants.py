"""Descendants that leave: new sessions, double forks, changed environments; and children that are not ours to end."""

import asyncio
import errno
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.seccomp import run_without_call
from support.workspaces import is_alive, make_repository, now_in_ticks, shell, with_backend

from fluzo.core.contracts import ProcessRequest
from fluzo.core.records import ProcessResult
from fluzo.workspace import descendants
from fluzo.workspace.local import LocalBackend
from fluzo.workspace.syscalls import become_subreaper

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
def nothing_is_left() -> Iterator[None]:
    become_subreaper()
    begun = now_in_ticks()  # What other tests left behind may end at any time, but has begun before.
    yield
    left = [seen for seen in descendants.below() if seen.started >= begun]
    assert left == [], "processes or zombies below this one"


def background(root: Path, script: str, **options: float) -> ProcessResult:
    """Run a script whose children stay; they must be named, and gone after the stop."""
    survivors: list[int] = []
    request = ProcessRequest(("bash", "-c", script), timeout_seconds=20)
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
        listed, table = list(descendants._by_lists()), list(descendants._by_table())
        assert sorted(seen.pid for seen in listed) == sorted(seen.pid for seen in table)
        assert {process.pid} < {seen.pid for seen in listed}
        below = [seen for seen in listed if seen.parent == process.pid]
        os.kill(below[0].pid, signal.SIGKILL)


# --- ended ----------------------------------------------------------------------------------------------------

STUBBORN = "trap '' TERM; while :; do sleep 300; done"


@pytest.mark.parametrize("how", ["timeout", "cancel", "kill", "stop", "coroutine"])
def test_every_end_takes_stubborn_descendants_in_other_sessions_along(root: Path, how: str) -> None:
    os.mkfifo(root / "up")
    script = f'setsid bash -c "echo \\$\\$ > up; {STUBBORN}" >/dev/null 2>&1 & {STUBBORN}'

    async def work(backend: LocalBackend, cancel: asyncio.Event) -> tuple[int, ProcessResult | None]:
        seconds = 1.0 if how == "timeout" else 60.0
        running = asyncio.create_task(backend.execute(ProcessRequest(("bash", "-c", script), timeout_seconds=seconds)))
        pid = int(await asyncio.to_thread((root / "up").read_text))
        assert is_alive(pid)
        if how == "cancel":
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

    pid, result = with_backend(root, work)
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


def test_orphans_that_end_are_reaped_while_the_task_goes_on(root: Path) -> None:
    async def work(backend: LocalBackend, _: asyncio.Event) -> list[descendants.Seen]:
        # Each loses its parent: one ends at once, two live on for a while, within the session and outside of it.
        os.mkfifo(root / "end")
        wait = "sh -c 'read x < end' >/dev/null 2>&1"
        left: list[int] = []
        for script in ("(true &)", f"({wait} &)", f"(setsid {wait} &)", f"{DAEMON_STARTS}"):
            left += (await backend.execute(ProcessRequest(("bash", "-c", script)))).still_running
        assert len(left) == 3
        held = [os.pidfd_open(pid) for pid in left]
        os.kill(int((root / "daemon").read_text()), signal.SIGKILL)
        (root / "end").write_text("1\n2\n")
        for fd in held:
            await asyncio.to_thread(select.select, [fd], [], [])
            os.close(fd)
        await backend.execute(ProcessRequest(("true",)))
        return [seen for seen in descendants.below() if seen.started >= begun]

    become_subreaper()
    begun = now_in_ticks()
    assert with_backend(root, work) == []


def test_what_takes_long_to_end_and_can_no_longer_be_told_is_reaped_by_the_stop(root: Path) -> None:
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
        (root / "go").write_text("\n")
        for pid in (await asyncio.to_thread((root / "up").read_text)).split():
            os.kill(int(pid), signal.SIGKILL)
        await backend.stop()
        return [seen for seen in descendants.below() if seen.started >= begun]

    become_subreaper()
    begun = now_in_ticks()
    assert with_backend(root, work) == []


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of kill is that of x86_64")
def test_what_cannot_be_ended_is_reported_as_uncertain_and_by_its_pid(root: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from support.workspaces import with_backend
from fluzo.core.contracts import ProcessRequest
_deny(62, {errno.EPERM})
left = []
command = ("bash", "-c", "setsid sleep 300 >/dev/null 2>&1 & exec sleep 300")
request = ProcessRequest(command, timeout_seconds=0.3)
result = with_backend(Path(sys.argv[1]), lambda backend, _: backend.execute(request), survivors=left)
print(result.termination, result.timed_out, *result.still_running, *left)
"""
    pidfd_send_signal = 424
    answer = run_without_call(pidfd_send_signal, errno.EPERM, program, str(root))
    assert answer.stderr == ""
    termination, timed_out, detached, *left = answer.stdout.split()
    try:
        assert (termination, timed_out) == ("uncertain", "True")
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


def test_an_environment_that_is_empty_for_a_moment_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [b"", b"", b"HOME=/\0FLUZO_COMMAND=m\0"]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda self: looks.pop(0))
        assert descendants._marks(os.getpid()) == [b"FLUZO_COMMAND=m"]
        looks[:] = [b""] * descendants.LOOKS
        assert descendants._marks(os.getpid()) == []
    assert looks == []
