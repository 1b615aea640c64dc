"""A request's head, read by h11 behind the gate: `read_request_head` is the one seam where bytes become a request."""

from __future__ import annotations

import h11

from dataplane.http1.authority import parse_authority, same_authority
from dataplane.http1.buffer import TARGET_MAX_BYTES
from dataplane.http1.gate import REQUEST_SHAPE, check_coding, check_head, comma_tokens, content_length
from dataplane.http1.heads import CHUNKED, Authority, ProtocolError, RequestHead

HEADERS_MAX = 100
"""Default of `GATEWAY_MAX_HEADERS`."""

# Names that a reader who takes `_` and `.` for `-` would frame the body by. No caller means well with them.
FRAMING_LOOKALIKES = frozenset(
    word + mark + other
    for word, other in ((b"content", b"length"), (b"transfer", b"encoding"))
    for mark in (b"_", b".")
)
# The headers that decide something here; all others pass through this module unread.
_DECIDING = FRAMING_LOOKALIKES | {
    b"host",
    b"content-length",
    b"transfer-encoding",
    b"connection",
    b"upgrade",
    b"expect",
}
_SCHEMES = {"http": 80, "https": 443}

_Lines = list[tuple[bytes, bytes]]


def read_request_head(raw: bytes, *, max_headers: int = HEADERS_MAX) -> RequestHead:
    """The request that `raw`, one whole head with its blank line, means to every reader.

    A pure function of the bytes. Raises `ProtocolError` with the code of the answer: `bad_request`,
    `uri_too_long`, `expectation_failed`, `headers_too_large`, `not_implemented`, `http_version_not_supported`
    (CONTRACT §2.5, §3.1; RFC 9112 §2–§3, §6; RFC 9110 §7.2, §7.8, §10.1.1). Its size is the buffer's business.
    """
    lines = check_head(
        raw, REQUEST_SHAPE, max_headers=max_headers, malformed="bad_request", too_many="headers_too_large"
    )
    event = _parse(raw)
    http_1_0 = event.http_version == b"1.0"
    if not http_1_0 and event.http_version != b"1.1":
        raise ProtocolError("http_version_not_supported", "a version other than HTTP/1.0 and HTTP/1.1")
    headers = tuple([(name.lower(), value) for name, value in event.headers.raw_items()])
    if len(headers) != lines:
        # h11 makes one of equal lengths.
        raise ProtocolError("bad_request", "a repeated content length")

    deciding = [header for header in headers if header[0] in _DECIDING]
    host, body_length, connection, expects_continue = _decide(raw, deciding, http_1_0=http_1_0)
    method = event.method.decode("ascii")
    path, query = _target(event.target.decode("ascii"), method, host)
    # An upgrade is ignored in HTTP/1.0 (RFC 9110 §7.8).
    upgrade = _upgrade(deciding) if b"upgrade" in connection and not http_1_0 else ""
    if upgrade and body_length:
        raise ProtocolError("bad_request", "an upgrade with a body")
    return RequestHead(
        method=method,
        path=path,
        query=query,
        http_1_0=http_1_0,
        headers=headers,
        authority=host,
        body_length=body_length,
        keep_alive=b"close" not in connection and (not http_1_0 or b"keep-alive" in connection),
        expect_continue=expects_continue and body_length != 0,
        upgrade=upgrade,
    )


def _parse(raw: bytes) -> h11.Request:
    """What h11 makes of the head. Its messages quote the bytes, secrets among them: only their fixed part is kept."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(raw)
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError as failure:
        reason = str(failure).partition(":")[0]
        # h11 raises it again from a frame that holds it: a cycle, with the frames of the connection in it.
        failure.__traceback__ = None
        raise ProtocolError("not_implemented" if _is_unknown_coding(failure, raw) else "bad_request", reason) from None
    if not isinstance(event, h11.Request):
        raise ProtocolError("bad_request", "not a request")
    return event


def _is_unknown_coding(failure: h11.RemoteProtocolError, raw: bytes) -> bool:
    """A coding that h11 does not know is 501 only where nothing else frames the body; the rest is malformed."""
    lowered = raw.lower()
    return (
        failure.error_status_hint == 501
        and lowered.count(b"\r\ntransfer-encoding:") == 1
        and b"\r\ncontent-length:" not in lowered
    )


def _decide(raw: bytes, deciding: _Lines, *, http_1_0: bool) -> tuple[Authority | None, int, list[bytes], bool]:
    """Host, body length, the options of `Connection`, and whether 100-continue is expected."""
    host: Authority | None = None
    body_length: int | None = None
    connection: list[bytes] = []
    expects_continue = False
    for name, value in deciding:
        if name == b"host":
            host = parse_authority(value)
        elif name == b"connection":
            connection += comma_tokens(value)
        elif name == b"content-length":
            if body_length is not None:
                raise ProtocolError("bad_request", "a content length beside a transfer coding")
            body_length = content_length(raw, value, "bad_request")
        elif name == b"transfer-encoding":
            if body_length is not None or http_1_0:
                raise ProtocolError("bad_request", "a transfer coding beside a content length or in HTTP/1.0")
            check_coding(raw, "bad_request")
            body_length = CHUNKED
        elif name == b"expect":
            # RFC 9110 §10.1.1: HTTP/1.0 ignores it.
            if not http_1_0 and value.lower() != b"100-continue":
                raise ProtocolError("expectation_failed", "an expectation other than 100-continue")
            expects_continue = not http_1_0
        elif name in FRAMING_LOOKALIKES:
            raise ProtocolError("bad_request", "a header that passes for a framing header")
    return host, body_length or 0, connection, expects_continue


def _target(target: str, method: str, host: Authority | None) -> tuple[str, str]:
    """Path and query of the target; its form is one of the three of CONTRACT §3.1."""
    if len(target) > TARGET_MAX_BYTES:
        raise ProtocolError("uri_too_long", "a request target over its bound")
    if method == "CONNECT":
        raise ProtocolError("not_implemented", "CONNECT")
    if "#" in target:
        raise ProtocolError("bad_request", "a fragment in the request target")
    if target == "*":
        if method != "OPTIONS":
            raise ProtocolError("bad_request", "the asterisk form with another method than OPTIONS")
        return target, ""
    if not target.startswith("/"):
        target = _origin_form(target, method, host)
    path, question_mark, query = target.partition("?")
    return path, question_mark + query


def _origin_form(target: str, method: str, host: Authority | None) -> str:
    """The origin form of an absolute-form target, whose authority must be the one `Host` names (RFC 9112 §3.2.2)."""
    scheme, separator, rest = target.partition("://")
    default_port = _SCHEMES.get(scheme.lower())
    if not separator or default_port is None:
        raise ProtocolError("bad_request", "a request target of an unknown form")
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    authority = parse_authority(rest[:end].encode("ascii"))
    if host is None or not same_authority(authority, host, default_port):
        raise ProtocolError("bad_request", "an absolute target that disagrees with Host")
    if end == len(rest):
        # RFC 9112 §3.2.4: the last proxy writes the asterisk form for it.
        return "*" if method == "OPTIONS" else "/"
    return rest[end:] if rest[end] == "/" else "/" + rest[end:]


def _upgrade(deciding: _Lines) -> str:
    """The protocols the caller offers; `websocket` alone where it is among them. h2c is ignored (RFC 9113 §3.1)."""
    offered = [token for name, value in deciding if name == b"upgrade" for token in comma_tokens(value)]
    if b"websocket" in offered:
        return "websocket"
    return ", ".join(token.decode("ascii") for token in offered if token != b"h2c")
