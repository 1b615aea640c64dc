"""Who may call what, and how wrong tokens are counted (§12.7)."""

from __future__ import annotations

import asyncio

import pytest

from common.connections import host_of
from common.state.memory import MemoryState
from common.state.ports import StateUnavailable
from controlplane import authentication
from tests.support.control import TOKENS, Control, error_of, route_table

READS = ("/v1/config", "/v1/config/revisions", "/v1/config/revisions/1")


@pytest.mark.parametrize("path", READS)
@pytest.mark.parametrize(("scope", "status"), [("read", 200), ("config", 200), ("operate", 403)])
async def test_reading_the_table_takes_read_or_config(path: str, scope: str, status: int) -> None:
    control = Control()
    await control.put(route_table(), 0)
    assert (await control.send("GET", path, token=scope)).status_code == status


@pytest.mark.parametrize("scope", ["read", "operate"])
async def test_writing_takes_config_and_nothing_else(scope: str) -> None:
    control = Control()
    assert error_of(await control.put(route_table(), 0, token=scope)) == (403, "forbidden")
    rollback = await control.send("POST", "/v1/config/rollback", {"revision": 1}, token=scope)
    assert error_of(rollback) == (403, "forbidden")
    assert "config" in rollback.json()["message"]
    assert (await control.state.read_table()).revision == 0


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": f"Basic {TOKENS['config']}"},
        {"authorization": TOKENS["config"]},
        {"authorization": f"Bearer {TOKENS['config'][:-1]}"},
        {"authorization": f"Bearer {TOKENS['config']}x"},
        {"authorization": f"Bearer {TOKENS['config'].upper()}"},
        [("authorization", f"Bearer {TOKENS['config']}"), ("authorization", f"Bearer {TOKENS['config']}")],
        {"x-authorization": f"Bearer {TOKENS['config']}"},
    ],
)
async def test_whatever_is_not_one_known_bearer_token_is_401(headers: dict[str, str]) -> None:
    answer = await Control().send("GET", "/v1/config", token=None, headers=headers)
    assert error_of(answer) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_is_compared_without_case(scheme: str) -> None:
    answer = await Control().send("GET", "/v1/config", headers={"authorization": f"{scheme}   {TOKENS['read']}"})
    assert answer.status_code == 404


async def test_a_token_in_the_query_is_no_credential() -> None:
    control = Control()
    answer = await control.send("GET", f"/v1/config?access_token={TOKENS['config']}", token=None)
    assert error_of(answer) == (401, "unauthorized")
    assert TOKENS["config"].encode() not in b"".join(control.lines)


async def test_nothing_is_judged_before_the_token() -> None:
    """A stranger learns nothing of what is wrong with a request, and no body of theirs is read."""
    control = Control()
    for method, path, body in (
        ("GET", "/v1/config/revisions?limit=x&limit=y", None),
        ("GET", "/v1/config/revisions/x", None),
        ("PUT", "/v1/config", b"\xff" * 1_000),
        ("POST", "/v1/config/rollback", b"{"),
    ):
        answer = await control.send(method, path, body, token="unknown-token-0123456", client=(path, 1))
        assert error_of(answer) == (401, "unauthorized")
    assert {event["bytesIn"] for event in control.events()} == {0}


async def test_the_sixth_failure_in_a_minute_is_429_and_so_is_the_right_token_then() -> None:
    control = Control()
    for _ in range(5):
        assert error_of(await control.send("GET", "/v1/config", token="wrong-token-0123456")) == (401, "unauthorized")
    control.time.pass_s(10)
    for token in ("wrong-token-0123456", "config"):
        answer = await control.send("GET", "/v1/config", token=token)
        assert error_of(answer) == (429, "too_many_failures")
        assert answer.headers["retry-after"] == "50"
    elsewhere = await control.send("GET", "/v1/config", client=("192.0.2.8", 1))
    assert elsewhere.status_code == 404
    control.time.pass_s(50)
    assert (await control.send("GET", "/v1/config")).status_code == 404


WITHOUT_A_GUESS = (
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "Bearer  "},
    {"authorization": f"Basic {TOKENS['config']}"},
    {"authorization": TOKENS["config"]},
    [("authorization", "Bearer a"), ("authorization", f"Bearer {TOKENS['config']}")],
    {"cookie": f"token={TOKENS['config']}", "origin": "https://elsewhere.example", "sec-fetch-mode": "no-cors"},
)


