import asyncio
import gzip
import json
import socket
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import pytest
from support.gateway_bench import REQUEST, GatewayBench, advance, run
from support.wire_server import (
    DONE,
    EVENT_STREAM,
    JSON,
    SETTLING_ROUNDS,
    Answer,
    Part,
    ScriptedWireServer,
    WireRequest,
    case,
    case_cuts,
    case_names,
    chunk,
    refuses,
    says,
)

from fluzo.core.errors import CapacityError, ConfigError, FluzoError, ProviderError
from fluzo.core.records import Usage
from fluzo.models.endpoint import ModelEndpoint, check_destination


def failure_of(answer: Answer, **fields: Any) -> tuple[ProviderError, ScriptedWireServer, GatewayBench]:
    """The error that one answer leads to when the server gives it every time."""
    seen: list[Any] = []

    async def scenario() -> None:
        async with ScriptedWireServer(lambda request: answer) as server, GatewayBench(server.url, **fields) as bench:
            with pytest.raises(ProviderError) as caught:
                await bench.complete()
            seen.extend((caught.value, server, bench))

    run(scenario)
    return seen[0], seen[1], seen[2]


# --- the wire cases on a real socket --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in case_names() if case(name)["expect"]["outcome"] != "error"])
def test_a_wire_case_gives_its_reply_over_a_socket(name: str) -> None:
    fixture = case(name)
    expect = fixture["expect"]
    hold = "hold_open_s" in fixture["delivery"]

    async def scenario() -> None:
        seen = asyncio.Event()
        parts: list[Part] = list(case_cuts(fixture))
        close: Any = "hold" if hold else fixture["delivery"]["close"]
        if close == "reset":
            parts.append(seen)  # The connection dies after the client has the text, as in the report.
        elif hold:
            parts.append(later(1))
        answer = Answer(tuple(parts), 200, tuple(fixture["http"]["headers"].items()), close)
        async with ScriptedWireServer([answer]) as server:
            async with GatewayBench(server.url, text_tool_calls=True) as bench:
                if close == "reset":
                    bench.first_delta = seen
                reply = await bench.complete()
                assert bench.occupied() == (0, 0)
            if hold:
                await server.left.wait()  # The client has hung up; it did not wait for the server.
        assert (reply.outcome, reply.text, reply.reasoning) == (expect["outcome"], expect["text"], expect["reasoning"])
        assert [(call.name, json.loads(call.arguments)) for call in reply.tool_calls] == [
            (call["name"], call["arguments"]) for call in expect["tool_calls"]
        ]
        assert (reply.finish or None) == expect["finish"]
        assert reply.attempts == 1
        assert len(server.requests) == 1
        assert not {call.name for call in reply.tool_calls} & set(expect.get("must_never_run", ()))

    run(scenario)


@pytest.mark.parametrize("name", [name for name in case_names() if case(name)["expect"]["outcome"] == "error"])
def test_a_failing_wire_case_gives_its_error_over_a_socket_after_one_request(name: str) -> None:
    fixture = case(name)
    answer = Answer(case_cuts(fixture), 200, tuple(fixture["http"]["headers"].items()))
    error, server, bench = failure_of(answer)
    for words in fixture["expect"]["error"]["message_contains"]:
        assert words in error.message
    assert "".join(text for text, _ in bench.deltas) == fixture["expect"]["text"]
    assert error.detail.get("partial_text", "") == fixture["expect"]["text"]
    assert (len(server.requests), bench.sleep.seconds, bench.occupied()) == (1, [], (0, 0))


# --- what is sent ---------------------------------------------------------------------------------------------


