"""Which way a connection's heads are read, chosen once at the start (`GATEWAY_HTTP_FAST_LANE`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dataplane.http1.heads import RequestHead, ResponseHead
from dataplane.http1.plain import plain_request_head, plain_response_head
from dataplane.http1.request import read_request_head
from dataplane.http1.response import read_response_head

RequestReader = Callable[[bytes], RequestHead]
"""One whole head with its blank line to a request; raises like `read_request_head`."""
ResponseReader = Callable[[bytes, str], ResponseHead]
"""One whole head and the request's method to a response; raises like `read_response_head`."""


def request_reader(max_headers: int, *, fast_lane: bool) -> RequestReader:
    """`read_request_head` with its bound; with the fast lane, only for what is not plain."""
    by_h11 = partial(read_request_head, max_headers=max_headers)
    if not fast_lane:
        return by_h11

    def read(raw: bytes) -> RequestHead:
        head = plain_request_head(raw, max_headers)
        return by_h11(raw) if head is None else head

    return read


def response_reader(*, fast_lane: bool) -> ResponseReader:
    """`read_response_head`; with the fast lane, only for what is not plain."""
    if not fast_lane:
        return read_response_head

    def read(raw: bytes, request_method: str) -> ResponseHead:
        head = plain_response_head(raw, request_method)
        return read_response_head(raw, request_method) if head is None else head

    return read
