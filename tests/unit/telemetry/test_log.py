"""One event is one JSON line, redacted, whatever is passed (§12.2)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.settings.secret import Secret
from common.telemetry.log import Clock, Log

MARKER = "m4rK3rZ9"
NOW = 1_769_903_999.9996  # 2026-01-31T23:59:59.999Z and some microseconds


def logged(emit: Callable[[Log], object], **options: Any) -> list[dict[str, Any]]:
    lines: list[bytes] = []
    emit(Log(lines.append, now=lambda: NOW, **options))
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    return [json.loads(line) for line in lines]


def test_a_line_begins_with_time_level_and_message() -> None:
    lines: list[bytes] = []
    Log(lines.append, now=lambda: NOW).warning("Access is away", route="app", status=503)
    assert lines == [
        b'{"time":"2026-01-31T23:59:59.999Z","level":"warning","msg":"Access is away","route":"app","status":503}\n'
    ]


def test_a_field_cannot_replace_what_every_line_has() -> None:
    (line,) = logged(lambda log: log.info("real", time="x", level="y"))
    assert (line["time"], line["level"], line["msg"]) == ("2026-01-31T23:59:59.999Z", "info", "real")


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_only_the_level_and_what_is_above_it_is_written(level: str, shown: list[str]) -> None:
    def emit(log: Log) -> None:
        log.debug("d")
        log.info("i")
        log.warning("w")
        log.error("e")

    assert [line["level"] for line in logged(emit, level=level)] == shown


def test_the_clock_follows_the_second_and_the_millisecond() -> None:
    times = iter((0.0, 0.0004, 0.001, 0.999, 1.0, 1.0, 86_400.5))
    clock = Clock(lambda: next(times))
    texts = [clock.text() for _ in range(7)]
    assert texts == [
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.001Z",
        "1970-01-01T00:00:00.999Z",
        "1970-01-01T00:00:01.000Z",
        "1970-01-01T00:00:01.000Z",
        "1970-01-02T00:00:00.500Z",
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"authorization": f"Whatever {MARKER}"},
        {"Cookie": MARKER},
        {"set-cookie": [MARKER]},
        {"x-api-key": MARKER.encode()},
        {"clientSecret": MARKER},
        {"headers": {"Authorization": MARKER, "set-cookie": MARKER}},
        {"headers": {"outer": {"password": MARKER}}},
        {"headers": [(b"authorization", f"Bearer {MARKER}".encode())]},
        {"url": f"http://user:{MARKER}@upstream/?token={MARKER}"},
        {"error": ValueError(f"no route to http://user:{MARKER}@upstream")},
        {"exc": ValueError(f"Authorization: Basic {MARKER}")},
        {"secret": Secret(MARKER)},
        {"settings": [Secret(MARKER), {"a": Secret(MARKER)}]},
        {"body": f'{{"access_token":"{MARKER}"}}'.encode()},
    ],
)
def test_no_credential_reaches_a_line_in_a_field(fields: dict[str, object]) -> None:
    (line,) = logged(lambda log: log.error(f"failed with Bearer {MARKER}", **fields))
    assert MARKER not in json.dumps(line)
    assert "[redacted]" in json.dumps(line)


def test_an_exception_is_written_with_its_stack_and_without_its_credentials() -> None:
    def fails(depth: int) -> None:
        if depth:
            fails(depth - 1)
        raise ConnectionError(f"GET http://user:{MARKER}@upstream\r\nCookie: a={MARKER}")

    try:
        fails(200)
    except ConnectionError as caught:
        error = caught
    (line,) = logged(lambda log: log.error("Upstream failed", exc=error))
    assert line["error"].startswith("ConnectionError: GET http://[redacted]@upstream")
    assert "in fails" in line["stack"]
    assert len(line["stack"]) < 10_000
    assert MARKER not in json.dumps(line)


def test_an_event_stays_one_line_without_control_characters() -> None:
    hostile = 'x\r\n{"level":"error","msg":"forged"}\x1b[2J\u2028\x00'
    lines: list[bytes] = []
    Log(lines.append).info(hostile, path=hostile, **{hostile: hostile})
    (line,) = lines
    assert line.count(b"\n") == 1
    event = json.loads(line)
    for text in (event["msg"], event["path"], *event):
        assert len(text.splitlines()) == 1
        assert text.isprintable()


def test_a_huge_value_is_cut() -> None:
    lines: list[bytes] = []
    Log(lines.append).info(
        "x" * 1_000_000,
        path="/" + "y" * 1_000_000,
        body=b"z" * 1_000_000,
        many=list(range(100_000)),
        mapping={str(n): "v" * 10_000 for n in range(1_000)},
        number=10**400,
    )
    assert len(lines[0]) < 150_000
    assert "more]" in json.loads(lines[0])["msg"]


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_a_value_that_breaks_is_reported_instead_of_raised() -> None:
    (line,) = logged(lambda log: log.info("x", value=Unprintable()))
    assert line["level"] == "error"
    assert line["error"] == "RuntimeError"


def test_a_value_that_holds_itself_ends() -> None:
    loop: list[object] = []
    loop.append(loop)
    (line,) = logged(lambda log: log.info("x", value=loop))
    assert "value" in line


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.builds(Secret, st.just(MARKER))
    | st.builds(object)
    | st.builds(ValueError, st.text()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(msg=st.text(), fields=st.dictionaries(st.text(min_size=1), VALUES, max_size=5))
def test_whatever_is_passed_becomes_one_line_of_json(msg: str, fields: dict[str, object]) -> None:
    lines: list[bytes] = []
    Log(lines.append)._emit("info", msg, fields)
    (line,) = lines
    event = json.loads(line)
    assert list(event)[:3] == ["time", "level", "msg"]
    assert line.count(b"\n") == 1
    assert MARKER.encode() not in line
