"""Grants and limits that a task begins or goes on with: what the user named, as exact scopes, and nothing else."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fluzo.core.errors import BudgetError, UsageError
from fluzo.core.events import GrantCreated, LimitsExtended
from fluzo.core.records import Grant, GrantIssuer, Limits, OperationRecord, Task
from fluzo.policy.scope import fingerprint, process_operation, scope_of
from fluzo.runtime.reconcile import Plan
from fluzo.runtime.services import Services

LIMIT_NAMES = ("max_turns", "max_tool_calls", "max_active_seconds", "max_total_tokens")


def task_grants(services: Services, task: Task, allow: tuple[tuple[str, ...], ...]) -> list[Grant]:
    """For `--allow`, for the declared checks, and for the standing grants that were consented to."""
    named: list[tuple[GrantIssuer, tuple[str, ...]]] = [
        *(("flag", argv) for argv in allow),
        *(("verification", argv) for argv in task.verification),
    ]
    grants = [_grant(services, task, issuer, argv=argv) for issuer, argv in named]
    for entry in services.defaults.standing_grants:
        argv = entry.get("argv")
        vector = tuple(argv) if isinstance(argv, list | tuple) else ()
        script, cwd = str(entry.get("script", "")), str(entry.get("cwd", "."))
        grants.append(_grant(services, task, "settings", argv=vector, script=script, cwd=cwd))
    return grants


def retry_grants(
    services: Services, plan: Plan, operations: Sequence[OperationRecord], retry: Sequence[str]
) -> list[Grant]:
    """One use each, for exactly the unknown operations that the user named. Raises UsageError for another id."""
    unknown = {str(item["operation_id"]) for item in plan.unknown}
    found = {operation.id: operation for operation in operations if operation.id in unknown}
    if missing := [operation_id for operation_id in retry if operation_id not in found]:
        raise UsageError(f"{missing[0]} is not an unknown operation of this task.", code="not_found")
    return [
        Grant(
            id=services.new_id("g"),
            kind="once",
            issuer="user",
            task_id=plan.task.id,
            fingerprint=found[operation_id].fingerprint,
            scope=found[operation_id].scope,
            granted_at=services.now(),
        )
        for operation_id in retry
    ]


def extend_limits(limits: Limits, extend: Mapping[str, float]) -> tuple[Limits, tuple[LimitsExtended, ...]]:
    """Higher limits by name; what was used up is not touched. Raises UsageError for a name or value that is none."""
    events = []
    for name, value in extend.items():
        old = getattr(limits, name, None)
        if not isinstance(old, int | float):
            known = ", ".join(LIMIT_NAMES)
            raise UsageError(f"{name} is not a limit of a task.", hint=f"The limits are: {known}")
        if value <= old:
            raise UsageError(f"{name} is {old:g} already; an extension must be higher than that.")
        events.append(LimitsExtended(name, old, value, "user"))
        changed: Any = {name: type(old)(value)}
        limits = limits._replace(**changed)
    return limits, tuple(events)


def used_up(task: Task, defaults: Limits) -> dict[str, object] | None:
    """The limit that blocked the task: its name, `used`, `allowed`, and `raised`, the limit that would leave it as
    much again as a new task gets. None where the task is not blocked by one."""
    error = task.result.get("error")
    detail: Any = error.get("detail") if isinstance(error, Mapping) else None
    if task.reason != BudgetError.code or not isinstance(detail, Mapping) or not isinstance(detail.get("limit"), str):
        return None
    name, used = str(detail["limit"]), detail.get("used")
    allowed = getattr(task.limits, name, None)
    if not isinstance(used, int | float) or not isinstance(allowed, int | float):
        return None
    share = getattr(defaults, name) or allowed
    raised = math.ceil(used) + share
    if raised <= allowed:
        # A request that did not fit leaves a rest, and the settings may allow less by now.
        raised = allowed + share
    return {"limit": name, "used": used, "allowed": allowed, "raised": raised}


def changed_limits(limits: Limits, wanted: Mapping[str, float]) -> tuple[Limits, tuple[LimitsExtended, ...]]:
    """Other limits by name, higher or lower; what was used up is not touched. Names and values have been checked."""
    events = []
    for name, value in wanted.items():
        old = getattr(limits, name)
        if value != old:
            events.append(LimitsExtended(name, old, value, "user"))
            changed: Any = {name: type(old)(value)}
            limits = limits._replace(**changed)
    return limits, tuple(events)


def granted(grants: Sequence[Grant]) -> tuple[GrantCreated, ...]:
    """The events that tell of new grants."""
    return tuple(GrantCreated(grant.id, grant.kind, grant.issuer, grant.scope) for grant in grants)


def limits_json(limits: Limits) -> dict[str, object]:
    """The limits that every task has, as its first event tells them."""
    return {name: getattr(limits, name) for name in LIMIT_NAMES}


def _grant(
    services: Services,
    task: Task,
    issuer: GrantIssuer,
    *,
    argv: tuple[str, ...] = (),
    script: str = "",
    cwd: str = ".",
) -> Grant:
    operation = process_operation(argv, script, cwd, services.defaults.shell_env)
    scope = scope_of(operation, services.workspace_identity)
    return Grant(
        id=services.new_id("g"),
        kind="standing" if issuer == "settings" else "task",
        issuer=issuer,
        task_id=task.id,
        fingerprint=fingerprint(scope),
        scope=scope,
        granted_at=services.now(),
    )
