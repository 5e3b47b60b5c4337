import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.wire_checks import check_error, check_reply
from support.wire_server import CASES, DONE, case, case_cuts, case_names, chunk

from fluzo.core.errors import ProviderError
from fluzo.core.records import Message, ModelReply, ModelRequest, ToolSpec, Usage
from fluzo.core.redact import make_redactor
from fluzo.models.assembly import TEXT_CALL_FINISH
from fluzo.models.endpoint import ModelEndpoint
from fluzo.models.reading import ReplyReader

TOOLS = tuple(
    ToolSpec(name, "", {"type": "object", "properties": {"line": {"type": "integer"}}})
    for name in ("read_file", "write_file", "edit_file", "run_shell", "list_dir")
)
REQUEST = ModelRequest((Message("user", "go"),), TOOLS, 100)
ENDPOINT = ModelEndpoint("coder", "http://127.0.0.1:8080/v1", "fx-model")
READS_TEXT_CALLS = ModelEndpoint("coder", "http://127.0.0.1:8080/v1", "fx-model", text_tool_calls=True)

Delta = tuple[str, bool]


def read(
    *packets: bytes, endpoint: ModelEndpoint = ENDPOINT, clean: bool = True, deltas: list[Delta] | None = None
) -> ModelReply:
    seen: list[Delta] = [] if deltas is None else deltas
    reader = ReplyReader(endpoint, REQUEST, lambda text, thought: seen.append((text, thought)), make_redactor())
    for packet in packets:
        reader.feed(packet)
        if reader.done:
            break
    return reader.end(clean=clean)


def check_case(name: str, *packets: bytes) -> None:
    fixture = case(name)
    clean = fixture["delivery"]["close"] == "clean"
    if fixture["expect"]["outcome"] == "error":
        with pytest.raises(ProviderError) as caught:
            read(*packets, endpoint=READS_TEXT_CALLS, clean=clean)
        check_error(caught.value, fixture["expect"])
    else:
        check_reply(read(*packets, endpoint=READS_TEXT_CALLS, clean=clean), fixture["expect"])


def test_all_wire_cases_are_here() -> None:
    assert len(case_names()) == 40


@pytest.mark.parametrize("name", case_names())
def test_a_wire_case_is_read_as_expected(name: str) -> None:
    check_case(name, *case_cuts(case(name)))


@pytest.mark.parametrize("name", case_names())
def test_a_wire_case_is_read_the_same_byte_by_byte(name: str) -> None:
    raw = (CASES / f"{name}.sse").read_bytes()
    check_case(name, *(raw[at : at + 1] for at in range(len(raw))))


@settings(max_examples=25, deadline=None)
@given(st.data())
@pytest.mark.parametrize("name", case_names())
def test_a_wire_case_is_read_the_same_in_random_cuts(name: str, data: st.DataObject) -> None:
    raw = (CASES / f"{name}.sse").read_bytes()
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=12))
    marks = sorted({0, len(raw), *cuts})
    check_case(name, *(raw[start:end] for start, end in pairwise(marks)))


@pytest.mark.parametrize("name", [name for name in case_names() if case(name)["expect"]["outcome"] == "complete"])
def test_what_was_shown_live_is_the_text_and_the_reasoning(name: str) -> None:
    deltas: list[Delta] = []
    reply = read(*case_cuts(case(name)), deltas=deltas)
    shown = "".join(text for text, thought in deltas if not thought)
    if name != "p53-think-close-only":  # There the text turns out to be reasoning after it was shown.
        assert (shown, "".join(text for text, thought in deltas if thought)) == (reply.text, reply.reasoning)


@pytest.mark.parametrize("name", ["p60-text-hermes", "p61-text-qwen-xml", "p62-text-qwen-bare"])
def test_a_call_in_text_is_no_success_and_names_its_setting_unless_the_entry_reads_it(name: str) -> None:
    reply = read(*case_cuts(case(name)))
    assert reply.outcome == "incomplete"
    assert reply.finish == TEXT_CALL_FINISH
    assert reply.tool_calls == ()
    assert "<function=" in reply.text or "<tool_call>" in reply.text
    assert any("models.coder.compat.text_tool_calls = true" in warning for warning in reply.warnings)


@pytest.mark.parametrize("endpoint", [ENDPOINT, READS_TEXT_CALLS])
def test_call_markup_in_a_code_fence_is_plain_text(endpoint: ModelEndpoint) -> None:
    reply = read(*case_cuts(case("p64-text-call-in-fence")), endpoint=endpoint)
    assert (reply.outcome, reply.tool_calls, reply.warnings) == ("complete", (), ())


