"""A real Chromium, driven by Playwright, that talks to loopback alone.

Playwright's asynchronous interface is used, started inside the test's own loop: the synchronous one keeps a loop of its
own running in the thread, on which no asynchronous test can then run.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.support.counterparts import require_program

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Route

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)

DEADLINE_MS = 15_000

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def chromium_program() -> str:
    """Debian's Chromium; Playwright's own download is never used."""
    return "/usr/bin/chromium" if Path("/usr/bin/chromium").exists() else require_program("chromium")


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A headless browser with an empty profile, closed on leaving. Open pages with `person`."""
    program = chromium_program()
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=list(FLAGS), headless=True)
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def person(browser: Browser) -> AsyncIterator[BrowserContext]:
    """One person at the browser: cookies and storage of their own, as many tabs as `new_page` opens.

    Whatever a page waits for fails after `DEADLINE_MS`. A request to another machine is refused and fails the test on
    leaving, because a page that needs the network is broken where there is none.
    """
    context = await browser.new_context()
    context.set_default_timeout(DEADLINE_MS)
    outside: list[str] = []

    async def refuse(route: Route) -> None:
        outside.append(route.request.url)
        await route.abort()

    await context.route(lambda url: urlsplit(url).hostname not in _LOOPBACK, refuse)
    try:
        yield context
    finally:
        await context.close()
    assert not outside, f"pages asked other machines for {outside}"
