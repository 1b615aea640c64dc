"""Bodies against other readers: what ours accepts, h11 and llhttp decode to the same bytes."""

from __future__ import annotations

import h11
import httptools
from hypothesis import given
from hypothesis import strategies as st

from dataplane.http1.body import ChunkedBody, LengthBody
from dataplane.http1.heads import ProtocolError
from dataplane.http1.write import LAST_CHUNK, chunk_parts
from tests.support.http1 import pieces

_HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
_cuts = st.lists(st.integers(0, 400), max_size=8)

PARTS = [
    b"5\r\nhello\r\n",
    b"0\r\n",
    b"\r\n",
    b"0\r\n\r\n",
    b"1;a=b\r\nx\r\n",
    b'2;a="b\\"c" ; d\r\nxy\r\n',
    b"A\r\n0123456789\r\n",
    b"X: y\r\n",
    b"3\r\nab",
    b"c\r\n",
    b"\n",
    b"\r",
    b";",
    b'"',
    b" ",
    b"+1\r\nx\r\n",
    b"1 \r\nx\r\n",
    b"GET / HTTP/1.1\r\n",
]


@st.composite
def hostile_bodies(draw: st.DrawFn) -> bytes:
    """Chunked bodies in and out of order."""
    raw = bytearray(b"".join(draw(st.lists(st.sampled_from(PARTS), max_size=8))))
    if draw(st.booleans()):
        raw += b"0\r\n\r\n"
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(raw)))
        raw[at : at + draw(st.integers(0, 1))] = draw(st.binary(max_size=2))
    return bytes(raw)


def _decode(fed: list[bytes]) -> tuple[bytes, bytes] | None:
    """Body and leftover, or None for one that is refused or does not end."""
    body = ChunkedBody()
    try:
        decoded = b"".join(piece for data in fed for piece in body.feed(data))
    except ProtocolError:
        return None
    return (decoded, body.leftover) if body.done else None


def _decode_with_h11(raw: bytes) -> tuple[bytes, bytes]:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=65536)
    connection.receive_data(_HEAD + raw)
    decoded = bytearray()
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Data):
            decoded += event.data
        elif isinstance(event, h11.EndOfMessage):
            return bytes(decoded), connection.trailing_data[0]
        else:
            assert isinstance(event, h11.Request), event


class _Body:
    def __init__(self) -> None:
        self.decoded = b""
        self.complete = 0

    def on_body(self, data: bytes) -> None:
        self.decoded += data

    def on_message_complete(self) -> None:
        self.complete += 1


@given(hostile_bodies(), _cuts)
def test_what_is_accepted_h11_decodes_to_the_same_bytes_and_end(raw: bytes, cuts: list[int]) -> None:
    read = _decode(pieces(raw, cuts))
    if read is not None:
        assert _decode_with_h11(raw) == read


@given(hostile_bodies())
def test_what_is_accepted_llhttp_decodes_to_the_same_bytes(raw: bytes) -> None:
    read = _decode([raw])
    if read is None:
        return
    message = raw.removesuffix(read[1]) if read[1] else raw
    other = _Body()
    parser = httptools.HttpRequestParser(other)
    try:
        parser.feed_data(_HEAD + message)
    except httptools.HttpParserError:
        return
    assert (other.decoded, other.complete) == (read[0], 1)


@given(hostile_bodies(), _cuts, _cuts)
def test_any_split_of_a_chunked_body_decodes_alike(raw: bytes, cuts: list[int], others: list[int]) -> None:
    assert _decode(pieces(raw, cuts)) == _decode(pieces(raw, others)) == _decode([raw])


@given(st.lists(st.binary(max_size=300), max_size=6), _cuts, st.binary(max_size=20))
def test_written_chunks_decode_to_the_data(chunks: list[bytes], cuts: list[int], behind: bytes) -> None:
    raw = b"".join(part for chunk in chunks for part in chunk_parts(chunk)) + LAST_CHUNK + behind
    assert _decode(pieces(raw, cuts)) == (b"".join(chunks), behind)


@given(st.binary(max_size=60), st.integers(0, 60), _cuts)
def test_a_length_body_takes_its_length_and_no_more(raw: bytes, length: int, cuts: list[int]) -> None:
    body = LengthBody(length)
    decoded = b"".join(piece for data in pieces(raw, cuts) for piece in body.feed(data))
    assert decoded == raw[:length]
    assert body.leftover == raw[length:]
    assert body.done == (len(raw) >= length)