def test_a_call_in_text_to_a_tool_that_was_not_offered_does_not_run() -> None:
    text = '<tool_call>{"name": "format_disk", "arguments": {}}</tool_call>'
    reply = read(chunk({"content": text}), chunk(finish_reason="stop"), DONE, endpoint=READS_TEXT_CALLS)
    assert (reply.outcome, reply.tool_calls, reply.text) == ("incomplete", (), text)


def test_a_half_written_call_in_text_does_not_run() -> None:
    text = '<tool_call>{"name": "run_shell", "arguments": {"command": "rm'
    reply = read(chunk({"content": text}), chunk(finish_reason="stop"), DONE, endpoint=READS_TEXT_CALLS)
    assert (reply.outcome, reply.tool_calls) == ("incomplete", ())


def test_parameters_written_as_text_get_the_types_of_the_schema() -> None:
    text = "<function=read_file><parameter=path>1</parameter><parameter=line>7</parameter></function>"
    reply = read(chunk({"content": text}), chunk(finish_reason="stop"), DONE, endpoint=READS_TEXT_CALLS)
    assert json.loads(reply.tool_calls[0].arguments) == {"path": "1", "line": 7}


# --- tool-call dialects ---------------------------------------------------------------------------------------


def fragment(arguments: object = "", name: str = "", call_id: str = "", index: int | None = 0) -> dict[str, object]:
    body: dict[str, object] = {"function": {"arguments": arguments, **({"name": name} if name else {})}}
    return body | ({"id": call_id} if call_id else {}) | ({} if index is None else {"index": index})


def calls_of(*deltas: list[dict[str, object]], finish: str = "tool_calls") -> ModelReply:
    return read(*(chunk({"tool_calls": fragments}) for fragments in deltas), chunk(finish_reason=finish), DONE)


def test_interleaved_fragments_of_two_calls_are_joined_by_index() -> None:
    reply = calls_of(
        [fragment('{"path":', "read_file", "a", 0), fragment('{"path":', "list_dir", "b", 1)],
        [fragment('"y"}', index=1), fragment('"x"}', index=0)],
    )
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
        ("a", "read_file", '{"path":"x"}'),
        ("b", "list_dir", '{"path":"y"}'),
    ]


def test_whole_calls_with_neither_id_nor_index_stay_apart() -> None:
    reply = calls_of(
        [fragment('{"path":"x"}', "read_file", index=None)], [fragment('{"path":"y"}', "read_file", index=None)]
    )
    assert [call.arguments for call in reply.tool_calls] == ['{"path":"x"}', '{"path":"y"}']
    assert len({call.id for call in reply.tool_calls}) == 2


def test_two_calls_without_parameters_at_one_index_are_told_apart_by_their_names() -> None:
    reply = calls_of([fragment("", "list_dir", index=None)], [fragment("", "read_file", index=None)])
    assert [call.name for call in reply.tool_calls] == ["list_dir", "read_file"]


def test_the_position_in_the_list_stands_in_for_a_missing_index() -> None:
    reply = calls_of(
        [fragment('{"path":', "read_file", index=None), fragment('{"path":', "read_file", index=None)],
        [fragment('"x"}', index=None), fragment('"y"}', index=None)],
    )
    assert [call.arguments for call in reply.tool_calls] == ['{"path":"x"}', '{"path":"y"}']


def test_a_name_in_pieces_is_joined() -> None:
    reply = calls_of([fragment("", "read_", "a")], [fragment("{}", "file")])
    assert [call.name for call in reply.tool_calls] == ["read_file"]


def test_a_whole_call_sent_again_with_its_id_counts_once() -> None:
    reply = calls_of([fragment('{"path":', "read_file", "a")], [fragment('"x"}')], [fragment('{"path":"x"}', "", "a")])
    assert [call.arguments for call in reply.tool_calls] == ['{"path":"x"}']


def test_equal_ids_of_different_calls_are_made_unique() -> None:
    reply = calls_of(
        [fragment("{}", "list_dir", "same", 0)],
        [fragment("{}", "read_file", "same", 1)],
    )
    assert [call.name for call in reply.tool_calls] == ["list_dir", "read_file"]
    assert len({call.id for call in reply.tool_calls}) == 2


def test_the_old_function_call_form_is_read() -> None:
    reply = read(
        chunk({"function_call": {"name": "read_file", "arguments": '{"path":'}}),
        chunk({"function_call": {"arguments": '"x"}'}}),
        chunk(finish_reason="function_call"),
        DONE,
    )
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("read_file", '{"path":"x"}')]
    assert reply.finish == "tool_calls"


