"""Every code of the table, provoked over a socket: status, body, headers, log line; and the next request works."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from common.settings.secret import Secret
from common.state.ports import StateUnavailable
from dataplane.errors import ERRORS
from tests.support import upstreams
from tests.support.gateway import Answer, Running, route, running, table
from tests.support.upstreams import answers_with, never_answers, ok, upstream

WORKSPACE = "11111111-1111-4111-8111-111111111111"
UNUSED = "http://127.0.0.1:9"

Provoke = Callable[[Running], Awaitable[Answer]]
PROVOCATIONS: dict[str, Provoke] = {}
SETTINGS: dict[str, dict[str, Any]] = {}


def provokes(code: str, **settings: Any) -> Callable[[Provoke], Provoke]:
    def register(function: Provoke) -> Provoke:
        PROVOCATIONS[code] = function
        SETTINGS[code] = settings
        return function

    return register


@provokes("bad_request")
async def malformed(gw: Running) -> Answer:
    return await gw.raw(b"GET / HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n")


@provokes("login_failed")
async def unknown_state(gw: Running) -> Answer:
    return await gw.get("/auth/callback?code=a&state=b")


@provokes("websocket_not_allowed")
async def upgrade(gw: Running) -> Answer:
    return await gw.get(
        "/",
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
    )


@provokes("unauthorized")
async def no_credential(gw: Running) -> Answer:
    return await gw.get("/session")


@provokes("workspace_forbidden")
async def denied(gw: Running) -> Answer:
    return await gw.get(f"/ws/{WORKSPACE}", await gw.session("denied"))


@provokes("cross_site_request")
async def cross_site(gw: Running) -> Answer:
    return await gw.get("/session", await gw.session(), "sec-fetch-site: cross-site", method="POST")


@provokes("no_route")
async def no_route(gw: Running) -> Answer:
    return await gw.get("/", host="other.test")


@provokes("not_found")
async def reserved(gw: Running) -> Answer:
    return await gw.get("/healthz", method="POST")


@provokes("request_timeout")
async def stalled_upload(gw: Running) -> Answer:
    return await gw.raw(b"POST /slow HTTP/1.1\r\nhost: app.test\r\ncontent-length: 5\r\n\r\nabc")


@provokes("payload_too_large")
async def too_large(gw: Running) -> Answer:
    return await gw.raw(b"POST /small HTTP/1.1\r\nhost: app.test\r\ncontent-length: 50\r\n\r\n")


@provokes("uri_too_long")
async def long_target(gw: Running) -> Answer:
    return await gw.get("/" + "a" * 9000)


@provokes("expectation_failed")
async def expectation(gw: Running) -> Answer:
    return await gw.get("/", "expect: the-unexpected")


@provokes("upgrade_required")
async def old_websocket(gw: Running) -> Answer:
    return await gw.get(
        "/socket",
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 8",
        "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
    )


@provokes("too_many_requests", rate_limit_route_max=1)
async def over_the_limit(gw: Running) -> Answer:
    assert (await gw.get("/")).status == 200
    return await gw.get("/")


@provokes("headers_too_large")
async def many_headers(gw: Running) -> Answer:
    return await gw.get("/", *(f"x-{n}: y" for n in range(200)))


@provokes("internal_error")
async def unwritable_subject(gw: Running) -> Answer:
    return await gw.get("/session", await gw.session("sub\x07ject"))


@provokes("not_implemented")
async def connect(gw: Running) -> Answer:
    return await gw.raw(b"CONNECT app.test:443 HTTP/1.1\r\nhost: app.test:443\r\n\r\n")


@provokes("bad_gateway")
async def refused(gw: Running) -> Answer:
    return await gw.get("/refused")


@provokes("not_ready")
async def no_table(gw: Running) -> Answer:
    gw.gateway.configuration._served.current = None  # type: ignore[attr-defined]
    return await gw.get("/")


@provokes("gateway_overloaded", max_pending_requests=1)
async def no_room(gw: Running) -> Answer:
    waiting = await gw.connect()
    await waiting.send(b"GET /never HTTP/1.1\r\nhost: app.test\r\n\r\n")
    async with asyncio.timeout(10):
        while gw.metric("gateway_active_requests") < 1:
            await asyncio.sleep(0)
    return await gw.get("/")


@provokes("access_unavailable")
async def access_broken(gw: Running) -> Answer:
    return await gw.get(f"/ws/{WORKSPACE}", await gw.session("broken"))


@provokes("identity_provider_unavailable")
async def no_provider(gw: Running) -> Answer:
    return await gw.get("/auth/login")


@provokes("session_store_unavailable")
async def no_store(gw: Running) -> Answer:
    cookie = await gw.session()

    class Away:
        """An answer that may be asked for in vain, and never comes."""

        def __init__(self, *_: object) -> None: ...

        def __await__(self) -> Iterator[None]:
            raise StateUnavailable("the store is away")

    gw.gateway.state.read_session = Away  # type: ignore[method-assign,assignment]
    return await gw.get("/session", cookie)


@provokes("rate_limit_unavailable", rate_limit_fallback="deny")
async def no_budgets(gw: Running) -> Answer:
    async def away(_: object) -> None:
        raise StateUnavailable("the store is away")

    gw.gateway.state.check_budgets = away  # type: ignore[method-assign]
    return await gw.get("/")


@provokes("gateway_timeout")
async def no_answer(gw: Running) -> Answer:
    return await gw.get("/never")


@provokes("http_version_not_supported")
async def old_version(gw: Running) -> Answer:
    return await gw.raw(b"GET / HTTP/1.2\r\nhost: a\r\n\r\n")


async def access(peer: upstreams.Peer) -> None:
    while True:
        request = await peer.read_request()
        if b'"broken"' in request.body:
            await peer.write(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")
        else:
            allow = b"false" if b'"denied"' in request.body else b"true"
            await peer.write(ok(b'{"allow":' + allow + b"}", b"content-type: application/json\r\n"))


def test_every_code_of_the_table_has_a_provocation() -> None:
    assert set(PROVOCATIONS) == set(ERRORS)


@pytest.mark.parametrize("code", sorted(ERRORS))
async def test_a_code_is_answered_as_the_table_says(tmp_path: Path, code: str) -> None:
    session = {"mode": "session"}
    async with upstream(answers_with(ok())) as app, upstream(never_answers) as never, upstream(access) as decides:
        document = table(
            route(app.url),
            route(app.url, "/session", auth=session),
            route(app.url, "/ws/{id}", auth={**session, "workspace": {"param": "id"}}, accessCacheTtlMs=0),
            route(app.url, "/small", maxBodyBytes=5),
            route(app.url, "/socket", websocket=True),
            route(never.url, "/slow", timeouts={"uploadMs": 50}),
            route(never.url, "/never", timeouts={"responseMs": 200}),
            route(UNUSED, "/refused"),
        )
        for entry in document["routes"]:
            entry["match"]["host"] = "app.test"
        settings = {
            "access_url": decides.url,
            "access_token": Secret("t" * 40),
            "oidc_issuer": UNUSED,
            "oidc_client_id": "client",
            **SETTINGS[code],
        }
        async with running(tmp_path, document, **settings) as gw:
            answer = await PROVOCATIONS[code](gw)
            spec = ERRORS[code]
            assert (answer.status, answer.json["error"]) == (spec.status, code)
            assert set(answer.json) == {"error", "message"}
            assert answer.value("content-type") == "application/json"
            assert answer.value("cache-control") == "no-store"
            assert answer.value("proxy-status").startswith("wicketgate; error=")
            if spec.status in (429, 503):
                assert int(answer.value("retry-after")) >= 1
            line = next(line for line in gw.requests() if line["error"] == code)
            assert line["requestId"] == answer.value("x-request-id")
            assert line["status"] == spec.status
            assert line["outcome"] == ("failed" if spec.status >= 500 else "refused")
            health = await gw.get("/healthz")
            assert health.status == 200


async def test_a_browser_gets_the_same_as_a_page(tmp_path: Path) -> None:
    async with running(tmp_path, table(route(UNUSED))) as gw:
        answer = await gw.get("/", "accept: text/html,application/xhtml+xml,*/*;q=0.8", "x-request-id: abc-1")
        assert answer.status == 502
        assert answer.value("content-type") == "text/html; charset=utf-8"
        assert "default-src 'none'" in answer.value("content-security-policy")
        for part in (b"bad_gateway", b"502", b"abc-1"):
            assert part in answer.body
        for accept in ("application/json", "*/*", "text/html;q=0", "application/json, text/html;q=0.5"):
            assert (await gw.get("/", f"accept: {accept}")).value("content-type") == "application/json"


async def test_head_gets_the_head_of_an_error_alone(tmp_path: Path) -> None:
    async with running(tmp_path, table(route(UNUSED))) as gw:
        caller = await gw.connect()
        for _ in range(2):
            answer = await caller.ask(b"HEAD / HTTP/1.1\r\nhost: app.test\r\n\r\n", "HEAD")
            assert (answer.status, answer.body) == (502, b"")
            assert int(answer.value("content-length")) > 0


async def test_a_refusal_with_an_unread_body_closes_after_the_answer_was_read(tmp_path: Path) -> None:
    async with running(tmp_path, table(route(UNUSED, maxBodyBytes=10))) as gw:
        caller = await gw.connect()
        await caller.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5000000\r\n\r\n")
        answer = await caller.answer()
        assert (answer.status, answer.value("connection")) == (413, "close")
        for _ in range(20):
            await caller.send(b"x" * 100_000)
        caller.writer.write_eof()
        assert await caller.rest() == b""


async def test_a_bug_is_answered_and_told_without_its_message(tmp_path: Path) -> None:
    """The text of an unforeseen exception may quote a credential."""
    async with running(tmp_path, table(route(UNUSED))) as gw:

        async def broken(_: object) -> None:
            raise ValueError("Bearer s3cret-token")

        gw.gateway._dispatcher._forward = broken  # type: ignore[assignment]
        answer = await gw.get("/")
        assert (answer.status, answer.json["error"]) == (500, "internal_error")
        assert "s3cret" not in str(gw.lines)
        assert any(line["msg"] == "unexpected failure" and line["frames"] for line in gw.lines)
        assert (await gw.get("/healthz")).status == 200