@pytest.mark.parametrize("headers", WITHOUT_A_GUESS)
async def test_what_guesses_no_token_is_401_and_never_counted(headers: dict[str, str]) -> None:
    """Else any page could lock an operator's address out: a browser sends such requests for it."""
    control = Control()
    for _ in range(10):
        answer = await control.send("GET", "/v1/config", token=None, headers=headers)
        assert error_of(answer) == (401, "unauthorized")
    assert (await control.send("GET", "/v1/config")).status_code == 404


async def test_a_request_without_a_token_is_401_without_asking_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while its address waits, and while the state is away: a stranger costs nothing."""

    async def away(*_: object) -> float:
        raise StateUnavailable("away")

    monkeypatch.setattr(MemoryState, "auth_failure_wait", away)
    assert error_of(await Control().send("GET", "/v1/config", token=None)) == (401, "unauthorized")


async def test_a_turn_that_does_not_come_is_503_and_others_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever fills the line of one address holds up nobody else, and that address for a bounded time."""
    monkeypatch.setattr(authentication, "TURN_TIMEOUT_S", 0.05)
    asked, go_on = asyncio.Event(), asyncio.Event()
    control = Control()
    unhindered = control.state.auth_failure_wait

    async def stands_still(address: str) -> float:
        if address == "192.0.2.7":
            asked.set()
            await go_on.wait()
        return await unhindered(address)

    monkeypatch.setattr(control.state, "auth_failure_wait", stands_still)
    first = asyncio.ensure_future(control.send("GET", "/v1/config"))
    await asked.wait()
    assert error_of(await control.send("GET", "/v1/config")) == (503, "state_unavailable")
    assert (await control.send("GET", "/v1/config", client=("192.0.2.8", 1))).status_code == 404
    go_on.set()
    assert (await first).status_code == 404
    assert (await control.send("GET", "/v1/config")).status_code == 404


async def test_a_line_that_is_full_is_503_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "LINE_MAX", 3)
    control = Control()
    asked, go_on = asyncio.Event(), asyncio.Event()
    unhindered = control.state.auth_failure_wait

    async def stands_still(address: str) -> float:
        asked.set()
        await go_on.wait()
        return await unhindered(address)

    monkeypatch.setattr(control.state, "auth_failure_wait", stands_still)
    requests = [asyncio.ensure_future(control.send("GET", "/v1/config")) for _ in range(10)]
    await asked.wait()
    refused, waiting = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
    while len(refused) < 6:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        refused |= done
    assert {error_of(one.result()) for one in refused} == {(503, "state_unavailable")}
    go_on.set()
    assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [404] * 4


async def test_right_tokens_are_not_counted() -> None:
    control = Control()
    for _ in range(20):
        assert (await control.send("GET", "/v1/config")).status_code == 404


async def test_guesses_sent_at_once_are_judged_one_by_one() -> None:
    """Else a burst would be judged whole before the first of it was counted, and the limit be none."""
    control = Control()
    guesses = [control.send("GET", "/v1/config", token=f"wrong-token-{number:08}") for number in range(30)]
    answers = await asyncio.gather(*guesses, control.send("GET", "/v1/config"))
    assert sorted(answer.status_code for answer in answers) == [401] * 5 + [429] * 26


@pytest.mark.parametrize(
    ("client", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_failures_are_counted_by_what_one_host_cannot_change(client: str, counted: str) -> None:
    assert host_of(client) == counted


@pytest.mark.parametrize("operation", ["auth_failure_wait", "count_auth_failure"])
async def test_where_failures_cannot_be_counted_nobody_is_let_in(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> float:
        raise StateUnavailable("away")

    monkeypatch.setattr(MemoryState, operation, away)
    answer = await Control().send("GET", "/v1/config", token="wrong-token-0123456")
    assert error_of(answer) == (503, "state_unavailable")
    assert int(answer.headers["retry-after"]) > 0


async def test_the_log_names_operator_and_scope_and_never_a_token() -> None:
    control = Control()
    await control.send("GET", "/v1/config")
    await control.send("GET", "/v1/config", token="wrong-token-0123456")
    known, unknown = control.events()
    assert (known["operator"], known["scope"], known["client"]) == ("config-operator", "config", "192.0.2.7")
    assert (unknown["operator"], unknown["error"]) == (None, "unauthorized")
    assert b"token-0123456" not in b"".join(control.lines)


@pytest.mark.parametrize("scope", ["read", "operate", "config"])
async def test_whoever_asks_is_told_as_whom_their_token_acts(scope: str) -> None:
    """People have several tokens; the trail will name the one that they used."""
    answer = await Control().send("GET", "/v1/me", token=scope)
    assert (answer.status_code, answer.json()) == (200, {"operator": f"{scope}-operator", "scope": scope})
