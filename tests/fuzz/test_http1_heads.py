"""Heads against other readers: an oracle written from the RFCs, llhttp, and our own writer."""

from __future__ import annotations

import re
from typing import TypeVar

import httptools
from hypothesis import given
from hypothesis import strategies as st

from dataplane.errors import ERRORS
from dataplane.http1.authority import parse_authority
from dataplane.http1.heads import CHUNKED, ProtocolError, RequestHead, ResponseHead
from dataplane.http1.request import read_request_head
from dataplane.http1.response import read_response_head
from dataplane.http1.write import request_head, response_head

_T = TypeVar("_T")

TOKEN_CHARS = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Each part of a head in forms that are fine and in forms that are not; a head has at most two of the latter.
TARGETS = (
    [b"/", b"/a?b=c", b"//a", b"http://a/b", b"https://a"],
    [b"/a#b", b"*", b"http://b/", b"a:80", b"/a b", b"\\"],
)
METHODS = ([b"GET", b"POST", b"HEAD", b"OPTIONS", b"get"], [b"CONNECT", b"G(T", b""])
VERSIONS = ([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0"], [b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b"HTTP/1.10"])
ENDS = ([b"\r\n"], [b"\n", b"\r", b"\r\r\n", b"\r\n ", b"\r\n\t", b"\r\n\r\n"])
COLONS = ([b": ", b":", b":  "], [b":\t", b" : ", b"", b"::"])
LINES: tuple[list[tuple[bytes, bytes]], list[tuple[bytes, bytes]]] = (
    [
        (b"content-length", b"3"),
        (b"Content-Length", b"03"),
        (b"Transfer-Encoding", b"chunked"),
        (b"tRANSFER-eNCODING", b"Chunked"),
        (b"Connection", b"close"),
        (b"Connection", b"keep-alive, Upgrade"),
        (b"Upgrade", b"websocket"),
        (b"Upgrade", b"h2c"),
        (b"Expect", b"100-continue"),
        (b"X", b"a\tb"),
        (b"X", b""),
    ],
    [
        (b"Host", b"a"),
        (b"hOST", b"b"),
        (b"Content-Length", b"3, 3"),
        (b"Content-Length", b"+3"),
        (b"Content-Length", b"3\t"),
        (b"Content_Length", b"3"),
        (b"Transfer-Encoding ", b"chunked"),
        (b"Transfer-Encoding", b"chunked\t"),
        (b"Transfer-Encoding", b"chunked, gzip"),
        (b"Transfer-Encoding", b"gzip"),
        (b"Transfer.Encoding", b"chunked"),
        (b"Expect", b"other"),
        (b" X", b"a"),
        (b"X Y", b"a"),
        (b"", b"a"),
        (b"X", b"\xe9"),
        (b"X", b"a\x01b"),
    ],
)
HOSTS = (
    [b"Host: a\r\n", b"host:A.:80\r\n"],
    [b"", b"Host: a,b\r\n", b"Host: a b\r\n", b"Host: [::1\r\n", b"Host: \r\n"],
)


@st.composite
def hostile_heads(draw: st.DrawFn) -> bytes:
    """Request heads with two flaws at most; of many parts, so that a good half has one."""
    flaws = draw(st.integers(0, 2))

    def part(choices: tuple[list[_T], list[_T]]) -> _T:
        nonlocal flaws
        flawed = flaws > 0 and draw(st.integers(0, 5)) == 0
        flaws -= flawed
        return draw(st.sampled_from(choices[flawed]))

    raw = bytearray(b" ".join((part(METHODS), part(TARGETS), part(VERSIONS))) + part(ENDS) + part(HOSTS))
    for _ in range(draw(st.integers(0, 3))):
        name, value = part(LINES)
        raw += name + part(COLONS) + value + part(ENDS)
    raw += b"\r\n"
    if flaws and draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(raw)))
        raw[at : at + draw(st.integers(0, 1))] = draw(st.binary(max_size=2))
    return bytes(raw)


