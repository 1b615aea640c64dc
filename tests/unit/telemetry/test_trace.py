"""The caller's trace goes on where its header is valid, and nowhere else (§7.5)."""

from __future__ import annotations

import re

import pytest

from common.telemetry.trace import _valid_ids, continue_trace

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{SPAN}-01".encode()


def test_a_valid_trace_goes_on_under_a_new_span() -> None:
    trace = continue_trace([VALID], [b"vendor=value"])
    assert (trace.trace_id, trace.flags, trace.tracestate) == (TRACE, "01", b"vendor=value")
    assert re.fullmatch(r"[0-9a-f]{16}", trace.span_id)
    assert trace.span_id != SPAN
    assert trace.traceparent == f"00-{TRACE}-{trace.span_id}-01"


def test_every_request_has_a_span_of_its_own() -> None:
    assert continue_trace([VALID], []).span_id != continue_trace([VALID], []).span_id
    assert continue_trace([], []).trace_id != continue_trace([], []).trace_id


@pytest.mark.parametrize("flags", ["00", "01", "02", "03", "ff", "a5"])
def test_the_callers_flags_are_kept(flags: str) -> None:
    assert continue_trace([VALID[:-2] + flags.encode()], []).flags == flags


@pytest.mark.parametrize(
    "sent",
    [f"01-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-more", f"fe-{TRACE}-{SPAN}-01-", f"01-{TRACE}-{SPAN}-01-a-b"],
)
def test_a_later_version_is_read_as_far_as_this_one_goes(sent: str) -> None:
    trace = continue_trace([sent.encode()], [])
    assert (trace.trace_id, trace.flags) == (TRACE, "01")
    assert trace.traceparent.startswith("00-")


@pytest.mark.parametrize(
    "sent",
    [
        [],
        [b""],
        [VALID, VALID],
        [VALID + b"-more"],
        [VALID + b"-"],
        [VALID + b"\n"],
        [b" " + VALID],
        [VALID.upper()],
        [VALID[:-1]],
        [VALID + b"1"],
        [f"ff-{TRACE}-{SPAN}-01".encode()],
        [f"00-{'0' * 32}-{SPAN}-01".encode()],
        [f"00-{TRACE}-{'0' * 16}-01".encode()],
        [f"0-{TRACE}-{SPAN}-01".encode()],
        [f"00-{TRACE[:-1]}-{SPAN}-01".encode()],
        [f"00-{TRACE}-{SPAN}x-01".encode()],
        [f"00_{TRACE}_{SPAN}_01".encode()],
        [f"01-{TRACE}-{SPAN}-01x".encode()],
        [f"01-{TRACE}-{SPAN}-01-a\r\nx: y".encode()],
        [b"\xff" * 55],
    ],
)
def test_anything_else_begins_a_new_trace_without_state_or_flags(sent: list[bytes]) -> None:
    trace = continue_trace(sent, [b"vendor=value"])
    assert re.fullmatch(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-00", trace.traceparent)
    assert trace.trace_id != TRACE
    assert trace.tracestate is None


@pytest.mark.parametrize(
    ("sent", "state"),
    [
        ([], None),
        ([b""], None),
        ([b" ,\t"], None),
        ([b"a=1,b=2"], b"a=1,b=2"),
        ([b"a=1", b"b=2"], b"a=1,b=2"),
        ([b"odd but as sent"], b"odd but as sent"),
    ],
)
def test_the_state_goes_on_as_sent(sent: list[bytes], state: bytes | None) -> None:
    assert continue_trace([VALID], sent).tracestate == state


def test_an_id_of_zeros_is_never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [["0" * 48], ["0" * 32 + "02" * 8, "01" * 16 + "0" * 16, "01" * 16 + "02" * 8]]
    monkeypatch.setattr("common.telemetry.trace.hex_ids", lambda _: batches.pop(0))
    assert _valid_ids(48) == ["01" * 16 + "02" * 8]
