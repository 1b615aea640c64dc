"""What an authority that misbehaves comes to: a failure in words, in bounded time and memory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest

from common.settings.secret import Secret
from dataplane.tls.acme import network
from dataplane.tls.acme.authority import Authority, AuthoritySettings
from dataplane.tls.acme.failure import OrderFailed
from tests.support.oidc_provider import OddProvider, answers, answers_json, breaks_off, hangs, never_ends, resets


@pytest.fixture
async def server() -> AsyncIterator[OddProvider]:
    async with OddProvider() as running:
        yield running


def at(server: OddProvider, **more: Any) -> Authority:
    return Authority(AuthoritySettings(f"{server.origin}/dir", **more), None)


def directory(server: OddProvider, **meta: Any) -> dict[str, Any]:
    return {"newNonce": f"{server.origin}/nonce", "newAccount": f"{server.origin}/account", "meta": meta}


async def failure(authority: Authority) -> OrderFailed:
    with closing(authority), pytest.raises(OrderFailed) as failed:
        await authority.account()
    return failed.value


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        (answers(b"<html>", headers="content-type: text/html\r\n"), "answered 200, and not as RFC 8555 says"),
        (answers(b"[]"), "answered 200, and not as RFC 8555 says"),
        (answers(b"{}"), "answered 200, and not as RFC 8555 says"),
        (answers(b"oops", status="502 Bad Gateway"), "answered 502, and not as RFC 8555 says"),
        (answers(b"", status="302 Found", headers="location: http://127.0.0.1:1/\r\n"), "TooManyRedirects"),
        (resets, "cannot be reached: ConnectionError"),
        (breaks_off, "answered 200, and not as RFC 8555 says"),
    ],
)
async def test_nonsense_is_told_as_such(server: OddProvider, behaviour: Any, says: str) -> None:
    server.behaviours["/dir"] = behaviour

    failed = await failure(at(server))

    assert says in str(failed)
    assert failed.unreachable


async def test_an_endless_answer_is_read_to_a_bound(server: OddProvider) -> None:
    server.behaviours["/dir"] = never_ends

    assert "answered more than 1048576 bytes" in str(await failure(at(server)))


async def test_an_authority_that_does_not_answer_costs_a_bounded_time(
    server: OddProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "CALL_TIMEOUT_S", 0.1)
    server.behaviours["/dir"] = hangs

    failed = await failure(at(server))

    assert "cannot be reached: ReadTimeout: timed out" in str(failed)
    assert failed.unreachable


@pytest.mark.parametrize(
    ("status", "header", "retry_after_s"),
    [
        ("429 Too Many", "retry-after: 30\r\n", 30.0),
        ("503 Service Unavailable", "retry-after: 120\r\n", 120.0),
        ("503 Service Unavailable", "retry-after: Fri, 31 Dec 1999 23:59:59 GMT\r\n", 0.0),
        ("429 Too Many", "retry-after: soon\r\n", None),
        ("429 Too Many", "retry-after: -1\r\n", None),
        ("429 Too Many", "", None),
    ],
)
async def test_the_wait_that_it_asks_for_is_handed_on(
    server: OddProvider, status: str, header: str, retry_after_s: float | None
) -> None:
    problem = {"type": "urn:ietf:params:acme:error:rateLimited", "detail": "slow down"}
    server.behaviours["/dir"] = answers(
        json.dumps(problem).encode(), status=status, headers=f"content-type: application/problem+json\r\n{header}"
    )

    failed = await failure(at(server))

    assert str(failed) == "the account: the authority answered rateLimited: slow down"
    assert failed.retry_after_s == retry_after_s
    assert failed.unreachable is status.startswith("503")


async def test_a_problem_in_several_parts_is_told_whole_on_one_line(server: OddProvider) -> None:
    below = [{"type": "urn:ietf:params:acme:error:caa", "detail": "CAA\r\nforbids"}]
    server.behaviours["/dir"] = answers_json(
        {"type": "urn:ietf:params:acme:error:compound", "title": "Errors", "subproblems": below}, status="403 Forbidden"
    )

    failed = await failure(at(server))

    assert str(failed) == r"the account: the authority answered compound: Errors (caa: CAA\r\nforbids)"
    assert not failed.unreachable


async def test_an_authority_that_wants_a_bound_account_is_told_from_one_that_refuses(server: OddProvider) -> None:
    server.behaviours["/dir"] = answers_json(directory(server, externalAccountRequired=True))

    failed = await failure(at(server))

    assert "set GATEWAY_ACME_EAB_KID and GATEWAY_ACME_EAB_HMAC" in str(failed)
    assert not failed.unreachable
    assert server.count("/account") == 0


async def test_a_nonce_that_is_never_liked_ends(server: OddProvider) -> None:
    bad = json.dumps({"type": "urn:ietf:params:acme:error:badNonce", "detail": "no"}).encode()
    nonce = "connection: close\r\nreplay-nonce: AAAA\r\ncontent-type: application/problem+json\r\n"
    server.behaviours["/dir"] = answers(json.dumps(directory(server)).encode(), headers=nonce)
    server.behaviours["/nonce"] = answers(b"", headers=nonce)
    server.behaviours["/account"] = answers(bad, status="400 Bad Request", headers=nonce)

    assert "badNonce" in str(await failure(at(server)))
    assert server.count("/account") == 2 * network.NONCE_TRIES


async def test_the_key_of_a_bound_account_shows_in_no_failure(server: OddProvider) -> None:
    key = "c2VjcmV0LWtleS1vZi10aGUtdGVzdHMtMDEyMzQ1Njc4OQ"
    server.behaviours["/dir"] = answers_json(directory(server))
    server.behaviours["/nonce"] = resets

    failed = await failure(at(server, eab_kid="kid", eab_hmac=Secret(key)))

    assert key not in str(failed)
    assert key not in repr(failed.__cause__)