def test_the_request_goes_to_the_chat_address_with_its_headers_and_token() -> None:
    async def scenario() -> None:
        async with (
            ScriptedWireServer([says("hi")]) as server,
            GatewayBench(f"{server.url}/", authorize=lambda: "sk-1") as bench,
        ):
            reply = await bench.complete()
        request = server.requests[0]
        assert (request.method, request.target) == ("POST", "/v1/chat/completions")
        assert request.headers["authorization"] == "Bearer sk-1"
        assert request.headers["accept"] == "text/event-stream, application/json"
        assert request.headers["accept-encoding"] == "gzip"
        assert request.headers["content-type"] == "application/json"
        assert request.json["model"] == "fx-model"
        assert (reply.text, reply.model, reply.response_id) == ("hi", "fx", "c1")
        assert reply.first_output_seconds is not None

    run(scenario)


def test_without_authentication_no_authorization_header_is_sent() -> None:
    async def scenario() -> None:
        async with ScriptedWireServer([says("hi")]) as server, GatewayBench(server.url) as bench:
            await bench.complete()
        assert "authorization" not in server.requests[0].headers

    run(scenario)


def test_a_key_with_a_line_end_is_refused_before_anything_is_sent_and_never_shown() -> None:
    error, server, bench = failure_of(says("hi"), authorize=lambda: "sk-secret-1\nX-Evil: 1")
    assert error.code == "provider_auth"
    assert "sk-secret-1" not in json.dumps(error.to_json())
    assert (server.requests, bench.occupied()) == ([], (0, 0))


def test_a_failing_key_lookup_gives_the_slot_back() -> None:
    def no_key() -> str:
        raise ConfigError("The environment variable FX_KEY is not set.", code="configuration_required")

    async def scenario() -> None:
        async with ScriptedWireServer([]) as server, GatewayBench(server.url, authorize=no_key) as bench:
            with pytest.raises(ConfigError, match="FX_KEY"):
                await bench.complete()
            assert (server.requests, bench.occupied()) == ([], (0, 0))

    run(scenario)


def test_a_key_that_the_server_echoes_is_masked() -> None:
    error, _, _ = failure_of(
        refuses(401, {"error": {"message": "wrong key zz-key-987654"}}), authorize=lambda: "zz-key-987654"
    )
    assert error.code == "provider_auth"
    assert "zz-key-987654" not in json.dumps(error.to_json())


def test_consecutive_requests_use_one_connection() -> None:
    async def scenario() -> None:
        async with ScriptedWireServer([says("a"), says("b")]) as server, GatewayBench(server.url) as bench:
            assert [(await bench.complete()).text, (await bench.complete()).text] == ["a", "b"]
            assert server.connections == 1

    run(scenario)


def test_an_unstreamed_answer_is_asked_for_and_read() -> None:
    body = {"id": "c", "choices": [{"message": {"content": "plain"}, "finish_reason": "stop"}]}

    async def scenario() -> None:
        answer = Answer((json.dumps(body).encode(),), 200, JSON)
        async with ScriptedWireServer([answer]) as server, GatewayBench(server.url, stream=False) as bench:
            reply = await bench.complete()
        assert reply.text == "plain"
        assert reply.first_output_seconds is not None
        assert server.requests[0].json["stream"] is False
        assert server.requests[0].headers["accept"] == "application/json"

    run(scenario)


def test_a_compressed_stream_is_read_while_it_arrives() -> None:
    async def scenario() -> None:
        packer = zlib.compressobj(wbits=31)
        first = packer.compress(chunk({"content": "one "})) + packer.flush(zlib.Z_SYNC_FLUSH)
        rest = packer.compress(chunk({"content": "two"}, finish_reason="stop") + DONE) + packer.flush()
        async with ScriptedWireServer([]) as server, GatewayBench(server.url) as bench:
            # The rest is sent only after the first piece was handed on: a decoder that waits would hang.
            server.script = [
                Answer((first, bench.first_delta, rest), 200, (*EVENT_STREAM, ("Content-Encoding", "gzip")))
            ]
            reply = await bench.complete()
            assert (reply.outcome, reply.text) == ("complete", "one two")

    run(scenario)


def test_an_error_body_can_be_compressed() -> None:
    body = gzip.compress(b'{"error":{"message":"no such model"}}')
    error, _, _ = failure_of(refuses(404, body, (*JSON, ("Content-Encoding", "gzip"))))
    assert "no such model" in error.message


