import http.client
import json
import socket
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from fluzo.simulator.scenario import parse_scenario
from fluzo.simulator.server import Simulator

CALL = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}
TOOL = {"type": "function", "function": {"name": "read_file", "description": "x", "parameters": {"type": "object"}}}


def scenario(*steps: Mapping[str, Any], **more: Any) -> Simulator:
    numbered = [{"id": f"s{number}", **step} for number, step in enumerate(steps, 1)]
    data = {"schema_version": 1, "name": "t", "title": "t", "model": "m", "steps": numbered, **more}
    return Simulator(parse_scenario(data))


def say(text: str, **expect: Any) -> dict[str, Any]:
    return {"expect": expect, "respond": {"parts": [{"text": text}]}}


def request(*messages: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages) or [{"role": "user", "content": "hi"}], **more}


def exchange(
    simulator: Simulator,
    body: object,
    *,
    method: str = "POST",
    path: str = "/chat/completions",
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes, http.client.HTTPResponse]:
    url = urlsplit(simulator.base_url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **(headers or {})}
    try:
        connection.request(method, url.path + path, None if method == "GET" else raw, sent)
        response = connection.getresponse()
        return response.status, response.read(), response
    finally:
        connection.close()


def answer(simulator: Simulator, *messages: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    status, body, _ = exchange(simulator, request(*messages, **more))
    assert status == 200, body
    value: dict[str, Any] = json.loads(body)
    return value


def events(body: bytes) -> list[Any]:
    blocks = body.decode().split("\n\n")[:-1]
    assert all(block.startswith("data: ") for block in blocks)
    return [block[6:] if block == "data: [DONE]" else json.loads(block[6:]) for block in blocks]


def test_a_played_scenario_has_no_problems_and_records_every_request() -> None:
    with scenario(say("one", last_role="user", messages=1), say("two", extends=True)) as simulator:
        first = [{"role": "user", "content": "hi"}]
        assert answer(simulator, *first)["choices"][0]["message"]["content"] == "one"
        answer(simulator, *first, {"role": "assistant", "content": "one"}, {"role": "user", "content": "and?"})
        assert simulator.wait_until_answered(2)
        assert simulator.finish() == []
        assert [item.step for item in simulator.requests] == ["s1", "s2"]
        assert [item.outcome for item in simulator.requests] == ["sent", "sent"]
        assert json.loads(simulator.requests[0].raw) == request(*first)


def test_a_step_that_never_came_is_a_problem_and_an_optional_one_is_not() -> None:
    optional = {**say("maybe"), "optional": True}
    with scenario(say("one"), optional, say("three")) as simulator:
        answer(simulator)
        assert simulator.finish() == ["t: step 's3' never came: expected POST /v1/chat/completions"]


def test_an_optional_step_is_passed_over_when_the_request_is_the_next_one() -> None:
    optional = {**say("maybe", last_contains=["maybe"]), "optional": True}
    with scenario(optional, say("sure", last_contains=["hi"])) as simulator:
        assert answer(simulator)["choices"][0]["message"]["content"] == "sure"
        assert simulator.finish() == []


def test_a_request_after_the_last_step_fails_the_scenario() -> None:
    with scenario(say("one")) as simulator:
        answer(simulator)
        status, body, _ = exchange(simulator, request({"role": "user", "content": "more"}))
        assert status == 400
        assert "every step of the scenario has been played" in json.loads(body)["error"]["message"]
        assert simulator.failed
        assert len(simulator.finish()) == 1


def test_the_same_body_twice_is_a_duplicate_unless_the_step_allows_it() -> None:
    with scenario(say("one"), say("two")) as simulator:
        answer(simulator)
        status, body, _ = exchange(simulator, request())
        assert status == 400
        assert b"duplicate" in body
    with scenario(say("one"), say("two", repeat=True)) as simulator:
        answer(simulator)
        answer(simulator)
        assert simulator.finish() == []


def test_after_a_failure_every_request_is_answered_with_the_diagnostic() -> None:
    with scenario(say("one", last_role="tool"), say("two")) as simulator:
        assert exchange(simulator, request())[0] == 400
        status, body, _ = exchange(simulator, request({"role": "user", "content": "again"}))
        assert status == 400
        assert b"the scenario had already failed" in body


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"stream": True}, "stream: expected True, observed False"),
        ({"last_role": "tool"}, "last role: expected tool, observed user"),
        ({"messages": 3}, "messages: expected 3, observed 1"),
        ({"tools": ["edit_file"]}, "tool 'edit_file' is not offered"),
        ({"last_contains": ["bye"]}, "the last message: expected to hold 'bye', observed \"hi\""),
        ({"last_lacks": ["hi"]}, "the last message: expected not to hold 'hi'"),
        ({"any_contains": ["bye"]}, "the conversation: expected to hold 'bye'"),
        ({"any_lacks": ["h"]}, "the conversation: expected not to hold 'h'"),
        ({"tool_results": [{"call": "c9"}]}, "the result of call 'c9' is missing"),
        ({"headers": {"Authorization": "Bearer k"}}, "header Authorization: expected 'Bearer k', observed none"),
        ({"headers": {"Content-Type": None}}, "header Content-Type: expected none, observed another value"),
        ({"body": {"temperature": 0}}, "temperature: expected 0, observed None"),
        ({"absent": ["messages"]}, "messages: expected to be absent"),
        ({"extends": True}, "the messages do not begin with those of the request before"),
        ({"path": "/v1/other"}, "expected POST /v1/other, observed POST /v1/chat/completions"),
    ],
)
def test_a_request_that_is_not_the_expected_one_is_told_what_was_expected_and_observed(
    expect: dict[str, Any], said: str
) -> None:
    with scenario(say("one", **expect)) as simulator:
        status, body, _ = exchange(simulator, request())
        assert status == 400
        assert said in json.loads(body)["error"]["message"]
        assert said in simulator.finish()[0]
        assert 'last message: "hi"' in simulator.finish()[0]


