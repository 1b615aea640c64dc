"""The whole gateway with an Access service on a raw socket: what the caller, the operator and the upstream see."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from common.settings.secret import Secret
from tests.support.access_transport import DENY, RawAccess, http_answer, raw_access
from tests.support.gateway import Running, route, running, table
from tests.support.ports import closed_port
from tests.support.upstreams import Upstream, answers, upstream

UUID = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
TOKEN = "token-of-access-that-stays-secret"
PATH = f"/w/{UUID}/x"


@dataclass
class World:
    gateway: Running
    access: RawAccess
    app: Upstream
    cookie: str

    async def get(self, target: str = PATH, **given: Any) -> Any:
        return await self.gateway.get(target, self.cookie, **given)


def routes(app: Upstream) -> list[dict[str, Any]]:
    workspace = {"mode": "session", "workspace": {"param": "workspaceId"}}
    return [
        {"id": "app", **route(app.url, "/w/{workspaceId}/", auth=workspace, accessCacheTtlMs=0)},
        {"id": "kept", **route(app.url, "/kept/{workspaceId}/", auth=workspace, accessCacheTtlMs=60_000)},
        {
            "id": "bridged",
            **route(app.url, "/bridged/{workspaceId}/", auth=workspace, accessCacheTtlMs=0, accessStaleGraceMs=60_000),
        },
        {"id": "admin", **route(app.url, "/admin/", auth={"mode": "session"}, accessCheck=True, accessCacheTtlMs=0)},
        {"id": "free", **route(app.url, "/free/", auth={"mode": "session"})},
    ]


@asynccontextmanager
async def world(tmp_path: Path, **settings: Any) -> AsyncIterator[World]:
    async with raw_access() as access, upstream(answers) as app:
        chosen = {
            "access_url": access.url,
            "access_token": Secret(TOKEN),
            "access_timeout_s": 10.0,
            "access_breaker_failures": 0,
            **settings,
        }
        async with running(tmp_path, table(*routes(app)), **chosen) as gateway:
            yield World(gateway, access, app, await gateway.session(roles=("dev", "a,b")))


async def test_an_allowed_request_reaches_the_upstream_with_the_workspace_that_access_judged(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        spelled = "ABCDEFab-cdef-ABCD-efAB-CDEFabcdefAB"
        answer = await here.get(f"/w/{spelled}/x")
        assert answer.status == 200
        assert json.loads(here.access.requests[0][1]) == {
            "subject": "user-1",
            "workspaceId": spelled,
            "routeId": "app",
            "roles": ["dev", "a,b"],
        }
        assert here.app.requests[0].values(b"x-gateway-workspace-id") == [spelled.encode()]
        assert (await here.gateway.request_line())["workspaceId"] == spelled


async def test_a_denial_is_403_and_the_upstream_sees_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.access.reply = http_answer(200, b'{"allow": false, "reason": "SECRET", "reasonCode": "missing_role"}')
        answer = await here.get()
        assert answer.status == 403
        assert answer.json["error"] == "workspace_forbidden"
        assert "SECRET" not in answer.body.decode() + answer.raw_head.decode()
        assert here.app.requests == []
        line = await here.gateway.request_line()
        assert (line["error"], line["outcome"], line["workspaceId"]) == ("workspace_forbidden", "refused", UUID)
        assert here.gateway.metric("gateway_auth_failures_total", route="app", reason="missing_role") == 1


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (http_answer(500), "Access answered 500"),
        (http_answer(403, b'{"allow": false}'), "Access answered 403"),
        (http_answer(401), "GATEWAY_ACCESS_TOKEN"),
        (http_answer(302, b"", "location: /login"), "redirects are not followed"),
        (http_answer(200, b"<html>"), "not JSON"),
        (http_answer(200, b'{"allow":"false"}'), "not a boolean"),
        (http_answer(200, b'{"allow":1}'), "not a boolean"),
        (http_answer(400, b""), "does not understand the question"),
        (b"", "reset"),
        (b'HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"allow": true}', "reset"),
    ],
)
async def test_an_outage_is_503_for_the_caller_and_names_its_cause_for_the_operator(
    tmp_path: Path, reply: bytes, cause: str
) -> None:
    """An outage that looked like a denial would send operators into the policy (and callers away for good)."""
    async with world(tmp_path) as here:
        here.access.reply = reply
        answer = await here.get()
        assert answer.status == 503
        assert answer.json["error"] == "access_unavailable"
        assert int(answer.value("retry-after")) > 0
        assert answer.value("proxy-status").startswith("wicketgate; error=")
        assert here.app.requests == []
        line = await here.gateway.request_line()
        assert line["error"] == "access_unavailable"
        assert cause in json.dumps(line)
        assert cause not in answer.body.decode()
        assert TOKEN not in json.dumps(here.gateway.lines)


async def test_a_service_that_is_down_is_503_and_no_session_is_lost(tmp_path: Path) -> None:
    async with world(tmp_path, access_url=f"http://127.0.0.1:{closed_port()}") as here:
        answer = await here.get()
        assert answer.status == 503
        assert answer.values("set-cookie") == []
        assert "connect" in json.dumps(await here.gateway.request_line())
        assert (await here.get("/free/")).status == 200


async def test_a_service_that_is_slow_is_503_within_its_budget(tmp_path: Path) -> None:
    async with world(tmp_path, access_timeout_s=0.1) as here:
        here.access.reply = None
        assert (await here.get()).status == 503
        assert "timeout" in json.dumps(await here.gateway.request_line())
        await asyncio.wait_for(here.access.gone.wait(), 10)


async def test_a_bad_workspace_is_400_before_access_is_asked(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        for target in ("/w/team/x", f"/w/{UUID}1/x", "/w/%00/x"):
            assert (await here.get(target)).status == 400
        assert here.access.requests == []


async def test_a_caller_who_is_not_known_is_turned_away_before_access_is_asked(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        assert (await here.gateway.get(PATH)).status == 401
        assert here.access.requests == []


async def test_a_route_without_a_workspace_asks_about_itself_and_a_free_one_not_at_all(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        assert (await here.get("/free/")).status == 200
        assert here.access.requests == []
        here.access.reply = http_answer(200, DENY)
        assert (await here.get("/admin/")).status == 403
        assert json.loads(here.access.requests[0][1]) == {
            "subject": "user-1",
            "routeId": "admin",
            "roles": ["dev", "a,b"],
        }


async def test_a_burst_asks_once_and_a_kept_decision_answers_nobody_else(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        burst = await asyncio.gather(*(here.get(f"/kept/{UUID}/") for _ in range(10)))
        assert {answer.status for answer in burst} == {200}
        assert len(here.access.requests) == 1
        here.access.reply = http_answer(200, DENY)
        assert (await here.get(f"/kept/{OTHER}/")).status == 403
        other = await here.gateway.session("user-2", roles=("dev", "a,b"))
        assert (await here.gateway.get(f"/kept/{UUID}/", other)).status == 403
        fewer = await here.gateway.session("user-1", roles=("dev",))
        assert (await here.gateway.get(f"/kept/{UUID}/", fewer)).status == 403
        assert (await here.get(f"/kept/{UUID}/")).status == 200


async def test_the_grace_bridges_an_outage_for_whom_it_knew_and_for_nobody_else(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        assert (await here.get(f"/bridged/{UUID}/")).status == 200
        here.access.reply = http_answer(503)
        assert (await here.get(f"/bridged/{UUID}/")).status == 200
        assert (await here.get(f"/bridged/{OTHER}/")).status == 503
        assert here.gateway.metric("gateway_access_stale_total", route="bridged") == 1


async def test_an_open_breaker_spares_the_service_and_is_seen_in_the_metrics(tmp_path: Path) -> None:
    async with world(tmp_path, access_breaker_failures=3, access_breaker_cooldown_s=3_600.0) as here:
        here.access.reply = http_answer(500)
        for _ in range(8):
            assert (await here.get()).status == 503
        assert len(here.access.requests) == 3
        assert here.gateway.metric("gateway_access_breaker_open") == 1
        assert "breaker_open" in json.dumps(await here.gateway.request_line(8))


async def test_a_caller_that_leaves_while_access_is_asked_leaves_nothing_behind(tmp_path: Path) -> None:
    async with world(tmp_path, access_breaker_failures=1) as here:
        here.access.reply = None
        caller = await here.gateway.connect()
        await caller.send(f"GET {PATH} HTTP/1.1\r\nhost: app.test\r\n{here.cookie}\r\n\r\n".encode())
        await asyncio.wait_for(here.access.asked.wait(), 10)
        caller.vanish()
        await asyncio.wait_for(here.access.gone.wait(), 10)
        line = await here.gateway.request_line()
        assert (line["status"], line["outcome"]) == (499, "aborted")
        assert here.app.requests == []
        assert here.gateway.metric("gateway_access_breaker_open") == 0
