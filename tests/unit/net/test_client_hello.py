"""What a ClientHello offers is read as OpenSSL wrote it, in any pieces; and nothing in one can do harm."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.net.client_hello import (
    HELLO_MAX_BYTES,
    Hello,
    HelloReader,
    NoHello,
    could_choose_finite_field,
    read_hello,
)
from tests.support.certificates import authority

P256, X25519, FFDHE2048, FFDHE8192, GREASE = 23, 29, 256, 260, 0x1A1A


def records(*protocols: str, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """The first flight of a caller of OpenSSL's."""
    context = ssl.create_default_context(cadata=authority().cert_pem.bytes().decode())
    context.maximum_version = version
    if protocols:
        context.set_alpn_protocols(list(protocols))
    sent = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="app.test").do_handshake()
    return sent.read()


SENT = records("h2", "http/1.1")
MESSAGE = SENT[5:]


def gathered(pieces: Iterable[bytes]) -> bytes | None:
    reader = HelloReader()
    for piece in pieces:
        message = reader.feed(piece)
        if message is not None:
            return message
    return None


def record(content: bytes) -> bytes:
    return b"\x16\x03\x01" + len(content).to_bytes(2, "big") + content


@pytest.mark.parametrize("protocols", [(), ("http/1.1",), ("h2", "http/1.1"), ("x" * 255,)])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_what_is_offered_is_read_in_its_order(protocols: tuple[str, ...], version: ssl.TLSVersion) -> None:
    hello = read_hello(gathered([records(*protocols, version=version)]) or b"")
    assert hello is not None
    assert hello.protocols == (tuple(each.encode() for each in protocols) or None)
    assert hello.groups is not None
    assert {P256, X25519} <= set(hello.groups)
    if version is ssl.TLSVersion.TLSv1_2:
        assert hello.shares is None
    else:
        assert X25519 in (hello.shares or ())  # from OpenSSL 3.5 on beside a hybrid one
    assert not could_choose_finite_field(hello)


@given(st.lists(st.integers(1, len(SENT) - 1), max_size=20))
def test_a_hello_may_come_in_any_pieces(cuts: list[int]) -> None:
    edges = [0, *sorted(set(cuts)), len(SENT)]
    pieces = [SENT[start:end] for start, end in pairwise(edges)]
    assert gathered(pieces) == MESSAGE
    assert gathered(pieces[:-1]) is None


@given(st.lists(st.integers(1, len(MESSAGE) - 1), max_size=20), st.integers(1, 50))
def test_a_hello_may_come_in_any_records(cuts: list[int], at_once: int) -> None:
    edges = [0, *sorted(set(cuts)), len(MESSAGE)]
    sent = b"".join(record(MESSAGE[start:end]) for start, end in pairwise(edges))
    assert gathered(sent[start : start + at_once] for start in range(0, len(sent), at_once)) == MESSAGE


def test_what_stands_behind_the_message_is_no_part_of_it() -> None:
    assert gathered([record(MESSAGE + b"more")]) == MESSAGE


@pytest.mark.parametrize(
    "data",
    [
        b"\x17\x03\x03\x00\x10" + bytes(16),
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\x40\x01",
        b"\x16\x03\x01\xff\xff",
        record(b"\x02" + MESSAGE[1:]),
        record(b"hello"),
        record(MESSAGE[:10]) + b"\x15\x03\x03\x00\x02\x01\x00",
        record(b"\x01" + (HELLO_MAX_BYTES - 3).to_bytes(3, "big")),
    ],
    ids=["data", "empty", "long", "longer", "another message", "nonsense", "an alert between", "too large"],
)
def test_what_is_no_hello_is_told_at_once(data: bytes) -> None:
    with pytest.raises(NoHello):
        gathered([data])


def test_the_largest_hello_is_gathered() -> None:
    message = b"\x01" + (HELLO_MAX_BYTES - 4).to_bytes(3, "big") + bytes(HELLO_MAX_BYTES - 4)
    pieces = [record(message[start : start + 16_384]) for start in range(0, len(message), 16_384)]
    assert gathered(pieces) == message


@given(st.integers(0, len(MESSAGE)), st.binary(max_size=8))
def test_a_changed_hello_is_read_or_left_to_openssl(at: int, changed: bytes) -> None:
    hello = read_hello(MESSAGE[:at] + changed + MESSAGE[at + len(changed) :])
    if hello is not None:
        could_choose_finite_field(hello)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_left_to_openssl(data: bytes) -> None:
    read_hello(data)
    read_hello(MESSAGE[:39] + data)


@pytest.mark.parametrize(
    ("groups", "shares", "dear"),
    [
        ((X25519, P256), (X25519,), False),
        ((X25519, FFDHE8192), (X25519,), False),
        ((FFDHE2048, P256), (), False),
        ((X25519, FFDHE8192), (FFDHE8192,), True),
        ((X25519, FFDHE2048), (X25519, FFDHE2048), True),
        ((FFDHE8192,), (), True),
        ((GREASE, FFDHE8192), (), True),
        ((GREASE,), (GREASE,), False),
        (None, None, False),
        ((), (), False),
    ],
)
def test_no_caller_brings_openssl_to_a_finite_field(
    groups: tuple[int, ...] | None, shares: tuple[int, ...] | None, dear: bool
) -> None:
    """One handshake in 8 192 bits takes some 100 ms."""
    assert could_choose_finite_field(Hello(None, groups, shares)) is dear
