"""What came from a command: its descendants, wherever they went, held by pidfd before anything is sent to them.

This process is a child subreaper (prctl(2)): whoever below us loses its parent becomes our child, so all that a
command started is found below us, also after a double fork and in a new session. Invariant: a process counts to a
command only on proof, and the proof is taken after its pidfd was opened and holds while that pidfd says it lives, so
it is about that very process and no later one with its number. Proof is one of

- its parent counts, or is the command itself;
- it is in one session with the command or with a process that counts;
- it lost its parent to us, began after the command, and has the command's random mark in the environment it was
  started with, or the command's output pipe as its own output.

"A child of ours that nobody knows" is no proof: other code in this process starts children too, and what those leave
behind is not ours to end. For the same reason nothing is reaped but what counts and what cannot be a direct child.

Limits: a process that has left the session, has lost its parent, has cleared or overwritten its environment and has
turned its output elsewhere, all before anyone looked, is not found; nor is what another service was asked to start.
One that led a session of its own, lost its parent and ended before anyone looked stays a zombie until we end.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MARK = "FLUZO_COMMAND"
"""The variable that carries a command's mark."""

LOOKS, LOOK_AGAIN_SECONDS = 8, 0.001
"""How often an empty environment is looked at: one that is just executing a program has none for a moment, ..."""
LOOKS_AT_EXEC = 1000
"""... which lasts as long as a busy machine keeps it from going on; that it has no arguments either tells it apart."""

_LISTED = Path(f"/proc/self/task/{os.getpid()}/children").exists()
"""Whether this kernel lists children (CONFIG_PROC_CHILDREN); if not, every process is asked for its parent."""


EXITING = 0x4
"""PF_EXITING among the flags of proc(5): it is ending, and its memory and descriptors go or are gone."""


class Seen(NamedTuple):
    """One look at a process (proc(5)); `started` in clock ticks since boot. What `ended` waits to be reaped."""

    pid: int
    parent: int
    group: int
    session: int
    exiting: bool
    ended: bool
    started: int


@dataclass(slots=True)
class Family:
    """A command and what came from it. `members` are pidfds by pid: they can never mean another process."""

    leader: int
    mark: str
    output: str
    """The pipe it writes to, as /proc names it."""
    pidfd: int
    started: int
    members: dict[int, int] = field(default_factory=dict)
    reaped: bool = False
    """The command's status was collected; from then on its number alone proves nothing."""

    @classmethod
    def of(cls, leader: int, mark: str, pipe: int) -> "Family":
        """The family of a child of ours that nobody has reaped, with its mark and the reading end of its output."""
        seen = look_at(leader)
        started = seen.started if seen else 0
        return cls(leader, mark, f"pipe:[{os.fstat(pipe).st_ino}]", os.pidfd_open(leader), started)

    def living(self) -> list[int]:
        return sorted(pid for pid, fd in self.members.items() if not has_ended(fd))

    def close(self) -> None:
        for fd in (self.pidfd, *self.members.values()):
            os.close(fd)
        self.members.clear()


# --- looking --------------------------------------------------------------------------------------------------


