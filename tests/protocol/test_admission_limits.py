"""Limits as a real concurrent server sees them, and what the slots say meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.gateway_bench import REQUEST, RecordedSleep, advance, run
from support.wire_server import SETTLING_ROUNDS, Answer, Part, ScriptedWireServer, WireRequest, chunk, refuses

from fluzo.core.errors import CapacityError, ConfigError
from fluzo.core.records import ModelReply
from fluzo.models.admission import Admission, PoolLimits, SlotUse
from fluzo.models.endpoint import ModelEndpoint
from fluzo.models.gateway import Gateway

LOADING = refuses(503, {"error": {"message": "Loading model"}})


async def settle() -> None:
    for _ in range(SETTLING_ROUNDS):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)
    await settle()


def use(admission: Admission, name: str) -> SlotUse:
    return next(use for use in admission.snapshot() if use.name == name)


@dataclass
class Meter:
    """Answers chat requests and counts how many of each model and pool are open at the same time.

    A request counts from its arrival to just before its last event, so what a client lets overlap is never missed.
    Every answer waits at the gate between its first and its last event.
    """

    pool_of: dict[str, str]
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    open: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    finished: int = 0

    def __call__(self, request: WireRequest) -> Answer:
        model = request.json["model"]
        names = (model, self.pool_of[model])
        self.open.update(names)
        for name in names:
            self.most[name] = max(self.most[name], self.open[name])

        def leave() -> None:
            self.open.subtract(names)
            self.finished += 1

        parts: tuple[Part, ...] = (chunk({"content": "a"}), self.gate, leave)
        return Answer((*parts, chunk({"content": "b"}, finish_reason="stop")))


class Rig:
    """A gateway with several model entries in front of one server; an entry's key is its model name there."""

    def __init__(
        self, url: str, entries: dict[str, dict[str, Any]], pools: dict[str, PoolLimits], sleep: Any = None
    ) -> None:
        endpoints = [ModelEndpoint(name, url, name, **fields) for name, fields in entries.items()]
        self.models = {endpoint.capacity: endpoint.max_in_flight for endpoint in endpoints}
        self.admission = Admission({**self.models, "watcher": 5}, pools, observers=["watcher"])
        tokens = {name: lambda: None for name in entries}
        self.gateway = Gateway(endpoints, tokens, self.admission, sleep=sleep or RecordedSleep())

    def ask(self, name: str, on_delta: Callable[[str, bool], None] = lambda text, thought: None) -> Any:
        return asyncio.create_task(self.gateway.complete(name, REQUEST, on_delta, 1000))


def with_rig(
    scenario: Callable[[Rig, ScriptedWireServer, Meter], Coroutine[Any, Any, None]],
    entries: dict[str, dict[str, Any]],
    **pools: PoolLimits,
) -> None:
    async def whole() -> None:
        meter = Meter({name: fields["pool"] for name, fields in entries.items()})
        async with ScriptedWireServer(meter) as server:
            rig = Rig(server.url, entries, pools)
            await scenario(rig, server, meter)
            await rig.gateway.close()

    run(whole)


def entry(pool: str, most: int = 1, **more: Any) -> dict[str, Any]:
    return {"pool": pool, "max_in_flight": most, **more}


# --- overlap as the server measures it ------------------------------------------------------------------------


def test_models_and_pools_reach_their_limits_and_never_pass_them() -> None:
    entries = {"m1": entry("p", 1), "m2": entry("p", 2), "m3": entry("q", 5)}

    async def scenario(rig: Rig, server: ScriptedWireServer, meter: Meter) -> None:
        work = [rig.ask(name) for name in ("m1", "m2", "m3") * 5]
        await until(lambda: server.in_flight == 5)  # Three of p and two of q: as many as there ever may be.
        assert (use(rig.admission, "p").queued, use(rig.admission, "q").queued) == (7, 3)
        meter.gate.set()
        replies: list[ModelReply] = await asyncio.gather(*work)
        assert [reply.text for reply in replies] == ["ab"] * 15
        assert meter.most == {"m1": 1, "m2": 2, "m3": 2, "p": 3, "q": 2}
        assert all(slot.occupied == slot.queued == 0 for slot in rig.admission.snapshot())

    with_rig(scenario, entries, p=PoolLimits(5, 20), q=PoolLimits(2, 20))


def test_a_stream_holds_its_slot_to_its_end() -> None:
    async def scenario(rig: Rig, server: ScriptedWireServer, meter: Meter) -> None:
        begun = asyncio.Event()
        first = rig.ask("m", lambda text, thought: begun.set())
        await begun.wait()
        second = rig.ask("m")
        await until(lambda: use(rig.admission, "p").queued == 1)
        assert (len(server.requests), use(rig.admission, "m").occupied) == (1, 1)
        meter.gate.set()
        assert [(await first).text, (await second).text] == ["ab", "ab"]
        assert meter.most == {"m": 1, "p": 1}

    with_rig(scenario, {"m": entry("p")}, p=PoolLimits())