@pytest.mark.parametrize("encoding", ["br", "gzip"])
def test_data_that_cannot_be_decompressed_is_a_protocol_error(encoding: str) -> None:
    error, server, _ = failure_of(Answer((b"not compressed",), 200, (*EVENT_STREAM, ("Content-Encoding", encoding))))
    assert (error.code, len(server.requests)) == ("provider_protocol", 1)


# --- refusals and retries -------------------------------------------------------------------------------------

LOADING = refuses(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})


def test_a_passing_fault_is_tried_again_after_one_and_two_seconds_with_the_slot_given_back_meanwhile() -> None:
    async def scenario() -> None:
        script = [LOADING, refuses(502, b"bad gateway", ()), says("up")]
        async with ScriptedWireServer(script) as server, GatewayBench(server.url) as bench:
            reply = await bench.complete()
            assert (reply.text, reply.attempts) == ("up", 3)
            assert bench.sleep.seconds == [1.0, 2.0]
            assert bench.free_during_sleep == [True, True]
            assert server.requests[0].body == server.requests[1].body == server.requests[2].body

    run(scenario)


def test_the_retries_are_bounded_and_the_last_error_says_how_often_it_was_tried() -> None:
    error, server, bench = failure_of(LOADING)
    assert (error.code, error.detail["attempts"]) == ("provider_unavailable", 3)
    assert (len(server.requests), bench.sleep.seconds) == (3, [1.0, 2.0])


def test_no_retry_is_begun_that_the_remaining_time_cannot_hold() -> None:
    async def scenario() -> None:
        async with ScriptedWireServer(lambda request: LOADING) as server, GatewayBench(server.url) as bench:
            with pytest.raises(ProviderError):
                await bench.complete(remaining_seconds=0.9)
            assert (len(server.requests), bench.sleep.seconds) == (1, [])

    run(scenario)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        *[
            (refuses(item["status"], item["body_text"].encode(), item["headers"].items()), code)
            for item, code in zip(
                case("p72-unavailable-ratelimit")["responses"][1:],
                ["rate_limited", "rate_limited", "provider_quota", "provider_quota"],
                strict=True,
            )
        ],
        *[
            (refuses(item["status"], item["body_text"].encode()), "context_overflow")
            for item in case("p70-context-overflow")["responses"]
        ],
        (refuses(401, {"error": {"message": "bad key"}}), "provider_auth"),
        (refuses(402, b""), "provider_quota"),
        (refuses(404, b"404 page not found", ()), "provider_invalid_request"),
        (refuses(503, {"error": {"message": "server is overloaded"}}), "provider_unavailable"),
    ],
)
def test_a_final_refusal_is_one_request_and_no_wait(answer: Answer, code: str) -> None:
    error, server, bench = failure_of(answer)
    assert error.code == code
    assert (len(server.requests), bench.sleep.seconds, bench.occupied()) == (1, [], (0, 0))


def test_an_endless_error_body_is_cut_off() -> None:
    async def scenario() -> None:
        endless = Answer(tuple([b"x" * 65536] * 100), 400, (), "hold")
        async with ScriptedWireServer([endless]) as server, GatewayBench(server.url) as bench:
            with pytest.raises(ProviderError) as caught:
                await bench.complete()
            assert len(caught.value.message) < 600
            assert caught.value.code == "provider_invalid_request"

    run(scenario)


