"""Frames under any split, and against the parser of `websockets`."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from websockets.protocol import CLIENT, OPEN, SERVER, Protocol

from dataplane.websocket.frames import Close, FrameReader, Violation
from tests.support.websocket_frames import CLOSE, frame, parse

LIMIT = 2_000
CLOSE_WITHIN_A_MESSAGE = "incomplete fragmented message"
"""What `websockets` refuses and the RFC allows: a Close is a control frame, and may stand between fragments (§5.4)."""

masks = st.binary(min_size=4, max_size=4)
likely = st.sampled_from((0, 1, 2, 8, 9, 10, 0, 1, 2, 3, 11))
lengths = st.one_of(st.integers(0, 20), st.integers(120, 130), st.just(400))


@st.composite
def frames(draw: st.DrawFn, masked: bool) -> bytes:
    """A frame that is in order more often than not."""
    opcode = draw(likely)
    payload = bytes(draw(lengths))
    if opcode == CLOSE:
        code = draw(st.sampled_from((1000, 1001, 1005, 1006, 1011, 3000, 4001, 5000, 0)))
        payload = draw(
            st.sampled_from((b"", b"\x03", code.to_bytes(2, "big"), code.to_bytes(2, "big") + b"bye\xff"[:3]))
        )
    odd = draw(st.integers(0, 19)) == 0
    return frame(
        opcode,
        payload,
        fin=opcode >= 8 or draw(st.booleans()),
        rsv=draw(st.sampled_from((1, 2, 4, 7))) if odd else 0,
        mask=draw(masks) if masked is not odd else None,
        form=draw(st.sampled_from((0, 2, 8))) if len(payload) < 126 and opcode < 8 else 0,
    )


@st.composite
def messages(draw: st.DrawFn, masked: bool) -> list[bytes]:
    """Frames of which the fragments are in order."""
    sent: list[bytes] = []
    for _ in range(draw(st.integers(0, 4))):
        fragments = draw(st.integers(1, 4))
        for number in range(fragments):
            mask = draw(masks) if masked else None
            sent.append(frame(0 if number else 1, bytes(draw(lengths)), fin=number == fragments - 1, mask=mask))
            if draw(st.booleans()):
                sent.append(frame(draw(st.sampled_from((9, 10))), b"ping", mask=mask))
    return sent


@st.composite
def streams(draw: st.DrawFn) -> tuple[bool, bytes]:
    """Whether it comes from a client, and its bytes: frames, any bytes, or both."""
    masked = draw(st.booleans())
    parts = draw(messages(masked)) + draw(st.lists(frames(masked), max_size=6))
    return masked, b"".join(parts) + draw(st.sampled_from((b"", b"", draw(st.binary(max_size=30)))))


def reader(masked: bool) -> FrameReader:
    return FrameReader(masked=masked, compressed=False, max_message_bytes=LIMIT)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    points = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(points)]


@given(streams(), st.lists(st.integers(0, 10_000), max_size=12), st.integers(-1, 12))
def test_the_outcome_is_the_same_for_every_split(stream: tuple[bool, bytes], cuts: list[int], stop_at: int) -> None:
    masked, data = stream
    whole, split = reader(masked), reader(masked)
    parts = pieces(data, cuts)
    before = b"".join(parts[:stop_at]) if stop_at >= 0 else data
    passed_whole = whole.feed(before)
    passed_split = b"".join(split.feed(part) for part in (parts[:stop_at] if stop_at >= 0 else parts))
    if stop_at >= 0:
        assert whole.stop() == split.stop()
        passed_whole += whole.feed(data[len(before) :])
        passed_split += b"".join(split.feed(part) for part in parts[stop_at:])
    assert passed_split == passed_whole
    assert (split.ended, split.messages, split.passing) == (whole.ended, whole.messages, whole.passing)
    assert split.at_frame_end == whole.at_frame_end


@given(streams())
def test_what_passes_is_a_prefix_that_holds_no_part_of_a_header_or_control_frame(stream: tuple[bool, bytes]) -> None:
    masked, data = stream
    frames = reader(masked)
    passed = frames.feed(data)
    assert data.startswith(passed)
    if frames.at_frame_end:
        assert sum(frame.fin and frame.opcode < 8 for frame in parse(passed)) == frames.messages


@given(streams())
def test_whatever_websockets_accepts_is_accepted_and_nothing_that_it_refuses(stream: tuple[bool, bytes]) -> None:
    masked, data = stream
    other = Protocol(SERVER if masked else CLIENT, state=OPEN, max_size=LIMIT)
    other.receive_data(data)
    frames = reader(masked)
    frames.feed(data)
    if isinstance(frames.ended, Violation):
        assert refuses(other)
        assert other.close_sent is not None
        # Of a frame that is out of order and too large as well, it names the size.
        assert frames.ended.code == other.close_sent.code or (frames.ended.code, other.close_sent.code) == (1002, 1009)
    elif str(other.parser_exc) == CLOSE_WITHIN_A_MESSAGE:
        assert isinstance(frames.ended, Close)
    else:
        assert other.parser_exc is None
        assert isinstance(frames.ended, Close) is (other.close_rcvd is not None)
        if isinstance(frames.ended, Close) and other.close_rcvd is not None:
            assert (frames.ended.code, frames.ended.reason) == (other.close_rcvd.code, other.close_rcvd.reason)


def refuses(other: Protocol) -> bool:
    """Whether it refuses the frame that it is reading, of which it wants to see the end first."""
    other.events_received()
    while other.parser_exc is None:
        other.receive_data(b"\0")
        if other.parser_exc is None and other.events_received():
            return False
    return True


@given(st.booleans(), st.data())
def test_a_stop_passes_the_message_that_is_under_way_and_nothing_else(masked: bool, data: st.DataObject) -> None:
    sent = data.draw(messages(masked))
    at = data.draw(st.integers(0, len(sent)))
    frames = reader(masked)
    frames.feed(b"".join(sent[:at]))
    before = frames.messages
    assert frames.ended is None
    stopped = frames.stop()
    passed = frames.feed(b"".join(sent[at:]))
    if stopped:
        assert (passed, frames.messages) == (b"", before)
    else:
        assert frames.messages == before + 1
        shown = parse(passed)
        assert shown[-1].fin
        assert sum(frame.opcode < 8 and frame.fin for frame in shown) == 1
