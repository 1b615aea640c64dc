"""The request body between the socket and its sink."""

from __future__ import annotations

from dataplane.http1.body import ChunkedBody, LengthBody
from dataplane.net.request_body import HELD_MAX_BYTES, RequestBody


class Sink:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.ended = 0
        self.failure: tuple[str, str] | None = None

    def piece(self, data: bytes) -> None:
        self.pieces.append(data)

    def end(self) -> None:
        self.ended += 1

    def failed(self, code: str, reason: str) -> None:
        self.failure = (code, reason)


def body_of(length: int, changes: list[bool] | None = None) -> RequestBody:
    return RequestBody(LengthBody(length), lambda: changes.append(True) if changes is not None else None, None)


def test_what_came_before_the_sink_is_delivered_first_and_in_order() -> None:
    body, sink = body_of(6), Sink()
    body.feed(b"ab")
    body.start(sink)
    body.feed(b"cd")
    assert body.feed(b"efNEXT") == b"NEXT"
    assert (b"".join(sink.pieces), sink.ended) == (b"abcdef", 1)


def test_a_body_that_came_whole_before_the_sink_ends_at_once() -> None:
    body, sink = body_of(3), Sink()
    assert body.feed(b"abcGET") == b"GET"
    body.start(sink)
    assert (sink.pieces, sink.ended) == ([b"abc"], 1)


def test_a_paused_sink_gets_nothing_until_it_resumes_and_the_end_comes_once() -> None:
    body, sink = body_of(4), Sink()
    body.start(sink)
    body.pause()
    body.feed(b"abcd")
    assert (sink.pieces, sink.ended) == ([], 0)
    assert body.complete
    body.resume()
    body.resume()
    assert (sink.pieces, sink.ended) == ([b"abcd"], 1)


def test_a_sink_that_pauses_within_a_piece_gets_the_rest_after_resuming() -> None:
    class PausesOnce(Sink):
        def piece(self, data: bytes) -> None:
            super().piece(data)
            if len(self.pieces) == 1:
                body.pause()

    body, sink = body_of(6), PausesOnce()
    body.feed(b"abc")
    body.feed(b"def")
    body.start(sink)
    assert sink.pieces == [b"abc"]
    body.resume()
    assert (sink.pieces, sink.ended) == ([b"abc", b"def"], 1)


def test_reading_stops_at_the_bound_while_nobody_takes_the_body() -> None:
    changes: list[bool] = []
    body = body_of(10 * HELD_MAX_BYTES, changes)
    body.feed(b"x" * (HELD_MAX_BYTES - 1))
    assert body.wants_data
    body.feed(b"x")
    assert not body.wants_data
    assert changes
    body.start(Sink())
    assert body.wants_data


def test_a_broken_body_is_told_once_behind_the_good_pieces() -> None:
    sink = Sink()
    body = RequestBody(ChunkedBody(), lambda: None, None)
    body.start(sink)
    body.feed(b"2\r\nab\r\n")
    body.feed(b"zz\r\n")
    assert sink.pieces == [b"ab"]
    assert sink.failure is not None
    assert sink.failure[0] == "bad_request"
    assert body.feed(b"GET / HTTP/1.1\r\n\r\n") == b""
    assert sink.ended == 0


def test_continue_is_sent_once_and_only_when_the_body_is_wanted_and_has_not_begun() -> None:
    sent: list[bool] = []
    body = RequestBody(LengthBody(2), lambda: None, lambda: sent.append(True))
    body.start(Sink())
    assert sent == [True]
    early = RequestBody(LengthBody(2), lambda: None, lambda: sent.append(False))
    early.feed(b"a")
    early.start(Sink())
    assert sent == [True]


def test_a_body_nobody_takes_any_more_is_dropped_and_still_read_to_its_end() -> None:
    body, sink = body_of(4), Sink()
    body.start(sink)
    body.pause()
    body.feed(b"ab")
    body.stop()
    assert body.wants_data
    assert body.feed(b"cdX") == b"X"
    assert sink.pieces == []
