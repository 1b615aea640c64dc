"""A response's head, read by h11 behind the gate: `read_response_head` is the seam on the upstream's side."""

from __future__ import annotations

import h11

from dataplane.http1.gate import RESPONSE_SHAPE, check_coding, check_head, comma_tokens, content_length
from dataplane.http1.heads import CHUNKED, UNTIL_CLOSE, ProtocolError, ResponseHead

RESPONSE_HEADERS_MAX = 500
"""Well above what applications send; the head's 64 KiB alone would admit some 16 000 lines."""

REASON_MAX_BYTES = 128
_NOT_REASON = bytes(byte for byte in range(256) if not 0x20 <= byte <= 0x7E)
_BODILESS = frozenset({204, 205, 304})
# h11 reads an interim response only after the request it answers, and 101 only after one that asked for it; which
# request it was makes no difference to the head.
_ANY_REQUEST = h11.Request(method="GET", target="/", headers=[("host", "upstream"), ("upgrade", "any")])


def read_response_head(raw: bytes, request_method: str) -> ResponseHead:
    """The response that `raw`, one whole head with its blank line, means to every reader.

    A pure function of the bytes and the method of the request. An interim response (status below 200) is returned as
    a head without a body; 101 is the caller's to refuse. A body that status or method rule out has length 0, and
    where the upstream announced one for such a status all the same, the connection is not kept (RFC 9112 §6.3).
    `content-length` of a `HEAD` answer stays among the headers. The reason phrase is reduced to visible ASCII.
    Any violation raises `ProtocolError("bad_gateway")` (§11.3).
    """
    lines = check_head(
        raw, RESPONSE_SHAPE, max_headers=RESPONSE_HEADERS_MAX, malformed="bad_gateway", too_many="bad_gateway"
    )
    event = _parse(raw)
    http_1_0 = event.http_version == b"1.0"
    if not http_1_0 and event.http_version != b"1.1":
        raise ProtocolError("bad_gateway", "a version other than HTTP/1.0 and HTTP/1.1")
    headers = tuple([(name.lower(), value) for name, value in event.headers.raw_items()])
    if len(headers) != lines:
        # h11 makes one of equal lengths.
        raise ProtocolError("bad_gateway", "a repeated content length")

    declared = UNTIL_CLOSE
    connection: list[bytes] = []
    for name, value in headers:
        if name == b"connection":
            connection += comma_tokens(value)
        elif name == b"content-length":
            if declared != UNTIL_CLOSE:
                raise ProtocolError("bad_gateway", "a content length beside a transfer coding")
            declared = content_length(raw, value, "bad_gateway")
        elif name == b"transfer-encoding":
            if declared != UNTIL_CLOSE or http_1_0:
                raise ProtocolError("bad_gateway", "a transfer coding beside a content length or in HTTP/1.0")
            check_coding(raw, "bad_gateway")
            declared = CHUNKED

    body_length, framed = body_of(event.status_code, request_method, declared)
    persistent = b"close" not in connection and (not http_1_0 or b"keep-alive" in connection)
    return ResponseHead(
        status=event.status_code,
        reason=event.reason.translate(None, _NOT_REASON)[:REASON_MAX_BYTES],
        headers=headers,
        body_length=body_length,
        keep_alive=persistent and framed,
    )


def body_of(status: int, request_method: str, declared: int) -> tuple[int, bool]:
    """Length of the body, and whether the connection stands at a message's start behind it."""
    if status < 200:
        if declared != UNTIL_CLOSE:
            raise ProtocolError("bad_gateway", "an interim response with a body")
        return 0, True
    if request_method == "HEAD" or status == 304:
        return 0, True
    if status in _BODILESS:
        # 204 has no framing header and 205 says it is empty; bytes may follow where they say otherwise.
        return 0, declared == 0 or (status == 204 and declared == UNTIL_CLOSE)
    return declared, declared != UNTIL_CLOSE


def _parse(raw: bytes) -> h11.Response | h11.InformationalResponse:
    connection = h11.Connection(h11.CLIENT)
    if raw[9:10] == b"1":
        connection.send(_ANY_REQUEST)
    connection.receive_data(raw)
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError as failure:
        failure.__traceback__ = None  # a cycle, as in requests
        raise ProtocolError("bad_gateway", str(failure).partition(":")[0]) from None
    if not isinstance(event, h11.Response | h11.InformationalResponse):
        raise ProtocolError("bad_gateway", "not a response")
    return event
