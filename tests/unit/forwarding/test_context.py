"""The caller's address, scheme and host: from the socket, or from a trusted proxy, never from a client."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from dataplane.forwarding.context import ForwardingContext, canonical_address, forwarding_context, is_trusted
from tests.support.forwarding import request

TRUSTED = (ip_network("10.0.0.0/28"), ip_network("2001:db8:0:1::/124"))
PROXY = "10.0.0.4"
CLIENT = "203.0.113.9"


def context(
    *lines: tuple[str, str], peer: str = PROXY, hops: int = 1, scheme: str = "https", host: str | None = "app.example"
) -> ForwardingContext:
    return forwarding_context(request(*lines, host=host), peer, trusted_proxies=TRUSTED, hops=hops, scheme=scheme)


def chain(*values: str, **options: int) -> tuple[str, bytes]:
    found = context(*(("X-Forwarded-For", value) for value in values), **options)  # type: ignore[arg-type]
    return found.client, found.chain


def test_a_peer_outside_the_ranges_is_the_caller_whatever_it_claims() -> None:
    """R11, B25: forwarding headers from anybody chose the address, the login's host and the cookie's flags."""
    found = context(
        ("X-Forwarded-For", "192.0.2.1"),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Real-IP", "192.0.2.1"),
        ("Forwarded", "for=192.0.2.1;host=evil.example;proto=http"),
        peer=CLIENT,
    )
    assert found == ForwardingContext(CLIENT, "https", "app.example", "app.example", CLIENT.encode(), trusted=False)


def test_without_trusted_ranges_nobody_is_a_proxy() -> None:
    head = request(("X-Forwarded-For", "192.0.2.1"))
    found = forwarding_context(head, PROXY, trusted_proxies=(), hops=1, scheme="http")
    assert (found.client, found.chain, found.trusted) == (PROXY, PROXY.encode(), False)


def test_a_trusted_proxy_names_caller_scheme_and_host() -> None:
    found = context(
        ("X-Forwarded-For", CLIENT),
        ("X-Forwarded-Proto", "HTTP"),
        ("X-Forwarded-Host", "Public.Example:8443"),
    )
    expected = ForwardingContext(
        CLIENT, "http", "Public.Example:8443", "public.example", b"203.0.113.9, 10.0.0.4", trusted=True
    )
    assert found == expected


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [
        ("10.0.0.0", True),
        ("10.0.0.15", True),
        ("10.0.0.16", False),
        ("9.255.255.255", False),
        ("::ffff:10.0.0.4", True),
        ("::ffff:10.0.0.16", False),
        ("2001:db8:0:1::f", True),
        ("2001:DB8:0:1:0:0:0:000f", True),
        ("2001:db8:0:1::10", False),
        ("::10.0.0.4", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_a_range_ends_where_it_ends(peer: str, *, trusted: bool) -> None:
    assert context(peer=peer).trusted is trusted


def test_membership_takes_canonical_addresses_only() -> None:
    assert is_trusted("10.0.0.4", TRUSTED)
    assert not is_trusted("", TRUSTED)
    assert not is_trusted("10.0.0.4", ())


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::FFFF:c000:201", "192.0.2.1"),
        ("2001:DB8:0:0::0001", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("192.0.2.01", None),
        ("192.0.2.1 ", None),
        ("localhost", None),
        ("", None),
    ],
)
def test_an_address_has_one_spelling(text: str, canonical: str | None) -> None:
    assert canonical_address(text) == canonical


def test_the_caller_is_as_many_places_from_the_right_as_there_are_proxies() -> None:
    sent = "198.51.100.1, 203.0.113.9, 10.0.0.9"
    assert chain(sent) == ("10.0.0.9", b"10.0.0.9, 10.0.0.4")
    assert chain(sent, hops=2) == (CLIENT, b"203.0.113.9, 10.0.0.9, 10.0.0.4")
    assert chain(sent, hops=3) == ("198.51.100.1", b"198.51.100.1, 203.0.113.9, 10.0.0.9, 10.0.0.4")


def test_an_address_inside_a_trusted_range_cannot_choose_another_further_left() -> None:
    """A caller in a trusted range sends its own header through the proxy; the entry the proxy wrote is taken."""
    assert chain("192.0.2.1, 10.0.0.7") == ("10.0.0.7", b"10.0.0.7, 10.0.0.4")


@pytest.mark.parametrize("hops", [4, 100])
def test_a_chain_shorter_than_the_proxies_is_not_trusted(hops: int) -> None:
    assert chain("192.0.2.1, 203.0.113.9, 10.0.0.9", hops=hops) == (PROXY, PROXY.encode())


@pytest.mark.parametrize("hops", [0, -1])
def test_a_count_of_no_proxies_reads_no_entry(hops: int) -> None:
    # `entries[-0:]` would be the whole list, whose left end the client wrote.
    assert chain("192.0.2.1, 203.0.113.9", hops=hops) == (PROXY, PROXY.encode())
    assert chain("unknown", hops=hops) == (PROXY, PROXY.encode())


@pytest.mark.parametrize("sent", ["unknown, 203.0.113.9", "203.0.113.9, unknown", "192.0.2.1, unknown, 203.0.113.9"])
def test_one_proxy_entry_that_is_no_address_spoils_the_chain(sent: str) -> None:
    assert chain(sent, hops=2) == (PROXY, PROXY.encode())


def test_without_a_chain_the_proxy_is_the_caller() -> None:
    assert chain() == (PROXY, PROXY.encode())


@pytest.mark.parametrize(
    "value", ["", ",", "192.0.2.1, ,203.0.113.9", ",203.0.113.9", "203.0.113.9,", "1.1.1.1,\t,2.2.2.2"]
)
def test_an_empty_entry_makes_the_chain_untrusted(value: str) -> None:
    assert chain(value) == (PROXY, PROXY.encode())


def test_several_lines_are_one_list_in_order() -> None:
    """B26: reading one line alone took the spoofed one."""
    assert chain("192.0.2.1", CLIENT) == (CLIENT, b"203.0.113.9, 10.0.0.4")
    assert chain("192.0.2.1", "198.51.100.7, 203.0.113.9", hops=2) == (
        "198.51.100.7",
        b"198.51.100.7, 203.0.113.9, 10.0.0.4",
    )
    assert chain(CLIENT, "") == (PROXY, PROXY.encode())


@pytest.mark.parametrize(
    ("entry", "client"),
    [
        ("203.0.113.9:4711", CLIENT),
        ("2001:DB8::9", "2001:db8::9"),
        ("[2001:db8::9]", "2001:db8::9"),
        ("[2001:db8::9]:4711", "2001:db8::9"),
        ("::ffff:203.0.113.9", CLIENT),
        ("[::ffff:cb00:7109]:1", CLIENT),
        ("\t203.0.113.9 ", CLIENT),
    ],
)
def test_an_entry_is_an_address_with_or_without_port_and_leaves_without_brackets(entry: str, client: str) -> None:
    assert chain(f"192.0.2.1, {entry}") == (client, f"{client}, {PROXY}".encode())


@pytest.mark.parametrize(
    "entry",
    [
        "unknown",
        "_hidden",
        "203.0.113.9:",
        "203.0.113.9:x",
        "203.0.113.9:123456",
        "2001:db8::9:4711:1:2:3:4:5",
        "[2001:db8::9",
        "2001:db8::9]",
        "[203.0.113.9",
        "fe80::1%eth0",
        '"203.0.113.9"',
        "for=203.0.113.9",
        "203.0.113.009",
        "203.0.113",
        "3405803785",
        "203.0.113.9 10.0.0.1",
        "\u0661.2.3.4",
        "1" * 5000,
    ],
)
def test_an_entry_that_is_no_address_makes_the_chain_untrusted(entry: str) -> None:
    head = request(host="app.example")
    sent = (*head.headers, (b"x-forwarded-for", b"192.0.2.1, " + entry.encode("utf-8")))
    found = forwarding_context(
        type(head)("GET", "/", "", False, sent, head.authority, 0, True),
        PROXY,
        trusted_proxies=TRUSTED,
        hops=1,
        scheme="https",
    )
    assert (found.client, found.chain) == (PROXY, PROXY.encode())
    assert found.trusted


def test_what_is_left_of_the_caller_is_neither_read_nor_forwarded() -> None:
    noise = ", ".join(["unknown", "<script>", *["192.0.2.1"] * 500])
    assert chain(f"{noise}, {CLIENT}") == (CLIENT, b"203.0.113.9, 10.0.0.4")


def test_a_mapped_peer_is_its_ipv4_address_in_the_chain() -> None:
    found = context(("X-Forwarded-For", CLIENT), peer="::ffff:10.0.0.4")
    assert (found.client, found.chain) == (CLIENT, b"203.0.113.9, 10.0.0.4")
    assert context(peer="::ffff:203.0.113.9").client == CLIENT


def test_a_socket_without_an_address_has_no_caller_and_no_trust() -> None:
    found = context(("X-Forwarded-For", "192.0.2.1"), peer="")
    assert (found.client, found.chain, found.trusted) == ("", b"", False)


@pytest.mark.parametrize("value", ["https, http", "evil_protocol", "", "wss", "http/1.1", "https\t;"])
def test_a_scheme_other_than_http_or_https_is_ignored(value: str) -> None:
    assert context(("X-Forwarded-Proto", value), scheme="https").scheme == "https"
    assert context(("X-Forwarded-Proto", value), scheme="http").scheme == "http"


def test_two_schemes_are_no_answer() -> None:
    found = context(("X-Forwarded-Proto", "http"), ("X-Forwarded-Proto", "http"), scheme="https")
    assert found.scheme == "https"


@pytest.mark.parametrize(
    ("values", "host", "hostname"),
    [
        (["evil.example, public.example"], "public.example", "public.example"),
        (["evil.example", "public.example"], "public.example", "public.example"),
        (["Public.Example."], "Public.Example.", "public.example"),
        (["public.example:443"], "public.example:443", "public.example"),
        (["[2001:DB8::1]:8443"], "[2001:DB8::1]:8443", "2001:db8::1"),
        (["under_score.example"], "under_score.example", "under_score.example"),
    ],
)
def test_the_last_host_a_trusted_proxy_names_counts(values: list[str], host: str, hostname: str) -> None:
    found = context(*(("X-Forwarded-Host", value) for value in values))
    assert (found.host, found.hostname) == (host, hostname)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "public.example,",
        "public example",
        "public.example/admin",
        "user@public.example",
        "public.example:99999",
        "public.example:",
        "public..example",
        ".example",
        "[::1",
        "[::1]x",
        "::1",
        "[fe80::1%25eth0]",
        "a\x00b",
        "caf\u00e9.example",
        "x" * 300,
    ],
)
def test_a_forwarded_host_that_is_no_host_is_ignored(value: str) -> None:
    found = context(("X-Forwarded-Host", value))
    assert (found.host, found.hostname) == ("app.example", "app.example")


@pytest.mark.parametrize(
    ("sent", "hostname"),
    [
        ("APP.Example.com", "app.example.com"),
        ("app.example.com.", "app.example.com"),
        ("app.example.com:443", "app.example.com"),
        ("[::1]:8443", "::1"),
        ("[::1]", "::1"),
    ],
)
def test_case_port_and_one_trailing_dot_do_not_change_the_name(sent: str, hostname: str) -> None:
    """B64, R28. The host itself goes upstream as it was sent."""
    found = context(peer=CLIENT, host=sent)
    assert (found.host, found.hostname) == (sent, hostname)


def test_http_1_0_without_a_host_has_an_empty_one() -> None:
    found = context(peer=CLIENT, host=None)
    assert (found.host, found.hostname) == ("", None)


def test_a_proxy_may_name_the_host_that_http_1_0_left_out() -> None:
    found = context(("X-Forwarded-Host", "public.example"), host=None)
    assert (found.host, found.hostname) == ("public.example", "public.example")


def test_a_name_that_only_folds_to_a_forwarding_header_is_not_read() -> None:
    found = context(("X_Forwarded_For", "192.0.2.1"), ("X-Forwarded.Host", "evil.example"))
    assert (found.client, found.host) == (PROXY, "app.example")
