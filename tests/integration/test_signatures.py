"""A request whose signature has to be made, through the whole gateway: it fails, is left and is drained by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from common.identity.signature import verify_identity
from tests.support.gateway import Running, route, running, table
from tests.support.upstreams import Upstream, answers, upstream

REQUESTS = 8


@asynccontextmanager
async def world(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[Running, Upstream, str]]:
    async with upstream(answers) as app:
        routes = table(route(app.url, auth={"mode": "session"}))
        async with running(tmp_path, routes, **settings) as gw:
            yield gw, app, await gw.session()


class Withheld:
    """In the signer's place: no signature is made before it may be."""

    def __init__(self, gw: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wanted, self.may = asyncio.Event(), asyncio.Event()
        self._signer = gw.gateway._signer
        monkeypatch.setattr(self._signer, "lines_soon", self._lines_soon)

    async def _lines_soon(self, *said: Any) -> bytes:
        self.wanted.set()
        await self.may.wait()
        return self._signer.lines(*said)


async def test_each_of_many_at_once_is_signed_for_itself(tmp_path: Path) -> None:
    async with world(tmp_path) as (gw, app, cookie):
        callers = [gw.get(f"/{number}", cookie) for number in range(REQUESTS)]
        assert {answer.status for answer in await asyncio.gather(*callers)} == {200}
        assert len(app.requests) == REQUESTS
        for request in app.requests:
            path = request.line.split(" ")[1]
            verify_identity(gw.gateway._signer.public_key_pem, request.headers(), method="GET", path=path, query="")


async def test_a_request_that_cannot_be_signed_is_an_internal_error_and_its_neighbours_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as (gw, app, cookie):
        signer = gw.gateway._signer
        sign = signer.sign

        def fails(payload: bytes) -> bytes:
            if b'"path":"/3"' in payload:
                raise ValueError("the library's own words")
            return sign(payload)

        monkeypatch.setattr(signer, "sign", fails)
        answered = await asyncio.gather(*(gw.get(f"/{number}", cookie) for number in range(REQUESTS)))
        assert [answer.status for answer in answered] == [200, 200, 200, 500, 200, 200, 200, 200]
        assert answered[3].json["error"] == "internal_error"
        assert b"own words" not in answered[3].body
        assert sorted(request.line for request in app.requests) == [
            f"GET /{number} HTTP/1.1" for number in range(REQUESTS) if number != 3
        ]
        (line,) = [line for line in gw.requests() if line["status"] == 500]
        assert "ValueError" in json.dumps(line)


@pytest.mark.parametrize("how", ["close", "vanish"])
async def test_a_caller_that_leaves_before_its_signature_is_made_never_reaches_the_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async with world(tmp_path) as (gw, app, cookie):
        withheld = Withheld(gw, monkeypatch)
        caller = await gw.connect()
        await caller.send(f"GET / HTTP/1.1\r\nhost: app.test\r\n{cookie}\r\n\r\n".encode())
        await asyncio.wait_for(withheld.wanted.wait(), 10)
        getattr(caller, how)()
        line = await gw.request_line()
        assert (line["status"], line["outcome"]) == (499, "aborted")
        await gw.settled()
        withheld.may.set()
        assert (await gw.get("/next", cookie)).status == 200
        assert [request.line for request in app.requests] == ["GET /next HTTP/1.1"]


async def test_a_request_that_waits_for_its_signature_is_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, shutdown_timeout_s=10.0) as (gw, _, cookie):
        withheld = Withheld(gw, monkeypatch)
        asking = asyncio.create_task(gw.get("/", cookie))
        await asyncio.wait_for(withheld.wanted.wait(), 10)
        stopping = asyncio.create_task(gw.gateway.stop())
        await asyncio.sleep(0)
        withheld.may.set()
        assert (await asking).status == 200
        await asyncio.wait_for(stopping, 10)
