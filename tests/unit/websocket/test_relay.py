"""The relay's rules on remembered transports: who is told what, in which order, and when both are released."""

from __future__ import annotations

import pytest

from dataplane.websocket.relay import ANSWER_S, GOING_AWAY, LAST_WORD_S, POLICY, Verdict
from tests.support.websocket_frames import BINARY, CLOSE, CONTINUATION, MASK, PING, PONG, TEXT, close, frame
from tests.support.websocket_sides import Pair, send

DRAIN = Verdict("drain", GOING_AWAY, "the gateway stops")
HELLO = frame(TEXT, b"hello", mask=MASK)
WORLD = frame(TEXT, b"world")


def verdict(pair: Pair) -> tuple[str, int]:
    assert pair.relay.verdict is not None
    return pair.relay.verdict.reason, pair.relay.verdict.code


async def test_bytes_pass_both_ways_as_they_came() -> None:
    pair = Pair().start()
    send(pair.down, HELLO + frame(PING, b"p", mask=MASK))
    send(pair.up, WORLD + frame(PONG, b"p"))
    assert pair.app.written == HELLO + frame(PING, b"p", mask=MASK)
    assert pair.caller.written == WORLD + frame(PONG, b"p")
    assert (pair.down.bytes_passed, pair.up.bytes_passed) == (len(pair.app.written), len(pair.caller.written))
    assert pair.caller.reading
    assert pair.app.reading
    assert not pair.done


async def test_what_came_behind_the_handshakes_comes_first() -> None:
    pair = Pair().start(HELLO[:4], WORLD)
    send(pair.down, HELLO[4:])
    assert (pair.app.written, pair.caller.written) == (HELLO, WORLD)


@pytest.mark.parametrize("starts", ["down", "up"])
@pytest.mark.parametrize("code", [1000, 3000, 4001, None])
async def test_a_close_and_its_answer_pass_with_code_and_reason(starts: str, code: int | None) -> None:
    pair = Pair().start()
    reason = b"r" * 123 if code else b""
    from_down, from_up = close(code, reason, mask=MASK), close(code, reason)
    if starts == "down":
        send(pair.down, from_down)
        assert not pair.done
        send(pair.up, from_up)
    else:
        send(pair.up, from_up)
        assert not pair.done
        send(pair.down, from_down)
    assert (pair.app.written, pair.caller.written) == (from_down, from_up)
    assert pair.done
    pair.relay.release()
    assert (pair.caller.closed, pair.app.closed) == ("closed", "closed")
    assert verdict(pair) == ("downstream" if starts == "down" else "upstream", 1005 if code is None else code)


async def test_messages_still_pass_to_a_side_that_has_sent_its_close() -> None:
    pair = Pair().start()
    send(pair.down, close(1000, mask=MASK))
    send(pair.up, WORLD + close(1000))
    assert pair.caller.written == WORLD + close(1000)
    assert pair.done


async def test_nothing_behind_a_close_passes() -> None:
    pair = Pair().start()
    send(pair.down, close(1000, mask=MASK) + HELLO)
    send(pair.down, HELLO)
    assert pair.app.written == close(1000, mask=MASK)


async def test_a_side_that_never_answers_a_close_is_given_up_after_a_while() -> None:
    pair = Pair().start()
    send(pair.down, close(1000, mask=MASK))
    pair.pass_time(ANSWER_S - 1)
    assert not pair.done
    pair.pass_time(1)
    assert pair.done
    assert [(frame.opcode, frame.code) for frame in pair.caller_got()] == [(CLOSE, 1011)]
    assert verdict(pair) == ("downstream", 1000)


