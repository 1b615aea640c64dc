"""Logs and metrics under attack: one event is one line, no secret stands in it, and no caller makes a series.

The lines are looked at as the bytes that are written, not as what a JSON reader makes of them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from common.settings.secret import Secret
from common.telemetry.log import Log
from tests.support.gateway import Running, route, running, table
from tests.support.upstreams import Peer, Upstream, answers_and_closes, answers_with, ok, upstream
from tests.support.wire import Recorded, everything, responses, samples

MARK = "s3cr3t-Mark"
ENCODED = base64.b64encode(f"user:{MARK}".encode()).decode()
HEX = "".join(f"%{byte:02x}" for byte in MARK.encode())
LINE_MAX = 12_000
"""Bytes of one line, whatever was sent: some values of 2 KiB, each escaped at worst."""


@dataclass
class World:
    gw: Running
    app: Recorded
    down: Upstream
    written: list[bytes]

    def told(self) -> str:
        """Everything that log and metrics say."""
        return b"".join(self.written).decode() + self.gw.gateway.metrics.render().decode()

    def check(self) -> None:
        """Each write is one line, one object, of visible characters alone."""
        for line in self.written:
            assert line.endswith(b"\n")
            assert line.count(b"\n") == 1
            assert len(line) < LINE_MAX
            assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", line), line
            text = line.decode("utf-8")
            assert not re.search("[\x80-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", text), line
            value = json.loads(text)
            assert list(value)[:3] == ["time", "level", "msg"]
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", json.dumps(value, ensure_ascii=False))


@asynccontextmanager
async def world(tmp_path: Path, **settings: Any) -> AsyncIterator[World]:
    app = Recorded()
    async with upstream(app.script) as public, upstream(answers_and_closes(b"garbage\r\n\r\n")) as down:
        document = table(
            route(public.url),
            route(public.url, "/session", auth={"mode": "session"}),
            route(public.url, "/token", auth={"mode": "jwt-only"}),
            route(public.url, "/any", auth={"mode": "any"}),
            route(down.url, "/down"),
            route(public.url, "/w/{id}/", auth={"mode": "session", "workspace": {"param": "id", "requireUuid": False}}),
        )
        chosen = {
            "oidc_issuer": "http://127.0.0.1:9",
            "oidc_client_id": "client",
            "metrics_token": Secret("m" * 40),
            "rate_limit_login_max": 0,
            **settings,
        }
        async with running(tmp_path, document, **chosen) as gw:
            written: list[bytes] = []
            tap(gw, written)
            yield World(gw, app, down, written)


def tap(gw: Running, written: list[bytes]) -> None:
    """Note every line as it is written, behind what the test's own log does with it."""
    log: Log = gw.gateway.log
    write = log._write

    def both(line: bytes) -> None:
        written.append(line)
        write(line)

    log._write = both
    recorder = gw.gateway._dispatcher._recorder
    recorder._line = log.requests().line


PATHS = ("/", "/session", "/token", "/any", "/down", "/nothing", "/auth/session", "/auth/callback", "/w/a/b")

