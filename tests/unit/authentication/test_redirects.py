"""A login leads to a path of the gateway, whatever was asked for and however a browser reads it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataplane.authentication.redirects import REDIRECT_MAX, safe_redirect
from tests.support.browser_url import origin_after_redirect

PUBLIC = "https://app.example.com:8443"


@pytest.mark.parametrize(
    "target",
    [
        "/", "/app", "/app/", "/a/b/c", "/a?b=c&d=e", "/?q=1", "/a?next=https://other.example/x", "/a#part",
        "/projects/group%2Fname", "/a%20b", "/a//b", "/a;b=c", "/@user", "/a:b", "/...", "/.well-known/x", "/a..b/c",
        "/%E2%82%AC", "/a?b=%2F%2Fevil", "/a?b=..%2F..", "/authx/login", "/auth/session", "/a%25b",
    ],
)  # fmt: skip
def test_a_path_of_the_gateway_is_kept_as_it_is(target: str) -> None:
    assert safe_redirect(target, PUBLIC) == target


HOSTILE = [
    "", "app", "https://evil.example", "//evil.example", "///evil.example", "////evil", "https:evil", "https:/evil",
    "\\evil", "\\\\evil", "/\\evil.example", "/\\/evil", "\\/evil", "/%5Cevil.example", "/%5cevil", "/%2Fevil",
    "/%2fevil", "/%252Fevil", "/%255Cevil", "/%25252525252525255Cevil", "/.//evil", "/..//evil", "/%2e//evil",
    "/%2E%2e/evil", "/a/..//evil", "/a/%2e%2e//evil", "/a%3F/../x", "/a%3F/%2e%2e/x", "/a/..;x/b", "/a\\..\\b",
    "/a%5c..%5cb",
    "/\t/evil", "/%09/evil.example", "/%0a/evil", "/%0d%0a/evil", "/\n/evil", "/\r\n/evil", "/\t\\evil", " /evil",
    "\t/evil", "\n//evil", "/a\x00b", "/a%00b", "/a%0d%0aset-cookie:%20x", "/a\x7fb", "/a%7Fb", "/a\x85b", "/a%C2%85b",
    "/a%2509b", "/a%250ab", "/a\x1f", "/a?b=%0a", "/a#%0a", "/\ud800", "javascript:alert(1)", "data:text/html,x",
    "@evil.example", "/auth/login", "/auth/login?redirect=/auth/login", "/auth/login/", "/auth/callback?code=x",
    "/auth/logout", "/%61uth/logout", "/auth%2flogout", "/" + "a" * REDIRECT_MAX,
    "/?" + "é" * 400,
]  # fmt: skip


@pytest.mark.parametrize("target", HOSTILE)
def test_whatever_may_lead_elsewhere_leads_home(target: str) -> None:
    assert safe_redirect(target, PUBLIC) == "/"


@pytest.mark.parametrize(
    ("target", "located"),
    [
        ("/für?q=ß", "/f%C3%BCr?q=%C3%9F"),
        ("/a b", "/a%20b"),
        ('/a"b<c>', "/a%22b%3Cc%3E"),
        ("/a\\b", "/a%5Cb"),
        ("/／evil", "/%EF%BC%8Fevil"),
        ("/a\u2028b", "/a%E2%80%A8b"),
    ],
)
def test_what_no_address_may_hold_is_escaped(target: str, located: str) -> None:
    assert safe_redirect(target, PUBLIC) == located


def test_the_longest_target_is_kept_and_one_more_character_is_not() -> None:
    longest = "/" + "a" * (REDIRECT_MAX - 1)
    assert safe_redirect(longest, PUBLIC) == longest
    assert safe_redirect(longest + "a", PUBLIC) == "/"


# Pieces that have fooled somebody, so that random texts are made of what matters.
PIECES = st.sampled_from(
    [
        "/", "\\", "//", ".", "..", "%2f", "%2F", "%5c", "%5C", "%2e", "%25", "%09", "%0a", "%0d", "\t", "\n", "\r",
        " ", "\x00", "@", ":", "?", "#", ";", "https:", "javascript:", "evil.example", "app.example.com", ":8443", "é",
        "\u2028", "a", "auth", "login", "[", "]", "\ud800", "％", "。", "／",
    ]
)  # fmt: skip
TARGETS = st.one_of(
    st.text(), st.lists(PIECES, max_size=12).map("".join), st.lists(PIECES).map(lambda p: "/" + "".join(p))
)


@given(TARGETS, st.sampled_from(["https://app.example.com", PUBLIC, "http://localhost:8080", "http://[::1]:8080"]))
@example("/\t/evil.example", PUBLIC)
@example("/\\evil.example", PUBLIC)
def test_a_browser_stays_on_the_public_origin_whatever_comes_in(target: str, public_url: str) -> None:
    located = safe_redirect(target, public_url)
    assert located.isascii()
    assert located.isprintable()
    assert " " not in located
    assert len(located) <= REDIRECT_MAX
    assert origin_after_redirect(located, public_url) == public_url


@given(TARGETS)
def test_a_safe_target_stays_as_it_is(target: str) -> None:
    once = safe_redirect(target, PUBLIC)
    assert safe_redirect(once, PUBLIC) == once


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "///evil", "\\\\evil", "/\\evil.example", "/\t\\evil", "\n//evil", "http:/evil", "http:evil",
     "//app.example.com:8443@evil", "//app.example.com"],
)  # fmt: skip
def test_the_browser_of_these_tests_goes_astray_where_real_ones_do(target: str) -> None:
    """Or the property above would prove nothing."""
    assert origin_after_redirect(target, PUBLIC) != PUBLIC
