"""Every error the gateway answers by itself: code, status, public text (CONTRACT §2.5). `replies` renders them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """How a code is answered. `proxy_error` is the error type of `Proxy-Status` (RFC 9209 §2.3)."""

    status: int
    message: str
    proxy_error: str
    retry_after_s: int | None = None


ERRORS: dict[str, ErrorSpec] = {
    "bad_request": ErrorSpec(400, "The request is malformed.", "http_request_error"),
    "login_failed": ErrorSpec(400, "The login could not be completed. Start it again.", "http_request_denied"),
    "websocket_not_allowed": ErrorSpec(400, "This route does not accept upgrades.", "http_request_denied"),
    "unauthorized": ErrorSpec(401, "Sign in, or send a valid credential.", "http_request_denied"),
    "workspace_forbidden": ErrorSpec(403, "You may not use this workspace.", "http_request_denied"),
    "cross_site_request": ErrorSpec(403, "This request came from another site.", "http_request_denied"),
    "no_route": ErrorSpec(404, "Nothing is served at this address.", "destination_not_found"),
    "not_found": ErrorSpec(404, "Nothing is served at this address.", "destination_not_found"),
    "request_timeout": ErrorSpec(408, "The request made no progress in time.", "http_request_error"),
    "payload_too_large": ErrorSpec(413, "The request body is larger than this route accepts.", "http_request_denied"),
    "uri_too_long": ErrorSpec(414, "The request target is too long.", "http_request_error"),
    "expectation_failed": ErrorSpec(417, "Only the expectation 100-continue is supported.", "http_request_error"),
    "upgrade_required": ErrorSpec(426, "WebSocket version 13 is required.", "http_request_error"),
    "too_many_requests": ErrorSpec(429, "Too many requests. Wait before you try again.", "http_request_denied", 1),
    "headers_too_large": ErrorSpec(431, "The request head is too large.", "http_request_error"),
    "internal_error": ErrorSpec(500, "The gateway could not handle this request.", "proxy_internal_error"),
    "not_implemented": ErrorSpec(
        501, "The gateway does not support this method or transfer coding.", "http_request_error"
    ),
    "bad_gateway": ErrorSpec(502, "The application gave no valid answer.", "http_protocol_error"),
    "not_ready": ErrorSpec(503, "The gateway has no configuration yet.", "proxy_configuration_error", 5),
    "gateway_overloaded": ErrorSpec(503, "The gateway is busy. Try again shortly.", "connection_limit_reached", 1),
    "access_unavailable": ErrorSpec(503, "Access could not be asked. Try again shortly.", "proxy_internal_response", 5),
    "identity_provider_unavailable": ErrorSpec(
        503, "The identity provider could not be asked. Try again shortly.", "proxy_internal_response", 5
    ),
    "session_store_unavailable": ErrorSpec(
        503, "Sessions could not be read. Try again shortly.", "proxy_internal_response", 5
    ),
    "rate_limit_unavailable": ErrorSpec(
        503, "Limits could not be read. Try again shortly.", "proxy_internal_response", 5
    ),
    "gateway_timeout": ErrorSpec(504, "The application did not answer in time.", "http_response_timeout"),
    "http_version_not_supported": ErrorSpec(505, "HTTP/1.0 and HTTP/1.1 are supported.", "http_request_error"),
}

CLIENT_CLOSED_REQUEST = 499
"""Log and metrics only: the caller left before the response head."""


class GatewayError(Exception):
    """A refusal or failure that is answered with `code`.

    `detail` is for the log alone and never reaches the caller. `message` replaces the table's text where the caller
    can act on more. `headers` go out with the answer. `proxy_error` narrows the table's RFC 9209 error type.
    """

    def __init__(
        self,
        code: str,
        detail: str = "",
        *,
        message: str = "",
        headers: tuple[tuple[bytes, bytes], ...] = (),
        proxy_error: str = "",
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(detail or code)
        self.code = code
        self.spec = ERRORS[code]
        self.detail = detail
        self.message = message or self.spec.message
        self.headers = headers
        self.proxy_error = proxy_error or self.spec.proxy_error
        self.retry_after_s = self.spec.retry_after_s if retry_after_s is None else retry_after_s