def test_glued_objects_come_out_unrepaired_for_the_registry_to_refuse() -> None:
    reply = calls_of([fragment('{"path":"a"}{"path":"b"}', "write_file", "c1")])
    assert [call.arguments for call in reply.tool_calls] == ['{"path":"a"}{"path":"b"}']


@pytest.mark.parametrize("arguments", ['{"a":"x', '{"a":', '{"a":[1,2', '{"a":{"b":1}', '{"a":"\\', '{"a":tru'])
def test_arguments_that_end_in_the_middle_spoil_the_reply_whatever_its_finish(arguments: str) -> None:
    reply = calls_of([fragment("{}", "list_dir", "c1", 0)], [fragment(arguments, "run_shell", "c2", 1)])
    assert (reply.outcome, reply.tool_calls) == ("incomplete", ())


@pytest.mark.parametrize("finish", ["length", "max_tokens", "content_filter", "abort", "error", "LENGTH"])
def test_calls_of_a_reply_that_was_cut_short_never_come_out(finish: str) -> None:
    reply = calls_of([fragment("{}", "list_dir", "c1")], finish=finish)
    assert (reply.outcome, reply.tool_calls) == ("incomplete", ())
    assert reply.warnings


def test_calls_of_a_stream_without_an_end_never_come_out() -> None:
    whole = chunk({"tool_calls": [fragment('{"path":"x"}', "read_file", "c1")]})
    for clean in (True, False):
        reply = read(whole, clean=clean)
        assert (reply.outcome, reply.tool_calls, reply.finish) == ("incomplete", (), "")


def test_an_end_mark_without_a_finish_reason_is_an_end() -> None:
    reply = read(chunk({"content": "hi"}), DONE)
    assert (reply.outcome, reply.finish) == ("complete", "stop")


def test_a_call_without_a_name_does_not_run() -> None:
    assert calls_of([fragment("{}", "", "c1")]).outcome == "incomplete"


def test_more_calls_than_the_bound_are_a_protocol_error() -> None:
    with pytest.raises(ProviderError, match="128"):
        calls_of([fragment("{}", "list_dir", f"c{number}", number) for number in range(129)])


def test_fragments_of_wrong_types_are_skipped() -> None:
    reply = read(
        chunk({"tool_calls": [None, 3, "x"]}),
        chunk({"content": {"no": "text"}, "reasoning": {"no": "text"}, "tool_calls": "x"}),
        b'data: {"choices": [null, 1, {"index": 0, "delta": []}], "usage": [], "id": 3, "model": null}\n\n',
        b"data: 7\n\n",
        b"data: null\n\n",
        chunk({"content": "ok"}, finish_reason="stop"),
    )
    assert (reply.outcome, reply.text) == ("complete", "ok")


def test_what_comes_after_the_finish_is_not_part_of_the_reply() -> None:
    late = chunk({"content": "done", "tool_calls": [fragment("{}", "list_dir", "c1")]}, finish_reason="stop")
    reply = read(chunk({"content": "done"}), chunk(finish_reason="stop"), late, DONE, late)
    assert (reply.text, reply.tool_calls) == ("done", ())


# --- text, reasoning, usage -----------------------------------------------------------------------------------


def test_reasoning_given_under_both_names_counts_once() -> None:
    reply = read(chunk({"reasoning": "hm", "reasoning_content": "hm"}), chunk({"content": "a"}), DONE)
    assert (reply.reasoning, reply.text) == ("hm", "a")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>a</think>b", ("b", "a")),
        ("\n<think>\na\n</think>\n\nb", ("b", "\na\n")),
        ("a <think> b", ("a <think> b", "")),
        ("Write `</think>` to end it.", ("Write `</think>` to end it.", "")),
        ("```\n</think>\n```", ("```\n</think>\n```", "")),
        ("<thin air", ("<thin air", "")),
        ("a < b </thin", ("a < b </thin", "")),
        ("<think>a</think>b</think>c", ("b</think>c", "a")),
        ("<think>never closed", ("", "never closed")),
    ],
)
def test_think_tags_are_told_from_text_however_they_are_cut(text: str, expected: tuple[str, str]) -> None:
    for size in (1, 2, 5, len(text)):
        pieces = [chunk({"content": text[at : at + size]}) for at in range(0, len(text), size)]
        reply = read(*pieces, chunk(finish_reason="stop"), DONE)
        assert (reply.text, reply.reasoning) == expected


def test_a_lone_closing_tag_stays_text_when_reasoning_came_in_its_own_field() -> None:
    reply = read(chunk({"reasoning_content": "hm"}), chunk({"content": "see </think> there"}), DONE)
    assert (reply.text, reply.reasoning) == ("see </think> there", "hm")


