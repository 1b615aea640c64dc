"""A document is fetched once for everybody, serves on in an outage for a bounded time, and heals by itself."""

from __future__ import annotations

import asyncio
import json

import pytest

from dataplane.oidc.errors import ProviderUnavailable
from dataplane.oidc.kept import RETRY_S, Kept
from tests.support.auth_harness import Time, log_into


class Source:
    """Something to fetch: counts, fails on demand, and waits for a gate."""

    def __init__(self) -> None:
        self.fetched = 0
        self.failing = False
        self.gate: asyncio.Event | None = None

    async def __call__(self) -> str:
        self.fetched += 1
        number = self.fetched
        if self.gate is not None:
            await self.gate.wait()
        if self.failing:
            raise ProviderUnavailable("away")
        return f"document {number}"


class Case:
    def __init__(self) -> None:
        self.time = Time()
        self.source = Source()
        self.lines: list[bytes] = []
        self.kept: Kept[str] = Kept(
            "keys", self.source, fresh_s=600, stale_s=3600, clock=self.time.now_s, log=log_into(self.lines)
        )

    def logged(self) -> list[str]:
        return [json.loads(line)["level"] for line in self.lines]

    async def settle(self) -> None:
        """Let a fetch in the background end."""
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
def case() -> Case:
    return Case()


async def test_nothing_is_fetched_before_it_is_needed_and_then_once(case: Case) -> None:
    assert case.source.fetched == 0
    assert await case.kept.get() == await case.kept.get() == "document 1"
    assert case.kept.fresh() == "document 1"


async def test_side_by_side_requests_share_one_fetch(case: Case) -> None:
    case.source.gate = asyncio.Event()
    waiting = [asyncio.ensure_future(case.kept.get()) for _ in range(20)]
    await case.settle()
    assert case.kept.fetching
    case.source.gate.set()
    assert await asyncio.gather(*waiting) == ["document 1"] * 20


async def test_a_request_that_leaves_does_not_end_the_fetch_for_the_others(case: Case) -> None:
    case.source.gate = asyncio.Event()
    leaving, staying = asyncio.ensure_future(case.kept.get()), asyncio.ensure_future(case.kept.get())
    await case.settle()
    leaving.cancel()
    await case.settle()
    case.source.gate.set()
    assert await staying == "document 1"
    assert case.source.fetched == 1


async def test_an_old_document_is_fetched_anew_before_it_is_used(case: Case) -> None:
    await case.kept.get()
    case.time.pass_s(599.9)
    assert await case.kept.get() == "document 1"
    case.time.pass_s(0.1)
    assert await case.kept.get() == "document 2"


async def test_the_last_good_document_serves_until_its_grace_is_over(case: Case) -> None:
    await case.kept.get()
    case.source.failing = True
    case.time.pass_s(600)
    assert await case.kept.get() == "document 1"
    case.time.pass_s(3599)
    assert await case.kept.get() == "document 1"
    case.time.pass_s(1)
    with pytest.raises(ProviderUnavailable, match="away"):
        await case.kept.get()


async def test_during_an_outage_nobody_waits_for_a_document_that_may_serve(case: Case) -> None:
    await case.kept.get()
    case.source.failing = True
    case.time.pass_s(600)
    await case.kept.get()
    case.source.gate = asyncio.Event()
    case.time.pass_s(RETRY_S)
    async with asyncio.timeout(5):
        assert await case.kept.get() == "document 1"
    assert case.kept.fetching
    await case.kept.close()


async def test_during_an_outage_the_provider_is_asked_only_now_and_then(case: Case) -> None:
    case.source.failing = True
    for _ in range(10):
        with pytest.raises(ProviderUnavailable):
            await case.kept.get()
    assert case.source.fetched == 1
    case.time.pass_s(RETRY_S)
    with pytest.raises(ProviderUnavailable):
        await case.kept.get()
    assert case.source.fetched == 2


async def test_a_provider_that_is_back_is_found_by_the_next_request(case: Case) -> None:
    case.source.failing = True
    with pytest.raises(ProviderUnavailable):
        await case.kept.get()
    case.source.failing = False
    case.time.pass_s(RETRY_S)
    assert await case.kept.get() == "document 2"
    assert not case.kept.failing


async def test_a_provider_that_is_back_replaces_the_old_document_in_the_background(case: Case) -> None:
    await case.kept.get()
    case.source.failing = True
    case.time.pass_s(600)
    await case.kept.get()
    case.source.failing = False
    case.time.pass_s(RETRY_S)
    assert await case.kept.get() == "document 1"
    await case.settle()
    assert await case.kept.get() == "document 3"


async def test_an_outage_is_two_lines_in_the_log(case: Case) -> None:
    case.source.failing = True
    for _ in range(5):
        with pytest.raises(ProviderUnavailable):
            await case.kept.get()
        case.time.pass_s(RETRY_S)
    case.source.failing = False
    await case.kept.get()
    assert case.logged() == ["warning", "info"]


async def test_a_forced_fetch_that_fails_leaves_the_fresh_document(case: Case) -> None:
    await case.kept.get()
    case.source.failing = True
    assert await case.kept.refetch() == "document 1"
    assert case.kept.failing
    assert await case.kept.get() == "document 1"


async def test_a_bug_in_a_fetch_is_raised_and_the_next_one_is_tried(case: Case) -> None:
    async def broken() -> str:
        raise ZeroDivisionError

    kept: Kept[str] = Kept("keys", broken, fresh_s=1, stale_s=1, clock=case.time.now_s, log=log_into([]))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await kept.get()
