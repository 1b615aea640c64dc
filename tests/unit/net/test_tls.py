"""The layer between OpenSSL and a socket: nothing lost, nothing held, ends told apart; without a socket."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.telemetry.log import Log
from dataplane.net.timers import TimerWheel
from dataplane.net.tls import UNREAD_ANSWERS_MAX_BYTES, TlsTransport
from dataplane.net.tls_client import ClientTls, over_tls
from dataplane.net.tls_server import Handshakes, ServerTls
from dataplane.tls.certificate import read_certificate
from dataplane.tls.context import load_identity, server_context
from tests.bench.soak.watched import malloc
from tests.support.certificates import NOW, client_context, issue

CHUNK = 16_384


_NOTHING = os.open(os.devnull, os.O_RDONLY)
NO_SOCKET = SimpleNamespace(fileno=lambda: _NOTHING)


class Raw(asyncio.Transport):
    """A socket's transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.7", 40_000), "socket": NO_SOCKET})
        self.written = b""
        self.closed = self.aborted = self.eof = self.paused = False

    def write(self, data: Any) -> None:
        assert not self.eof
        self.written += bytes(data)

    def taken(self) -> bytes:
        written, self.written = self.written, b""
        return written

    def is_closing(self) -> bool:
        return self.closed or self.aborted

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def write_eof(self) -> None:
        self.eof = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_reading(self) -> bool:
        return not self.paused

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


class Recorder(asyncio.Protocol):
    """A protocol that notes what it is told; its buffered twin is below."""

    def __init__(self, *, keep_open: bool = False) -> None:
        self.keep_open = keep_open
        self.transport: TlsTransport
        self.received = b""
        self.calls = 0
        self.ends = 0
        self.lost: list[Exception | None] = []
        self.pause_at_bytes = 1 << 60

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsTransport)
        self.transport = transport

    def note(self, data: bytes) -> None:
        self.received += data
        self.calls += 1
        if len(self.received) >= self.pause_at_bytes:
            self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        assert self.ends == 0
        self.note(data)

    def eof_received(self) -> bool:
        self.ends += 1
        return self.keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Buffered(Recorder, asyncio.BufferedProtocol):  # type: ignore[misc]
    """The same with a buffer of its own, of any size."""

    def __init__(self, size: int, *, keep_open: bool = False) -> None:
        super().__init__(keep_open=keep_open)
        self.buffer = bytearray(size)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        assert nbytes
        self.note(bytes(self.buffer[:nbytes]))


def identity() -> ssl.SSLContext:
    issued = issue("app.test")
    context = server_context(ssl.TLSVersion.TLSv1_2)
    load_identity(context, read_certificate(issued.chain, issued.key, now_s=NOW.timestamp(), chain_source="x"))
    return context


SERVER, CLIENT = identity(), client_context()


class Pair:
    """A caller and the gateway's end, both this layer's, with everything between them in hand."""

    def __init__(self, server: Recorder, client: Recorder) -> None:
        self.lines: list[bytes] = []
        self.handshakes = Handshakes(
            lambda: server,
            lambda: SERVER,
            TimerWheel(lambda: 0.0),
            Log(self.lines.append, level="debug"),
            handshake_s=1,
        )
        self.at_server, self.at_client = Raw(), Raw()
        self.server, self.client = ServerTls(self.handshakes), ClientTls(lambda: client, CLIENT, "app.test")
        self.server.connection_made(self.at_server)
        self.client.connection_made(self.at_client)

    def carry(self, sizes: Iterator[int] | None = None) -> None:
        """Everything on its way arrives, in pieces of these sizes; a paused side is not read."""
        while True:
            moved = False
            for source, sink, raw in (
                (self.at_client, self.server, self.at_server),
                (self.at_server, self.client, self.at_client),
            ):
                if raw.paused or not source.written:
                    continue
                data = source.taken()
                while data:
                    size = max(1, next(sizes, len(data))) if sizes is not None else len(data)
                    sink.data_received(data[:size])
                    data = data[size:]
                    if raw.paused:
                        source.written = data + source.written
                        break
                moved = True
            if not moved:
                return


def run(check: Callable[[], Any]) -> None:
    async def main() -> None:
        result = check()
        if result is not None:
            await result

    asyncio.run(main())


