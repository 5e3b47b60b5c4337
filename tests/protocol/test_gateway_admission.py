import asyncio
import subprocess
import sys

import pytest
from support.gateway_bench import REQUEST, RecordedSleep, advance, run
from support.wire_server import Answer, ScriptedWireServer, WireRequest, chunk, refuses, says

from fluzo.core.errors import CapacityError, ConfigError
from fluzo.models.admission import Admission, PoolLimits, Reservation
from fluzo.models.endpoint import ModelEndpoint
from fluzo.models.gateway import Gateway


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def slots(admission: Admission, name: str, kind: str = "pool") -> tuple[int, int, int]:
    """Occupied, uncertain and queued."""
    use = next(use for use in admission.snapshot() if (use.kind, use.name) == (kind, name))
    return use.occupied, use.uncertain, use.queued


class Waiting:
    """A reservation asked for in the background."""

    def __init__(self, admission: Admission, model: str = "m", pool: str = "p", seconds: float = 100) -> None:
        self.task: asyncio.Task[Reservation] = asyncio.create_task(
            admission.reserve(model, pool, "agent_turn", seconds)
        )

    @property
    def granted(self) -> bool:
        return self.task.done() and not self.task.cancelled() and self.task.exception() is None


def one_slot(**limits: int) -> Admission:
    return Admission({"m": 1, "n": 1}, {"p": PoolLimits(**limits)})


def test_a_free_slot_is_given_at_once_and_counted_for_model_and_pool() -> None:
    async def scenario() -> None:
        admission = one_slot()
        slot = await admission.reserve("m", "p", "agent_turn", 0)
        assert (slot.model, slot.pool, slot.purpose, slot.queue_seconds) == ("m", "p", "agent_turn", 0.0)
        assert slots(admission, "p") == slots(admission, "m", "model") == (1, 0, 0)
        admission.dispatch(slot)
        admission.confirm(slot)
        assert slots(admission, "p") == slots(admission, "m", "model") == (0, 0, 0)

    run(scenario)


def test_waiting_is_first_come_first_served_and_its_seconds_are_told() -> None:
    async def scenario() -> None:
        admission = one_slot()
        slot = await admission.reserve("m", "p", "agent_turn", 100)
        first, second = Waiting(admission), Waiting(admission, "n")
        await settle()
        assert slots(admission, "p") == (1, 0, 2)
        advance(4)
        admission.confirm(slot)
        await settle()
        assert (first.granted, second.granted) == (True, False)
        assert first.task.result().queue_seconds == 4
        admission.cancel(first.task.result())
        await settle()
        assert second.granted

    run(scenario)


def test_a_wait_for_another_models_slot_does_not_hold_up_the_pool() -> None:
    async def scenario() -> None:
        admission = Admission({"m": 1, "n": 1}, {"p": PoolLimits(max_in_flight=2)})
        held = await admission.reserve("m", "p", "agent_turn", 100)
        blocked = Waiting(admission, "m")
        await settle()
        passing = Waiting(admission, "n")
        await settle()
        assert (blocked.granted, passing.granted) == (False, True)
        admission.confirm(held)
        await settle()
        assert blocked.granted

    run(scenario)


def test_aliases_of_one_model_share_its_slot_across_pools() -> None:
    async def scenario() -> None:
        admission = Admission({"m": 1}, {"p": PoolLimits(), "q": PoolLimits()})
        held = await admission.reserve("m", "p", "agent_turn", 100)
        other = Waiting(admission, "m", "q")
        await settle()
        assert not other.granted
        admission.confirm(held)
        await settle()
        assert other.granted

    run(scenario)


def test_a_full_queue_refuses_at_once() -> None:
    async def scenario() -> None:
        admission = one_slot(queue_capacity=1)
        await admission.reserve("m", "p", "agent_turn", 100)
        waiting = Waiting(admission)
        await settle()
        with pytest.raises(CapacityError) as caught:
            await admission.reserve("m", "p", "agent_turn", 100)
        assert caught.value.code == "capacity_full"
        waiting.task.cancel()

    run(scenario)


@pytest.mark.parametrize(("pool_seconds", "own_seconds"), [(30, 100), (100, 30)])
def test_a_wait_ends_at_the_earlier_of_both_deadlines_and_leaves_the_queue(pool_seconds: int, own_seconds: int) -> None:
    async def scenario() -> None:
        admission = one_slot(queue_timeout_seconds=pool_seconds)
        held = await admission.reserve("m", "p", "agent_turn", 100)
        waiting = Waiting(admission, seconds=own_seconds)
        await settle()
        advance(29)
        await settle()
        assert not waiting.task.done()
        advance(2)
        with pytest.raises(CapacityError) as caught:
            await waiting.task
        assert caught.value.code == "capacity_timeout"
        assert slots(admission, "p") == (1, 0, 0)
        admission.confirm(held)
        assert slots(admission, "p") == (0, 0, 0)

    run(scenario)


def test_a_cancelled_wait_leaves_the_queue_and_the_next_one_moves_up() -> None:
    async def scenario() -> None:
        admission = one_slot()
        held = await admission.reserve("m", "p", "agent_turn", 100)
        first, second = Waiting(admission), Waiting(admission)
        await settle()
        first.task.cancel()
        await settle()
        assert slots(admission, "p") == (1, 0, 1)
        admission.confirm(held)
        await settle()
        assert second.granted

    run(scenario)