def test_a_tool_result_is_found_by_its_call_and_searched() -> None:
    conversation = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "exit 1"},
    ]
    wanted = {"call": "c1", "contains": ["exit 1"], "lacks": ["exit 0"]}
    with scenario(say("ok", tool_results=[wanted])) as simulator:
        answer(simulator, *conversation)
        assert simulator.finish() == []
    with scenario(say("ok", tool_results=[{"call": "c1", "contains": ["exit 0"]}])) as simulator:
        _, body, _ = exchange(simulator, request(*conversation))
        assert "the result of call 'c1': expected to hold 'exit 0'" in json.loads(body)["error"]["message"]


USER = {"role": "user", "content": "hi"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "r"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"model": "\xff"}', "not valid UTF-8"),
        ({"model": "other", "messages": [USER]}, "model: expected 'm', observed 'other'"),
        ({"model": "m"}, "messages is not a list"),
        ({"model": "m", "messages": []}, "messages is not a list"),
        (request(USER, stream="yes"), "stream is neither true nor false"),
        (request({"role": "robot", "content": "x"}), "role 'robot' is not one of"),
        (request(USER, {"role": "system", "content": "x"}, USER), "a system message stands after the first place"),
        (request(USER, {"role": "assistant", "content": ""}, USER), "neither text nor calls"),
        (request({"role": "user", "content": ""}), "a user message is empty"),
        (request(USER, USER), "two user messages in a row"),
        (request(USER, CALLED, USER), "call 'c1' has no result before it"),
        (request(USER, CALLED), "call 'c1' has no result"),
        (request(USER, CALLED, RESULT, RESULT), "call 'c1' is answered a second time"),
        (request(USER, RESULT), "call 'c1' was never made"),
        (request(USER, CALLED, RESULT, CALLED, RESULT), "call id 'c1' is not unique"),
        (request(USER, {"role": "assistant", "content": "x"}), "the last message is of role 'assistant'"),
        (request({"role": "user", "content": "a\0b"}), "U+0000"),
        (request({"role": "user", "content": "a\ud835b"}), "lone surrogate"),
        (request(tools=[]), "tools is not a list with at least one tool"),
        (request(tools=[{"type": "function"}]), "tools[0] is not a named function"),
        (request(tools=[{"type": "function", "function": {"name": "f"}}]), "not a schema of an object"),
        (request(tools=[TOOL, TOOL]), "two tools have the same name"),
    ],
)
def test_a_request_that_breaks_the_protocol_fails_whatever_the_step_expects(body: object, said: str) -> None:
    with scenario(say("one")) as simulator:
        status, answered, _ = exchange(simulator, body)
        assert status == 400
        assert said in json.loads(answered)["error"]["message"]
        assert simulator.failed


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({**CALL, "id": "x" * 41}, "not a text of 1 to 40 characters"),
        ({**CALL, "id": ""}, "not a text of 1 to 40 characters"),
        ({**CALL, "type": "other"}, "not a function call"),
        ({**CALL, "function": {"name": "", "arguments": "{}"}}, "has no name"),
        ({**CALL, "function": {"name": "f", "arguments": "{}{}"}}, "one JSON object"),
        ({**CALL, "function": {"name": "f", "arguments": {}}}, "one JSON object"),
    ],
)
def test_a_replayed_call_that_is_malformed_fails(call: dict[str, Any], said: str) -> None:
    result = {"role": "tool", "tool_call_id": call["id"], "content": "r"}
    with scenario(say("one")) as simulator:
        conversation = request(USER, {"role": "assistant", "content": None, "tool_calls": [call]}, result)
        _, body, _ = exchange(simulator, conversation)
        assert said in json.loads(body)["error"]["message"]


