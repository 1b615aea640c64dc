"""What every answer of the API has: an id, a log line, JSON, and headers that keep it from being more than data."""

from __future__ import annotations

import re

import pytest

from common.state.memory import MemoryState
from common.state.ports import StateUnavailable
from tests.support.control import TOKENS, Control, control_settings, error_of, route_table

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/v1/config", 404),
        ("GET", "/nothing", 404),
        ("GET", "/v1/config/", 404),
        ("POST", "/healthz", 405),
        ("PUT", "/v1/config", 428),
    ],
)
async def test_every_answer_is_json_with_an_id_and_stays_data(method: str, path: str, status: int) -> None:
    control = Control()
    answer = await control.send(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert UUID.fullmatch(answer.headers["x-request-id"])
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    (event,) = control.events()
    assert event["requestId"] == answer.headers["x-request-id"]
    assert (event["method"], event["path"], event["status"]) == (method, path, status)


async def test_a_usable_id_of_the_caller_is_kept_and_any_other_replaced() -> None:
    control = Control()
    kept = await control.send("GET", "/healthz", headers={"x-request-id": "deploy-17"})
    assert kept.headers["x-request-id"] == "deploy-17"
    for headers in ([("x-request-id", "a b")], [("x-request-id", "a"), ("x-request-id", "b")]):
        made = await control.send("GET", "/healthz", headers=headers)
        assert UUID.fullmatch(made.headers["x-request-id"])


async def test_head_is_get_without_a_body() -> None:
    control = Control()
    await control.put(route_table(), 0)
    head = await control.send("HEAD", "/v1/config")
    got = await control.send("GET", "/v1/config")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(got.content))
    assert head.headers["etag"] == got.headers["etag"]


async def test_a_path_names_the_methods_it_takes() -> None:
    answer = await Control().send("DELETE", "/v1/config")
    assert error_of(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD, PUT"


async def test_a_bug_is_500_with_its_cause_in_the_log_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("the inside of it")

    monkeypatch.setattr(MemoryState, "read_table", broken)
    control = Control()
    answer = await control.send("GET", "/v1/config")
    assert error_of(answer) == (500, "internal_error")
    assert "inside" not in answer.text
    (event,) = control.events()
    assert event["level"] == "error"
    assert "the inside of it" in event["stack"]


async def test_a_state_that_is_away_is_503_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise StateUnavailable("no route to the server")

    monkeypatch.setattr(MemoryState, "read_table", away)
    control = Control()
    answer = await control.send("GET", "/v1/config")
    assert error_of(answer) == (503, "state_unavailable")
    assert answer.headers["retry-after"] == "5"
    assert "route to" not in answer.text
    assert control.events()[0]["detail"] == "no route to the server"


async def test_readiness_follows_the_state_and_the_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    control = Control()
    ready = await control.send("GET", "/readyz", token=None)
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "state": {"up": True, "backend": "memory"}})
    monkeypatch.setattr(MemoryState, "up", False)
    down = await control.send("GET", "/readyz", token=None)
    assert (down.status_code, down.json()["status"]) == (503, "not_ready")
    control.plane.process.draining = True
    assert (await control.send("GET", "/readyz", token=None)).json()["status"] == "draining"
    assert (await control.send("GET", "/healthz", token=None)).status_code == 200


async def test_metrics_open_to_their_own_token_alone() -> None:
    token = "metrics-token-0123456789abcdefghij"
    assert error_of(await Control().send("GET", "/metrics", token=token)) == (404, "not_found")
    control = Control(control_settings(CONTROL_METRICS_TOKEN=token))
    for wrong in (None, "config", token[:-1]):
        assert error_of(await control.send("GET", "/metrics", token=wrong)) == (401, "unauthorized")
    await control.send("GET", "/v1/config")
    answer = await control.send("GET", "/metrics", token=token)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'gateway_control_requests_total{operation="getConfig",status="404"} 1.0' in answer.text
    assert 'gateway_control_errors_total{error="unauthorized"} 3.0' in answer.text
    assert "gateway_state_up 1.0" in answer.text


async def test_probes_are_logged_at_debug_and_their_refusals_are_not() -> None:
    control = Control(control_settings(CONTROL_METRICS_TOKEN="metrics-token-0123456789abcdefghij"))
    await control.send("GET", "/healthz")
    await control.send("GET", "/metrics")
    assert [event["level"] for event in control.events()] == ["debug", "info"]


async def test_credentials_in_a_query_are_not_logged() -> None:
    control = Control()
    await control.send("GET", f"/v1/config?token={TOKENS['read']}")
    assert TOKENS["read"].encode() not in b"".join(control.lines)
