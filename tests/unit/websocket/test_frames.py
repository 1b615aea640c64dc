"""Frame boundaries: what passes, what ends a direction, and where passing stops."""

from __future__ import annotations

import pytest

from dataplane.websocket.frames import NO_STATUS, Close, FrameReader, Violation, close_frame, read_close
from tests.support.websocket_frames import BINARY, CLOSE, CONTINUATION, MASK, PING, PONG, TEXT, close, frame, parse

LIMIT = 1000


def reader(*, masked: bool = True, compressed: bool = False, limit: int = LIMIT) -> FrameReader:
    return FrameReader(masked=masked, compressed=compressed, max_message_bytes=limit)


def client(opcode: int, payload: bytes = b"", **fields: object) -> bytes:
    return frame(opcode, payload, mask=MASK, **fields)  # type: ignore[arg-type]


def violation(data: bytes, **fields: object) -> int:
    """The code with which `data` ends a client's direction; nothing of its last frame was passed on."""
    frames = reader(**fields)  # type: ignore[arg-type]
    passed = frames.feed(data)
    assert isinstance(frames.ended, Violation)
    parse(passed)
    assert frames.at_frame_end
    assert frames.feed(client(TEXT, b"more")) == b""
    return frames.ended.code


def test_what_is_in_order_is_passed_on_as_the_very_bytes_that_came() -> None:
    data = b"".join(
        (
            client(TEXT, b"hello"),
            client(BINARY, bytes(300)),
            client(PING, b"p"),
            client(PONG),
            client(TEXT, b"a", fin=False),
            client(PING),
            client(CONTINUATION, b"b", fin=False),
            client(CONTINUATION, b""),
            client(BINARY),
        )
    )
    frames = reader()
    assert frames.feed(data) is data
    assert frames.ended is None
    assert frames.messages == 4
    server = frame(TEXT, b"hi") + frame(BINARY, bytes(200))
    assert reader(masked=False).feed(server) is server


def test_a_payload_passes_while_it_comes_and_a_header_only_whole() -> None:
    data = client(BINARY, bytes(200))
    frames = reader()
    assert [frames.feed(data[at : at + 1]) for at in range(8)] == [b""] * 7 + [data[:8]]
    assert not frames.at_frame_end
    assert frames.feed(data[8:20]) == data[8:20]
    assert frames.feed(data[20:]) == data[20:]
    assert frames.at_frame_end
    assert frames.messages == 1


def test_a_control_frame_passes_only_whole() -> None:
    data = client(PING, b"12345")
    frames = reader()
    assert frames.feed(data[:-1]) == b""
    assert frames.at_frame_end
    assert frames.feed(data[-1:] + data) == data + data


@pytest.mark.parametrize("opcode", [3, 4, 5, 6, 7, 11, 12, 13, 14, 15])
def test_a_reserved_opcode_is_a_protocol_error(opcode: int) -> None:
    assert violation(client(TEXT, b"x") + client(opcode)) == 1002


@pytest.mark.parametrize("rsv", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("opcode", [TEXT, PING, CLOSE])
def test_a_reserved_bit_without_an_extension_is_a_protocol_error(opcode: int, rsv: int) -> None:
    assert violation(client(opcode, b"", rsv=rsv)) == 1002


def test_rsv1_marks_a_compressed_message_on_its_first_frame_alone() -> None:
    frames = reader(compressed=True)
    data = client(TEXT, b"x", fin=False, rsv=4) + client(CONTINUATION, b"y") + client(BINARY, b"z")
    assert frames.feed(data) is data
    assert violation(client(TEXT, b"x", fin=False, rsv=4) + client(CONTINUATION, b"y", rsv=4), compressed=True) == 1002
    assert violation(client(PING, rsv=4), compressed=True) == 1002
    for rsv in (1, 2, 5, 6, 7):
        assert violation(client(TEXT, b"x", rsv=rsv), compressed=True) == 1002


def test_a_client_must_mask_and_a_server_must_not() -> None:
    assert violation(frame(TEXT, b"x")) == 1002
    assert violation(frame(PING)) == 1002
    assert violation(client(TEXT, b"x"), masked=False) == 1002


@pytest.mark.parametrize(
    "data",
    [
        client(CONTINUATION, b"x"),
        client(TEXT, b"x") + client(CONTINUATION, b"x"),
        client(TEXT, b"x", fin=False) + client(TEXT, b"x"),
        client(TEXT, b"x", fin=False) + client(BINARY, b"x", fin=False),
        client(PING, fin=False),
        client(CLOSE, fin=False),
        client(PING, bytes(126)),
        client(CLOSE, bytes(126)),
        client(PING, b"", form=2),
        client(TEXT, b"")[:1] + b"\xff" + bytes((0x80, 0, 0, 0, 0, 0, 0, 0)),
    ],
    ids=[
        "continuation of nothing",
        "continuation of an ended message",
        "text within a message",
        "binary within a message",
        "fragmented ping",
        "fragmented close",
        "long ping",
        "long close",
        "ping with an extended length",
        "64 bits of length",
    ],
)
def test_a_sequence_out_of_order_is_a_protocol_error(data: bytes) -> None:
    assert violation(data) == 1002


def test_a_message_of_the_limit_passes_and_one_byte_more_is_too_big() -> None:
    whole = client(BINARY, bytes(LIMIT))
    assert reader().feed(whole) is whole
    assert violation(client(BINARY, bytes(LIMIT + 1))) == 1009
    pieces = client(BINARY, bytes(LIMIT - 1), fin=False) + client(CONTINUATION, b"x")
    frames = reader()
    assert frames.feed(pieces + pieces) == pieces + pieces
    assert frames.messages == 2
    assert (
        violation(client(BINARY, bytes(LIMIT), fin=False) + client(PING, bytes(125)) + client(CONTINUATION, b"x"))
        == 1009
    )


def test_a_message_that_announces_too_much_is_refused_before_any_of_it() -> None:
    frames = reader()
    assert frames.feed(client(BINARY, bytes(5_000))[:4]) == b""
    assert frames.ended == Violation(1009, f"a message over {LIMIT} bytes")


@pytest.mark.parametrize("form", [2, 8])
def test_a_length_may_be_written_longer_than_needed(form: int) -> None:
    """The RFC forbids it to senders; readers in use accept it, and its meaning is certain."""
    data = client(TEXT, b"x", form=form)
    assert reader().feed(data) is data


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 4999])
@pytest.mark.parametrize("masked", [True, False])
def test_a_close_frame_passes_and_ends_the_direction(code: int, masked: bool) -> None:
    mask = MASK if masked else None
    data = close(code, "größer".encode(), mask=mask)
    frames = reader(masked=masked)
    assert frames.feed(data + b"whatever follows") == data
    assert frames.ended == Close(code, "größer")
    assert frames.feed(data) == b""


