"""Spans of requests, as an OTLP receiver gets them from the SDK's own exporter."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from common.telemetry.log import Log
from dataplane.spans import SAMPLED_SHARE, Spans, open_spans, spans_problem
from tests.support.gateway import DEADLINE_S, route, running, table
from tests.support.upstreams import answers_with, ok, upstream

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Receiver:
    """Takes what is exported."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.thread.start()
    yield receiver
    receiver.server.shutdown()
    receiver.thread.join()
    receiver.server.server_close()


def opened(receiver: Receiver, monkeypatch: pytest.MonkeyPatch, **variables: str) -> Spans:
    environment = {ENDPOINT: receiver.url, **variables}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)  # the exporter reads its own variables
    assert spans_problem(environment) == ""
    spans = open_spans(environment, Log(lambda _: None))
    assert spans is not None
    return spans


def said(span: Span) -> dict[str, Any]:
    values = {each.key: each.value for each in span.attributes}
    return {key: getattr(value, value.WhichOneof("value")) for key, value in values.items()}


async def test_a_request_leaves_a_span_with_the_ids_of_its_log_line_and_its_upstream(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = opened(receiver, monkeypatch)
    async with upstream(answers_with(ok())) as app, running(tmp_path, table(route(app.url)), spans=spans) as gw:
        await gw.get("/items?token=hidden", "user-agent: hidden")
        line = await gw.request_line()
        (seen,) = app.requests
    (span,) = receiver.spans
    assert (span.trace_id.hex(), span.span_id.hex()) == (line["traceId"], line["spanId"])
    assert seen.values(b"traceparent") == [f"00-{line['traceId']}-{line['spanId']}-01".encode()]
    assert (span.name, span.kind, span.parent_span_id) == ("GET r0", Span.SPAN_KIND_SERVER, b"")
    assert 0 <= span.end_time_unix_nano - span.start_time_unix_nano < 60e9
    told = said(span)
    assert (told["http.response.status_code"], told["url.path"], told["wicketgate.outcome"]) == (200, "/items", "ok")
    assert told["wicketgate.upstream"] == app.url
    assert "hidden" not in str(span)
    (resource,) = [each.resource for each in receiver.requests[0].resource_spans]
    assert "wicketgate" in str(resource)


async def test_the_callers_trace_goes_on_below_its_span(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = opened(receiver, monkeypatch, **{SAMPLED_SHARE: "0"})
    async with upstream(answers_with(ok())) as app, running(tmp_path, table(route(app.url)), spans=spans) as gw:
        await gw.get("/", f"traceparent: 00-{CALLER[0]}-{CALLER[1]}-01")
        await gw.get("/", f"traceparent: 00-{CALLER[0]}-{CALLER[1]}-00")
        await gw.get("/")
    (span,) = receiver.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == CALLER


async def test_a_failure_is_one_in_the_trace_too(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = opened(receiver, monkeypatch)
    async with running(tmp_path, table(route("http://127.0.0.1:9")), spans=spans) as gw:
        assert (await gw.get("/")).status == 502
    (span,) = receiver.spans
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert said(span)["error.type"] == "bad_gateway"


async def test_an_endpoint_that_is_away_costs_no_request_and_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, lines, loop = asyncio.Event(), list[bytes](), asyncio.get_running_loop()

    def write(line: bytes) -> None:
        lines.append(line)
        loop.call_soon_threadsafe(told.set)

    for name, value in ((ENDPOINT, "http://127.0.0.1:9"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "1")):
        monkeypatch.setenv(name, value)
    spans = open_spans({ENDPOINT: "http://127.0.0.1:9"}, Log(write))
    async with upstream(answers_with(ok())) as app, running(tmp_path, table(route(app.url)), spans=spans) as gw:
        for _ in range(3):
            assert (await gw.get("/")).status == 200
    async with asyncio.timeout(DEADLINE_S):
        await told.wait()
    assert len(lines) == 1
    assert b"spans are not sent" in lines[0]


def test_nothing_is_opened_where_no_endpoint_is_named() -> None:
    assert open_spans({}, Log(lambda _: None)) is None
    assert spans_problem({}) == ""


@pytest.mark.parametrize("share", ["half", "-0.1", "1.1", "nan", ""])
def test_a_share_that_is_none_stops_the_start(share: str) -> None:
    assert SAMPLED_SHARE in spans_problem({ENDPOINT: "http://127.0.0.1:9", SAMPLED_SHARE: share})


def test_an_extra_that_is_not_installed_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "pip install 'wicketgate[otel]'" in spans_problem({ENDPOINT: "http://127.0.0.1:9"})