@pytest.mark.parametrize("name", ["p74-unknown-param-stream-options", "p75-max-tokens-name", "p76-unknown-param-other"])
def test_a_refused_parameter_is_one_request_and_the_setting_it_names_cures_it(name: str) -> None:
    fixture = case(name)
    cure: dict[str, dict[str, Any]] = {
        "p74-unknown-param-stream-options": {"usage_in_stream": False},
        "p75-max-tokens-name": {"output_limit_parameter": "max_completion_tokens"},
        "p76-unknown-param-other": {"parallel_tool_calls": "omit"},
    }

    def answer(request: WireRequest) -> Answer:
        for rule in fixture["rules"]:
            if "default" in rule or rule["if_request_has"] in request.json:
                told = rule.get("default") or rule["respond"]
                return Answer((told["body_text"].encode(),), told["status"], tuple(told["headers"].items()))
        raise AssertionError("no rule")

    async def scenario() -> None:
        async with ScriptedWireServer(answer) as server:
            async with GatewayBench(server.url, parallel_tool_calls="true") as bench:
                with pytest.raises(ProviderError) as caught:
                    await bench.complete()
            assert (caught.value.code, len(server.requests)) == ("provider_invalid_request", 1)
            assert caught.value.detail["parameter"] == fixture["rules"][0]["if_request_has"]
            async with GatewayBench(server.url, **cure[name]) as bench:
                assert (await bench.complete()).text == "fine"

    run(scenario)


def test_a_stream_that_breaks_before_output_is_tried_again() -> None:
    async def scenario() -> None:
        broken = Answer((chunk({"role": "assistant"}),), close="reset")
        async with ScriptedWireServer([broken, says("up")]) as server, GatewayBench(server.url) as bench:
            assert (await bench.complete()).attempts == 2
            assert bench.sleep.seconds == [1.0]

    run(scenario)


@pytest.mark.parametrize(
    "delta", [{"content": "par"}, {"reasoning": "hm"}, {"tool_calls": [{"function": {"name": "x"}}]}]
)
def test_a_stream_that_breaks_after_output_is_incomplete_and_never_asked_again(delta: dict[str, object]) -> None:
    async def scenario() -> None:
        answer = Answer((chunk(delta),), close="reset")
        async with ScriptedWireServer([answer]) as server, GatewayBench(server.url) as bench:
            reply = await bench.complete()
            assert (reply.outcome, reply.tool_calls) == ("incomplete", ())
            assert reply.text == delta.get("content", "")
            assert (len(server.requests), bench.sleep.seconds) == (1, [])
            assert bench.occupied() == (0, 0)  # The server itself closed: it is done with the request.

    run(scenario)


def test_an_error_in_the_stream_after_output_is_not_asked_again_although_it_could_pass() -> None:
    failing = chunk({"content": "par"}) + b'data: {"error":{"code":500,"message":"boom"}}\n\n'
    error, server, bench = failure_of(Answer((failing,)))
    assert (error.code, error.retry, error.detail["partial_text"]) == ("provider_unavailable", "never", "par")
    assert (len(server.requests), bench.sleep.seconds) == (1, [])


def test_a_server_that_is_not_there_is_tried_again_and_then_told() -> None:
    async def scenario() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            async with GatewayBench(f"http://127.0.0.1:{unused.getsockname()[1]}/v1") as bench:
                with pytest.raises(ProviderError) as caught:
                    await bench.complete()
        error = caught.value
        assert (error.code, error.detail["attempts"]) == ("provider_unavailable", 3)
        assert "Connection refused" in error.message
        assert (bench.sleep.seconds, bench.occupied()) == ([1.0, 2.0], (0, 0))

    run(scenario)


