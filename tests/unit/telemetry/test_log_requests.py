"""The line of a request: the contract's fields, cheap, and safe against whatever a caller sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.telemetry import log
from common.telemetry.log import Log, RequestLog
from common.telemetry.redact import safe_target

MARKER = "m4rK3rZ9"
REQUEST: dict[str, Any] = {
    "request_id": "6f1d3a52-9f7c-4c1e-8c62-1d0c9a0c7b11",
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "span_id": "00f067aa0ba902b7",
    "client": "203.0.113.7",
    "host": "app.example.com",
    "method": "GET",
    "path": "/ws/42/items",
    "query": "?page=2",
    "route": "workspace-api",
    "status": 200,
    "outcome": "ok",
    "error": "",
    "detail": "",
    "subject": "user-1",
    "workspace_id": "42",
    "upstream": "http://app:3000",
    "upstream_s": 0.001234,
    "duration_s": 0.0023456,
    "bytes_in": 0,
    "bytes_out": 191,
    "user_agent": b"curl/8.5.0",
}
# The fields of the contract, in its order, and `detail`: the cause behind an error.
FIELDS = [
    *("time", "level", "msg", "requestId", "traceId", "spanId", "client", "host", "method", "path", "route", "status"),
    *("outcome", "error", "detail", "subject", "workspaceId", "upstream", "upstreamMs", "durationMs", "bytesIn"),
    *("bytesOut", "userAgent"),
]


def line(level: Any = "info", **changes: Any) -> dict[str, Any]:
    lines: list[bytes] = []
    RequestLog(lines.append, level=level, now=lambda: 0.0).line(**{**REQUEST, **changes})
    (raw,) = lines
    assert raw.endswith(b"\n")
    assert raw.count(b"\n") == 1
    return dict(json.loads(raw))


def test_a_request_is_one_line_with_the_contracts_fields_in_order() -> None:
    event = line()
    assert list(event) == FIELDS
    assert event["path"] == "/ws/42/items?page=2"
    assert (event["upstreamMs"], event["durationMs"]) == (1.234, 2.346)
    assert (event["subject"], event["workspaceId"]) == ("user-1", "42")


def test_what_does_not_apply_is_null() -> None:
    event = line(subject=None, workspace_id=None, upstream="", upstream_s=None, user_agent=None, error="", detail="")
    nulls = {name for name, value in event.items() if value is None}
    assert nulls == {"subject", "workspaceId", "upstream", "upstreamMs", "userAgent", "error", "detail"}


@pytest.mark.parametrize(
    ("outcome", "error", "level"),
    [
        ("ok", "", "info"),
        ("refused", "unauthorized", "info"),
        ("aborted", "", "info"),
        ("failed", "bad_gateway", "warning"),
        ("failed", "internal_error", "error"),
    ],
)
def test_the_level_says_whose_fault_it_was(outcome: str, error: str, level: str) -> None:
    assert line(outcome=outcome, error=error)["level"] == level


def test_lines_below_the_level_are_not_made() -> None:
    lines: list[bytes] = []
    log = RequestLog(lines.append, level="error")
    log.line(**REQUEST)
    log.line(**{**REQUEST, "outcome": "failed", "error": "bad_gateway"})
    assert lines == []
    log.line(**{**REQUEST, "outcome": "failed", "error": "internal_error"})
    assert len(lines) == 1


def test_the_log_of_events_gives_one_that_writes_to_the_same_place() -> None:
    lines: list[bytes] = []
    Log(lines.append, level="warning").requests().line(**{**REQUEST, "outcome": "failed", "error": "bad_gateway"})
    assert len(lines) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"query": f"?access_token={MARKER}"},
        {"query": f"?a%63cess_token={MARKER}"},
        {"path": f"/p;token={MARKER}", "query": ""},
        {"path": f"/p%3Fcode%3D{MARKER}", "query": ""},
        {"path": f"/verify/eyJhbGciOiJub25lIn0.{MARKER}.", "query": ""},
        {"query": f"?next=http://user:{MARKER}@host/"},
        {"detail": f"upstream said: Authorization: Basic {MARKER}"},
    ],
)
def test_no_credential_of_a_target_or_a_cause_reaches_the_line(changes: dict[str, Any]) -> None:
    assert MARKER not in json.dumps(line(**changes))


def test_a_callers_control_characters_and_megabytes_stay_out() -> None:
    hostile = 'x"\r\n{"msg":"forged"}\x1b[2J\x85\u2028' + "y" * 1_000_000
    event = line(
        host=hostile,
        method=hostile,
        path="/" + hostile,
        query="?" + hostile,
        subject=hostile,
        workspace_id=hostile,
        user_agent=hostile.encode("utf-8"),
        detail=hostile,
    )
    assert list(event) == FIELDS
    for value in event.values():
        if isinstance(value, str):
            assert value.isprintable()
            assert len(value) < 2_200


def test_a_query_whose_names_are_remembered_hides_nothing_behind_another_value_or_path() -> None:
    queries = (
        "?page=2",
        "?page=3",
        "?token",
        "?token=x",
        "?a=token",
        "?a=token=x",
        "?a=eyJhbGciOiJub25lIn0.x.",
        "?a&b=",
    )
    for path in ("/a", "/b/eyJhbGciOiJub25lIn0.x.", "/c;token=x", '/d"e', "/f\\g"):
        for query in (*queries, '?page="', "?page=%22", "?page=a://b:c@d", f"?page={'x' * 3000}", "?" + "a=b&" * 100):
            for _ in range(2):
                assert line(path=path, query=query)["path"] == safe_target(path + query)


@given(st.text(st.characters(codec="ascii"), max_size=40), st.text(st.characters(codec="ascii"), max_size=40))
def test_any_target_is_shown_redacted_each_time(path: str, query: str) -> None:
    assert {line(path=path, query=query)["path"] for _ in range(2)} == {safe_target(path + query)}


@given(st.binary(max_size=600))
def test_any_user_agent_is_logged_as_printable_text(user_agent: bytes) -> None:
    text = line(user_agent=user_agent)["userAgent"]
    assert len(text) < 4 * 600
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in text)


def test_a_value_of_a_wrong_type_costs_the_line_and_not_the_request() -> None:
    event = line(host=None, subject="\ud800")
    assert event["level"] == "error"
    assert event["requestId"] == REQUEST["request_id"]
    assert line(subject="\ud800")["subject"] == "\\ud800"
    assert line(client="\ud800")["level"] == "error"


SHARED = {
    "client": ("client", "203.0.113.8"),
    "host": ("host", "other.example.com"),
    "method": ("method", "POST"),
    "route": ("route", "other"),
    "status": ("status", 404),
    "outcome": ("outcome", "refused"),
    "error": ("error", "not_found"),
    "subject": ("subject", "user-2"),
    "workspace_id": ("workspaceId", "43"),
    "upstream": ("upstream", "http://other:3000"),
    "user_agent": ("userAgent", b"other/1"),
}


@pytest.mark.parametrize("part", SHARED)
def test_what_requests_share_is_never_taken_from_another_line(part: str) -> None:
    """A line that names another caller or route than its request's would mislead whoever reads it."""
    name, other = SHARED[part]
    for _ in range(2):
        before, after = line(), line(**{part: other})
        assert after[name] == (other.decode() if isinstance(other, bytes) else other)
        assert {**after, name: before[name]} == before


def test_what_is_long_is_written_and_not_kept() -> None:
    for part in ("host", "method", "subject", "workspace_id", "user_agent"):
        text = f"{part}-" + "x" * 2000
        line(**{part: text.encode() if part == "user_agent" else text})
        assert not any(text in map(str, said) or text.encode() in said for said in log._known_pieces)
