"""A gateway whose certificate comes from a real authority, as its callers see it (§11.5)."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from common.state.ports import StateUnavailable
from dataplane.tls.acme.keeper import renewal_asked
from dataplane.tls.acme.vault import LEASE
from tests.support.gateway import DEADLINE_S, Running, route, running, table
from tests.support.pebble import Pebble, start_pebble
from tests.support.ports import free_port
from tests.support.processes import Children
from tests.support.upstreams import answers, upstream

pytestmark = pytest.mark.real

NAME = "app.test"


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def pebble(children: Children, tmp_path: Path, port: int) -> Pebble:
    return start_pebble(children, tmp_path / "pebble", port, certificateValidityPeriod=90 * 86_400)


@asynccontextmanager
async def gateway(tmp_path: Path, pebble: Pebble, port: int, up: str, **settings: Any) -> AsyncIterator[Running]:
    """A gateway over one route, with an authority."""
    chosen = {
        "port": port, "tls_port": 0, "acme_directory": pebble.directory, "acme_names": (NAME,), "acme_ca": pebble.ca,
        **settings,
    }  # fmt: skip
    async with running(tmp_path, table(route(up), hosts=[NAME]), **chosen) as gw:
        yield gw


async def until(check: Callable[[], Any], within_s: float = 2 * DEADLINE_S) -> Any:
    async with asyncio.timeout(within_s):
        while not (value := check()):
            await asyncio.sleep(0.01)
    return value


def served(gw: Running) -> tuple[Any, ...]:
    assert gw.gateway.termination is not None
    return tuple(gw.gateway.termination.store.certificates)


async def trusting(pebble: Pebble) -> ssl.SSLContext:
    """A caller that knows the authority's root alone."""
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=await pebble.root())
    return context


async def test_a_gateway_obtains_its_certificate_and_serves_it_to_callers(
    tmp_path: Path, pebble: Pebble, port: int
) -> None:
    async with upstream(answers) as up, gateway(tmp_path, pebble, port, up.url) as gw:
        await until(lambda: served(gw))

        caller = await gw.connect_tls(await trusting(pebble), NAME)
        answer = await caller.ask(f"GET / HTTP/1.1\r\nhost: {NAME}\r\n\r\n".encode())

        assert (answer.status, answer.body) == (200, b"ok")
        shown = re.search(
            r'gateway_certificate_expiry_timestamp_seconds\{name="app.test"\} (\S+)',
            gw.gateway.metrics.render().decode(),
        )
        assert shown is not None
        assert float(shown[1]) == served(gw)[0].not_after_s
        ready = (await gw.get("/readyz", host="probe")).json
        assert ready["certificates"]["source"] == "acme"
        assert ready["certificates"]["served"][0]["names"] == [NAME]
        assert ready["certificates"]["lastError"] is None
        plain = await gw.get("/x", host=NAME)
        assert (plain.status, plain.value("location")) == (301, f"https://{NAME}:{gw.gateway.tls_port}/x")


async def test_before_there_is_a_certificate_handshakes_are_refused_and_all_else_is_served(
    tmp_path: Path, pebble: Pebble, port: int
) -> None:
    pebble.child.kill()
    async with upstream(answers) as up, gateway(tmp_path, pebble, port, up.url) as gw:
        line = await until(lambda: [line for line in gw.lines if line["msg"] == "no certificate was obtained"])

        with pytest.raises(ssl.SSLError):
            await gw.connect_tls(ssl.create_default_context(), NAME)
        assert (await gw.get("/", host=NAME)).status == 200
        ready = await gw.get("/readyz")
        assert ready.status == 200
        assert ready.json["certificates"]["lastError"] == line[0]["error"]
        assert ready.json["certificates"]["warning"] == "no certificate is served yet"


async def ask_for_renewal(gw: Running) -> None:
    """What `gateway certificates --renew` does."""
    assert gw.gateway.termination is not None
    vault = gw.gateway.termination._keeper._vault  # type: ignore[union-attr]
    lease = await gw.gateway.state.take_lease(LEASE, "an operator", 10_000)
    assert lease is not None
    await vault.write_progress(renewal_asked(await vault.read()), lease)
    await gw.gateway.state.release_lease(lease)
    await gw.gateway.reload()


