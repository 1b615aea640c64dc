"""The hostile corpus against the protocol core: each case has the outcome it states, in whatever pieces it comes."""

from __future__ import annotations

import httptools
import pytest

from dataplane.errors import ERRORS
from dataplane.http1.heads import RequestHead, ResponseHead
from tests.security.corpus.requests import CASES, HIDDEN, OK, Case
from tests.security.corpus.responses import RESPONSES, Response
from tests.support.http1 import Read, one_by_one, read_requests, read_response

REPORTS = ("B01", "B02", "B04", "B05", "B07", "B08", "B10", "R01", "R02", "R04", "R05", "R07", "R28", "B64")


def _feeds(raw: bytes) -> list[list[bytes]]:
    return [[raw], one_by_one(raw), [raw[: len(raw) // 2], raw[len(raw) // 2 :]]]


def _check_request(case: Case, read: Read) -> None:
    assert (read.error or OK, len(read.messages)) == (case.expect, case.read)
    heads = [head for head, _ in read.messages]
    if read.unfinished is not None:
        heads.append(read.unfinished)
    assert all(isinstance(head, RequestHead) and head.path != HIDDEN for head in heads)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hostile_request_has_its_stated_outcome_in_any_pieces(case: Case) -> None:
    for fed in _feeds(case.raw):
        _check_request(case, read_requests(fed))


@pytest.mark.parametrize("case", RESPONSES, ids=lambda case: case.name)
def test_hostile_response_has_its_stated_outcome_in_any_pieces(case: Response) -> None:
    for fed in _feeds(case.raw):
        read = read_response(fed, case.method, eof=case.eof)
        assert (read.error or OK) == case.expect
        if case.expect == OK:
            head, body = read.messages[-1]
            assert isinstance(head, ResponseHead)
            assert body == case.body
            assert (head.keep_alive and not read.rest) == case.reusable


def test_names_of_cases_are_unique_and_codes_are_real() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert len({case.name for case in RESPONSES}) == len(RESPONSES)
    assert {case.expect for case in CASES} - {OK} <= set(ERRORS)


@pytest.mark.parametrize("report", REPORTS)
def test_each_report_has_cases(report: str) -> None:
    assert any(report in case.bugs for case in CASES)


def test_nothing_is_read_behind_a_refusal() -> None:
    """Production risk: a refused request whose body is then read as the next request is the smuggling itself."""
    for case in CASES:
        if case.expect != OK:
            read = read_requests([case.raw, b"GET /behind HTTP/1.1\r\nHost: a\r\n\r\n"])
            assert len(read.messages) == case.read


# llhttp knows a list of methods, reads trailers as headers, wants no space around an extension (RFC 9112 §7.1.1 says to
# allow it), and calls bytes behind the last request an error, where the gateway does not read them.
LLHTTP_REFUSES = {
    "chunks: spaces around",
    "request line: a lower-case method",
    "trailers: a length",
    "trailers: a coding",
    "connection: close, and more behind it",
    "connection: HTTP/1.0, and more behind it",
}


def _llhttp_accepts(raw: bytes) -> bool:
    parser = httptools.HttpRequestParser(object())
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        return True
    except httptools.HttpParserError:
        return False
    return True


def test_what_is_accepted_another_strict_reader_accepts_too() -> None:
    refused = {case.name for case in CASES if case.expect == OK and not _llhttp_accepts(case.raw)}
    assert refused == LLHTTP_REFUSES
