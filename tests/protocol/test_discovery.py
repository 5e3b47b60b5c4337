import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

import pytest
from support.model_server import Received, Reply, answer, chat, models, scripted_model_server
from support.wire_server import case

from fluzo.core.errors import ProviderError
from fluzo.models.discovery import DiscoveredModel, discover_models
from fluzo.models.probe import probe

JSON = "application/json"


def failure(reply: Reply) -> ProviderError:
    with scripted_model_server(get=lambda _: reply) as server, pytest.raises(ProviderError) as caught:
        discover_models(server.url)
    return caught.value


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({"id": "m", "meta": {"n_ctx": 8192, "n_ctx_train": 131072}}, 8192),
        ({"id": "m", "max_model_len": 40960}, 40960),
        ({"id": "m", "loaded_context_length": 4096, "max_context_length": 32768}, 4096),
        ({"id": "m", "context_length": 1000}, 1000),
        ({"id": "m", "meta": None, "max_model_len": "many", "context_length": True}, None),
        ({"id": "m", "max_model_len": -1}, None),
        ({"id": "m"}, None),
    ],
)
def test_the_window_is_the_one_that_a_request_gets(entry: dict[str, object], window: int | None) -> None:
    with scripted_model_server(get=lambda _: models(entry)) as server:
        assert discover_models(server.url) == [DiscoveredModel("m", window)]


def test_discovery_is_one_get_with_the_key_and_no_inference() -> None:
    with scripted_model_server(get=lambda _: models({"id": "a"}, {"id": "b"}, {"id": "a"})) as server:
        found = discover_models(server.url + "/", "k")

    assert [model.id for model in found] == ["a", "b"]
    assert server.paths == ["GET /v1/models"]
    assert server.received[0].headers["Authorization"] == "Bearer k"
    assert server.received[0].body is None


def test_names_that_could_harm_a_terminal_are_left_out() -> None:
    entries = (
        {"id": "a\x1b[2J"},
        {"id": "b\u202e"},
        {"id": ""},
        {"id": 3},
        "x",
        {"id": "x" * 400},
        {"id": "good:7b/q4"},
    )
    with scripted_model_server(get=lambda _: models(*entries, {"id": "good:7b/q4"})) as server:
        assert [model.id for model in discover_models(server.url)] == ["good:7b/q4"]


@pytest.mark.parametrize(
    ("reply", "code", "words", "hint"),
    [
        ((200, "text/html", b"<!doctype html><title>x</title>"), "provider_protocol", "is a web page", "address"),
        ((200, JSON, b"{"), "provider_protocol", "not with JSON", "address"),
        ((200, JSON, b'{"object": "x"}'), "provider_protocol", "list of models", "address"),
        ((200, JSON, b'{"data": []}'), "provider_empty", "lists no models", "Load a model"),
        (
            (401, JSON, b'{"error": {"message": "no \\u001b[31m key"}}'),
            "provider_auth",
            "no <U+001B>[31m key",
            "--auth",
        ),
        ((403, "text/html", b"<html>"), "provider_auth", "403", "--auth"),
        ((404, "text/plain", b"nope"), "provider_invalid_request", "404", "/models"),
        ((429, JSON, b'{"error": "slow"}'), "rate_limited", "429", "later"),
        ((503, JSON, b'{"error": {"message": "Loading model"}}'), "provider_unavailable", "Loading model", "log"),
        ((418, JSON, b'{"detail": [{"msg": "odd"}]}'), "provider_invalid_request", "418", ""),
        ((200, JSON, b" " * (9 << 20)), "provider_protocol", "8 MiB", ""),
        ((402, JSON, b'{"error": {"message": "pay"}}'), "provider_quota", "pay", "Settle"),
        ((200, JSON, b'{"data": ' + b"[" * 9999), "provider_protocol", "not with JSON", "address"),
    ],
)
def test_a_failure_says_what_it_was_and_what_to_do(reply: Reply, code: str, words: str, hint: str) -> None:
    error = failure(reply)

    assert error.code == code
    assert words in error.message
    assert hint in error.hint
    assert "\x1b" not in error.message


