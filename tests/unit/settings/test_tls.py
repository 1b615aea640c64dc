"""The variables of TLS: what is right alone and wrong together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.certificates import authority
from tests.support.environments import MINIMAL, files, load, problems

PAIR = {"TLS_CERT": "/tls/tls.crt", "TLS_KEY": "/tls/tls.key"}


def test_several_certificates_are_named_with_commas() -> None:
    settings = load(MINIMAL, TLS_CERT="/a.crt, /b.crt", TLS_KEY="/a.key,/b.key", TLS_PORT="443", TLS_MIN_VERSION="1.3")
    assert settings.tls_cert == (Path("/a.crt"), Path("/b.crt"))
    assert settings.tls_key == (Path("/a.key"), Path("/b.key"))
    assert (settings.tls_port, settings.tls_min_version) == (443, "1.3")


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"TLS_CERT": "/a"}, "GATEWAY_TLS_KEY: is not set, and GATEWAY_TLS_CERT is; set both, or neither"),
        ({"TLS_KEY": "/a"}, "GATEWAY_TLS_CERT: is not set, and GATEWAY_TLS_KEY is; set both, or neither"),
        (
            {"TLS_CERT": "/a,/b", "TLS_KEY": "/a"},
            "GATEWAY_TLS_KEY: names 1 files, and GATEWAY_TLS_CERT 2; name one key for each certificate, in the same "
            "order",
        ),
        (
            {"TLS_CERT": "/a,,/b", "TLS_KEY": "/a,/b"},
            "GATEWAY_TLS_CERT: has an empty entry; separate the entries with single commas",
        ),
        (
            {"TLS_PORT": "443"},
            "GATEWAY_TLS_PORT: has no effect without GATEWAY_TLS_CERT or GATEWAY_ACME_DIRECTORY; set one of "
            "them, or remove it",
        ),
        (
            {"TLS_MIN_VERSION": "1.3"},
            "GATEWAY_TLS_MIN_VERSION: has no effect without GATEWAY_TLS_CERT or GATEWAY_ACME_DIRECTORY; set one of "
            "them, or remove it",
        ),
        ({**PAIR, "TLS_MIN_VERSION": "1.1"}, "GATEWAY_TLS_MIN_VERSION: must be 1.2 or 1.3"),
        ({**PAIR, "PORT": "8443"}, "GATEWAY_TLS_PORT: is GATEWAY_PORT too; TLS needs a port of its own"),
        (
            {"UPSTREAM_TLS_CERT": "/a"},
            "GATEWAY_UPSTREAM_TLS_KEY: is not set, and GATEWAY_UPSTREAM_TLS_CERT is; set both, or neither",
        ),
        (
            {"UPSTREAM_TLS_KEY": "/a"},
            "GATEWAY_UPSTREAM_TLS_CERT: is not set, and GATEWAY_UPSTREAM_TLS_KEY is; set both, or neither",
        ),
        (
            {"UPSTREAM_TLS_CA": "/missing"},
            "GATEWAY_UPSTREAM_TLS_CA: its file cannot be read: No such file or directory",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(variables: dict[str, str], problem: str) -> None:
    assert problems(MINIMAL, **variables) == (problem,)


def test_any_free_port_may_be_taken_for_both() -> None:
    assert problems(MINIMAL, **PAIR, PORT="0", TLS_PORT="0") == ()


def test_the_authorities_of_upstreams_are_read_at_the_start() -> None:
    pem = authority().cert_pem.bytes()
    assert load(MINIMAL, files(ca=pem), UPSTREAM_TLS_CA="ca").upstream_tls_ca == Path("ca")
    (problem,) = problems(MINIMAL, files(ca=pem[:300]), UPSTREAM_TLS_CA="ca")
    assert problem.startswith("GATEWAY_UPSTREAM_TLS_CA: its file holds no readable certificate")