@st.composite
def hostile_responses(draw: st.DrawFn) -> bytes:
    """Response heads with a flaw or none."""
    flaws = draw(st.integers(0, 1))

    def part(choices: tuple[list[_T], list[_T]]) -> _T:
        nonlocal flaws
        flawed = flaws > 0 and draw(st.integers(0, 5)) == 0
        flaws -= flawed
        return draw(st.sampled_from(choices[flawed]))

    raw = bytearray(part(VERSIONS) + b" %d OK" % draw(st.integers(200, 999)) + part(ENDS))
    for _ in range(draw(st.integers(0, 3))):
        name, value = part(LINES)
        raw += name + part(COLONS) + value + part(ENDS)
    return bytes(raw + b"\r\n")


def ambiguity(raw: bytes) -> str:
    """Why two readers could read a head in two ways, judged without the code under test; `""` when they cannot."""
    if not raw.endswith(b"\r\n\r\n"):
        return "no end"
    lines = raw[:-4].split(b"\r\n")
    for line in lines:
        if not line or line[:1] in b" \t":
            return "an empty or folded line"
        if any((byte < 0x20 and byte != 9) or byte >= 0x7F for byte in line):
            return "a byte that readers differ about"
    parts = lines[0].split(b" ")
    if len(parts) != 3 or not all(parts) or b"\t" in lines[0] or b"#" in parts[1]:
        return "the request line"
    if parts[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        return "the version"
    found: dict[str, list[str]] = {}
    for line in lines[1:]:
        name, colon, value = line.decode("ascii").partition(":")
        if not colon or not name or set(name) - set(TOKEN_CHARS):
            return "a header line"
        found.setdefault(name.lower().replace("_", "-").replace(".", "-"), []).append(value)
    lengths, codings, hosts = (found.get(name, []) for name in ("content-length", "transfer-encoding", "host"))
    if len(lengths) + len(codings) > 1 or len(hosts) > 1:
        return "a repeated or double statement"
    if any(not re.fullmatch(" *[0-9]{1,18} *", value) for value in lengths):
        return "the length"
    if any(value.strip(" ").lower() != "chunked" for value in codings) or (codings and parts[2] == b"HTTP/1.0"):
        return "the coding"
    if not hosts and parts[2] == b"HTTP/1.1":
        return "no host"
    host = hosts[0].strip(" \t") if hosts else ""
    if hosts and not re.fullmatch(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9a-fA-F:.]+\](:[0-9]+)?", host):
        return "the host"
    if parts[1][:1] != b"/" and parts[1] != b"*":
        url = re.fullmatch(r"https?://([^/?]+)(?:[/?].*)?", parts[1].decode("ascii"))
        named, said = (re.sub(r"\.?(:80|:443)?$", "", text.lower()) for text in (url[1] if url else "", host))
        if url is None or named != said:
            return "the target"
    return ""


class Llhttp:
    """What llhttp makes of a head."""

    def __init__(self, kind: type[httptools.HttpRequestParser] | type[httptools.HttpResponseParser]) -> None:
        self.parser = kind(self)
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.complete = self.keep_alive = False

    def read(self, raw: bytes) -> bool:
        """Whether llhttp accepts the head."""
        try:
            self.parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            return True
        except httptools.HttpParserError:
            return False
        return True

    def fields(self) -> list[tuple[bytes, bytes]]:
        """The headers without the case of values: h11 lowers that of a coding."""
        return [(name.lower(), value.strip(b" \t").lower()) for name, value in self.headers]

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.complete = True
        # Asked later, it speaks of the message behind this one.
        self.keep_alive = self.parser.should_keep_alive()


def _read(raw: bytes) -> RequestHead | str:
    try:
        return read_request_head(raw)
    except ProtocolError as failure:
        return failure.code


def _read_response(raw: bytes) -> ResponseHead | str:
    try:
        return read_response_head(raw, "GET")
    except ProtocolError as failure:
        return failure.code


