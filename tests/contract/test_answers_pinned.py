"""The gateway's statuses, codes and the shape of its errors are a contract: this is their pinned copy (§14.1).

A code may be added. One that is here changes only together with this file, in a major release.
"""

from __future__ import annotations

import json

from dataplane.errors import CLIENT_CLOSED_REQUEST, ERRORS, GatewayError
from dataplane.replies import error_reply

PINNED = {
    "bad_request": 400,
    "login_failed": 400,
    "websocket_not_allowed": 400,
    "unauthorized": 401,
    "workspace_forbidden": 403,
    "cross_site_request": 403,
    "no_route": 404,
    "not_found": 404,
    "request_timeout": 408,
    "payload_too_large": 413,
    "uri_too_long": 414,
    "expectation_failed": 417,
    "upgrade_required": 426,
    "too_many_requests": 429,
    "headers_too_large": 431,
    "internal_error": 500,
    "not_implemented": 501,
    "bad_gateway": 502,
    "not_ready": 503,
    "gateway_overloaded": 503,
    "access_unavailable": 503,
    "identity_provider_unavailable": 503,
    "session_store_unavailable": 503,
    "rate_limit_unavailable": 503,
    "gateway_timeout": 504,
    "http_version_not_supported": 505,
}


def test_every_code_keeps_its_status() -> None:
    assert {code: spec.status for code, spec in ERRORS.items()} == PINNED
    assert CLIENT_CLOSED_REQUEST == 499


def test_an_error_has_two_fields_and_the_code_is_one_of_them() -> None:
    for code in ERRORS:
        reply = error_reply(GatewayError(code), "req-1", as_page=False)
        body = json.loads(reply.body)
        assert list(body) == ["error", "message"]
        assert body["error"] == code
        assert (b"content-type", b"application/json") in reply.headers
        assert (b"cache-control", b"no-store") in reply.headers
