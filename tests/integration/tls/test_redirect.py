"""Plain callers of a certificate's name are sent to TLS, and nobody anywhere else (§11.5.3)."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.support.certificates import issue
from tests.support.gateway import Running, route, table
from tests.support.tls import get, secured
from tests.support.upstreams import answers, upstream

NAMES = ("app.test", "*.wild.test", "127.0.0.1", "::1")


async def location(gw: Running, target: str = "/", *headers: str, host: str = "app.test", method: str = "GET") -> str:
    answer = await gw.get(target, *headers, host=host, method=method)
    assert answer.status == 301
    assert answer.value("cache-control") == "no-store"
    return answer.value("location")


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("app.test", "app.test"),
        ("APP.Test", "app.test"),
        ("app.test.", "app.test"),
        ("app.test:80", "app.test"),
        ("app.test:12345", "app.test"),
        ("x.wild.test", "x.wild.test"),
        ("127.0.0.1:8080", "127.0.0.1"),
        ("[::1]:8080", "[::1]"),
        ("[0:0::1]", "[::1]"),
    ],
)
async def test_a_name_of_the_certificate_is_sent_to_itself_over_tls(tmp_path: Path, host: str, name: str) -> None:
    async with secured(tmp_path, table(), issue(*NAMES)) as gw:
        assert await location(gw, host=host) == f"https://{name}:{gw.gateway.tls_port}/"


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/a/b",
        "/a?b=c&d=%20",
        "/?",
        "/?a=?b",
        "/%2F%2e",
        "//evil.test/x",
        "/\\evil.test",
        "/@evil.test",
        "/a%0d%0ab",
    ],
)
async def test_path_and_query_are_kept_byte_for_byte(tmp_path: Path, target: str) -> None:
    async with secured(tmp_path, table()) as gw:
        assert await location(gw, target) == f"https://app.test:{gw.gateway.tls_port}{target}"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "OPTIONS"])
async def test_every_method_is_sent_on(tmp_path: Path, method: str) -> None:
    async with secured(tmp_path, table()) as gw:
        assert (await location(gw, "/x", method=method)).endswith("/x")


@pytest.mark.parametrize(
    ("public_url", "port"),
    [("https://app.test", ""), ("https://app.test:443", ""), ("https://elsewhere.test:9443", ":9443")],
)
async def test_the_port_is_that_of_an_https_public_url(tmp_path: Path, public_url: str, port: str) -> None:
    async with secured(tmp_path, table(), public_url=public_url) as gw:
        assert await location(gw, "/x") == f"https://app.test{port}/x"


@pytest.mark.parametrize(
    "host",
    ["other.test", "wild.test", "a.b.wild.test", "xapp.test", "app.test.evil.test", "app", "127.0.0.2", "localhost"],
)
async def test_other_names_are_answered_as_they_are(tmp_path: Path, host: str) -> None:
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url)), issue(*NAMES)) as gw:
        assert (await gw.get(host=host)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "app.test@evil.test",
        "evil.test#app.test",
        "app.test/evil",
        "app.test, evil.test",
        "evil.test:80:80",
        "app.test:99999",
        "app.test..",
        "app.test\\.evil.test",
        "[::1",
    ],
)
async def test_a_malformed_host_is_refused_before_any_redirect(tmp_path: Path, host: str) -> None:
    async with secured(tmp_path, table(), issue(*NAMES)) as gw:
        answer = await gw.get(host=host)
        assert (answer.status, answer.values("location")) == (400, [])


async def test_two_hosts_or_another_absolute_target_redirect_nowhere(tmp_path: Path) -> None:
    async with secured(tmp_path, table()) as gw:
        for request in (
            b"GET / HTTP/1.1\r\nhost: app.test\r\nhost: evil.test\r\n\r\n",
            b"GET http://evil.test/ HTTP/1.1\r\nhost: app.test\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
        ):
            assert (await gw.raw(request)).status == 400
        absolute = await gw.raw(b"GET http://app.test/x HTTP/1.1\r\nhost: app.test\r\n\r\n")
        assert absolute.value("location") == f"https://app.test:{gw.gateway.tls_port}/x"
        assert (await gw.raw(b"GET / HTTP/1.0\r\n\r\n")).status == 404, "no name, no redirect"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/readyz", 200), ("/metrics", 404)])
async def test_probes_and_scrapers_are_answered_in_clear(tmp_path: Path, path: str, status: int, method: str) -> None:
    async with secured(tmp_path, table()) as gw:
        assert (await gw.get(path, method=method)).status == status


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/.well-known/acme-challenge/token"])
async def test_these_paths_are_redirected_with_no_method(tmp_path: Path, path: str) -> None:
    async with secured(tmp_path, table()) as gw:
        assert (await gw.get(path, method="POST")).status == 404
        assert (await gw.get(f"{path}x")).status == (404 if "challenge" in path else 301)


async def test_options_of_the_whole_server_is_answered_as_it_is(tmp_path: Path) -> None:
    async with secured(tmp_path, table()) as gw:
        assert (await gw.get("*", method="OPTIONS")).status == 404


async def test_what_came_over_tls_is_never_redirected(tmp_path: Path) -> None:
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url))) as gw:
        assert (await get(gw, "/", "x-forwarded-proto: http")).status == 200


@pytest.mark.parametrize(
    ("trusted", "proto", "status"),
    [
        (True, "https", 200),
        (True, "http", 301),
        (True, "https, http", 301),
        (True, None, 301),
        (False, "https", 301),
    ],
)
async def test_only_a_trusted_proxy_that_ended_tls_is_not_redirected(
    tmp_path: Path, trusted: bool, proto: str | None, status: int
) -> None:
    """Else a proxy in front that speaks TLS with the caller would send it in circles."""
    ranges = (ip_network("127.0.0.1/32"),) if trusted else ()
    async with upstream(answers) as up, secured(tmp_path, table(route(up.url)), trusted_proxies=ranges) as gw:
        headers = () if proto is None else (f"x-forwarded-proto: {proto}",)
        assert (await gw.get("/", *headers)).status == status


async def test_the_name_is_the_one_that_a_trusted_proxy_passes_on(tmp_path: Path) -> None:
    async with secured(tmp_path, table(), trusted_proxies=(ip_network("127.0.0.1/32"),)) as gw:
        sent_to = await location(gw, "/x", "x-forwarded-host: app.test", host="inner.test")
        assert sent_to == f"https://app.test:{gw.gateway.tls_port}/x"
        assert (await gw.get("/x", "x-forwarded-host: evil.test")).status == 404


async def test_a_body_that_follows_leaves_the_connection_in_order(tmp_path: Path) -> None:
    async with secured(tmp_path, table()) as gw:
        caller = await gw.connect()
        post = b"POST /x HTTP/1.1\r\nhost: app.test\r\ncontent-length: 2\r\n\r\nhi"
        assert (await caller.ask(post)).status == 301
        assert (await caller.ask(post)).status == 301


async def test_a_redirect_is_recorded_as_the_gateways_own_answer(tmp_path: Path) -> None:
    async with secured(tmp_path, table()) as gw:
        await location(gw, "/x?code=secret")
        line = await gw.request_line()
        assert (line["route"], line["status"], line["outcome"]) == ("gateway", 301, "ok")
        assert "secret" not in str(line)
        assert gw.metric("gateway_requests_total", route="gateway", method="GET", status="301") == 1


async def test_without_certificates_nothing_is_redirected(tmp_path: Path) -> None:
    from tests.support.gateway import running

    async with upstream(answers) as up, running(tmp_path, table(route(up.url)), public_url="https://app.test") as gw:
        assert (await gw.get()).status == 200
        assert "certificates" not in (await gw.get("/readyz")).json