AUTHORIZATIONS = (
    (f"authorization: Basic {ENCODED}",),
    (f"authorization: bAsIc {ENCODED}",),
    (f"authorization: Bearer {MARK}",),
    (f"authorization: bearer {MARK}",),
    (f"AUTHORIZATION: BEARER\t{MARK}",),
    (f"authorization: Bearer  {MARK}  ",),
    (f"authorization: Bearer a, Bearer {MARK}",),
    ("authorization: Bearer a", f"authorization: Bearer {MARK}"),
    (f"authorization: {MARK}",),
    (f"authorization: Token token={MARK}",),
    (f'authorization: Digest username="u", response="{MARK}"',),
    (f"authorization: Bearer eyJhbGciOiJub25lIn0.{base64.b64encode(MARK.encode()).decode().rstrip('=')}.",),
    (f"proxy-authorization: Basic {ENCODED}",),
    (f"x-api-key: {MARK}",),
)
COOKIES = (
    f"cookie: gateway_session={MARK}",
    f"cookie: gateway_session={MARK}; gateway_session=b",
    f"cookie: app={MARK}",
    f"cookie: gateway_oidc_state={MARK}.x",
    f"cookie: {MARK}",
)
QUERIES = (
    f"?access_token={MARK}", f"?code={MARK}&state={MARK}", f"?a=b&ACCESS_TOKEN={MARK}", f"?token={HEX}",
    f"?%74oken={MARK}", f"?id_token={MARK}", f"?client_secret={MARK}", f"?password={MARK}", f"?api_key={MARK}",
    f"?x;token={MARK}", f"?a=b?token={MARK}", f"?redirect=%2Fx%3Ftoken%3D{MARK}", f"?next=http://u:{MARK}@h/",
    f"?token[]={MARK}", f"?jwt={MARK}", f"?session={MARK}", f"?sig={MARK}", f"?{'a=b&' * 200}token={MARK}",
    f"?t%25256fken={MARK}", f"?X-Amz-Signature={MARK}", f"?refresh_token={MARK}",
)  # fmt: skip
IN_PATHS = (
    f"/x/token={MARK}", f"/x;token={MARK}", f"/reset;code={MARK}/y", f"/http://user:{MARK}@host/",
    f"//user:{MARK}@host/", f"/x/access_token={HEX}", f"/oauth/eyJhbGciOiJIUzI1NiJ9.{MARK}.abc",
)  # fmt: skip


async def test_no_secret_of_a_request_is_in_any_log_line_or_metric(tmp_path: Path) -> None:
    """B71: in whatever header, cookie, query, path or user info, on every kind of route, answered or refused."""
    async with world(tmp_path) as here:
        for path in PATHS:
            for lines in AUTHORIZATIONS:
                await here.gw.get(path, *lines)
            for line in (*COOKIES, f"referer: http://u:{MARK}@h/?token={MARK}", f"origin: http://u:{MARK}@evil.test"):
                await here.gw.get(path, line)
                await here.gw.get(path, line, "cookie: gateway_session=x", "sec-fetch-site: cross-site", method="POST")
            for query in QUERIES:
                await here.gw.get(path + query)
        for path in IN_PATHS:
            await here.gw.get(path)
        for target in (f"http://user:{MARK}@app.test/", f"http://app.test/?token={MARK}", f"*?token={MARK}"):
            await here.gw.get(target)
        await here.gw.get("/", host=f"user:{MARK}@app.test")
        await here.gw.raw(f"GET / HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {MARK}\r\n folded\r\n\r\n".encode())
        await here.gw.raw(f"GET / HTTP/1.1\r\nhost: a\r\nauthorization : Bearer {MARK}\r\n\r\n".encode())
        await here.gw.raw(f"GET / HTTP/1.1\r\nhost: a\r\nauthorization Bearer {MARK}\r\n\r\n".encode())
        await here.gw.raw(f"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {MARK}\r\n\r\n".encode())
        await here.gw.raw(f"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: {MARK}\r\n\r\n".encode())
        await here.gw.raw(f"GET / HTTP/1.1\r\nhost: a\r\nexpect: {MARK}\r\n\r\n".encode())
        await here.gw.raw(f"GET /?token={MARK} HTTP/{MARK}\r\nhost: a\r\n\r\n".encode())
        told = here.told()
        for secret in (MARK, HEX, ENCODED, base64.b64encode(MARK.encode()).decode().rstrip("=")):
            assert secret not in told, [line for line in here.written if secret.encode() in line][:1]
        assert len(here.gw.requests()) > 300
        here.check()


UPSTREAM_TEXTS = (
    f"HTTP/1.1 200 OK\r\nauthorization Bearer {MARK}\r\n\r\n",
    f"HTTP/1.1 200 OK\r\nx: y\r\n set-cookie: s={MARK}\r\n\r\n",
    f"HTTP/1.1 {MARK} OK\r\n\r\n",
    f"{MARK} 200 OK\r\n\r\n",
    f"HTTP/1.1 200 OK\r\ncontent-length: {MARK}\r\n\r\n",
    f"HTTP/1.1 200 OK\r\ntransfer-encoding: {MARK}\r\n\r\n",
    f"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{MARK}\r\n",
    f"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n{MARK}\r\n\r\n",
    f"HTTP/1.1 500 {MARK}\r\nx-error: Bearer {MARK}\r\ncontent-length: 40\r\n\r\npassword={MARK}",
    f"HTTP/1.1 302 Found\r\nlocation: http://u:{MARK}@h/\r\nset-cookie: a={MARK}\r\ncontent-length: 0\r\n\r\n",
    f"password={MARK}",
)


