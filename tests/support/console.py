"""The console in a browser: the control plane on loopback, and a page of it that must stay within its policy."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import secrets
import socket
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass
from typing import Any

import uvicorn
from playwright.async_api import Browser, Locator, Page, expect

from common.state.administration import HANDLE_LENGTH
from common.state.ports import NewSession
from tests.support.chromium import person
from tests.support.control import TOKENS, Control

EDITOR = "The route table as JSON"


class _Server(uvicorn.Server):
    """A server that leaves the signals to the test run."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@dataclass(frozen=True, slots=True)
class Site:
    """A running control plane: `url` is its origin."""

    url: str
    control: Control

    async def publish(self, table: object) -> int:
        """Make `table` the next revision behind the console's back; its number."""
        active = (await self.control.state.read_table()).revision
        response = await self.control.put(table, active)
        assert response.status_code == 201, response.text
        return int(response.json()["revision"])

    async def session(self, subject: str, email: str = "", *roles: str) -> str:
        """A live session of a subject; its handle."""
        id_hash = hashlib.sha256(secrets.token_bytes(32)).hexdigest()
        new = NewSession(id_hash, subject, email, roles, idle_ms=3_600_000, max_age_ms=86_400_000)
        await self.control.state.create_session(new)
        return id_hash[:HANDLE_LENGTH]

    async def active(self) -> Any:
        """The active table."""
        document = (await self.control.state.read_table()).document
        return None if document is None else json.loads(document)


@contextlib.asynccontextmanager
async def served(control: Control | None = None) -> AsyncIterator[Site]:
    """The control plane over memory, in this loop, on a free port."""
    control = control or Control()
    config = uvicorn.Config(
        control.plane.app, http="h11", ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=1
    )
    server = _Server(config)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        running = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            yield Site(f"http://127.0.0.1:{sock.getsockname()[1]}", control)
        finally:
            server.should_exit = True
            await running
            control.plane.close()


@contextlib.asynccontextmanager
async def visitor(browser: Browser, site: Site) -> AsyncIterator[Page]:
    """A page for one person. On leaving: no script failed, nothing broke the policy, no other origin was asked."""
    complaints: list[str] = []

    def hear(kind: str, text: str) -> None:
        # A status that is no success is reported as an error, too; those are what the console is there to handle.
        if kind in ("error", "warning") and not text.startswith("Failed to load resource"):
            complaints.append(text)

    async with person(browser) as context:
        page = await context.new_page()
        page.on("pageerror", lambda error: complaints.append(f"a script failed: {error}"))
        page.on("console", lambda message: hear(message.type, message.text))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(f"{site.url}/") else complaints.append(f"asked {asked.url}"),
        )
        yield page
    assert complaints == []


async def sign_in(page: Page, site: Site, place: str = "", *, token: str = "config") -> None:
    """Open a place of the console (`#/edit`) and sign in there, with the token of a scope or a token itself."""
    await page.goto(f"{site.url}/console{place}")
    await give_token(page, token)
    await expect(page.get_by_role("button", name="Forget token")).to_be_visible()


async def give_token(page: Page, token: str) -> None:
    """Fill in the form."""
    await page.get_by_label("Token").fill(TOKENS.get(token, token))
    await page.get_by_role("button", name="Sign in").click()


def editor(page: Page) -> Locator:
    """The text of the table."""
    return page.get_by_label(EDITOR)


async def edited(page: Page, table: object) -> None:
    """Write a table, or a text, in place of the one that is there."""
    await editor(page).fill(table if isinstance(table, str) else json.dumps(table, indent=2))


async def checked(page: Page) -> None:
    """Have it checked, and wait for what was found."""
    await page.get_by_role("button", name="Check").click()
    await expect(page.locator(".bar .status .spinner")).to_have_count(0)


async def published(page: Page) -> None:
    """Check, publish, and confirm."""
    await checked(page)
    await page.get_by_role("button", name="Publish…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Publish").click()