@asynccontextmanager
async def raw_server(greeting: bytes, received: bytearray) -> AsyncIterator[int]:
    """A listener that says one thing and hangs up when the client has said something."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.read(65536))
        writer.write(greeting)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def test_a_server_that_does_not_speak_http_is_a_protocol_error() -> None:
    async def scenario() -> None:
        async with (
            raw_server(b"220 mail.example ESMTP\r\n\r\n", bytearray()) as port,
            GatewayBench(f"http://127.0.0.1:{port}/v1") as bench,
        ):
            with pytest.raises(ProviderError, match="does not answer in HTTP") as caught:
                await bench.complete()
        assert (caught.value.code, bench.sleep.seconds) == ("provider_protocol", [])

    run(scenario)


def test_a_server_without_tls_gets_no_request_over_https() -> None:
    async def scenario() -> None:
        received = bytearray()
        async with (
            raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n", received) as port,
            GatewayBench(f"https://127.0.0.1:{port}/v1", authorize=lambda: "sk-1") as bench,
        ):
            with pytest.raises(ProviderError, match="TLS") as caught:
                await bench.complete()
        assert (caught.value.code, bench.sleep.seconds, bench.occupied()) == ("provider_unavailable", [], (0, 0))
        assert b"sk-1" not in received and b"POST" not in received

    run(scenario)


# --- time, cancel ---------------------------------------------------------------------------------------------


def silent(*parts: Part) -> Answer:
    """Sends what it has and then keeps the connection open."""
    return Answer(parts, close="hold")


def later(seconds: float) -> Part:
    return lambda: advance(seconds)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("first_output", [later(11)]),
        (
            "first_output",
            [later(6), b": hi\n\n", chunk({"role": "assistant", "content": ""}), later(6), later(0), DONE],
        ),
        ("idle_stream", [chunk({"content": "par"}), later(11)]),
        ("request", [chunk({"content": "par"}), later(6), chunk({"content": "tial"}), later(6)]),
    ],
)
def test_each_timeout_is_told_by_name_and_leaves_the_slot_uncertain(kind: str, parts: list[Part]) -> None:
    error, server, bench = failure_of(silent(*parts), **{f"{kind}_timeout_seconds": 10})
    assert (error.code, error.retry) == ("provider_timeout", "never")
    assert error.detail["timeout"] == kind
    assert error.detail["setting"] == f"models.coder.{kind}_timeout_seconds"
    assert error.detail.get("partial_text", "") == "".join(text for text, _ in bench.deltas)
    assert (len(server.requests), bench.sleep.seconds, bench.occupied()) == (1, [], (1, 1))


def test_output_and_comments_reset_the_idle_timer() -> None:
    async def scenario() -> None:
        parts = [chunk({"content": "a"}), later(25), b": hi\n\n", later(25), chunk({"content": "b"}), later(25), DONE]
        async with ScriptedWireServer([Answer(tuple(parts))]) as server, GatewayBench(server.url) as bench:
            assert (await bench.complete()).text == "ab"

    run(scenario)


def test_the_tasks_remaining_time_bounds_the_request() -> None:
    async def scenario() -> None:
        async with ScriptedWireServer([silent(later(21))]) as server, GatewayBench(server.url) as bench:
            with pytest.raises(ProviderError, match="task's remaining time") as caught:
                await bench.complete(remaining_seconds=20)
            assert caught.value.code == "provider_timeout"

    run(scenario)


def test_a_connection_that_does_not_come_about_times_out_with_its_slot_free() -> None:
    async def scenario() -> None:
        with unanswering() as url:
            async with GatewayBench(url, retries=0) as bench:
                task = asyncio.create_task(bench.complete())
                await until(lambda: bench.occupied() == (1, 0))
                advance(11)
                with pytest.raises(ProviderError) as caught:
                    await task
                assert (caught.value.detail["timeout"], caught.value.retry) == ("connect", "safe")
                assert bench.occupied() == (0, 0)

    run(scenario)


def test_a_finish_without_an_end_mark_ends_the_turn_although_the_server_stays_connected() -> None:
    async def scenario() -> None:
        answer = silent(chunk({"content": "bye"}, finish_reason="stop"), later(3))
        async with ScriptedWireServer([answer]) as server, GatewayBench(server.url) as bench:
            reply = await bench.complete()
            assert (reply.outcome, reply.text, bench.occupied()) == ("complete", "bye", (0, 0))

    run(scenario)


def test_usage_that_follows_the_finish_is_waited_for() -> None:
    async def scenario() -> None:
        async with ScriptedWireServer([]) as server, GatewayBench(server.url) as bench:
            usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
            last = chunk({"content": "bye"}, finish_reason="stop")
            server.script = [Answer((last, bench.first_delta, usage, DONE))]
            assert (await bench.complete()).usage == Usage(7, 3)

    run(scenario)


def test_a_cancel_closes_the_stream_and_leaves_the_slot_uncertain() -> None:
    async def scenario() -> None:
        async with ScriptedWireServer([silent(chunk({"content": "par"}))]) as server, GatewayBench(server.url) as bench:
            task = asyncio.create_task(bench.complete())
            await bench.first_delta.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.left.wait()
            assert bench.occupied() == (1, 1)
            with pytest.raises(CapacityError, match="given up on"):
                await bench.complete()
            assert (len(server.requests), bench.admission.reset(), bench.occupied()) == (1, 1, (0, 0))

    run(scenario)


@contextmanager
def unanswering() -> Iterator[str]:
    """The address of a listener whose queue is full, so that a connection to it never comes about."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for client in (first, second):
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)
    for _ in range(SETTLING_ROUNDS):
        await asyncio.sleep(0)