async def test_a_connection_that_is_open_across_the_renewal_goes_on(tmp_path: Path, pebble: Pebble, port: int) -> None:
    async with upstream(answers) as up, gateway(tmp_path, pebble, port, up.url) as gw:
        first = await until(lambda: served(gw))
        context = await trusting(pebble)
        kept = await gw.connect_tls(context, NAME)
        request = f"GET / HTTP/1.1\r\nhost: {NAME}\r\n\r\n".encode()
        assert (await kept.ask(request)).status == 200

        await ask_for_renewal(gw)
        await until(lambda: served(gw) != first)

        assert (await kept.ask(request)).status == 200
        fresh = await gw.connect_tls(context, NAME)
        shown = [caller.writer.get_extra_info("ssl_object").getpeercert(True) for caller in (kept, fresh)]
        serials = [x509.load_der_x509_certificate(der).serial_number for der in shown]
        assert serials[0] != serials[1]
        assert (await kept.ask(request)).status == 200


async def test_challenges_are_answered_on_every_name_before_routes_and_over_plain_http_alone(
    tmp_path: Path, pebble: Pebble, port: int
) -> None:
    path = "/.well-known/acme-challenge/token-1"
    async with upstream(answers) as up, gateway(tmp_path, pebble, port, up.url) as gw:
        await until(lambda: served(gw))
        await gw.gateway.state.publish_challenge("token-1", "token-1.thumbprint", 60_000)

        for host in (NAME, "other.test", "10.0.0.1"):
            answer = await gw.get(path, host=host)
            assert (answer.status, answer.body) == (200, b"token-1.thumbprint")
            assert answer.value("content-type") == "application/octet-stream"
            assert answer.value("cache-control") == "no-store"
        assert (await gw.get(path, method="HEAD")).value("content-length") == "18"
        for unknown in (
            "/.well-known/acme-challenge/token-2",
            "/.well-known/acme-challenge/",
            f"{path}/",
            f"{path}%00",
        ):
            refused = await gw.get(unknown, host=NAME)
            assert (refused.status, refused.json["error"]) == (404, "not_found")
        caller = await gw.connect_tls(await trusting(pebble), NAME)
        over_tls = await caller.ask(f"GET {path} HTTP/1.1\r\nhost: {NAME}\r\n\r\n".encode())
        assert over_tls.status == 404
        assert up.requests == []
        assert (await gw.get(path, method="POST", host="other.test")).status == 200, "another method is a route's"


async def test_without_an_authority_the_path_is_the_route_tables(tmp_path: Path) -> None:
    async with upstream(answers) as up, running(tmp_path, table(route(up.url), hosts=[NAME])) as gw:
        await gw.gateway.state.publish_challenge("token-1", "token-1.thumbprint", 60_000)

        assert (await gw.get("/.well-known/acme-challenge/token-1", host="other.test")).body == b"ok"


async def test_a_store_that_is_away_is_503_to_a_challenge(
    tmp_path: Path, pebble: Pebble, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(token: str) -> str | None:
        raise StateUnavailable("away")

    async with upstream(answers) as up, gateway(tmp_path, pebble, port, up.url) as gw:
        await until(lambda: served(gw))
        monkeypatch.setattr(gw.gateway.state, "read_challenge", away)

        answer = await gw.get("/.well-known/acme-challenge/token-1")

        assert (answer.status, answer.json["error"]) == (503, "session_store_unavailable")
        assert answer.values("retry-after")


async def test_a_challenge_is_answered_before_any_route_table_was_loaded(
    tmp_path: Path, pebble: Pebble, port: int
) -> None:
    settings = {"port": port, "tls_port": 0, "acme_directory": pebble.directory, "acme_names": (NAME,),
                "acme_ca": pebble.ca}  # fmt: skip
    async with running(tmp_path, None, **settings) as gw:
        await until(lambda: served(gw))
        assert (await gw.get("/")).status == 503