def test_aliases_of_one_served_model_share_its_slot() -> None:
    entries = {"fast": entry("p", capacity_id="served"), "slow": entry("p", capacity_id="served")}

    async def scenario(rig: Rig, server: ScriptedWireServer, meter: Meter) -> None:
        work = [rig.ask(name) for name in ("fast", "slow") * 3]
        await until(lambda: use(rig.admission, "p").queued == 5)
        assert server.in_flight == 1
        meter.gate.set()
        await asyncio.gather(*work)
        assert meter.most["p"] == 1

    with_rig(scenario, entries, p=PoolLimits(3, 20))


def test_a_cancelled_wait_is_never_sent() -> None:
    async def scenario(rig: Rig, server: ScriptedWireServer, meter: Meter) -> None:
        first, cancelled, third = rig.ask("m"), rig.ask("m"), rig.ask("m")
        await until(lambda: use(rig.admission, "p").queued == 2)
        cancelled.cancel()
        await settle()
        meter.gate.set()
        await asyncio.gather(first, third)
        assert cancelled.cancelled()
        assert (len(server.requests), meter.most["m"]) == (2, 1)

    with_rig(scenario, {"m": entry("p")}, p=PoolLimits())


def test_a_retry_waits_for_a_slot_like_anybody_else() -> None:
    async def scenario() -> None:
        woken = asyncio.Event()

        async def sleep(seconds: float) -> None:
            await woken.wait()

        meter = Meter({"m": "p"})
        order: list[str] = []

        def answer(request: WireRequest) -> Answer:
            order.append(f"{request.json['model']} {len(server.requests)}")
            return LOADING if len(server.requests) == 1 else meter(request)

        async with ScriptedWireServer(answer) as server:
            rig = Rig(server.url, {"m": entry("p")}, {"p": PoolLimits()}, sleep)
            retried = rig.ask("m")
            await until(lambda: len(server.requests) == 1 and use(rig.admission, "m").occupied == 0)
            other = rig.ask("m")
            await until(lambda: server.in_flight == 1)
            woken.set()
            await until(lambda: use(rig.admission, "p").queued == 1)
            assert len(server.requests) == 2
            meter.gate.set()
            assert [(await other).attempts, (await retried).attempts] == [1, 2]
            assert (len(server.requests), meter.most["m"]) == (3, 1)
            await rig.gateway.close()

    run(scenario)


def test_a_full_queue_and_an_expired_wait_send_nothing() -> None:
    async def scenario(rig: Rig, server: ScriptedWireServer, meter: Meter) -> None:
        first, waiting = rig.ask("m"), rig.ask("m")
        await until(lambda: use(rig.admission, "p").queued == 1)
        for code, task in (("capacity_full", rig.ask("m")), ("capacity_timeout", waiting)):
            with pytest.raises(CapacityError) as caught:
                await task
            assert (caught.value.code, caught.value.exit_status) == (code, 7)
            advance(31)
        meter.gate.set()
        assert (await first).outcome == "complete"
        assert len(server.requests) == 1

    with_rig(scenario, {"m": entry("p", idle_stream_timeout_seconds=900)}, p=PoolLimits(1, 1))


def test_two_instances_know_nothing_of_each_other() -> None:
    async def scenario() -> None:
        meter = Meter({"m": "p"})
        async with ScriptedWireServer(meter) as server:
            rigs = [Rig(server.url, {"m": entry("p", 2)}, {"p": PoolLimits(2)}) for _ in range(2)]
            work = [rig.ask("m") for rig in rigs for _ in range(4)]
            await until(lambda: server.in_flight == 4)
            assert [use(rig.admission, "m").queued for rig in rigs] == [2, 2]
            meter.gate.set()
            await asyncio.gather(*work)
            assert meter.most["m"] == 4
            for rig in rigs:
                await rig.gateway.close()

    run(scenario)


# --- uncertain ends -------------------------------------------------------------------------------------------


