"""Sessions as browsers present them: one live session is the caller's, and only then."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from common.state.memory import MemoryState
from common.state.ports import Session, StateUnavailable
from dataplane.authentication.sessions import BrowserSessions, SessionRefused, id_hash
from dataplane.oidc.login import Identity
from tests.support.auth_harness import Browser, Time

ALICE = Identity("alice", "alice@example.test", ("reader",))
MALLORY = Identity("mallory", "", ())


class Case:
    def __init__(self, idle_ms: int = 600_000, max_age_ms: int = 3_600_000, max_per_subject: int = 0) -> None:
        self.time = Time()
        self.state = MemoryState(self.time.now_ms)
        self.sessions = BrowserSessions(
            self.state, idle_ms=idle_ms, max_age_ms=max_age_ms, max_per_subject=max_per_subject, secure=True
        )

    async def open(self, identity: Identity = ALICE, replaces: tuple[str, ...] = ()) -> str:
        """The new session's id."""
        _, cookie = await self.sessions.open(identity, replaces)
        browser = Browser()
        browser.take_line(cookie.decode("ascii"))
        return browser.value("gateway_session")

    async def refusal(self, *presented: str) -> tuple[str, bool]:
        with pytest.raises(SessionRefused) as refused:
            await self.sessions.find(presented)
        return refused.value.reason, refused.value.clear


@pytest.fixture
def case() -> Case:
    return Case()


async def test_an_id_is_fresh_and_only_its_hash_is_stored(case: Case) -> None:
    first, second = await case.open(), await case.open()
    assert first != second
    assert len(first) == 43
    stored = repr(case.state._sessions._by_id)
    assert first not in stored
    assert hashlib.sha256(first.encode()).hexdigest() in stored


async def test_the_session_of_a_browser_is_found(case: Case) -> None:
    session_id = await case.open()
    found_id, session = await case.sessions.find([session_id])
    assert found_id == session_id
    assert (session.subject, session.email, session.roles) == ("alice", "alice@example.test", ("reader",))


async def test_no_cookie_is_missing(case: Case) -> None:
    assert await case.refusal() == ("missing", False)


async def test_a_dead_session_is_expired_and_its_cookie_goes(case: Case) -> None:
    session_id = await case.open()
    case.time.pass_s(600)
    assert await case.refusal(session_id) == ("expired", True)
    assert await case.refusal("A" * 43) == ("expired", True)


@pytest.mark.parametrize(
    "value", ["", "x", "a" * 42, "a" * 44, "a" * 42 + "=", "a" * 42 + "é", "a" * 42 + " ", "../" * 14 + "a"]
)
async def test_what_was_never_an_id_is_invalid_and_asks_nobody(case: Case, value: str) -> None:
    async def read_session(id_hash: str) -> Session | None:
        raise AssertionError("asked")

    case.state.read_session = read_session  # type: ignore[method-assign]
    assert await case.refusal(value) == ("invalid", True)
    assert id_hash(value) is None


async def test_a_live_session_among_dead_cookies_is_the_callers(case: Case) -> None:
    session_id = await case.open()
    for presented in (("junk", session_id), (session_id, "A" * 43), ("A" * 43, "junk", session_id)):
        assert (await case.sessions.find(presented))[0] == session_id


async def test_two_live_sessions_are_nobodys_and_neither_cookie_is_cleared(case: Case) -> None:
    """A sibling host that slips its own session to a caller must not be believed, nor drive out the caller's."""
    alice, mallory = await case.open(), await case.open(MALLORY)
    assert await case.refusal(alice, mallory) == ("invalid", False)
    assert await case.refusal(mallory, alice) == ("invalid", False)


async def test_a_flood_of_cookies_costs_no_look_ups(case: Case) -> None:
    session_id = await case.open()
    assert await case.refusal(*(f"{number:043d}" for number in range(4)), session_id) == ("invalid", False)


