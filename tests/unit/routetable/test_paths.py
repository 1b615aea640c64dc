"""The two readings of a path and what is refused before either counts (CONTRACT §3.1, "Path safety")."""

from __future__ import annotations

import pytest

from common.routetable.paths import AmbiguousPath, is_plain, loosest_reading, read_path, strict_reading


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "slash"),
        ("admin", "slash"),
        ("http://x/", "slash"),
        ("*", "slash"),
        ("/a\x00", "control"),
        ("/a\r\nb", "control"),
        ("/a\tb", "control"),
        ("/a\x7f", "control"),
        ("/a b", "control"),
        ("/caf\xe9", "non-ASCII"),
        ("/a\u2044b", "non-ASCII"),
        ("/admin#/public", "fragment"),
        ("/public#/../admin", "fragment"),
        ("/a?b", "fragment"),
        ("/a%", "escape"),
        ("/a%2", "escape"),
        ("/a%2g", "escape"),
        ("/a%%41", "escape"),
        ("/a%u0041", "escape"),
        ("/admin%00.png", "NUL"),
        ("/a%0d", "NUL"),
        ("/a%0A", "NUL"),
    ],
)
def test_a_path_of_a_refused_form_has_no_reading(path: str, reason: str) -> None:
    with pytest.raises(AmbiguousPath, match=reason):
        read_path(path)
    assert not is_plain(path)


@pytest.mark.parametrize(
    "path",
    [
        "/.",
        "/..",
        "/./a",
        "/a/.",
        "/a/..",
        "/public/../admin/secrets",
        "/public/./../admin",
        "/public/%2e%2e/admin",
        "/public/.%2E/admin",
        "/public/%2E./admin",
        "/%2e",
        "/x%2f..%2fadmin",
        "/x%2F%2e%2e",
        "/x\\..\\admin",
        "/x%5c..%5Cadmin",
        "/x%5C%2e%2E",
        "/a/..;/b",
        "/a/..;x=1/b",
        "/a/.;x",
        "/a/..%3bx/b",
        "/a;x/../b",
        "/.../..//admin",
        "/a/.//../admin",
        "/a//..",
        "/a/%2e%2e%2fb",
    ],
)
def test_a_dot_segment_is_refused_in_every_spelling(path: str) -> None:
    with pytest.raises(AmbiguousPath, match="dot segment"):
        read_path(path)
    assert not is_plain(path)


@pytest.mark.parametrize(
    ("path", "strict", "loosest"),
    [
        ("/", "/", "/"),
        ("/%61dmin", "/admin", "/admin"),
        ("/caf%c3%a9", "/caf%C3%A9", "/caf\xc3\xa9"),
        ("/%7e%2D%5F", "/~-_", "/~-_"),
        ("/admin%2fusers", "/admin%2Fusers", "/admin/users"),
        ("/admin%5cusers", "/admin%5Cusers", "/admin/users"),
        ("/admin\\users", "/admin\\users", "/admin/users"),
        ("//admin", "//admin", "/admin"),
        ("/a///b//", "/a///b//", "/a/b/"),
        ("/admin;x", "/admin;x", "/admin"),
        ("/admin;x=1;y=2/z;q", "/admin;x=1;y=2/z;q", "/admin/z"),
        ("/admin%3Bx", "/admin%3Bx", "/admin"),
        ("/;/admin", "/;/admin", "/admin"),
        ("/a;b%2fc", "/a;b%2Fc", "/a/c"),
        ("/%252e%252e/admin", "/%252e%252e/admin", "/%2e%2e/admin"),
        ("/%25%32%65", "/%252e", "/%2e"),
        ("/admin%23/public", "/admin%23/public", "/admin#/public"),
        ("/a%3Fb", "/a%3Fb", "/a?b"),
        ("/....//admin", "/....//admin", "/..../admin"),
        ("/...", "/...", "/..."),
        ("/a..b/.c/d.", "/a..b/.c/d.", "/a..b/.c/d."),
        ("/.well-known/x", "/.well-known/x", "/.well-known/x"),
    ],
)
def test_the_two_readings_are_those_of_the_contract(path: str, strict: str, loosest: str) -> None:
    readings = read_path(path)
    assert (readings.strict, readings.loosest) == (strict, loosest)


@pytest.mark.parametrize("path", ["/", "/a", "/a/b.c/~x:y@z!$&'()*+,=", '/a"<>^`{|}', "/a/", "/ADMIN"])
def test_a_plain_path_is_its_own_reading_both_ways(path: str) -> None:
    assert is_plain(path)
    assert strict_reading(path) == loosest_reading(path) == path


@pytest.mark.parametrize("path", ["/%61", "//", "/a;b", "/a\\b", "/.a", "/a//b", "/a/%2F", "/;"])
def test_what_could_be_read_in_two_ways_is_not_plain(path: str) -> None:
    assert not is_plain(path)
