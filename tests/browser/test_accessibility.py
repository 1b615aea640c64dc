"""Every page that a person may meet passes axe, by day and by night."""

from __future__ import annotations

from typing import Literal

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page

from tests.support.chromium import person
from tests.support.demo import RunningDemo

pytestmark = [pytest.mark.browser, pytest.mark.real]


async def _scan(page: Page, name: str) -> list[str]:
    results = await Axe().run(page)
    return [f"{name}: {found['id']}: {found['help']}" for found in results.response["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_page_has_an_accessibility_violation(
    browser: Browser, demo: RunningDemo, scheme: Literal["light", "dark"]
) -> None:
    found: list[str] = []
    async with person(browser) as context:
        page = await context.new_page()
        await page.emulate_media(color_scheme=scheme)
        await page.goto(f"{demo.gateway}/")
        found += await _scan(page, "overview")
        await page.goto(f"{demo.gateway}/me")
        found += await _scan(page, "sign-in")
        await page.get_by_role("button", name="guest@example.test").click()
        await page.wait_for_url(f"{demo.gateway}/me")
        found += await _scan(page, "who am I")
        await page.goto(f"{demo.gateway}/stream")
        await page.get_by_text("Event 1 for").wait_for()
        found += await _scan(page, "stream")
        await page.goto(demo.workspace_url)
        found += await _scan(page, "denied")
        await page.goto(f"{demo.gateway}/auth/callback")
        found += await _scan(page, "error of the gateway")
        await page.goto(f"{demo.gateway}/no/such/page")
        found += await _scan(page, "not found at the upstream")
        await page.goto(f"{demo.provider}/authorize")
        found += await _scan(page, "error of the provider")
    async with person(browser) as context:
        page = await context.new_page()
        await page.emulate_media(color_scheme=scheme)
        await page.goto(demo.workspace_url)
        await page.get_by_role("button", name="member@example.test").click()
        await page.wait_for_url(demo.workspace_url)
        found += await _scan(page, "workspace")
    assert found == []


async def test_pages_fit_a_telephone_without_sideways_scrolling(browser: Browser, demo: RunningDemo) -> None:
    async with person(browser) as context:
        page = await context.new_page()
        await page.set_viewport_size({"width": 360, "height": 700})
        for path in ("/", "/me"):
            await page.goto(f"{demo.gateway}{path}")
            assert await page.evaluate("document.documentElement.scrollWidth") <= 360
