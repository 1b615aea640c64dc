"""A plain reverse proxy on aiohttp, as one would write it: `aiohttp_proxy.py PORT UPSTREAM`.

It adds the same ten headers as the other peers and decides nothing. Bodies are streamed.
"""

from __future__ import annotations

import sys

import uvloop
from aiohttp import ClientSession, DummyCookieJar, TCPConnector, web
from yarl import URL

HOP_BY_HOP = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length"})
IDENTITY = {
    "x-gateway-authenticated": "true",
    "x-gateway-user-id": "demo-member",
    "x-gateway-email": "member@example.test",
    "x-gateway-roles": "developer",
    "x-gateway-workspace-id": "6f1c2a58-93b4-4c0e-8a27-5d0be1f4c973",
}
UPSTREAM = web.AppKey("upstream", str)
SESSION = web.AppKey("session", ClientSession)


async def forward(request: web.Request) -> web.StreamResponse:
    headers = [(name, value) for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP]
    headers += [
        ("x-forwarded-for", request.remote or ""),
        ("x-forwarded-proto", request.scheme),
        ("x-forwarded-host", request.host),
        ("x-request-id", "0123456789abcdef0123456789abcdef"),
        ("traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"),
        *IDENTITY.items(),
    ]
    target = URL(request.app[UPSTREAM] + request.raw_path, encoded=True)
    body = request.content if request.body_exists else None
    async with request.app[SESSION].request(
        request.method, target, headers=headers, data=body, allow_redirects=False
    ) as answer:
        kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP]
        response = web.StreamResponse(status=answer.status, headers=dict(kept))
        response.content_length = answer.content_length
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
        return response


async def application(upstream: str) -> web.Application:
    app = web.Application()
    app[UPSTREAM] = upstream
    app[SESSION] = ClientSession(
        connector=TCPConnector(limit=0),
        auto_decompress=False,
        cookie_jar=DummyCookieJar(),
        skip_auto_headers=["User-Agent"],
    )
    app.router.add_route("*", "/{path:.*}", forward)
    return app


if __name__ == "__main__":
    web.run_app(
        application(sys.argv[2]),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        access_log=None,
        print=None,
        loop=uvloop.new_event_loop(),
    )
