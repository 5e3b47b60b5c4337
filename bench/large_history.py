"""`make large-history`: a store with a long past, written through the real storage layer, the same from the same seed.

One session of 10,000 messages after some smaller ones; in all at least 100,000 events and 256 MiB of artifacts: tasks
of turns with tool calls, permissions asked and answered, failures, and the outputs that were kept. The folder holds
`.fluzodrive` and `manifest.json`; it is never committed, and used again for as long as it matches its manifest.
"""

import argparse
import hashlib
import json
import random
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from history_text import CALLS, answer, kept_output, listing, task_text, thought

from fluzo.core import events
from fluzo.core.events import Payload, Scope
from fluzo.core.records import (
    Artifact,
    Attempt,
    AttemptState,
    Consumption,
    Grant,
    Limits,
    Message,
    OperationRecord,
    OperationState,
    Session,
    StoredMessage,
    Task,
    TaskState,
    ToolCall,
)
from fluzo.storage import artifacts, database, writes

SEED = 20260105
MESSAGES = 10_000
EVENTS = 100_000
ARTIFACT_BYTES = 256 * 1024 * 1024
PIECE_BYTES = 512 * 1024
MESSAGES_A_TASK = 50
TASKS_A_SESSION = 12
EARLIER_TASKS = 70
DEFAULT_PLACE = Path(__file__).resolve().parents[1] / "build" / "large-history"
BEGIN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
DIGEST = "0" * 64
ROOT = "/home/someone/interval"
IDENTITY = f"1:1:{ROOT}"


