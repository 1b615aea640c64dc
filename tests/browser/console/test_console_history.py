"""The history in the console: any two revisions compared, an old table published again, and how gateways take it."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, expect

from tests.support.console import served, sign_in, visitor
from tests.support.control import route_table

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]


async def test_any_two_revisions_are_compared_by_route_and_as_text(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        first, second = route_table("app", "old"), route_table("app", "new", defaults={"maxBodyBytes": 1024})
        second["routes"][0]["upstream"] = "http://127.0.0.1:4000"
        await site.publish(first)
        await site.publish(route_table("other"))
        await site.publish(second)
        await sign_in(page, site, "#/history", token="read")
        await page.get_by_label("From revision").fill("1")
        await page.get_by_label("To revision").fill("3")
        await page.get_by_role("button", name="Compare").click()
        diff = page.get_by_label("Difference", exact=True)
        await expect(diff).to_contain_text(
            "1 route added, 1 route removed, 1 route changed, 1 setting outside the routes changed."
        )
        await expect(diff.get_by_role("listitem")).to_have_text(["+ new", "− old"])
        changed = diff.get_by_role("table", name="Changed fields of route app")
        await expect(changed.get_by_role("row").nth(1).get_by_role("cell")).to_have_text(
            ["http://127.0.0.1:3000", "http://127.0.0.1:4000"]
        )
        await expect(changed.get_by_role("columnheader")).to_have_text(["Field", "revision 1", "revision 3"])
        await diff.get_by_label("As text").check()
        await expect(diff.locator(".del", has_text="3000").first).to_be_visible()
        await expect(diff.locator(".add", has_text="4000").first).to_be_visible()
        await expect(page).to_have_url(re.compile(r"#/compare/1/3$"))


async def test_a_rollback_shows_what_it_changes_and_asks_before_it_is_made(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("good"))
        await site.publish(route_table("bad"))
        await sign_in(page, site, "#/history")
        await expect(page.get_by_role("rowheader").first).to_have_text("2 active")
        roll_back = page.get_by_role("button", name="Roll back to revision 1")
        await roll_back.click()
        dialog = page.get_by_role("dialog", name="Roll back to revision 1?")
        await expect(dialog.get_by_role("listitem")).to_have_text(["+ good", "− bad"])
        await page.keyboard.press("Escape")
        await expect(roll_back).to_be_focused()
        assert await site.active() == route_table("bad")
        await roll_back.click()
        await dialog.get_by_role("button", name="Roll back to 1").click()
        await expect(page).to_have_url(re.compile(r"#/replicas\?revision=3$"))
        assert await site.active() == route_table("good")
        await page.get_by_role("link", name="History").click()
        await expect(page.get_by_role("row").nth(1)).to_contain_text("Rolled back")


async def test_a_rollback_that_somebody_overtook_changes_nothing_and_shows_the_new_history(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("good"))
        await site.publish(route_table("bad"))
        await sign_in(page, site, "#/history")
        await page.get_by_role("button", name="Roll back to revision 1").click()
        await site.publish(route_table("newer"))
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="Roll back to 1").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("Somebody else published first")
        await dialog.get_by_role("button", name="Cancel").click()
        await expect(page.get_by_role("rowheader").first).to_have_text("3 active")
        assert await site.active() == route_table("newer")


async def test_a_revision_is_shown_whole_and_older_ones_are_loaded_when_asked_for(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        for number in range(1, 56):
            await site.publish(route_table(f"route-{number}"))
        await sign_in(page, site, "#/history", token="read")
        rows = page.get_by_role("rowheader")
        await expect(rows).to_have_count(50)
        await page.get_by_role("button", name="Load more").click()
        await expect(rows).to_have_count(55)
        await expect(page.locator("tbody tr").nth(50)).to_be_focused()
        await expect(page.get_by_text("55 revisions shown, that is all")).to_be_visible()
        await page.get_by_role("link", name="1", exact=True).click()
        await expect(page.get_by_role("region", name="The table as JSON")).to_contain_text('"id": "route-1"')
        await expect(page.get_by_text("Published by config-operator")).to_be_visible()


async def test_what_does_not_exist_is_told(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/history/99")
        await expect(page.get_by_role("alert")).to_contain_text("There is no revision 99.")
        await page.goto(f"{site.url}/console#/routes/nothing")
        await expect(page.get_by_text("The active table has no route of this id.")).to_be_visible()
        await page.goto(f"{site.url}/console#/no/such/view")
        await expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
