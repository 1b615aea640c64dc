"""Where real nginx and Caddy read the hostile requests otherwise than the gateway does, as data.

Recorded with nginx 1.22 and Caddy 2.11, as reverse proxies with their defaults. A version that is stricter than these
is no news; one that refuses what the gateway accepts, or passes on what is not listed here, is.
"""

from __future__ import annotations

WE_ACCEPT: dict[str, dict[str, str]] = {
    "nginx": {
        "request line: a lower-case method": "it wants upper case; methods are case-sensitive tokens (RFC 9110 §9.1)",
        "target: a star for OPTIONS": "it answers 400; the asterisk form is legal (RFC 9112 §3.2.4)",
        "target: 8192 bytes": "its bound on a request line is 8 KiB in all; CONTRACT §2.5 gives the target alone 8 KiB",
        "sizes: a head of 32768 bytes": "its bound on one header is 8 KiB; CONTRACT §2.5 has none of its own",
    },
    "caddy": {
        "chunks: spaces around": "it wants none around an extension; RFC 9112 §7.1.1 allows them, and they are dropped",
        "lines: an empty line in front": "it refuses one; RFC 9112 §2.2 has servers ignore it",
        "target: a star for OPTIONS": "it answers by itself and asks no upstream",
        "connection: an expectation in HTTP/1.0": "it answers 417; RFC 9110 §10.1.1 has it ignored",
        "sizes: a head of 32768 bytes": "its bound on a head is smaller",
    },
}
"""Cases that the gateway passes on and the peer does not, each with the reason why that is right."""

THEY_ACCEPT: dict[str, dict[str, tuple[str, ...]]] = {
    "nginx": {
        "chunks": (
            "16 KiB of extensions around 20 bytes", "LF behind the data", "LF behind the last chunk",
            "LF behind the size", "NUL in an extension", "a lone semicolon", "a quote that hides the end",
            "a space behind", "a tab behind", "an extension of 1025 bytes", "an extension without name",
            "an extension without semicolon", "an extension without value", "an open quote",
            "an open quote with semicolon", "data shorter than said", "seventeen digits",
        ),
        "codings": ("dotted name", "hidden behind a bare LF", "underscored name"),
        "connection": (
            "an empty expectation", "an upgrade with a length", "an upgrade with chunks", "another expectation",
            "two expectations",
        ),
        "host": (
            "254 bytes", "IPv4 as one number", "IPv4 in brackets", "IPv4 in hexadecimal", "IPv4 in octal",
            "IPv4 of five parts", "IPv4 of three parts", "IPv4 out of range", "IPv6 of nine groups",
            "IPv6 with an empty port", "IPv6 without an end", "IPvFuture", "UTF-8", "a backslash", "a comma",
            "a fragment", "a label of 64", "a leading dot", "a name behind the bracket", "a name in brackets",
            "a negative port", "a port above 65535", "a port of letters", "a port of six digits", "a query",
            "a signed port", "a star", "a zone", "an empty port", "an escape", "an escaped zone",
            "bytes behind the bracket", "empty brackets", "port 65536", "quoted", "two ports", "user info",
            "user info with a password",
        ),
        "lengths": ("underscored name",),
        "lines": (
            "DEL in the value", "LF in front of the blank line", "a bare LF between lines",
            "a blank line of LF CR LF", "a byte of Latin-1 in the value", "a byte of UTF-8 in the name",
            "a byte of UTF-8 in the value", "a form feed in the value", "a slash in the name", "an LF in front",
            "an escape sequence in the value", "bare LFs throughout", "two empty lines in front",
        ),
        "request line": (
            "HTTP/0.9", "HTTP/1.2", "Latin-1 in the target", "UTF-8 in the target", "a space at the end",
            "two digits", "two spaces", "two spaces behind",
        ),
        "sizes": ("1000 headers", "101 headers"),
        "target": (
            "a fragment", "a fragment in front of dots", "a fragment in the absolute form", "a fragment in the query",
            "an absolute form below the host", "an absolute form of another host", "an absolute form of another port",
            "an absolute form with an empty port", "an absolute form without Host in HTTP/1.0", "another scheme",
            "ws",
        ),
        "trailers": (
            "1000", "101", "33 KiB in one line", "33 KiB without end", "NUL", "a bare LF", "a byte of UTF-8",
            "a fold", "a fold first", "a request in their place", "a space before the colon", "no colon", "no name",
        ),
    },
    "caddy": {
        "chunks": (
            "LF behind the last chunk", "NUL in an extension", "a lone semicolon", "a quote that hides the end",
            "a space behind", "a tab behind", "an extension of 1025 bytes", "an extension without name",
            "an extension without value", "an open quote", "an open quote with semicolon",
        ),
        "codings": (
            "HTTP/1.0", "HTTP/1.0 kept alive", "a folded value", "a tab behind", "a tab in front", "dotted name",
            "hidden behind a bare LF", "underscored name",
        ),
        "connection": (
            "an empty expectation", "an expectation in two lines", "an upgrade with a length",
            "an upgrade with chunks", "two expectations",
        ),
        "host": (
            "254 bytes", "IPv4 as one number", "IPv4 in brackets", "IPv4 in hexadecimal", "IPv4 in octal",
            "IPv4 of five parts", "IPv4 of three parts", "IPv4 out of range", "IPv6 of nine groups",
            "IPv6 with an empty port", "IPv6 without a start", "IPv6 without an end", "IPv6 without brackets",
            "IPvFuture", "a comma", "a label of 64", "a leading dot", "a lone dot", "a name behind the bracket",
            "a name in brackets", "a negative port", "a port above 65535", "a port alone", "a port of letters",
            "a port of six digits", "a signed port", "a star", "a zone", "an empty label", "an empty port",
            "an escape", "an escaped zone", "bytes behind the bracket", "empty brackets", "port 65536", "two ports",
            "two trailing dots",
        ),
        "lengths": (
            "a tab behind", "a tab in front", "coding and length", "length and coding", "mixed case with coding",
            "two equal", "two equal of other case", "underscored name",
        ),
        "lines": (
            "LF in front of the blank line", "a bare LF between lines", "a blank line of LF CR LF",
            "a byte of Latin-1 in the value", "a byte of UTF-8 in the value", "a fold of spaces only",
            "a folded length", "a folded value", "a value folded by a tab", "bare LFs throughout",
        ),
        "request line": ("HTTP/1.2", "Latin-1 in the target", "UTF-8 in the target"),
        "sizes": ("1000 headers", "101 headers"),
        "target": (
            "8193 bytes", "9000 bytes", "CONNECT", "CONNECT to a path", "CONNECT to another host", "a fragment",
            "a fragment in front of dots", "a fragment in the absolute form", "a fragment in the query",
            "a scheme without slashes", "a star for GET", "an absolute form below the host",
            "an absolute form of another host", "an absolute form of another port",
            "an absolute form with an empty port", "an absolute form with user info",
            "an absolute form with user info of another host", "an absolute form without Host in HTTP/1.0",
            "an absolute form without authority", "another scheme", "authority form", "file", "ws",
        ),
        "trailers": ("101", "a bare LF", "a byte of UTF-8", "a fold", "a space before the colon"),
    },
}  # fmt: skip
"""Cases that the gateway refuses, by group, and of which the peer passes at least one request on to its upstream."""
