"""The trace context that the gateway sends upstream (§7.5, W3C Trace Context).

The caller's trace continues under a span of the gateway's own, so a broken header of a client ends here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from common.telemetry.random_hex import Drawn, hex_ids
from common.values import hot_value

# W3C Trace Context §3.2: lower case only. A version above 00 may append more behind one dash; it is not ours to read.
_TRACEPARENT = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-[^\r\n]*)?"
)

_TRACE_DIGITS, _SPAN_DIGITS = 32, 16
_NO_SPAN = "0" * _SPAN_DIGITS


def _valid_ids(digits: int) -> list[str]:
    """Ids of random digits that hold no run of zeros which, as an id of its own, means "no id" in the standard."""
    return [each for each in hex_ids(digits) if _NO_SPAN not in each] or _valid_ids(digits)


_new_trace_and_span = Drawn(lambda: _valid_ids(_TRACE_DIGITS + _SPAN_DIGITS)).draw
_new_span = Drawn(lambda: _valid_ids(_SPAN_DIGITS)).draw


@hot_value
class TraceContext:
    """The gateway's span in a trace: ids in lower-case hexadecimal (32 and 16 digits), flags in two digits.

    `tracestate` is the caller's, as sent, and `parent_id` its span; None and `""` where the trace begins here.
    """

    trace_id: str
    span_id: str
    flags: str
    tracestate: bytes | None
    parent_id: str = ""

    @property
    def sampled(self) -> bool:
        """Whoever began the trace wants its spans recorded."""
        return bool(int(self.flags, 16) & 1)

    @property
    def traceparent(self) -> str:
        """The header value that makes the gateway's span the parent of the upstream's."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


def not_sampled(_: str) -> str:
    """The flags of a trace that begins here and is recorded nowhere."""
    return "00"


def begin_trace(new_flags: Callable[[str], str] = not_sampled) -> TraceContext:
    """A span in a new trace; `new_flags` gives its flags by its id."""
    drawn = _new_trace_and_span()
    trace_id = drawn[:_TRACE_DIGITS]
    return TraceContext(trace_id, drawn[_TRACE_DIGITS:], new_flags(trace_id), None)


def continue_trace(
    traceparent: Sequence[bytes], tracestate: Sequence[bytes], new_flags: Callable[[str], str] = not_sampled
) -> TraceContext:
    """A new span in the caller's trace, or in a new one where the caller sent none that is valid.

    `new_flags` gives the flags of a trace that begins here, by its id. The other arguments are all values of the
    header. Two `traceparent` headers are malformed; several `tracestate` headers are one list (W3C Trace Context
    §3.3.1).
    """
    sent = _TRACEPARENT.fullmatch(traceparent[0]) if len(traceparent) == 1 else None
    if sent is None or (sent[1] == b"00" and sent[5] is not None):
        return begin_trace(new_flags)
    state = b",".join(tracestate)
    return TraceContext(
        trace_id=sent[2].decode("ascii"),
        span_id=_new_span(),
        flags=sent[4].decode("ascii"),
        tracestate=state if state.strip(b" \t,") else None,
        parent_id=sent[3].decode("ascii"),
    )
