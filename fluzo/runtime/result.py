"""The result object of a task: one JSON object, the same in every output (docs/headless.md)."""

from collections.abc import Sequence

from fluzo.core.contracts import AttemptOutcome
from fluzo.core.named import NamedTuple
from fluzo.core.records import Attempt, Task
from fluzo.runtime.harness import LoopHarness
from fluzo.workspace.baseline import Changes

RESULT_SCHEMA_VERSION = 1

NO_CHANGES = Changes((), "", False, False, False, "", "", "")


def verification_json(harness: LoopHarness | None, changes: Changes) -> dict[str, object]:
    """The verdict as it stands now, against the revision that the changes were taken at."""
    if harness is None:
        return {"verdict": "not_run", "current": False, "commands": []}
    return harness.verification.to_json(changes.revision)


def end_state(changes: Changes) -> dict[str, object]:
    """The working tree when an attempt ended, as a later resume compares with it."""
    versions = {change.path: change.version.digest for change in changes.files}
    return {"head": changes.head, "branch": changes.branch, "revision": changes.revision, "versions": versions}


class Facts(NamedTuple):
    """What was found out by the end of an attempt."""

    message: str
    changes: Changes
    verification: dict[str, object]
    budget: dict[str, dict[str, object]]
    requests: Sequence[dict[str, object]]
    warnings: Sequence[str]
    yolo: bool


def build(task: Task, attempt: Attempt, outcome: AttemptOutcome, facts: Facts) -> dict[str, object]:
    """Everything a script needs to judge a run. `reason` is empty exactly when `status` is `completed`."""
    return {
        "type": "result",
        "schema_version": RESULT_SCHEMA_VERSION,
        "session_id": task.session_id,
        "task_id": task.id,
        "attempt_id": attempt.id,
        "trace_id": attempt.trace_id,
        "status": outcome.state,
        "reason": outcome.reason,
        "error": _error(outcome),
        "message": facts.message,
        "changes": [
            {
                "path": change.path,
                "status": change.status,
                "added": change.lines_added,
                "removed": change.lines_removed,
                "preexisting": change.preexisting,
                **({"own_lines": change.own_lines} if change.own_lines is not None else {}),
            }
            for change in facts.changes.files
        ],
        "diff": facts.changes.diff,
        "diff_truncated": facts.changes.diff_truncated,
        "git": {"staged": facts.changes.index_changed, "committed": facts.changes.head_moved},
        "verification": facts.verification,
        "budget": facts.budget,
        "permission_requests": list(facts.requests),
        "yolo": facts.yolo,
        "warnings": list(facts.warnings),
    }


def _error(outcome: AttemptOutcome) -> dict[str, object] | None:
    if not outcome.reason:
        return None
    detail = {key: value for key, value in outcome.detail.items() if key != "hint"}
    return {
        "code": outcome.reason,
        "message": outcome.message,
        "hint": outcome.detail.get("hint", ""),
        "detail": detail,
    }
