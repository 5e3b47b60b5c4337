from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluzo.core.errors import ProviderError
from fluzo.models.sse import Frame, SseDecoder


def decode(*packets: bytes, close: bool = False) -> list[Frame]:
    decoder = SseDecoder()
    frames = [frame for packet in packets for frame in decoder.feed(packet)]
    return frames + (decoder.close() if close else [])


def test_the_blank_after_the_colon_is_optional_and_only_one_is_removed() -> None:
    assert decode(b"data:a\n\ndata: b\n\ndata:  c\n\n") == [Frame("", "a"), Frame("", "b"), Frame("", " c")]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_of_the_standard_ends_a_line(end: bytes) -> None:
    assert decode(b"data: a" + end + b"data: b" + end + end) == [Frame("", "a\nb")]


def test_a_cr_and_its_lf_in_two_packets_count_once() -> None:
    assert decode(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [Frame("", "a\nb")]


def test_unicode_separators_and_next_line_do_not_end_a_line() -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"
    assert decode(f"data: {text}\n\n".encode()) == [Frame("", text)]


def test_a_byte_order_mark_is_dropped_at_the_start_only() -> None:
    assert decode(b"\xef", b"\xbb", b"\xbfdata: a\n\ndata: \xef\xbb\xbfb\n\n") == [
        Frame("", "a"),
        Frame("", "\ufeffb"),
    ]


def test_comments_ids_retries_and_empty_data_give_no_frame() -> None:
    assert decode(b": hi\n\nid: 7\nretry: 3\n\nevent: ping\ndata:\n\n:\n\ndata: x\n\n") == [Frame("", "x")]


def test_the_event_type_belongs_to_its_own_event() -> None:
    assert decode(b"event: error\ndata: a\n\ndata: b\n\n") == [Frame("error", "a"), Frame("", "b")]


def test_a_field_named_error_is_an_error_event() -> None:
    assert decode(b'error: {"code":400}\n\n') == [Frame("error", '{"code":400}')]


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    assert decode(b"data: a\xe9b\n\n") == [Frame("", "a\ufffdb")]


def test_the_last_event_counts_without_its_blank_line() -> None:
    assert decode(b"data: a\n\ndata: b", close=True) == [Frame("", "a"), Frame("", "b")]


def test_closing_an_ended_stream_gives_nothing_more() -> None:
    assert decode(b"data: a\n\n", close=True) == [Frame("", "a")]


def test_lines_that_are_no_field_are_kept_for_diagnosis_up_to_a_bound() -> None:
    decoder = SseDecoder()
    decoder.feed(b"upstream said no\n" + b"x" * 10_000 + b"\n")
    assert decoder.stray.startswith("upstream said no\nxxx")
    assert len(decoder.stray) == 4096


@pytest.mark.parametrize(
    "packets",
    [
        [b"data: " + b"x" * 200],
        [b"data: xxxxxxxxxx"] * 20,
        [b"data: xxxxxxxxxx\n"] * 20,
        [b"error: xxxxxxxxxx\n"] * 20,
    ],
    ids=["one packet", "many packets", "many data lines", "many error lines"],
)
def test_a_line_or_event_beyond_the_bound_is_a_protocol_error(packets: list[bytes]) -> None:
    decoder = SseDecoder(max_event_bytes=100)
    with pytest.raises(ProviderError) as caught:
        for packet in packets:
            decoder.feed(packet)
    assert caught.value.code == "provider_protocol"


_PIECES = st.sampled_from(
    [
        *(b"data: ", b"data:", b"event: e", b": c", b"error: x", b"id: 1"),
        *(b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r"),
        *("ä€😀\u2028".encode(), b"\xef\xbb\xbf", b"text", b"\xff"),
    ]
)


@given(st.lists(_PIECES, max_size=30).map(b"".join), st.lists(st.integers(0, 200), max_size=20))
def test_frames_do_not_depend_on_how_the_bytes_are_cut(raw: bytes, cuts: list[int]) -> None:
    marks = sorted({0, len(raw), *(cut for cut in cuts if cut <= len(raw))})
    packets = [raw[start:end] for start, end in pairwise(marks)]
    assert decode(*packets, close=True) == decode(raw, close=True)
