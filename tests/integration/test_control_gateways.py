"""A table that `gateway-control` publishes reaches two `gateway run` processes (§3.4, §12.7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import httpx
import pytest

from tests.support import upstreams
from tests.support.control_processes import control_client, serve_control
from tests.support.gateway import route, table
from tests.support.gateway_processes import GatewayProcess, start_gateways
from tests.support.processes import Children
from tests.support.shared_store import Store

pytestmark = pytest.mark.real

PUBLISHED_WITHIN_S = 1.5


@pytest.fixture
async def upstream() -> AsyncIterator[str]:
    async with upstreams.upstream(upstreams.answers) as running_upstream:
        yield running_upstream.url


def put(client: httpx.Client, document: object, expected: int, query: str = "") -> httpx.Response:
    return client.put(f"/v1/config{query}", json=document, headers={"if-match": f'"{expected}"'})


async def test_a_published_table_serves_at_both_within_a_second_and_a_half(
    store: Store, tmp_path: Path, children: Children, upstream: str
) -> None:
    _, origin = await asyncio.to_thread(serve_control, children, CONTROL_STATE_URL=store.control_url)
    document = table(route(upstream, "/old"))
    pair: list[GatewayProcess] = await asyncio.to_thread(
        start_gateways, children, tmp_path, store.data_url, document, GATEWAY_CONFIG_SOURCE="store"
    )
    with control_client(origin) as client:
        first = await asyncio.to_thread(put, client, table(route(upstream, "/one")), 0, "?wait=replicas")
        assert first.status_code == 201, first.text
        assert first.json()["replicas"] == {"converged": True, "serving": ["a", "b"], "lagging": []}
        assert [(await each.get("/one")).status for each in pair] == [200, 200]

        began = monotonic()
        second = await asyncio.to_thread(put, client, table(route(upstream, "/two")), 1)
        assert second.status_code == 201
        await asyncio.gather(*(each.until("/two", status=200) for each in pair))
        took = monotonic() - began
        assert took <= PUBLISHED_WITHIN_S, f"{took:.2f} s"

        replicas = (await asyncio.to_thread(client.get, "/v1/replicas")).json()
        assert [(one["replica"], one["lastError"]) for one in replicas["items"]] == [("a", None), ("b", None)]


async def test_a_table_that_gateways_refuse_is_told_by_those_that_wait(
    store: Store, tmp_path: Path, children: Children, upstream: str
) -> None:
    """The control plane was given other defaults than the gateways: the one way in which they judge differently."""
    _, origin = await asyncio.to_thread(
        serve_control, children, CONTROL_STATE_URL=store.control_url, RATE_LIMIT_BUCKET_MS="2000"
    )
    pair: list[GatewayProcess] = await asyncio.to_thread(
        start_gateways, children, tmp_path, store.data_url, table(route(upstream)), GATEWAY_CONFIG_SOURCE="store"
    )
    unfit = table(route(upstream, rateLimits={"client": {"max": 9, "windowMs": 100_000}}))
    with control_client(origin) as client:
        answer = await asyncio.to_thread(put, client, unfit, 0, "?wait=replicas&timeoutMs=4000")
        assert answer.status_code == 201
        arrived = answer.json()["replicas"]
        assert arrived["converged"] is False
        assert [one["replica"] for one in arrived["lagging"]] == ["a", "b"]
        assert all("rateLimits.client" in one["lastError"] for one in arrived["lagging"])
        assert [(await each.get("/")).status for each in pair] == [200, 200]
