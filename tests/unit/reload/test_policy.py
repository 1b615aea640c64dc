"""What is logged of a generation: the table, each route, each permissive setting (§12.2)."""

from __future__ import annotations

import json
from ipaddress import ip_network

from common.routetable.warnings import Surroundings
from common.settings.gateway import GatewaySettings
from common.telemetry.log import Log
from dataplane.reload.policy import policy_lines
from dataplane.snapshot import Snapshot
from tests.support.route_tables import loaded, route

TABLE = loaded(
    route(
        "ws",
        "/ws/{id}/",
        host="a.example",
        methods=["PUT", "GET"],
        upstream=["http://app.internal/base", "https://b"],
        auth={"mode": "any", "workspace": {"param": "id"}},
        forwardAuthorization=True,
        timeouts={"responseMs": 1_500},
        rateLimits={"client": {"max": 5}},
    ),
    route("open", "/"),
    hosts=["b.example", "a.example"],
    trustedProxies=["10.0.0.1/32"],
)
SNAPSHOT = Snapshot(TABLE, 3, 0, "file", (ip_network("192.0.2.1/32"),))


def test_one_line_for_the_table_one_a_route_one_a_permissive_setting() -> None:
    lines = list(policy_lines(SNAPSHOT, Surroundings()))
    assert [(line.level, line.msg, line.fields.get("route")) for line in lines] == [
        ("info", "configuration active", None),
        ("info", "route", "ws"),
        ("info", "route", "open"),
        ("warning", "permissive setting", "ws"),
        ("warning", "permissive setting", "ws"),
        ("warning", "permissive setting", "open"),
        ("warning", "permissive setting", "open"),
    ]


def test_the_tables_line_names_the_ranges_in_force() -> None:
    first = next(policy_lines(SNAPSHOT, Surroundings()))
    assert first.fields == {
        "generation": 3,
        "revision": 0,
        "source": "file",
        "version": 2,
        "routes": 2,
        "hosts": ["a.example", "b.example"],
        "reservedPaths": [],
        "trustedProxies": ["192.0.2.1/32"],
    }


def test_a_routes_line_says_who_may_call_and_where_it_leads_and_nothing_of_it_is_redacted() -> None:
    written: list[bytes] = []
    log = Log(written.append)
    for line in policy_lines(SNAPSHOT, Surroundings()):
        log.info(line.msg, **line.fields)
    logged = json.loads(written[1])
    assert "redacted" not in b"".join(written).decode()
    assert logged["route"] == "ws"
    assert logged["host"] == "a.example"
    assert logged["path"] == "/ws/{id}/"
    assert logged["methods"] == ["GET", "PUT"]
    assert logged["upstreams"] == ["http://app.internal/base", "https://b"]
    assert (logged["mode"], logged["workspace"], logged["accessAsked"]) == ("any", "id", True)
    assert logged["crossSite"] == "deployment"
    assert logged["authHeaderForwarded"] is True
    assert logged["timeoutsMs"]["response"] == 1_500
    assert logged["rateLimits"] == {"client": "5 in 60000 ms", "principal": "deployment"}


def test_an_upstreams_password_is_in_no_line() -> None:
    table = loaded(route("x", "/", upstream="http://user:hunter2@app"), version=1)
    lines = list(policy_lines(Snapshot(table, 1, 0, "file", ()), Surroundings()))
    assert "hunter2" not in str(lines)
    assert "dXNlcjpodW50ZXIy" not in str(lines)


def test_the_surroundings_are_the_settings() -> None:
    proxies = (ip_network("10.0.0.0/8"),)
    settings = GatewaySettings(
        csrf_strict=True,
        rate_limit_route_max=1,
        rate_limit_principal_max=2,
        ws_revalidate_interval_s=0.0,
        trusted_proxies=proxies,
    )
    assert settings.surroundings == Surroundings(True, 1, 2, 0, proxies)
