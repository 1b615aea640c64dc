"""Messages between supervisor and worker come whole, however their bytes are cut."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.workers.link import Link
from dataplane.workers.wire import PAYLOAD_MAX_BYTES, Inbox, Kind, Message, encode

messages = st.lists(
    st.builds(Message, st.sampled_from(Kind), st.integers(0, 2**32 - 1), st.binary(max_size=300)), max_size=8
)


@given(messages, st.lists(st.integers(1, 40), min_size=1))
def test_any_split_of_bytes_gives_the_same_messages(sent: list[Message], sizes: list[int]) -> None:
    data = b"".join(encode(*message) for message in sent)
    inbox, found = Inbox(), list[Message]()
    turn = 0
    while data:
        size = sizes[turn % len(sizes)]
        found += inbox.feed(data[:size])
        data, turn = data[size:], turn + 1
    assert found == sent


@pytest.mark.parametrize("data", [b"\x00" + b"\x00" * 8, b"\x01" + b"\x00" * 4 + b"\xff" * 4, b"GET / HTTP/1.1\r\n"])
def test_what_is_no_message_is_told(data: bytes) -> None:
    with pytest.raises(ValueError):
        Inbox().feed(data)


def test_a_payload_of_the_largest_size_is_taken() -> None:
    head = encode(Kind.TOTALS, 1)[:5] + PAYLOAD_MAX_BYTES.to_bytes(4, "big")
    assert Inbox().feed(head) == []


@pytest.fixture
def pair() -> tuple[Link, socket.socket]:
    near, far = socket.socketpair()
    return Link(near), far


def test_a_link_keeps_what_the_other_side_does_not_take_yet(pair: tuple[Link, socket.socket]) -> None:
    """A worker that stands still must not hold up the supervisor."""
    link, far = pair
    with far:
        payload = b"x" * 4_000_000
        link.send(Kind.TOTALS, 7, payload)
        assert link.has_unsent
        inbox, found = Inbox(), list[Message]()
        while not found:
            found = inbox.feed(far.recv(65_536))
            link.flush()
        assert found == [Message(Kind.TOTALS, 7, payload)]
        assert not link.has_unsent
    link.close()


def test_a_link_tells_an_end_from_silence(pair: tuple[Link, socket.socket]) -> None:
    link, far = pair
    assert link.read() == []
    far.sendall(encode(Kind.BEAT))
    far.close()
    assert link.read() == [Message(Kind.BEAT, 0, b"")]
    assert link.read() is None
    link.send(Kind.COLLECT, 1)  # nobody hears it, and nothing breaks
    assert not link.has_unsent
    link.close()
