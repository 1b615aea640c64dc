"""A session on a shared state is asked for before the limits, and that answer decides; everything else asks nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from common.routetable.compiled import AuthMode
from common.state.memory import MemoryState
from common.state.ports import Session, StateUnavailable
from dataplane.authentication.sessions import id_hash
from dataplane.errors import GatewayError
from tests.support.auth_harness import Parts, Sent, exchange


class Shared(MemoryState):
    """Reads as a server's state does: on their way from the call on, awaited or not."""

    shared = True  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(lambda: 1_800_000_000_000)
        self.asked: list[str] = []
        self.away = False

    def read_session(self, id_hash: str) -> asyncio.Future[Session | None]:  # type: ignore[override]
        self.asked.append(id_hash)
        future: asyncio.Future[Session | None] = asyncio.get_running_loop().create_future()
        if self.away:
            future.set_exception(StateUnavailable("away"))
            future.exception()
        else:
            future.set_result(self._sessions.read(id_hash, self.now_ms()))
        return future


@pytest.fixture
async def parts() -> AsyncIterator[Parts]:
    async with Parts(Shared()) as built:
        yield built


def asked(parts: Parts) -> list[str]:
    assert isinstance(parts.state, Shared)
    return parts.state.asked


def session_id(cookie: dict[str, str]) -> str:
    return cookie["cookie"].partition("=")[2]


@pytest.mark.parametrize("mode", ["session", "any"])
async def test_a_session_is_read_once_and_ahead(parts: Parts, mode: AuthMode) -> None:
    cookie = await parts.session_cookie("alice")
    x = exchange("/", cookie, mode=mode)
    parts.step.ask_ahead(x)
    assert asked(parts) == [id_hash(session_id(cookie))]
    assert (x.principal, x.session, x.response_headers) == (None, None, [])
    await parts.step(x)
    assert x.principal is not None
    assert x.principal.subject == "alice"
    assert len(asked(parts)) == 1


@pytest.mark.parametrize(
    ("mode", "headers"),
    [
        ("none", {"cookie": "gateway_session=" + "A" * 43}),
        ("jwt-only", {"cookie": "gateway_session=" + "A" * 43}),
        ("any", {"cookie": "gateway_session=" + "A" * 43, "authorization": "Bearer x"}),
        ("session", {}),
        ("session", {"cookie": "gateway_session=short"}),
        ("session", {"cookie": "; ".join(f"gateway_session={letter * 43}" for letter in "ABCDE")}),
        (None, {"cookie": "gateway_session=" + "A" * 43}),
    ],
)
async def test_a_request_that_no_session_can_decide_asks_nothing(
    parts: Parts, mode: AuthMode | None, headers: Sent
) -> None:
    x = exchange("/", headers, mode=mode)
    parts.step.ask_ahead(x)
    assert asked(parts) == []
    assert x.session_reads == {}


async def test_of_two_cookies_both_are_read_ahead_and_the_live_one_counts(parts: Parts) -> None:
    cookie = await parts.session_cookie("alice")
    x = exchange("/", {"cookie": f"gateway_session={'A' * 43}; {cookie['cookie']}"}, mode="session")
    parts.step.ask_ahead(x)
    assert len(asked(parts)) == 2
    await parts.step(x)
    assert x.principal is not None
    assert len(asked(parts)) == 2


async def test_a_read_that_failed_is_an_outage_to_whom_the_session_decides(parts: Parts) -> None:
    assert isinstance(parts.state, Shared)
    cookie = await parts.session_cookie("alice")
    parts.state.away = True
    x = exchange("/", cookie, mode="session")
    parts.step.ask_ahead(x)
    with pytest.raises(GatewayError) as caught:
        await parts.step(x)
    assert caught.value.code == "session_store_unavailable"
    assert x.response_headers == []


async def test_a_state_in_memory_is_asked_when_the_session_is_due() -> None:
    async with Parts() as parts:
        x = exchange("/", await parts.session_cookie("alice"), mode="session")
        parts.step.ask_ahead(x)
        assert x.session_reads == {}
        await parts.step(x)
        assert x.session is not None
