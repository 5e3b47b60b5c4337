from typing import Any

import pytest

from fluzo.core.records import Limits, Task, TaskState
from fluzo.runtime.grants import used_up

LIMITS = Limits(max_turns=8, max_tool_calls=100, max_active_seconds=600, max_total_tokens=200_000)
AT = "2026-01-01T00:00:00Z"


def blocked(limit: str, used: float, limits: Limits = LIMITS, reason: str = "budget_exhausted") -> Task:
    detail = {"limit": limit, "used": used, "allowed": getattr(limits, limit)}
    result: dict[str, Any] = {"error": {"code": "budget_exhausted", "detail": detail}}
    task = Task("t_1", "s_1", "r_1", "go", TaskState.BLOCKED, reason, AT, AT, "/repo", "1:2", limits)
    return task._replace(result=result)


@pytest.mark.parametrize(
    ("limit", "used", "default", "raised"),
    [
        ("max_turns", 8, 8, 16),
        ("max_turns", 8, 30, 38),
        ("max_active_seconds", 600.4, 600, 1201),
        ("max_total_tokens", 190_000, 200_000, 390_000),
        ("max_total_tokens", 150_000, 10_000, 210_000),
    ],
)
def test_a_raised_limit_leaves_what_a_new_task_has_and_is_higher_than_it_was(
    limit: str, used: float, default: int, raised: int
) -> None:
    defaults = LIMITS._replace(**{limit: default})
    found = used_up(blocked(limit, used), defaults)
    assert found == {"limit": limit, "used": used, "allowed": getattr(LIMITS, limit), "raised": raised}


def test_a_money_limit_that_new_tasks_do_not_have_is_given_once_more() -> None:
    task = blocked("max_cost_microunits", 900, LIMITS._replace(max_cost_microunits=1000))
    found = used_up(task, LIMITS)
    assert found is not None
    assert found["raised"] == 1900


def test_what_an_earlier_attempt_ended_with_is_no_limit_of_a_task_that_was_cut_off_since() -> None:
    assert used_up(blocked("max_turns", 8, reason="task_interrupted"), LIMITS) is None
    strange = blocked("max_turns", 8)
    assert used_up(strange._replace(result={"error": {"detail": {"limit": "max_wishes", "used": 3}}}), LIMITS) is None