def test_a_cancel_before_anything_was_sent_frees_the_slot() -> None:
    async def scenario() -> None:
        with unanswering() as url:
            async with GatewayBench(url) as bench:
                task = asyncio.create_task(bench.complete())
                await until(lambda: bench.occupied() == (1, 0))
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert bench.occupied() == (0, 0)

    run(scenario)


# --- destinations and proxies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["http://10.0.0.1/v1", "http://model.example/v1", "http://127.0.0.1.example/v1"])
def test_plain_http_outside_this_machine_is_refused_before_anything_happens(url: str) -> None:
    async def scenario() -> None:
        async with GatewayBench(url) as bench:
            with pytest.raises(ConfigError) as caught:
                await bench.complete()
        assert "models.coder.allow_insecure_http" in caught.value.hint

    run(scenario)
    check_destination(ModelEndpoint("coder", url, "m", allow_insecure_http=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "[::1]", "localhost", "LOCALHOST.", "a.localhost"])
def test_plain_http_on_this_machine_is_allowed(host: str) -> None:
    check_destination(ModelEndpoint("coder", f"http://{host}:8080/v1", "m"))


@pytest.mark.parametrize("url", ["", "ftp://127.0.0.1/v1", "127.0.0.1:8080/v1", "http:///v1", "http://[::1/v1"])
def test_what_is_no_http_address_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        check_destination(ModelEndpoint("coder", url, "m"))


def test_an_unknown_model_is_a_configuration_error() -> None:
    async def scenario() -> None:
        async with GatewayBench("http://127.0.0.1:1/v1") as bench:
            with pytest.raises(ConfigError, match="nobody"):
                await bench.gateway.complete("nobody", REQUEST, lambda text, thought: None, 1)

    run(scenario)


PROXIES = {"ALL_PROXY": "socks5://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}


def test_a_local_server_is_reached_whatever_the_proxy_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PROXIES.items():
        monkeypatch.setenv(name, value)

    async def scenario() -> None:
        async with ScriptedWireServer([says("a"), says("b")]) as server:
            for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
                async with GatewayBench(url) as bench:
                    assert (await bench.complete()).outcome == "complete"

    run(scenario)


@pytest.mark.parametrize(
    ("proxy", "words"), [("socks5://127.0.0.1:9", "socksio"), ("nonsense://127.0.0.1:9", "no usable address")]
)
def test_a_proxy_that_cannot_be_used_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, proxy: str, words: str) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)

    async def scenario() -> None:
        async with GatewayBench("http://model.example/v1", allow_insecure_http=True) as bench:
            with pytest.raises(FluzoError, match=words) as caught:
                await bench.complete()
            assert (caught.value.code, bench.sleep.seconds, bench.occupied()) == ("provider_unavailable", [], (0, 0))

    run(scenario)


def test_a_remote_server_is_reached_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with ScriptedWireServer([says("through")]) as proxy:
            monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
            async with GatewayBench("http://model.example/v1", allow_insecure_http=True) as bench:
                assert (await bench.complete()).text == "through"
            assert proxy.requests[0].target == "http://model.example/v1/chat/completions"

    run(scenario)
