"""An Access service that is broken or hostile: only a well-formed allow lets anybody in, and never anybody else.

Every request here comes with a good session, so that the decision alone stands between the caller and the upstream.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from common.settings.secret import Secret
from tests.support.clock import ManualClock, pass_time
from tests.support.gateway import Answer, Running, route, running, table
from tests.support.upstreams import Peer, Upstream, upstream
from tests.support.wire import Recorded

WORKSPACE = "11111111-1111-4111-8111-111111111111"
TOKEN = "token-of-access-that-nobody-sees-0123456789"
ALLOW = b'{"allow":true}'
DENY = b'{"allow":false}'


def answer_of(body: bytes, first: bytes = b"200 OK", *lines: bytes) -> bytes:
    head = b"\r\n".join((b"HTTP/1.1 " + first, b"content-type: application/json", *lines))
    return head + b"\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body + end


NO_DECISIONS: dict[str, bytes] = {
    # What it means is no allow, whatever a generous reader makes of it (B43).
    "an empty body": answer_of(b""),
    "no body": b"HTTP/1.1 204 No Content\r\n\r\n",
    "allow in 204": b"HTTP/1.1 204 No Content\r\ncontent-length: 14\r\n\r\n" + ALLOW,
    "allow in 304": b"HTTP/1.1 304 Not Modified\r\ncontent-length: 14\r\n\r\n" + ALLOW,
    "text": answer_of(b'{"allow":"true"}'),
    "text false": answer_of(b'{"allow":"false"}'),
    "a number": answer_of(b'{"allow":1}'),
    "zero": answer_of(b'{"allow":0}'),
    "null": answer_of(b'{"allow":null}'),
    "a list": answer_of(b'{"allow":[true]}'),
    "an object": answer_of(b'{"allow":{"value":true}}'),
    "a bare true": answer_of(b"true"),
    "a list of decisions": answer_of(b'[{"allow":true}]'),
    "another name": answer_of(b'{"Allow":true,"ALLOW":true,"allowed":true}'),
    "nested": answer_of(b'{"result":{"allow":true}}'),
    "twice, allow last": answer_of(b'{"allow":false,"allow":true}'),
    "twice, allow first": answer_of(b'{"allow":true,"allow":false}'),
    "twice by an escape": answer_of(b'{"allow":true,"\\u0061llow":false}'),
    "another name twice": answer_of(b'{"x":1,"allow":true,"x":2}'),
    "Python": answer_of(b"{'allow':True}"),
    "a comment": answer_of(b'{"allow":true /* sure */}'),
    "a trailing comma": answer_of(b'{"allow":true,}'),
    "more behind it": answer_of(b'{"allow":true}x'),
    "two documents": answer_of(b'{"allow":true}{"allow":false}'),
    "a byte order mark": answer_of(b"\xef\xbb\xbf" + ALLOW),
    "UTF-16": answer_of('{"allow":true}'.encode("utf-16")),
    "bytes that are no UTF-8": answer_of(b'{"allow":true,"reason":"\xff"}'),
    "NaN": answer_of(b'{"allow":true,"x":NaN}'),
    "deep nesting": answer_of(b'{"allow":true,"x":' + b"[" * 30_000 + b"]" * 30_000 + b"}"),
    "a number of many digits": answer_of(b'{"allow":true,"x":' + b"1" * 6_000 + b"}"),
    "over 64 KiB": answer_of(b'{"allow":true,"x":"' + b"a" * 65_536 + b'"}'),
    "over 64 KiB in chunks": chunked(b'{"allow":true,"x":"', b"a" * 65_536, b'"}'),
    "gzip": answer_of(gzip.compress(ALLOW), b"200 OK", b"content-encoding: gzip"),
    "a page": answer_of(b"<html>true</html>"),
    "cut short": b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n" + ALLOW,
    "chunks cut short": chunked(ALLOW, end=b""),
    "broken chunks": chunked(ALLOW, end=b"0\n\n"),
    "201": answer_of(ALLOW, b"201 Created"),
    "202": answer_of(ALLOW, b"202 Accepted"),
    "206": answer_of(ALLOW, b"206 Partial Content"),
    "400": answer_of(ALLOW, b"400 Bad Request"),
    "401": answer_of(ALLOW, b"401 Unauthorized"),
    "403": answer_of(DENY, b"403 Forbidden"),
    "404": answer_of(ALLOW, b"404 Not Found"),
    "429": answer_of(ALLOW, b"429 Too Many Requests"),
    "500": answer_of(ALLOW, b"500 No"),
    "503": answer_of(ALLOW, b"503 No"),
    "999": answer_of(ALLOW, b"999 Yes"),
    "an upgrade": b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n" + ALLOW,
    "interim alone": b"HTTP/1.1 100 Continue\r\n\r\n",
    "endless interim": b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
    "HTTP/2": b"HTTP/2.0 200 OK\r\ncontent-length: 14\r\n\r\n" + ALLOW,
    "no HTTP": ALLOW,
    "length and coding": b"HTTP/1.1 200 OK\r\ncontent-length: 14\r\ntransfer-encoding: chunked\r\n\r\n" + ALLOW,
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 14\r\ncontent-length: 15\r\n\r\n" + ALLOW,
    "a bare LF": b"HTTP/1.1 200 OK\ncontent-length: 14\n\n" + ALLOW,
    "an endless head": b"HTTP/1.1 200 OK\r\nx: " + b"a" * 70_000,
    "nothing": b"",
}
DECISIONS: dict[str, tuple[bytes, int]] = {
    "allow": (answer_of(ALLOW), 200),
    "allow in chunks": (chunked(b'{"al', b'low":tr', b"ue}"), 200),
    "allow until close": (b"HTTP/1.0 200 OK\r\n\r\n" + ALLOW, 200),
    "allow behind interim responses": (b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer_of(ALLOW), 200),
    "allow with white space": (answer_of(b' \r\n{"allow" : true }\t'), 200),
    "allow and more fields": (answer_of(b'{"reason":"x","allow":true,"extra":{"allow":false}}'), 200),
    "allow by an escape": (answer_of(b'{"\\u0061llow":true}'), 200),
    "deny": (answer_of(DENY), 403),
    "deny with more behind it": (answer_of(DENY) + answer_of(ALLOW), 403),
    "deny that says allow": (answer_of(b'{"allow":false,"reason":"{\\"allow\\":true}","result":true}'), 403),
}


@dataclass
class Access:
    """Answers each question with what `reply` makes of it. None: nothing, until the gateway leaves."""

    reply: Callable[[dict[str, Any]], bytes | None]
    questions: list[dict[str, Any]] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)

    async def script(self, peer: Peer) -> None:
        while True:
            request = await peer.read_request()
            self.heads.append(request.head)
            question = json.loads(request.body)
            self.questions.append(question)
            answer = self.reply(question)
            if answer is None:
                await peer.closed_by_gateway()
                return
            await peer.write(answer)
            if b"content-length: %d\r\n\r\n" % len(ALLOW) not in answer and not answer.endswith(b"0\r\n\r\n"):
                return


@dataclass
class World:
    gw: Running
    access: Access
    app: Recorded
    service: Upstream

    async def ask(self, cookie: str, path: str = f"/w/{WORKSPACE}/x", *lines: str) -> Answer:
        return await self.gw.get(path, cookie, *lines)


@asynccontextmanager
async def world(tmp_path: Path, access: Access, **settings: Any) -> AsyncIterator[World]:
    app = Recorded()
    async with upstream(app.script) as public, upstream(access.script) as service:
        guarded = {"mode": "session", "workspace": {"param": "id"}}
        document = table(
            {"id": "uncached", **route(public.url, "/w/{id}/", auth=guarded, accessCacheTtlMs=0)},
            {"id": "cached", **route(public.url, "/c/{id}/", auth=guarded, accessCacheTtlMs=60_000)},
            {"id": "other", **route(public.url, "/o/{id}/", auth=guarded, accessCacheTtlMs=60_000)},
            {"id": "plain", **route(public.url, "/p", auth={"mode": "session"}, accessCheck=True)},
        )
        chosen = {
            "access_url": service.url,
            "access_token": Secret(TOKEN),
            "access_breaker_failures": 0,
            "access_timeout_s": 10.0,
            **settings,
        }
        async with running(tmp_path, document, **chosen) as gw:
            yield World(gw, access, app, service)


async def test_only_a_well_formed_allow_lets_a_caller_in(tmp_path: Path) -> None:
    said: list[bytes] = []
    access = Access(lambda _: said[-1])
    async with world(tmp_path, access) as here:
        cookie = await here.gw.session()
        for name, reply in NO_DECISIONS.items():
            said.append(reply)
            answer = await here.ask(cookie)
            assert (answer.status, answer.json["error"]) == (503, "access_unavailable"), name
            assert int(answer.value("retry-after")) > 0
            line = here.gw.requests()[-1]
            assert (line["outcome"], line["error"]) == ("failed", "access_unavailable")
            assert line["detail"], "the operator learns why"
            assert answer.values("set-cookie") == [], "an outage ends no session"
        assert here.app.begun == []
        for name, (reply, status) in DECISIONS.items():
            said.append(reply)
            here.app.clear()
            answer = await here.ask(cookie)
            assert answer.status == status, name
            assert len(here.app.whole) == (status == 200)
        assert TOKEN not in str(here.gw.lines) + here.app.raw.decode() + here.gw.gateway.metrics.render().decode()


async def test_a_silent_or_trickling_service_is_given_up_within_its_budget(tmp_path: Path) -> None:
    async def trickles(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n")
        for byte in ALLOW:
            await peer.write(bytes([byte]))
            await asyncio.sleep(0.1)

    for number, script in enumerate((Access(lambda _: None).script, trickles)):
        folder = tmp_path / str(number)
        folder.mkdir()
        access = Access(lambda _: None)
        access.script = script  # type: ignore[method-assign]
        async with world(folder, access, access_timeout_s=0.3) as here:
            answer = await here.ask(await here.gw.session())
            assert (answer.status, answer.json["error"]) == (503, "access_unavailable")
            assert here.app.begun == []
            await asyncio.wait_for(here.service.gone.wait(), 10)
            assert here.gw.requests()[-1]["durationMs"] < 3_000


async def test_a_redirect_is_not_followed_and_the_token_goes_nowhere_else(tmp_path: Path) -> None:
    """B43: the service's answer must not choose who is asked."""
    thief = Recorded()
    async with upstream(thief.script) as elsewhere:
        for number, status in enumerate((301, 302, 303, 307, 308)):
            folder = tmp_path / str(number)
            folder.mkdir()
            location = b"location: " + elsewhere.url.encode() + b"/v1/decisions"
            access = Access(lambda _, first=b"%d Go" % status, line=location: answer_of(ALLOW, first, line))
            async with world(folder, access) as here:
                assert (await here.ask(await here.gw.session())).status == 503
                assert here.app.begun == []
        assert elsewhere.connections == 0


