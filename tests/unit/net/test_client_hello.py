"""The protocols that a ClientHello offers are read as OpenSSL wrote them, and nothing in one can do harm."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.net.client_hello import is_whole, offered_protocols
from tests.support.certificates import authority


def hello(*protocols: str, name: str = "app.test") -> bytes:
    context = ssl.create_default_context(cadata=authority().cert_pem.bytes().decode())
    if protocols:
        context.set_alpn_protocols(list(protocols))
    sent = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name).do_handshake()
    return sent.read()


OFFERS = hello("h2", "http/1.1")


@pytest.mark.parametrize("protocols", [(), ("http/1.1",), ("h2", "http/1.1"), ("x" * 255,)])
def test_what_is_offered_is_read_in_its_order(protocols: tuple[str, ...]) -> None:
    expected = tuple(each.encode() for each in protocols) or None
    assert offered_protocols(hello(*protocols)) == expected


@pytest.mark.parametrize("size", [0, 1, 4, 5, 6, len(OFFERS) - 1])
def test_a_part_is_not_whole(size: int) -> None:
    assert not is_whole(OFFERS[:size])


def test_the_whole_is_whole_and_so_is_a_length_that_no_record_has() -> None:
    assert is_whole(OFFERS)
    assert is_whole(OFFERS + b"more")
    assert is_whole(b"\x16\x03\x01\xff\xff")


@given(st.integers(0, len(OFFERS)), st.binary(max_size=8))
def test_a_changed_hello_is_read_or_left_to_openssl(at: int, changed: bytes) -> None:
    found = offered_protocols(OFFERS[:at] + changed + OFFERS[at + len(changed) :])
    assert found is None or all(isinstance(name, bytes) for name in found)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_left_to_openssl(data: bytes) -> None:
    is_whole(data)
    offered_protocols(b"\x16\x03\x01" + data)
