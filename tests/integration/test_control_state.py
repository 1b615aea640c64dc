"""The control plane's API over every backend of the shared state: the whole life of tables, sessions and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from common.state.ports import NewSession
from tests.support.auth_harness import Time
from tests.support.control import Control, error_of, route_table
from tests.support.state_backends import Backend

pytestmark = pytest.mark.real


@pytest.fixture
def time(backend: Backend) -> Time:
    return backend.fresh()


@pytest.fixture
async def control(backend: Backend, time: Time) -> AsyncIterator[Control]:
    async with plane_over(backend, time) as plane:
        yield plane


@asynccontextmanager
async def plane_over(backend: Backend, time: Time) -> AsyncIterator[Control]:
    """A control plane over the store, for the length of a block."""
    state = backend.open(time)
    await state.start()
    try:
        yield Control(state=state)
    finally:
        await state.close()


async def test_a_table_is_published_compared_rolled_back_and_on_record(control: Control) -> None:
    assert (await control.send("GET", "/v1/config")).headers["etag"] == '"0"'
    assert (await control.put(route_table("a"), 0)).headers["etag"] == '"1"'
    assert error_of(await control.put(route_table("b"), 0)) == (409, "revision_conflict")
    assert (await control.put(route_table("a", "b"), 1)).status_code == 201
    back = await control.send("POST", "/v1/config/rollback", {"revision": 1}, headers={"if-match": '"2"'})
    assert back.json()["revision"] == 3
    assert (await control.send("GET", "/v1/config")).json() == route_table("a")
    assert (await control.send("GET", "/v1/config/diff?from=2&to=3")).json()["removed"] == ["b"]
    history = (await control.send("GET", "/v1/config/revisions?limit=2")).json()
    assert [(one["revision"], one["action"]) for one in history["items"]] == [
        (3, "config.rollback"),
        (2, "config.write"),
    ]
    rest = await control.send("GET", f"/v1/config/revisions?limit=2&cursor={history['nextCursor']}")
    assert [one["revision"] for one in rest.json()["items"]] == [1]
    trail = (await control.send("GET", "/v1/audit?action=config.write")).json()
    assert [one["target"] for one in trail["items"]] == ["revision 2", "revision 1"]


async def test_of_a_hundred_writers_with_one_revision_one_wins_with_one_entry(control: Control) -> None:
    answers = await asyncio.gather(*(control.put(route_table(f"r{number}"), 0) for number in range(100)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 99
    assert {answer.json()["revision"] for answer in answers} == {1}
    assert [entry.target for entry in (await control.state.list_audit(None, 200)).entries] == ["revision 1"]
    winner = next(index for index, answer in enumerate(answers) if answer.status_code == 201)
    assert (await control.send("GET", "/v1/config")).json() == route_table(f"r{winner}")


async def test_sessions_are_listed_and_ended_with_a_record(control: Control) -> None:
    for number in range(3):
        subject = "ada" if number else "bob"
        await control.state.create_session(
            NewSession(f"{number:016x}{'e' * 48}", subject, "", ("dev",), idle_ms=3_600_000, max_age_ms=3_600_000)
        )
    listed = (await control.send("GET", "/v1/sessions?subject=ada", token="read")).json()["items"]
    assert [one["handle"] for one in listed] == [f"{1:016x}", f"{2:016x}"]
    one = await control.send("DELETE", f"/v1/sessions/{1:016x}", token="operate")
    assert one.json() == {"revoked": 1}
    others = await control.send("DELETE", "/v1/sessions?subject=ada", token="operate")
    assert others.json() == {"revoked": 1}
    assert (await control.send("DELETE", "/v1/decisions?subject=ada", token="operate")).json() == {"dropped": 0}
    left = (await control.send("GET", "/v1/sessions", token="read")).json()["items"]
    assert [session["subject"] for session in left] == ["bob"]
    trail = (await control.send("GET", "/v1/audit?operator=operate-operator")).json()["items"]
    assert [(entry["action"], entry["target"]) for entry in trail] == [
        ("decisions.drop", 'subject "ada"'),
        ("sessions.revoke", 'subject "ada"'),
        ("sessions.revoke", f"session {1:016x}"),
    ]


async def test_replicas_are_seen_until_they_are_silent(control: Control, time: Time) -> None:
    await control.put(route_table(), 0)
    await control.state.beat("a", 1, "", 20_000)
    await control.state.beat("b", 0, "no table", 20_000)
    found = (await control.send("GET", "/v1/replicas")).json()
    shown = [(one["replica"], one["behind"], one["lastError"]) for one in found["items"]]
    assert (shown, found["revision"]) == ([("a", 0, None), ("b", 1, "no table")], 1)
    time.pass_s(21)
    assert (await control.send("GET", "/v1/replicas")).json()["items"] == []


async def test_failed_authentications_are_counted_over_all_control_planes(
    backend: Backend, control: Control, time: Time
) -> None:
    async with plane_over(backend, time) as other:
        for number in range(5):
            answer = await (other if number % 2 else control).send("GET", "/v1/config", token="wrong-token-0123456")
            assert error_of(answer) == (401, "unauthorized")
        for plane in (control, other):
            refused = await plane.send("GET", "/v1/config")
            assert error_of(refused) == (429, "too_many_failures")
            assert 0 < int(refused.headers["retry-after"]) <= 60
            assert (await plane.send("GET", "/v1/config", client=("192.0.2.9", 1))).status_code == 404
        time.pass_s(61)
        assert (await other.send("GET", "/v1/config")).status_code == 404