def test_an_address_without_the_version_is_completed_in_the_hint() -> None:
    with scripted_model_server() as server, pytest.raises(ProviderError) as caught:
        discover_models(server.url.removesuffix("/v1"))
    assert caught.value.hint == f"Most servers want /v1 at the end: {server.url}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location",
    ["{url}/models?token=hunter22", "/v1/", "//127.0.0.1:1/v1", "http://[hunter22", "http://a:hunter22/", ""],
)
def test_a_redirect_is_one_request_and_its_target_hears_nothing(status: int, location: str) -> None:
    with scripted_model_server(lambda _: models({"id": "m"}), chat()) as target:
        reply = (status, JSON, location.format(url=target.url).encode())
        with scripted_model_server(lambda _: reply, lambda _: reply) as server:
            for ask in (lambda: discover_models(server.url, "k"), lambda: probe(server.url, "m", "k")):
                with pytest.raises(ProviderError) as caught:
                    ask()
                assert caught.value.code == "redirect_blocked"
                assert "hunter22" not in caught.value.message + caught.value.hint
        assert server.paths == ["GET /v1/models", "POST /v1/chat/completions"]
    assert target.received == []


@pytest.mark.parametrize("fixture", case("p72-unavailable-ratelimit")["responses"], ids=lambda item: item["server"])
def test_a_refusal_for_capacity_rate_or_quota_is_one_request_and_no_wait(fixture: dict[str, Any]) -> None:
    reply = (fixture["status"], JSON, fixture["body_text"].encode())
    code = {"loading": "provider_unavailable", "rate_limit": "rate_limited", "quota": "provider_quota"}
    with scripted_model_server(lambda _: reply, lambda _: reply) as server:
        for ask in (lambda: discover_models(server.url), lambda: probe(server.url, "m")):
            with pytest.raises(ProviderError) as caught:
                ask()
            assert caught.value.code == code[fixture["expect"]["kind"]]
    assert server.paths == ["GET /v1/models", "POST /v1/chat/completions"]


def test_a_key_that_the_server_echoes_is_masked() -> None:
    echo = (401, JSON, b'{"error": {"message": "wrong key zz-key-987654"}}')
    with scripted_model_server(lambda _: echo, lambda _: echo) as server:
        for ask in (
            lambda: discover_models(server.url, "zz-key-987654"),
            lambda: probe(server.url, "m", "zz-key-987654"),
        ):
            with pytest.raises(ProviderError) as caught:
                ask()
            assert "zz-key-987654" not in json.dumps(caught.value.to_json())


def test_a_list_that_never_ends_is_given_up_on() -> None:
    with dripping_server() as url, pytest.raises(ProviderError) as caught:
        discover_models(url, timeout_seconds=0.3)
    assert caught.value.code == "provider_timeout"


