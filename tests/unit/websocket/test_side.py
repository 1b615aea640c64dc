"""One side's socket: what is noticed while it is not read."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from dataplane.net.hangup import Hangup, hangup
from dataplane.websocket.side import LOOK_S, LOOKS_MAX
from tests.support.websocket_frames import BINARY, MASK, frame
from tests.support.websocket_sides import Pair, Transport, send


class RealTransport(Transport):
    """A remembered transport over a real socket that nobody reads."""

    def __init__(self, ours: socket.socket) -> None:
        super().__init__()
        self.socket = ours

    def get_extra_info(self, name: str) -> object:
        return self.socket if name == "socket" else None


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Ours, and the peer's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    with ours, theirs:
        yield ours, theirs


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


async def test_the_kernel_tells_how_a_peer_left(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    transport = RealTransport(ours)
    assert hangup(transport) is Hangup.NONE
    theirs.sendall(b"unread")
    theirs.shutdown(socket.SHUT_WR)
    assert hangup(transport) is Hangup.FINISHED
    reset(theirs)
    assert hangup(transport) is Hangup.GONE


def paused_pair(ours: socket.socket) -> Pair:
    """A relay whose caller is not read, because the upstream takes nothing."""
    pair = Pair()
    pair.caller = RealTransport(ours)
    pair.caller.side = pair.down
    pair.down.attach(pair.caller)  # type: ignore[arg-type]
    pair.start()
    pair.app.full = True
    send(pair.down, frame(BINARY, bytes(10), mask=MASK))
    assert not pair.caller.reading
    return pair


async def test_a_peer_that_is_gone_is_noticed_while_it_is_not_read(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    pair = paused_pair(ours)
    pair.pass_time(LOOK_S)
    assert pair.caller.closed == ""
    reset(theirs)
    pair.pass_time(LOOK_S)
    assert pair.caller.closed == "aborted"


async def test_a_peer_that_has_finished_is_waited_for_while_the_other_takes_what_it_sent(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    pair = paused_pair(ours)
    theirs.shutdown(socket.SHUT_WR)
    for _ in range(3):
        for _ in range(LOOKS_MAX):
            pair.pass_time(LOOK_S)
        pair.app.empty()
        pair.app.full = True
        send(pair.down, frame(BINARY, bytes(10), mask=MASK))
        assert pair.caller.closed == ""


async def test_a_peer_that_has_finished_is_given_up_when_nothing_moves(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    pair = paused_pair(ours)
    theirs.shutdown(socket.SHUT_WR)
    for _ in range(LOOKS_MAX + 1):
        assert pair.caller.closed == ""
        pair.pass_time(LOOK_S)
    assert pair.caller.closed == "aborted"


async def test_a_side_that_is_read_again_is_not_looked_at(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    pair = paused_pair(ours)
    pair.app.empty()
    reset(theirs)
    pair.pass_time(10 * LOOK_S)
    assert pair.caller.closed == ""
