"""The writer of the zone is told what to do, and believed only when it says that it is done."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from common.settings.secret import Secret
from dataplane.tls.acme.authority import Proof
from dataplane.tls.acme.challenges import ZoneWriter
from dataplane.tls.acme.failure import OrderFailed
from tests.support.oidc_provider import OddProvider, answers, breaks_off, hangs, never_ends, resets, trickles
from tests.support.ports import closed_port

TOKEN = Secret("token-of-the-writer-0123456789abcdef")
PROOF = cast(
    Proof,
    SimpleNamespace(
        name="*.example.com", record="_acme-challenge.example.com", value="dGhlIGRpZ2VzdA", token="", answer=""
    ),
)


@pytest.fixture
async def server() -> AsyncIterator[OddProvider]:
    async with OddProvider() as running:
        yield running


def writer(server: OddProvider, timeout_s: float = 15.0) -> ZoneWriter:
    return ZoneWriter(f"{server.origin}/write", TOKEN, timeout_s=timeout_s)


async def test_the_record_is_published_and_withdrawn_as_the_contract_says(server: OddProvider) -> None:
    server.behaviours["/write"] = answers(b"", status="204 No Content")

    await writer(server).publish(PROOF)
    await writer(server).withdraw(PROOF)

    assert [json.loads(request.body) for request in server.requests] == [
        {"action": action, "name": "_acme-challenge.example.com", "value": "dGhlIGRpZ2VzdA"}
        for action in ("publish", "withdraw")
    ]
    for request in server.requests:
        assert request.method == "POST"
        assert request.headers["authorization"] == f"Bearer {TOKEN.reveal()}"
        assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "202 Accepted", "204 No Content"])
async def test_every_success_counts(server: OddProvider, status: str) -> None:
    server.behaviours["/write"] = answers(b"", status=status)

    await writer(server).publish(PROOF)


@pytest.mark.parametrize(
    ("status", "unreachable"),
    [("302 Found", False), ("401 Unauthorized", False), ("404 Not Found", False), ("500 X", True), ("503 X", True)],
)
async def test_any_other_answer_is_a_failure_that_names_it(server: OddProvider, status: str, unreachable: bool) -> None:
    server.behaviours["/write"] = answers(b"", status=status, headers="location: /elsewhere\r\n")

    with pytest.raises(OrderFailed) as failed:
        await writer(server).publish(PROOF)

    assert str(failed.value) == (
        f"the DNS writer did not publish _acme-challenge.example.com: it answered {status[:3]}"
    )
    assert failed.value.unreachable is unreachable
    assert len(server.requests) == 1, "no redirect is followed: the token stays here"


@pytest.mark.parametrize("behaviour", [hangs])
async def test_a_writer_that_does_not_answer_costs_its_budget_and_no_more(server: OddProvider, behaviour: Any) -> None:
    server.behaviours["/write"] = behaviour

    with pytest.raises(OrderFailed, match=r"no answer within 0\.2 s") as failed:
        await writer(server, 0.2).withdraw(PROOF)
    assert failed.value.unreachable


@pytest.mark.parametrize("behaviour", [never_ends, trickles, breaks_off])
async def test_what_a_writer_says_behind_its_status_is_not_waited_for(server: OddProvider, behaviour: Any) -> None:
    server.behaviours["/write"] = behaviour

    await writer(server).publish(PROOF)


async def test_a_writer_that_breaks_off_or_is_not_there_is_unreachable(server: OddProvider) -> None:
    server.behaviours["/write"] = resets
    absent = ZoneWriter(f"http://127.0.0.1:{closed_port()}/", TOKEN)

    for one, fault in ((writer(server), "RemoteProtocolError"), (absent, "ConnectError")):
        with pytest.raises(OrderFailed) as failed:
            await one.publish(PROOF)
        assert str(failed.value).endswith(f": {fault}")
        assert failed.value.unreachable
        assert TOKEN.reveal() not in str(failed.value)