def has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def look_at(pid: int) -> Seen | None:
    """State, parent, group, session and start of a process; None when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    parent, group, session = (int(field) for field in fields[1:4])
    exiting, ended = bool(int(fields[6]) & EXITING), fields[0] in (b"Z", b"X")
    return Seen(pid, parent, group, session, exiting, ended, int(fields[19]))


def below() -> list[Seen]:
    """Every process below this one, parents before their children, those included that ended and wait to be reaped.

    The lists of the kernel may lack one when another ends at that moment: what must be certain is looked at twice.
    """
    return list(_by_lists() if _LISTED else _by_table())


def _by_lists() -> Iterator[Seen]:
    todo = [os.getpid()]
    for pid in todo:  # Grows meanwhile.
        for child in _children(pid):
            if seen := look_at(child):
                todo.append(child)
                yield seen


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (thread / "children").read_bytes().split())
    return found


def _by_table() -> Iterator[Seen]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    table = [seen for pid in pids if (seen := look_at(pid))]
    todo = [os.getpid()]
    for pid in todo:  # Grows meanwhile.
        for seen in table:
            if seen.parent == pid:
                todo.append(seen.pid)
                yield seen


# --- counting -------------------------------------------------------------------------------------------------


def update(families: Sequence[Family]) -> bool:
    """Bring the members of every family up to date, and reap what ended after it lost its parent to us.

    Says whether there is anything that is just ending and has to be reaped by a later call.
    """
    for family in families:
        for pid, fd in list(family.members.items()):
            if has_ended(fd):
                _reap(fd)
                os.close(family.members.pop(pid))
    if not _has_children():
        return False
    seen = below()
    while _count(families, seen):
        pass  # Whoever counts now may be the proof for another one.
    return _reap_strays(families, seen)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _count(families: Sequence[Family], seen: Iterable[Seen]) -> bool:
    """Add what is proven to come from a command to its family; says whether there was anything."""
    known = {pid for family in families for pid in (*family.members, family.leader)}
    added = False
    for process in seen:
        if process.pid in known or process.ended:
            continue
        try:
            fd = os.pidfd_open(process.pid)
        except OSError:
            continue  # It has ended; or no descriptor is left, and then nothing can be held.
        family = _origin(families, process.pid)
        if family is None or has_ended(fd):
            os.close(fd)
        else:
            family.members[process.pid] = fd
            added = True
    return added


def _origin(families: Sequence[Family], pid: int) -> Family | None:
    now = look_at(pid)
    if now is None:
        return None
    older = [family for family in families if family.started <= now.started]
    proven = (family for family in older if _is_related(family, now))
    if now.parent != os.getpid():
        return next(proven, None)
    if (found := next(proven, None)) is not None:
        return found
    outputs = _outputs(pid)
    if (found := next((family for family in older if family.output in outputs), None)) is not None:
        return found
    marks = _marks(pid)
    return next((family for family in older if f"{MARK}={family.mark}".encode() in marks), None)


def _is_related(family: Family, process: Seen) -> bool:
    if not family.reaped and family.leader in (process.parent, process.session):
        return True
    return any(
        (process.parent == member or process.session == _session(member)) and not has_ended(fd)
        for member, fd in family.members.items()
    )


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _marks(pid: int) -> list[bytes]:
    environment = b""
    for look in range(1, LOOKS_AT_EXEC + 1):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            if environment or (look >= LOOKS and not _is_at_exec(pid)):
                break
        except OSError:  # Gone, or it runs as another user.
            return []
        time.sleep(LOOK_AGAIN_SECONDS)
    return [entry for entry in environment.split(b"\0") if entry.startswith(f"{MARK}=".encode())]


def _is_at_exec(pid: int) -> bool:
    """Whether a process without an environment is between two programs. Raises OSError."""
    seen = look_at(pid)
    return seen is not None and not (seen.exiting or seen.ended) and not Path(f"/proc/{pid}/cmdline").read_bytes()


def _outputs(pid: int) -> list[str]:
    # Standard output and error only: a child that is just being started elsewhere in this process has, for a moment,
    # copies of all our descriptors.
    found = []
    for number in (1, 2):
        with contextlib.suppress(OSError):
            found.append(str(Path(f"/proc/{pid}/fd/{number}").readlink()))
    return found


# --- reaping --------------------------------------------------------------------------------------------------


def _reap(pidfd: int) -> None:
    with contextlib.suppress(ChildProcessError):  # It still had its own parent, who does this.
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)


def _reap_strays(families: Iterable[Family], seen: Iterable[Seen]) -> bool:
    """Reap children of ours that ended and were certainly not started here, so that nobody waits for their status.
    Says whether one of them is still ending; with its memory and descriptors gone it may not count to any family.

    A direct child is born into our session and can leave it only for one of its own number. So one in a session of
    another number is none, and neither is one that leads the session of a process that counts.
    """
    ours = os.getsid(0)
    led = {_session(pid) for family in families for pid, fd in family.members.items() if not has_ended(fd)}
    led -= {family.leader for family in families}
    ending = False
    for process in seen:
        stray = process.session not in (process.pid, ours) or process.pid in led
        if not stray or process.parent != os.getpid():
            continue
        ending = ending or (process.exiting and not process.ended)
        if process.ended:
            with contextlib.suppress(OSError):
                fd = os.pidfd_open(process.pid)
                try:
                    if look_at(process.pid) == process:
                        _reap(fd)
                finally:
                    os.close(fd)
    return ending


# --- signals --------------------------------------------------------------------------------------------------


def tell(family: Family, number: signal.Signals, told: set[int]) -> None:
    """Send a signal to every process of the family that is not among `told`; adds those it was sent to."""
    fresh = {pid: fd for pid, fd in family.members.items() if pid not in told}
    by_group = {pid for pid, fd in fresh.items() if _group(pid) == family.leader and not has_ended(fd)}
    if family.leader in told or (family.reaped and not by_group):
        by_group = set()
    else:
        # First and at once: nobody forks out of a signal to the group. The kernel gives the group's number to
        # others only when its last member is gone.
        with contextlib.suppress(ProcessLookupError, PermissionError):  # Set-user-id children are not ours.
            os.killpg(family.leader, number)
    for pid in fresh.keys() - by_group:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(fresh[pid], number)
    told.update(fresh, {family.leader})


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return -1