def test_a_surrogate_pair_cut_in_two_events_is_joined_in_text_and_on_the_screen() -> None:
    deltas: list[Delta] = []
    raw = b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n'
    reply = read(raw % b"a\\ud83c", raw % b"\\udf0db", DONE, deltas=deltas)
    assert reply.text == "a\U0001f30db"
    assert "".join(text for text, _ in deltas) == "a\U0001f30db"


def test_lone_surrogates_and_nul_do_not_get_into_a_reply() -> None:
    reply = read(b'data: {"choices":[{"delta":{"content":"a\\udce9\\u0000b"},"finish_reason":"stop"}]}\n\n')
    assert reply.text == "a\ufffdb"


def test_reasoning_alone_is_an_empty_reply() -> None:
    reply = read(chunk({"reasoning_content": "hm"}), chunk(finish_reason="stop"), DONE)
    assert (reply.outcome, reply.reasoning) == ("empty", "hm")
    assert "reasoning only" in reply.warnings[0]


@pytest.mark.parametrize("raw", [b"", b"data: [DONE]\n\n", b"\n\n", b'{"choices":[]}'])
def test_a_success_with_nothing_in_it_is_empty_and_says_so(raw: bytes) -> None:
    reply = read(raw)
    assert reply.outcome == "empty"
    assert "context may be full" in reply.warnings[0]


def usage_of(**fields: object) -> Usage | None:
    body = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}], **fields}
    return read(b"data: " + json.dumps(body).encode() + b"\n\n").usage


def test_cached_and_reasoning_tokens_are_parts_of_the_totals() -> None:
    reported = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    usage = usage_of(usage=reported)
    assert usage == Usage(100, 20, 64, 12)
    assert usage.total_tokens == 120


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"usage": None}, None),
        ({"usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}, None),
        ({"usage": {"prompt_tokens": -5, "completion_tokens": True}}, None),
        ({"usage": {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": None}}, Usage(5, 1)),
        ({"usage": {"prompt_tokens": 5, "completion_tokens": 1, "prompt_cache_hit_tokens": 3}}, Usage(5, 1, 3)),
        ({"timings": {"cache_n": 30, "prompt_n": 12, "predicted_n": 4}}, Usage(42, 4, 30)),
    ],
)
def test_usage_is_what_was_counted_and_unknown_otherwise(fields: dict[str, object], expected: Usage | None) -> None:
    assert usage_of(**fields) == expected


# --- errors in a 200 ------------------------------------------------------------------------------------------


def failure_of(*packets: bytes, clean: bool = True) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        read(*packets, clean=clean)
    return caught.value


def test_a_named_error_event_fails_the_turn() -> None:
    error = failure_of(b'event: error\ndata: {"error":{"message":"model crashed"},"message":"x"}\n\n')
    assert "model crashed" in error.message


def test_an_error_event_that_is_plain_text_is_shown() -> None:
    assert "model crashed" in failure_of(b"event: error\ndata: model crashed\n\n").message


def test_an_error_body_without_data_fields_in_a_stream_is_read() -> None:
    body = b'{"error":{"message":"request (9 tokens) exceeds the available context size (8 tokens)"}}'
    error = failure_of(b": hi\n\n" + body)
    assert error.code == "context_overflow"
    assert error.detail["limit_tokens"] == 8


def test_an_event_that_is_not_json_is_a_protocol_error() -> None:
    assert failure_of(b"data: {oops\n\n").code == "provider_protocol"


def test_a_named_heartbeat_may_hold_anything() -> None:
    assert read(b"event: heartbeat\ndata: tick\n\n", chunk({"content": "a"}), DONE).text == "a"


def test_a_connection_that_breaks_before_any_output_may_be_tried_again() -> None:
    for packets, clean in (((b"",), False), ((chunk({"role": "assistant"}),), False), ((chunk({}),), True)):
        error = failure_of(*packets, clean=clean)
        assert (error.code, error.retry) == ("provider_unavailable", "safe")


def test_json_that_breaks_off_may_be_tried_again_and_broken_json_may_not() -> None:
    assert failure_of(b'{"choices": [', clean=False).retry == "safe"
    assert (failure_of(b'{"choices": [').code, failure_of(b'{"choices": [').retry) == ("provider_protocol", "never")


@pytest.mark.parametrize("raw", [b"{}", b"[1]", b'{"message": "hello"}'])
def test_json_that_is_no_completion_is_a_protocol_error_that_names_the_address_setting(raw: bytes) -> None:
    error = failure_of(raw)
    assert error.code == "provider_protocol"
    assert "models.coder.base_url" in error.hint


def test_deep_nesting_is_a_protocol_error_and_no_crash() -> None:
    assert failure_of(b"data: " + b"[" * 5000 + b"\n\n").code == "provider_protocol"