async def cancel_midway(rig: Rig) -> None:
    begun = asyncio.Event()
    task = rig.ask("m", lambda text, thought: begun.set())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_an_uncertain_slot_is_missing_until_it_is_reset() -> None:
    async def scenario(rig: Rig, server: ScriptedWireServer, meter: Meter) -> None:
        await cancel_midway(rig)
        assert (use(rig.admission, "m").uncertain, use(rig.admission, "p").uncertain) == (1, 1)
        one, two = rig.ask("m"), rig.ask("m")
        await until(lambda: use(rig.admission, "p").queued == 1)
        assert len(server.requests) == 2
        assert rig.admission.reset("another") == 0
        assert rig.admission.reset("p") == 1
        await until(lambda: len(server.requests) == 3)
        meter.gate.set()
        await asyncio.gather(one, two)

    with_rig(scenario, {"m": entry("p", 2)}, p=PoolLimits(2))


def test_a_server_known_to_stop_at_a_disconnect_gives_its_slot_back_at_once() -> None:
    async def scenario(rig: Rig, server: ScriptedWireServer, meter: Meter) -> None:
        await cancel_midway(rig)
        assert (use(rig.admission, "m").occupied, use(rig.admission, "p").occupied) == (0, 0)
        meter.gate.set()
        assert (await rig.ask("m")).text == "ab"

    with_rig(scenario, {"m": entry("p", stops_on_disconnect=True)}, p=PoolLimits())


# --- changed limits -------------------------------------------------------------------------------------------


def test_a_lowered_limit_drains_and_cancels_nobody() -> None:
    async def scenario(rig: Rig, server: ScriptedWireServer, meter: Meter) -> None:
        gates = [asyncio.Event() for _ in range(5)]

        def answer(request: WireRequest) -> Answer:
            meter.gate = gates[len(server.requests) - 1]
            return meter(request)

        server.script = answer
        work: list[asyncio.Task[ModelReply]] = []
        for _ in range(3):
            work.append(rig.ask("m"))
            await until(lambda: len(server.requests) == len(work))
        work += [rig.ask("m"), rig.ask("m")]
        await until(lambda: use(rig.admission, "p").queued == 2)
        rig.admission.set_limits({**rig.models, "watcher": 5}, {"p": PoolLimits(1)})
        assert (use(rig.admission, "p").occupied, use(rig.admission, "p").limit) == (3, 1)
        for number in range(2):
            gates[number].set()
            await work[number]
            await settle()
            assert len(server.requests) == 3  # Still as many in flight as the new limit allows, or more.
        gates[2].set()
        await until(lambda: len(server.requests) == 4)
        assert server.in_flight == 1
        gates[3].set()
        gates[4].set()
        assert [reply.text for reply in await asyncio.gather(*work)] == ["ab"] * 5

    with_rig(scenario, {"m": entry("p", 3)}, p=PoolLimits(3))


def test_a_raised_limit_lets_the_waiting_go() -> None:
    async def scenario(rig: Rig, server: ScriptedWireServer, meter: Meter) -> None:
        work = [rig.ask("m") for _ in range(3)]
        await until(lambda: use(rig.admission, "p").queued == 2)
        rig.admission.set_limits({"m": 3}, {"p": PoolLimits(3)})
        await until(lambda: server.in_flight == 3)
        meter.gate.set()
        await asyncio.gather(*work)

    with_rig(scenario, {"m": entry("p")}, p=PoolLimits())


def test_limits_of_what_is_in_use_or_waited_for_cannot_go_away() -> None:
    async def scenario() -> None:
        admission = Admission({"m": 1, "n": 1}, {"p": PoolLimits(), "q": PoolLimits()})
        slot = await admission.reserve("m", "p", "agent_turn", 0)
        waiting = asyncio.create_task(admission.reserve("m", "q", "agent_turn", 100))
        await settle()
        for models, pools in (({"n": 1}, {"p", "q"}), ({"m": 1}, {"q"}), ({"m": 1}, {"p"})):
            with pytest.raises(ConfigError, match="slots"):
                admission.set_limits(models, dict.fromkeys(pools, PoolLimits()))
        admission.set_limits({"m": 1}, {"p": PoolLimits(), "q": PoolLimits(), "r": PoolLimits()})
        assert {slot.name for slot in admission.snapshot()} == {"m", "p", "q", "r"}
        admission.confirm(slot)
        admission.confirm(await waiting)

    run(scenario)


def test_a_limit_lowered_to_what_is_uncertain_refuses_those_who_wait() -> None:
    async def scenario() -> None:
        admission = Admission({"m": 2}, {"p": PoolLimits(2)})
        lost, held = [await admission.reserve("m", "p", "agent_turn", 0) for _ in range(2)]
        admission.uncertain(lost)
        waiting = asyncio.create_task(admission.reserve("m", "p", "agent_turn", 100))
        await settle()
        admission.set_limits({"m": 1}, {"p": PoolLimits(1)})
        with pytest.raises(CapacityError, match="given up on"):
            await waiting
        admission.confirm(held)

    run(scenario)


