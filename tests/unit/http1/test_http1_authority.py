"""A host has one reading, whatever its spelling; the corpus holds the spellings that have none."""

from __future__ import annotations

import pytest

from dataplane.http1.authority import parse_authority, same_authority
from dataplane.http1.heads import Authority, ProtocolError


@pytest.mark.parametrize(
    ("sent", "host", "port"),
    [
        ("a", "a", None),
        ("APP.Example.com", "app.example.com", None),
        ("app.example.com.", "app.example.com", None),
        ("app.example.com.:443", "app.example.com", 443),
        ("app.example.com:80", "app.example.com", 80),
        ("a:00080", "a", 80),
        ("a:0", "a", 0),
        ("a:65535", "a", 65535),
        ("my_service:80", "my_service", 80),
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("127.0.0.1.", "127.0.0.1", None),
        ("[::1]", "::1", None),
        ("[::1]:8443", "::1", 8443),
        ("[0:0:0:0:0:0:0:1]", "::1", None),
        ("[2001:DB8::A]", "2001:db8::a", None),
        ("10.example", "10.example", None),
        ("1e5.example.a1", "1e5.example.a1", None),
    ],
)
def test_every_spelling_of_a_host_reads_as_one(sent: str, host: str, port: int | None) -> None:
    assert parse_authority(sent.encode("ascii")) == Authority(host, port, sent)


@pytest.mark.parametrize(
    ("one", "other", "default", "same"),
    [
        (b"a", b"A.", 80, True),
        (b"a", b"a:80", 80, True),
        (b"a:443", b"a", 443, True),
        (b"a:080", b"a:80", 443, True),
        (b"a", b"a:443", 80, False),
        (b"a", b"b", 80, False),
        (b"[::1]:80", b"[0::1]", 80, True),
    ],
)
def test_authorities_are_compared_by_host_and_number_of_the_port(
    one: bytes, other: bytes, default: int, same: bool
) -> None:
    assert same_authority(parse_authority(one), parse_authority(other), default) is same
    assert same_authority(parse_authority(other), parse_authority(one), default) is same


def test_a_refused_host_is_refused_each_time() -> None:
    """Answers are remembered; a failure that were remembered as an answer would open the gate."""
    for _ in range(2):
        with pytest.raises(ProtocolError, match="malformed host") as raised:
            parse_authority(b"a/b")
        assert raised.value.code == "bad_request"


def test_a_final_newline_is_no_part_of_a_host() -> None:
    for value in (b"a\n", b"a:80\n", b"[::1]\n"):
        with pytest.raises(ProtocolError):
            parse_authority(value)
