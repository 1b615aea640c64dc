"""Credentials over sockets: what is no good credential reaches no upstream, and never falls back to another one."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Running, route, running, table
from tests.support.jose import assembled, b64, ec_key, key_set, public_jwk, signed
from tests.support.upstreams import Peer, Upstream, ok, upstream
from tests.support.wire import Recorded


@dataclass
class Provider:
    """A provider that publishes `keys`, and counts what it is asked for."""

    keys: dict[str, Any] = field(default_factory=lambda: key_set(ec_key("a")))
    asked: list[str] = field(default_factory=list)

    async def script(self, peer: Peer) -> None:
        while True:
            request = await peer.read_request()
            path = request.line.split(" ")[1]
            self.asked.append(path)
            issuer = peer.upstream.url
            metadata = {
                "issuer": issuer,
                "authorization_endpoint": f"{issuer}/authorize",
                "token_endpoint": f"{issuer}/token",
                "jwks_uri": f"{issuer}/keys",
            }
            if path == "/token":
                await peer.write(b"HTTP/1.1 400 No\r\ncontent-length: 25\r\n\r\n" + b'{"error":"invalid_grant"}')
                continue
            body = self.keys if path == "/keys" else metadata
            await peer.write(ok(json.dumps(body).encode(), b"content-type: application/json\r\n"))


@dataclass
class World:
    gw: Running
    app: Recorded
    provider: Provider
    issuer: str
    elsewhere: Upstream

    def claims(self, **changes: object) -> dict[str, Any]:
        now = int(time.time())
        return {"iss": self.issuer, "aud": "client", "sub": "user-1", "iat": now, "exp": now + 300, **changes}

    def token(self, **changes: object) -> str:
        return signed(self.claims(**changes), ec_key("a")).decode()


@asynccontextmanager
async def world(tmp_path: Path, **settings: Any) -> AsyncIterator[World]:
    app, provider = Recorded(), Provider()
    async with (
        upstream(app.script) as public,
        upstream(provider.script) as oidc,
        upstream(Recorded().script) as elsewhere,
    ):
        document = table(
            route(public.url),
            route(public.url, "/token", auth={"mode": "jwt-only"}),
            route(public.url, "/any", auth={"mode": "any"}),
            route(public.url, "/session", auth={"mode": "session"}),
        )
        chosen = {"oidc_issuer": oidc.url, "oidc_client_id": "client", "rate_limit_login_max": 0, **settings}
        async with running(tmp_path, document, **chosen) as gw:
            yield World(gw, app, provider, oidc.url, elsewhere)


def forged(here: World) -> dict[str, str]:
    """Tokens that somebody made up, by what is wrong with them."""
    claims = here.claims()
    payload = json.dumps(claims).encode()
    secret = json.dumps(public_jwk(ec_key("a"))).encode()
    signing_input = f"{b64(json.dumps({'alg': 'HS256', 'kid': 'a'}).encode())}.{b64(payload)}"
    hs256 = f"{signing_input}.{b64(hmac.new(secret, signing_input.encode(), hashlib.sha256).digest())}"
    good = here.token()
    head, body, signature = good.split(".")
    url = here.elsewhere.url
    return {
        "none": assembled({"alg": "none"}, payload, b"").decode(),
        "nOnE": assembled({"alg": "nOnE", "kid": "a"}, payload, b"").decode(),
        "HS256 with the public key": hs256,
        "a zero signature": f"{head}.{body}.{b64(bytes(64))}",
        "no signature": f"{head}.{body}.",
        "another key of that name": signed(claims, ec_key("other"), header={"kid": "a"}).decode(),
        "an unknown key": signed(claims, ec_key("other")).decode(),
        "a key of its own": signed(claims, ec_key("other"), header={"jwk": public_jwk(ec_key("other"))}).decode(),
        "a key elsewhere": signed(claims, ec_key("other"), header={"jku": f"{url}/keys", "x5u": url}).decode(),
        "a path for a name": signed(claims, ec_key("other"), header={"kid": "../../dev/null"}).decode(),
        "other claims": f"{head}.{b64(json.dumps(here.claims(sub='admin')).encode())}.{signature}",
        "another issuer": here.token(iss="https://evil.example"),
        "the issuer with a slash": here.token(iss=here.issuer + "/"),
        "another audience": here.token(aud="other"),
        "no audience": here.token(aud=None),
        "over": here.token(exp=int(time.time()) - 10),
        "no expiry": here.token(exp=None),
        "an expiry in text": here.token(exp=str(int(time.time()) + 300)),
        "not yet": here.token(nbf=int(time.time()) + 60),
        "made tomorrow": here.token(iat=int(time.time()) + 60),
        "an ID token": here.token(nonce="n"),
        "no subject": here.token(sub=None),
        "a subject that is no text": here.token(sub=["admin"]),
        "four parts": good + ".x",
        "two parts": f"{head}.{body}",
        "spaces": good.replace(".", " . "),
        "nothing": "",
        "padding": f"{head}=.{body}.{signature}",
        "20 KiB": "a" * 20_000,
    }


@pytest.mark.parametrize("path", ["/token", "/any"])
async def test_no_forged_token_reaches_the_upstream_and_no_good_session_helps_it(tmp_path: Path, path: str) -> None:
    """R19, and §5.1: a credential that is there and bad is refused, never replaced by another."""
    async with world(tmp_path) as here:
        answer = await here.gw.get(path, f"authorization: Bearer {here.token()}")
        assert answer.status == 200
        assert here.app.whole[0].values(b"x-gateway-user-id") == [b"user-1"]
        assert here.app.whole[0].values(b"authorization") == []
        here.app.clear()
        cookie = await here.gw.session("owner")
        for name, token in forged(here).items():
            for lines in ([], [cookie]):
                answer = await here.gw.get(path, f"authorization: Bearer {token}", *lines)
                assert (answer.status, answer.json["error"]) == (401, "unauthorized"), name
                assert answer.values("www-authenticate") == ["Bearer"]
                assert answer.values("set-cookie") == answer.values("location") == []
        for line in (
            f"authorization: {here.token()}",
            f"authorization: Token {here.token()}",
            f"authorization: Basic {here.token()}",
            f"authorization: Bearer{here.token()}",
            f"authorization: Bearer {here.token()}, Bearer x",
            f"proxy-authorization: Bearer {here.token()}",
            f"x-authorization: Bearer {here.token()}",
        ):
            answer = await here.gw.get("/token", line, cookie)
            assert answer.status == 401, line
        answer = await here.gw.get(path, f"authorization: Bearer {here.token()}", "authorization: Bearer x", cookie)
        assert answer.status == 401
        assert (await here.gw.get(f"/token?access_token={here.token()}", cookie)).status == 401
        assert here.app.begun == []
        assert here.elsewhere.connections == 0, "nothing that a token names is fetched"
        assert here.provider.asked.count("/keys") <= 2, "made-up key names ask the provider once in a while at most"
        told = str(here.gw.lines)
        assert here.token().split(".")[1] not in told
        assert "eyJ" not in told


async def test_a_route_for_sessions_looks_at_no_token_and_one_for_tokens_at_no_cookie(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        cookie, bearer = await here.gw.session("owner"), f"authorization: Bearer {here.token()}"
        assert (await here.gw.get("/session", bearer)).status == 401
        assert (await here.gw.get("/token", cookie)).status == 401
        assert here.app.begun == []
        for sent in (bearer, "authorization: Bearer forged", "authorization: Basic eDp5"):
            assert (await here.gw.get("/session", cookie, sent)).status == 200
            request = here.app.whole.pop()
            assert request.values(b"x-gateway-user-id") == [b"owner"]
            assert request.values(b"authorization") == []


async def test_a_key_that_is_withdrawn_is_refused_and_an_empty_set_changes_nothing(tmp_path: Path) -> None:
    """R17, B35: the key set is asked for again by its age; one that is broken is not taken."""
    async with world(tmp_path, oidc_jwks_cache_s=0.3, oidc_jwks_stale_s=60.0) as here:
        bearer = f"authorization: Bearer {here.token()}"
        assert (await here.gw.get("/token", bearer)).status == 200
        for broken in ({"keys": []}, {}, {"keys": "x"}):
            here.provider.keys = broken
            await asyncio.sleep(0.35)
            assert (await here.gw.get("/token", bearer)).status == 200, "the last good one serves"
        here.provider.keys = key_set(ec_key("b"))
        async with asyncio.timeout(60):
            while (await here.gw.get("/token", f"authorization: Bearer {here.token(jti='x')}")).status == 200:
                await asyncio.sleep(0.1)
        assert (await here.gw.get("/token", bearer)).status == 401


async def test_a_login_state_is_used_once_however_often_its_cookie_is_sent_again(tmp_path: Path) -> None:
    """Each attempt of the same callback fails by itself, and none of them makes a session."""
    async with world(tmp_path) as here:
        login = await here.gw.get("/auth/login?redirect=/", "accept: text/html")
        assert login.status == 302
        cookie = "cookie: " + login.value("set-cookie").partition(";")[0]
        state = login.value("location").partition("state=")[2].partition("&")[0]
        for number in range(5):
            answer = await here.gw.get(f"/auth/callback?code=c{number}&state={state}", cookie)
            assert (answer.status, answer.json["error"]) == (400, "login_failed")
            assert not any(value.startswith("gateway_session=") for value in answer.values("set-cookie"))
        assert here.app.begun == []
        assert state not in str(here.gw.lines)