@contextmanager
def dripping_server() -> Iterator[str]:
    """Sends a byte of its answer whenever a moment has passed, until the client hangs up or it has had enough."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n")
                for _ in range(300):
                    Event().wait(0.01)
                    connection.sendall(b" ")

        speaker = Thread(target=drip)
        speaker.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        speaker.join()


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as taken, pytest.raises(ProviderError) as caught:
        taken.bind(("127.0.0.1", 0))  # And nobody listens, nor can, as long as it is taken.
        port = taken.getsockname()[1]
        discover_models(f"http://127.0.0.1:{port}/v1")
    assert caught.value.code == "provider_unavailable"
    assert caught.value.message == f"http://127.0.0.1:{port}/v1 cannot be reached: nothing answers there."


def test_a_silent_server_ends_in_a_timeout() -> None:
    done = Event()

    def silent(_: Received) -> Reply:
        done.wait(30)
        return models()

    with scripted_model_server(get=silent) as server:
        with pytest.raises(ProviderError) as caught:
            discover_models(server.url, timeout_seconds=0.2)
        done.set()
    assert caught.value.code == "provider_timeout"


def test_something_that_is_no_http_server_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(ProviderError) as caught:
        client = other.getsockname()[1]

        def speak() -> None:
            connection, _ = other.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
                connection.recv(65536)  # Else the close would be a reset.

        speaker = Thread(target=speak)
        speaker.start()
        try:
            discover_models(f"http://127.0.0.1:{client}/v1")
        finally:
            speaker.join()
    assert caught.value.code == "provider_unavailable"
    assert "does not speak HTTP" in caught.value.message


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "socks5://127.0.0.1:9"])
def test_this_machine_is_reached_without_the_proxy(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    for name in ("ALL_PROXY", "HTTP_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    with scripted_model_server(get=lambda _: models({"id": "m"})) as server:
        assert len(discover_models(server.url)) == 1


def test_a_proxy_that_cannot_be_used_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    with pytest.raises(ProviderError) as caught:
        discover_models("http://models.example.org/v1")
    assert "proxy" in caught.value.message
    assert "ALL_PROXY" in caught.value.hint


# --- the inference probe ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refused", "compat"),
    [
        ([], {}),
        (["stream_options"], {"usage_in_stream": False}),
        (["stream"], {"stream": False}),
        (["max_tokens"], {"output_limit_parameter": "max_completion_tokens"}),
        (["max_tokens", "max_completion_tokens"], {"output_limit_parameter": "omit"}),
        (["parallel_tool_calls"], {}),
        (["max_tokens", "stream_options", "parallel_tool_calls"],
         {"output_limit_parameter": "max_completion_tokens", "usage_in_stream": False}),
    ],
)  # fmt: skip
def test_the_probe_suggests_the_settings_of_what_is_refused(refused: list[str], compat: Mapping[str, object]) -> None:
    with scripted_model_server(post=chat(refused)) as server:
        result = probe(server.url, "m", "k")

    assert result.compat == compat
    assert {check.parameter for check in result.checks if not check.accepted} == set(refused)
    assert all("\x1b" not in check.detail for check in result.checks)
    assert result.requests == len(server.received) <= 8
    assert set(server.paths) == {"POST /v1/chat/completions"}
    assert all(request.headers["Authorization"] == "Bearer k" for request in server.received)
    assert all("stream_options" not in r.body or r.body["stream"] for r in server.received)


def test_a_refusal_within_a_stream_counts() -> None:
    def reply(request: Received) -> Reply:
        if "stream_options" in request.body:
            return 200, "text/event-stream", b'event: error\ndata: {"error": {"message": "no options"}}\n\n'
        return chat()(request)

    with scripted_model_server(post=reply) as server:
        result = probe(server.url, "m")
    assert result.compat == {"usage_in_stream": False}
    assert [check.detail for check in result.checks if not check.accepted] == ["no options"]


@pytest.mark.parametrize(("status", "code"), [(401, "provider_auth"), (404, "provider_invalid_request"),
                                               (429, "rate_limited"), (500, "provider_unavailable")])  # fmt: skip
def test_a_failure_that_says_nothing_about_a_parameter_ends_the_probe(status: int, code: str) -> None:
    with scripted_model_server(post=lambda _: (status, JSON, b"{}")) as server:
        with pytest.raises(ProviderError) as caught:
            probe(server.url, "m")
        assert len(server.received) == 1
    assert caught.value.code == code


def test_the_probe_finds_out_that_only_short_ids_of_calls_are_taken() -> None:
    def reply(request: Received) -> Reply:
        ids = [call["id"] for message in request.body["messages"] for call in message.get("tool_calls", ())]
        if any(len(call_id) != 9 for call_id in ids):
            message = f"Tool call id was {ids[0]} but must be a-z, A-Z, 0-9, with a length of 9."
            return 400, JSON, json.dumps({"object": "error", "message": message, "code": 3280}).encode()
        return chat()(request)

    with scripted_model_server(post=reply) as server:
        assert probe(server.url, "m").compat == {"tool_call_ids": "mistral"}


def test_the_probe_finds_out_that_calls_come_as_text() -> None:
    def reply(request: Received) -> Reply:
        written = '<tool_call>{"name": "noop", "arguments": {}}</tool_call>' if "tools" in request.body else "ready"
        return 200, JSON, json.dumps(answer(written)).encode()

    with scripted_model_server(post=reply) as server:
        result = probe(server.url, "m")
    assert result.compat == {"text_tool_calls": True}
    assert "native tool calls" in [check.parameter for check in result.checks if not check.accepted]


def test_a_server_without_tools_is_asked_nothing_more_about_them() -> None:
    with scripted_model_server(post=chat(["tools"])) as server:
        result = probe(server.url, "m")
    assert [check.parameter for check in result.checks if not check.accepted] == ["tools"]
    assert sum("tools" in request.body for request in server.received) == 1


@pytest.mark.parametrize("raw", [b"", b'{"choices": []}'])
def test_an_answer_with_nothing_in_it_ends_the_probe(raw: bytes) -> None:
    with scripted_model_server(post=lambda _: (200, JSON, raw)) as server, pytest.raises(ProviderError) as caught:
        probe(server.url, "m")
    assert caught.value.code == "provider_protocol"
    assert f"{server.url}/chat/completions" in caught.value.hint


def test_a_model_that_answers_nothing_at_all_is_told_with_the_servers_words() -> None:
    body = json.dumps({"error": {"message": "model 'm' not found, key sk-abcdefghijklmnopqrstuvwx"}}).encode()
    with scripted_model_server(post=lambda _: (400, JSON, body)) as server, pytest.raises(ProviderError) as caught:
        probe(server.url, "m")
    assert "model 'm' not found" in caught.value.message
    assert "sk-" not in caught.value.message
