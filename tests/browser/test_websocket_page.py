"""A page in a real browser opens WebSockets through the gateway: its own, with the session, and another site's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext
from websockets.asyncio.server import Request, Response, ServerConnection, serve

from tests.support.chromium import person
from tests.support.gateway import Running, route, running, table
from tests.support.websocket_peers import close_line

pytestmark = [pytest.mark.browser, pytest.mark.real]

# Opens a socket, echoes a few messages, has it closed by the other side, and says how it went.
TALK = """
(url) => new Promise(resolve => {
  const socket = new WebSocket(url, ["other", "talk"]);
  const got = [];
  socket.binaryType = "arraybuffer";
  socket.onopen = () => { socket.send("hällo"); socket.send("x".repeat(200000)); socket.send(new ArrayBuffer(70000)); };
  socket.onmessage = event => {
    got.push(typeof event.data === "string" ? event.data.slice(0, 5) : event.data.byteLength);
    if (got.length === 3) socket.send("close me");
  };
  socket.onclose = event => resolve({
    got, code: event.code, reason: event.reason, clean: event.wasClean,
    protocol: socket.protocol, extensions: socket.extensions,
  });
})
"""


@asynccontextmanager
async def application() -> AsyncIterator[str]:
    """A page, and an echo that closes with a code of its own when it is asked to; its URL."""

    def page(connection: ServerConnection, request: Request) -> Response | None:
        if "upgrade" in request.headers:
            return None
        response = connection.respond(200, "<!doctype html><title>page</title>")
        del response.headers["content-type"]
        response.headers["content-type"] = "text/html"
        return response

    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            if message == "close me":
                return await connection.close(4321, "as you wish")
            await connection.send(message)
        return None

    async with serve(echo, "127.0.0.1", 0, process_request=page, subprotocols=["talk"]) as server:  # type: ignore[list-item]
        (listening,) = server.sockets
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


async def talk(context: BrowserContext, page_url: str, gw: Running) -> Any:
    """What a page at `page_url` gets of a WebSocket at the gateway."""
    page = await context.new_page()
    await page.goto(page_url)
    return await page.evaluate(TALK, f"ws://127.0.0.1:{gw.port}/")


async def signed_in(context: BrowserContext, gw: Running) -> None:
    name, _, value = (await gw.session("ann")).partition(": ")[2].partition("=")
    await context.add_cookies([{"name": name, "value": value, "url": f"http://127.0.0.1:{gw.port}"}])


async def test_a_page_of_the_gateway_talks_compressed_and_sees_the_applications_close(
    browser: Browser, tmp_path: Path
) -> None:
    async with application() as url, person(browser) as context:
        document = table(route(url, websocket=True, auth={"mode": "session"}))
        async with running(tmp_path, document) as gw:
            await signed_in(context, gw)
            found = await talk(context, f"http://127.0.0.1:{gw.port}/", gw)
            assert found.pop("extensions").startswith("permessage-deflate; ")
            assert found == {
                "got": ["hällo", "xxxxx", 70_000],
                "code": 4321,
                "reason": "as you wish",
                "clean": True,
                "protocol": "talk",
            }
            line = await close_line(gw)
            assert (line["reason"], line["code"], line["subject"]) == ("upstream", 4321, "ann")


async def test_a_page_of_another_site_opens_none_with_the_session(browser: Browser, tmp_path: Path) -> None:
    """The browser adds the cookie: another port is another origin, and the same site to it."""
    async with application() as url, person(browser) as context:
        document = table(route(url, websocket=True, auth={"mode": "session"}))
        async with running(tmp_path, document) as gw:
            await signed_in(context, gw)
            found = await talk(context, f"{url}/", gw)
            assert (found["got"], found["code"]) == ([], 1006)
            line = await gw.request_line()
            assert (line["status"], line["error"]) == (403, "cross_site_request")
            assert url in line["detail"]