async def test_a_message_that_is_too_large_closes_both_sides_with_1009() -> None:
    pair = Pair(limit=10).start()
    send(pair.down, HELLO + frame(BINARY, bytes(11), mask=MASK))
    assert [(frame.opcode, frame.code) for frame in pair.app_got()] == [(TEXT, 26725), (CLOSE, 1009)]
    assert [frame.code for frame in pair.caller_got()] == [1009]
    assert [frame.masked for frame in pair.app_got()] == [True, True]
    assert [frame.masked for frame in pair.caller_got()] == [False]
    assert pair.caller.ended
    assert not pair.app.ended
    assert verdict(pair) == ("message_size", 1009)


async def test_fragments_that_become_too_large_are_followed_by_a_close_in_place_of_the_next() -> None:
    pair = Pair(limit=10).start()
    send(pair.up, frame(BINARY, bytes(8), fin=False) + frame(CONTINUATION, bytes(3)))
    assert [(frame.opcode, frame.fin) for frame in pair.caller_got()] == [(BINARY, False), (CLOSE, True)]
    assert pair.caller_got()[1].code == 1009


@pytest.mark.parametrize("at", ["down", "up"])
async def test_a_malformed_frame_closes_both_sides_with_1002(at: str) -> None:
    pair = Pair().start()
    send(getattr(pair, at), frame(3, mask=MASK if at == "down" else None))
    assert [frame.code for frame in pair.caller_got()] == [1002]
    assert [frame.code for frame in pair.app_got()] == [1002]
    assert (pair.caller.ended, pair.app.ended) == (at == "down", at == "up")
    assert verdict(pair) == ("error", 1002)
    assert not pair.done
    send(pair.up if at == "down" else pair.down, close(1002, mask=None if at == "down" else MASK))
    assert not pair.done
    getattr(pair, at).eof_received()
    assert pair.done


async def test_a_side_that_has_answered_is_released_without_waiting_for_the_other() -> None:
    pair = Pair().start()
    send(pair.down, frame(3, mask=MASK))
    send(pair.up, close(1002))
    assert (pair.app.closed, pair.caller.closed) == ("closed", "")
    assert not pair.done


async def test_a_side_that_broke_the_protocol_and_stays_is_released_within_its_bound() -> None:
    pair = Pair().start()
    send(pair.down, frame(3, mask=MASK))
    send(pair.down, HELLO)
    pair.pass_time(LAST_WORD_S)
    assert pair.done
    assert [frame.opcode for frame in pair.app_got()] == [CLOSE]


@pytest.mark.parametrize("code", [999, 1005, 1006, 1015, 5000])
async def test_a_close_with_a_code_that_never_travels_is_not_passed_on(code: int) -> None:
    pair = Pair().start()
    send(pair.up, close(code))
    assert [frame.code for frame in pair.caller_got()] == [1002]


@pytest.mark.parametrize("how", ["eof_received", "connection_lost"])
@pytest.mark.parametrize("at", ["down", "up"])
async def test_a_side_that_vanishes_leaves_1011_to_the_other_at_once(at: str, how: str) -> None:
    pair = Pair().start()
    send(pair.down, HELLO)
    send(pair.up, WORLD)
    side = getattr(pair, at)
    side.eof_received() if how == "eof_received" else side.connection_lost(None)
    left, its = (pair.up, pair.app_got()) if at == "down" else (pair.down, pair.caller_got())
    assert [frame.opcode for frame in its] == [TEXT, CLOSE]
    assert its[1].code == 1011
    gone = pair.caller if at == "down" else pair.app
    assert gone.closed == "aborted"
    assert verdict(pair) == ("downstream" if at == "down" else "upstream", 1006)
    assert not pair.done
    send(left, close(1011, mask=MASK if at == "up" else None))
    assert pair.done


async def test_a_side_that_vanishes_within_a_frame_lets_the_other_see_the_end_of_its_connection() -> None:
    """A Close frame there would be read as the payload's next bytes."""
    pair = Pair().start()
    send(pair.up, frame(BINARY, bytes(300))[:200])
    pair.up.connection_lost(None)
    assert pair.caller.written == frame(BINARY, bytes(300))[:200]
    assert pair.done
    pair.relay.release()
    assert pair.caller.closed == "closed"