async def test_a_login_ends_every_session_the_browser_had(case: Case) -> None:
    alice, mallory = await case.open(), await case.open(MALLORY)
    fresh = await case.open(ALICE, replaces=(mallory, alice, "junk"))
    assert await case.refusal(alice) == await case.refusal(mallory) == ("expired", True)
    assert (await case.sessions.find([fresh]))[1].subject == "alice"


async def test_an_id_that_somebody_planted_is_never_taken_over(case: Case) -> None:
    planted = "P" * 43
    fresh = await case.open(ALICE, replaces=(planted,))
    assert fresh != planted
    assert await case.refusal(planted) == ("expired", True)


async def test_the_oldest_sessions_of_a_subject_go(case: Case) -> None:
    case = Case(max_per_subject=2)
    ids = []
    for _ in range(3):
        ids.append(await case.open())
        case.time.pass_s(1)
    assert await case.refusal(ids[0]) == ("expired", True)
    assert (await case.sessions.find([ids[1]]))[0] == ids[1]


@pytest.mark.parametrize(("idle_ms", "interval_s"), [(28_800_000, 60), (600_000, 60), (300_000, 30), (1_000, 0.1)])
async def test_use_is_written_at_most_once_a_minute_or_a_tenth_of_the_idle_time(
    idle_ms: int, interval_s: float
) -> None:
    case = Case(idle_ms=idle_ms)
    session_id = await case.open()
    case.time.pass_s(interval_s - 0.001)
    assert (await case.sessions.use([session_id]))[1] is None
    case.time.pass_s(0.002)
    session, cookie = await case.sessions.use([session_id])
    assert cookie is not None
    assert session.touched_at_ms == case.time.now_ms()
    assert cookie.startswith(f"gateway_session={session_id}; ".encode())
    assert f"Max-Age={min(idle_ms, session.expires_at_ms - case.time.now_ms()) // 1000};".encode() in cookie
    assert (await case.sessions.use([session_id]))[1] is None


async def test_a_session_in_use_lives_to_its_maximum_age_and_no_longer(case: Case) -> None:
    session_id = await case.open()
    for _ in range(11):
        case.time.pass_s(300)
        await case.sessions.use([session_id])
    case.time.pass_s(299)
    assert (await case.sessions.find([session_id]))[0] == session_id
    case.time.pass_s(1)
    assert await case.refusal(session_id) == ("expired", True)


async def test_of_requests_side_by_side_one_writes(case: Case) -> None:
    session_id = await case.open()
    case.time.pass_s(61)
    touched = 0
    real = case.state.touch_session

    async def slow(id_hash: str, idle_ms: int) -> Session | None:
        nonlocal touched
        touched += 1
        await asyncio.sleep(0)
        return await real(id_hash, idle_ms)

    case.state.touch_session = slow  # type: ignore[method-assign]
    answers = await asyncio.gather(*(case.sessions.use([session_id]) for _ in range(10)))
    assert touched == 1
    assert sum(cookie is not None for _, cookie in answers) == 1


async def test_a_write_that_fails_may_be_tried_again(case: Case) -> None:
    session_id = await case.open()
    case.time.pass_s(61)
    real = case.state.touch_session

    async def away(id_hash: str, idle_ms: int) -> Session | None:
        raise StateUnavailable

    case.state.touch_session = away  # type: ignore[method-assign]
    with pytest.raises(StateUnavailable):
        await case.sessions.use([session_id])
    case.state.touch_session = real  # type: ignore[method-assign]
    assert (await case.sessions.use([session_id]))[1] is not None


async def test_a_session_that_ends_between_read_and_write_is_expired(case: Case) -> None:
    session_id = await case.open()
    case.time.pass_s(61)

    async def gone(id_hash: str, idle_ms: int) -> Session | None:
        return None

    case.state.touch_session = gone  # type: ignore[method-assign]
    with pytest.raises(SessionRefused) as refused:
        await case.sessions.use([session_id])
    assert (refused.value.reason, refused.value.clear) == ("expired", True)
