"""Handshakes find the certificate of the name they ask for, and a replacement changes nothing that is open."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from common.settings.secret import Secret
from dataplane.metrics import GatewayMetrics
from dataplane.tls.certificate import Certificate, CertificateRefused, read_certificate
from dataplane.tls.store import TICKET_KEY_MAX_AGE_S, CertificateStore
from tests.support.certificates import NOW, client_context, issue
from tests.support.clock import ManualClock


def certificate(*names: str, **options: object) -> Certificate:
    issued = issue(*names, **options)
    return read_certificate(issued.chain, issued.key, now_s=NOW.timestamp(), chain_source="tls.crt")


A, B = certificate("a.test", "www.a.test"), certificate("b.test", "*.b.test")


@dataclass
class Pair:
    """Both ends of a TLS connection, without a socket."""

    client: ssl.SSLObject
    server: ssl.SSLObject
    to_client: ssl.MemoryBIO
    to_server: ssl.MemoryBIO

    @property
    def names(self) -> set[str]:
        """What the certificate that the server showed certifies."""
        shown = self.client.getpeercert()
        assert shown is not None
        return {str(value) for _, value in shown["subjectAltName"]}

    def echo(self, data: bytes) -> bytes:
        self.client.write(data)
        got = self.server.read()
        self.server.write(got)
        return self.client.read()


def handshake(store: CertificateStore, name: str | None, context: ssl.SSLContext | None = None) -> Pair:
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = context or client_context()
    if name is None:
        context.check_hostname = False
    client = context.wrap_bio(to_client, to_server, server_hostname=name)
    server = store.context.wrap_bio(to_server, to_client, server_side=True)
    waiting: Sequence[ssl.SSLObject] = [client, server]
    for _ in range(5):
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting = [other for other in waiting if other is not end]
    assert not waiting
    return Pair(client, server, to_client, to_server)


@pytest.fixture
def store() -> CertificateStore:
    return CertificateStore(GatewayMetrics())


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("a.test", A),
        ("www.a.test", A),
        ("A.TEST", A),
        ("b.test", B),
        ("x.b.test", B),
        ("X.B.Test", B),
        (None, A),
    ],
)
def test_the_certificate_is_that_of_the_name_asked_for(
    store: CertificateStore, asked: str | None, shown: Certificate
) -> None:
    store.install([A, B])
    assert handshake(store, asked).names == set(shown.names)


@pytest.mark.parametrize("asked", ["unknown.test", "x.y.b.test", ".b.test", "xb.test", "192.0.2.1"])
def test_another_name_gets_the_default_certificate_which_its_client_refuses(
    store: CertificateStore, asked: str
) -> None:
    store.install([A, B])
    careless = client_context()
    careless.check_hostname = False
    name = asked if not asked.startswith(".") else None  # no client sends it
    assert handshake(store, name, careless).names == set(A.names)
    if name is not None:
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(store, name)
    assert not store.certifies(asked)


def test_where_two_certify_a_name_the_earlier_serves_it(store: CertificateStore) -> None:
    exact, wild = certificate("x.b.test"), B
    store.install([wild, exact])
    assert handshake(store, "x.b.test").names == {"x.b.test"}, "an exact name comes before a wildcard"
    again = certificate("a.test")
    store.install([A, again])
    assert handshake(store, "a.test").names == set(A.names)


def test_without_a_certificate_a_handshake_is_refused_and_its_client_told(store: CertificateStore) -> None:
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context().wrap_bio(to_client, to_server, server_hostname="a.test")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(ssl.SSLError):
        store.context.wrap_bio(to_server, to_client, server_side=True).do_handshake()
    with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME"):
        client.do_handshake()


def test_a_replacement_serves_new_handshakes_and_leaves_open_connections(store: CertificateStore) -> None:
    store.install([A])
    before = handshake(store, "a.test")
    store.install([B])
    assert handshake(store, "b.test").names == set(B.names)
    assert before.echo(b"still here") == b"still here"
    assert not store.certifies("a.test")
    assert store.certifies("b.test")


def test_one_that_openssl_refuses_changes_nothing(store: CertificateStore) -> None:
    store.install([A])
    broken = Certificate("acme", ("c.test",), 0, 1, A.chain, Secret(B.key.reveal()))
    with pytest.raises(CertificateRefused, match=r"acme: OpenSSL does not take it: key values mismatch"):
        store.install([B, broken])
    assert list(store.certificates) == [A]
    assert handshake(store, "a.test").names == set(A.names)
    with pytest.raises(CertificateRefused):
        store.install([])
    assert list(store.certificates) == [A]


def test_the_error_of_a_failed_renewal_stands_until_the_next_install(store: CertificateStore) -> None:
    store.install([A])
    store.last_error = "the authority is away"
    store.install([A])
    assert store.last_error is None


def test_expiries_are_those_of_the_names_served_now() -> None:
    metrics = GatewayMetrics()
    store = CertificateStore(metrics)
    store.install([A])
    store.install([B])
    text = metrics.render().decode()
    for name in B.names:
        assert metrics.certificate_expiry_timestamp.value(name) == B.not_after_s
        assert f'gateway_certificate_expiry_timestamp_seconds{{name="{name}"}}' in text
    assert "a.test" not in text


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_http_1_1_and_the_oldest_version_are_agreed_on(version: ssl.TLSVersion) -> None:
    store = CertificateStore(GatewayMetrics(), min_version=version)
    store.install([A])
    old = client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    if version is ssl.TLSVersion.TLSv1_3:
        with pytest.raises(ssl.SSLError):
            handshake(store, "a.test", old)
    else:
        pair = handshake(store, "a.test", old)
        assert pair.client.version() == "TLSv1.2"
        assert pair.client.selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_resumed_over_a_replacement_and_not_with_an_old_ticket_key(version: ssl.TLSVersion) -> None:
    clock = ManualClock()
    store = CertificateStore(GatewayMetrics(), clock=clock)
    store.install([A])
    context = client_context()
    context.maximum_version = version
    first = handshake(store, "a.test", context)
    first.echo(b"the tickets of TLS 1.3 come with the first bytes")
    session = first.client.session
    store.install([A, B])

    def resumes() -> bool:
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(to_client, to_server, server_hostname="a.test", session=session)
        server = store.context.wrap_bio(to_server, to_client, server_side=True)
        for _ in range(5):
            for end in (client, server):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        return bool(client.session_reused)

    assert resumes()
    clock.now_s += TICKET_KEY_MAX_AGE_S + 1
    assert not resumes()