def test_a_close_frame_that_says_nothing_passes() -> None:
    frames = reader()
    assert frames.feed(close(mask=MASK)) == close(mask=MASK)
    assert frames.ended == Close(NO_STATUS)


def test_a_reason_may_have_123_bytes() -> None:
    data = close(1000, b"r" * 123, mask=MASK)
    assert reader().feed(data) is data


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535])
def test_a_code_that_never_travels_is_a_protocol_error(code: int) -> None:
    assert violation(close(code, mask=MASK)) == 1002


def test_half_a_code_is_a_protocol_error_and_a_reason_in_no_encoding_is_invalid_data() -> None:
    assert violation(client(CLOSE, b"\x03")) == 1002
    assert violation(close(1000, b"\xff", mask=MASK)) == 1007
    assert violation(close(1000, "ü".encode()[:1], mask=MASK)) == 1007


def test_stopping_between_messages_takes_effect_at_once() -> None:
    frames = reader()
    frames.feed(client(TEXT, b"one") + client(TEXT, b"two")[:3])
    assert frames.stop()
    assert frames.feed(client(TEXT, b"two")[3:] + client(PING)) == b""
    assert frames.messages == 1


def test_stopping_within_a_message_lets_it_end() -> None:
    frames = reader()
    one = client(TEXT, b"one", fin=False)
    frames.feed(one[:-1])
    assert not frames.stop()
    rest = one[-1:] + client(PING) + client(CONTINUATION, b"x", fin=False)
    assert frames.feed(rest) is rest
    assert frames.passing
    last = client(CONTINUATION, b"y")
    assert frames.feed(last + client(TEXT, b"two")) == last
    assert not frames.passing
    assert frames.messages == 1


def test_the_close_behind_a_stop_is_read_and_not_passed_on() -> None:
    frames = reader()
    frames.stop()
    assert frames.feed(client(TEXT, b"x") + client(PING) + close(1001, mask=MASK)) == b""
    assert frames.ended == Close(1001)


def test_a_close_within_the_message_that_is_waited_for_passes() -> None:
    frames = reader()
    frames.feed(client(TEXT, b"x", fin=False))
    frames.stop()
    assert frames.feed(close(1000, mask=MASK)) == close(1000, mask=MASK)
    assert frames.passing
    assert frames.ended == Close(1000)


@pytest.mark.parametrize("mask", [None, MASK])
def test_a_close_frame_of_the_gateway_is_one_that_a_reader_accepts(mask: bytes | None) -> None:
    data = close_frame(1009, "the message is too large", mask=mask)
    frames = reader(masked=mask is not None)
    assert frames.feed(data) is data
    assert frames.ended == Close(1009, "the message is too large")


def test_no_close_frame_is_made_that_must_not_travel() -> None:
    for code in (1005, 1006, 1015, 999, 5000):
        with pytest.raises(ValueError, match="no close frame"):
            close_frame(code, "", mask=None)
    with pytest.raises(ValueError, match="no close frame"):
        close_frame(1000, "r" * 124, mask=None)


def test_the_contents_of_a_close_are_read_without_its_frame() -> None:
    assert read_close(b"\x03\xe8bye") == Close(1000, "bye")