def connected(server: Recorder | None = None, client: Recorder | None = None) -> Pair:
    pair = Pair(server or Recorder(), client or Recorder())
    pair.carry()
    assert pair.client.ready.done()
    assert len(pair.handshakes) == 0
    return pair


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 400), max_size=400),
    st.lists(st.binary(min_size=1, max_size=40_000), max_size=5),
    st.sampled_from([0, 1, 7, 4_096, CHUNK, 65_536]),
)
def test_what_is_written_arrives_in_order_whatever_the_split(
    sizes: list[int], pieces: list[bytes], buffer: int
) -> None:
    def check() -> None:
        server = Recorder() if buffer == 0 else Buffered(buffer)
        client = Recorder()
        pair = Pair(server, client)
        pair.carry(iter(sizes))
        assert pair.client.ready.done()
        for piece in pieces:
            client.transport.write(piece)
            server.transport.write(piece[::-1])
        pair.carry(iter(sizes))
        assert server.received == b"".join(pieces)
        assert client.received == b"".join(piece[::-1] for piece in pieces)

    run(check)


@pytest.mark.parametrize("buffer", [0, 1_000, CHUNK])
def test_a_side_that_pauses_gets_nothing_until_it_resumes(buffer: int) -> None:
    async def check() -> None:
        server = Recorder() if buffer == 0 else Buffered(buffer)
        pair = connected(server)
        server.pause_at_bytes = 1
        sent = bytes(range(256)) * 400
        pair.client.write(sent)
        pair.carry()
        first = server.received
        assert sent.startswith(first)
        if buffer:
            assert len(first) == buffer
        assert pair.at_server.paused
        for _ in range(3):
            await asyncio.sleep(0)
        assert server.received == first
        for _ in range(500):
            server.transport.resume_reading()
            await asyncio.sleep(0)
            pair.carry()
            if server.received == sent:
                break
        assert server.received == sent

    run(check)


@pytest.mark.parametrize("buffer", [0, 1_000, CHUNK])
def test_a_side_that_pauses_again_and_again_has_no_more_than_one_read_held(buffer: int) -> None:
    """A socket that is read again brings more in the same turn, and its end behind it."""
    read = 4 * CHUNK

    async def check() -> None:
        server = Recorder(keep_open=True) if buffer == 0 else Buffered(buffer, keep_open=True)
        pair = connected(server)
        server.pause_at_bytes = 1
        sent = bytes(range(256)) * 2_000
        pair.client.write(sent)
        coming, told = pair.at_client.taken(), False
        for _ in range(2_000):
            if not pair.at_server.paused and coming:
                pair.server.data_received(coming[:read])
                coming = coming[read:]
            if not pair.at_server.paused and not coming and not told:
                told = True
                pair.server.eof_received()
            assert len(sent) - len(coming) - len(server.received) < 2 * read
            assert not server.ends or server.received == sent
            await asyncio.sleep(0)
            server.transport.resume_reading()
        assert server.received == sent
        assert server.ends == 1

    run(check)


@pytest.mark.skipif(not malloc(), reason="glibc tells what is in use")
@pytest.mark.parametrize("buffer", [0, 65_536])
def test_a_large_body_leaves_no_large_buffers(buffer: int) -> None:
    """OpenSSL's never shrink: a kept connection would hold what one read brought, or one write took, for ever."""
    pairs = 20

    def check() -> None:
        opened = [connected(Buffered(buffer) if buffer else Recorder()) for _ in range(pairs)]
        before = malloc()["malloc_used"]
        for pair in opened:
            pair.client.write(bytes(250_000))
            pair.server.write(bytes(250_000))
            pair.carry()
            for each in (pair.server, pair.client):
                recorder = each.get_protocol()
                assert isinstance(recorder, Recorder)
                assert len(recorder.received) == 250_000
                recorder.received = b""
        assert (malloc()["malloc_used"] - before) / pairs / 2 < 100_000

    run(check)


def test_what_one_read_brings_is_told_in_one_call() -> None:
    def check() -> None:
        server = Recorder()
        pair = connected(server)
        for _ in range(10):
            pair.client.write(b"x" * 100)
        pair.carry()
        assert (server.calls, len(server.received)) == (1, 1_000)

    run(check)


@pytest.mark.parametrize("keep_open", [False, True])
@pytest.mark.parametrize("buffer", [0, 100])
def test_close_notify_is_an_end_that_nothing_was_cut_from(buffer: int, keep_open: bool) -> None:
    def check() -> None:
        server = Recorder(keep_open=keep_open) if buffer == 0 else Buffered(buffer, keep_open=keep_open)
        pair = connected(server)
        pair.client.write(b"the last")
        pair.client.close()
        pair.carry()
        assert (server.received, server.ends, pair.server.said_goodbye) == (b"the last", 1, True)
        assert pair.at_server.closed is not keep_open
        assert pair.server.eof_received() is keep_open
        assert server.ends == 1, "the FIN behind it is no second end"

    run(check)