@given(hostile_heads())
def test_an_ambiguous_head_is_never_accepted(raw: bytes) -> None:
    if ambiguity(raw):
        assert isinstance(_read(raw), str)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused_and_nothing_else(raw: bytes) -> None:
    for data in (raw, raw + b"\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n" + raw + b"\r\n\r\n"):
        read = _read(data)
        assert isinstance(read, RequestHead) or read in ERRORS
        response = _read_response(data)
        assert isinstance(response, ResponseHead) or response == "bad_gateway"


@given(hostile_heads())
def test_an_accepted_head_is_what_llhttp_reads(raw: bytes) -> None:
    head = _read(raw)
    if isinstance(head, str):
        return
    other = Llhttp(httptools.HttpRequestParser)
    if not other.read(raw):
        return
    parser = other.parser
    assert other.complete
    assert parser.get_method().decode("ascii") == head.method
    assert parser.get_http_version() == ("1.0" if head.http_1_0 else "1.1")
    if other.url.startswith(b"/"):
        assert other.url.decode("ascii") == head.path + head.query
    assert other.fields() == [(name, value.lower()) for name, value in head.headers]
    # Where `close` stands beside `keep-alive`, ours closes.
    assert other.keep_alive or head.upgrade or not head.keep_alive


_token = st.text(TOKEN_CHARS, min_size=1, max_size=12)
_value = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30).map(
    lambda text: text.strip(" ").encode("ascii")
)
_deciding = {"host", "content-length", "transfer-encoding", "connection", "upgrade", "expect"}
_headers = st.lists(
    st.tuples(
        _token.map(str.lower)
        .filter(lambda name: re.sub("[_.]", "-", name) not in _deciding)
        .map(lambda name: name.encode("ascii")),
        _value,
    ),
    max_size=8,
)
_path = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#?"), max_size=20)


@given(_token.filter(lambda method: method != "CONNECT"), _path, st.none() | _path, _headers)
def test_a_written_request_reads_back_as_itself(
    method: str, path: str, query: str | None, headers: list[tuple[bytes, bytes]]
) -> None:
    sent_query = "" if query is None else "?" + query
    lines = [(b"host", b"a"), *headers]
    head = read_request_head(request_head(method, f"/{path}{sent_query}", lines))
    assert (head.method, head.path, head.query) == (method, f"/{path}", sent_query)
    assert list(head.headers) == lines


@given(st.integers(200, 999), _value.filter(lambda value: len(value) <= 128), _headers)
def test_a_written_response_reads_back_as_itself(
    status: int, reason: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    head = read_response_head(response_head(status, reason, headers), "GET")
    assert (head.status, head.reason, list(head.headers)) == (status, reason, headers)


@given(hostile_responses())
def test_an_accepted_response_is_what_llhttp_reads(raw: bytes) -> None:
    head = _read_response(raw)
    if isinstance(head, str):
        return
    other = Llhttp(httptools.HttpResponseParser)
    if not other.read(raw):
        return
    parser = other.parser
    assert parser.get_status_code() == head.status
    assert other.fields() == [(name, value.lower()) for name, value in head.headers]
    framed = head.body_length >= 0 or head.body_length == CHUNKED
    if framed and head.status not in (204, 205, 304):
        assert other.keep_alive or not head.keep_alive


@given(st.text(st.characters(min_codepoint=0, max_codepoint=0xFF), max_size=20))
def test_an_authority_is_plain_and_reads_the_same_again(text: str) -> None:
    value = text.encode("latin-1")
    try:
        authority = parse_authority(value)
    except ProtocolError:
        return
    assert authority.sent.encode("ascii") == value
    assert re.fullmatch(r"[a-z0-9._:-]+", authority.host)
    shown = f"[{authority.host}]" if ":" in authority.host else authority.host
    port = "" if authority.port is None else f":{authority.port}"
    again = parse_authority(f"{shown}{port}".encode("ascii"))
    assert (again.host, again.port) == (authority.host, authority.port)
