"""Step 11: reading the workspace id, and asking Access about it."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.identity.principal import Principal
from common.routetable.compiled import Match, Route
from dataplane.access.breaker import Breaker
from dataplane.access.client import AccessClient
from dataplane.errors import GatewayError
from dataplane.exchange import Exchange
from dataplane.metrics import GatewayMetrics
from dataplane.workspace import WorkspaceStep, read_workspace_id
from tests.support.access_transport import ALLOW, AnsweringTransport, ManualClock, RecordedLog, route

UUID = "11111111-1111-4111-8111-111111111111"


def refused(segment: str, *, require_uuid: bool = False) -> str:
    with pytest.raises(GatewayError) as caught:
        read_workspace_id(segment, require_uuid=require_uuid)
    assert caught.value.code == "bad_request"
    return caught.value.detail


# Reading


@pytest.mark.parametrize(
    ("segment", "value"),
    [
        ("team", "team"),
        ("a%20b", "a b"),
        ("m%C3%BCnchen", "münchen"),
        ("a%2525b", "a%25b"),
        ("%61", "a"),
        ("a;b,c=d@e:f", "a;b,c=d@e:f"),
        ("x" * 512, "x" * 512),
        ("%C3%BC" * 512, "ü" * 512),
    ],
)
def test_the_segment_is_decoded_once_and_otherwise_kept(segment: str, value: str) -> None:
    assert read_workspace_id(segment, require_uuid=False) == value


@pytest.mark.parametrize(
    "segment",
    [
        "",
        "a%2Fb",
        "a%2fb",
        "%5C",
        "a\\b",
        "a/b",
        "a%00",
        "a%0Ab",
        "a%0D",
        "a%09b",
        "%7F",
        "a%C2%85b",
        "a%C2%9Fb",
        "%20a",
        "a%20",
        "%20",
        "%C2%A0a",
        "a%E2%80%A8",
        "%ff",
        "%C3",
        "%ED%A0%80",
        "%C0%AF",
        "a%",
        "a%2",
        "a%zz",
        "%u0061",
        "ü",
        "x" * 513,
        "%C3%BC" * 513,
    ],
)
def test_an_id_that_could_be_read_otherwise_downstream_is_400(segment: str) -> None:
    refused(segment)


@pytest.mark.parametrize(
    "segment", [UUID, "00000000-0000-0000-0000-000000000000", "FFFFFFFF-ffff-FFFF-ffff-FFFFFFFFFFFF"]
)
def test_a_uuid_passes_with_its_case(segment: str) -> None:
    assert read_workspace_id(segment, require_uuid=True) == segment


def test_an_escaped_uuid_is_the_uuid() -> None:
    assert read_workspace_id("%31" + UUID[1:], require_uuid=True) == UUID


@pytest.mark.parametrize(
    "segment",
    [
        "",
        "team",
        UUID[:-1],
        UUID + "1",
        UUID + "%0A",
        UUID.replace("-", ""),
        "{" + UUID + "}",
        "urn:uuid:" + UUID,
        UUID.replace("1", "g", 1),
        " " + UUID,
        "%20" + UUID,
        UUID + ";x",
        UUID.replace("-", "%E2%80%90"),
        "１" + UUID[1:],
        quote("１") + UUID[1:],
        quote("٣") + UUID[1:],
    ],
)
def test_what_is_no_uuid_is_400_where_one_is_required(segment: str) -> None:
    refused(segment, require_uuid=True)


def test_the_log_is_told_why_and_not_what() -> None:
    for segment in ("SECRET%00", "SECRET" * 100, "SECRET%ff", "SECRET%"):
        assert "SECRET" not in refused(segment)


@given(st.text(), st.booleans())
def test_what_is_read_is_what_was_meant_or_400(value: str, require_uuid: bool) -> None:
    try:
        segment = quote(value, safe="")
    except UnicodeEncodeError:
        return
    with contextlib.suppress(GatewayError):
        assert read_workspace_id(segment, require_uuid=require_uuid) == value


# Asking


class Bench:
    def __init__(self, answer: tuple[int, bytes] | Exception = (200, ALLOW), *, asks: bool = True) -> None:
        self.transport = AnsweringTransport(answer)
        self.metrics = GatewayMetrics()
        self.client = AccessClient(
            self.transport,
            url="http://access",
            timeout_s=5,
            cache_max=10,
            breaker=Breaker(0, 1),
            metrics=self.metrics,
            log=RecordedLog(),  # type: ignore[arg-type]
            clock=ManualClock(),
        )
        self.step = WorkspaceStep(self.client if asks else None, self.metrics)

    async def run(self, where: Route, *, principal: Principal | None, params: dict[str, str]) -> Exchange:
        made: Any = SimpleNamespace(matched=Match(where, params, ""), principal=principal, workspace_id=None)
        await self.step(made)
        exchange: Exchange = made
        return exchange

    async def refusal(self, where: Route, *, principal: Principal | None, params: dict[str, str]) -> GatewayError:
        with pytest.raises(GatewayError) as caught:
            await self.run(where, principal=principal, params=params)
        return caught.value


CALLER = Principal("u-1", roles=("dev", "a,b"))


async def test_access_is_asked_about_the_id_that_goes_upstream_with_unfiltered_roles() -> None:
    bench = Bench()
    spelled = "ABCDEFab-cdef-ABCD-efAB-CDEFabcdefAB"
    x = await bench.run(route(), principal=CALLER, params={"workspaceId": spelled})
    assert x.workspace_id == spelled
    assert bench.transport.bodies == [
        b'{"subject":"u-1","workspaceId":"' + spelled.encode() + b'","routeId":"app","roles":["dev","a,b"]}'
    ]


async def test_a_bad_id_is_refused_before_access_is_asked() -> None:
    bench = Bench()
    assert (await bench.refusal(route(), principal=CALLER, params={"workspaceId": "x"})).code == "bad_request"
    assert (await bench.refusal(route(), principal=CALLER, params={})).code == "bad_request"
    assert bench.transport.count == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b'{"allow": false, "reasonCode": "missing_role"}', "missing_role"), (b'{"allow": false}', "access_denied")],
)
async def test_a_denial_is_403_and_counted_by_its_reason(body: bytes, reason: str) -> None:
    bench = Bench((200, body))
    error = await bench.refusal(route(), principal=CALLER, params={"workspaceId": UUID})
    assert error.code == "workspace_forbidden"
    assert error.spec.status == 403
    assert reason not in error.message
    assert bench.metrics.auth_failures.value("app", reason) == 1


async def test_an_outage_is_503_and_no_authentication_failure() -> None:
    bench = Bench((403, b""))
    error = await bench.refusal(route(), principal=CALLER, params={"workspaceId": UUID})
    assert error.code == "access_unavailable"
    assert bench.metrics.auth_failures.value("app", "access_denied") == 0


async def test_the_record_of_a_denied_request_says_which_workspace_it_was_about() -> None:
    bench = Bench((200, b'{"allow": false}'))
    made: Any = SimpleNamespace(matched=Match(route(), {"workspaceId": UUID}, ""), principal=CALLER, workspace_id=None)
    with pytest.raises(GatewayError):
        await bench.step(made)
    assert made.workspace_id == UUID


async def test_a_route_without_a_workspace_is_asked_about_when_it_says_so() -> None:
    bench = Bench()
    x = await bench.run(route("admin-api", workspace_param=None), principal=CALLER, params={})
    assert x.workspace_id is None
    assert bench.transport.bodies == [b'{"subject":"u-1","routeId":"admin-api","roles":["dev","a,b"]}']


async def test_a_route_that_is_not_checked_asks_nobody() -> None:
    bench = Bench(asks=False)
    x = await bench.run(route(workspace_param=None, access_check=False), principal=None, params={})
    assert x.workspace_id is None


async def test_a_checked_route_never_passes_without_a_caller() -> None:
    bench = Bench()
    error = await bench.refusal(route(), principal=None, params={"workspaceId": UUID})
    assert error.code == "internal_error"
    assert bench.transport.count == 0


async def test_a_checked_route_never_passes_without_a_service() -> None:
    error = await Bench(asks=False).refusal(route(), principal=CALLER, params={"workspaceId": UUID})
    assert error.code == "access_unavailable"
    assert "GATEWAY_ACCESS_URL" in error.detail