def test_a_bare_fin_is_an_end_too_and_can_be_told_from_it() -> None:
    def check() -> None:
        server = Recorder()
        pair = connected(server)
        assert pair.server.eof_received() is False
        assert (server.ends, pair.server.said_goodbye) == (1, False)

    run(check)


def test_a_side_that_says_no_more_still_hears() -> None:
    def check() -> None:
        server, client = Recorder(keep_open=True), Recorder(keep_open=True)
        pair = connected(server, client)
        pair.client.write(b"unread yet")
        pair.server.write_eof()
        pair.carry()
        assert (client.ends, server.received) == (1, b"unread yet")
        assert pair.at_server.eof
        pair.server.write(b"too late")
        pair.client.write(b" and more")
        pair.carry()
        assert server.received == b"unread yet and more"
        assert client.received == b""

    run(check)


@pytest.mark.parametrize("buffer", [0, 1_000, CHUNK])
def test_who_said_no_more_hears_the_last_words_that_come_with_the_end(buffer: int) -> None:
    async def check() -> None:
        server = Buffered(buffer, keep_open=True) if buffer else Recorder(keep_open=True)
        pair = connected(server)
        pair.server.write_eof()
        pair.client.write(b"x" * 40_000)
        pair.client.close()
        pair.carry()
        assert server.received == b"x" * 40_000
        assert server.ends == 1
        assert pair.server.said_goodbye
        assert not pair.at_server.is_closing()

    run(check)


def test_data_that_waits_while_the_end_is_said_is_not_lost() -> None:
    """Python's `unwrap` would take it for an error."""

    async def check() -> None:
        server = Recorder(keep_open=True)
        pair = connected(server, Recorder(keep_open=True))
        server.transport.pause_reading()
        pair.at_server.paused = False  # the loop had read already
        pair.client.write(b"waiting")
        pair.carry()
        assert server.received == b""
        pair.server.write_eof()
        server.transport.resume_reading()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert server.received == b"waiting"

    run(check)


def test_closing_twice_says_one_close_notify() -> None:
    def check() -> None:
        pair = connected()
        pair.server.close()
        said = len(pair.at_server.written)
        pair.server.close()
        assert 0 < said == len(pair.at_server.written)

    run(check)


def test_a_broken_record_ends_the_connection_with_an_alert_and_its_reason() -> None:
    def check() -> None:
        server, client = Recorder(), Recorder()
        pair = connected(server, client)
        pair.client.write(b"hello")
        record = bytearray(pair.at_client.taken())
        record[-1] ^= 1
        pair.server.data_received(bytes(record))
        assert server.received == b""
        assert pair.at_server.closed
        pair.server.connection_lost(None)
        assert isinstance(server.lost[0], ssl.SSLError)
        pair.carry()
        pair.client.connection_lost(None)
        assert "ALERT_BAD_RECORD_MAC" in str(client.lost[0])

    run(check)


def test_a_peer_that_asks_on_and_on_and_reads_nothing_is_cut() -> None:
    def check() -> None:
        pair = connected()
        pair.at_server.written = bytes(UNREAD_ANSWERS_MAX_BYTES)
        pair.server._outgoing.write(b"an answer")
        pair.client.write(b"x")
        pair.server.data_received(pair.at_client.taken())
        assert pair.at_server.aborted

    run(check)


def test_the_raw_transports_waters_are_the_protocols() -> None:
    def check() -> None:
        paused = []
        server = Recorder()
        server.pause_writing = lambda: paused.append(True)  # type: ignore[method-assign]
        server.resume_writing = lambda: paused.append(False)  # type: ignore[method-assign]
        pair = connected(server)
        pair.server.pause_writing()
        pair.server.resume_writing()
        assert paused == [True, False]
        pair.server.write(b"x" * 10)
        assert pair.server.get_write_buffer_size() == pair.at_server.get_write_buffer_size() > 10

    run(check)


def test_before_the_handshake_nobody_is_told_of_anything() -> None:
    def check() -> None:
        server = Recorder()
        pair = Pair(server, Recorder())
        pair.server.pause_writing()
        pair.server.resume_writing()
        pair.server.connection_lost(None)
        assert (server.lost, server.ends) == ([], 0)
        assert len(pair.handshakes) == 0

    run(check)


@pytest.mark.parametrize("reason", [None, BrokenPipeError("the write failed")], ids=["closed", "broken"])
def test_a_connection_that_ends_behind_its_handshake_is_told_as_one_that_broke(reason: OSError | None) -> None:
    """Before whoever waits for it has its turn: a request on it would wait for its whole budget."""

    async def check() -> None:
        pair = connected()
        pair.client.connection_lost(reason)
        with pytest.raises(ConnectionResetError, match="behind the TLS handshake"):
            await over_tls(pair.client, Recorder)

    run(check)