@pytest.mark.parametrize("text", UPSTREAM_TEXTS)
async def test_no_text_of_an_upstream_is_in_any_log_line_or_metric(tmp_path: Path, text: str) -> None:
    async with (
        upstream(answers_and_closes(text.encode())) as app,
        running(tmp_path, table(route(app.url))) as gw,
    ):
        written: list[bytes] = []
        tap(gw, written)
        await everything(gw, b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        await gw.request_line()
        assert written
        assert MARK not in str(written) + str(gw.lines) + gw.gateway.metrics.render().decode()


async def test_credentials_of_a_version_1_upstream_are_in_no_line_metric_or_answer(tmp_path: Path) -> None:
    async with upstream(answers_with(ok())) as app:
        given = app.url.replace("://", f"://user:{MARK}@")
        down = f"http://user:{MARK}@127.0.0.1:9"
        document = table(route(given), route(down, "/down")) | {"version": 1}
        async with running(tmp_path, document) as gw:
            assert (await gw.get("/")).status == 200
            assert app.requests[0].values(b"authorization") == [b"Basic " + ENCODED.encode()]
            answer = await gw.get("/down")
            assert answer.status == 502
            ready = await gw.get("/readyz")
            told = str(gw.lines) + gw.gateway.metrics.render().decode() + str(answer) + str(ready)
            assert MARK not in told
            assert ENCODED not in told


STEERING = (
    "%0d%0a", "%0a", "%1b[31m", "%1b]0;owned%07", "%00", "%7f", "%c2%85", "%e2%80%a8", "%e2%80%ae", "\\n", '"', "\\",
    '","level":"error","x":"',    "<script>alert(1)</script>", "%22%7d%0a%7b%22msg%22:%22request%22", "{}", "%s%n", "${jndi:ldap://x}",
)  # fmt: skip
FORGED = '{"time":"2026-01-01T00:00:00.000Z","level":"info","msg":"request","path":"/forged"}'


async def test_one_event_stays_one_line_whatever_a_caller_sends(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        cookie = await here.gw.session()
        for steering in STEERING:
            text = steering.replace(" ", "")
            for target in (f"/x{text}", f"/?x={text}", f"/w/a{text}/b", f"/nothing{text}", f"/down/{text}"):
                await here.gw.get(target, cookie)
            for name in ("user-agent", "referer", "origin", "x-request-id", "traceparent", "accept", "x-forwarded-for"):
                await here.gw.get("/", f"{name}: {steering}{FORGED}")
            await here.gw.get("/", cookie, f"origin: {steering}{FORGED}", method="POST")
        for raw in (
            b"GET /\x1b[31m HTTP/1.1\r\nhost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost: a\r\nuser-agent: x\r" + FORGED.encode() + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost: a\r\nuser-agent: x\n" + FORGED.encode() + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost: a\r\nuser-agent: \x1b]0;owned\x07\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost: a\r\nuser-agent: \xe2\x80\xae\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost: \x1b[31m\r\n\r\n",
            b"G\x1bT / HTTP/1.1\r\nhost: a\r\n\r\n",
            FORGED.encode() + b"\r\n\r\n",
        ):
            (answer,) = responses(await everything(here.gw, raw))
            assert answer.status in (400, 505)
        here.check()
        assert not any(json.loads(line).get("path") == "/forged" for line in here.written)


async def test_a_subject_or_workspace_with_control_characters_steers_no_line(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        for subject in ("a\nb", "a\x1b[31m", "\u202eevil", "a\u2028b", "a" * 600):
            await here.gw.get("/session", await here.gw.session(subject))
        here.check()
        assert [line["status"] for line in here.gw.requests()] == [500, 500, 200, 200, 500]


async def test_lengths_are_cut(tmp_path: Path) -> None:
    """Values of a megabyte are refused; the longest that are not make a short line."""
    async with world(tmp_path, max_head_bytes=2_097_152) as here:
        for lines in (
            [f"user-agent: {'a' * 1_000_000}"], [f"referer: {'a' * 1_000_000}"], [f"origin: http://{'a' * 1_000_000}"],
            [f"x-request-id: {'a' * 1_000_000}"], [f"cookie: gateway_session={'a' * 1_000_000}"],
            [f"authorization: Bearer {'a' * 1_000_000}"], [f"traceparent: {'a' * 1_000_000}"],
            [f"accept: {'text/html,' * 100_000}"], [f"x-forwarded-for: {'1.1.1.1,' * 100_000}"],
        ):  # fmt: skip
            for path in ("/", "/session", "/token"):
                await here.gw.get(path, *lines, method="POST")
        await here.gw.get("/" + "a" * 8_000 + "?" + "b" * 100)
        await here.gw.get("/" + "%1b" * 2_600)
        await here.gw.get("/?" + "%22" * 2_600)
        answer = await here.gw.get("/" + "a" * 1_000_000)
        assert answer.json["error"] == "uri_too_long"
        answer = await here.gw.raw(b"A" * 1_000_000 + b" / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert answer.status in (400, 414)
        here.check()
        assert len(here.written) >= 32
        assert all(len(line["path"]) <= 2_100 for line in here.gw.requests())


async def test_a_flood_of_names_makes_no_series(tmp_path: Path) -> None:
    """B68: paths, hosts, methods, subjects, workspaces and statuses; `/metrics` stays as long as it was."""

    async def any_status(peer: Peer) -> None:
        while True:
            request = await peer.read_request()
            status = request.line.rpartition("/s")[2].split(" ")[0]
            await peer.write(f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n".encode())

    async with upstream(any_status) as app:
        document = table(
            {"id": "a", **route(app.url)},
            {"id": "b", **route(app.url, "/session", auth={"mode": "session"})},
        )
        document["routes"][0]["match"]["host"] = "app.test"
        async with running(tmp_path, document, rate_limit_route_max=0) as gw:
            caller = await gw.connect()

            async def ask(method: str, target: str, host: str, *lines: str) -> int:
                head = "\r\n".join((f"{method} {target} HTTP/1.1", f"host: {host}", *lines, "", ""))
                return (await caller.ask(head.encode(), method)).status

            async def flood(start: int) -> None:
                for number in range(start, start + 150):
                    assert await ask(f"FOO{number}", f"/{number}/s200", "app.test") == 200
                    assert await ask("GET", f"/{number}/s{300 + number}", "app.test") == 300 + number
                    assert await ask("GET", f"/{number}", f"h{number}.test") == 404
                    cookie = await gw.session(f"subject-{number}")
                    assert await ask("GET", f"/session/{number}/s999", "x.test", cookie) == 999
                    assert await ask("GET", f"/session/{number}", "x.test") == 401
                    assert await ask("GET", f"/{number}/%zz", "app.test", f"x-{number}: y") == 400

            await flood(0)
            first = gw.gateway.metrics.render()
            await flood(150)
            second = gw.gateway.metrics.render()
            assert first.count(b"\n") + 100 > second.count(b"\n"), "the second flood adds registered statuses alone"
            await flood(150)
            assert gw.gateway.metrics.render().count(b"\n") == second.count(b"\n")
            labels = [sample for sample, _ in samples(gw, "gateway_requests_total")]
            assert {sample["route"] for sample in labels} == {"a", "b", "unmatched"}
            assert {sample["method"] for sample in labels} == {"GET", "other"}
            assert "other" in {sample["status"] for sample in labels}
            for word in (b"FOO", b"subject-", b"h12.test", b'"999"'):
                assert word not in second


async def test_an_upstreams_status_of_any_number_is_told_as_it_is_and_counted_as_other(tmp_path: Path) -> None:
    for status in (200, 299, 599, 600, 999):
        folder = tmp_path / str(status)
        folder.mkdir()
        response = f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n".encode()
        async with upstream(answers_with(response)) as app, running(folder, table(route(app.url))) as gw:
            assert (await gw.get()).status == status
            assert (await gw.request_line())["status"] == status
            label = "200" if status == 200 else "other"
            assert gw.metric("gateway_requests_total", route="r0", method="GET", status=label) == 1
