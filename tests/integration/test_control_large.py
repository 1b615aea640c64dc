"""A table as large as may be: answered, and nobody else waits for it (CONTRACT §12.7)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from time import perf_counter

import httpx
import pytest

from common.routetable.document import MAX_TABLE_BYTES
from tests.support.control import TOKENS, route_table
from tests.support.control_processes import serve_control
from tests.support.processes import Children, eventually

pytestmark = pytest.mark.slow

OTHERS_WAIT_AT_MOST_S = 5.0
"""Far above what others wait on a machine at rest (some 20 ms), far below what such a table takes."""
DEADLINE_S = 110.0


def large_table() -> bytes:
    """Close to 8 MiB in routes of an ordinary size."""
    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    limits = {"client": {"max": 600, "windowMs": 60_000}, "principal": {"max": 600, "windowMs": 60_000}}
    table = route_table(*(f"service-{number:05}" for number in range(13_000)))
    for route in table["routes"]:
        route["match"]["methods"] = methods
        route["rateLimits"] = limits
        route["timeouts"] = {"connectMs": 1_000, "responseMs": 20_000, "firstByteMs": 20_000, "bodyMs": 60_000}
        route["upstream"] = [f"http://{route['id']}-{side}.internal:3000/base" for side in "abc"]
    text = json.dumps(table).encode()
    assert MAX_TABLE_BYTES * 0.75 < len(text) <= MAX_TABLE_BYTES, len(text)
    return text


async def test_while_a_table_of_8_mib_is_judged_others_are_answered(children: Children) -> None:
    _, origin = await asyncio.to_thread(serve_control, children)
    headers = {"authorization": f"Bearer {TOKENS['config']}", "content-type": "application/json"}
    text = large_table()
    async with httpx.AsyncClient(base_url=origin, headers=headers, trust_env=False, timeout=DEADLINE_S) as client:
        put = asyncio.ensure_future(client.put("/v1/config", content=text, headers={"if-match": '"0"'}))
        waits = []
        while not put.done():
            began = perf_counter()
            assert (await client.get("/v1/config")).status_code in {200, 404}
            waits.append(perf_counter() - began)
            await asyncio.sleep(0.05)
        answer = await put
        assert answer.status_code == 201, answer.text[:200]
        assert answer.json()["warnings"][-1]["message"].startswith("only the first 1000 of ")
        assert len(waits) > 3
        assert max(waits) < OTHERS_WAIT_AT_MOST_S, f"{max(waits):.2f} s"
        assert (await client.get("/v1/config")).content == text


async def test_the_process_ends_while_it_judges(children: Children) -> None:
    child, origin = await asyncio.to_thread(serve_control, children, SHUTDOWN_TIMEOUT_MS="1000")
    headers = {"authorization": f"Bearer {TOKENS['config']}", "content-type": "application/json", "if-match": '"0"'}
    text = large_table()
    async with httpx.AsyncClient(base_url=origin, headers=headers, trust_env=False, timeout=DEADLINE_S) as client:
        put = asyncio.ensure_future(client.put("/v1/config", content=text))
        await asyncio.to_thread(_until_it_works, child.pid)
        child.interrupt()
        assert await asyncio.to_thread(child.wait, within_s=60) == 0
        assert "Traceback" not in child.output
        put.cancel()


def _until_it_works(pid: int) -> None:
    """The program has started a process for the table."""
    tasks = Path(f"/proc/{pid}/task")
    eventually(lambda: any(each.read_text().split() for each in tasks.glob("*/children")), within_s=DEADLINE_S)
