"""Everybody can use the console: by keyboard alone, on a telephone, in light and dark, with a screen reader."""

from __future__ import annotations

import re
from typing import Literal

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from tests.support.console import Site, checked, edited, editor, served, sign_in, visitor
from tests.support.control import TOKENS, route_table

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

# A heading tells that the view is there; the text, that what it shows has come.
VIEWS = {
    "#/routes": "2 routes",
    "#/routes/app": "Time budgets",
    "#/edit": "Based on revision 2",
    "#/history": "revisions shown",
    "#/history/1": "Published by",
    "#/compare/1/2": "1 route added",
    "#/replicas": "revision 2",
    "#/audit": "entries shown",
}


async def _filled(site: Site) -> None:
    await site.publish(route_table("app"))
    await site.publish(route_table("app", "shop"))
    await site.session("ann", "ann@example.com", "admin")
    await site.control.state.beat("gateway-a", 2, "", 60_000)
    await site.control.state.beat("gateway-b", 1, "routes[0]: names nothing", 60_000)


async def _scan(page: Page, name: str) -> list[str]:
    results = await Axe().run(page)
    return [
        f"{name}: {found['id']}: {found['help']}: {[node['html'][:120] for node in found['nodes'][:3]]}"
        for found in results.response["violations"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_view_has_an_accessibility_violation(browser: Browser, scheme: Literal["light", "dark"]) -> None:
    async with served() as site, visitor(browser, site) as page:
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        await _filled(site)
        await page.goto(f"{site.url}/console")
        found = await _scan(page, "sign in")
        await sign_in(page, site)
        for place, text in VIEWS.items():
            await page.goto(f"{site.url}/console{place}")
            await expect(page.get_by_text(text).first).to_be_visible()
            found += await _scan(page, place)
        await page.goto(f"{site.url}/console#/sessions")
        await expect(page.get_by_role("alert")).to_be_visible()
        found += await _scan(page, "not with this token")
        await page.goto(f"{site.url}/console#/edit")
        await edited(page, "{")
        await checked(page)
        found += await _scan(page, "errors")
        await edited(page, {**route_table("app"), "reservedPaths": ["/x"]})
        await checked(page)
        found += await _scan(page, "a valid edit")
        await page.get_by_label("As text").check()
        found += await _scan(page, "a difference as text")
        await page.get_by_role("button", name="Publish…").click()
        found += await _scan(page, "a dialog")
        assert found == []


async def test_no_view_scrolls_sideways_on_a_telephone(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await page.set_viewport_size({"width": 360, "height": 700})
        await _filled(site)
        await sign_in(page, site)
        for place, text in VIEWS.items():
            await page.goto(f"{site.url}/console{place}")
            await expect(page.get_by_text(text).first).to_be_visible()
            assert await page.evaluate("document.documentElement.scrollWidth") <= 360, place


async def _tab_to(page: Page, name: str | re.Pattern[str]) -> None:
    """Press Tab until the control of this name has the focus, which must be visible there."""
    seen: list[str] = []
    for _ in range(60):
        await page.keyboard.press("Tab")
        focused = page.locator(":focus")
        described = await focused.evaluate("element => element.innerText || element.labels?.[0]?.innerText || ''")
        seen.append(described)
        if re.search(name, described):
            shape = await focused.evaluate(
                "element => element.closest('.editor, .choice') ? 'x' : getComputedStyle(element).outlineStyle"
            )
            assert shape != "none", described
            return
    raise AssertionError(f"{name} was not among {seen}")


async def test_a_table_is_changed_and_rolled_back_with_the_keyboard_alone(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await page.goto(f"{site.url}/console")
        await page.keyboard.press("Shift+Tab")
        await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Sign in")).to_be_focused()
        await _tab_to(page, "^Token$")
        await page.keyboard.insert_text(TOKENS["config"])
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Routes")).to_be_focused()
        await _tab_to(page, "^Edit$")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Edit the table")).to_be_focused()
        await expect(editor(page)).to_be_visible()
        await _tab_to(page, "Start again")
        await page.keyboard.press("Tab")
        await expect(editor(page)).to_be_focused()
        await page.keyboard.press("Control+A")
        await page.keyboard.insert_text('{"version": 2, "routes": []}')
        await page.keyboard.press("Control+Enter")
        await expect(page.get_by_text("1 route removed.")).to_be_visible()
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("button", name="Check")).to_be_focused()
        await _tab_to(page, "Publish…")
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Replicas")).to_be_focused()
        await _tab_to(page, "^History$")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("rowheader")).to_have_count(2)
        await _tab_to(page, "Roll back")
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_text("1 route added.")).to_be_visible()
        await _tab_to(page, "Roll back to 1")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Replicas")).to_be_focused()
        assert await site.active() == route_table("app")


async def test_the_focus_cannot_leave_an_open_dialog_and_returns_to_where_it_was(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await site.publish(route_table("shop"))
        await sign_in(page, site, "#/history")
        opener = page.get_by_role("button", name="Roll back to revision 1")
        await opener.press("Enter")
        await expect(page.get_by_role("dialog").get_by_text("1 route added")).to_be_visible()
        for _ in range(12):
            await page.keyboard.press("Tab")
            inside = "() => document.activeElement === document.body || !!document.activeElement.closest('dialog')"
            assert await page.evaluate(inside)
        await page.keyboard.press("Escape")
        await expect(opener).to_be_focused()


async def test_results_are_said_and_times_have_their_utc(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/history")
        await expect(page.locator("#live")).to_have_text(
            "Signed in as config-operator. This token has the scope config."
        )
        time = page.locator("tbody time").first
        await expect(time).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$"))
        await expect(page).to_have_title("History · Wicketgate console")
