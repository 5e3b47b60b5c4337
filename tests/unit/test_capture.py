import pytest

from fluzo.workspace.capture import Capture, masked

SECRET = b"horse-battery-staple"


def captured(data: bytes, limit: int) -> bytes:
    capture = Capture(limit)
    capture.add(data)
    return masked(capture.text(), [SECRET], limit if capture.truncated else 0)


def test_output_without_a_gap_loses_the_value_and_nothing_else() -> None:
    assert captured(b"a " + SECRET + b" b horse-battery c", 1000) == b"a [redacted] b horse-battery c"


@pytest.mark.parametrize("offset", range(24))
def test_no_part_of_a_value_is_left_at_the_edges_of_a_gap(offset: int) -> None:
    shown = captured(b"x" * offset + SECRET * 40, 200)
    assert b"bytes omitted" in shown
    pieces = {SECRET[at : at + 4] for at in range(len(SECRET) - 3)}
    assert not [piece for piece in pieces if piece in shown]


def test_text_that_looks_like_a_gap_is_only_text() -> None:
    fake = b"horse\n[... 5 bytes omitted ...]\nstaple"
    assert captured(fake, 1000) == fake


def test_the_longer_of_two_values_is_masked_as_a_whole() -> None:
    assert masked(b"abcdefgh-1 abcdefgh", [b"abcdefgh", b"abcdefgh-1"]) == b"[redacted] [redacted]"
