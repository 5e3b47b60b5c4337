"""Every call of the store fails once, and from then on: nothing happens without its record, and the task goes on."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import evidence
from support.faulty import FaultyStorage
from support.hosted import Running, start, workspace
from support.interrupted import COMMAND, EDIT, RUN, point_at, second_part
from support.project import FLUZO, call, make_project, say, scripted

from fluzo.core.errors import FluzoError, StorageError
from fluzo.core.events import Event, TextDelta
from fluzo.core.port import (
    AnswerPermission,
    AnswerQuestion,
    CancelTask,
    PendingRequests,
    ResumePlan,
    ResumeTask,
    TaskList,
    Update,
)
from fluzo.host import Host, HostOptions, open_host
from fluzo.simulator.server import Simulator
from fluzo.storage.journal import Journal

ASK = call("ask_user", {"question": "Which colour?"}, "q1")
HELD = {"respond": {"parts": [{"text": "half an ans"}, {"hold": "gate"}, {"text": "wer"}]}}
CHECK = ("test", "-e", "ran")
DEADLINE_SECONDS = 120.0
"""Nothing here takes as long; it only keeps a hang from lasting for ever."""


@dataclass
class Follower:
    """Follows a task to its end, whatever fails on the way, and keeps what was published."""

    host: Host
    published: list[int] = field(default_factory=list)

    def follow(self, running: Running, on: Callable[[Update], None] = lambda _: None) -> None:
        subscription = running.subscription
        while not subscription.ended:
            update = subscription.next(DEADLINE_SECONDS)
            assert update is not None or subscription.ended, "the task neither goes on nor ends"
            if isinstance(update, Event):
                self.published.append(update.seq)
            if update is not None:
                on(update)


def play_approved(follower: Follower) -> None:
    """Everything that is asked is answered: a permission once, a question; then the checks run."""
    running = start(follower.host, interactive=True, verify=(CHECK,))
    task_id = running.ack.task_id

    def answer(update: Update) -> None:
        if not isinstance(update, Event) or update.type != "TaskStateChanged":
            return
        for asked in follower.host.port.query(PendingRequests(task_id)).result(60).data["pending"]:
            if asked["kind"] == "question":
                running.tell(AnswerQuestion(task_id, asked["operation_id"], "red"))
            else:
                running.tell(AnswerPermission(task_id, asked["operation_id"], asked["fingerprint"], "once"))

    follower.follow(running, answer)


def play_cancelled(follower: Follower) -> None:
    """The user cancels while the model answers."""
    running = start(follower.host, allow=(COMMAND,))

    def cancel(update: Update) -> None:
        if isinstance(update, TextDelta):
            running.tell(CancelTask(running.ack.task_id))

    follower.follow(running, cancel)


def play_taken_back(follower: Follower) -> None:
    """The user cancels instead of answering."""
    running = start(follower.host, interactive=True)

    def cancel(update: Update) -> None:
        if isinstance(update, Event) and update.type == "PermissionRequested":
            running.tell(CancelTask(running.ack.task_id))

    follower.follow(running, cancel)


def play_resumed(follower: Follower) -> None:
    """A task that was blocked goes on with what it lacked."""
    first = start(follower.host)
    follower.follow(first)
    follower.follow(go_on(follower.host, first.ack.task_id))


def go_on(host: Host, task_id: str) -> Running:
    plan = host.port.query(ResumePlan(task_id)).result(60).data
    command = ResumeTask(os.urandom(8).hex(), task_id, plan["reconciled"], allow=(COMMAND,))
    ack = host.port.dispatch(command).result(60)
    return Running(host, ack, host.port.subscribe(task_id, ack.cursor))


@dataclass(frozen=True)
class Story:
    steps: tuple[Mapping[str, Any], ...]
    play: Callable[[Follower], None]
    least_calls: int


STORIES = {
    "approved": Story((EDIT, RUN, ASK, say("done")), play_approved, 40),
    "cancelled": Story((EDIT, RUN, HELD), play_cancelled, 25),
    "taken-back": Story((EDIT, RUN), play_taken_back, 20),
    "resumed": Story((EDIT, RUN, {**RUN, "expect": {}}, say("done")), play_resumed, 35),
}


@contextmanager
def faulty_store(monkeypatch: pytest.MonkeyPatch, fail_at: int, persistent: bool) -> Iterator[list[FaultyStorage]]:
    """Every journal that is opened fails at its n-th call, as on a full disk."""
    made: list[FaultyStorage] = []
    real = Journal.open

    async def opened(*args: Any, **more: Any) -> Any:
        store = FaultyStorage(await real(*args, **more), fail_at, persistent=persistent)
        made.append(store)
        return store

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "open", opened)
        yield made


@pytest.mark.parametrize("persistent", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("name", STORIES)
def test_whatever_call_of_the_store_fails_nothing_is_done_without_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, persistent: bool
) -> None:
    story, fail_at, met = STORIES[name], 1, True
    gone_on: list[object] = []
    while met:
        root = tmp_path / str(fail_at)
        with Simulator(scripted(*story.steps)) as simulator:
            workspace(root, simulator.base_url)
            with faulty_store(monkeypatch, fail_at, persistent) as stores:
                published = played_through(root, story)
            evidence.assert_sound(root, len(simulator.requests), published)
        assert_no_effect_after_an_open_one(root)
        met = bool(stores) and stores[0].met
        left = what_is_left(root)
        if left not in gone_on:
            gone_on.append(left)
            assert_goes_on(root)
        fail_at += 1
    assert fail_at > story.least_calls


def played_through(root: Path, story: Story) -> list[int]:
    published: list[int] = []
    try:
        with open_host(HostOptions(root)) as host:
            story.play(Follower(host, published))
    except StorageError:
        pass  # Refused, and said so: that is all a full disk allows.
    except FluzoError as error:
        assert error.code in ("not_found", "usage"), error  # The second half of a story whose first half failed.
    return published


def what_is_left(root: Path) -> object:
    """What a resume starts from; a failed read leaves the same as the one before."""
    tasks = evidence.rows(root / ".fluzodrive", "SELECT state, reason FROM tasks")
    operations = [(item["summary"], item["state"]) for item in evidence.operations(root / ".fluzodrive")]
    return tasks, operations, evidence.ran(root), evidence.edited(root)


def assert_no_effect_after_an_open_one(root: Path) -> None:
    """Once the end of an effect could not be recorded, its attempt began no other."""
    attempts: dict[str, bool] = {}
    for item in evidence.operations(root / ".fluzodrive"):
        began = item["state"] in ("intent_committed", "known_result", "unknown")
        assert not (began and attempts.get(item["attempt_id"])), item
        attempts[item["attempt_id"]] = attempts.get(item["attempt_id"], False) or item["state"] == "intent_committed"


def assert_goes_on(root: Path) -> None:
    """With the disk in order again: nothing counts as running, and a resume repeats nothing that is unknown."""
    before = evidence.ran(root)
    with Simulator(second_part()) as simulator:
        point_at(root, simulator.base_url)
        with open_host(HostOptions(root)) as host:
            tasks = host.port.query(TaskList()).result(60).data["tasks"]
            assert {task["state"] for task in tasks} <= {"blocked", "completed", "cancelled"}
            if [task["state"] for task in tasks] != ["blocked"]:
                return
            plan = host.port.query(ResumePlan(tasks[0]["id"])).result(60).data
            detail = go_on(host, tasks[0]["id"]).finish()
        evidence.assert_sound(root, len(simulator.requests))
    unknown = " ".join(item["summary"] for item in plan["unknown"])
    command_is_open, check_is_open = "echo run" in unknown, "test -e" in unknown
    assert detail["task"]["reason"] == ("permission_required" if command_is_open or check_is_open else "")
    assert evidence.ran(root) == before + (not command_is_open)


SIZES_KIB = (160, 224, 256, 288, 416, 640, 4096)
"""From one in which no store can be made to one in which the task ends."""


def can_mount() -> bool:
    script = "mount -t tmpfs -o size=64k tmpfs /mnt"
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, check=False).returncode
    )


def test_a_disk_that_is_really_full_is_said_to_be_and_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("needs user namespaces with mount (unshare -rm) for a small disk of its own")
    refused = 0
    for size in SIZES_KIB:
        root = tmp_path / str(size)
        with Simulator(scripted(EDIT, RUN, say("x" * 20_000))) as simulator:
            make_project(root, simulator.base_url)
            (root / ".fluzodrive").mkdir(0o700)
            done = on_a_disk_of(size, root)
            drive = root / ".kept"
            evidence.assert_sound(root, len(simulator.requests), drive=drive)
        assert [row["integrity_check"] for row in evidence.rows(drive, "PRAGMA integrity_check")] in ([], ["ok"])
        if done.returncode == 0:
            break
        refused += 1
        words = done.stderr.decode()
        assert done.returncode == 10, words
        assert "is full" in words and "Traceback" not in words
    assert done.returncode == 0, "the last disk was large enough"
    assert refused >= 2, "the first ones were not"


def on_a_disk_of(size_kib: int, root: Path) -> "subprocess.CompletedProcess[bytes]":
    """Run a task with `.fluzodrive` on a small file system of its own, and keep a copy of what is left there."""
    script = (
        f"mount -t tmpfs -o size={size_kib}k,mode=0700 tmpfs .fluzodrive && "
        f"{FLUZO} run --allow \"sh -c 'echo run >> ran'\" 'do it'; status=$?; cp -a .fluzodrive .kept; exit $status"
    )
    argv = ["unshare", "-rm", "sh", "-c", script]
    return subprocess.run(argv, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