async def test_answers_never_cross_whoever_asks_at_once(tmp_path: Path) -> None:
    """A pool of connections that each carry one question after the other, and a service that allows every second."""
    access = Access(lambda q: answer_of(ALLOW if int(q["subject"].split("-")[1]) % 2 else DENY + b" "))
    async with world(tmp_path, access, access_timeout_s=10.0) as here:

        async def one(number: int) -> None:
            cookie = await here.gw.session(f"user-{number}")
            for _ in range(4):
                answer = await here.ask(cookie)
                causes = {line["detail"] for line in here.gw.requests() if line["error"] == "access_unavailable"}
                assert answer.status == (200 if number % 2 else 403), causes

        await asyncio.gather(*(one(number) for number in range(40)))
        subjects = {value for request in here.app.whole for value in request.values(b"x-gateway-user-id")}
        assert subjects == {f"user-{number}".encode() for number in range(1, 40, 2)}


@pytest.mark.parametrize("wait_s", [0.0, 0.02])
async def test_an_answer_that_nobody_asked_for_decides_nothing(tmp_path: Path, wait_s: float) -> None:
    """The service denies, and says `allow` right behind it, for whoever asks next."""
    access = Access(lambda _: None)

    async def poisons(peer: Peer) -> None:
        while True:
            request = await peer.read_request()
            access.questions.append(json.loads(request.body))
            await peer.write(answer_of(DENY))
            await asyncio.sleep(wait_s)
            await peer.write(answer_of(ALLOW))

    access.script = poisons  # type: ignore[method-assign]
    async with world(tmp_path, access) as here:
        for number in range(8):
            assert (await here.ask(await here.gw.session(f"user-{number}"))).status == 403
            await asyncio.sleep(wait_s * 2)
        assert here.app.begun == []
        assert [question["subject"] for question in access.questions] == [f"user-{number}" for number in range(8)]


