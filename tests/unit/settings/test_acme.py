"""The environment of a certificate from an authority: taken whole, or each mistake named with what to do (§11.5)."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from common.settings.acme import MAX_NAMES
from tests.support.certificates import authority
from tests.support.environments import MINIMAL, PRODUCTION, files, load, problems

STORE_SECRET = secrets.token_hex(32)
HMAC = secrets.token_urlsafe(32)
ACME = {
    **MINIMAL,
    "GATEWAY_ACME_DIRECTORY": "https://ca.example.com/directory",
    "GATEWAY_ACME_NAMES": "app.example.com",
}
ACME_IN_PRODUCTION = {
    **PRODUCTION,
    "GATEWAY_ACME_DIRECTORY": "https://ca.example.com/directory",
    "GATEWAY_ACME_NAMES": "app.example.com",
    "GATEWAY_TLS_STORE_SECRET": STORE_SECRET,
    "GATEWAY_STATE_URL": "redis://redis.internal",
    "GATEWAY_SINGLE_REPLICA": "false",
}
WRITER = {
    "ACME_CHALLENGE": "dns-01",
    "ACME_DNS_WRITER_URL": "https://dns.example.com/write",
    "ACME_DNS_WRITER_TOKEN": secrets.token_hex(32),
}


def test_an_authority_and_names_are_enough_in_development() -> None:
    settings = load(ACME)

    assert settings.acme_directory == "https://ca.example.com/directory"
    assert settings.acme_names == ("app.example.com",)
    assert (settings.acme_challenge, settings.acme_renew_before_days) == ("http-01", 30)


def test_everything_else_may_be_said_too() -> None:
    settings = load(
        ACME_IN_PRODUCTION,
        files(**{"/ca.pem": authority().cert_pem.bytes()}),
        **WRITER,
        ACME_NAMES="example.com, *.Example.COM,xn--bcher-kva.example.",
        ACME_EMAIL="operations+tls@example.com",
        ACME_CA="/ca.pem",
        ACME_EAB_KID="kid-1",
        ACME_EAB_HMAC=HMAC + "=",
        ACME_RENEW_BEFORE_DAYS="14",
    )

    assert settings.acme_names == ("example.com", "*.example.com", "xn--bcher-kva.example")
    assert settings.acme_ca == Path("/ca.pem")
    assert settings.acme_eab_hmac is not None
    assert settings.acme_eab_hmac.reveal() == HMAC
    assert settings.acme_dns_writer_token is not None
    assert settings.tls_store_secret is not None


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("", "is not set"),
        ("app.example.com,", "has an empty entry"),
        ("a.example.com,,b.example.com", "has an empty entry"),
        ("app.example.com:443", "entry 1 must be a host without a port"),
        ("https://app.example.com", "entry 1 must be a host without a port"),
        ("app example.com", "entry 1 is not a host name"),
        ("-app.example.com", "entry 1 is not a host name"),
        ("a..example.com", "entry 1 is not a host name"),
        ("app_1.example.com", "entry 1 is not a host name that can be certified"),
        ("x" * 64 + ".example.com", "entry 1 is not a host name"),
        (".".join(["a" * 60] * 5), "entry 1 is longer than 253"),
        ("bücher.example", "entry 1 is not ASCII; write it in its A-label form"),
        ("192.0.2.1", "entry 1 is an address"),
        ("[2001:db8::1]", "entry 1 is an address"),
        ("*", "entry 1 is not a host name that can be certified"),
        ("a.*.example.com", "may use a wildcard only as the whole first label"),
        ("*.*.example.com", "must be an exact host name"),
        ("*.192.0.2.1", "cannot use a wildcard with an address"),
        ("a.example.com,A.example.com.", "entry 2 is named twice"),
        ("*.example.com", "holds a wildcard, which needs GATEWAY_ACME_CHALLENGE=dns-01"),
        (",".join(f"n{number}.example.com" for number in range(MAX_NAMES + 1)), "has more than 100 names"),
    ],
)
def test_a_name_that_cannot_be_certified_is_refused(names: str, says: str) -> None:
    (problem,) = problems(ACME, ACME_NAMES=names)

    assert problem.startswith("GATEWAY_ACME_NAMES: ")
    assert says in problem


def test_a_name_that_a_wildcard_of_the_list_covers_is_refused_as_authorities_do() -> None:
    (problem,) = problems(ACME, **WRITER, ACME_NAMES="*.example.com,example.com,app.example.com", TLS_STORE_SECRET="x")

    assert problem == "GATEWAY_ACME_NAMES: entry 3 is covered by a wildcard of the list; remove one of them"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ACME_DIRECTORY": "http://ca.example.com/dir"}, "GATEWAY_ACME_DIRECTORY: must be https"),
        ({"ACME_DIRECTORY": "ca.example.com"}, "GATEWAY_ACME_DIRECTORY: does not begin with http"),
        ({"ACME_DIRECTORY": "https://u:p@ca.example.com/"}, "GATEWAY_ACME_DIRECTORY: holds a user name"),
        ({"ACME_EMAIL": "operations"}, "GATEWAY_ACME_EMAIL: must be one mail address"),
        ({"ACME_EMAIL": "a@example.com,b@example.com"}, "GATEWAY_ACME_EMAIL: must be one mail address"),
        ({"ACME_EMAIL": "a@example.com\r\nx"}, "GATEWAY_ACME_EMAIL: must be one mail address"),
        ({"ACME_CA": "/missing.pem"}, "GATEWAY_ACME_CA: its file cannot be read: No such file"),
        ({"ACME_CA": "/empty.pem"}, "GATEWAY_ACME_CA: its file holds no readable certificate"),
        ({"ACME_EAB_KID": "kid"}, "GATEWAY_ACME_EAB_HMAC: is not set, and GATEWAY_ACME_EAB_KID is"),
        ({"ACME_EAB_HMAC": HMAC}, "GATEWAY_ACME_EAB_KID: is not set, and GATEWAY_ACME_EAB_HMAC is"),
        ({"ACME_EAB_KID": "k", "ACME_EAB_HMAC": "not base64url!"}, "GATEWAY_ACME_EAB_HMAC: must be base64url"),
        ({"ACME_EAB_KID": "k", "ACME_EAB_HMAC": "AAAA"}, "GATEWAY_ACME_EAB_HMAC: is shorter than 16 bytes"),
        ({"ACME_CHALLENGE": "tls-alpn-01"}, "GATEWAY_ACME_CHALLENGE: must be http-01 or dns-01"),
        ({"ACME_RENEW_BEFORE_DAYS": "0"}, "GATEWAY_ACME_RENEW_BEFORE_DAYS: must be a whole number from 1 to 365"),
        ({"ACME_DNS_WRITER_URL": "https://dns.example.com"}, "has no effect without GATEWAY_ACME_CHALLENGE=dns-01"),
        ({**WRITER, "ACME_DNS_WRITER_URL": None}, "GATEWAY_ACME_DNS_WRITER_URL: dns-01 needs it"),
        ({**WRITER, "ACME_DNS_WRITER_TOKEN": None}, "GATEWAY_ACME_DNS_WRITER_TOKEN: dns-01 needs it"),
        ({**WRITER, "ACME_DNS_WRITER_URL": "http://dns.example.com"}, "must be https, or lead to a private address"),
        ({"STATE_URL": "redis://redis"}, "GATEWAY_TLS_STORE_SECRET: is not set, and GATEWAY_ACME_DIRECTORY is"),
    ],
)
def test_each_mistake_is_named_with_what_to_do(changes: dict[str, str | None], says: str) -> None:
    (problem,) = problems(ACME, files(**{"/empty.pem": b""}), **changes)

    assert says in problem


def test_a_certificate_comes_from_files_or_from_an_authority() -> None:
    found = problems(ACME, TLS_CERT="/tls.crt", TLS_KEY="/tls.key")

    assert [problem.partition(":")[0] for problem in found] == ["GATEWAY_TLS_CERT", "GATEWAY_TLS_KEY"]
    assert all("the certificate comes from files or from an authority" in problem for problem in found)


def test_the_port_and_version_of_tls_count_with_an_authority_too() -> None:
    settings = load(ACME, TLS_PORT="443", TLS_MIN_VERSION="1.3")

    assert (settings.tls_port, settings.tls_min_version) == (443, "1.3")


@pytest.mark.parametrize("url", ["http://127.0.0.1:14000/dir", "http://localhost:14000/dir", "http://[::1]:1/dir"])
def test_an_authority_on_this_machine_may_speak_plain_http(url: str) -> None:
    assert load(ACME, ACME_DIRECTORY=url).acme_directory == url


@pytest.mark.parametrize("url", ["http://dns.internal:8053/", "http://10.0.0.7/write", "http://dns:80"])
def test_a_writer_within_the_deployment_may_speak_plain_http(url: str) -> None:
    assert load(ACME, **{**WRITER, "ACME_DNS_WRITER_URL": url}).acme_dns_writer_url == url


@pytest.mark.parametrize(
    "name",
    ["NAMES", "EMAIL", "EAB_KID", "CHALLENGE", "DNS_WRITER_URL", "DNS_WRITER_TOKEN", "RENEW_BEFORE_DAYS"],
)
def test_what_speaks_of_an_authority_without_naming_one_is_refused(name: str) -> None:
    """Somebody believes that certificates are renewed, and none ever is."""
    values = {"NAMES": "a.test", "EMAIL": "a@b.test", "CHALLENGE": "dns-01", "RENEW_BEFORE_DAYS": "7",
              "DNS_WRITER_URL": "https://dns.test"}  # fmt: skip
    (problem,) = problems(MINIMAL, **{f"ACME_{name}": values.get(name, "x")})

    assert problem == f"GATEWAY_ACME_{name}: has no effect without GATEWAY_ACME_DIRECTORY; set that, or remove it"


def test_production_takes_an_authority_with_a_store_that_lasts_and_a_strong_secret() -> None:
    assert load(ACME_IN_PRODUCTION, **WRITER).production


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"STATE_URL": "memory://local", "SINGLE_REPLICA": "true"}, "GATEWAY_STATE_URL: memory://local loses the cert"),
        ({"TLS_STORE_SECRET": None}, "GATEWAY_TLS_STORE_SECRET: is not set"),
        ({"TLS_STORE_SECRET": "short"}, "GATEWAY_TLS_STORE_SECRET: is too weak"),
        ({"TLS_STORE_SECRET": "x" * 64}, "GATEWAY_TLS_STORE_SECRET: is one repeated character"),
        ({**WRITER, "ACME_DNS_WRITER_TOKEN": "short"}, "GATEWAY_ACME_DNS_WRITER_TOKEN: is too weak"),
    ],
)
def test_production_refuses_what_loses_or_shows_keys(changes: dict[str, str | None], says: str) -> None:
    (problem,) = problems(ACME_IN_PRODUCTION, **changes)

    assert problem.startswith(says)


def test_no_message_repeats_a_secret() -> None:
    told = problems(ACME_IN_PRODUCTION, TLS_STORE_SECRET="hunter2", ACME_EAB_HMAC="hunter3", ACME_NAMES="hunter2 x")

    assert len(told) == 4
    assert "hunter" not in " ".join(told)
