"""The reference of the API at `/docs`: whole without a network, within its policy, and of use with a token."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.support.console import served, visitor
from tests.support.control import TOKENS

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]


async def test_the_reference_shows_every_operation_and_asks_nobody_else(browser: Browser) -> None:
    """`visitor` sees to it that no script failed, nothing broke the policy, and no other origin was asked."""
    async with served() as site, visitor(browser, site) as page:
        await page.goto(f"{site.url}/docs")
        await expect(page.get_by_role("heading", name="Wicketgate control plane")).to_be_visible()
        described = (await site.control.send("GET", "/openapi.json")).json()["paths"]
        operations = page.locator(".opblock")
        await expect(operations).to_have_count(sum(len(each) for each in described.values()))
        await page.locator("#operations-config-putConfig .opblock-summary-control").click()
        await expect(page.get_by_text("precondition_required").first).to_be_visible()


async def test_an_operation_is_tried_with_a_token_that_the_page_keeps_nowhere(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await page.goto(f"{site.url}/docs")
        await page.get_by_role("button", name="Authorize").first.click()
        await page.locator(".auth-container input").first.fill(TOKENS["read"])
        await page.locator(".auth-container").first.get_by_role("button", name="Apply credentials").click()
        await page.get_by_role("button", name="Close").last.click()
        await page.locator("#operations-me-getMe .opblock-summary-control").click()
        await page.get_by_role("button", name="Try it out").click()
        await page.get_by_role("button", name="Execute").click()
        await expect(page.locator(".live-responses-table")).to_contain_text("read-operator")
        kept = await page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
        assert TOKENS["read"] not in kept
