"""Hostile and unusual responses of an upstream as bytes, with what becomes of each.

`expect` is `OK` or `bad_gateway`; `body` is what the caller may see; `reusable` says whether the connection may carry
another exchange, which also takes that nothing stands behind the response.
"""

from __future__ import annotations

from dataclasses import dataclass

OK = "OK"
BAD = "bad_gateway"


@dataclass(frozen=True)
class Response:
    """One upstream connection's output in answer to one request with `method`, closed behind it when `eof`."""

    name: str
    raw: bytes
    expect: str = OK
    method: str = "GET"
    body: bytes = b""
    reusable: bool = True
    eof: bool = False
    bugs: tuple[str, ...] = ()


def _head(*lines: bytes, first: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"\r\n".join((first, *lines)) + b"\r\n\r\n"


def _bad(group: str, bugs: tuple[str, ...], cases: dict[str, bytes]) -> list[Response]:
    return [Response(f"{group}: {name}", raw, BAD, bugs=bugs) for name, raw in cases.items()]


_B11 = ("B11",)
BODILESS = [
    Response("bodiless: HEAD with a length", _head(b"Content-Length: 5"), method="HEAD", bugs=_B11),
    Response(
        "bodiless: HEAD with a body", _head(b"Content-Length: 5") + b"hello", method="HEAD", reusable=False, bugs=_B11
    ),
    Response("bodiless: HEAD with chunked", _head(b"Transfer-Encoding: chunked"), method="HEAD", bugs=_B11),
    Response("bodiless: HEAD without framing", _head(), method="HEAD", bugs=_B11),
    Response("bodiless: 204", _head(first=b"HTTP/1.1 204 No Content"), bugs=_B11),
    Response("bodiless: 204 with length 0", _head(b"Content-Length: 0", first=b"HTTP/1.1 204 -"), bugs=_B11),
    Response(
        "bodiless: 204 with a body",
        _head(b"Content-Length: 5", first=b"HTTP/1.1 204 -") + b"hello",
        reusable=False,
        bugs=_B11,
    ),
    Response(
        "bodiless: 204 with chunks",
        _head(b"Transfer-Encoding: chunked", first=b"HTTP/1.1 204 -") + b"0\r\n\r\n",
        reusable=False,
        bugs=_B11,
    ),
    Response("bodiless: 205 with length 0", _head(b"Content-Length: 0", first=b"HTTP/1.1 205 -"), bugs=_B11),
    Response("bodiless: 205 without framing", _head(first=b"HTTP/1.1 205 -"), reusable=False, bugs=_B11),
    Response(
        "bodiless: 205 with a body",
        _head(b"Content-Length: 5", first=b"HTTP/1.1 205 -") + b"hello",
        reusable=False,
        bugs=_B11,
    ),
    Response("bodiless: 304 with a length", _head(b"Content-Length: 5", first=b"HTTP/1.1 304 -"), bugs=_B11),
    Response(
        "bodiless: 304 with chunks",
        _head(b"Transfer-Encoding: chunked", first=b"HTTP/1.1 304 -") + b"0\r\n\r\n",
        reusable=False,
        bugs=_B11,
    ),
]

_B01 = ("B01", "B02", "R02")
FRAMING = [
    *_bad(
        "framing",
        _B01,
        {
            "length and coding": _head(b"Content-Length: 6", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
            "coding and length": _head(b"Transfer-Encoding: chunked", b"Content-Length: 6") + b"0\r\n\r\n",
            "two lengths": _head(b"Content-Length: 5", b"Content-Length: 6") + b"hello!",
            "two equal lengths": _head(b"Content-Length: 5", b"Content-Length: 5") + b"hello",
            "a list of lengths": _head(b"Content-Length: 5, 5") + b"hello",
            "a signed length": _head(b"Content-Length: +5") + b"hello",
            "a length over 63 bits": _head(b"Content-Length: 9223372036854775808"),
            "an unknown coding": _head(b"Transfer-Encoding: gzip"),
            "a list of codings": _head(b"Transfer-Encoding: gzip, chunked"),
            "two codings": _head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
            "a coding with a tab": _head(b"Transfer-Encoding: chunked\t"),
            "a coding in HTTP/1.0": _head(b"Transfer-Encoding: chunked", first=b"HTTP/1.0 200 OK"),
            "a coding on HEAD's status with length": _head(
                b"Content-Length: 5", b"Transfer-Encoding: chunked", first=b"HTTP/1.1 304 -"
            ),
            "an interim response with a length": _head(b"Content-Length: 5", first=b"HTTP/1.1 103 -") + b"hello",
            "a broken chunk": _head(b"Transfer-Encoding: chunked") + b"5\r\nhelloXX0\r\n\r\n",
            "a chunk line with a bare LF": _head(b"Transfer-Encoding: chunked") + b"5\nhello\r\n0\r\n\r\n",
            "a malformed trailer": _head(b"Transfer-Encoding: chunked") + b"0\r\nX\r\n\r\n",
        },
    ),
    Response("framing: cut short", _head(b"Content-Length: 5") + b"hell", BAD, eof=True, bugs=_B01),
    Response("framing: chunks cut short", _head(b"Transfer-Encoding: chunked") + b"5\r\nhello\r\n", BAD, eof=True),
    Response("framing: a length", _head(b"Content-Length: 5") + b"hello", body=b"hello"),
    Response("framing: more than the length", _head(b"Content-Length: 5") + b"hello!", body=b"hello", reusable=False),
    Response(
        "framing: chunks", _head(b"Transfer-Encoding: Chunked") + b"5;x\r\nhello\r\n0\r\nX: \xe9\r\n\r\n", body=b"hello"
    ),
    Response("framing: until close", _head() + b"hello", body=b"hello", reusable=False, eof=True),
    Response(
        "framing: HTTP/1.0 until close",
        _head(first=b"HTTP/1.0 200 OK") + b"hello",
        body=b"hello",
        reusable=False,
        eof=True,
    ),
    Response(
        "framing: HTTP/1.0 with a length",
        _head(b"Content-Length: 5", first=b"HTTP/1.0 200 OK") + b"hello",
        body=b"hello",
        reusable=False,
    ),
    Response(
        "framing: HTTP/1.0 kept alive",
        _head(b"Content-Length: 5", b"Connection: keep-alive", first=b"HTTP/1.0 200 OK") + b"hello",
        body=b"hello",
    ),
    Response("framing: close", _head(b"Content-Length: 0", b"Connection: x, Close"), reusable=False),
    Response(
        "framing: interim responses in front",
        _head(first=b"HTTP/1.1 100 Continue")
        + _head(b"Link: </a>", first=b"HTTP/1.1 103 Early Hints")
        + _head(b"Content-Length: 5")
        + b"hello",
        body=b"hello",
    ),
]

LINES = [
    *_bad(
        "lines",
        ("B07",),
        {
            "a fold": _head(b"X: a", b" b", b"Content-Length: 0"),
            "a bare LF": _head(b"X: a\nY: b", b"Content-Length: 0"),
            "a bare CR": _head(b"X: a\rY: b", b"Content-Length: 0"),
            "bare LFs throughout": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
            "NUL": _head(b"X: a\0", b"Content-Length: 0"),
            "a control byte": _head(b"X: \x1b[31m", b"Content-Length: 0"),
            "a space before the colon": _head(b"X : a", b"Content-Length: 0"),
            "no colon": _head(b"X", b"Content-Length: 0"),
            "a byte of UTF-8 in a name": _head("\u00e9: a".encode(), b"Content-Length: 0"),
            "an empty line in front": b"\r\n" + _head(b"Content-Length: 0"),
            "HTTP/2.0": _head(b"Content-Length: 0", first=b"HTTP/2.0 200 OK"),
            "HTTP/1.2": _head(b"Content-Length: 0", first=b"HTTP/1.2 200 OK"),
            "another protocol": _head(b"Content-Length: 0", first=b"ICY 200 OK"),
            "a status of two digits": _head(b"Content-Length: 0", first=b"HTTP/1.1 20 OK"),
            "a status of four digits": _head(b"Content-Length: 0", first=b"HTTP/1.1 2000 OK"),
            "a status below 100": _head(b"Content-Length: 0", first=b"HTTP/1.1 099 OK"),
            "no status": _head(b"Content-Length: 0", first=b"HTTP/1.1 OK"),
            "a request": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "501 headers": _head(b"Content-Length: 0", *[b"X: a"] * 500),
            "a head over 64 KiB": _head(b"Content-Length: 0", b"X: " + b"a" * 65536),
            "a head without end": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000,
            "a reason without end": b"HTTP/1.1 200 " + b"a" * 70_000,
        },
    ),
    Response("lines: no reason", _head(b"Content-Length: 0", first=b"HTTP/1.1 200")),
    Response("lines: an empty reason", _head(b"Content-Length: 0", first=b"HTTP/1.1 200 ")),
    Response("lines: a long reason", _head(b"Content-Length: 0", first=b"HTTP/1.1 200 " + b"a" * 9000)),
    Response("lines: UTF-8 in the reason", _head(b"Content-Length: 0", first="HTTP/1.1 200 \u00e9".encode())),
    Response("lines: UTF-8 in a value", _head(b"Content-Length: 0", "X: \u00e9".encode())),
    Response("lines: 500 headers", _head(b"Content-Length: 0", *[b"X: a"] * 499)),
    Response("lines: status 999", _head(b"Content-Length: 0", first=b"HTTP/1.1 999 -")),
]

RESPONSES: tuple[Response, ...] = (*BODILESS, *FRAMING, *LINES)
