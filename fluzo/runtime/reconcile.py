"""Reconciliation: what a task left behind against what is there now (PRD 22.1).

Pure: records and an observation in, a plan out. Nothing is guessed: what cannot be observed is called unknown, and
every difference is named. The plan has a digest, so that the user goes on from exactly what they have seen.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from fluzo.core.named import NamedTuple
from fluzo.core.records import Attempt, OperationRecord, OperationState, Task, TaskState
from fluzo.runtime.workspace import Observed

RISK = "doing it again may do it twice: whether it was done the first time is not known"

_UNSETTLED = (OperationState.UNKNOWN, OperationState.INTENT_COMMITTED, OperationState.DISPATCHED)


class Plan(NamedTuple):
    """`differences` and `unknown` are plain JSON objects with a `text` for people.

    `limit` is the used-up limit that blocked the task, if one did: `grants.used_up`.
    """

    task: Task
    previous: Attempt
    differences: tuple[dict[str, object], ...]
    unknown: tuple[dict[str, object], ...]
    digest: str
    limit: Mapping[str, object] | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "task_id": self.task.id,
            "attempt_id": self.previous.id,
            "attempt_number": self.previous.number,
            "differences": list(self.differences),
            "unknown": list(self.unknown),
            "limit": self.limit,
            "reconciled": self.digest,
            "resumable": self.task.state is TaskState.BLOCKED or self.task.state not in _ENDED,
        }


_ENDED = (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELLED)


def watched_paths(attempts: Sequence[Attempt], operations: Iterable[OperationRecord]) -> set[str]:
    """Every path of which the records know a version."""
    paths = set(_recorded(attempts))
    for operation in operations:
        paths.update(_effects(operation).get("intended", {}))
    return paths


def plan(
    task: Task, attempts: Sequence[Attempt], operations: Sequence[OperationRecord], identity: str, now: Observed
) -> Plan:
    """Compare the records of a task with the workspace as it is."""
    previous = attempts[-1]
    unsettled = [operation for operation in operations if operation.state in _UNSETTLED]
    differences = [*_place(task, previous, identity, now), *_files(attempts, operations, unsettled, now)]
    unknown = [_unknown(operation, now) for operation in unsettled]
    seen = json.dumps([identity, previous.id, differences, unknown], sort_keys=True, default=str)
    return Plan(task, previous, tuple(differences), tuple(unknown), hashlib.sha256(seen.encode()).hexdigest())


def repeat_guard(operations: Iterable[OperationRecord]) -> dict[str, str]:
    """Scope fingerprint -> operation id of everything that may have happened already without our knowing."""
    guarded = {}
    for operation in operations:
        if operation.state in _UNSETTLED and operation.effect in ("write", "execute"):
            guarded[str(operation.scope.get("guard", ""))] = operation.id
    return guarded


def continuation(plan: Plan, text: str) -> str:
    """What the agent is told when a task goes on."""
    what = "stopped at a limit" if plan.limit is not None else "was interrupted"
    parts = [f"The task {what} and now goes on. Earlier file contents and test results may be out of date."]
    if plan.differences:
        parts.append("Since then:\n" + "\n".join(f"- {item['text']}" for item in plan.differences))
    if plan.unknown:
        parts.append(
            "Of these it is not known whether they were done. Check before you repeat any of them:\n"
            + "\n".join(f"- {item['text']}" for item in plan.unknown)
        )
    if text:
        parts.append(text)
    return "\n\n".join(parts)


# --- comparing ------------------------------------------------------------------------------------------------


def _recorded(attempts: Sequence[Attempt]) -> dict[str, str]:
    """Digest of each file as the newest record of the working tree has it."""
    found: dict[str, str] = {}
    for attempt in attempts:
        for state in (attempt.baseline, _mapping(attempt.baseline.get("end"))):
            found.update({str(key): str(value) for key, value in _mapping(state.get("versions")).items()})
    return found


def _place(task: Task, previous: Attempt, identity: str, now: Observed) -> Iterable[dict[str, object]]:
    if task.workspace_identity != identity:
        text = f"the workspace is another one: the task belongs to {task.workspace_root}"
        yield {"what": "workspace", "recorded": task.workspace_identity, "now": identity, "text": text}
    recorded = _mapping(previous.baseline.get("end")) or previous.baseline
    for what, current in (("branch", now.branch), ("head", now.head)):
        old = recorded.get(what)
        if old is not None and old != current:
            text = f"the {what} was {old or 'none'} and is {current or 'none'}"
            yield {"what": what, "recorded": old, "now": current, "text": text}


def _files(
    attempts: Sequence[Attempt],
    operations: Sequence[OperationRecord],
    unsettled: Sequence[OperationRecord],
    now: Observed,
) -> Iterable[dict[str, object]]:
    expected = _recorded(attempts)
    last = attempts[-1].id if "end" not in attempts[-1].baseline else ""
    for operation in operations:
        if operation.attempt_id == last and operation.ok:
            expected.update(_effects(operation).get("intended", {}))
    open_paths = {path for operation in unsettled for path in _effects(operation).get("intended", {})}
    for path, digest in sorted(expected.items()):
        current = now.digests.get(path, "")
        if path not in open_paths and current != digest:
            text = f"{path} {_change(digest, current)} since the task last saw it"
            yield {"what": "file", "path": path, "recorded": digest, "now": current, "text": text}


def _unknown(operation: OperationRecord, now: Observed) -> dict[str, object]:
    observed = _observation(operation, now)
    return {
        "operation_id": operation.id,
        "tool": operation.tool,
        "summary": operation.summary,
        "observed": observed,
        "risk": "" if operation.effect == "network" else RISK,
        "text": f"{operation.tool} {operation.summary}: {observed}",
    }


def _observation(operation: OperationRecord, now: Observed) -> str:
    if operation.effect == "network":
        return "whether the server finished it, and what it cost, is not known"
    effects = _effects(operation)
    intended, before = effects.get("intended", {}), effects.get("before", {})
    if not intended:
        return "what the command did can not be told from here"
    if all(now.digests.get(path, "") == digest for path, digest in intended.items()):
        return "the file now is what it was meant to become"
    if all(now.digests.get(path, "") == before.get(path, "") for path in intended):
        return "the file is as it was before"
    return "the file is neither what it was nor what it was meant to become"


def _change(old: str, new: str) -> str:
    if not new:
        return "is gone"
    return "appeared" if not old else "changed"


def _effects(operation: OperationRecord) -> Mapping[str, Mapping[str, str]]:
    effects = operation.scope.get("effects")
    return effects if isinstance(effects, Mapping) else {}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
