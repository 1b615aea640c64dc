"""The only place that renders an answer of the gateway's own: JSON for programs, a small page for people."""

from __future__ import annotations

import html
from dataclasses import dataclass

import orjson

from dataplane.errors import GatewayError

JSON = b"application/json"

# Nothing on the page is fetched, run or framed; its one style block is allowed by `unsafe-inline` for styles alone.
PAGE_CSP = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE_HEADERS = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", PAGE_CSP),
    (b"x-content-type-options", b"nosniff"),
)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer. `content-length` and `x-request-id` are added where it is written."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""


class Answered(Exception):
    """Raised by a step whose answer is a documented reply rather than an error: the redirect to the login."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


def redirect(location: str) -> Reply:
    """A 302 that no cache keeps. `location` is ASCII without control characters: its maker's duty."""
    return Reply(302, ((b"location", location.encode("ascii")), (b"cache-control", b"no-store")))


def onward_page(location: str) -> Reply:
    """A page that goes on to `location` by itself: a navigation of this site's own, which a redirect is not.

    It needs no script. Its own address, which may hold a code, is sent to nobody.
    """
    page = _ONWARD.format(location=html.escape(location))
    headers = ((b"cache-control", b"no-store"), *_PAGE_HEADERS, (b"referrer-policy", b"no-referrer"))
    return Reply(200, headers, page.encode())


def json_reply(status: int, value: object, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Reply:
    """A JSON answer that no cache keeps."""
    body = orjson.dumps(value)
    return Reply(status, ((b"content-type", JSON), (b"cache-control", b"no-store"), *headers), body)


def error_reply(error: GatewayError, request_id: str, *, as_page: bool) -> Reply:
    """The answer of an error: the same code, message and request id in JSON or as a page (CONTRACT §2.5)."""
    headers: list[tuple[bytes, bytes]] = [
        (b"cache-control", b"no-store"),
        (b"proxy-status", b"wicketgate; error=" + error.proxy_error.encode()),
    ]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", str(error.retry_after_s).encode()))
    headers.extend(error.headers)
    if as_page:
        headers.extend(_PAGE_HEADERS)
        return Reply(error.spec.status, tuple(headers), _page(error, request_id))
    headers.append((b"content-type", JSON))
    return Reply(error.spec.status, tuple(headers), orjson.dumps({"error": error.code, "message": error.message}))


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{message}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 15vh auto; max-width: 34rem; padding: 0 1.25rem; }}
h1 {{ font-size: 1.5rem; line-height: 1.3; }}
code {{ font-size: 0.9rem; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<main>
<h1>{message}</h1>
<p>Status {status}, <code>{code}</code></p>
<p>If you report this, name the request: <code>{request_id}</code></p>
</main>
</body>
</html>
"""


_ONWARD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="0;url={location}">
<title>Signed in</title>
</head>
<body>
<main>
<h1>Signed in</h1>
<p><a href="{location}">Go on</a></p>
</main>
</body>
</html>
"""


def _page(error: GatewayError, request_id: str) -> bytes:
    return _PAGE.format(
        message=html.escape(error.message),
        status=error.spec.status,
        code=html.escape(error.code),
        request_id=html.escape(request_id),
    ).encode()
