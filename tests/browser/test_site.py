"""The documentation in a browser that reaches nothing but the server of its pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.support.chromium import person
from tests.support.ports import free_port
from tests.support.processes import Children
from tests.support.site import build_site

pytestmark = [pytest.mark.browser, pytest.mark.real]


async def test_a_reader_without_the_internet_opens_pages_and_searches(
    browser: Browser, children: Children, tmp_path: Path
) -> None:
    """`person` fails for any request to another machine."""
    port = free_port()
    server = children.start_python(
        "-m", "http.server", str(port), "--bind", "127.0.0.1", "-d", str(build_site(tmp_path))
    )
    server.wait_for_port(port)
    async with person(browser) as context:
        page = await context.new_page()
        broken: list[str] = []
        page.on("response", lambda answer: broken.append(answer.url) if answer.status >= 400 else None)
        page.on("pageerror", lambda error: broken.append(str(error)))
        await page.goto(f"http://127.0.0.1:{port}/index.html", wait_until="networkidle")
        await page.get_by_role("link", name="Incidents", exact=True).first.click()
        await page.get_by_role("heading", name="Everybody gets 401").wait_for()
        await page.get_by_role("textbox", name="Search").fill("rollback")
        await page.get_by_role("link", name="Going back").first.wait_for()
        assert broken == []
