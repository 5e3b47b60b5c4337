import pytest

from fluzo.core.errors import BudgetError
from fluzo.core.records import Consumption, Limits, Message, ModelRequest, Usage
from fluzo.runtime.budget import Budget


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def budget(clock: FakeClock, **limits: int) -> Budget:
    values = {"max_turns": 3, "max_tool_calls": 2, "max_active_seconds": 60, "max_total_tokens": 1000} | limits
    return Budget(Limits(**values), Consumption(), clock)


def request(estimate: int, output: int = 100) -> ModelRequest:
    return ModelRequest((Message("user", "x"),), (), output, estimated_input_tokens=estimate)


def test_turns_beyond_the_limit_are_refused_with_the_figures() -> None:
    spend = budget(FakeClock())
    assert [spend.begin_turn() for _ in range(3)] == [1, 2, 3]
    with pytest.raises(BudgetError) as refused:
        spend.begin_turn()
    assert refused.value.detail == {"limit": "max_turns", "used": 3, "allowed": 3}
    assert "harness.max_turns" in refused.value.hint


def test_tool_calls_beyond_the_limit_are_refused() -> None:
    spend = budget(FakeClock())
    spend.count_tool_call()
    spend.count_tool_call()
    with pytest.raises(BudgetError):
        spend.count_tool_call()


def test_waiting_for_the_user_costs_no_active_time() -> None:
    clock = FakeClock()
    spend = budget(clock)
    spend.start()
    clock.now += 10
    spend.begin_wait()
    clock.now += 1000
    spend.end_wait()
    clock.now += 5
    assert spend.spent.active_seconds == 15
    assert spend.remaining_seconds() == 45


def test_time_used_up_ends_the_next_turn() -> None:
    clock = FakeClock()
    spend = budget(clock)
    spend.start()
    clock.now += 61
    with pytest.raises(BudgetError) as refused:
        spend.begin_turn()
    assert refused.value.detail["limit"] == "max_active_seconds"


def test_a_request_that_cannot_fit_is_refused_before_it_is_sent() -> None:
    spend = budget(FakeClock())
    spend.reserve(request(900))
    with pytest.raises(BudgetError) as refused:
        spend.reserve(request(901))
    assert refused.value.detail["limit"] == "max_total_tokens"


def test_reported_usage_replaces_the_estimate_and_is_marked_as_reported() -> None:
    spend = budget(FakeClock())
    spend.settle(request(500), Usage(40, 7, cached_tokens=30, reasoning_tokens=5), 9)
    assert spend.report()["tokens"] == {
        "used": 47,
        "allowed": 1000,
        "provenance": "reported",
        "input": 40,
        "output": 7,
        "estimated": 0,
    }


def test_unreported_usage_stays_an_estimate_and_says_so() -> None:
    spend = budget(FakeClock())
    booked = spend.settle(request(500), None, 9)
    assert booked.estimated
    assert spend.report()["tokens"]["provenance"] == "estimated"
    spend.settle(request(1), Usage(1, 1), 0)
    assert spend.report()["tokens"]["provenance"] == "partly estimated"


def test_earlier_consumption_is_carried_forward() -> None:
    spend = Budget(Limits(3, 2, 60, 1000), Consumption(turns=2, active_seconds=59), FakeClock())
    assert spend.begin_turn() == 3
    assert spend.remaining_seconds() == 1
