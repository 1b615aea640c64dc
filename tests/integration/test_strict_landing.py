"""Where a completed login goes on: a redirect, and to a strict route a page of the gateway's own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from common.settings.secret import Secret
from dataplane.oidc.login import Identity, PendingLogin
from tests.support.gateway import Answer, Running, route, running, table

UNUSED = "http://127.0.0.1:9"


async def complete_login(gw: Running, target: str) -> Answer:
    """Start a login, and let the provider's part of it succeed."""
    flow = gw.gateway._authentication.endpoints["/auth/callback"][1].__self__._flow  # type: ignore[attr-defined]

    async def start(redirect: str) -> tuple[PendingLogin, str]:
        return PendingLogin("state", "nonce", "verifier", redirect, int(time.time())), "https://idp.test/"

    async def finish(*_: object) -> Identity:
        return Identity("user-1", "", ())

    flow.start, flow.finish = start, finish
    login = await gw.get(f"/auth/login?redirect={target}")
    cookie = login.value("set-cookie").partition(";")[0]
    return await gw.get("/auth/callback?state=state&code=code", f"cookie: {cookie}")


@pytest.mark.parametrize("strict_deployment", [False, True])
@pytest.mark.parametrize(
    ("target", "strict_route"),
    [
        ("/strict/a?x=1%26y=2", True),
        ("/open", None),
        ("/navigation", False),
        ("/strict", True),
        ("/strict%23tab", True),
    ],
)
async def test_only_a_strict_route_is_reached_through_a_page(
    tmp_path: Path, target: str, strict_route: bool | None, strict_deployment: bool
) -> None:
    document = table(
        route(UNUSED, "/strict", crossSite="strict"),
        route(UNUSED, "/open"),
        route(UNUSED, "/navigation", crossSite="navigation"),
    )
    settings = {
        "csrf_strict": strict_deployment,
        "oidc_issuer": UNUSED,
        "oidc_client_id": "client",
        "oidc_client_secret": Secret("s" * 40),
    }
    async with running(tmp_path, document, **settings) as gw:
        answer = await complete_login(gw, target)
        strict = strict_deployment if strict_route is None else strict_route
        plain = target.replace("%26", "&").replace("%23", "#")
        if strict:
            assert answer.status == 200
            assert f'content="0;url={plain.replace("&", "&amp;")}"'.encode() in answer.body
            assert answer.value("referrer-policy") == "no-referrer"
            assert "default-src 'none'" in answer.value("content-security-policy")
        else:
            assert (answer.status, answer.value("location")) == (302, plain)
        assert any(cookie.startswith("gateway_session=") for cookie in answer.values("set-cookie"))