async def test_an_allow_that_comes_too_late_decides_nothing(tmp_path: Path) -> None:
    access, clock = Access(lambda _: None), ManualClock()
    first, may_answer = True, asyncio.Event()

    async def late(peer: Peer) -> None:
        nonlocal first
        while True:
            await peer.read_request()
            if first:
                first = False
                await may_answer.wait()
                await peer.write(answer_of(ALLOW))
            await peer.write(answer_of(DENY))

    access.script = late  # type: ignore[method-assign]
    async with world(tmp_path, access, access_timeout_s=3.0, clock=clock) as here:
        cookie = await here.gw.session()
        asking = asyncio.create_task(here.ask(cookie, f"/c/{WORKSPACE}/x"))
        await asyncio.wait_for(here.service.arrived.wait(), 10)
        pass_time(here.gw, clock, 3.2)
        assert (await asking).status == 503
        may_answer.set()
        await asyncio.wait_for(here.service.gone.wait(), 10)
        for _ in range(2):
            assert (await here.ask(cookie, f"/c/{WORKSPACE}/x")).status == 403
        assert here.app.begun == []


async def test_a_kept_decision_answers_no_other_question(tmp_path: Path) -> None:
    """B44: another workspace, route, subject or role, and a new login after a change of roles."""
    access = Access(lambda q: answer_of(ALLOW if q == allowed else DENY))
    other = str(uuid.uuid4())
    allowed = {"subject": "user-1", "workspaceId": WORKSPACE, "routeId": "cached", "roles": ["dev"]}
    async with world(tmp_path, access) as here:
        cookie = await here.gw.session("user-1", roles=("dev",))
        path = f"/c/{WORKSPACE}/x"
        for _ in range(2):
            assert (await here.ask(cookie, path)).status == 200
        assert len(access.questions) == 1, "kept"
        for who, where in (
            (cookie, f"/c/{other}/x"),
            (cookie, f"/o/{WORKSPACE}/x"),
            (cookie, f"/c/{WORKSPACE.replace('1', '2')}/x"),
            (cookie, "/p"),
            (await here.gw.session("user-2", roles=("dev",)), path),
            (await here.gw.session("user-1"), path),
            (await here.gw.session("user-1", roles=("dev", "ops")), path),
            (await here.gw.session("user-1 ", roles=("dev",)), path),
            (await here.gw.session('user-1","workspaceId":"x', roles=("dev",)), path),
            (await here.gw.session("user-1", roles=("dev,", "")), path),
        ):
            here.app.clear()
            assert (await here.ask(who, where)).status in (403, 500)
            assert here.app.begun == []
        assert len(access.questions) >= 10
        assert (await here.ask(cookie, path)).status == 200


