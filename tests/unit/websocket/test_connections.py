"""How many WebSockets may be open: of all, and of one caller."""

from __future__ import annotations

import asyncio

import pytest

from dataplane.errors import GatewayError
from dataplane.websocket.connections import Connections
from dataplane.websocket.relay import Verdict

ANN, BOB = ("subject", "ann"), ("subject", "bob")


class Socket:
    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []

    def close(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)


def refused(connections: Connections, caller: tuple[str, str] = ANN) -> str:
    with pytest.raises(GatewayError) as refusal:
        connections.take(caller)
    return refusal.value.code


def test_one_more_than_the_bound_is_refused_until_one_ends() -> None:
    connections = Connections(2, 0)
    first, _ = connections.take(ANN), connections.take(BOB)
    assert refused(connections) == "gateway_overloaded"
    first.leave()
    first.leave()
    connections.take(ANN)
    assert refused(connections) == "gateway_overloaded"


def test_one_caller_cannot_take_the_places_of_others() -> None:
    connections = Connections(10, 2)
    first = connections.take(ANN)
    connections.take(ANN)
    assert refused(connections) == "too_many_requests"
    connections.take(BOB)
    connections.take(("address", "ann"))
    first.leave()
    connections.take(ANN)
    assert refused(connections) == "too_many_requests"


def test_a_refusal_takes_nothing() -> None:
    connections = Connections(3, 1)
    place = connections.take(ANN)
    for _ in range(5):
        refused(connections)
    connections.take(BOB)
    place.leave()
    connections.take(ANN)


def test_zero_bounds_nothing() -> None:
    connections = Connections(0, 0)
    for _ in range(100):
        connections.take(ANN)


async def test_closing_all_waits_for_their_ends_and_admits_no_more() -> None:
    connections = Connections(0, 0)
    places, sockets = [connections.take(ANN) for _ in range(3)], [Socket() for _ in range(3)]
    for place, socket in zip(places, sockets, strict=True):
        place.opened(socket)
    closing = asyncio.create_task(connections.close_all())
    await asyncio.sleep(0)
    assert [[(v.reason, v.code) for v in socket.verdicts] for socket in sockets] == [[("drain", 1001)]] * 3
    assert refused(connections) == "gateway_overloaded"
    for place in places:
        assert not closing.done()
        place.leave()
        await asyncio.sleep(0)
    await asyncio.wait_for(closing, 10)
    assert not connections.open


async def test_closing_none_waits_for_nothing() -> None:
    connections = Connections(0, 0)
    connections.take(ANN)
    await asyncio.wait_for(connections.close_all(), 10)
