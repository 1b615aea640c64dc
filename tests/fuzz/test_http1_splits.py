"""Any split of a connection's bytes gives the same requests and the same first error."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from dataplane.http1 import buffer
from dataplane.http1.buffer import HeadBuffer
from dataplane.http1.heads import ProtocolError
from tests.security.corpus.requests import CASES
from tests.support.http1 import Read, one_by_one, pieces, read_requests

_SMALL_CASES = [case.raw for case in CASES if len(case.raw) < 400]
_cuts = st.lists(st.integers(0, 1200), max_size=12)


def _outcome(read: Read) -> tuple[object, ...]:
    return read.messages, read.unfinished, read.error


@given(st.lists(st.sampled_from(_SMALL_CASES), min_size=1, max_size=4), _cuts)
def test_pipelined_messages_read_alike_in_any_pieces(cases: list[bytes], cuts: list[int]) -> None:
    raw = b"".join(cases)
    assert _outcome(read_requests(pieces(raw, cuts))) == _outcome(read_requests([raw]))


def _heads(fed: list[bytes], max_bytes: int, *, skip: bool, from_upstream: bool) -> tuple[list[bytes], str]:
    taken: list[bytes] = []
    gathered = HeadBuffer(max_bytes, skip_empty_line=skip, from_upstream=from_upstream)
    try:
        for data in fed:
            gathered.feed(data)
            while (raw := gathered.take()) is not None:
                # The reader's shape refuses these at once, so nothing is taken behind them.
                if raw.startswith(b"\r\n") or b"\0" in raw or raw.count(b"\n") != raw.count(b"\r\n"):
                    return taken, "bad_gateway" if from_upstream else "bad_request"
                if raw.count(b"\r") != raw.count(b"\r\n"):
                    return taken, "bad_gateway" if from_upstream else "bad_request"
                taken.append(raw)
    except ProtocolError as failure:
        return taken, failure.code
    return taken, ""


@given(
    st.lists(st.sampled_from([b"\r\n", b"\r\n\r\n", b"a", b"aaaa", b"\r", b"\n", b"\0", b" ", b"\r\r\n"]), max_size=20),
    _cuts,
    st.integers(4, 24),
    st.integers(1, 16),
    st.booleans(),
    st.booleans(),
)
def test_bounds_and_bad_bytes_are_found_alike_in_any_pieces(
    parts: list[bytes], cuts: list[int], max_bytes: int, line_max: int, skip: bool, from_upstream: bool
) -> None:
    raw = b"".join(parts)
    with patch.object(buffer, "REQUEST_LINE_MAX_BYTES", line_max):
        whole = _heads([raw], max_bytes, skip=skip, from_upstream=from_upstream)
        for fed in (pieces(raw, cuts), one_by_one(raw)):
            assert _heads(fed, max_bytes, skip=skip, from_upstream=from_upstream) == whole
