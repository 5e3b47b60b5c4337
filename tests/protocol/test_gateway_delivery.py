"""The wire cases through the gateway, whatever the network does to their bytes, and what is sent after each of them."""

import json
import random
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from support.conversations import check_strict, stored
from support.gateway_bench import TOOLS, GatewayBench, advance, run
from support.wire_checks import check_error, check_reply
from support.wire_server import CASES, Answer, Part, ScriptedWireServer, WireRequest, case, case_cuts, case_names, says

from fluzo.core.errors import ProviderError
from fluzo.core.records import Message, ModelReply, ModelRequest

HISTORIES = {item["name"]: item for item in json.loads((CASES / "m-histories.json").read_text())["histories"]}
GZIP = (("Content-Encoding", "gzip"),)


def one_byte_each(raw: bytes) -> Iterator[bytes]:
    return (raw[at : at + 1] for at in range(len(raw)))


def random_cuts(raw: bytes, seed: str) -> Iterator[bytes]:
    chance = random.Random(seed)
    marks = sorted({0, len(raw), *(chance.randrange(len(raw) + 1) for _ in range(chance.randrange(40)))})
    return (raw[start:end] for start, end in pairwise(marks))


def answer_of(name: str, pieces: Iterator[bytes], bench: GatewayBench, headers: Any = ()) -> Answer:
    """The case's answer in these pieces. A connection that dies does so once the client has the text, as reported."""
    fixture = case(name)
    parts: list[Part] = list(pieces)
    close: Any = "hold" if "hold_open_s" in fixture["delivery"] else fixture["delivery"]["close"]
    if close == "reset":
        parts.append(bench.first_delta)
    elif close == "hold":
        parts.append(lambda: advance(1))
    return Answer(tuple(parts), 200, (*fixture["http"]["headers"].items(), *headers), close)


def play(name: str, pieces: Iterator[bytes], headers: Any = ()) -> None:
    expect = case(name)["expect"]

    async def scenario() -> None:
        async with ScriptedWireServer([]) as server, GatewayBench(server.url, text_tool_calls=True) as bench:
            server.script = [answer_of(name, pieces, bench, headers)]
            if expect["outcome"] == "error":
                with pytest.raises(ProviderError) as caught:
                    await bench.complete()
                check_error(caught.value, expect)
            else:
                check_reply(await bench.complete(), expect)
            assert (len(server.requests), bench.occupied()) == (1, (0, 0))

    run(scenario)


@pytest.mark.parametrize("name", case_names())
def test_a_case_that_arrives_byte_by_byte_is_read_the_same(name: str) -> None:
    play(name, one_byte_each((CASES / f"{name}.sse").read_bytes()))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", case_names())
def test_a_case_that_arrives_in_random_pieces_is_read_the_same(name: str, seed: int) -> None:
    play(name, random_cuts((CASES / f"{name}.sse").read_bytes(), f"{name} {seed}"))


@pytest.mark.parametrize("name", [name for name in case_names() if case(name)["delivery"]["close"] == "clean"])
def test_a_case_that_arrives_compressed_in_random_pieces_is_read_the_same(name: str) -> None:
    packer = zlib.compressobj(wbits=31)
    raw = packer.compress((CASES / f"{name}.sse").read_bytes()) + packer.flush()
    play(name, random_cuts(raw, name), GZIP)


# --- the request that follows ---------------------------------------------------------------------------------


def assistant(reply: ModelReply) -> Message:
    return Message("assistant", reply.text, reply.reasoning, reply.tool_calls, incomplete=reply.outcome == "incomplete")


def check_body(request: WireRequest, id_form: str) -> None:
    text = request.body.decode("utf-8")
    assert "\x00" not in text
    assert "\\u0000" not in text and "\\ud8" not in text
    check_strict(request.json["messages"], id_form)


def check_continues(shorter: WireRequest, longer: WireRequest) -> None:
    """The longer request repeats the shorter one byte for byte, up to the end of its last message's text."""
    assert longer.body.startswith(shorter.body.removesuffix(b'"}]}').removesuffix(b"]}"))


@pytest.mark.parametrize("answered", ["all", "all but the last"])
@pytest.mark.parametrize("id_form", ["any", "mistral"])
@pytest.mark.parametrize("name", [name for name in case_names() if case(name)["expect"]["outcome"] != "error"])
def test_the_request_after_a_case_is_well_formed_and_continues_the_one_before(
    name: str, id_form: str, answered: str
) -> None:
    async def scenario() -> None:
        async with ScriptedWireServer([]) as server, GatewayBench(server.url, tool_call_ids=id_form) as bench:
            server.script = [answer_of(name, iter(case_cuts(case(name))), bench), says("next"), says("last")]
            messages = [Message("system", "be brief"), Message("user", "go")]
            for words in ("and now?", "and then?"):
                reply = await bench.complete(ModelRequest(tuple(messages), TOOLS, 100))
                results = [Message("tool", "done", tool_call_id=call.id) for call in reply.tool_calls]
                kept = results if answered == "all" else results[:-1]
                messages += [assistant(reply), *kept, Message("user", words)]
            await bench.complete(ModelRequest(tuple(messages), TOOLS, 100))
            for request in server.requests:
                check_body(request, id_form)
            for shorter, longer in pairwise(server.requests):
                check_continues(shorter, longer)

    run(scenario)


@pytest.mark.parametrize("id_form", ["any", "mistral"])
@pytest.mark.parametrize("name", sorted(HISTORIES))
def test_a_stored_history_is_sent_well_formed_and_goes_on_well_formed(name: str, id_form: str) -> None:
    async def scenario() -> None:
        async with (
            ScriptedWireServer([says("a"), says("b")]) as server,
            GatewayBench(server.url, tool_call_ids=id_form) as bench,
        ):
            history = stored(HISTORIES[name])
            reply = await bench.complete(ModelRequest(tuple(history), TOOLS, 100))
            await bench.complete(ModelRequest((*history, assistant(reply), Message("user", "more")), TOOLS, 100))
            for request in server.requests:
                check_body(request, id_form)
            check_continues(*server.requests)

    run(scenario)
