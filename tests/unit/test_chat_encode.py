import json
import re
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.conversations import check_strict, stored
from support.wire_server import CASES

from fluzo.core.records import Message, ModelRequest, ToolCall, ToolSpec
from fluzo.models.chat import NO_RESULT, encode, normalize
from fluzo.models.endpoint import ModelEndpoint

ENDPOINT = ModelEndpoint("coder", "http://127.0.0.1:8080/v1", "fx-model")
TOOLS = (ToolSpec("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),)
HISTORIES = {item["name"]: item for item in json.loads((CASES / "m-histories.json").read_text())["histories"]}


def body_of(*messages: Message, endpoint: ModelEndpoint = ENDPOINT, tools: tuple[ToolSpec, ...] = TOOLS) -> Any:
    return json.loads(encode(ModelRequest(messages, tools, 4096), endpoint))


def sent(*messages: Message, endpoint: ModelEndpoint = ENDPOINT) -> Any:
    return body_of(*messages, endpoint=endpoint)["messages"]


def calls(*ids: str, arguments: str = "{}", text: str = "") -> Message:
    return Message("assistant", text, tool_calls=tuple(ToolCall(call_id, "run", arguments) for call_id in ids))


def result(call_id: str, text: str = "ok") -> Message:
    return Message("tool", text, tool_call_id=call_id)


@pytest.mark.parametrize("name", sorted(HISTORIES))
def test_a_stored_history_is_sent_well_formed(name: str) -> None:
    raw = encode(ModelRequest(tuple(stored(HISTORIES[name])), TOOLS, 100), ENDPOINT)
    assert "\x00" not in raw.decode("utf-8")
    check_strict(json.loads(raw)["messages"])


def test_an_interrupted_call_gets_a_result_that_says_so() -> None:
    messages = sent(*stored(HISTORIES["m01-interrupted"]))
    assert [message.get("tool_call_id") for message in messages[2:4]] == ["call_1", "call_2"]
    assert messages[2]["content"] == "a.txt"
    assert "interrupted" in messages[3]["content"]


def test_long_and_odd_ids_are_rewritten_alike_on_both_sides_and_plain_ones_kept() -> None:
    messages = sent(*stored(HISTORIES["m03-long-ids"]))
    made = [call["id"] for call in messages[1]["tool_calls"]]
    assert made == [message["tool_call_id"] for message in messages[2:4]]
    assert [message["content"] for message in messages[2:4]] == ["1", "2"]
    assert [call["id"] for call in sent(Message("user", "x"), calls("call_1"))[1]["tool_calls"]] == ["call_1"]


def test_the_short_form_of_ids_holds_for_old_histories_too_and_its_pairs_stay_matched() -> None:
    stored_ids = ("call_" + "f" * 60, "toolu_01|fc_1", "abcDEF123", "nine_char", "abc", "")
    results = [result(call_id, str(number)) for number, call_id in enumerate(stored_ids)]
    messages = sent(
        Message("user", "x"), calls(*stored_ids), *results, endpoint=ENDPOINT._replace(tool_call_ids="mistral")
    )
    made = [call["id"] for call in messages[1]["tool_calls"]]
    assert all(re.fullmatch("[A-Za-z0-9]{9}", call_id) for call_id in made)
    assert made[2] == "abcDEF123"
    assert {message["tool_call_id"]: message["content"] for message in messages[2:]} == {
        call_id: str(number) for number, call_id in enumerate(made)
    }


def test_user_messages_in_a_row_are_joined() -> None:
    messages = sent(*stored(HISTORIES["m04-denied-then-new"]))
    assert messages[-1] == {"role": "user", "content": "do it differently\n\nwell?"}


def test_an_assistant_message_with_reasoning_only_is_left_out() -> None:
    assert sent(*stored(HISTORIES["m06-empty-assistant"])) == [{"role": "user", "content": "go\n\n?"}]


def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    assert sent(*stored(HISTORIES["m07-surrogate"]))[2]["content"] == "caf\ufffd.txt \ufffd"
    assert sent(Message("user", "a\ud83c\udf0d\x00b"))[0]["content"] == "a\U0001f30db"


def test_arguments_that_are_no_object_are_sent_as_one() -> None:
    messages = sent(*stored(HISTORIES["m10-bad-arguments"]))
    assert json.loads(messages[1]["tool_calls"][0]["function"]["arguments"]) == {"_invalid": '{"path":"a"}{"path":"b"}'}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("", "{}"),
        ('{"a": 1}', '{"a": 1}'),
        ("[1]", '{"_invalid":"[1]"}'),
        ('{"a": NaN}', '{"_invalid":"{\\"a\\": NaN}"}'),
        ('{"a":"\\ud800\\u0000b"}', '{"a":"\ufffdb"}'),
        ("[" * 500, json.dumps({"_invalid": "[" * 500}, separators=(",", ":"))),
    ],
)
def test_arguments_stay_as_written_unless_a_server_could_refuse_them(raw: str, expected: str) -> None:
    messages = sent(Message("user", "x"), calls("c1", arguments=raw))
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == expected


