"""What a connection held is freed when it ends: the garbage collector runs seldom, and a flood of connections that wait
for it would stay in memory."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from tests.support import upstreams
from tests.support.certificates import authority, client_context, issue
from tests.support.gateway import Running, route, running, table
from tests.support.websocket_peers import nothing_left, opened, stays

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
TLS_NAME = "secure.test"
OVER_TLS = GET.replace(b"host: a", b"host: secure.test")
REPEATED = 20
Way = Callable[[Running], Awaitable[None]]


async def kept(gw: Running) -> None:
    caller = await gw.connect()
    for _ in range(3):
        await caller.ask(GET)
    caller.close()


async def closed(gw: Running) -> None:
    caller = await gw.connect()
    await caller.ask(GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    await caller.rest()
    caller.close()


async def unused(gw: Running) -> None:
    (await gw.connect()).close()


async def refused(gw: Running) -> None:
    """By its head, before it is a request."""
    caller = await gw.connect()
    await caller.ask(b"GET / HTTP/1.1\r\n\r\n")
    await caller.rest()
    caller.close()


async def unrouted(gw: Running) -> None:
    caller = await gw.connect()
    await caller.ask(GET.replace(b"GET / ", b"GET /nowhere "))
    caller.close()


async def uploaded(gw: Running) -> None:
    caller = await gw.connect()
    await caller.ask(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    caller.close()


async def vanished(gw: Running) -> None:
    """While its upstream has not answered."""
    caller = await gw.connect()
    await caller.send(GET.replace(b"GET / ", b"GET /never "))
    async with asyncio.timeout(10):
        while not gw.metric("gateway_active_exchanges"):
            await asyncio.sleep(0)
    caller.vanish()
    await gw.settled()


async def failed(gw: Running) -> None:
    caller = await gw.connect()
    await caller.ask(GET.replace(b"GET / ", b"GET /resets "))
    caller.close()


async def upgraded(gw: Running) -> None:
    (await opened(gw, "/socket")).caller.close()


async def secured_caller(gw: Running) -> None:
    caller = await gw.connect_tls(client_context(), TLS_NAME)
    assert (await caller.ask(OVER_TLS)).status == 200
    caller.close()


async def secured_caller_vanished(gw: Running) -> None:
    """In its head."""
    caller = await gw.connect_tls(client_context(), TLS_NAME)
    await caller.send(OVER_TLS[:10])
    caller.vanish()


async def secured_upstream(gw: Running) -> None:
    """Which answers once."""
    caller = await gw.connect()
    assert (await caller.ask(GET.replace(b"GET / ", b"GET /secured "))).status == 200
    caller.close()


async def left_by(way: Way, gw: Running) -> Counter[str]:
    """The objects of ours that only the collector finds, after some such connections."""
    for _ in range(3):
        await way(gw)
    await nothing_left(gw)
    gc.collect()
    gc.disable()
    try:
        for _ in range(REPEATED):
            await way(gw)
        await nothing_left(gw)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = Counter(type(each).__name__ for each in gc.garbage if type(each).__module__.startswith("dataplane"))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return found


@pytest.mark.parametrize(
    "way",
    [
        kept, closed, unused, refused, unrouted, uploaded, vanished, failed, upgraded,
        secured_caller, secured_caller_vanished, secured_upstream,
    ],
    ids=lambda way: way.__name__,
)  # fmt: skip
def test_a_connection_that_ended_leaves_no_cycle_of_ours(way: Way, tmp_path: Path) -> None:
    once = upstreams.answers_and_closes(upstreams.ok(extra=b"connection: close\r\n"))
    ours, theirs = issue(TLS_NAME).write(tmp_path, "gateway"), issue("127.0.0.1").write(tmp_path, "upstream")
    of_upstream = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_upstream.load_cert_chain(*theirs)
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(authority().cert_pem.bytes())

    async def main() -> None:
        async with (
            upstreams.upstream(upstreams.answers) as app,
            upstreams.upstream(upstreams.never_answers) as never,
            upstreams.upstream(upstreams.resets_without_answer) as resets,
            upstreams.upstream(stays) as socket,
            upstreams.upstream(once, tls=of_upstream) as secured,
            running(
                tmp_path,
                table(
                    route(app.url, match={"path": "/"}),
                    route(never.url, "/never"),
                    route(resets.url, "/resets"),
                    route(socket.url, "/socket", websocket=True),
                    route(secured.url, "/secured"),
                ),
                rate_limit_route_max=0,
                tls_cert=ours[:1],
                tls_key=ours[1:],
                tls_port=0,
                upstream_tls_ca=trusted,
            ) as gw,
        ):
            found = await left_by(way, gw)
        # One or two of the last connection may still be referred to by this frame's own leftovers.
        assert {name: count for name, count in found.items() if count >= REPEATED // 2} == {}

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