# --- observations ---------------------------------------------------------------------------------------------


def skipped(admission: Admission, pool: str = "p") -> str:
    with pytest.raises(CapacityError) as caught:
        admission.reserve_shadow("watcher", pool)
    return str(caught.value.detail["reason"])


def watched(pool: PoolLimits, watcher: int = 5) -> Admission:
    return Admission({"m": 5, "watcher": watcher}, {"p": pool}, observers=["watcher"])


@pytest.mark.parametrize(("limits", "allowance"), [((1, 1), 0), ((2, 1), 1), ((4, 1), 3), ((4, 3), 1), ((4, 4), 0)])
def test_observations_get_what_the_pool_does_not_reserve(limits: tuple[int, int], allowance: int) -> None:
    async def scenario() -> None:
        admission = watched(PoolLimits(limits[0], foreground_reserved_slots=limits[1]))
        slots = [admission.reserve_shadow("watcher", "p") for _ in range(allowance)]
        assert skipped(admission) == ("busy" if allowance else "no_allowance")
        now = use(admission, "p")
        assert (now.shadow, now.shadow_allowance, now.occupied) == (allowance, allowance, allowance)
        assert {slot.purpose for slot in slots} <= {"shadow_observation"}
        for _ in range(limits[1]):  # What is reserved for the work itself is really there.
            await admission.reserve("m", "p", "agent_turn", 0)

    run(scenario)


def test_an_uncertain_observation_stays_charged_to_the_allowance_alone() -> None:
    async def scenario() -> None:
        admission = watched(PoolLimits(2))
        shadow = admission.reserve_shadow("watcher", "p")
        admission.dispatch(shadow)
        admission.uncertain(shadow)
        assert skipped(admission) == "busy"
        admission.confirm(await admission.reserve("m", "p", "agent_turn", 0))
        admission.reset()
        admission.cancel(admission.reserve_shadow("watcher", "p"))

    run(scenario)


def test_no_observation_gets_in_while_the_work_itself_waits() -> None:
    async def scenario() -> None:
        admission = Admission({"m": 1, "watcher": 1}, {"p": PoolLimits(3)}, observers=["watcher"])
        held = await admission.reserve("m", "p", "agent_turn", 0)
        waiting = asyncio.create_task(admission.reserve("m", "p", "agent_turn", 100))
        await settle()
        assert skipped(admission) == "foreground_waiting"  # Although two slots of the pool are free.
        admission.confirm(held)
        admission.confirm(await waiting)
        admission.reserve_shadow("watcher", "p")

    run(scenario)


def test_a_full_pool_and_a_busy_observer_skip_the_observation() -> None:
    async def scenario() -> None:
        admission = watched(PoolLimits(3), watcher=1)
        first = admission.reserve_shadow("watcher", "p")
        assert skipped(admission) == "busy"
        admission.confirm(first)
        for _ in range(3):
            await admission.reserve("m", "p", "agent_turn", 0)
        assert skipped(admission) == "busy"

    run(scenario)


def test_an_observer_never_takes_a_working_models_slots_nor_the_other_way_round() -> None:
    async def scenario() -> None:
        admission = watched(PoolLimits(3))
        with pytest.raises(ConfigError, match="cannot do both"):
            admission.reserve_shadow("m", "p")
        with pytest.raises(ConfigError, match="cannot do both"):
            await admission.reserve("watcher", "p", "agent_turn", 0)
        assert all(slot.occupied == 0 for slot in admission.snapshot())

    run(scenario)


def test_a_waiting_request_keeps_observations_out_of_a_pool_that_serves_it() -> None:
    async def scenario(rig: Rig, server: ScriptedWireServer, meter: Meter) -> None:
        first = rig.ask("m")
        await until(lambda: server.in_flight == 1)
        shadow = rig.admission.reserve_shadow("watcher", "p")
        second = rig.ask("m")
        await until(lambda: use(rig.admission, "p").queued == 1)
        rig.admission.confirm(shadow)
        assert skipped(rig.admission) == "foreground_waiting"
        meter.gate.set()
        await asyncio.gather(first, second)

    with_rig(scenario, {"m": entry("p")}, p=PoolLimits(2))


def test_a_reply_says_how_long_it_waited_apart_from_how_long_it_took() -> None:
    async def scenario(rig: Rig, server: ScriptedWireServer, meter: Meter) -> None:
        def slow(request: WireRequest) -> Answer:
            advance(3)
            return meter(request)

        meter.gate.set()
        server.script = slow
        reply = await rig.ask("m")
        assert (reply.queue_seconds, reply.first_output_seconds) == (0.0, 3.0)

    with_rig(scenario, {"m": entry("p")}, p=PoolLimits())