def test_ids_that_a_server_gives_again_are_unique_in_a_request_and_keep_their_results() -> None:
    messages = sent(Message("user", "x"), calls("c0"), result("c0", "first"), calls("c0", "c0"), result("c0", "second"))
    made = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert len(set(made)) == 3
    answers = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    assert [answers[call_id] for call_id in made][:2] == ["first", "second"]
    assert "interrupted" in answers[made[2]]


def test_results_without_a_call_and_second_results_are_left_out() -> None:
    messages = sent(Message("user", "x"), result("c9"), calls("c1"), result("c1", "one"), result("c1", "two"))
    assert [message["content"] for message in messages if message["role"] == "tool"] == ["one"]


def test_calls_of_an_incomplete_message_are_never_sent() -> None:
    cut = Message("assistant", "I will", tool_calls=(ToolCall("c1", "run", "{}"),), incomplete=True)
    assert sent(Message("user", "x"), cut, result("c1"))[1:] == [{"role": "assistant", "content": "I will"}]


def test_only_the_first_message_can_be_a_system_message() -> None:
    messages = sent(Message("system", "a"), Message("user", "b"), Message("assistant", "c"), Message("system", "d"))
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]


def test_names_that_a_server_would_refuse_are_made_plain() -> None:
    odd = Message("assistant", tool_calls=(ToolCall("c1", "read file!", "{}"), ToolCall("c2", "", "{}")))
    names = [call["function"]["name"] for call in sent(Message("user", "x"), odd)[1]["tool_calls"]]
    assert names == ["read_file_", "unnamed"]


def test_reasoning_goes_back_only_when_the_entry_says_so() -> None:
    thought = Message("assistant", "a", reasoning="hm")
    assert sent(Message("user", "x"), thought)[1] == {"role": "assistant", "content": "a"}
    for field in ("reasoning_content", "reasoning"):
        endpoint = ENDPOINT._replace(send_reasoning=True, reasoning_field=field)
        assert sent(Message("user", "x"), thought, endpoint=endpoint)[1] == {
            "role": "assistant",
            field: "hm",
            "content": "a",
        }


def test_the_optional_parameters_follow_the_settings() -> None:
    def head(tools: tuple[ToolSpec, ...] = TOOLS, **compat: Any) -> dict[str, Any]:
        endpoint = ModelEndpoint("coder", "http://127.0.0.1/v1", "m", **compat)
        body: dict[str, Any] = body_of(Message("user", "x"), endpoint=endpoint, tools=tools)
        return {key: value for key, value in body.items() if key not in ("messages", "tools", "model")}

    assert head() == {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 4096}
    assert head(stream=False) == {"stream": False, "max_tokens": 4096}
    assert head(usage_in_stream=False, output_limit_parameter="omit") == {"stream": True}
    assert head(output_limit_parameter="max_completion_tokens")["max_completion_tokens"] == 4096
    assert head(parallel_tool_calls="false")["parallel_tool_calls"] is False
    assert head(parallel_tool_calls="true")["parallel_tool_calls"] is True
    assert "parallel_tool_calls" not in head((), parallel_tool_calls="true")
    assert "tools" not in body_of(Message("user", "x"), tools=())


def test_tools_are_sent_as_functions_and_the_messages_come_last() -> None:
    body = body_of(Message("user", "x"))
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "read_file", "description": "Read a file.", "parameters": TOOLS[0].parameters},
        }
    ]
    assert list(body)[-1] == "messages"


# --- append-only ----------------------------------------------------------------------------------------------

_TEXTS = st.sampled_from(["", " ", "a", 'q"\n', "é\udce9"])
_IDS = st.sampled_from(["c1", "c2", "x" * 50])
_CALLS = st.lists(st.builds(ToolCall, _IDS, st.just("run"), st.sampled_from(["{}", "no"])), max_size=3).map(tuple)
_MESSAGES = st.lists(
    st.one_of(
        st.builds(Message, st.just("user"), _TEXTS),
        st.builds(Message, st.just("system"), _TEXTS),
        st.builds(Message, st.just("assistant"), _TEXTS, _TEXTS, _CALLS, incomplete=st.booleans()),
        st.builds(Message, st.just("tool"), _TEXTS, tool_call_id=_IDS),
    ),
    max_size=12,
)


_ENDPOINTS = st.sampled_from(
    [ENDPOINT, ENDPOINT._replace(tool_call_ids="mistral"), ENDPOINT._replace(send_reasoning=True)]
)


@given(_MESSAGES, _ENDPOINTS)
def test_whatever_is_stored_the_request_is_well_formed(messages: list[Message], endpoint: ModelEndpoint) -> None:
    check_strict(sent(*messages, endpoint=endpoint), endpoint.tool_call_ids)


@given(_MESSAGES, _ENDPOINTS)
def test_a_longer_conversation_continues_the_bytes_of_a_shorter_one(
    messages: list[Message], endpoint: ModelEndpoint
) -> None:
    def encoded(count: int) -> bytes:
        return encode(ModelRequest(tuple(messages[:count]), TOOLS, 100), endpoint)

    for count in range(len(messages)):
        ending = takewhile(lambda message: message.role == "tool", reversed(normalize(messages[:count])))
        if not any(
            message.text == NO_RESULT for message in ending
        ):  # A request is never sent while a call awaits its result.
            shorter, longer = encoded(count), encoded(count + 1)
            assert longer.startswith(shorter.removesuffix(b'"}]}').removesuffix(b"]}"))