async def test_a_side_that_vanishes_between_two_fragments_leaves_1011() -> None:
    pair = Pair().start()
    send(pair.up, frame(BINARY, bytes(3), fin=False))
    pair.up.connection_lost(None)
    assert [frame.opcode for frame in pair.caller_got()] == [BINARY, CLOSE]


async def test_a_side_that_is_left_and_does_not_answer_is_released_within_its_bound() -> None:
    pair = Pair().start()
    pair.up.connection_lost(None)
    pair.pass_time(LAST_WORD_S)
    assert pair.done


async def test_what_is_sent_to_a_side_that_is_gone_counts_as_passed_to_nobody() -> None:
    pair = Pair().start()
    pair.down.connection_lost(None)
    send(pair.up, WORLD)
    assert pair.up.bytes_passed == 0


async def test_silence_closes_both_sides_with_1001() -> None:
    pair = Pair(idle_s=10).start()
    pair.pass_time(9)
    assert not pair.caller.written
    pair.pass_time(1)
    assert [frame.code for frame in pair.caller_got()] == [1001]
    assert [frame.code for frame in pair.app_got()] == [1001]
    assert verdict(pair) == ("idle", 1001)
    send(pair.down, close(1001, mask=MASK))
    send(pair.up, close(1001))
    assert pair.done


@pytest.mark.parametrize("opcode", [TEXT, PING, PONG])
@pytest.mark.parametrize("at", ["down", "up"])
async def test_any_frame_of_either_side_breaks_the_silence(at: str, opcode: int) -> None:
    pair = Pair(idle_s=10).start()
    for _ in range(20):
        pair.pass_time(8)
        send(getattr(pair, at), frame(opcode, mask=MASK if at == "down" else None))
    assert pair.relay.verdict is None
    pair.pass_time(10)
    assert pair.relay.verdict is not None


async def test_a_close_of_the_gateways_waits_for_the_end_of_a_message_in_each_direction() -> None:
    pair = Pair().start()
    sent = frame(BINARY, bytes(200))
    send(pair.up, sent[:150])
    pair.relay.close(DRAIN)
    assert [frame.code for frame in pair.app_got()] == [1001]
    assert pair.caller.written == sent[:150]
    send(pair.up, sent[150:] + WORLD)
    assert [frame.opcode for frame in pair.caller_got()] == [BINARY, CLOSE]
    send(pair.up, close(1001))
    assert not pair.done
    send(pair.down, close(1001, mask=MASK))
    assert pair.done
    assert verdict(pair) == ("drain", 1001)


async def test_answers_to_the_gateways_close_are_not_passed_on() -> None:
    pair = Pair().start()
    pair.relay.close(DRAIN)
    send(pair.down, HELLO + close(1001, mask=MASK))
    send(pair.up, close(4000, b"mine"))
    assert [frame.code for frame in pair.app_got()] == [1001]
    assert [frame.code for frame in pair.caller_got()] == [1001]
    assert pair.done


async def test_a_close_of_a_peers_in_the_message_that_is_waited_for_replaces_the_gateways() -> None:
    pair = Pair().start()
    send(pair.up, frame(TEXT, b"x", fin=False))
    pair.relay.close(DRAIN)
    send(pair.up, close(4000))
    assert [frame.code for frame in pair.caller_got() if frame.opcode == CLOSE] == [4000]


async def test_the_answer_behind_the_end_of_a_message_in_one_piece_does_not_swallow_the_close() -> None:
    pair = Pair().start()
    send(pair.up, frame(TEXT, b"x", fin=False))
    pair.relay.close(DRAIN)
    send(pair.up, frame(CONTINUATION, b"y") + close(1001))
    assert [frame.opcode for frame in pair.caller_got()] == [TEXT, CONTINUATION, CLOSE]
    assert pair.caller_got()[-1].code == 1001


