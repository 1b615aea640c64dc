"""An upstream's own address in a Location, as a browser would read it."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest

from common.routetable.compiled import Upstream
from dataplane.forwarding.location import relative_location

APP = Upstream("http", "app", 3000, "app:3000", "/base", "http://app:3000")
PLAIN = Upstream("http", "app", 80, "app", "", "http://app")
SECURE = Upstream("https", "App.Internal", 443, "App.Internal", "", "https://App.Internal")
V6 = Upstream("http", "2001:db8::1", 9000, "[2001:db8::1]:9000", "", "http://[2001:db8::1]:9000")


@pytest.mark.parametrize(
    ("upstream", "value", "relative"),
    [
        (APP, b"http://app:3000/base/x?y=1#z", b"/base/x?y=1#z"),
        (APP, b"HTTP://APP:3000/x", b"/x"),
        (APP, b"//app:3000/x", b"/x"),
        (APP, b"http://app:3000", b"/"),
        (APP, b"http://app:3000?x=1", b"/?x=1"),
        (APP, b"http://app:3000#f", b"/#f"),
        (APP, b"http://app.:3000/x", b"/x"),
        (APP, b"https://app:3000/x", b"/x"),
        (APP, b"http://user:pass@app:3000/x", b"/x"),
        (APP, b"http://evil.example@app:3000/x", b"/x"),
        (APP, b" \thttp://app:3000/x ", b"/x"),
        (APP, b"ht\ttp://a\tpp:30\t00/x", b"/x"),
        (APP, b"http:\\\\app:3000\\x", b"/x"),
        (APP, b"http://app:3000\\@evil.example/", b"/@evil.example/"),
        (APP, b"http://app:3000/caf\xc3\xa9", b"/caf\xc3\xa9"),
        (APP, b"http://app:3000/a//b", b"/a//b"),
        (PLAIN, b"http://app/x", b"/x"),
        (PLAIN, b"http://app:80/x", b"/x"),
        (PLAIN, b"http://app:/x", b"/x"),
        (PLAIN, b"//app/x", b"/x"),
        (PLAIN, b"https://app/x", b"/x"),
        (SECURE, b"https://app.internal:443/x", b"/x"),
        (SECURE, b"https://app.internal/x", b"/x"),
        (SECURE, b"http://app.internal/x", b"/x"),
        (V6, b"http://[2001:DB8::1]:9000/x", b"/x"),
    ],
)
def test_an_address_of_the_upstream_becomes_a_path(upstream: Upstream, value: bytes, relative: bytes) -> None:
    assert relative_location(value, upstream) == relative


@pytest.mark.parametrize(
    ("upstream", "value"),
    [
        (APP, b"/x"),
        (APP, b"x?y"),
        (APP, b""),
        (APP, b"?x=1"),
        (APP, b"http://app:3001/x"),
        (APP, b"http://app/x"),
        (APP, b"http://app.example:3000/x"),
        (APP, b"http://evil-app:3000/x"),
        (APP, b"http://app:3000@evil.example/"),
        (APP, b"http://app:3000:3000/x"),
        (APP, b"http://app:300000/x"),
        (APP, b"ftp://app:3000/x"),
        (APP, b"javascript:alert(1)"),
        (APP, b"http:///x"),
        (PLAIN, b"http://app:8080/x"),
        (PLAIN, b"https://app:8443/x"),
        (SECURE, b"https://app.internal:8443/x"),
        (V6, b"http://[2001:db8::2]:9000/x"),
        (V6, b"http://2001:db8::1:9000/x"),
        (V6, b"http://[2001:db8::1/x"),
    ],
)
def test_any_other_address_is_left_alone(upstream: Upstream, value: bytes) -> None:
    assert relative_location(value, upstream) == value


@pytest.mark.parametrize(
    ("value", "relative"),
    [
        (b"http://app:3000//evil.example/x", b"/.//evil.example/x"),
        (b"http://app:3000/\\evil.example/x", b"/./\\evil.example/x"),
        (b"http://app:3000\\\\evil.example", b"/.\\\\evil.example"),
        (b"http://app:3000/\t/evil.example", b"/.//evil.example"),
    ],
)
def test_a_path_never_turns_into_another_host(value: bytes, relative: bytes) -> None:
    """B28: what is left when the authority goes must not be an authority again."""
    assert relative_location(value, APP) == relative
    resolved = urljoin("https://public.example/", relative.decode().replace("\\", "/"))
    assert resolved.startswith("https://public.example/")


def test_the_host_that_the_route_gives_the_upstream_is_the_upstreams_too() -> None:
    given = {"internal_host": "internal.example:8080"}
    assert relative_location(b"http://internal.example:8080/x", APP, **given) == b"/x"
    assert relative_location(b"http://internal.example/x", APP, **given) == b"http://internal.example/x"
    assert relative_location(b"https://internal.example/x", APP, internal_host="internal.example") == b"/x"


def test_the_public_name_is_left_alone_unless_it_is_the_upstream_exactly() -> None:
    local = Upstream("http", "localhost", 3000, "localhost:3000", "", "http://localhost:3000")
    assert relative_location(b"http://localhost:3000/x", local, public_name="localhost") == b"/x"
    assert relative_location(b"http://localhost:8080/x", local, public_name="localhost") == b"http://localhost:8080/x"
    split = Upstream("http", "api.example", 80, "api.example", "", "http://api.example")
    assert relative_location(b"https://api.example/x", split, public_name="api.example") == b"https://api.example/x"
