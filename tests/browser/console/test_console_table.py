"""The console shows the active table: each route with its policy and its warnings, found by a search."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.support.console import served, sign_in, visitor
from tests.support.control import route_table

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

TABLE = {
    "version": 2,
    "hosts": ["api.example.com"],
    "defaults": {"auth": {"mode": "any"}, "timeouts": {"responseMs": 15_000}},
    "routes": [
        {
            "id": "files",
            "match": {"host": "api.example.com", "path": "/ws/{workspaceId}/files/", "methods": ["GET", "PUT"]},
            "upstream": ["http://files-a.internal:3000", "http://files-b.internal:3000"],
            "auth": {"workspace": {"param": "workspaceId"}},
            "maxBodyBytes": 1_073_741_824,
            "rateLimits": {"client": {"max": 600, "windowMs": 60_000}},
            "timeouts": {"uploadMs": 120_000},
        },
        {
            "id": "shop",
            "match": {"host": "api.example.com", "path": "/shop/"},
            "upstream": "http://shop.internal:8080",
            "auth": {"mode": "none"},
        },
    ],
}


async def test_each_route_is_shown_with_its_policy_and_its_warnings_beside_it(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(TABLE)
        await sign_in(page, site, token="read")
        await expect(page.get_by_text("Revision 1 is active: 2 routes, 1 warning.")).to_be_visible()
        files = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="files"))
        for text in ("GET", "PUT", "api.example.com", "/ws/{workspaceId}/files/", "Session or bearer token"):
            await expect(files).to_contain_text(text)
        for text in ("Access, for {workspaceId}", "600 by address in 1 min", "bodies up to 1 GiB", "files-b.internal"):
            await expect(files).to_contain_text(text)
        await expect(files.get_by_role("cell").last).to_have_text("none")
        shop = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="shop"))
        await expect(shop).to_contain_text("Anyone")
        await expect(shop.get_by_role("listitem").filter(has_text="anybody may call this route")).to_be_visible()


async def test_a_route_of_its_own_tells_where_each_value_comes_from(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(TABLE)
        await sign_in(page, site)
        await page.get_by_role("link", name="files").click()
        await expect(page.get_by_role("heading", level=1, name="files")).to_be_focused()
        budgets = page.locator("section", has=page.get_by_role("heading", name="Time budgets"))
        facts = ["the deployment’s", "2 min", "15 s" + "from defaults", "the deployment’s", "the deployment’s"]
        await expect(budgets.locator("dd")).to_have_text(facts)
        await page.get_by_role("link", name="Edit this route").click()
        selected = "document.activeElement.value.slice(document.activeElement.selectionStart).slice(0, 80)"
        await expect(page.get_by_label("The route table as JSON")).to_be_focused()
        assert '"id":"files"' in (await page.evaluate(selected)).replace(" ", "").replace("\n", "")


async def test_a_search_narrows_the_list_and_survives_going_back(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(TABLE)
        await sign_in(page, site)
        rows = page.get_by_role("rowheader")
        await page.get_by_label("Search").fill("FILES-B get")
        await expect(rows).to_have_text(["filesGET PUT api.example.com /ws/{workspaceId}/files/"])
        await expect(page.get_by_role("status")).to_have_text("1 route")
        await page.get_by_role("link", name="files").click()
        await page.go_back()
        await expect(page.get_by_label("Search")).to_have_value("FILES-B get")
        await expect(rows).to_have_count(1)
        await page.get_by_label("Search").fill("nowhere")
        await expect(page.get_by_text("No route matches.")).to_be_visible()
        await page.get_by_label("Search").fill("")
        await page.get_by_label("Only with warnings").check()
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("shop")
        await page.get_by_label("Only with warnings").uncheck()
        await page.get_by_label("Callers").select_option("any")
        await expect(rows).to_contain_text("files")


async def test_an_empty_store_is_told_and_leads_to_a_first_table(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await sign_in(page, site)
        await expect(page.get_by_text("No table was ever published.")).to_be_visible()
        await page.get_by_role("link", name="Write the first one").click()
        await expect(page.get_by_text("This one becomes revision 1.")).to_be_visible()


async def test_two_thousand_routes_stay_usable(browser: Browser) -> None:
    """The page holds a hundred of them at a time, and the search sees all."""
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table(*(f"route-{number:04d}" for number in range(2_000))))
        await sign_in(page, site)
        rows = page.get_by_role("rowheader")
        # Judging so large a table is the slow part, on a machine that does other things as well.
        await expect(rows).to_have_count(100, timeout=60_000)
        await page.get_by_role("button", name="Show 100 more").click()
        await expect(rows).to_have_count(200)
        await expect(page.locator("tbody tr").nth(100)).to_be_focused()
        await page.get_by_label("Search").fill("route-1999")
        await expect(rows).to_have_text(["route-1999any host /route-1999/"])