def test_a_wait_that_was_just_cancelled_is_passed_over() -> None:
    async def scenario() -> None:
        admission = one_slot()
        held = await admission.reserve("m", "p", "agent_turn", 100)
        first, second = Waiting(admission), Waiting(admission)
        await settle()
        first.task.cancel()
        admission.confirm(held)  # The cancelled waiter is still in the queue.
        await settle()
        assert second.granted
        assert slots(admission, "p") == (1, 0, 0)

    run(scenario)


def test_a_wait_that_is_cancelled_in_the_moment_of_its_grant_gives_the_slot_back() -> None:
    async def scenario() -> None:
        admission = one_slot()
        held = await admission.reserve("m", "p", "agent_turn", 100)
        waiting = Waiting(admission)
        await settle()
        admission.confirm(held)  # Grants; the waiter has not run yet.
        waiting.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting.task
        assert slots(admission, "p") == (0, 0, 0)

    run(scenario)


def test_an_uncertain_slot_stays_occupied_and_refuses_those_who_could_only_wait_in_vain() -> None:
    async def scenario() -> None:
        admission = one_slot()
        slot = await admission.reserve("m", "p", "agent_turn", 100)
        admission.dispatch(slot)
        waiting = Waiting(admission)
        await settle()
        admission.uncertain(slot)
        with pytest.raises(CapacityError, match="given up on"):
            await waiting.task
        with pytest.raises(CapacityError, match="given up on"):
            await admission.reserve("n", "p", "agent_turn", 100)
        assert slots(admission, "p") == (1, 1, 0)
        assert admission.reset() == 1
        assert slots(admission, "p") == (0, 0, 0)
        await admission.reserve("m", "p", "agent_turn", 0)

    run(scenario)


def test_beside_an_uncertain_slot_the_others_are_still_waited_for() -> None:
    async def scenario() -> None:
        admission = Admission({"m": 2}, {"p": PoolLimits(max_in_flight=2)})
        lost = await admission.reserve("m", "p", "agent_turn", 100)
        held = await admission.reserve("m", "p", "agent_turn", 100)
        admission.uncertain(lost)
        waiting = Waiting(admission)
        await settle()
        assert not waiting.task.done()
        admission.confirm(held)
        await settle()
        assert waiting.granted

    run(scenario)


def test_giving_a_slot_back_twice_frees_it_once() -> None:
    async def scenario() -> None:
        admission = Admission({"m": 2}, {"p": PoolLimits(max_in_flight=2)})
        slot = await admission.reserve("m", "p", "agent_turn", 0)
        await admission.reserve("m", "p", "agent_turn", 0)
        admission.confirm(slot)
        admission.confirm(slot)
        admission.uncertain(slot)
        assert slots(admission, "p") == (1, 0, 0)

    run(scenario)


def test_a_model_or_pool_without_limits_is_a_configuration_error() -> None:
    async def scenario() -> None:
        for model, pool in (("x", "p"), ("m", "x")):
            with pytest.raises(ConfigError):
                await one_slot().reserve(model, pool, "agent_turn", 0)

    run(scenario)


# --- measured at the server -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("pool", "model", "most"), [(1, 5, 1), (5, 1, 1), (3, 5, 3), (5, 2, 2)])
def test_the_server_never_sees_more_requests_at_once_than_the_limits_allow(pool: int, model: int, most: int) -> None:
    async def scenario() -> None:
        loaded: set[int] = set()

        def answer(request: WireRequest) -> Answer:
            number = len(server.requests)
            if number % 4 == 0:
                return refuses(503, {"error": {"message": "Loading model"}})  # Retries go through admission too.
            loaded.add(number)
            return Answer((chunk({"content": "a"}), lambda: None, chunk({"content": "b"}, finish_reason="stop")))

        async with ScriptedWireServer(answer) as server:
            endpoint = ModelEndpoint("coder", server.url, "m")
            admission = Admission({"coder": model}, {"local": PoolLimits(max_in_flight=pool, queue_capacity=20)})
            gateway = Gateway([endpoint], {"coder": lambda: None}, admission, sleep=RecordedSleep())
            work = (gateway.complete("coder", REQUEST, lambda text, thought: None, 100) for _ in range(10))
            replies = await asyncio.gather(*work)
            await gateway.close()
            assert [reply.text for reply in replies] == ["ab"] * 10
            assert server.overlap == most
            assert max(reply.attempts for reply in replies) > 1

    run(scenario)


def test_two_processes_worth_of_gateways_do_not_share_their_limits() -> None:
    async def scenario() -> None:
        both = asyncio.Event()

        def answer(request: WireRequest) -> Answer:
            if len(server.requests) == 2:
                both.set()
            return Answer((both, *says("hi").parts))

        async with ScriptedWireServer(answer) as server:
            gateways = []
            for _ in range(2):
                admission = Admission({"coder": 1}, {"local": PoolLimits()})
                endpoint = ModelEndpoint("coder", server.url, "m")
                gateways.append(Gateway([endpoint], {"coder": lambda: None}, admission))
            work = (gateway.complete("coder", REQUEST, lambda text, thought: None, 100) for gateway in gateways)
            assert [reply.text for reply in await asyncio.gather(*work)] == ["hi", "hi"]
            for gateway in gateways:
                await gateway.close()

    run(scenario)


# --- what is loaded when --------------------------------------------------------------------------------------


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_httpx_is_loaded_with_the_transport_only_and_brings_no_extras() -> None:
    assert "httpx" not in loaded_after("import fluzo.models.gateway")
    loaded = loaded_after("import fluzo.models.transport")
    assert "httpx" in loaded
    assert loaded.isdisjoint({"h2", "brotli", "brotlicffi", "zstandard", "socksio", "rich", "pygments", "click"})
