"""Calls of the provider end within their budget and bound, whatever the other side does."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from dataplane.oidc.errors import ProviderUnavailable
from dataplane.oidc.http import ProviderHttp
from tests.support.oidc_provider import (
    Behaviour,
    OddProvider,
    answers,
    answers_json,
    breaks_off,
    hangs,
    never_ends,
    resets,
    trickles,
)
from tests.support.ports import closed_port


@pytest.fixture
async def odd() -> AsyncIterator[OddProvider]:
    async with OddProvider() as provider:
        yield provider


@pytest.fixture
async def http() -> AsyncIterator[ProviderHttp]:
    client = ProviderHttp(timeout_s=10)
    yield client
    await client.close()


async def test_a_json_object_is_read(odd: OddProvider, http: ProviderHttp) -> None:
    odd.behaviours["/x"] = answers_json({"a": 1})
    assert await http.get_json(f"{odd.origin}/x") == {"a": 1}


@pytest.mark.parametrize("behaviour", [hangs, trickles], ids=["hangs", "trickles"])
async def test_a_call_takes_no_longer_than_its_budget_as_a_whole(odd: OddProvider, behaviour: Behaviour) -> None:
    odd.behaviours["/x"] = behaviour
    hasty = ProviderHttp(timeout_s=0.5)
    began = time.monotonic()
    with pytest.raises(ProviderUnavailable, match=r"longer than 0\.5 s"):
        await hasty.get_json(f"{odd.origin}/x")
    assert time.monotonic() - began < 5
    await hasty.close()


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (resets, "failed"),
        (breaks_off, "failed"),
        (never_ends, "more than 1048576 bytes"),
        (answers(b"not json"), "no JSON object"),
        (answers(b'["a"]'), "no JSON object"),
        (answers(b""), "no JSON object"),
        (answers(b"{}", status="500 Oh"), "answered 500"),
        (answers(b"{}", status="404 Not Found"), "answered 404"),
        (answers(b"{}", status="302 Found", headers="location: /elsewhere\r\n"), "answered 302"),
        (answers(b"\x1f\x8b", headers="content-encoding: gzip\r\n"), "coding that was not asked for"),
    ],
)
async def test_whatever_is_no_answer_is_an_outage(
    odd: OddProvider, http: ProviderHttp, behaviour: Behaviour, said: str
) -> None:
    odd.behaviours |= {"/x": behaviour, "/elsewhere": answers_json({"a": 1})}
    with pytest.raises(ProviderUnavailable, match=said):
        await http.get_json(f"{odd.origin}/x")
    assert odd.count("/elsewhere") == 0


async def test_a_refused_connection_is_an_outage(http: ProviderHttp) -> None:
    with pytest.raises(ProviderUnavailable):
        await http.get_json(f"http://127.0.0.1:{closed_port()}/x")


@pytest.mark.parametrize("address", ["", "nonsense", "ftp://127.0.0.1/x", "http://[::1", "http://127.0.0.1:99999/x"])
async def test_an_address_that_is_none_is_an_outage(http: ProviderHttp, address: str) -> None:
    with pytest.raises(ProviderUnavailable):
        await http.get_json(address)


async def test_the_text_of_a_failure_holds_no_credential(http: ProviderHttp) -> None:
    port = closed_port()
    with pytest.raises(ProviderUnavailable) as failed:
        await http.get_json(f"http://user:hunter2@127.0.0.1:{port}/x?code=hunter3")
    assert "hunter" not in str(failed.value)
    assert f"127.0.0.1:{port}/x" in str(failed.value)


async def test_a_form_is_sent_once_even_when_it_fails(odd: OddProvider, http: ProviderHttp) -> None:
    odd.behaviours["/token"] = resets
    with pytest.raises(ProviderUnavailable):
        await http.post_form(f"{odd.origin}/token", {"code": "a&b=c"}, {"authorization": "Basic x"})
    assert odd.count("/token") == 1
    assert odd.requests[0].form == {"code": "a&b=c"}
    assert odd.requests[0].headers["authorization"] == "Basic x"


async def test_a_cookie_of_the_provider_is_never_sent_back(odd: OddProvider, http: ProviderHttp) -> None:
    odd.behaviours["/x"] = answers(b"{}", headers="set-cookie: a=b; Path=/\r\n")
    for _ in range(2):
        await http.get_json(f"{odd.origin}/x")
    assert all("cookie" not in request.headers for request in odd.requests)


async def test_many_calls_at_once_are_served(odd: OddProvider) -> None:
    odd.behaviours["/x"] = answers_json({"a": 1})
    http = ProviderHttp(timeout_s=60)
    try:
        assert await asyncio.gather(*(http.get_json(f"{odd.origin}/x") for _ in range(40))) == [{"a": 1}] * 40
    finally:
        await http.close()


async def _tls_server(authority: trustme.CA) -> tuple[asyncio.Server, int]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    return server, server.sockets[0].getsockname()[1]


async def test_a_private_authority_is_trusted_alone(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server, port = await _tls_server(authority)
    address = f"https://localhost:{port}/x"
    trusting, doubting = ProviderHttp(timeout_s=5, ca=tmp_path / "ca.pem"), ProviderHttp(timeout_s=5)
    try:
        assert await trusting.get_json(address) == {}
        with pytest.raises(ProviderUnavailable, match="ConnectError"):
            await doubting.get_json(address)
    finally:
        await trusting.close()
        await doubting.close()
        server.close()


def test_an_authority_that_cannot_be_read_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        ProviderHttp(timeout_s=1, ca=tmp_path / "missing.pem")
