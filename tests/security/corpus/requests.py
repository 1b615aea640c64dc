"""Hostile and unusual requests as bytes, with what becomes of each: for the parser, for sockets and for comparisons.

Every case is one whole connection's input. `expect` is `OK`, or the error code of the answer that ends the connection;
`read` is how many requests are read whole before that. No case ever leads to a request for `HIDDEN`.
"""

from __future__ import annotations

from dataclasses import dataclass

OK = "OK"
HIDDEN = "/hidden"
_SMUGGLED = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass(frozen=True)
class Case:
    """`bugs` are the lines of the collection of public reports that the case comes from."""

    name: str
    raw: bytes
    expect: str
    read: int = 0
    bugs: tuple[str, ...] = ()


def _get(*lines: bytes, first: bytes = b"GET /a HTTP/1.1") -> bytes:
    return b"\r\n".join((first, *lines)) + b"\r\n\r\n"


def _host(*lines: bytes) -> bytes:
    return _get(b"Host: a", *lines)


def _post(*lines: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    return _get(b"Host: a", *lines, first=b"POST /a HTTP/" + version) + body


def _chunked(body: bytes) -> bytes:
    return _post(b"Transfer-Encoding: chunked", body=body)


def _target(target: bytes, method: bytes = b"GET", host: bytes = b"a") -> bytes:
    return _get(b"Host: " + host, first=method + b" " + target + b" HTTP/1.1")


def _refused(group: str, bugs: tuple[str, ...], cases: dict[str, bytes], code: str = "bad_request") -> list[Case]:
    return [Case(f"{group}: {name}", raw, code, 0, bugs) for name, raw in cases.items()]


def _read(group: str, bugs: tuple[str, ...], cases: dict[str, bytes], count: int = 1) -> list[Case]:
    return [Case(f"{group}: {name}", raw, OK, count, bugs) for name, raw in cases.items()]


_B01 = ("B01", "R02")
LENGTHS = [
    *_refused(
        "lengths",
        _B01,
        {
            "length and coding": _post(
                b"Content-Length: 6", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + _SMUGGLED
            ),
            "coding and length": _post(
                b"Transfer-Encoding: chunked", b"Content-Length: 6", body=b"0\r\n\r\n" + _SMUGGLED
            ),
            "two different": _post(b"Content-Length: 47", b"Content-Length: 0", body=_SMUGGLED),
            "two different, longer last": _post(b"Content-Length: 0", b"Content-Length: 47", body=_SMUGGLED),
            "two equal": _post(b"Content-Length: 5", b"Content-Length: 5", body=b"hello"),
            "two equal of other case": _post(b"Content-Length: 5", b"cONTENT-lENGTH: 5", body=b"hello"),
            "a list of equals": _post(b"Content-Length: 5, 5", body=b"hello"),
            "a list of two": _post(b"Content-Length: 5, 6", body=b"hello!"),
            "a list with an empty entry": _post(b"Content-Length: 5,", body=b"hello"),
            "a sign": _post(b"Content-Length: +5", body=b"hello"),
            "negative": _post(b"Content-Length: -1"),
            "hexadecimal": _post(b"Content-Length: 0x5", body=b"hello"),
            "a fraction": _post(b"Content-Length: 5.0", body=b"hello"),
            "an underscore": _post(b"Content-Length: 1_0", body=b"helloworld"),
            "empty": _post(b"Content-Length: "),
            "a tab behind": _post(b"Content-Length: 5\t", body=b"hello"),
            "a tab in front": _post(b"Content-Length:\t5", body=b"hello"),
            "a space inside": _post(b"Content-Length: 5 0", body=b"hello"),
            "quoted": _post(b'Content-Length: "5"', body=b"hello"),
            "over 63 bits": _post(b"Content-Length: 9223372036854775808"),
            "wraps around 64 bits": _post(b"Content-Length: 18446744073709551621", body=b"hello"),
            "a hundred digits": _post(b"Content-Length: " + b"1" * 100),
            "other digits": _post("Content-Length: ٥".encode(), body=b"hello"),
            "underscored name": _post(b"Content_Length: 5", body=b"hello"),
            "mixed case with coding": _post(
                b"tRANSFER-eNCODING: CHUNKED", b"Content-Length: 6", body=b"0\r\n\r\n" + _SMUGGLED
            ),
        },
    ),
    *_read(
        "lengths",
        _B01,
        {
            "none": _post(),
            "zero": _post(b"Content-Length: 0"),
            "five": _post(b"Content-Length: 5", body=b"hello"),
            "leading zeros": _post(b"Content-Length: 0005", body=b"hello"),
            "spaces around": _post(b"Content-Length:   5  ", body=b"hello"),
            "on GET": _host(b"Content-Length: 5") + b"hello",
        },
    ),
    Case(
        "lengths: a request in the body",
        _post(b"Content-Length: %d" % len(_SMUGGLED), body=_SMUGGLED) + _target(b"/next"),
        OK,
        2,
        _B01,
    ),
]

_B02 = ("B02", "R02")
CODINGS = [
    *_refused(
        "codings",
        _B02,
        {
            "two lines": _post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
            "two lines, identity last": _post(
                b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", body=b"0\r\n\r\n"
            ),
            "a tab behind": _post(b"Transfer-Encoding: chunked\t", body=b"0\r\n\r\n"),
            "a tab in front": _post(b"Transfer-Encoding:\tchunked", body=b"0\r\n\r\n"),
            "a vertical tab": _post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
            "unknown with length": _post(b"Transfer-Encoding: xchunked", b"Content-Length: 5", body=b"hello"),
            "list with length": _post(b"Transfer-Encoding: chunked, gzip", b"Content-Length: 5", body=b"hello"),
            "a tab, with length": _post(b"Transfer-Encoding: chunked\t", b"Content-Length: 5", body=b"hello"),
            "a space before the colon": _post(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n"),
            "a tab before the colon": _post(b"Transfer-Encoding\t: chunked", body=b"0\r\n\r\n"),
            "underscored name": _post(b"Transfer_Encoding: chunked", body=b"0\r\n\r\n"),
            "dotted name": _post(b"Transfer.Encoding: chunked", body=b"0\r\n\r\n"),
            "HTTP/1.0": _post(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n", version=b"1.0"),
            "HTTP/1.0 kept alive": _post(
                b"Connection: keep-alive", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + _SMUGGLED, version=b"1.0"
            ),
            "a folded value": _post(b"Transfer-Encoding:", b" chunked", body=b"0\r\n\r\n"),
            "without Host": _get(b"Transfer-Encoding: chunked", first=b"POST /a HTTP/1.1"),
            "hidden behind a bare LF": _post(b"X: y\nTransfer-Encoding: chunked", body=b"0\r\n\r\n"),
            "hidden behind a bare CR": _post(b"X: y\rTransfer-Encoding: chunked", body=b"0\r\n\r\n"),
        },
    ),
    *_refused(
        "codings",
        _B02,
        {
            "a comma behind": _post(b"Transfer-Encoding: chunked,", body=b"0\r\n\r\n"),
            "gzip behind": _post(b"Transfer-Encoding: chunked, gzip", body=b"0\r\n\r\n"),
            "gzip in front": _post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
            "twice": _post(b"Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"),
            "xchunked in the list": _post(b"Transfer-Encoding: chunked, xchunked", body=b"0\r\n\r\n"),
            "xchunked": _post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
            "identity": _post(b"Transfer-Encoding: identity", body=b"hello"),
            "quoted": _post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"),
            "with a parameter": _post(b"Transfer-Encoding: chunked;q=1", body=b"0\r\n\r\n"),
            "empty": _post(b"Transfer-Encoding: "),
        },
        "not_implemented",
    ),
    *_read(
        "codings",
        _B02,
        {
            "chunked": _chunked(b"5\r\nhello\r\n0\r\n\r\n"),
            "upper case": _post(b"TRANSFER-ENCODING: CHUNKED", body=b"5\r\nhello\r\n0\r\n\r\n"),
            "spaces around": _post(b"Transfer-Encoding:  chunked  ", body=b"5\r\nhello\r\n0\r\n\r\n"),
        },
    ),
]

_EXTENSION_MAX = b";" + b"x" * 1023
CHUNKS = [
    *_refused(
        "chunks",
        ("B04", "R01"),
        {
            "LF in an extension": _chunked(b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
            "CR in an extension": _chunked(b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
            "NUL in an extension": _chunked(b"5;a=\0\r\nhello\r\n0\r\n\r\n"),
            "LF behind the size": _chunked(b"5\nhello\r\n0\r\n\r\n"),
            "CR behind the size": _chunked(b"5\rhello\r\n0\r\n\r\n"),
            "CR CR LF": _chunked(b"5\r\r\nhello\r\n0\r\n\r\n"),
            "LF behind the last chunk": _chunked(b"5\r\nhello\r\n0\n\n" + _SMUGGLED),
            "CRLF in a quoted value": _chunked(b'1;a="\r\n"\r\nx\r\n0\r\n\r\n'),
            "an open quote": _chunked(b'1;a="b\r\nx\r\n0\r\n\r\n'),
            "an open quote with semicolon": _chunked(b'1;a="b;c\r\nx\r\n0\r\n\r\n'),
            "a quote that hides the end": _chunked(b'2;a="\r\nhi\r\n0\r\n\r\n' + _SMUGGLED + b'"\r\n0\r\n\r\n'),
            "an escaped CR in a quote": _chunked(b'1;a="\\\r\n"\r\nx\r\n0\r\n\r\n'),
            "an extension without name": _chunked(b"1;=b\r\nx\r\n0\r\n\r\n"),
            "an extension without value": _chunked(b"1;a=\r\nx\r\n0\r\n\r\n"),
            "a lone semicolon": _chunked(b"1;\r\nx\r\n0\r\n\r\n"),
            "an extension without semicolon": _chunked(b"1 a\r\nx\r\n0\r\n\r\n"),
            "an extension of 1025 bytes": _chunked(b"1" + _EXTENSION_MAX + b"x\r\nx\r\n0\r\n\r\n"),
            "an extension without end": _chunked(b"1;" + b"x" * 4096),
            "16 KiB of extensions around 20 bytes": _chunked(
                (b"1" + _EXTENSION_MAX + b"\r\nx\r\n") * 20 + b"0\r\n\r\n"
            ),
        },
    ),
    *_refused(
        "chunks",
        ("B05",),
        {
            "XX behind the data": _chunked(b"5\r\nhelloXX0\r\n\r\n"),
            "nothing behind the data": _chunked(b"5\r\nhello0\r\n\r\n"),
            "LF behind the data": _chunked(b"5\r\nhello\n0\r\n\r\n"),
            "CR behind the data": _chunked(b"5\r\nhello\r0\r\n\r\n"),
            "data longer than said": _chunked(b"4\r\nhello\r\n0\r\n\r\n"),
            "data shorter than said": _chunked(b"6\r\nhello\r\n0\r\n\r\n"),
            "X: behind the last chunk": _chunked(b"5\r\nhello\r\n0X:\r\n\r\n"),
            "an empty size line": _chunked(b"5\r\nhello\r\n\r\n"),
            "an empty size line first": _chunked(b"\r\n0\r\n\r\n"),
        },
    ),
    *_refused(
        "chunks",
        ("B05", "R01"),
        {
            "a plus": _chunked(b"+5\r\nhello\r\n0\r\n\r\n"),
            "a minus": _chunked(b"-5\r\nhello\r\n0\r\n\r\n"),
            "0x": _chunked(b"0x5\r\nhello\r\n0\r\n\r\n"),
            "an underscore": _chunked(b"0_5\r\nhello\r\n0\r\n\r\n"),
            "a space in front": _chunked(b" 5\r\nhello\r\n0\r\n\r\n"),
            "a space behind": _chunked(b"5 \r\nhello\r\n0\r\n\r\n"),
            "a tab behind": _chunked(b"5\t\r\nhello\r\n0\r\n\r\n"),
            "a letter beyond F": _chunked(b"5g\r\nhello\r\n0\r\n\r\n"),
            "seventeen digits": _chunked(b"00000000000000005\r\nhello\r\n0\r\n\r\n"),
            "over 63 bits": _chunked(b"8000000000000000\r\nhello"),
            "wraps around 64 bits": _chunked(b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
        },
    ),
    *_read(
        "chunks",
        ("B04", "R01"),
        {
            "an extension": _chunked(b"5;a\r\nhello\r\n0\r\n\r\n"),
            "a value": _chunked(b"5;a=b;c=d\r\nhello\r\n0;e\r\n\r\n"),
            "a quoted value": _chunked(b'5;a="b;c \\" d"\r\nhello\r\n0\r\n\r\n'),
            "spaces around": _chunked(b"5 ; a = b\r\nhello\r\n0\r\n\r\n"),
            "an extension of 1024 bytes": _chunked(b"5" + _EXTENSION_MAX + b"\r\nhello\r\n0\r\n\r\n"),
            "either case": _chunked(b"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n"),
            "leading zeros": _chunked(b"0005\r\nhello\r\n000\r\n\r\n"),
        },
    ),
    Case(
        "chunks: a request in the data",
        _chunked(b"%x\r\n" % len(_SMUGGLED) + _SMUGGLED + b"\r\n0\r\n\r\n") + _target(b"/next"),
        OK,
        2,
        ("B05",),
    ),
]

_B07 = ("B07",)
LINES = [
    *_refused(
        "lines",
        _B07,
        {
            "a folded length": _post(b"Content-Length:", b" 6", body=b"hello!"),
            "a folded value": _host(b"X: a", b" b"),
            "a value folded by a tab": _host(b"X: a", b"\tb"),
            "a fold behind the request line": _get(b" Host: a"),
            "a fold of spaces only": _host(b"X: a", b"   "),
            "a space before the colon": _post(b"Content-Length : 6", body=b"hello!"),
            "a space before the colon of Host": _get(b"Host : a"),
            "no colon": _host(b"Content-Length 6"),
            "no name": _host(b": a"),
            "a space in the name": _host(b"X Y: a"),
            "a slash in the name": _host(b"X/Y: a"),
            "a byte of UTF-8 in the name": _host("X\u00e9: a".encode()),
            "a byte of UTF-8 in the value": _host("X: \u00e9".encode()),
            "a byte of Latin-1 in the value": _host(b"X: \xe9"),
            "NUL in the value": _host(b"X: a\0b"),
            "NUL in the name": _host(b"X\0: a"),
            "an escape sequence in the value": _host(b"X: \x1b[31m"),
            "DEL in the value": _host(b"X: \x7f"),
            "a form feed in the value": _host(b"X: a\x0cb"),
            "a bare LF between lines": b"GET /a HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
            "bare LFs throughout": b"GET /a HTTP/1.1\nHost: a\n\n",
            "a bare CR between lines": b"GET /a HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
            "CR CR LF": b"GET /a HTTP/1.1\r\r\nHost: a\r\n\r\n",
            "LF CR": b"GET /a HTTP/1.1\n\rHost: a\r\n\r\n",
            "LF in front of the blank line": b"GET /a HTTP/1.1\r\nHost: a\r\n\n" + _SMUGGLED,
            "a blank line of LF CR LF": b"GET /a HTTP/1.1\r\nHost: a\n\r\n" + _SMUGGLED,
            "two empty lines in front": b"\r\n\r\n" + _host(),
            "an LF in front": b"\n" + _host(),
            "a space in front": b" " + _host(),
            "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
            "an SSH greeting": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        },
    ),
    *_read(
        "lines",
        _B07,
        {
            "an empty line in front": b"\r\n" + _host(),
            "an empty value": _host(b"X:"),
            "no space behind the colon": _host(b"X:a"),
            "a tab in a value": _host(b"X: a\tb"),
            "a value of punctuation": _host(b"X: \"'<>{}[]\\^`|~;,=@"),
            "a name of punctuation": _host(b"!#$%&'*+-.^_`|~: a"),
        },
    ),
]

_FIRST = ("B07", "B08")
REQUEST_LINES = [
    *_refused(
        "request line",
        _FIRST,
        {
            "HTTP/0.9": b"GET /a\r\n\r\n",
            "two spaces": _get(b"Host: a", first=b"GET  /a HTTP/1.1"),
            "two spaces behind": _get(b"Host: a", first=b"GET /a  HTTP/1.1"),
            "a tab": _get(b"Host: a", first=b"GET\t/a HTTP/1.1"),
            "a space at the end": _get(b"Host: a", first=b"GET /a HTTP/1.1 "),
            "a space in the target": _get(b"Host: a", first=b"GET /a b HTTP/1.1"),
            "a space that forges a version": _get(b"Host: a", first=b"GET /a HTTP/1.1 HTTP/1.1"),
            "a lower-case name": _get(b"Host: a", first=b"GET /a http/1.1"),
            "another protocol": _get(b"Host: a", first=b"GET /a ICY/1.1"),
            "no minor version": _get(b"Host: a", first=b"GET /a HTTP/1"),
            "two digits": _get(b"Host: a", first=b"GET /a HTTP/1.10"),
            "two digits in front": _get(b"Host: a", first=b"GET /a HTTP/11.1"),
            "no method": _get(b"Host: a", first=b" /a HTTP/1.1"),
            "a method that is no token": _get(b"Host: a", first=b"G(T /a HTTP/1.1"),
            "an empty target": _get(b"Host: a", first=b"GET  HTTP/1.1"),
            "NUL in the target": _target(b"/a\0b"),
            "a control byte in the target": _target(b"/a\x01b"),
            "DEL in the target": _target(b"/a\x7f"),
            "UTF-8 in the target": _target("/\u00e9".encode()),
            "Latin-1 in the target": _target(b"/\xe9"),
            "a tab in the target": _target(b"/a\tb"),
        },
    ),
    *_refused(
        "request line",
        _FIRST,
        {
            "HTTP/1.2": _get(b"Host: a", first=b"GET /a HTTP/1.2"),
            "HTTP/2.0": _get(b"Host: a", first=b"GET /a HTTP/2.0"),
            "HTTP/0.9 named": _get(b"Host: a", first=b"GET /a HTTP/0.9"),
            "HTTP/1.9 without Host": _get(first=b"GET /a HTTP/1.9"),
            "the HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        },
        "http_version_not_supported",
    ),
    *_read(
        "request line",
        _FIRST,
        {
            "a method of its own": _target(b"/a", b"PURGE"),
            "a lower-case method": _target(b"/a", b"get"),
            "escapes": _target(b"/a%2Fb%00%zz"),
            "bytes that URLs should not have": _target(b'/a"<>\\^`{|}'),
            "a double slash": _target(b"//a"),
        },
    ),
]

_B08 = ("B08", "R28", "B64")
HOSTS = [
    *_refused(
        "host",
        _B08,
        {
            "none": _get(b"X: a"),
            "two equal": _get(b"Host: a", b"Host: a"),
            "two different": _get(b"Host: a", b"Host: b"),
            "two in HTTP/1.0": _get(b"Host: a", b"Host: b", first=b"GET /a HTTP/1.0"),
            "empty": _get(b"Host:"),
            "a space": _get(b"Host: a b"),
            "a tab": _get(b"Host: a\tb"),
            "a path": _get(b"Host: a/b"),
            "a query": _get(b"Host: a?b"),
            "a fragment": _get(b"Host: a#b"),
            "a comma": _get(b"Host: a,b"),
            "a list": _get(b"Host: a, a"),
            "user info": _get(b"Host: user@a"),
            "user info with a password": _get(b"Host: u:p@a"),
            "a backslash": _get(b"Host: a\\b"),
            "an escape": _get(b"Host: a%2eb"),
            "a scheme": _get(b"Host: http://a"),
            "a control byte": _get(b"Host: a\x01"),
            "UTF-8": _get("Host: b\u00fccher.example".encode()),
            "a NUL": _get(b"Host: a\0.example"),
            "a star": _get(b"Host: *"),
            "quoted": _get(b'Host: "a"'),
            "a leading dot": _get(b"Host: .a"),
            "a lone dot": _get(b"Host: ."),
            "an empty label": _get(b"Host: a..b"),
            "two trailing dots": _get(b"Host: app.example.com.."),
            "a label of 64": _get(b"Host: " + b"a" * 64),
            "254 bytes": _get(b"Host: " + b".".join([b"a" * 62] * 4) + b".aa"),
            "an empty port": _get(b"Host: a:"),
            "a port above 65535": _get(b"Host: app.example.com:99999"),
            "port 65536": _get(b"Host: a:65536"),
            "a port of letters": _get(b"Host: a:b"),
            "a negative port": _get(b"Host: a:-1"),
            "a signed port": _get(b"Host: a:+80"),
            "a port of six digits": _get(b"Host: a:000080"),
            "two ports": _get(b"Host: a:80:80"),
            "a port alone": _get(b"Host: :80"),
            "IPv6 without brackets": _get(b"Host: ::1"),
            "IPv6 without an end": _get(b"Host: [::1"),
            "IPv6 without a start": _get(b"Host: ::1]"),
            "bytes behind the bracket": _get(b"Host: [::1]x"),
            "a name behind the bracket": _get(b"Host: [::1].example"),
            "an escaped zone": _get(b"Host: [fe80::1%25eth0]:80"),
            "a zone": _get(b"Host: [fe80::1%eth0]"),
            "a name in brackets": _get(b"Host: [a]"),
            "IPv4 in brackets": _get(b"Host: [127.0.0.1]"),
            "empty brackets": _get(b"Host: []"),
            "IPv6 of nine groups": _get(b"Host: [1:2:3:4:5:6:7:8:9]"),
            "IPv6 with an empty port": _get(b"Host: [::1]:"),
            "IPvFuture": _get(b"Host: [v1.a]"),
            "IPv4 out of range": _get(b"Host: 256.0.0.1"),
            "IPv4 of three parts": _get(b"Host: 127.0.1"),
            "IPv4 as one number": _get(b"Host: 2130706433"),
            "IPv4 in hexadecimal": _get(b"Host: 0x7f.0x1"),
            "IPv4 in octal": _get(b"Host: 0177.0.0.1"),
            "IPv4 of five parts": _get(b"Host: 1.2.3.4.5"),
        },
    ),
    *_read(
        "host",
        _B08,
        {
            "upper case": _get(b"Host: APP.Example.com"),
            "253 bytes and a trailing dot": _get(b"Host: " + b".".join([b"a" * 62] * 4) + b".a."),
            "a label of 63": _get(b"Host: " + b"a" * 63),
            "a trailing dot": _get(b"Host: app.example.com."),
            "a trailing dot and a port": _get(b"Host: app.example.com.:443"),
            "a port": _get(b"Host: app.example.com:443"),
            "port 0": _get(b"Host: a:0"),
            "port 65535": _get(b"Host: a:65535"),
            "a port with zeros": _get(b"Host: a:00080"),
            "an underscore": _get(b"Host: my_service:80"),
            "an A-label": _get(b"Host: xn--bcher-kva.example"),
            "spaces around": _get(b"Host:   a  "),
            "IPv4": _get(b"Host: 127.0.0.1:8080"),
            "IPv6": _get(b"Host: [::1]"),
            "IPv6 and a port": _get(b"Host: [::1]:8443"),
            "IPv6 with IPv4": _get(b"Host: [::ffff:127.0.0.1]"),
            "none in HTTP/1.0": b"GET /a HTTP/1.0\r\n\r\n",
            "one in HTTP/1.0": b"GET /a HTTP/1.0\r\nHost: a\r\n\r\n",
        },
    ),
]

_R07 = ("R07", "B08")
TARGETS = [
    *_refused(
        "target",
        _R07,
        {
            "a fragment": _target(b"/admin#/public"),
            "a fragment in front of dots": _target(b"/public#/../admin"),
            "a fragment in the query": _target(b"/a?b#c"),
            "a fragment alone": _target(b"#"),
            "a fragment behind a star": _target(b"*#", b"OPTIONS"),
            "a fragment in the absolute form": _target(b"http://a/b#c"),
            "a star for GET": _target(b"*"),
            "a star with more": _target(b"*/a", b"OPTIONS"),
            "authority form": _target(b"a:443"),
            "a relative path": _target(b"a/b"),
            "a query alone": _target(b"?a"),
            "a backslash first": _target(b"\\a"),
            "another scheme": _target(b"ftp://a/"),
            "file": _target(b"file:///etc/passwd"),
            "ws": _target(b"ws://a/"),
            "a scheme without slashes": _target(b"http:/a"),
            "an absolute form of another host": _target(b"http://b/"),
            "an absolute form of another port": _target(b"http://a:8080/"),
            "an absolute form with user info": _target(b"http://a@a/"),
            "an absolute form with user info of another host": _target(b"http://a@b/"),
            "an absolute form without authority": _target(b"http:///a"),
            "an absolute form with a backslash": _target(b"http://a\\b/"),
            "an absolute form with an empty port": _target(b"http://a:/"),
            "an absolute form without Host": b"GET http://a/ HTTP/1.1\r\nX: a\r\n\r\n",
            "an absolute form without Host in HTTP/1.0": b"GET http://a/ HTTP/1.0\r\n\r\n",
            "an absolute form below the host": _target(b"http://b.a/"),
        },
    ),
    *_refused(
        "target",
        _R07,
        {
            "CONNECT": _target(b"a:443", b"CONNECT"),
            "CONNECT to another host": _target(b"b:443", b"CONNECT"),
            "CONNECT to a path": _target(b"/a", b"CONNECT"),
        },
        "not_implemented",
    ),
    *_refused(
        "target",
        _R07,
        {
            "8193 bytes": _target(b"/" + b"a" * 8192),
            "9000 bytes": _target(b"/" + b"a" * 8999),
            "no end": b"GET /" + b"a" * 10_000,
        },
        "uri_too_long",
    ),
    *_read(
        "target",
        _R07,
        {
            "an escaped fragment": _target(b"/admin%23/public"),
            "a star for OPTIONS": _target(b"*", b"OPTIONS"),
            "an absolute form": _target(b"http://a/b?c"),
            "an absolute form with the default port": _target(b"http://A.:80/b"),
            "an absolute form of https": _target(b"HTTPS://a/b", host=b"a:443"),
            "an absolute form with the same port": _target(b"http://a:8080/", host=b"a:8080"),
            "an absolute form of IPv6": _target(b"http://[0::1]/", host=b"[::1]"),
            "an absolute form without path": _target(b"http://a"),
            "an absolute form with a query alone": _target(b"http://a?b"),
            "8192 bytes": _target(b"/" + b"a" * 8191),
            "a question mark alone": _target(b"/?"),
        },
    ),
]

_B10 = ("B10",)
_END = b"5\r\nhello\r\n0\r\n"
TRAILERS = [
    *_refused(
        "trailers",
        _B10,
        {
            "no colon": _chunked(_END + b"Content-Length 100\r\n\r\n"),
            "a space before the colon": _chunked(_END + b"X : a\r\n\r\n"),
            "a fold": _chunked(_END + b"X: a\r\n b\r\n\r\n"),
            "a fold first": _chunked(_END + b" X: a\r\n\r\n"),
            "no name": _chunked(_END + b": a\r\n\r\n"),
            "a bare LF": _chunked(_END + b"X: a\nY: b\r\n\r\n"),
            "a bare CR": _chunked(_END + b"X: a\rY: b\r\n\r\n"),
            "NUL": _chunked(_END + b"X: \0\r\n\r\n"),
            "a byte of UTF-8": _chunked(_END + "X: \u00e9\r\n\r\n".encode()),
            "a request in their place": _chunked(_END + _SMUGGLED),
        },
    ),
    *_refused(
        "trailers",
        _B10,
        {
            "101": _chunked(_END + b"X: a\r\n" * 101 + b"\r\n"),
            "1000": _chunked(_END + b"X: a\r\n" * 1000 + b"\r\n"),
            "33 KiB in one line": _chunked(_END + b"X: " + b"a" * 33 * 1024 + b"\r\n\r\n"),
            "33 KiB without end": _chunked(_END + b"a" * 33 * 1024),
        },
        "headers_too_large",
    ),
    *_read(
        "trailers",
        _B10,
        {
            "a length": _chunked(_END + b"Content-Length: 100\r\n\r\n") + _target(b"/next"),
            "a coding": _chunked(_END + b"Transfer-Encoding: chunked\r\n\r\n") + _target(b"/next"),
            "a forwarded address": _chunked(_END + b"X-Forwarded-For: 1.2.3.4\r\n\r\n") + _target(b"/next"),
            "an identity": _chunked(_END + b"X-Gateway-User-Id: admin\r\n\r\n") + _target(b"/next"),
            "a host": _chunked(_END + b"Host: x\r\n\r\n") + _target(b"/next"),
            "a hundred": _chunked(_END + b"X: a\r\n" * 100 + b"\r\n") + _target(b"/next"),
        },
        2,
    ),
]

_WEBSOCKET = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13")
_R04 = ("R04", "R05")
CONNECTIONS = [
    *_refused(
        "connection",
        _R04,
        {
            "an upgrade with a length": _host(*_WEBSOCKET, b"Content-Length: 10") + b"0123456789",
            "an upgrade with chunks": _host(*_WEBSOCKET, b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
        },
    ),
    *_refused(
        "connection",
        _R04,
        {
            "another expectation": _post(b"Expect: 200-ok"),
            "two expectations": _post(b"Expect: 100-continue, 200-ok", b"Content-Length: 1", body=b"a"),
            "an empty expectation": _post(b"Expect:"),
            "an expectation in two lines": _post(b"Expect: 100-continue", b"Expect: other"),
        },
        "expectation_failed",
    ),
    *_read(
        "connection",
        _R04,
        {
            "an upgrade": _host(*_WEBSOCKET),
            "the form of Firefox": _host(b"Connection: keep-alive, Upgrade", b"Upgrade: websocket"),
            "two lines": _host(b"Connection: keep-alive", b"Connection: upgrade", b"Upgrade: WebSocket"),
            "h2c": _host(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__"),
            "h2c with a body": _post(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 5", body=b"hello"),
            "two protocols": _host(b"Connection: Upgrade", b"Upgrade: websocket, foo"),
            "an upgrade in HTTP/1.0": _get(*_WEBSOCKET, first=b"GET /a HTTP/1.0"),
            "an upgrade that Connection does not name": _host(b"Upgrade: websocket"),
            "a listed header": _host(b"Connection: close, X-Custom", b"X-Custom: a"),
            "a listed credential": _host(b"Connection: Authorization, Cookie", b"Authorization: Bearer a"),
            "100-continue": _post(b"Expect: 100-Continue", b"Content-Length: 1", body=b"a"),
            "an expectation in HTTP/1.0": _post(b"Expect: other", version=b"1.0"),
            "close, and more behind it": _host(b"Connection: close") + _SMUGGLED,
            "HTTP/1.0, and more behind it": b"GET /a HTTP/1.0\r\n\r\n" + _SMUGGLED,
        },
    ),
    *_read(
        "connection",
        _R04,
        {
            "pipelined": _host() + _host(),
            "HTTP/1.0 kept alive": b"GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\nGET /b HTTP/1.0\r\n\r\n",
            "an empty line between": _post(b"Content-Length: 1", body=b"a\r\n") + _host(),
        },
        2,
    ),
]

SIZES = [
    *_refused(
        "sizes",
        ("B10",),
        {
            "101 headers": _get(b"Host: a", *[b"X: a"] * 100),
            "1000 headers": _get(b"Host: a", *[b"X: a"] * 999),
            "a head of 32769 bytes": _host(b"X: " + b"a" * (32769 - 33)),
            "64 KiB in one header": _host(b"X: " + b"a" * 65536),
            "a head without end": b"GET /a HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 40_000,
        },
        "headers_too_large",
    ),
    *_read(
        "sizes",
        ("B10",),
        {
            "100 headers": _get(b"Host: a", *[b"X: a"] * 99),
            "a head of 32768 bytes": _host(b"X: " + b"a" * (32768 - 33)),
        },
    ),
]

CASES: tuple[Case, ...] = (
    *LENGTHS,
    *CODINGS,
    *CHUNKS,
    *LINES,
    *REQUEST_LINES,
    *HOSTS,
    *TARGETS,
    *TRAILERS,
    *CONNECTIONS,
    *SIZES,
)
