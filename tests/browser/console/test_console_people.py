"""Sessions, decisions, replicas and the audit trail in the console."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.support.console import served, sign_in, visitor
from tests.support.control import route_table

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

HIDE = """
(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}
"""


# A time as a field for local time takes it.
LOCAL = """
(text) => {
  const time = new Date(text);
  return new Date(time - time.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}
"""


async def _confirm(page: Page, name: str) -> None:
    await page.get_by_role("dialog").get_by_role("button", name=name).click()


async def test_a_subjects_sessions_are_listed_and_one_or_all_of_them_revoked(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        mine = [await site.session("ann", "ann@example.com", "admin", "dev") for _ in range(3)]
        other = await site.session("ben")
        await sign_in(page, site, token="operate")
        rows = page.get_by_role("rowheader")
        await expect(rows).to_have_count(4)
        await page.get_by_label("Subject", exact=True).first.fill("ann")
        await page.get_by_role("button", name="List").click()
        await expect(rows).to_have_count(3)
        await expect(page).to_have_url(re.compile(r"#/sessions\?subject=ann$"))
        await expect(page.get_by_role("row").nth(1)).to_contain_text("admin, dev")
        one = page.get_by_role("button", name=f"Revoke (the session {mine[0]})")
        await one.click()
        await page.get_by_role("dialog", name="Revoke this session?").get_by_role("button", name="Cancel").click()
        await expect(one).to_be_focused()
        await expect(rows).to_have_count(3)
        await one.click()
        await _confirm(page, "Revoke it")
        await expect(rows).to_have_count(2)
        await expect(page.locator("#live")).to_have_text("Revoked 1 session.")
        await page.get_by_role("button", name="Revoke all of them").click()
        await _confirm(page, "Revoke them all")
        await expect(page.get_by_text("No live session.")).to_be_visible()
        left = await site.control.send("GET", "/v1/sessions", token="read")
        assert [one["handle"] for one in left.json()["items"]] == [other]


async def test_a_session_is_revoked_by_the_handle_that_a_log_shows(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        handle = await site.session("ann")
        await sign_in(page, site, "#/sessions", token="operate")
        card = page.locator("section", has=page.get_by_role("heading", name="Revoke by handle"))
        await card.get_by_label("Handle").fill("not a handle")
        await card.get_by_role("button").click()
        await expect(card.get_by_role("alert")).to_contain_text("16 hexadecimal characters")
        await card.get_by_label("Handle").fill("0" * 16)
        await card.get_by_role("button").click()
        await _confirm(page, "Revoke it")
        await expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
        await page.keyboard.press("Escape")
        await card.get_by_label("Handle").fill(handle)
        await card.get_by_role("button").click()
        await _confirm(page, "Revoke it")
        await expect(page.get_by_text("No live session.")).to_be_visible()


async def test_cached_decisions_are_forgotten_when_somebody_is_named(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await sign_in(page, site, "#/sessions", token="operate")
        card = page.locator("section", has=page.get_by_role("heading", name="Cached decisions of Access"))
        await card.get_by_role("button").click()
        await expect(card.get_by_role("alert")).to_contain_text("Name a subject, a workspace, or both.")
        await card.get_by_label("Subject").fill("ann")
        await card.get_by_role("button").click()
        await _confirm(page, "Forget them")
        await expect(card.get_by_role("status")).to_have_text("Forgot 0 decisions.")
        trail = (await site.control.send("GET", "/v1/audit", token="read")).json()["items"]
        assert [one["action"] for one in trail] == ["decisions.drop"]


@pytest.mark.parametrize(
    ("token", "closed", "may"),
    [
        ("config", "sessions", "This needs a token of the scope read or operate; this one has config."),
        ("operate", "routes", "This needs a token of the scope read or config; this one has operate."),
    ],
)
async def test_a_view_that_the_scope_may_not_read_says_so(browser: Browser, token: str, closed: str, may: str) -> None:
    async with served() as site, visitor(browser, site) as page:
        await sign_in(page, site, f"#/{closed}", token=token)
        await expect(page.get_by_role("alert")).to_contain_text("This token may not do that")
        await expect(page.get_by_role("alert")).to_contain_text(may)
        await expect(page.get_by_role("link", name=re.compile("not with this token")).first).to_be_visible()


async def test_a_token_that_only_reads_sees_sessions_and_cannot_end_them(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.session("ann")
        await sign_in(page, site, "#/sessions", token="read")
        await expect(page.get_by_role("rowheader")).to_have_text(["ann"])
        buttons = page.get_by_role("main").get_by_role("button", name=re.compile("^(Revoke|Forget)"))
        await expect(buttons).to_have_count(3)
        for button in await buttons.all():
            await expect(button).to_be_disabled()
            await expect(button).to_have_accessible_name(re.compile("needs a token with the scope operate"))


async def test_replicas_are_followed_until_they_serve_the_new_revision(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await site.publish(route_table("shop"))
        state = site.control.state
        await state.beat("gateway-a", 2, "", 60_000)
        await state.beat("gateway-b", 1, "routes[0].upstream: is no URL", 60_000)
        await state.beat("gateway-c", 0, "", 60_000)
        await sign_in(page, site, "#/replicas?revision=2", token="operate")
        await expect(
            page.get_by_role("main").get_by_text("1 of 3 replicas serve revision 2. 1 replica reports an error.")
        ).to_be_visible()
        rows = page.get_by_role("row")
        await expect(rows.nth(1)).to_contain_text("up to date")
        await expect(rows.nth(2)).to_contain_text("1 revision")
        await expect(rows.nth(2)).to_contain_text("routes[0].upstream: is no URL")
        await expect(rows.nth(3)).to_contain_text("its file")
        await state.beat("gateway-b", 2, "", 60_000)
        await state.beat("gateway-c", 2, "", 60_000)
        await expect(page.get_by_role("main").get_by_text("All 3 replicas serve revision 2.")).to_be_visible()
        await expect(page.locator("#live")).to_have_text("All 3 replicas serve revision 2.")


async def test_replicas_are_not_asked_for_while_nobody_looks(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/replicas")
        await page.clock.install()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "replicas" in request.url else None)
        await page.reload()
        await page.get_by_label("Token").fill("")
        await sign_in(page, site, "#/replicas")
        await expect(page.get_by_role("main").get_by_text("No gateway is known.")).to_be_visible()
        await page.evaluate(HIDE, True)
        await page.clock.run_for(10_000)
        while_hidden = len(asked)
        await page.clock.run_for(60_000)
        assert len(asked) == while_hidden
        async with page.expect_request("**/v1/replicas"):
            await page.evaluate(HIDE, False)


async def test_what_stands_there_is_marked_as_old_while_the_state_is_away(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await site.control.state.beat("gateway-a", 1, "", 60_000)
        await sign_in(page, site, "#/replicas")
        await expect(page.get_by_role("main").get_by_text("The one replica serves revision 1.")).to_be_visible()
        away = {"status": 503, "json": {"error": "state_unavailable", "message": "The state is away."}}
        await page.route("**/v1/replicas", lambda route: route.fulfill(**away))  # type: ignore[arg-type]
        await expect(page.get_by_text("stale")).to_be_visible()
        await expect(page.get_by_role("rowheader")).to_have_text(["gateway-a"])
        await page.unroute("**/v1/replicas")
        await expect(page.get_by_text("stale")).to_be_hidden()


async def test_the_audit_trail_is_filtered_and_its_address_can_be_kept(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        for number in range(3):
            await site.publish(route_table(f"route-{number}"))
        await site.control.send("DELETE", "/v1/sessions?subject=ann", token="operate")
        await sign_in(page, site, "#/audit", token="read")
        rows = page.get_by_role("rowheader")
        await expect(rows).to_have_count(4)
        await page.get_by_label("Action").select_option("sessions.revoke")
        await page.get_by_role("button", name="Filter").click()
        await expect(rows).to_have_count(1)
        row = page.get_by_role("row").nth(1)
        for text in ("sessions.revoke", "ann", "operate-operator"):
            await expect(row).to_contain_text(text)
        await expect(page).to_have_url(re.compile(r"#/audit\?action=sessions.revoke$"))
        await page.get_by_role("button", name="Clear").click()
        await expect(rows).to_have_count(4)
        await page.get_by_label("Operator").fill("nobody")
        await page.get_by_role("button", name="Filter").click()
        await expect(page.get_by_text("No entry.")).to_be_visible()
        await page.goto(f"{site.url}/console#/audit?operator=config-operator")
        await expect(rows).to_have_count(3)
        await expect(page.get_by_label("Operator")).to_have_value("config-operator")


async def test_times_of_the_filter_are_the_readers_own(browser: Browser) -> None:
    async with served() as site:
        await site.publish(route_table("before"))
        site.control.time.pass_s(3_600)
        await site.publish(route_table("after"))
        async with visitor(browser, site) as page:
            await sign_in(page, site, "#/audit")
            rows = page.get_by_role("rowheader")
            await expect(rows).to_have_count(2)
            newest = await page.locator("tbody time").first.get_attribute("datetime")
            local = await page.evaluate(LOCAL, newest)
            await page.get_by_label("From", exact=True).fill(local)
            await page.get_by_role("button", name="Filter").click()
            await expect(rows).to_have_count(1)
            await page.get_by_label("From", exact=True).fill("")
            await page.get_by_label("Before").fill(local)
            await page.get_by_role("button", name="Filter").click()
            await expect(rows).to_have_count(1)
            await expect(page.get_by_role("row").nth(1)).to_contain_text("revision 1")


async def test_a_long_trail_is_paged_and_an_empty_page_is_not_the_end(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        for number in range(60):
            await site.publish(route_table(f"route-{number}"))
        await sign_in(page, site, "#/audit", token="read")
        rows = page.get_by_role("rowheader")
        await expect(rows).to_have_count(50)
        await page.get_by_role("button", name="Load more").click()
        await expect(rows).to_have_count(60)
        entry: Any = (await site.control.send("GET", "/v1/audit", token="read")).json()["items"][0]
        pages = {"1": "2", "2": "3", "3": None}

        async def answer(route: Any) -> None:
            at = re.search(r"cursor=(\d)", route.request.url)
            here = at[1] if at else "1"
            await route.fulfill(json={"items": [entry] if here == "3" else [], "nextCursor": pages[here]})

        await page.route("**/v1/audit?*", answer)
        await page.get_by_role("button", name="Filter").click()
        await expect(rows).to_have_count(1)