async def test_a_denials_reason_reaches_neither_caller_nor_upstream_nor_metric(tmp_path: Path) -> None:
    reason = 'because s3cret "quoted" <b>\\u000a{"level":"error"}'
    body = b'{"allow":false,"reason":"' + reason.replace('"', '\\"').encode() + b'","reasonCode":"E-s3cret"}'
    async with world(tmp_path, Access(lambda _: answer_of(body))) as here:
        cookie = await here.gw.session()
        for accept in ("accept: application/json", "accept: text/html"):
            answer = await here.ask(cookie, f"/w/{WORKSPACE}/x", accept)
            assert answer.status == 403
            assert b"s3cret" not in answer.raw_head + answer.body
        assert "s3cret" not in here.gw.gateway.metrics.render().decode() + str(here.gw.lines)
        assert here.gw.metric("gateway_auth_failures_total", route="uncached", reason="access_denied") == 2


async def test_the_breaker_lets_nobody_in_and_one_good_answer_closes_it(tmp_path: Path) -> None:
    """R22, R23: denials and callers that leave are no failures; it opens, refuses at once, and heals by one probe."""
    said = [answer_of(DENY)]
    access = Access(lambda _: said[-1])
    clock = ManualClock()
    async with world(tmp_path, access, access_breaker_failures=3, access_breaker_cooldown_s=5.0, clock=clock) as here:
        cookie = await here.gw.session()
        for _ in range(5):
            assert (await here.ask(cookie)).status == 403
        assert here.gw.metric("gateway_access_breaker_open") == 0
        said.append(answer_of(b"", b"500 No"))
        for _ in range(3):
            assert (await here.ask(cookie)).status == 503
        assert here.gw.metric("gateway_access_breaker_open") == 1
        asked = len(access.questions)
        assert (await here.ask(cookie)).status == 503
        assert len(access.questions) == asked, "not asked while it is open"
        said.append(answer_of(ALLOW))
        assert (await here.ask(cookie)).status == 503
        assert here.app.begun == []
        pass_time(here.gw, clock, 5.1)
        assert (await here.ask(cookie)).status == 200
        assert here.gw.metric("gateway_access_breaker_open") == 0


async def test_a_caller_cannot_write_the_question(tmp_path: Path) -> None:
    """Whatever stands in path, query or headers, the four fields are the gateway's own."""
    access = Access(lambda _: answer_of(ALLOW))
    async with world(tmp_path, access) as here:
        cookie = await here.gw.session("user-1", roles=("a",))
        spoofed = ("x-gateway-user-id: admin", "x-gateway-roles: admin", "x-gateway-workspace-id: other")
        answer = await here.ask(cookie, f"/w/{WORKSPACE}/x?subject=admin&workspaceId=other", *spoofed)
        assert answer.status == 200
        assert access.questions == [
            {"subject": "user-1", "workspaceId": WORKSPACE, "routeId": "uncached", "roles": ["a"]}
        ]
        (head,) = access.heads
        assert head.startswith(b"POST /v1/decisions HTTP/1.1\r\n")
        assert b"cookie" not in head.lower()
        assert b"admin" not in head
        assert head.count(f"Bearer {TOKEN}".encode()) == 1
