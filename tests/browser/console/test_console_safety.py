"""The console gives nothing away: not its token, and no text from outside becomes anything but text."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, Page, expect

from tests.support.console import checked, edited, give_token, served, sign_in, visitor
from tests.support.control import TOKENS, route_table

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

VIEWS = ("routes", "routes/app", "edit", "history", "history/1", "compare/1/2", "replicas", "sessions", "audit")

EVERYWHERE = """
async () => {
  const databases = (await indexedDB.databases()).map(({ name }) => name);
  const fields = [...document.querySelectorAll("input, textarea")].map((field) => field.value);
  const caches_ = await caches.keys();
  return JSON.stringify([
    { ...localStorage }, { ...sessionStorage }, document.cookie, location.href, history.state, databases, caches_,
    fields, document.documentElement.outerHTML, performance.getEntriesByType("resource").map(({ name }) => name),
  ]);
}
"""

LEFT_AND_BACK = """
() => {
  for (const type of ["pagehide", "pageshow"]) dispatchEvent(new PageTransitionEvent(type, { persisted: true }));
}
"""

# What would show if a text were read as markup, or as a direction.
HOSTILE = "<img src=x onerror=\"window.hit='img'\"><script>window.hit='script'</script>\u202egpj.exe\u0000\u200b"
LONG = "x" * 10_000


async def test_the_token_is_in_the_memory_of_the_page_alone(browser: Browser) -> None:
    token = TOKENS["config"]
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await site.publish(route_table("app", "shop"))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url + str(request.post_data)))
        await sign_in(page, site)
        for view in VIEWS:
            await page.goto(f"{site.url}/console#/{view}")
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert token not in await page.evaluate(EVERYWHERE), view
        assert [one for one in asked if token in one] == []
        assert await page.context.cookies() == []
        await page.reload()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        await expect(page.get_by_label("Token")).to_have_value("")


async def test_a_token_that_was_forgotten_is_gone(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site)
        await page.get_by_role("button", name="Forget token").click()
        await expect(page.get_by_label("Token")).to_be_focused()
        await expect(page.get_by_role("navigation")).to_be_hidden()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.evaluate("location.hash = '#/history'")
        await expect(page.get_by_label("Token")).to_be_visible()
        await page.go_back()
        await expect(page.get_by_label("Token")).to_be_visible()
        assert [one for one in asked if "/v1/" in one] == []


async def test_a_page_that_the_browser_kept_comes_back_without_the_token(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site)
        await page.evaluate(LEFT_AND_BACK)
        await expect(page.get_by_label("Token")).to_be_visible()


async def test_a_wrong_token_is_refused_and_leaves_the_field_empty(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await page.goto(f"{site.url}/console")
        await give_token(page, "a-token-that-nobody-gave-out")
        await expect(page.get_by_role("alert")).to_contain_text("does not know this token")
        await expect(page.get_by_label("Token")).to_have_value("")
        await expect(page.get_by_label("Token")).to_be_focused()
        await give_token(page, "töken with spaces")
        await expect(page.get_by_role("alert")).to_contain_text("printable ASCII")


async def test_after_too_many_failures_the_form_waits_as_long_as_it_is_told(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await page.goto(f"{site.url}/console")
        for number in range(6):
            await give_token(page, f"a-token-that-nobody-gave-out-{number}")
            await expect(page.get_by_role("alert")).to_be_visible()
            await expect(page.get_by_label("Token")).to_be_enabled()
        await expect(page.get_by_role("alert")).to_contain_text("Too many failed sign-ins from this address")
        await expect(page.get_by_role("button", name=re.compile(r"Sign in in \d+ s"))).to_be_disabled()


async def test_a_short_outage_is_waited_for_and_a_long_one_is_told(browser: Browser) -> None:
    away = {"status": 503, "json": {"error": "state_unavailable", "message": "away"}, "headers": {"retry-after": "1"}}
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit")
        refusals = 1

        async def answer(route: Any) -> None:
            nonlocal refusals
            refusals -= 1
            await (route.fulfill(**away) if refusals >= 0 else route.continue_())

        await page.route("**/v1/config", answer)
        await page.get_by_role("link", name="Routes").click()
        await expect(page.get_by_role("rowheader")).to_have_count(1)
        refusals = 3
        await page.get_by_role("navigation").get_by_role("link", name="Edit").click()
        await expect(page.get_by_role("alert")).to_contain_text("The shared state is away")
        again = page.get_by_role("button", name="Try again", exact=True)
        await again.click()
        await expect(page.get_by_text("Based on revision 1")).to_be_visible()


def hostile_table() -> dict[str, Any]:
    table = route_table("app")
    table["routes"][0]["match"]["path"] = "/app/" + "y" * 4_000
    table["routes"][0]["upstream"] = [f"http://{'a' * 60}.{'b' * 60}.example.com:3000/{'z' * 2_000}"]
    return table


async def _inert(page: Page) -> None:
    assert await page.evaluate("window.hit") is None
    assert await page.locator("main img, main script").count() == 0
    assert await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize("width", [1280, 360])
async def test_hostile_texts_stay_texts_and_break_no_layout(browser: Browser, width: int) -> None:
    """Each list answers with markup, direction overrides and ten thousand letters in every place."""
    names = ("operator", "action", "time", "scope", "client", "requestId", "email", "createdAt", "idleExpiresAt")
    entry: dict[str, Any] = dict.fromkeys(names, HOSTILE) | dict.fromkeys(("target", "expiresAt"), LONG)
    entry |= dict.fromkeys(("subject", "replica", "lastError"), HOSTILE + LONG)
    entry |= {"id": 1, "revision": 1, "behind": 0, "ageMs": 0, "lastUsedAt": "", "handle": "0123456789abcdef"}
    entry |= {"roles": [LONG, HOSTILE], "table": {HOSTILE: LONG}}
    listed = {"items": [entry], "nextCursor": None, "revision": 1}
    fields = [{"path": LONG, "before": HOSTILE, "after": {"a": LONG}}]
    diff: dict[str, Any] = {
        "from": 1,
        "to": 2,
        "added": [HOSTILE],
        "removed": [LONG],
        "settings": [],
        "unified": f"+{HOSTILE}\n-{LONG}",
    }
    diff["changed"] = [{"id": HOSTILE, "fields": fields}]
    async with served() as site, visitor(browser, site) as page:
        await page.set_viewport_size({"width": width, "height": 800})
        await site.publish(hostile_table())
        await sign_in(page, site)
        await expect(page.get_by_role("rowheader")).to_have_count(1)
        await _inert(page)
        for path in ("config/revisions?*", "replicas", "sessions?*", "audit?*"):
            await page.route(f"**/v1/{path}", lambda route: route.fulfill(json=listed))
        await page.route("**/v1/config/diff?*", lambda route: route.fulfill(json=diff))
        await page.route("**/v1/config/revisions/1", lambda route: route.fulfill(json=entry))
        for view in ("routes/app", "history", "history/1", "compare/1/2", "replicas", "sessions", "audit"):
            await page.goto(f"{site.url}/console#/{view}")
            await expect(page.locator("main .said, main .code").first).to_be_visible()
            await _inert(page)
        await expect(page.get_by_text("\\u{202e}").first).to_be_visible()
        await page.get_by_role("button", name=re.compile("^Show all .* characters$")).first.click()
        await _inert(page)
        await page.goto(f"{site.url}/console#/compare/1/2")
        await page.get_by_label("As text").check()
        await _inert(page)


async def test_hostile_errors_of_the_api_stay_texts(browser: Browser) -> None:
    refusal = {"error": HOSTILE, "message": HOSTILE + LONG, "errors": [{"path": LONG, "message": HOSTILE}]}
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit")
        await edited(page, f'{{"version": 2, "routes": [{{"id": "<b>x</b>{LONG}"}}]}}')
        await checked(page)
        await expect(page.get_by_role("heading", name=re.compile(r"^\d errors?$"))).to_be_visible()
        await _inert(page)
        await page.route("**/v1/config/validate", lambda route: route.fulfill(status=400, json=refusal))
        await page.get_by_role("button", name="Check").click()
        await expect(page.get_by_role("alert")).to_be_visible()
        await _inert(page)


async def test_a_place_in_the_address_is_shown_as_text(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/routes/%3Cimg%20src=x%20onerror=%22window.hit=1%22%3E")
        await expect(page.get_by_role("heading", level=1)).to_have_text('<img src=x onerror="window.hit=1">')
        for odd in ("#/history/%", "#/compare/x/y", "#/audit?action=%00&from=never", "#/constructor", "#/__proto__/x"):
            await page.goto(f"{site.url}/console{odd}")
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await _inert(page)


async def test_the_policy_lets_no_markup_and_no_inline_script_in(browser: Browser) -> None:
    """What the policy is there for: even a slip in the console's own code would run nothing."""
    async with served() as site:
        page = await browser.new_page()
        await page.goto(f"{site.url}/console")
        found = await page.evaluate(
            """() => {
              const blocked = [];
              for (const [name, attempt] of Object.entries({
                markup: () => { document.body.innerHTML = "<b>x</b>"; },
                script: () => { document.createElement("script").text = "window.hit = 1"; },
                policy: () => trustedTypes.createPolicy("x", { createHTML: (text) => text }),
              })) try { attempt(); } catch { blocked.push(name); }
              return blocked;
            }"""
        )
        assert found == ["markup", "script", "policy"]
        async with httpx.AsyncClient() as http:
            told = (await http.get(f"{site.url}/console")).headers["content-security-policy"]
        assert "'unsafe-inline'" not in told
        assert "frame-ancestors 'none'" in told
        await page.close()


@pytest.mark.parametrize("scope", ["read", "operate", "config"])
async def test_the_page_says_as_whom_it_acts(browser: Browser, scope: str) -> None:
    """People have several tokens; the trail will name the one that they used."""
    async with served() as site, visitor(browser, site) as page:
        await sign_in(page, site, token=scope)
        await expect(page.locator(".who")).to_contain_text(f"{scope}-operator")
        await expect(page.locator(".who .badge")).to_have_text(scope)
        await page.get_by_role("button", name="Forget token").click()
        await expect(page.get_by_text(f"{scope}-operator")).to_have_count(0)
