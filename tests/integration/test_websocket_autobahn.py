"""The Autobahn test suite through the gateway: it changes no verdict, neither for servers behind it nor for callers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.support.autobahn import (
    ALL_BUT_THE_LONG_ONES,
    SAMPLE_OF_THE_LONG_ONES,
    Verdicts,
    differences,
    fuzz_servers,
    fuzzing_server,
    verdicts,
)
from tests.support.gateway import route, running, table
from tests.support.processes import Children
from tests.support.websocket_peers import echo_server, nothing_left

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(500)]

CASES = ALL_BUT_THE_LONG_ONES + SAMPLE_OF_THE_LONG_ONES
LIMIT = 64 * 1024**2


def shown(found: Verdicts) -> str:
    bad = {case: verdict for case, verdict in found.items() if verdict[0] not in {"OK", "NON-STRICT", "INFORMATIONAL"}}
    return f"{len(found)} cases, {len(found) - len(bad)} in order, the others: {bad}"


async def test_a_server_behind_the_gateway_is_judged_as_if_it_stood_alone(tmp_path: Path, children: Children) -> None:
    async with echo_server(max_size=None) as url:
        document = table(route(url, websocket=True))
        async with running(tmp_path, document, ws_max_message_bytes=LIMIT, rate_limit_route_max=0) as gw:
            urls = {"bare": url.replace("http", "ws"), "gateway": f"ws://127.0.0.1:{gw.port}"}
            suite = fuzz_servers(children, tmp_path, urls, CASES)
            assert await asyncio.to_thread(suite.wait, within_s=400) == 0
            bare, through = verdicts(tmp_path, "bare"), verdicts(tmp_path, "gateway")
            print("\nbare:", shown(bare), "\nthrough the gateway:", shown(through))
            assert len(bare) > 240
            assert differences(bare, through) == {}
            await nothing_left(gw)


async def test_a_caller_of_the_gateway_is_judged_as_if_it_called_the_server(tmp_path: Path, children: Children) -> None:
    async with fuzzing_server(children, tmp_path, CASES) as port:
        document = table(route(f"http://127.0.0.1:{port}", websocket=True))
        async with running(tmp_path, document, ws_max_message_bytes=LIMIT, rate_limit_route_max=0) as gw:
            await run_cases(f"ws://127.0.0.1:{port}", "bare")
            await run_cases(f"ws://127.0.0.1:{gw.port}", "gateway")
            bare, through = verdicts(tmp_path, "bare"), verdicts(tmp_path, "gateway")
            print("\nbare:", shown(bare), "\nthrough the gateway:", shown(through))
            assert len(bare) > 240
            assert differences(bare, through) == {}
            await nothing_left(gw)


async def run_cases(url: str, agent: str) -> None:
    """Echo in every case that the suite's server has, as its protocol for clients asks."""
    async with connect(f"{url}/getCaseCount") as counted:
        count = int(await counted.recv())
    for number in range(1, count + 1):
        async with connect(f"{url}/runCase?case={number}&agent={agent}", max_size=None) as client:
            try:
                async for message in client:
                    await client.send(message)
            except ConnectionClosed:
                pass
    async with connect(f"{url}/updateReports?agent={agent}") as done:
        await done.wait_closed()