def test_a_changed_tool_list_does_not_extend_the_request_before() -> None:
    with scenario(say("one"), say("two", extends=True)) as simulator:
        answer(simulator, tools=[TOOL])
        conversation = request(USER, {"role": "assistant", "content": "one"}, {"role": "user", "content": "and?"})
        _, body, _ = exchange(simulator, conversation)
        assert b"the tools are not those of the request before" in body


def test_an_unexpected_path_or_method_fails() -> None:
    with scenario(say("one")) as simulator:
        assert exchange(simulator, b"", method="GET", path="/models")[0] == 400
        assert "observed GET /v1/models" in simulator.finish()[0]
    with scenario(say("one")) as simulator:
        assert exchange(simulator, request(), method="PUT")[0] == 400


def test_discovery_is_answered_when_the_scenario_lists_models() -> None:
    with scenario(say("one"), models=["m", "n"]) as simulator:
        for _ in range(2):
            status, body, _ = exchange(simulator, b"", method="GET", path="/models")
            assert status == 200
            assert [item["id"] for item in json.loads(body)["data"]] == ["m", "n"]
        answer(simulator)
        assert simulator.finish() == []


def test_a_stream_carries_text_reasoning_cut_calls_usage_and_its_end() -> None:
    parts = [
        {"reasoning": "hm"},
        {"text": "a", "times": 3},
        {"tool_call": {"id": "c1", "name": "read_file", "arguments": {"path": "a.txt"}, "cuts": [3, 9]}},
        {"tool_call": {"id": "c2", "name": "read_file", "arguments": "{broken"}},
    ]
    respond = {"parts": parts, "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    with scenario({"respond": respond}) as simulator:
        asked = request(stream=True, stream_options={"include_usage": True})
        status, body, response = exchange(simulator, asked)
    assert status == 200
    assert response.headers["Content-Type"] == "text/event-stream"
    *chunks, last, done = events(body)
    assert done == "[DONE]"
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content") or "" for delta in deltas) == "aaa"
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "hm"
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls", [])]
    assert [piece["function"]["arguments"] for piece in pieces] == ["", '{"p', 'ath": ', '"a.txt"}', "{broken"]
    assert [piece["index"] for piece in pieces] == [0, 0, 0, 0, 1]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_usage_is_streamed_only_to_a_client_that_asked() -> None:
    respond = {"parts": [{"text": "a"}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}, "done": False}
    with scenario({"respond": respond}) as simulator:
        _, body, _ = exchange(simulator, request(stream=True))
    assert all("usage" not in chunk for chunk in events(body))
    assert events(body)[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_whole_answer_carries_the_same_as_a_stream() -> None:
    call = {"id": "c1", "name": "read_file", "arguments": {}}
    parts = [{"reasoning": "hm"}, {"text": "a", "times": 2}, {"tool_call": call}]
    respond = {"parts": parts, "finish": "length", "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    with scenario({"respond": respond}) as simulator:
        whole = answer(simulator)
    message = whole["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("aa", "hm")
    assert message["tool_calls"][0]["function"] == {"name": "read_file", "arguments": "{}"}
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"]["total_tokens"] == 2


def test_any_response_can_be_given_byte_for_byte(tmp_path: Any) -> None:
    (tmp_path / "body.sse").write_bytes(b"data: \xff\n\n")
    moved = {"status": 307, "headers": {"Location": "/elsewhere"}, "text": ""}
    raw = {"status": 200, "content_type": "text/event-stream", "file": "body.sse"}
    data = {
        "schema_version": 1,
        "name": "t",
        "title": "t",
        "model": "m",
        "steps": [
            {"id": "a", "respond": {"status": 401, "json": {"error": {"message": "no"}}}},
            {"id": "b", "expect": {"repeat": True}, "respond": moved},
            {"id": "c", "expect": {"repeat": True}, "respond": raw},
        ],
    }
    with Simulator(parse_scenario(data, directory=tmp_path)) as simulator:
        assert exchange(simulator, request())[:2] == (401, b'{"error": {"message": "no"}}')
        status, _, response = exchange(simulator, request())
        assert (status, response.headers["Location"]) == (307, "/elsewhere")
        status, body, response = exchange(simulator, request())
        assert (status, body, response.headers["Content-Type"]) == (200, b"data: \xff\n\n", "text/event-stream")


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_stream_can_be_cut_in_the_middle(how: str) -> None:
    with scenario({"respond": {"parts": [{"text": "a"}, {"disconnect": how}]}}) as simulator:
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            exchange(simulator, request(stream=True))
        assert simulator.finish() == []
    assert simulator.requests[0].outcome == "cut"


def test_a_stream_holds_until_the_test_lets_it_go() -> None:
    bodies: list[bytes] = []
    with scenario({"respond": {"parts": [{"text": "a"}, {"hold": "gate"}, {"text": "b"}]}}) as simulator:
        client = threading.Thread(target=lambda: bodies.append(exchange(simulator, request(stream=True))[1]))
        client.start()
        assert simulator.wait_until_held("gate")
        assert bodies == []
        simulator.release("gate")
        client.join()
    assert b"[DONE]" in bodies[0]


def test_a_connection_that_only_begins_when_all_are_ended_is_ended_too() -> None:
    with scenario(say("one")) as simulator:
        simulator._server.hang_up()
        with socket.create_connection(("127.0.0.1", urlsplit(simulator.base_url).port or 0), 60) as late:
            assert late.recv(1) == b""


def test_a_client_that_leaves_while_the_stream_holds_is_noticed() -> None:
    with scenario({"respond": {"parts": [{"hold": "gate"}]}}) as simulator:
        url = urlsplit(simulator.base_url)
        body = json.dumps(request(stream=True)).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        )
        with socket.create_connection((url.hostname or "", url.port or 0)) as client:
            client.sendall(f"{head}\r\n".encode() + body)
            assert simulator.wait_until_held("gate")
        assert simulator.wait_until_answered(1)
    assert simulator.requests[0].outcome == "left"


def test_closing_lets_go_of_a_stream_that_nobody_released() -> None:
    with scenario({"respond": {"parts": [{"hold": "gate"}, {"text": "late"}]}}) as simulator:
        client = threading.Thread(target=_ignore_the_end, args=(simulator,))
        client.start()
        assert simulator.wait_until_held("gate")
    client.join()


def _ignore_the_end(simulator: Simulator) -> None:
    try:
        exchange(simulator, request(stream=True))
    except (http.client.HTTPException, ConnectionError):
        return


def test_two_simulators_do_not_know_of_each_other() -> None:
    with scenario(say("one")) as first, scenario(say("two")) as second:
        assert first.base_url != second.base_url
        answer(second)
        assert second.finish() == []
        assert first.requests == []