class Writer:
    """Rows of the store in one transaction a task; counts and digests everything that is written."""

    def __init__(self, place: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._at = BEGIN
        self._digest = hashlib.sha256()
        self._drive = place / ".fluzodrive"
        self._db, self.project = database.open_writer(self._drive, new_id=self.new_id, now=self.now)
        self.connection: sqlite3.Connection = database.raw(self._db)

    def now(self) -> str:
        """The time of the next thing that happens."""
        self._at += timedelta(milliseconds=40)
        return self._at.isoformat(timespec="microseconds").replace("+00:00", "Z")

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{self.random.getrandbits(40):010x}"

    def put(self, *records: Any) -> None:
        for record in records:
            writes.put(self.connection, record)
            self._digest.update(repr(record).encode())

    def intend(self, operation: OperationRecord, grant_id: str) -> None:
        if grant_id:
            writes.use_grant(self.connection, grant_id, self.now)
        writes.put_intent(self.connection, operation)

    def tell(self, scope: Scope, *payloads: Payload) -> None:
        writes.append(self.connection, [(scope, payload) for payload in payloads], self.now)
        self.counts["events"] += len(payloads)
        self._digest.update(repr((scope, payloads)).encode())

    def keep(self, task_id: str, data: bytes, kind: str = "run") -> str:
        """Store an artifact beside the journal; its id."""
        artifact = Artifact(self.new_id("a"), task_id, kind, len(data), artifacts.digest_of(data), self.now())
        artifacts.store(self._drive / database.ARTIFACTS, artifact.id, data)
        self.put(artifact)
        self.counts["artifacts"] += 1
        self.counts["artifact_bytes"] += len(data)
        return artifact.id

    def together(self, work: Callable[[], None]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        work()
        self.connection.execute("COMMIT")

    def close(self) -> str:
        """The digest of all that was written."""
        self._db.close()
        return self._digest.hexdigest()


class PastTask:
    """One task of the past, turn by turn."""

    def __init__(self, writer: Writer, session: Session, number: int, position: int) -> None:
        self._writer = writer
        self._number = number
        self._turn = 0
        self.position = position
        now, new_id = writer.now, writer.new_id
        task_id, attempt_id = new_id("t"), new_id("a")
        self._scope = Scope(session.id, task_id, attempt_id, trace_id=f"{writer.random.getrandbits(128):032x}")
        text = task_text(writer.random, number)
        limits = Limits(60, 200, 1200, 1_000_000)
        at = now()
        fields = (session.id, f"{writer.random.getrandbits(128):032x}", text, TaskState.PENDING, "", at, at)
        self._task = Task(task_id, *fields, ROOT, IDENTITY, limits)
        self._attempt = Attempt(attempt_id, task_id, self._scope.trace_id, 1, AttemptState.RUNNING, now())

    def write(self, messages: int) -> None:
        """All of it: a message of the person, turns of a call and its result, the answer."""
        writer, scope = self._writer, self._scope
        writer.put(self._task, self._attempt)
        writer.tell(
            scope,
            events.TaskCreated(self._task.text, {"max_turns": 60, "max_tool_calls": 200}),
            events.TaskStateChanged("pending", "ready"),
            events.AttemptStarted(1, "main"),
            events.BaselineCaptured(DIGEST[:40], "main", ()),
            events.ContextAssembled(({"key": "workspace", "source": "git status", "estimated_tokens": 21},)),
        )
        self._become(TaskState.READY)
        self._become(TaskState.RUNNING, tell=True)
        context = "\n\n<context>\nworkspace interval, branch main\nworking tree clean\n</context>"
        self._begin_turn()
        self._message("user", self._task.text + context)
        for _ in range((messages - 2) // 2):
            self._tool_turn()
            self._begin_turn()
        last = answer(writer.random, self._number)
        self._infer(0)
        self._message("assistant", last)
        self._end(last)

    def _become(self, state: TaskState, *, tell: bool = False, **fields: Any) -> None:
        old, self._task = self._task.state, self._task._replace(state=state, updated_at=self._writer.now(), **fields)
        self._writer.put(self._task)
        if tell:
            self._writer.tell(self._scope, events.TaskStateChanged(old, state))

    def _message(self, role: Any, text: str, calls: tuple[ToolCall, ...] = (), answers: str = "") -> None:
        writer, scope = self._writer, self._scope
        self.position += 1
        message = Message(role, text, thought(writer.random) if calls else "", calls, answers)
        where = (scope.session_id, scope.task_id, scope.attempt_id, self._turn, self.position, writer.now())
        stored = StoredMessage(writer.new_id("m"), *where, message)
        writer.put(stored)
        writer.counts["messages"] += 1
        writer.tell(scope, events.MessageRecorded(stored.id, role, self._turn, len(text.encode()), len(calls)))

    def _begin_turn(self) -> None:
        self._turn += 1
        self._writer.tell(self._scope, events.TurnStarted(self._turn))

    def _infer(self, calls: int) -> None:
        writer = self._writer
        used = {"purpose": "agent_turn", "outcome": "complete", "tool_calls": calls, "input_tokens": 9000}
        operation_id = self._operation("model", "infer", "network", f"main turn {self._turn}", "", used)
        writer.tell(self._scope._replace(operation_id=operation_id), events.UsageSettled(9000, 120, 8000, 0, False))

    def _tool_turn(self) -> None:
        writer, number = self._writer, self._turn
        call_id = f"call_{number}"
        tool, action, effect, subject, arguments = CALLS[writer.random.randrange(len(CALLS))](writer.random)
        self._infer(1)
        said = answer(writer.random, number, short=True) if writer.random.random() < 0.4 else ""
        self._message("assistant", said, (ToolCall(call_id, tool, json.dumps(arguments)),))
        text = listing(writer.random)
        result: dict[str, object] = {"lines": text.count("\n") + 1, "size_bytes": len(text)}
        if tool == "run":
            status = writer.random.choice((0, 0, 0, 1))
            result = {"exit_status": status, "elapsed_seconds": 1.8}
            text = f"exit status {status}\n{text}"
        self._operation(tool, action, effect, subject, call_id, result)
        self._message("tool", text, answers=call_id)

    def _operation(self, tool: str, action: Any, effect: str, summary: str, call_id: str, result: Any) -> str:
        """Asked, decided, intended and ended, each as the runtime commits it."""
        writer, operation_id = self._writer, self._writer.new_id("o")
        scope = self._scope._replace(operation_id=operation_id)
        what: Mapping[str, object] = {"tool": tool, "action": action, "workspace": IDENTITY, "backend": "local"}
        print_of = hashlib.sha256(f"{tool} {summary}".encode()).hexdigest()
        where = (scope.task_id, scope.attempt_id, self._turn, call_id)
        record = OperationRecord(
            *(operation_id, *where, tool, action, effect, summary, what, print_of, OperationState.REQUESTED),
            writer.now(),
        )
        writer.put(record)
        writer.counts["operations"] += 1
        writer.tell(scope, events.OperationRequested(tool, action, summary, print_of, self._turn, call_id))
        grant_id = self._permit(scope, tool, summary, what, print_of) if effect in ("write", "execute") else ""
        by = "grant" if grant_id else "policy"
        writer.tell(scope, events.OperationDecided("allow", "within_workspace", by, grant_id))
        record = record._replace(
            state=OperationState.INTENT_COMMITTED, authorized_by="user" if grant_id else by, grant_id=grant_id
        )
        writer.intend(record, grant_id)
        writer.tell(scope, events.OperationIntended(tool, summary, grant_id))
        kept = self._kept(tool)
        ok = result.get("exit_status", 0) == 0
        code = "" if ok else "tool_failed"
        record = record._replace(state=OperationState.KNOWN_RESULT, ended_at=writer.now(), ok=ok, code=code)
        writer.put(record._replace(result=result, artifact_id=kept))
        writer.tell(scope, events.OperationEnded(ok, code, summary, result, kept))
        return operation_id

    def _kept(self, tool: str) -> str:
        writer = self._writer
        if tool != "run" or writer.counts["artifact_bytes"] >= ARTIFACT_BYTES:
            return ""
        return writer.keep(self._scope.task_id, kept_output(writer.random, PIECE_BYTES))

    def _permit(self, scope: Scope, tool: str, summary: str, what: Mapping[str, object], print_of: str) -> str:
        """The person is asked and allows it once."""
        writer = self._writer
        writer.tell(scope, events.PermissionRequested(tool, summary, what, "policy_write"))
        self._become(TaskState.WAITING, tell=True)
        grant = Grant(writer.new_id("g"), "once", "user", scope.task_id, print_of, what, writer.now())
        writer.put(grant)
        writer.tell(
            scope,
            events.GrantCreated(grant.id, "once", "user", what),
            events.PermissionAnswered("once", "user", grant.id),
            events.GrantConsumed(grant.id),
        )
        self._become(TaskState.RUNNING, tell=True)
        return grant.id

    def _end(self, last: str) -> None:
        writer, scope = self._writer, self._scope
        result = {
            **{"type": "result", "schema_version": 1, "session_id": scope.session_id, "task_id": scope.task_id},
            **{"attempt_id": scope.attempt_id, "trace_id": scope.trace_id, "status": "completed", "reason": ""},
            **{"error": None, "message": last, "changes": [], "diff": "", "diff_truncated": False},
            "git": {"staged": False, "committed": False},
            "verification": {"verdict": "unverified", "current": False, "commands": []},
            **{"budget": {}, "permission_requests": [], "yolo": False, "warnings": []},
        }
        writer.put(self._attempt._replace(state=AttemptState.COMPLETED, ended_at=writer.now()))
        used = Consumption(self._turn, self._turn - 1, 60.0, 0.0, 9000 * self._turn, 120 * self._turn)
        writer.tell(scope, events.AttemptEnded("completed"))
        self._become(TaskState.COMPLETED, tell=True, consumption=used, final_message=last, result=result)
        writer.counts["tasks"] += 1


def generate(place: Path, seed: int = SEED) -> dict[str, Any]:
    """Write the store into an empty folder and return its manifest."""
    writer = Writer(place, seed)
    earlier = 0
    session, position = _session(writer), 0
    while earlier < EARLIER_TASKS:
        if earlier and earlier % TASKS_A_SESSION == 0:
            session, position = _session(writer), 0
        position = _task(writer, session, earlier, position)
        earlier += 1
    large, position, number = _session(writer), 0, earlier
    while position < MESSAGES:
        position = _task(writer, large, number, position)
        number += 1
    _compact(writer, large, position)
    counts = dict(writer.counts)
    digest = writer.close()
    size, state = _database(place)
    if counts["events"] < EVENTS or counts["artifact_bytes"] < ARTIFACT_BYTES:
        raise SystemExit(f"the history came out too small: {counts}")
    return {
        **{"generator": _generator(), "seed": seed, "session": large.id, "session_messages": position},
        **{"counts": counts, "digest": digest, "database_bytes": size, "database_digest": state},
    }


def _session(writer: Writer) -> Session:
    session = Session(writer.new_id("s"), writer.project.id, task_text(writer.random, 0), writer.now(), writer.now())

    def begin() -> None:
        writer.put(session)
        writer.tell(Scope(session.id), events.SessionCreated(session.title))

    writer.together(begin)
    writer.counts["sessions"] += 1
    return session


def _task(writer: Writer, session: Session, number: int, position: int) -> int:
    task = PastTask(writer, session, number, position)
    writer.together(lambda: task.write(MESSAGES_A_TASK))
    writer.together(lambda: writer.put(session._replace(updated_at=writer.now())))
    return task.position


def _compact(writer: Writer, session: Session, position: int) -> None:
    """Whoever goes on in this session is shown a summary, as after every conversation of such a length."""
    text = "Many functions of the interval package were read, repaired and tested. Nothing is left to do."
    kept = {
        **{"schema_version": 1, "kind": "compaction", "through_position": position, "messages": position},
        **{"request": "", "summary": text, "text": text},
        **{"estimated_tokens_before": 100_000, "estimated_tokens_after": 40},
    }

    def move() -> None:
        artifact_id = writer.keep("", json.dumps(kept).encode(), "compaction")
        context = {"artifact_id": artifact_id, "through_position": position}
        writer.put(session._replace(updated_at=writer.now(), context=context))
        done = events.ContextCompacted(artifact_id, "threshold", 100_000, 40, 1, position, position, 128_000)
        writer.tell(Scope(session.id), done)

    writer.together(move)


def _database(place: Path) -> tuple[int, str]:
    data = (place / ".fluzodrive" / database.DATABASE).read_bytes()
    return len(data), hashlib.sha256(data).hexdigest()


def _generator() -> str:
    """What generates: a store of another generator is made anew."""
    here = Path(__file__)
    return hashlib.sha256(here.read_bytes() + here.with_name("history_text.py").read_bytes()).hexdigest()


def ensure(place: Path = DEFAULT_PLACE, seed: int = SEED) -> dict[str, Any]:
    """The manifest of the store in this folder, which is made anew when it is not what its manifest says."""
    path = place / "manifest.json"
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
        if _matches(place, manifest, seed):
            return manifest
    except (OSError, ValueError, KeyError):
        pass
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    manifest = generate(place, seed)
    path.write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


def _matches(place: Path, manifest: Mapping[str, Any], seed: int) -> bool:
    kept = artifacts.size_of(place / ".fluzodrive" / database.ARTIFACTS)
    return (
        (manifest["generator"], manifest["seed"]) == (_generator(), seed)
        and _database(place) == (manifest["database_bytes"], manifest["database_digest"])
        and kept == manifest["counts"]["artifact_bytes"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate the large history, unless it is there already.")
    parser.add_argument("place", nargs="?", type=Path, default=DEFAULT_PLACE, help="folder (default: build/)")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    began = time.monotonic()
    manifest = ensure(options.place, options.seed)
    print(json.dumps(manifest, indent=2))
    print(f"{time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
