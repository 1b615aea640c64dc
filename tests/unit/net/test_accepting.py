"""Callers who come together are accepted together, whatever the loop does meanwhile."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import pytest
import uvloop

from dataplane.net.accepting import ACCEPTED_A_TURN, AcceptingServer
from dataplane.net.tasks import TaskKeeper

TURNS = 5
"""Of the loop, within which who was accepted is known; asyncio takes one more than uvloop."""

LOOPS = pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])


def died(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error


@contextmanager
def callers(port: int, count: int) -> Iterator[list[socket.socket]]:
    """So many connections that the kernel has taken, and nobody has accepted yet."""
    with ExitStack() as opened:
        yield [opened.enter_context(socket.create_connection(("127.0.0.1", port), 5)) for _ in range(count)]


class Greeting(asyncio.Protocol):
    """Says hello, joins `made`, and leaves."""

    def __init__(self, made: list[Greeting]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(self)
        it = cast(asyncio.Transport, transport)
        it.write(b"hello")
        it.close()


def on(loop: Callable[[], asyncio.AbstractEventLoop], body: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(body)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@LOOPS
def test_callers_who_wait_are_accepted_in_one_turn(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """One a turn kept fifty new callers out for seconds while nine hundred were served."""

    async def body() -> None:
        made: list[Greeting] = []
        tasks = TaskKeeper(died)
        server = AcceptingServer(lambda: Greeting(made), tasks)
        await server.start("127.0.0.1", 0)
        with callers(server.sockets[0].getsockname()[1], ACCEPTED_A_TURN) as waiting:
            await turns(TURNS)
            assert len(made) == ACCEPTED_A_TURN
            heard = await asyncio.to_thread(lambda: [caller.recv(100) for caller in waiting])
            assert heard == [b"hello"] * ACCEPTED_A_TURN
        assert not len(tasks)
        server.close()

    on(loop, body())


def test_a_flood_of_callers_leaves_room_for_requests() -> None:
    async def body() -> None:
        made: list[Greeting] = []
        server = AcceptingServer(lambda: Greeting(made), TaskKeeper(died))
        await server.start("127.0.0.1", 0)
        with callers(server.sockets[0].getsockname()[1], 4 * ACCEPTED_A_TURN):
            before = 0
            for _ in range(3 * TURNS):
                await turns(1)
                assert len(made) - before <= ACCEPTED_A_TURN + 1
                before = len(made)
            assert before == 4 * ACCEPTED_A_TURN
        server.close()

    on(uvloop.new_event_loop, body())


@LOOPS
def test_a_closed_server_takes_nobody_and_keeps_who_is_there(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Each descriptor of a listening socket keeps it open: one forgotten, and callers wait for nobody."""

    async def body() -> None:
        made: list[Greeting] = []
        server = AcceptingServer(lambda: Greeting(made), TaskKeeper(died))
        await server.start("127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with callers(port, 3) as waiting:
            await turns(TURNS)
            server.close()
            await turns(TURNS)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), 5)
            assert [caller.recv(100) for caller in waiting] == [b"hello"] * 3

    on(loop, body())


@LOOPS
def test_a_socket_that_is_bound_already_is_listened_on(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def body() -> None:
        made: list[Greeting] = []
        bound = socket.create_server(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        server = AcceptingServer(lambda: Greeting(made), TaskKeeper(died))
        await server.start("", 0, bound)
        with callers(port, 5):
            await turns(TURNS)
            assert len(made) == 5
        server.close()

    on(loop, body())