@pytest.mark.parametrize(("fin", "told"), [(False, True), (True, False)])
async def test_a_message_that_never_ends_is_cut_after_its_bound(fin: bool, told: bool) -> None:
    """Between frames a Close can still be said, within one it cannot."""
    pair = Pair().start()
    sent = frame(BINARY, bytes(200), fin=fin)
    send(pair.up, sent if told else sent[:100])
    pair.relay.close(Verdict("revalidation", POLICY))
    pair.pass_time(LAST_WORD_S)
    assert pair.done
    assert (pair.caller.written[len(sent) :] != b"") is told


async def test_the_first_cause_is_the_one_that_counts() -> None:
    pair = Pair().start()
    pair.relay.close(DRAIN)
    pair.relay.close(Verdict("revalidation", POLICY))
    pair.up.connection_lost(None)
    assert verdict(pair) == ("drain", 1001)
    assert [frame.code for frame in pair.caller_got()] == [1001]


async def test_a_side_that_breaks_the_protocol_while_it_should_answer_is_told_so() -> None:
    pair = Pair().start()
    send(pair.down, close(1000, mask=MASK))
    send(pair.up, frame(3))
    assert [frame.code for frame in pair.caller_got()] == [1002]
    assert pair.app.written == close(1000, mask=MASK)
    assert pair.app.ended
    pair.pass_time(LAST_WORD_S)
    assert pair.done
    assert verdict(pair) == ("downstream", 1000)


async def test_a_side_that_does_not_read_stops_the_other_from_being_read() -> None:
    pair = Pair().start()
    pair.app.full = True
    send(pair.down, HELLO)
    assert not pair.caller.reading
    assert pair.app.reading
    send(pair.up, WORLD)
    assert pair.caller.written == WORLD
    pair.app.empty()
    assert pair.caller.reading
    assert pair.app.written == HELLO


async def test_a_close_waits_for_a_slow_reader_but_not_for_ever() -> None:
    pair = Pair().start()
    pair.app.full = True
    send(pair.down, HELLO + close(1000, mask=MASK))
    send(pair.up, close(1000))
    assert not pair.done
    pair.app.empty()
    assert pair.done

    stuck = Pair().start()
    stuck.app.full = True
    send(stuck.down, close(1000, mask=MASK))
    send(stuck.up, close(1000))
    stuck.pass_time(ANSWER_S)
    assert stuck.done
    stuck.relay.release()
    assert (stuck.app.closed, stuck.caller.closed) == ("aborted", "closed")


async def test_a_socket_that_was_full_from_the_start_is_not_written_into_memory() -> None:
    pair = Pair()
    pair.app.full = True
    pair.start(HELLO, b"")
    assert not pair.caller.reading
    assert pair.app.reading


async def test_a_peer_may_close_its_half_behind_its_close_frame_and_still_gets_the_answer() -> None:
    pair = Pair().start()
    send(pair.down, close(1000, mask=MASK))
    assert pair.down.eof_received()
    send(pair.up, close(1000))
    assert pair.caller.written == close(1000)
    assert pair.done


async def test_releasing_before_the_end_cuts_both_sides() -> None:
    pair = Pair().start()
    pair.relay.release()
    assert (pair.caller.closed, pair.app.closed) == ("aborted", "aborted")
    assert pair.done


async def test_timers_of_an_ended_relay_do_nothing() -> None:
    pair = Pair(idle_s=10).start()
    send(pair.down, close(1000, mask=MASK))
    send(pair.up, close(1000))
    before = pair.caller.written, pair.app.written
    pair.pass_time(100)
    assert (pair.caller.written, pair.app.written) == before


async def test_compressed_messages_pass_where_both_ends_agreed() -> None:
    pair = Pair(compressed=True).start()
    data = frame(TEXT, b"\xf2\x48\xcd\xc9\xc9\x07\x00", rsv=4, mask=MASK)
    send(pair.down, data)
    assert pair.app.written == data
