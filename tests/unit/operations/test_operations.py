"""Health, readiness and metrics say what they must, and open to nothing but the token (§12.1, §12.3)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from common.settings.secret import Secret
from dataplane.endpoints import operations
from dataplane.errors import GatewayError
from dataplane.metrics import GatewayMetrics
from dataplane.replies import Reply

TOKEN = Secret("kJ8vN2qR5tY7wZ1xC4bM6nL9pS3dF0gH")


@dataclass
class Config:
    loaded: bool = True
    source: Literal["file", "store"] = "file"
    revision: int = 0
    generation: int = 3
    last_error: str | None = None


@dataclass
class State:
    up: bool = True
    backend: str = "memory"


def ready(config: Config | None = None, state: State | None = None, *, draining: bool = False) -> tuple[int, Any]:
    reply = operations.readyz(config or Config(), state or State(), draining=draining)
    assert dict(reply.headers)[b"cache-control"] == b"no-store"
    assert (b"retry-after" in dict(reply.headers)) is (reply.status == 503)
    return reply.status, json.loads(reply.body)


def test_health_is_200_whatever_is_away_and_shows_no_internals() -> None:
    reply = operations.healthz()
    assert (reply.status, json.loads(reply.body)) == (200, {"status": "ok"})


def test_readiness_reports_the_table_and_the_state() -> None:
    assert ready() == (
        200,
        {
            "status": "ready",
            "config": {"loaded": True, "source": "file", "revision": 0, "generation": 3, "lastError": None},
            "state": {"up": True, "backend": "memory"},
        },
    )


@pytest.mark.parametrize(("loaded", "up"), [(False, True), (True, False), (False, False)])
def test_it_is_not_ready_without_a_table_or_without_the_state(loaded: bool, up: bool) -> None:
    status, body = ready(Config(loaded=loaded), State(up=up))
    assert (status, body["status"], body["config"]["loaded"], body["state"]["up"]) == (503, "not_ready", loaded, up)


def test_a_failed_reload_does_not_make_it_unready_and_is_reported() -> None:
    status, body = ready(Config(last_error="routes[2].match.path: must begin with /"))
    assert (status, body["config"]["lastError"]) == (200, "routes[2].match.path: must begin with /")


def test_the_reported_error_is_redacted_and_cut() -> None:
    status, body = ready(Config(last_error="http://user:m4rK3rZ9@upstream \x1b[2J" + "x" * 100_000))
    assert status == 200
    assert "m4rK3rZ9" not in body["config"]["lastError"]
    assert body["config"]["lastError"].isprintable()
    assert len(body["config"]["lastError"]) < 1_100


@pytest.mark.parametrize(("loaded", "up"), [(True, True), (False, False)])
def test_draining_is_503_whatever_else_holds(loaded: bool, up: bool) -> None:
    status, body = ready(Config(loaded=loaded), State(up=up), draining=True)
    assert (status, body["status"]) == (503, "draining")


def scrape(*authorization: bytes, token: Secret | None = TOKEN) -> Reply:
    operations.open_metrics(authorization, token)
    return operations.metrics_reply(GatewayMetrics().render())


@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER"])
def test_the_token_opens_the_metrics(scheme: bytes) -> None:
    reply = scrape(scheme + b" " + TOKEN.reveal().encode())
    assert reply.status == 200
    assert dict(reply.headers)[b"content-type"] == b"text/plain; version=0.0.4; charset=utf-8"
    assert b"# TYPE gateway_requests_total counter" in reply.body
    assert TOKEN.reveal().encode() not in reply.body


@pytest.mark.parametrize(
    "authorization",
    [
        (),
        (b"",),
        (b"Bearer",),
        (b"Bearer ",),
        (b"Bearer wrong",),
        (TOKEN.reveal().encode(),),
        (b"Basic " + TOKEN.reveal().encode(),),
        (b"Bearer " + TOKEN.reveal().encode()[:-1],),
        (b"Bearer " + TOKEN.reveal().encode() + b"x",),
        (b"Bearer " + TOKEN.reveal().encode(), b"Bearer " + TOKEN.reveal().encode()),
        (b"Bearer wrong", b"Bearer " + TOKEN.reveal().encode()),
        (b"Bearer \xff\xfe",),
    ],
)
def test_nothing_else_does(authorization: tuple[bytes, ...]) -> None:
    with pytest.raises(GatewayError) as caught:
        scrape(*authorization)
    assert caught.value.code == "unauthorized"
    assert (b"www-authenticate", b"Bearer") in caught.value.headers
    assert TOKEN.reveal() not in str(caught.value) + caught.value.message


@pytest.mark.parametrize("authorization", [(), (b"Bearer x",), (b"Bearer ",), (b"Bearer None",)])
def test_without_a_token_configured_there_are_no_metrics_to_open(authorization: tuple[bytes, ...]) -> None:
    with pytest.raises(GatewayError) as caught:
        scrape(*authorization, token=None)
    assert caught.value.code == "not_found"
